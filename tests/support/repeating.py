"""Actions that repeat while a test runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from e2e.waiting import PATIENCE_SECONDS


@contextmanager
def repeating(action: Callable[[], object], seconds: float) -> Iterator[None]:
    """Call `action` in a thread, so many seconds apart, for as long as the block runs. Its first error ends the thread."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.wait(seconds):
            action()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_SECONDS)
