"""Measured sizes of each latency queue's last bursts: the used part of the declared demand, and the size of the pods.

The condition Attainable is estimated from them. They are lost at a restart.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.policy.arrays import FloatArray
from fairburst.policy.attainability import PortLimit

BURSTS = 10


class BurstSizes:
    """Bounded memory: ten numbers, one pod's size and one limit by host ports for each queue."""

    def __init__(self) -> None:
        self._fractions: dict[str, deque[float]] = {}
        self._units: dict[str, FloatArray] = {}
        self._limits: dict[str, tuple[str, int, PortLimit]] = {}

    def ended(self, queue: str, delivered: float, declared: float) -> None:
        """Note a finished burst: it used `delivered` of `declared`, dominant-share-seconds."""
        if declared > 0:
            self._fractions.setdefault(queue, deque(maxlen=BURSTS)).append(min(1.0, delivered / declared))

    def fraction(self, queue: str) -> float | None:
        """Return the largest part of the declared demand that a recent burst used, in [0, 1]; None before the first."""
        return max(self._fractions.get(queue, ()), default=None)

    def unit(self, queue: str, now: FloatArray) -> FloatArray:
        """Return the (K,) size of the queue's largest pod: `now`, or the last one seen if it has none; zeros before the first."""
        if now.any():
            self._units[queue] = now
        known = self._units.get(queue)
        return now if known is None or known.shape != now.shape else known

    def port_limit(self, queue: str, now: NamespaceDemand, nodes: int) -> PortLimit | None:
        """Return how few of the queue's pods can run at a time for their host ports: now, or for its last work if it has none or the rest
        of that. nodes: the number of the pool's; with another number the last answer does not hold any more."""
        alone, newest = now.port_limit(alone=True), max(filter(None, now.created), default="")
        known = self._limits.get(queue)
        if alone is not None:
            known = self._limits[queue] = newest, nodes, alone
        elif known is not None and (known[1] != nodes or newest > known[0]):
            del self._limits[queue]
            known = None
        return now.port_limit() or (known[2] if known is not None else None)

    def keep(self, queues: set[str]) -> None:
        """Drop queues that are gone."""
        for gone in (self._fractions.keys() | self._units.keys() | self._limits.keys()) - queues:
            self._fractions.pop(gone, None)
            self._units.pop(gone, None)
            self._limits.pop(gone, None)


def pods_of(rate: FloatArray, unit: FloatArray) -> float:
    """Return how many pods of the (K,) size `unit` run at a time at the (K,) `rate`; 0 where no pod has been seen, else at least one."""
    sized = (rate > 0) & (unit > 0)
    return max(1.0, float(np.floor(np.min(rate[sized] / unit[sized]) + 1e-9))) if sized.any() else 0.0
