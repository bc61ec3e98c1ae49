"""Questions for the forecaster, built from the operator's last round, its memory and the work of its queues.

Reading all pods at once would delay rounds, so the reader yields to other tasks of the event loop every hundred pods.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairburst.config import Config
from fairburst.kube.api.objects import Pod, controller_of
from fairburst.kube.forecasts.ended_pods import Run, pods_of, started_of
from fairburst.kube.forecasts.messages import Asked, EndedPod, Question, Work
from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.kube.queues.steps import NORMAL, step_of
from fairburst.kube.rounds.view import ClusterView, RoundPlan
from fairburst.kube.rounds.work_events import WaitingObject, behind_gates, first_waiting
from fairburst.kube.times import epoch
from fairburst.kube.usage.demand import DesiredPods, NamespaceDemand
from fairburst.kube.usage.gated_pods import GatedPod
from fairburst.kube.usage.start_order import HeldJob, start_order
from fairburst.kube.workloads.job import completions_left, is_held, pods_at_once
from fairburst.policy import memory as saved
from fairburst.policy.arrays import BoolArray
from fairburst.policy.model import Memory, QueueKind
from fairburst.policy.tolerance import exceeds
from fairburst.recording.lines import encode_header

PODS_AT_ONCE = 100  # take about a millisecond
QUEUES_AT_ONCE = 5
SERVICES = frozenset({"ReplicaSet", "StatefulSet", "Deployment", "LeaderWorkerSet"})


@dataclass(slots=True)
class _Pods:
    """The pods of one controller. `running`: number of bound pods by their start. `ending`: bound pods that are being deleted.

    `requests`: of one of the pods. `created`: earliest creation time. `step`: of priority, the first that one of the pods has.
    """

    kind: str
    running: dict[float, int] = field(default_factory=dict)
    ending: int = 0
    unbound: int = 0
    requests: tuple[int, ...] = ()
    created: str = ""
    step: int = NORMAL

    @property
    def bound(self) -> int:
        return sum(self.running.values())


@dataclass(frozen=True, slots=True)
class Subjects:
    """The objects that a question asks for, by queue (namespace/name), in their order."""

    by_queue: Mapping[str, Sequence[WaitingObject]]


@dataclass(frozen=True, slots=True)
class Read:
    """Result of one reading, ready to be encoded in another thread. rows: the round's rows of the queues that take part."""

    plan: RoundPlan
    memory: Memory
    rows: Sequence[int]
    work: list[Work]
    asked: list[Asked]
    subjects: Subjects
    wall: float


async def read(
    plan: RoundPlan, memory: Memory, view: ClusterView, demands: Mapping[str, NamespaceDemand],
    gated: Callable[[str], Sequence[GatedPod]], wall: float,
) -> Read:  # fmt: skip
    """Read the work of all queues. Throughput queues without work take no part: they change nothing for the others."""
    snapshot, governing = plan.snapshot, plan.queue_set.governing
    wanting: BoolArray = np.any((snapshot.demand > 0) | (snapshot.usage > 0), axis=1)
    rows = [row for row, spec in enumerate(snapshot.queues) if wanting[row] or spec.kind is QueueKind.LATENCY]
    pods = await _pods(view, frozenset(governing[row].space for row in rows))
    order = [view.pods.resources.index(name) if name in view.pods.resources else -1 for name in snapshot.resources]
    work, asked, subjects = list[Work](), list[Asked](), dict[str, Sequence[WaitingObject]]()
    for index, row in enumerate(rows):
        entry = governing[row]
        demand = demands.get(entry.space, NamespaceDemand())
        queue = _Queue(index, entry, demand, pods.get(entry.space, {}), view, snapshot.resources, order)
        work += queue.work()
        objects = list(first_waiting(entry.mode.holds, demand, behind_gates(entry, gated)))
        if objects:
            subjects[entry.qualified_name] = objects
            asked += queue.asked(objects)
        if index % QUEUES_AT_ONCE == QUEUES_AT_ONCE - 1:
            await asyncio.sleep(0)
    return Read(plan, memory, rows, work, asked, Subjects(subjects), wall)


async def _pods(view: ClusterView, spaces: frozenset[str]) -> dict[str, dict[str, _Pods]]:
    """Return the pods that have not ended by space and uid of their controller (or their own)."""
    found: dict[str, dict[str, _Pods]] = {}
    for number, pod in enumerate(list(view.stored_pods.values())):
        if number % PODS_AT_ONCE == PODS_AT_ONCE - 1:
            await asyncio.sleep(0)
        if not pod.ended and not pod.unmanaged and (space := view.pods.space_of(pod)) in spaces:
            _add(found.setdefault(space, {}), pod, view)
    return found


def _add(owners: dict[str, _Pods], pod: Pod, view: ClusterView) -> None:
    owner = controller_of(pod.metadata)
    uid, kind = (pod.metadata.uid, "Pod") if owner is None else (owner.uid, owner.kind)
    of = owners.setdefault(uid, _Pods(kind))
    of.requests = view.pods.requests_of(pod)
    if pod.bound:
        at = started_of(pod)
        of.running[at] = of.running.get(at, 0) + 1
        of.ending += pod.metadata.deletion_timestamp is not None
    else:
        of.unbound += 1
    created, step = pod.metadata.creation_timestamp or "", step_of(pod.metadata.labels)
    of.step = min(of.step, step) if of.created else step
    of.created = min(of.created or created, created)


