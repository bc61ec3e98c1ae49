"""What the last bursts of each latency queue really were: how much of the declared demand they took, in pods of which size.

Decides nothing; the condition Attainable is estimated from it. Forgotten at a restart: the declared demand then counts in full.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from fairburst.policy.model import FloatArray

BURSTS = 10


class BurstSizes:
    """Bounded memory: ten numbers and one pod's size a queue."""

    def __init__(self) -> None:
        self._fractions: dict[str, deque[float]] = {}
        self._units: dict[str, FloatArray] = {}

    def ended(self, queue: str, delivered: float, declared: float) -> None:
        """A burst was judged: it had used `delivered` of `declared`, dominant-share-seconds."""
        if declared > 0:
            self._fractions.setdefault(queue, deque(maxlen=BURSTS)).append(min(1.0, delivered / declared))

    def fraction(self, queue: str) -> float:
        """Largest part of the declared demand that a recent burst took, in [0, 1]; 1 before the first."""
        return max(self._fractions.get(queue, ()), default=1.0)

    def pods(self, queue: str, rate: FloatArray, unit: FloatArray) -> float:
        """Pods of the queue's size that the (K,) `rate` is; `unit` (K,) is its largest pod now, zeros while it has none."""
        if unit.any():
            self._units[queue] = unit
        known = self._units.get(queue)
        if known is None or known.shape != rate.shape:
            return 0.0
        sized = (rate > 0) & (known > 0)
        return float(np.max(np.ceil(rate[sized] / known[sized]), initial=0.0))

    def keep(self, queues: set[str]) -> None:
        """Drop queues that are gone."""
        for gone in (self._fractions.keys() | self._units.keys()) - queues:
            self._fractions.pop(gone, None)
            self._units.pop(gone, None)
