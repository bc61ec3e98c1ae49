"""The reserve for small jobs on the cluster: the queues that keep one, the jobs part of the snapshot, the quotas that divide a level.

The core (policy/dress) decides the size of the reserve. This module turns it into a division of levels by priority class, and into the
figures that users read. It is not called if the configuration keeps no reserve.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from fairburst.config import Config
from fairburst.kube.api.objects import Pod
from fairburst.kube.api.quota_objects import ResourceQuota
from fairburst.kube.enforce.division import Division
from fairburst.kube.enforce.pod_priority import small_pod_priority
from fairburst.kube.enforce.quota_plan import QuotaKey, pool_of
from fairburst.kube.enforce.quota_scope import leaves_to
from fairburst.kube.enforce.suspend import LevelParts
from fairburst.kube.jobs.job_index import JobIndex
from fairburst.kube.jobs.job_part import JobPartBuilder, NamespaceJobs, too_large
from fairburst.kube.jobs.job_table import JobTable
from fairburst.kube.names import OTHER_QUOTAS, QUOTA_NAME
from fairburst.kube.queues.objects import ThroughputQueue
from fairburst.kube.queues.queue_set import QueueEntry, QueueSet
from fairburst.kube.queues.spaces import UNDIVIDED, Spaces
from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.dress.values import JobsPart, keep_seconds
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, RoundResult

# Where jobs of one size come and go, removing and recreating the division would cost more writes than keeping the quotas.
DIVIDED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ReserveView:
    """The small jobs of a queue, for its status. `threshold` and `level` in resource units, `ratio` a fraction of the elastic pool.

    `small_pod_priority` is None if no priority class is set on pods.
    """

    small_pod_priority: Mapping[str, Any] | None
    threshold: Mapping[str, float]
    ratio: float
    level: FloatArray
    small_jobs: int
    large_jobs: int


@dataclass(slots=True)
class Reserve:
    """The state that the reserve keeps between rounds: pods as tasks, and each namespace's jobs until a change there."""

    config: Config
    index: JobIndex
    _builder: JobPartBuilder = field(default_factory=JobPartBuilder)
    _jobs: dict[str, NamespaceJobs] = field(default_factory=dict)
    _both_sizes_at: dict[str, float] = field(default_factory=dict)  # by namespace, when it last had jobs of both sizes
    _entries: dict[str, QueueEntry] = field(default_factory=dict)
    _namespaces: frozenset[str] = frozenset()
    _spaces: Spaces = UNDIVIDED
    _taking_part: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    _missed: bool = False  # changes of pods that were read for other resources
    _table: JobTable | None = None
    _ratio: float = 0.0  # of the last round that divided a level; rounds of an idle cluster divide none

    @classmethod
    def of(cls, config: Config) -> Reserve | None:
        """Return the reserve, or None if the configuration keeps none."""
        dress = config.policy().dress
        return None if dress is None else cls(config, JobIndex(config.pool.counted_resources, keep_seconds(dress)))

    def pod_changed(self, old: Pod | None, new: Pod | None, pods: PodIndex, wall: float, now: float) -> None:
        """Record one change of a pod that `pods` has seen. Nearly free for namespaces that are not followed."""
        pod = new or old
        if pod is None or pods.space_of(pod) not in self.index.followed:
            return
        if pods.resources != self.index.resources:
            self._missed = True
        else:
            self.index.update(old, new, pods.requests_of(pod), wall, now)

    def part(
        self, snapshot: ClusterSnapshot, queue_set: QueueSet, demand: Mapping[str, NamespaceDemand], changed: Collection[str],
        pods: PodIndex, stored_pods: Iterable[Pod], wall: float, now: float, *, moved: bool = True,
    ) -> ClusterSnapshot:  # fmt: skip
        """Return the snapshot with its jobs. `changed`: namespaces changed since the last call; `moved`: queues have changed too."""
        if moved:
            self._entries = {entry.namespace: entry for entry in queue_set.governing if takes_part(entry)}
            self._namespaces = frozenset(self._entries)
            self._taking_part = np.array([takes_part(entry) for entry in queue_set.governing], dtype=np.bool_)
        members = self._entries
        self._follow(self._namespaces, pods, stored_pods, wall, now)
        self.index.expire(now)
        for namespace in self._jobs.keys() - members.keys() if moved else ():
            del self._jobs[namespace]
            self._both_sizes_at.pop(namespace, None)
            self._builder.forget(namespace)
        stale = [namespace for namespace in changed if namespace in members] if len(self._jobs) == len(members) else list(members)
        for namespace in stale:
            if namespace in changed or namespace not in self._jobs:
                self._note_sizes(namespace, now)
                entry = members[namespace]
                threshold = self.threshold(entry, snapshot)
                self._jobs[namespace] = self._builder.jobs_of(namespace, entry.qualified_name, demand[namespace], self.index, threshold)
        if moved or self._table is None or not self._table.follows(stale):
            self._table = JobTable(self._jobs, len(snapshot.resources))
        elif stale:
            self._table.update({namespace: self._jobs[namespace] for namespace in stale})
        jobs = JobsPart(
            pending=self._table.pending,
            running=self._table.running,
            tasks=self.index.tasks(wall, now),
            taking_part=self._taking_part,
        )
        return replace(snapshot, jobs=jobs)

    def _follow(self, namespaces: frozenset[str], pods: PodIndex, stored_pods: Iterable[Pod], wall: float, now: float) -> None:
        if self.index.resources != pods.resources or self._missed:
            self._missed = False
            self.index = self.index.with_resources(pods.resources)
            self._jobs, self._table = {}, None
        if self._spaces is not pods.spaces:  # pods of lanes that came or went are in another space now
            self.index.follow(self.index.followed - pods.spaces.differing(self._spaces), (), wall, now)
            self._spaces = pods.spaces
        if namespaces is not self.index.followed and namespaces != self.index.followed:
            followed = ((pod, pods.requests_of(pod)) for pod in stored_pods if pods.space_of(pod) in namespaces)
            self.index.follow(namespaces, followed, wall, now)
            self._jobs, self._table = {}, None

    def threshold(self, entry: QueueEntry, snapshot: ClusterSnapshot) -> Mapping[str, float]:
        """Return θ x committed capacity by resource, in resource units.

        With the live capacity, a burst or a reboot would change which jobs are small.
        """
        percent = self.config.small_jobs.threshold_percent
        if isinstance(entry.queue, ThroughputQueue) and entry.queue.spec.small_jobs is not None:
            percent = entry.queue.spec.small_jobs.threshold_percent
        return _part_of(tuple(snapshot.committed_capacity.tolist()), snapshot.resources, percent)

    @property
    def divided(self) -> Collection[str]:
        """The namespaces whose levels may be divided: they have jobs of both sizes, or had them lately."""
        return self._both_sizes_at.keys()

    # Quotas ----------------------------------------------------------------------------------------------------------

    def division(self, entry: QueueEntry, row: int, snapshot: ClusterSnapshot, result: RoundResult, now: float) -> Division | None:
        """Return how a queue's level is divided between small jobs and other pods.

        None for a queue without a reserve, and if all jobs are of one size: there is nothing to divide, and kube-controller-manager
        recomputes every quota of a namespace for each pod that ends.
        """
        if not self._is_divided(entry, row, result, now):
            return None
        jobs = self._jobs.get(entry.namespace, NamespaceJobs())
        small = dict(zip(snapshot.resources, _small_level(result, row).tolist(), strict=True))
        return Division(small, self._ratio_of(result), jobs.small_unit, jobs.large_unit, jobs.small_pods, jobs.large_pods)

    def level_parts(self, entry: QueueEntry, row: int, level: FloatArray, result: RoundResult, now: float) -> LevelParts | None:
        """Return how whole Jobs of a queue in Suspend mode share its (K,) level; None if there is nothing to divide.

        The parts bound which Jobs start, so such a queue needs no quota for small ones: it would refuse pods of Jobs that have started.
        """
        if not self._is_divided(entry, row, result, now):
            return None
        small = _small_level(result, row)
        return LevelParts(small.tolist(), np.maximum(level - small, 0.0).tolist(), self.small_owners(entry.namespace))

    def _is_divided(self, entry: QueueEntry, row: int, result: RoundResult, now: float) -> bool:
        """Return whether the queue keeps a reserve and has jobs of both sizes, or had them lately."""
        if not divides(entry, row, result):
            return False
        self._note_sizes(entry.namespace, now)
        if now < self.divided_until(entry.namespace):
            return True
        self._both_sizes_at.pop(entry.namespace, None)
        return False

    def _note_sizes(self, namespace: str, now: float) -> None:
        """Remember that the namespace has jobs of both sizes now, if it has."""
        jobs = self._jobs.get(namespace)
        if jobs is not None and jobs.has_both_sizes:
            self._both_sizes_at[namespace] = now

    def divided_until(self, namespace: str) -> float:
        """Return when the level of the namespace is divided no longer if nothing changes; infinite while it has jobs of both sizes."""
        jobs = self._jobs.get(namespace)
        if jobs is not None and jobs.has_both_sizes:
            return math.inf
        return self._both_sizes_at.get(namespace, -math.inf) + DIVIDED_SECONDS

    def small_owners(self, namespace: str) -> frozenset[str]:
        """Return the uids of the controllers in a namespace whose pods are small."""
        return self._jobs.get(namespace, NamespaceJobs()).small_owners

    # Views -----------------------------------------------------------------------------------------------------------

    def view(
        self, entry: QueueEntry, row: int, snapshot: ClusterSnapshot, result: RoundResult, *, observed_only: bool
    ) -> ReserveView | None:
        """Return the view for the queue's status, or None for a queue that keeps no reserve."""
        if not divides(entry, row, result):
            return None
        jobs = self._jobs.get(entry.namespace, NamespaceJobs())
        return ReserveView(
            small_pod_priority=None if observed_only else small_pod_priority(self.config),
            threshold=self.threshold(entry, snapshot),
            ratio=self._ratio_of(result),
            level=_small_level(result, row),
            small_jobs=jobs.small_count,
            large_jobs=jobs.large_count,
        )

    def _ratio_of(self, result: RoundResult) -> float:
        if result.reserve_ratio is not None:
            self._ratio = result.reserve_ratio
        return self._ratio

    def too_large(self, entry: QueueEntry, snapshot: ClusterSnapshot) -> list[str] | None:
        """Return a sentence for each of the queue's jobs that can never run whole at one time; None for a queue that keeps no reserve."""
        jobs = self._jobs.get(entry.namespace)
        if jobs is None or not takes_part(entry):
            return None
        capacity = np.maximum(snapshot.committed_capacity, snapshot.live_capacity)
        return too_large((*jobs.pending, *jobs.running), snapshot.resources, capacity)