class _Queue:
    """The work of one queue."""

    def __init__(
        self, index: int, entry: QueueEntry, demand: NamespaceDemand, pods: Mapping[str, _Pods], view: ClusterView,
        resources: Sequence[str], order: Sequence[int],
    ) -> None:  # fmt: skip
        self._index, self._entry, self._demand, self._pods, self._view = index, entry, demand, pods, view
        self._resources, self._order = resources, order

    def work(self) -> list[Work]:
        """Return all work of the queue in the order in which it starts."""
        found: list[tuple[int, str, str, Work]] = []
        announced = set[str]()
        for desired in self._demand.desired_pods:
            announced.add(desired.owner.uid)
            pods = self._pods.get(desired.owner.uid, _Pods(desired.owner.kind))
            controller = desired.controller
            created = pods.created or controller.metadata.creation_timestamp or ""
            step = step_of(controller.metadata.labels, controller.spec.template.metadata.labels)
            found.append((step, created, desired.owner.name, self._announced(desired, pods)))
        for one in self._demand.held:
            if one.job.metadata.uid not in announced:
                found.append((*start_order(one), self._whole(one)))
        found += [(pods.step, pods.created, uid, self._unannounced(uid, pods)) for uid, pods in self._pods.items() if uid not in announced]
        ordered = self._entry.mode.holds is not None  # in other modes the API server admits pods in the order in which they come
        found.sort(key=lambda item: item[:3] if ordered else item[1:3])
        return [one for *_, one in found if one.waiting or one.running]

    def asked(self, objects: Sequence[WaitingObject]) -> list[Asked]:
        """Ask for these objects. The pods of one controller start one after the other."""
        places: dict[str, int] = {}
        found = []
        for one in objects:
            work = self._name(one.uid)
            if isinstance(one.of, GatedPod):
                pod = self._view.stored_pods.get(one.of.key)
                owner = None if pod is None else controller_of(pod.metadata)
                work = self._name(one.uid if owner is None else owner.uid)
            places[work] = places.get(work, 0) + 1
            found.append(Asked(one.uid, work, places[work]))
        return found

    def _announced(self, desired: DesiredPods, pods: _Pods) -> Work:
        owner, controller = desired.owner, desired.controller
        wanted = max(owner.wanted, owner.existing)
        waves, tasks, held = 1, max(1, wanted), False
        if owner.kind == "Job":
            tasks, at_once = pods_of(controller), max(1, pods_at_once(controller.spec))
            left = completions_left(controller, self._view.pods.owner(owner.namespace, owner.uid))
            waves, held = max(1, math.ceil(min(left, tasks) / at_once)), is_held(controller)
        demand = [owner.requests.get(name, 0.0) for name in self._resources]
        waiting = max(0, wanted - (pods.bound - pods.ending))
        created = epoch(pods.created or controller.metadata.creation_timestamp)
        name, running = self._name(owner.uid), _counted(pods)
        return Work(name, self._index, created, tasks, waiting, running, demand, waves, whole=held, endless=owner.kind in SERVICES)

    def _whole(self, held: HeldJob) -> Work:
        metadata = held.job.metadata
        demand = [held.need.get(name, 0.0) for name in self._resources]
        return Work(self._name(metadata.uid), self._index, epoch(metadata.creation_timestamp), 1, 1, [], demand, whole=True)

    def _unannounced(self, uid: str, pods: _Pods) -> Work:
        demand = [pods.requests[at] / 1000 if at >= 0 else 0.0 for at in self._order]
        tasks = pods.bound + pods.unbound
        endless = pods.kind in SERVICES
        return Work(self._name(uid), self._index, epoch(pods.created), tasks, pods.unbound, _counted(pods), demand, endless=endless)

    def _name(self, uid: str) -> str:
        return _name(self._entry.space, uid)


def _name(space: str, uid: str) -> str:
    """Return the name of work in messages. A pod may name a controller of another queue's, or of another tenant's, as its own."""
    return f"{space}/{uid}"


def _counted(pods: _Pods) -> list[tuple[int, float]]:
    return [(count, at) for at, count in sorted(pods.running.items())]


def encoded(found: Read, config: Config, runs: Sequence[Run]) -> Question:
    """Return the question. Reads values only, so that another thread may call it."""
    snapshot, governing = found.plan.snapshot, found.plan.queue_set.governing
    by_space, space_of = {governing[row].space: snapshot.queues[row].name for row in found.rows}, found.plan.queue_set.spaces.of_class
    specs = [snapshot.queues[row] for row in found.rows]
    part = config.forecast.core_percent / 100
    entries = {spec.name: found.memory.entry(spec.name) for spec in specs}
    return Question(
        now=found.wall,
        resources=list(snapshot.resources),
        capacity=snapshot.live_capacity.tolist(),
        config=encode_header(config.policy()),
        queues=[saved.encode_spec(spec) for spec in specs],
        memory=saved.encode(Memory(entries, found.memory.next_admission_order)),
        units=np.asarray(snapshot.unit)[list(found.rows)].tolist() if found.rows else [],
        work=found.work,
        asked=found.asked,
        ended=[
            EndedPod(by_space[space], _name(space, run.owner), run.tasks, run.started, run.ended)
            for run in runs
            if (space := space_of(run.namespace, run.priority_class)) in by_space
        ],
        processor_seconds=config.forecast.interval_seconds * part,
        pace=part,
    )


def waits(plan: RoundPlan) -> bool:
    """Return whether any queue has work that does not run."""
    return bool(exceeds(plan.snapshot.demand, plan.snapshot.usage).any())


def by_uid(subjects: Subjects) -> dict[str, Any]:
    """Return the queue of each object that is asked for."""
    return {one.uid: queue for queue, objects in subjects.by_queue.items() for one in objects}
