"""Events on work that waits, for users who only have `kubectl describe`. Pure, apart from its memory of published Events.

An object gets an Event when it has waited for a while, and another one when the cause of its wait changes. An Event says when the object
starts, if that is forecast. If its first Event had no forecast, the object gets one with the first forecast. Another one follows when the
forecast interval has passed, but not before the object has waited twice as long as at the last one. Only the first objects of a queue get
Events, at a limited rate in the whole cluster, so that thousands of waiting pods cost no writes. An Event names no other queue.
docs/decisions/0242-events-on-waiting-work.md gives the reasons.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairburst.kube.enforce.enforceability import PODS_WITHOUT_REQUESTS, PRIORITY_CLASS_MISSING, Obstacle
from fairburst.kube.enforce.fifo_admission import oversize
from fairburst.kube.enforce.next_start import WholeWork, held_jobs, highest_level
from fairburst.kube.enforce.suspend import kind_of
from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.kube.rounds.demands import whole_demand
from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.usage.demand import NamespaceDemand, Owner
from fairburst.kube.usage.gated_pods import GatedPod
from fairburst.kube.usage.host_ports import ports_text
from fairburst.kube.usage.start_order import HeldJob
from fairburst.kube.views.conditions import LARGER_THAN_NODES, NOT_OFFERED, PORT_TAKEN
from fairburst.kube.views.explanation import NOTHING_WAITS, cause, explanation
from fairburst.kube.views.forecast_view import START_FORECAST, StartForecast
from fairburst.kube.workloads.registry import KINDS
from fairburst.policy.arrays import BoolArray
from fairburst.policy.model import ClusterSnapshot
from fairburst.policy.tolerance import exceeds
from fairburst.quantity import format_quantity

WAITED_SECONDS = 5.0  # shorter waits raise no question
FORECAST_PAUSE_SECONDS = 60.0  # at least, between an Event with a forecast and the next forecast
FIRST_OBJECTS = 10  # of each queue that get Events; the others wait for these
EVENTS_PER_SECOND = 5.0
QUEUES_A_LOOK = 200  # 40 microseconds each
LARGER_THAN_LEVEL = "LargerThanLevel"
CREATES_NO_PODS = "ControllerCreatesNoPods"
# As it is: no forecast is told.
NEVER_STARTS = frozenset({LARGER_THAN_NODES, NOT_OFFERED, PORT_TAKEN, PODS_WITHOUT_REQUESTS, PRIORITY_CLASS_MISSING, CREATES_NO_PODS})


@dataclass(frozen=True, slots=True)
class WaitingObject:
    """A Job, JobSet, pod or other controller that waits. `of`: the form in which it waits. `need`: its requests if it starts whole."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    of: GatedPod | HeldJob | Owner
    need: Mapping[str, float]

    @property
    def involved(self) -> dict[str, str]:
        """Return the object as an Event names it."""
        return {"apiVersion": self.api_version, "kind": self.kind, "namespace": self.namespace, "name": self.name, "uid": self.uid}


@dataclass(frozen=True, slots=True)
class WorkEvent:
    """An Event to create."""

    involved: Mapping[str, str]
    reason: str
    message: str
    warning: bool


@dataclass(slots=True)
class _Published:
    """Last published Events of an object. Times are monotonic.

    `cause` holds since `since`; the object waits since `waits_since`. `published`: the cause of its last Event. `forecast`: the last one
    that an Event had; no other one follows before `next_forecast`.
    """

    cause: tuple[str, str]
    since: float
    waits_since: float
    published: tuple[str, str] | None = None
    forecast: StartForecast | None = None
    next_forecast: float = -math.inf


