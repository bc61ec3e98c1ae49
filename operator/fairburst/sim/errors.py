"""What can go wrong in the simulator.

SimulationError
    TraceError       a trace can't be used
    ScenarioError    a scenario can't be run
"""

from __future__ import annotations


class SimulationError(Exception):
    """Root of the simulator's errors."""


class TraceError(SimulationError):
    """A trace can't be used. The message names file and line (where there is one), what was expected and what was found."""


class ScenarioError(SimulationError):
    """A scenario can't be run. The message says what was expected, what was found and for which object."""
