"""The reserve for small jobs on the cluster: the queues that keep one, the jobs part of the snapshot, the quotas that divide a level.

The core (policy/dress) decides the size of the reserve. This module turns it into quotas by priority class below the namespace quota, and
into the figures that users read. It is not called if the configuration keeps no reserve.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairburst.config import Config, natural_units
from fairburst.kube.api.objects import Pod
from fairburst.kube.api.quota_objects import ResourceQuota
from fairburst.kube.enforce.pod_priority import small_pod_priority
from fairburst.kube.enforce.quota_plan import SCOPES, QuotaKey, QuotaTarget, pool_of
from fairburst.kube.enforce.suspend import LevelParts
from fairburst.kube.jobs.job_index import JobIndex
from fairburst.kube.jobs.job_part import JobPartBuilder, NamespaceJobs, too_large
from fairburst.kube.jobs.job_table import JobTable
from fairburst.kube.names import CLASS_OF, LARGE_QUOTA, OTHER_QUOTAS, SMALL_QUOTA
from fairburst.kube.queues.objects import ThroughputQueue
from fairburst.kube.queues.queue_set import QueueEntry, QueueSet
from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.usage.pod_usage import ClassUsage
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
        if pod is None or pod.metadata.namespace not in self.index.followed:
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
            self._taking_part = np.array([entry.namespace in self._entries for entry in queue_set.governing], dtype=np.bool_)
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
        if namespaces is not self.index.followed and namespaces != self.index.followed:
            self.index.follow(namespaces, ((pod, pods.requests_of(pod)) for pod in stored_pods), wall, now)
            self._jobs, self._table = {}, None

    def threshold(self, entry: QueueEntry, snapshot: ClusterSnapshot) -> dict[str, float]:
        """Return θ x committed capacity by resource, in resource units.

        With the live capacity, a burst or a reboot would change which jobs are small.
        """
        percent = self.config.small_jobs.threshold_percent
        if isinstance(entry.queue, ThroughputQueue) and entry.queue.spec.small_jobs is not None:
            percent = entry.queue.spec.small_jobs.threshold_percent
        limits = snapshot.committed_capacity * percent / 100
        return dict(zip(snapshot.resources, limits.tolist(), strict=True))

    # Quotas ----------------------------------------------------------------------------------------------------------

    def targets(
        self, namespace_quota: QuotaTarget, entry: QueueEntry, row: int, snapshot: ClusterSnapshot, result: RoundResult,
        by_class: Mapping[str, ClassUsage], now: float,
    ) -> list[QuotaTarget]:  # fmt: skip
        """Return the two quotas below a queue's namespace quota.

        There are none for a queue without a reserve, nor if all jobs are of one size: there is nothing to divide, and
        kube-controller-manager recomputes every quota of a namespace for each pod that ends.

        Small jobs may use what the core gives them, and in any case the part that the reserve ratio keeps for them (unless room is kept for
        a burst). Large jobs may use the rest of the level. Together they may exceed the level, which the namespace quota enforces.
        """
        if not _divides(entry, row, result) or not self._has_both_sizes(entry.namespace, now):
            return []
        level = result.level[row]
        if namespace_quota.entitled:
            level = np.maximum(level, [namespace_quota.entitled[resource] for resource in snapshot.resources])
        small, large = self._divided(level, row, result, exact=namespace_quota.exact)
        jobs = self._jobs.get(entry.namespace, NamespaceJobs())
        parts = ((SMALL_QUOTA, small, jobs.small_unit), (LARGE_QUOTA, large, jobs.large_unit))
        return [self._target(namespace_quota, name, part, unit, snapshot.resources, by_class) for name, part, unit in parts]

    def level_parts(self, entry: QueueEntry, row: int, result: RoundResult, now: float, *, exact: bool) -> LevelParts | None:
        """Return how whole Jobs of a queue in Suspend mode share its level; None if there is nothing to divide.

        The parts bound which Jobs start, so such a queue needs no quotas for them: these would refuse pods of Jobs that have started.
        """
        if not _divides(entry, row, result) or not self._has_both_sizes(entry.namespace, now):
            return None
        small, large = self._divided(result.level[row], row, result, exact=exact)
        return LevelParts(small.tolist(), large.tolist(), self.small_owners(entry.namespace))

    def _divided(self, level: FloatArray, row: int, result: RoundResult, *, exact: bool) -> tuple[FloatArray, FloatArray]:
        """Return (K,) the parts of small and of large jobs. `exact`: room is kept for a burst."""
        small = _small_level(result, row)
        return small if exact else np.maximum(small, self._ratio_of(result) * level), level - small

    def _has_both_sizes(self, namespace: str, now: float) -> bool:
        jobs = self._jobs.get(namespace, NamespaceJobs())
        if jobs.small_count and jobs.large_count:
            self._both_sizes_at[namespace] = now
        return now < self._both_sizes_at.get(namespace, -math.inf) + DIVIDED_SECONDS

    def _target(
        self, namespace_quota: QuotaTarget, name: str, part: FloatArray, unit: Mapping[str, float], resources: Sequence[str],
        by_class: Mapping[str, ClassUsage],
    ) -> QuotaTarget:  # fmt: skip
        """Return one part: never below the floor or the largest pod of its class, so that at least one pod can be created."""
        floors = natural_units(self.config.enforcement.floors)
        seen = by_class.get(CLASS_OF[name])
        largest = seen.largest if seen is not None else {}
        pod = {  # pods that no node could hold need no room
            resource: min(max(unit.get(resource, 0.0), largest.get(resource, 0.0)), namespace_quota.unit[resource])
            for resource in resources
        }
        level = {
            resource: max(amount, floors.get(resource, 0.0), pod[resource])
            for resource, amount in zip(resources, part.tolist(), strict=True)
        }
        stored = seen.stored if seen is not None else dict.fromkeys(resources, 0.0)
        return QuotaTarget(
            namespace_quota.namespace,
            level,
            pod,
            stored,
            latency=False,
            name=name,
            exact=namespace_quota.exact,
            slack=namespace_quota.slack,
            scope=SCOPES[name],
        )

    def small_owners(self, namespace: str) -> frozenset[str]:
        """Return the uids of the controllers in a namespace whose pods are small."""
        return self._jobs.get(namespace, NamespaceJobs()).small_owners

    # Views -----------------------------------------------------------------------------------------------------------

    def view(
        self, entry: QueueEntry, row: int, snapshot: ClusterSnapshot, result: RoundResult, *, observed_only: bool
    ) -> ReserveView | None:
        """Return the view for the queue's status, or None for a queue that keeps no reserve."""
        if not _divides(entry, row, result):
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