class WorkEvents:
    """See the module. One for each term of leadership; after a restart each waiting object gets its Event once more."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, _Published]] = {}  # by namespace and uid
        self._budget = 0.0
        self._last = -math.inf
        self._turn = 0
        self._starts: Mapping[str, StartForecast] = {}
        self._obstacles: Callable[[str], Sequence[Obstacle]] = lambda _: ()
        self._wall = 0.0

    @property
    def pending(self) -> bool:
        """Return whether an object waits for its Event, so that another look is needed although no round has ended."""
        return any(
            known.published != known.cause and known.cause[0] != NOTHING_WAITS
            for objects in self._known.values()
            for known in objects.values()
        )

    def due(
        self, plan: RoundPlan, demands: Mapping[str, NamespaceDemand], gated: Callable[[str], Sequence[GatedPod]], now: float,
        starts: Mapping[str, StartForecast] | None = None, wall: float = 0.0,
        obstacles: Callable[[str], Sequence[Obstacle]] = lambda _: (),
    ) -> list[WorkEvent]:  # fmt: skip
        """Return the Events due now, those whose cause is oldest first. `gated`: the gated pods of a space in their order.

        A call looks at no more than `QUEUES_A_LOOK` waiting queues, in turn. starts: forecasts by uid; wall: seconds since the epoch;
        obstacles: those of a space.
        """
        self._starts, self._wall, self._obstacles = starts or {}, wall, obstacles
        self._budget = min(self._budget + EVENTS_PER_SECOND * max(0.0, now - self._last), EVENTS_PER_SECOND * WAITED_SECONDS)
        self._last = now
        governing = plan.queue_set.governing
        rows = np.flatnonzero(_may_wait(plan.snapshot) | _cannot_start(governing, demands)).tolist()
        for namespace in self._known.keys() - {governing[row].space for row in rows}:
            del self._known[namespace]
        ready = [found for row in self._in_turn(rows) for found in self._look(plan, row, demands, gated, now)]
        ready.sort(key=lambda item: item[0].since)
        chosen = ready[: int(self._budget)]
        self._budget -= len(chosen)
        for known, event in chosen:
            known.published = known.cause
            if (start := self._starts.get(event.involved["uid"])) is not None:
                known.forecast, known.next_forecast = start, now + max(FORECAST_PAUSE_SECONDS, now - known.waits_since)
        return [event for _, event in chosen]

    def _is_news(self, start: StartForecast, known: _Published, now: float) -> bool:
        """Return whether no forecast was published for the object, or one whose time has passed."""
        published = known.forecast
        if published is None:
            return True
        return now >= known.next_forecast and self._wall > published.intervals[90][1] and not start.same_as(published, self._wall)

    def _in_turn(self, rows: list[int]) -> list[int]:
        """Return the rows to look at: those after the rows of the last look, and then from the first one again."""
        begin = bisect.bisect_left(rows, self._turn)
        chosen = (rows[begin:] + rows[:begin])[:QUEUES_A_LOOK]
        self._turn = chosen[-1] + 1 if chosen else 0
        return chosen

    def _look(
        self, plan: RoundPlan, row: int, demands: Mapping[str, NamespaceDemand], gated: Callable[[str], Sequence[GatedPod]], now: float
    ) -> list[tuple[_Published, WorkEvent]]:
        """Return the Events that one queue's waiting objects should get, each with the record of its object."""
        entry = plan.queue_set.governing[row]
        held, demand = entry.mode.holds, demands.get(entry.space, NamespaceDemand())
        held_pods = behind_gates(entry, gated)
        former, ready = self._known.pop(entry.space, {}), list[tuple[_Published, WorkEvent]]()
        objects = list(first_waiting(held, demand, held_pods))
        if not objects:
            return []
        count = len(held_pods) + len(demand.lacking) + (len(demand.held) if held == "Jobs" else 0)
        has_turns = held == "Jobs" and row in plan.snapshot.next_start  # only held Jobs are compared with the level
        work = held_jobs(demand, plan.snapshot.resources) if has_turns else None
        obstacles = frozenset(one.reason for one in self._obstacles(entry.space))
        queue = _QueueSentence(entry.qualified_name, work, demand, plan, row, obstacles)
        present = self._known[entry.space] = dict[str, _Published]()
        for place, one in enumerate(objects):
            why, known = queue.cause(one), former.get(one.uid)
            if known is None:
                known = _Published(why, now, waits_since=now)
            elif known.cause != why:
                known = replace(known, cause=why, since=now)
            present[one.uid] = known
            if why[0] == NOTHING_WAITS or now - known.since < WAITED_SECONDS:
                continue
            start = self._starts.get(one.uid)
            if known.published != why:
                ready.append((known, queue.event(one, place, count, ordered=held is not None, start=start, wall=self._wall)))
            elif start is not None and why[0] not in NEVER_STARTS and self._is_news(start, known, now):
                ready.append((known, WorkEvent(one.involved, START_FORECAST, start.sentence(self._wall), warning=False)))
        return ready


