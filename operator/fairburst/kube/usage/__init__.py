"""Capacity, use and demand: nodes, pods, controllers."""
