"""A decision in the form that users read: status and conditions."""
