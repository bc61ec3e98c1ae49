"""Limits of a forecast's time: processor time, and wall time on a busy machine.

The low priority is no limit: Linux applies it within a control group only, so the forecaster would compete equally with processes of other
groups. A long forecast therefore sleeps between its steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_PROCESSOR_SECONDS = 20.0
MOST_SECONDS = 480.0  # of wall time; the operator waits longer (kube/forecasts/forecaster.py)

AT_ONCE_SECONDS = 3.0  # without sleep: a small cluster's forecast, which would otherwise tell of a minute ago


class OutOfTimeError(Exception):
    """The budget does not suffice for this forward run."""


class Budget:
    """The time of one forecast, which begins with the creation of this object.

    enough_seconds: processor time after which no further run starts if enough have ended. pace: seconds of processor time per second, after
    the first `AT_ONCE_SECONDS`.
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
        """Return whether the processor time meant for one forecast is spent."""
        return self.spent >= self._enough

    def check(self) -> None:
        """Sleep until the pace allows the time spent so far. Raise OutOfTimeError at the limits of a forecast."""
        spent, elapsed = self.spent, self._clock() - self._began_at
        early = (spent - AT_ONCE_SECONDS) / self._pace - elapsed
        if early > 0:
            self._sleep(min(early, MOST_SECONDS))
            elapsed = self._clock() - self._began_at
        if spent >= MOST_PROCESSOR_SECONDS or elapsed >= MOST_SECONDS:
            raise OutOfTimeError
