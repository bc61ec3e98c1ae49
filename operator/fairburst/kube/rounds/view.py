"""The input and the output of a round: the cluster as the informers hold it, and the round's writes. Values; no decisions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairburst.kube.api.class_objects import DeviceClass, PriorityClass, RuntimeClass
from fairburst.kube.api.objects import Namespace, Node, Pod
from fairburst.kube.api.quota_objects import LimitRange, ResourceQuota
from fairburst.kube.enforce.namespace_labels import Labels
from fairburst.kube.enforce.quota_plan import QuotaKey, QuotaWrite
from fairburst.kube.enforce.reclaim import ReclaimPlan
from fairburst.kube.enforce.suspend import JobStart
from fairburst.kube.jobs.elasticity import ElasticPlan
from fairburst.kube.queues.queue_set import ObjectKey, QueueEntry, QueueSet
from fairburst.kube.usage.controller_index import ControllerIndex
from fairburst.kube.usage.demand import Owner
from fairburst.kube.usage.gated_pods import GatedPod
from fairburst.kube.usage.pace import PaceMeter
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.views.idle_room import IdleCause
from fairburst.kube.views.lead_time_view import LeadTimeView
from fairburst.kube.views.status_plan import StatusWrite
from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import ClusterSnapshot, Memory, QueueDecision, RoundEvent, RoundResult


@dataclass(slots=True)
class ClusterView:
    """The stores of the informers and of the queue watch. The engine only reads them. device_classes: None if they may not be read;
    priority_classes: empty then, since a cluster always has some."""

    pods: PodIndex
    stored_pods: Mapping[tuple[str, str], Pod] = field(default_factory=dict)
    changed_namespaces: set[str] = field(default_factory=set)
    controllers: ControllerIndex = field(default_factory=ControllerIndex)
    pace: PaceMeter = field(default_factory=PaceMeter)
    nodes: Mapping[tuple[str, str], Node] = field(default_factory=dict)
    device_classes: Mapping[tuple[str, str], DeviceClass] | None = field(default_factory=dict)
    runtime_classes: Mapping[tuple[str, str], RuntimeClass] = field(default_factory=dict)
    priority_classes: Mapping[tuple[str, str], PriorityClass] = field(default_factory=dict)
    namespaces: Mapping[tuple[str, str], Namespace] = field(default_factory=dict)
    quotas: Mapping[QuotaKey, ResourceQuota] = field(default_factory=dict)
    limit_ranges: Mapping[tuple[str, str], LimitRange] = field(default_factory=dict)
    read_queues: Callable[[], Mapping[ObjectKey, Mapping[str, Any]]] = dict

    def quotas_of(self, keys: Iterable[QuotaKey]) -> list[ResourceQuota]:
        """Return those of these quotas that exist."""
        return [quota for key in keys if (quota := self.quotas.get(key)) is not None]


@dataclass(frozen=True, slots=True)
class RoundContext:
    """One round after its decision, as every later step reads it.

    Attributes
    ----------
    changed : namespaces whose objects or work have changed.
    touched : namespaces that a step must look at: these, those where the decision on their queue has changed, and those that are due.
    everything : all namespaces are touched, and objects outside of them are looked at too.
    left_alone : namespaces in which fairburst must not write.
    wall : seconds since the epoch. now : monotonic seconds.
    """

    view: ClusterView
    queue_set: QueueSet
    snapshot: ClusterSnapshot
    result: RoundResult
    memory: Memory
    rows: Mapping[str, int]
    changed: frozenset[str]
    touched: set[str]
    everything: bool
    left_alone: frozenset[str]
    wall: float
    now: float

    def as_counted(self, row: int, amounts: FloatArray) -> FloatArray:
        """Return (K,) amounts that a queue may have as its quota counts them: with its pods on nodes that closed under them, at most its
        limits."""
        left = self.snapshot.left_behind.get(row)
        if left is None:
            return amounts
        limits = self.snapshot.queues[row].limits
        most = np.array([limits.get(resource, np.inf) for resource in self.snapshot.resources])
        counted: FloatArray = np.maximum(np.minimum(amounts + left, most), amounts)
        return counted


@dataclass(slots=True)
class RoundPlan:
    """The writes of a round.

    `due`: monotonic time of the next round if no event comes first. `since`: monotonic time of the first event that led to this round.
    `started`: monotonic time at which the round began.
    `burst_waits`: whether a window is open whose burst is not served yet.
    `idle`: (K,) fractions of the live capacity that are idle, by cause.
    `shown`: rows whose statuses were computed, with their decisions. `shows_all`: whether these are all rows.
    """

    result: RoundResult
    snapshot: ClusterSnapshot
    queue_set: QueueSet
    decide_seconds: float
    quota_writes: list[QuotaWrite] = field(default_factory=list)
    ungates: list[GatedPod] = field(default_factory=list)
    starts: list[JobStart] = field(default_factory=list)
    elastic: ElasticPlan = field(default_factory=ElasticPlan)
    reclaim: ReclaimPlan = field(default_factory=ReclaimPlan)
    resyncs: list[Owner] = field(default_factory=list)
    labels: dict[str, Labels] = field(default_factory=dict)
    releases: list[str] = field(default_factory=list)
    quota_deletions: list[QuotaKey] = field(default_factory=list)
    lead_times: Mapping[str, LeadTimeView] = field(default_factory=dict)
    statuses: list[StatusWrite] = field(default_factory=list)
    statuses_planned: bool = False
    events: list[tuple[QueueEntry, RoundEvent]] = field(default_factory=list)
    false_conditions: dict[str, set[str]] = field(default_factory=dict)
    shown: list[tuple[int, QueueDecision]] = field(default_factory=list)
    shows_all: bool = False
    quotas_out_of_sync: int = 0
    refused: int = 0
    unprocessed: int = 0
    due: float = math.inf
    since: float = math.inf
    started: float = field(default_factory=time.monotonic)
    burst_waits: bool = False
    idle: Mapping[IdleCause, FloatArray] = field(default_factory=dict)

    def dominant_shares(self, rows: Sequence[int]) -> FloatArray:
        """Return (M, 3) of these M rows: dominant shares allocated, used, and demanded beyond the use; fractions of live capacity."""
        capacity, snapshot, chosen = self.snapshot.live_capacity, self.snapshot, list(rows)
        counted = capacity > 0
        if not counted.any():
            return np.zeros((len(chosen), 3))
        usage = snapshot.usage[chosen]
        three = np.stack([self.result.allocation[chosen], usage, np.maximum(snapshot.demand[chosen] - usage, 0.0)])
        shares: FloatArray = (three[:, :, counted] / capacity[counted]).max(axis=2, initial=0.0).T
        return shares

    def writes(self) -> list[tuple[str, str]]:
        """Return kind and namespace of each write, apart from statuses. All are looked at again, in case one fails."""
        elsewhere = [namespace for namespace, _ in self.quota_deletions if namespace not in self.releases]
        found = [("label", namespace) for namespace in self.labels] + [("release", namespace) for namespace in self.releases]
        found += [("quota", namespace) for namespace in elsewhere] + [("quota", write.namespace) for write in self.quota_writes]
        found += [("parallelism", write.namespace) for write in self.elastic.writes]
        return found + [("resync", owner.namespace) for owner in self.resyncs] + [("start", start.namespace) for start in self.starts]


def events_with_queues(queue_set: QueueSet, result: RoundResult) -> list[tuple[QueueEntry, RoundEvent]]:
    """Return the events of a decision with the governing queues that they are about."""
    members = {entry.qualified_name: entry for entry in queue_set.governing} if result.events else {}
    return [(members[event.queue], event) for event in result.events if event.queue in members]
