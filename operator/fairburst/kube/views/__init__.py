"""A decision as users read it: status, conditions."""
