"""Why capacity is idle: each round's idle capacity by cause. Pure; a view of the decision, which it does not change."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.kube.usage.pod_usage import NamespaceUsage
from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.model import ClusterSnapshot, RoundResult
from fairburst.policy.table import ARMED, OPEN, OVERDUE, Columns


class IdleCause(enum.Enum):
    """Who has to act before idle capacity is used, those that are nearest to its use first.

    UNBOUND: kube-scheduler; pods wait for a node. GATED: fairburst; pods have their room, and their gate is still there. BURST: the
    controllers of a latency queue in its window; it has the room, and its pods do not exist yet. UNCREATED: the same of any other queue,
    or its Jobs are still suspended. KEPT: queues want it and may not have it; it is kept for a burst to come, for small jobs or by limits,
    or it is less than a pod. UNWANTED: no queue wants it.
    """

    UNBOUND = "unbound"
    GATED = "gated"
    BURST = "burst"
    UNCREATED = "uncreated"
    KEPT = "kept"
    UNWANTED = "unwanted"


@dataclass(frozen=True, slots=True, eq=False)
class UnboundPods:
    """(N, K) requests, in resource units, of the N queues' pods that have no node: of those that may run, and of those behind our gate."""

    released: FloatArray
    gated: FloatArray

    def note(self, row: int, resources: Sequence[str], pods: NamespaceUsage) -> None:
        """Write one queue's row."""
        for column, resource in enumerate(resources):
            gated = pods.gated.get(resource, 0.0)
            self.gated[row, column] = gated
            self.released[row, column] = max(pods.stored.get(resource, 0.0) - pods.bound.get(resource, 0.0) - gated, 0.0)


def idle_room(snapshot: ClusterSnapshot, result: RoundResult, pods: UnboundPods, columns: Columns | None) -> dict[IdleCause, FloatArray]:
    """Return (K,) fractions of the live capacity that are idle, by cause; their sum is all that is idle. O(N K).

    A cause gets no more than the ones before it leave: pods that may run are counted in full, also those beyond their queue's allocation.
    columns: the memory of the queues after the round. A resource without capacity has no idle part.
    """
    usage, allocation = snapshot.usage, result.allocation
    lacking = np.maximum(np.minimum(allocation, snapshot.demand) - usage - pods.released, 0.0)
    gated = np.minimum(lacking, pods.gated)
    uncreated = lacking - gated
    bursts = _in_window(columns, len(usage))
    wanted = {
        IdleCause.UNBOUND: pods.released.sum(axis=0),
        IdleCause.GATED: gated.sum(axis=0),
        IdleCause.BURST: uncreated[bursts].sum(axis=0),
        IdleCause.UNCREATED: uncreated[~bursts].sum(axis=0),
        IdleCause.KEPT: np.maximum(snapshot.demand - np.maximum(allocation, usage), 0.0).sum(axis=0),
    }
    capacity = snapshot.live_capacity
    left = np.maximum(capacity - usage.sum(axis=0), 0.0)
    found = dict[IdleCause, FloatArray]()
    for cause, amount in wanted.items():
        found[cause] = np.minimum(left, amount)
        left = left - found[cause]
    found[IdleCause.UNWANTED] = left
    return {cause: np.divide(amount, capacity, out=np.zeros_like(amount), where=capacity > 0) for cause, amount in found.items()}


def _in_window(columns: Columns | None, queues: int) -> BoolArray:
    """Return (N,) which queues are in their windows."""
    if columns is None:
        return np.zeros(queues, dtype=bool)
    state = columns.state
    return np.asarray((state == ARMED) | (state == OPEN) | (state == OVERDUE), dtype=bool)
