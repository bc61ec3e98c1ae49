"""Forecasts of when waiting work starts: what the operator asks its forecaster, a process beside it, and what it does with the answers."""
