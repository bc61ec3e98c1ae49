"""Forecasts of when waiting work starts: the operator's questions to its forecaster, a separate process, and the use of the answers."""
