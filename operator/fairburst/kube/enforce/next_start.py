"""The need of a queue's next work that starts whole: a held Job in Suspend mode, a group of pods in Gate mode. Pure.

Where a queue's share is too small for it, the core raises the queue's level to this need in turns (docs/decisions/0256).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.kube.enforce.gate import UngatePlanner
from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.kube.usage.gated_pods import GatedPods, PodGroup
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.usage.pod_usage import RequestVector
from fairburst.kube.workloads.registry import KINDS
from fairburst.policy.arrays import FloatArray
from fairburst.policy.drf import dominant_share
from fairburst.policy.model import ClusterSnapshot

_NOTHING = 1e-3  # levels are in thousandths


@dataclass(frozen=True, slots=True)
class WholeWork:
    """The work of a queue that waits to start whole, in resource units.

    needs: (M, K) requests of each part that may start. waits: (K,) requests of all parts, also of incomplete ones. successors: (K,)
    requests of the missing pods of started work that replace ended ones.
    """

    needs: FloatArray
    waits: FloatArray
    successors: FloatArray

    def smallest(self, capacity: FloatArray, limits: Mapping[str, float], resources: Sequence[str]) -> FloatArray | None:
        """Return the least need, by dominant share, that fits the pool (K,) and the queue's limits by resource; None if none does."""
        most = np.minimum(capacity, [limits.get(name, math.inf) for name in resources])
        possible = self.needs[self.needs.any(axis=1) & (self.needs <= most).all(axis=1)]
        return possible[int(np.argmin(dominant_share(possible, capacity)))] if len(possible) else None


def held_jobs(demand: NamespaceDemand, resources: Sequence[str]) -> WholeWork | None:
    """Return the held Jobs and JobSets of a namespace; None if it has other work, which uses any share."""
    if None in demand.created or not all(KINDS[one.owner.kind].suspends for one in demand.desired_pods):
        return None
    needs = np.array([[one.need.get(name, 0.0) for name in resources] for one in demand.held]).reshape(-1, len(resources))
    may_start = np.array([one.has_node for one in demand.held], dtype=bool)
    successors = np.zeros(len(resources))
    for one in demand.lacking:
        if count := one.successors:
            successors += count * np.array([one.requests.get(name, 0.0) for name in resources])
    return WholeWork(needs[may_start], needs.sum(axis=0), successors)


def gated_groups(namespace: str, gated: GatedPods, pods: PodIndex, fits: Callable[[RequestVector], bool]) -> WholeWork | None:
    """Return the groups of a namespace behind our gate; None if it has none, or other pods, which use any share."""
    groups = gated.groups_of(namespace)
    if not groups or sum(len(group.sizes) for group in groups) != pods.namespace(namespace).pods:
        return None
    needs = np.array([group_need(group, pods) for group in groups]).reshape(-1, len(pods.resources))
    may_start = np.array([group.waits_whole and all(fits(pods.requests(key)) for key in group.gated) for group in groups], dtype=bool)
    return WholeWork(needs[may_start], needs.sum(axis=0), np.zeros(len(pods.resources)))  # existing successors wait in `gated`


def group_need(group: PodGroup, pods: PodIndex) -> FloatArray:
    """Return the sum of the requests of the group's gated pods, (K,) resource units."""
    requests = np.array([pods.requests(key) for key in group.gated], dtype=np.float64).reshape(-1, len(pods.resources))
    need: FloatArray = requests.sum(axis=0) / 1000
    return need


def next_start(
    work: WholeWork, demand: FloatArray, usage: FloatArray, granted: FloatArray | None, capacity: FloatArray, limits: Mapping[str, float],
    resources: Sequence[str],
) -> tuple[FloatArray | None, bool]:  # fmt: skip
    """Return the need of a queue's next start beyond its `usage`, and whether that start has begun.

    The need is that of started work that lacks pods, else that of the smallest part; None if no waiting work may have a turn. A start has
    begun as long as pods of it have never existed: work whose pods end and have successors gets those by its queue's share. demand, usage:
    (K,) resource units. granted: (K,) use up to which the core let work start; None if it let none. capacity: (K,) part of the pool that a
    turn may take.
    """
    lacking = np.maximum(demand - work.waits - usage, 0.0)
    if granted is not None:
        begun = np.minimum(lacking - work.successors, np.minimum(granted, capacity) - usage)
        if (begun > _NOTHING).any():
            return np.maximum(begun, 0.0), True
    if (lacking > _NOTHING).any():
        return lacking, False
    return work.smallest(capacity, limits, resources), False


def highest_level(row: int, level: FloatArray, work: WholeWork | None, snapshot: ClusterSnapshot) -> list[float]:
    """Return the level that a queue has now or in the turn of its next start, (K,) resource units. `work`: None where it has no turns."""
    if work is not None:
        smallest = work.smallest(snapshot.live_capacity, snapshot.queues[row].limits, snapshot.resources)
        level = level if smallest is None else np.maximum(level, smallest)
    highest: list[float] = level.tolist()
    return highest


def whole_work(holds: str | None, space: str, demand: NamespaceDemand, gates: UngatePlanner, pods: PodIndex) -> WholeWork | None:
    """Return the work of a space that waits to start whole; None if the space has other work. `holds`: as Mode.holds."""
    if holds == "Jobs":
        return held_jobs(demand, pods.resources)
    return gated_groups(space, gates.gated, pods, gates.fits) if holds == "Pods" else None
