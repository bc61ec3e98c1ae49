"""Stand-ins for the module `time`."""

from __future__ import annotations


class Clock:
    """Monotonic time that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now