class _QueueSentence:
    """Says why the work of one queue waits."""

    def __init__(
        self, queue: str, work: WholeWork | None, demand: NamespaceDemand, plan: RoundPlan, row: int, obstacles: Container[str]
    ) -> None:
        self._no_node: Container[str] = demand.no_node
        self._not_offered, self._ports_taken = demand.not_offered, demand.ports.taken
        self._refused: Container[str] = demand.unrequested if PODS_WITHOUT_REQUESTS in obstacles else ()
        self._lacks_class = PRIORITY_CLASS_MISSING in obstacles
        self._stalled: Container[str] = demand.stalled
        self._queue, self._decision, self._resources = queue, plan.result.decisions[row], plan.snapshot.resources
        self._demand = whole_demand(demand, plan.snapshot, row)
        self._usage = plan.snapshot.usage[row]
        self._level = highest_level(row, plan.result.level[row], work, plan.snapshot)

    def cause(self, one: WaitingObject) -> tuple[str, str]:
        """Return the reason and the scarce resource. A figure that moves is no new cause."""
        if one.uid in self._no_node:
            return LARGER_THAN_NODES, ""
        if one.uid in self._not_offered:
            return NOT_OFFERED, self._not_offered[one.uid][1]
        if one.uid in self._ports_taken:
            return PORT_TAKEN, ports_text(self._ports_taken[one.uid][1])
        if refused := self._refused_for(one):
            return refused, ""
        too_large = oversize(one.name, one.need, self._resources, self._level)
        if too_large is not None:
            return LARGER_THAN_LEVEL, too_large.resource
        return cause(self._decision, self._demand, self._usage, self._resources)

    def _refused_for(self, one: WaitingObject) -> str:
        """Return why no pods come whatever its queue gets: they are refused, or its controller creates none or has yet to begin."""
        if f"{one.kind} {one.name}" in self._refused:
            return PODS_WITHOUT_REQUESTS
        if self._lacks_class and isinstance(one.of, Owner):
            return PRIORITY_CLASS_MISSING
        if isinstance(one.of, Owner) and not one.of.reached:
            return NOTHING_WAITS
        return CREATES_NO_PODS if one.uid in self._stalled else ""

    def event(self, one: WaitingObject, place: int, count: int, *, ordered: bool, start: StartForecast | None, wall: float) -> WorkEvent:
        reason, resource = self.cause(one)
        where = f"place {place + 1} of {count} in queue {self._queue}" if ordered else f"in queue {self._queue}"
        if reason == LARGER_THAN_NODES:
            why = "No node of the pool could hold one of its pods, even if it were empty, so it gets no part of the pool."
        elif reason == NOT_OFFERED:
            why = f"No node of the pool offers {resource}, which its pods ask for, so it gets no part of the pool."
        elif reason == PORT_TAKEN:
            why = f"Its pods ask for {resource}, and pods outside the queue have that on each node that could hold one of them."
        elif reason == PODS_WITHOUT_REQUESTS:
            why = (
                "The namespace's quota refuses them: each container needs requests for cpu and memory. Add requests, or a LimitRange with "
                "defaultRequest for both (type Container)."
            )
        elif reason == PRIORITY_CLASS_MISSING:
            why = "The API server refuses them: the queue's condition Enforced says which PriorityClass an administrator has to put back."
        elif reason == CREATES_NO_PODS:
            why = (
                f"The queue has room for them, but the {one.kind} creates none, so its part of the pool is lent meanwhile. A Job waits "
                "up to ten minutes after its pods have failed or were evicted. Otherwise the API server refuses them, for example because "
                f"a LimitRange's maximum is too low: the {one.kind}'s event FailedCreate says why."
            )
        elif reason == LARGER_THAN_LEVEL:
            too_large = oversize(one.name, one.need, self._resources, self._level)
            assert too_large is not None  # noqa: S101  the reason says so
            why = (
                f"It starts whole and asks for {format_quantity(resource, too_large.need)} {resource}; the queue's level is "
                f"{format_quantity(resource, too_large.level)} now."
            )
        else:
            why = "In the queue, " + _lowered(explanation(self._decision, self._demand, self._usage, self._resources))
        when = "" if start is None or reason in NEVER_STARTS else f" {start.sentence(wall)}"
        warning = reason in {LARGER_THAN_LEVEL, *NEVER_STARTS}
        return WorkEvent(one.involved, reason, f"{_situation(one.of)}, {where}. {why}{when}", warning)


