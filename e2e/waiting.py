"""Wait for a condition, with a deadline and a message. It polls and never sleeps for a guessed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

POLL_SECONDS = 0.1
# For actions that take a second or two on an idle machine and are not themselves under test: long enough for two shared cores.
PATIENCE_SECONDS = 60.0


class NotInTimeError(AssertionError):
    """A condition did not become true in time. The message names it and the time waited."""


def until(check: Callable[[], Answer | None], seconds: float, what: str) -> Answer:
    """Return the first true answer of `check`. `what` completes "waited for ..."."""
    deadline = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        answer = check()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise NotInTimeError(f"waited {seconds:g} s for {what}; last answer {answer!r}")
        # Twice as long as the check took: a check that starts kubectl would otherwise hold a core that the awaited action needs.
        time.sleep(max(POLL_SECONDS, 2 * (time.monotonic() - asked)))
