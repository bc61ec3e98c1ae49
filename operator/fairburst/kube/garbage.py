"""Short garbage collections in a process that holds very much.

A full collection of CPython walks through all objects while no thread runs: a quarter of a second with 2,000 queues, every few seconds, and
seldom finds any of them. Here the survivors of a full collection are left out of the next ones, which look only at what is new. Objects
that are in no circle of references are freed at once in any case. All objects are looked at once an hour, and when there is twice as much
memory: circles that ended after a collection had left them out are found then.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Iterator, Mapping

WHOLE_SECONDS = 3600.0
GROWTH = 2.0
FULL = 2  # the generation of a full collection


@contextlib.contextmanager
def short_collections() -> Iterator[None]:
    """Collect like this inside. The present objects, modules for the most part, are left out at first."""
    callback = _Collections()
    gc.freeze()
    gc.callbacks.append(callback)
    try:
        yield
    finally:
        gc.callbacks.remove(callback)
        gc.unfreeze()


class _Collections:
    """A callback of `gc`."""

    def __init__(self) -> None:
        self._whole_at = time.monotonic()
        self._blocks = sys.getallocatedblocks()
        self._whole = False

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """Decide on what a full collection looks at before it begins, and leave out its survivors after it."""
        if info["generation"] < FULL:
            return
        if phase == "start":
            self._whole = time.monotonic() - self._whole_at >= WHOLE_SECONDS or sys.getallocatedblocks() >= GROWTH * self._blocks
            if self._whole:
                gc.unfreeze()
            return
        gc.freeze()
        if self._whole:
            self._whole_at, self._blocks = time.monotonic(), sys.getallocatedblocks()
