"""Waiting for something to become true, with a deadline and a message. Polls; never sleeps for a guess."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

POLL_SECONDS = 0.1
# For what happens in a second or two on an idle machine and is not itself the claim: long enough for two cores shared with other work.
PATIENCE_SECONDS = 60.0


class NotInTimeError(AssertionError):
    """It did not become true; the message says what, and how long it was waited for."""


def until(check: Callable[[], Answer | None], seconds: float, what: str) -> Answer:
    """The first answer of `check` that is true. `what` completes "waited for ..."."""
    deadline = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        answer = check()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise NotInTimeError(f"waited {seconds:g} s for {what}; last answer {answer!r}")
        # Twice as long as the question took: one that starts a kubectl would else hold a core that what is waited for needs.
        time.sleep(max(POLL_SECONDS, 2 * (time.monotonic() - asked)))
