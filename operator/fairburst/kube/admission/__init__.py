"""Stamping by webhook, where the API server cannot do it by policy."""
