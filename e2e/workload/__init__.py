"""Workloads for the cluster tests and the demo: traces, generators, a driver that submits them as Jobs, and metrics of its records."""
