"""Prometheus metrics and log set-up."""
