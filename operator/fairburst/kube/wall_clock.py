"""Detect steps of the wall clock, by comparison with the monotonic clock."""

from __future__ import annotations

SMALLEST_STEP_SECONDS = 2.0  # a smaller difference is slewing, which makes an account wrong by no more than that


class WallClock:
    """Compares the two clocks from one round to the next."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def step(self, wall: float, now: float) -> float:
        """Return the seconds by which the wall clock stepped since the last call, positive if forward; 0 without a step."""
        last, self._last = self._last, (wall, now)
        if last is None:
            return 0.0
        step = (wall - last[0]) - (now - last[1])
        return step if abs(step) >= SMALLEST_STEP_SECONDS else 0.0
