"""DRESS: an adaptive reserve for small jobs, from demand categories and an estimate of the resources that running jobs will release."""
