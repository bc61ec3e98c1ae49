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
        answer = check()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise NotInTimeError(f"waited {seconds:g} s for {what}; last answer {answer!r}")
        time.sleep(POLL_SECONDS)
