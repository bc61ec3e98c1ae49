"""Limits of a forecast's time: processor time, and time by the clock on a busy machine.

A priority is no bound: Linux weighs it within a control group only, so beside the processes of other groups the forecaster would count as
much as they do. A forecast that takes long therefore sleeps between its steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_PROCESSOR_SECONDS = 20.0
MOST_SECONDS = 480.0  # by the clock; the operator waits for longer (kube/forecasts/forecaster.py)

AT_ONCE_SECONDS = 0.25  # a small cluster's forecast is not made late


class OutOfTimeError(Exception):
    """A forward run was given up."""


class Budget:
    """Begins with its creation.

    enough_seconds: of processor time, after which no further run is begun if there are enough of them. pace: seconds of processor time per
    second, after the first `AT_ONCE_SECONDS`.
    """

    def __init__(
        self, enough_seconds: float, pace: float = 1.0, *, processor: Callable[[], float] = time.process_time,
        clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._processor, self._clock, self._sleep = processor, clock, sleep
        self._began, self._began_at = processor(), clock()
        self._enough, self._pace = enough_seconds, pace

    @property
    def spent(self) -> float:
        """Return the processor time since the beginning, in seconds."""
        return self._processor() - self._began

    @property
    def enough(self) -> bool:
        """Return whether as much was spent as is meant for one forecast."""
        return self.spent >= self._enough

    def check(self) -> None:
        """Wait until so much time may have been spent. Raise OutOfTimeError once a run must be given up."""
        spent, elapsed = self.spent, self._clock() - self._began_at
        early = (spent - AT_ONCE_SECONDS) / self._pace - elapsed
        if early > 0:
            self._sleep(min(early, MOST_SECONDS))
            elapsed = self._clock() - self._began_at
        if spent >= MOST_PROCESSOR_SECONDS or elapsed >= MOST_SECONDS:
            raise OutOfTimeError
