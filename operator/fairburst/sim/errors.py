"""Errors of the simulator.

SimulationError
    TraceError       a trace cannot be used
    ScenarioError    a scenario cannot be run
"""

from __future__ import annotations


class SimulationError(Exception):
    """Base of the simulator's errors."""


class TraceError(SimulationError):
    """A trace cannot be used. The message names file and line (if there is one), what was expected and what was found."""


class ScenarioError(SimulationError):
    """A scenario cannot be run. The message says what was expected, what was found and for which object."""
