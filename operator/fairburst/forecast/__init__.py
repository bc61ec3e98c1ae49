"""Forecasts of when work starts: many runs of the simulator from the present state, with durations drawn from past ones."""
