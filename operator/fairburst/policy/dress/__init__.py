"""DRESS: a reserve for small jobs that adapts, from demand categories and an estimate of what running jobs will release."""
