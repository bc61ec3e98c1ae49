"""What a queue needs to start the next of its work that starts whole: held Jobs in Suspend mode, groups of pods in Gate mode. Pure.

Where a queue's share does not hold it, the core raises the queue's level to it in turns (docs/decisions/0256).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.kube.usage.gated_pods import GatedPods, PodGroup
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.workloads.registry import KINDS
from fairburst.policy.arrays import FloatArray
from fairburst.policy.drf import dominant_share
from fairburst.policy.model import ClusterSnapshot

_NOTHING = 1e-3  # levels are in thousandths


@dataclass(frozen=True, slots=True)
class WholeWork:
    """The work of a queue that waits to start whole: (M, K) what each part that may start `needs` at once, and (K,) what all of it `waits`
    for, also parts that are not complete. Resource units."""

    needs: FloatArray
    waits: FloatArray

    def smallest(self, capacity: FloatArray, limits: Mapping[str, float], resources: Sequence[str]) -> FloatArray | None:
        """Return the least need, by dominant share, of those that the pool (K,) and the queue's limits, by resource, can hold."""
        most = np.minimum(capacity, [limits.get(name, math.inf) for name in resources])
        possible = self.needs[self.needs.any(axis=1) & (self.needs <= most).all(axis=1)]
        return possible[int(np.argmin(dominant_share(possible, capacity)))] if len(possible) else None


def held_jobs(demand: NamespaceDemand, resources: Sequence[str]) -> WholeWork | None:
    """Return the held Jobs and JobSets of a namespace; None where other work is beside them, which uses any share."""
    if None in demand.created or not all(KINDS[one.owner.kind].suspends for one in demand.desired_pods):
        return None
    needs = np.array([[one.need.get(name, 0.0) for name in resources] for one in demand.held]).reshape(-1, len(resources))
    return WholeWork(needs, needs.sum(axis=0))


def gated_groups(namespace: str, gated: GatedPods, pods: PodIndex) -> WholeWork | None:
    """Return the groups of a namespace behind our gate; None where it has other pods, which use any share."""
    groups = gated.groups_of(namespace)
    if sum(len(group.sizes) for group in groups) != pods.namespace(namespace).pods:
        return None
    needs = np.array([group_need(group, pods) for group in groups]).reshape(-1, len(pods.resources))
    may_start = np.array([group.waits_whole for group in groups], dtype=bool)
    return WholeWork(needs[may_start], needs.sum(axis=0))


def group_need(group: PodGroup, pods: PodIndex) -> FloatArray:
    """Return what the group's gated pods need at once, (K,) resource units."""
    requests = np.array([pods.requests(key) for key in group.gated], dtype=np.float64).reshape(-1, len(pods.resources))
    need: FloatArray = requests.sum(axis=0) / 1000
    return need


def next_start(
    work: WholeWork, demand: FloatArray, usage: FloatArray, granted: FloatArray | None, capacity: FloatArray, limits: Mapping[str, float],
    resources: Sequence[str],
) -> tuple[FloatArray | None, bool]:  # fmt: skip
    """Return what a queue needs beyond its `usage` for its next start, and whether this has begun: what has been started and lacks pods,
    else the smallest part.

    demand, usage: (K,) resource units; granted: the use up to which the core let a start begin; None: it let none. capacity: the same of
    the part of the pool that a turn may take. A need of None: nothing waits that may have a turn.
    """
    lacking = np.maximum(demand - work.waits - usage, 0.0)
    if granted is not None:
        begun = np.minimum(lacking, np.maximum(granted - usage, 0.0))
        if (begun > _NOTHING).any():
            return begun, True
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


def whole_work(holds: str | None, space: str, demand: NamespaceDemand, gated: GatedPods, pods: PodIndex) -> WholeWork | None:
    """Return the work of a space that waits to start whole; None where other work is beside it. `holds`: as Mode.holds."""
    if holds == "Jobs":
        return held_jobs(demand, pods.resources)
    return gated_groups(space, gated, pods) if holds == "Pods" else None
