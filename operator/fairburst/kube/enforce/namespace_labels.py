"""The labels of a managed namespace. They bind the API server's admission policies, so that no policy reads a queue for a pod.

`managed`: the namespace is fairburst's. `pool`: the operator that manages it. `pod-priority`: the priority of its new pods. `holds`: the
kind of new objects that wait for a release. `queue-1` and so on: its further queues by lane. `queues-hold`: which of these hold which
kind of new objects. Pure.
docs/decisions/0241-policies-are-bound-by-labels.md gives the reasons.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping

from fairburst.kube.names import HOLDS_LABEL, MANAGED_LABEL, POOL_LABEL, PRIORITY_LABEL
from fairburst.kube.queues.lanes import lane_labels
from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.policy.model import GuaranteeClass

Labels = Mapping[str, str | None]  # None: the label is absent

HARD, SOFT, LARGE = "hard", "soft", "large"
BY_SIZE = "by-size"  # pods of small Jobs get their own priority, the others that of large ones
PRIORITIES = (HARD, SOFT, LARGE, BY_SIZE)
# Where further queues have lanes: pods that ask for one of them get its lane's priority, the others that of the default queue.
BY_QUEUE = {priority: f"{priority}-or-queue" for priority in PRIORITIES}

NO_QUEUE: Labels = {PRIORITY_LABEL: None, HOLDS_LABEL: None, **lane_labels({})}
UNMANAGED: Labels = {MANAGED_LABEL: None, POOL_LABEL: None, **NO_QUEUE}


def pod_priority(guarantee_class: GuaranteeClass | None, *, by_size: bool) -> str:
    """Return the priority of a queue's pods: that of its granted class, never of its window. Rejected queues run in the lowest one."""
    match guarantee_class:
        case GuaranteeClass.HARD:
            return HARD
        case GuaranteeClass.SOFT:
            return SOFT
        case GuaranteeClass.ELASTIC:
            return BY_SIZE if by_size else LARGE
        case None:
            return LARGE


def queue_labels(
    entry: QueueEntry, guarantee_class: GuaranteeClass | None, pool: str, *, by_size: bool, further: Collection[QueueEntry] = ()
) -> Labels:
    """Return the labels of the namespace of a default queue. `by_size`: whether it keeps a reserve for small Jobs. `further`: the further
    queues of the namespace."""
    lanes = {one.key[2]: one.lane for one in further if one.lane is not None}
    holds = {one.key[2]: one.mode.holds for one in further if one.mode.holds is not None}
    priority = pod_priority(guarantee_class, by_size=by_size)
    labels = _labels(pool, BY_QUEUE[priority] if lanes else priority, entry.mode.holds)
    return {**labels, **lane_labels(lanes, holds)} if lanes else labels


@functools.cache  # few different ones, for any number of queues
def _labels(pool: str, priority: str, holds: str | None) -> Labels:
    """Return the labels of a namespace with one queue."""
    return {MANAGED_LABEL: "true", POOL_LABEL: pool, PRIORITY_LABEL: priority, HOLDS_LABEL: holds, **lane_labels({})}


def differing(wanted: Labels, present: Mapping[str, str]) -> Labels:
    """Return the labels that have to change."""
    return {name: value for name, value in wanted.items() if present.get(name) != value}