def _may_wait(snapshot: ClusterSnapshot) -> BoolArray:
    """(N,) whether work of a queue may wait: it uses less than it wants, or it wants the whole pool or more."""
    offered = snapshot.live_capacity > 0
    wants_all = (snapshot.demand >= snapshot.live_capacity) & offered
    return np.asarray((exceeds(snapshot.demand, snapshot.usage) | wants_all).any(axis=1))


def _cannot_start(governing: Sequence[QueueEntry], demands: Mapping[str, NamespaceDemand]) -> BoolArray:
    """(N,) whether a queue has controllers whose pods no node could hold, that request nothing or that create none; they may be no
    part of its demand."""
    found = (demands.get(entry.space) for entry in governing)
    bad = (one is not None and bool(one.no_node or one.not_offered or one.unrequested or one.stalled) for one in found)
    return np.fromiter(bad, dtype=np.bool_, count=len(governing))


def behind_gates(entry: QueueEntry, gated: Callable[[str], Sequence[GatedPod]]) -> Sequence[GatedPod]:
    """Return the pods that the queue holds by our gate, in the order in which they start. `gated`: the gated pods of a space."""
    return gated(entry.space) if entry.mode.holds == "Pods" else ()


def first_waiting(holds: str | None, demand: NamespaceDemand, gated: Sequence[GatedPod]) -> Iterator[WaitingObject]:
    """Return the first waiting objects of one queue, in the order in which they start, if there is one. `holds`: as Mode.holds."""
    held = demand.jobs_in_order().jobs[:FIRST_OBJECTS] if holds == "Jobs" else ()
    waiting = itertools.chain(map(_gated, gated), map(_held, held), map(_lacking, demand.lacking))
    return itertools.islice(waiting, FIRST_OBJECTS)


def _gated(pod: GatedPod) -> WaitingObject:
    return WaitingObject("Pod", "v1", *pod.key, pod.uid, pod, {})


def _held(one: HeldJob) -> WaitingObject:
    metadata, kind = one.job.metadata, KINDS[kind_of(one.job)]
    return WaitingObject(kind.name, kind.api_version, metadata.namespace, metadata.name, metadata.uid, one, one.need)


def _lacking(owner: Owner) -> WaitingObject:
    return WaitingObject(owner.kind, KINDS[owner.kind].api_version, owner.namespace, owner.name, owner.uid, owner, {})


def _situation(waiting: GatedPod | HeldJob | Owner) -> str:
    match waiting:
        case GatedPod():
            whole = "" if waiting.group is None else f" together with its group {waiting.group[1]}"
            return f"Behind the scheduling gate until it may start{whole}"
        case HeldJob():
            return f"Suspended until all of it fits: it asks for {_amounts(waiting.need)}"
        case Owner():
            each = f"each asks for {_amounts(waiting.requests)}"
            return f"{waiting.wanted - waiting.existing} of {waiting.wanted} pods do not exist yet, {each}"


def _amounts(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{format_quantity(name, amount)} {name}" for name, amount in amounts.items()) or "nothing that is counted"


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
