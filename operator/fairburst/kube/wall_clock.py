"""The time that rounds decide by: the wall clock, except for a while after it has stepped against the monotonic clock.

A clock that is wrong for some seconds and is then set right would turn the arrivals that have dates in between into missed bursts. So a
step is followed only once it has lasted.
"""

from __future__ import annotations

SMALLEST_STEP_SECONDS = 2.0  # a smaller difference is slewing, which makes an account wrong by no more than that
DOUBT_SECONDS = 60.0  # for which a step is not followed


class WallClock:
    """Compares the two clocks from one round to the next. `ahead`: seconds by which the wall clock is ahead of the time in use."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._last: tuple[float, float] | None = None
        self._doubted_since = 0.0

    def read(self, wall: float, now: float) -> tuple[float, float]:
        """Return the time to decide by, and the seconds by which it steps now: positive if forward, 0 without a step."""
        expected = wall if self._last is None else self._last[0] + now - self._last[1]
        former, self.ahead = self.ahead, wall - expected
        if abs(self.ahead) < SMALLEST_STEP_SECONDS:
            self.ahead = 0.0
        elif abs(self.ahead - former) >= SMALLEST_STEP_SECONDS:
            self._doubted_since = now
        step = self.ahead if now - self._doubted_since >= DOUBT_SECONDS else 0.0
        self.ahead -= step
        self._last = (wall - self.ahead, now)
        return wall - self.ahead, step