@functools.lru_cache(maxsize=64)
def _part_of(capacity: tuple[float, ...], resources: tuple[str, ...], percent: float) -> Mapping[str, float]:
    """Return that part of the capacity by resource. Most queues have the same threshold."""
    return MappingProxyType({resource: amount * percent / 100 for resource, amount in zip(resources, capacity, strict=True)})


def takes_part(entry: QueueEntry) -> bool:
    """Return whether the queue keeps a reserve for its small jobs: throughput queues do unless they say Off (as written, also in an invalid
    edit). Further queues of a namespace keep none: the class of their pods says which queue these belong to, not their Job's size.
    """
    return _asks_for_one(entry) and entry.lane is None


def lacks_reserve(entry: QueueEntry) -> bool:
    """Return whether the queue would keep a reserve if it were the default queue of its namespace."""
    return _asks_for_one(entry) and entry.lane is not None and not entry.mode.unlimited


def _asks_for_one(entry: QueueEntry) -> bool:
    return entry.key[0] == "ThroughputQueue" and entry.obj["spec"].get("reserve") != "Off"


def divides(entry: QueueEntry, row: int, result: RoundResult) -> bool:
    """Return whether the queue's level is divided in this round: it keeps a reserve and has been admitted."""
    return takes_part(entry) and result.classes[row] is GuaranteeClass.ELASTIC


def _small_level(result: RoundResult, row: int) -> FloatArray:
    """Return (K,) the level for small jobs; zeros if the round divided nothing."""
    return np.zeros(result.level.shape[1]) if result.small_level is None else result.small_level[row]


def left_over(
    quotas: Mapping[QuotaKey, ResourceQuota], keys: Collection[QuotaKey], wanted: Collection[QuotaKey], pool: str,
    *, within: Collection[str] = (),
) -> list[QuotaKey]:  # fmt: skip
    """Return those of `keys` that are quotas of this pool, other than the namespace quota, and not wanted, in order.

    Each stays until the namespace quota counts its pods. `within`: the pool's namespaces, in which all are the pool's: one without a label
    has lost it, and the operator of a former pool need not run any more.
    """
    others = (key for key in keys if key[1] in OTHER_QUOTAS and key not in wanted)
    found = (key for key in others if pool_of(quotas[key]) == pool or key[0] in within)
    return sorted((space, name) for space, name in found if not leaves_to(quotas.get((space, QUOTA_NAME)), name))
