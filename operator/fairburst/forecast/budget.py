"""How much time a forecast may take: processor time, and time by the clock on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_PROCESSOR_SECONDS = 20.0
MOST_SECONDS = 120.0  # by the clock; the operator waits for longer (kube/forecasts/forecaster.py)


class OutOfTimeError(Exception):
    """A forward run was given up."""


class Budget:
    """Begins with its creation. enough_seconds: of processor time, after which no further run is begun if there are enough of them."""

    def __init__(
        self, enough_seconds: float, *, processor: Callable[[], float] = time.process_time, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._processor, self._clock = processor, clock
        self._began, self._began_at = processor(), clock()
        self._enough = enough_seconds

    @property
    def spent(self) -> float:
        """Return the processor time since the beginning, in seconds."""
        return self._processor() - self._began

    @property
    def enough(self) -> bool:
        """Return whether as much was spent as is meant for one forecast."""
        return self.spent >= self._enough

    def check(self) -> None:
        """Raise OutOfTimeError once a run must be given up."""
        if self.spent >= MOST_PROCESSOR_SECONDS or self._clock() - self._began_at >= MOST_SECONDS:
            raise OutOfTimeError