def takes_part(entry: QueueEntry) -> bool:
    """Return whether the queue keeps a reserve for its small jobs: throughput queues do unless they say Off (as written, also in an invalid
    edit). In a namespace with several queues none does: a pod's class says which queue it belongs to, not its Job's size.
    """
    return _asks_for_one(entry) and not entry.shares


def lacks_reserve(entry: QueueEntry) -> bool:
    """Return whether the queue would keep a reserve in a namespace of its own."""
    return _asks_for_one(entry) and entry.shares and not entry.mode.ceiling


def _asks_for_one(entry: QueueEntry) -> bool:
    return entry.key[0] == "ThroughputQueue" and entry.obj["spec"].get("reserve") != "Off"


def _divides(entry: QueueEntry, row: int, result: RoundResult) -> bool:
    """Return whether the queue's level is divided in this round: it keeps a reserve and has been admitted."""
    return takes_part(entry) and result.classes[row] is GuaranteeClass.ELASTIC


def _small_level(result: RoundResult, row: int) -> FloatArray:
    """Return (K,) the level for small jobs; zeros if the round divided nothing."""
    return np.zeros(result.level.shape[1]) if result.small_level is None else result.small_level[row]


def left_over(quotas: Mapping[QuotaKey, ResourceQuota], wanted: Collection[QuotaKey], pool: str) -> list[QuotaKey]:
    """Return this pool's quotas, other than the namespace quota, that are not wanted, in order."""
    return sorted(key for key, quota in quotas.items() if key[1] in OTHER_QUOTAS and key not in wanted and pool_of(quota) == pool)
