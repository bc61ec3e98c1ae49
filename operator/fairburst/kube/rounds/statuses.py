"""Choose the queues whose statuses a round computes, and build their inputs. Pure, apart from the last look at each queue.

A status contains the sentences that users read, which cost far more per queue than the rest of a round. So a queue is looked at only if its
objects or its part of the decision have changed, if a write was deferred, and in turn (`status_turns.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fairburst.config import Config
from fairburst.kube.containment import Containment
from fairburst.kube.enforce.enforceability import Obstacle
from fairburst.kube.enforce.fifo_admission import Oversize
from fairburst.kube.enforce.gate import UngatePlanner
from fairburst.kube.enforce.holds import too_large_to_start
from fairburst.kube.enforce.pod_priority import pod_priority_of
from fairburst.kube.jobs.reserve import Reserve, lacks_reserve
from fairburst.kube.queues.burst_history import BurstHistory
from fairburst.kube.queues.queue_set import QueueEntry, QueueSet
from fairburst.kube.rounds.cluster_state import ClusterState
from fairburst.kube.rounds.demands import whole_demand
from fairburst.kube.rounds.differences import Agenda
from fairburst.kube.rounds.managed import ManagedNamespaces, burst_rate
from fairburst.kube.rounds.status_turns import StatusTurns
from fairburst.kube.rounds.view import RoundContext, RoundPlan
from fairburst.kube.rounds.work_events import behind_gates, first_waiting
from fairburst.kube.usage.burst_sizes import BurstSizes, pods_of
from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.kube.usage.weekly_use import WeeklyUse
from fairburst.kube.views.conditions import conditions_of
from fairburst.kube.views.elastic_view import condition, status_part
from fairburst.kube.views.forecast_view import Forecasts, with_forecast
from fairburst.kube.views.lead_time_view import LeadTimeView
from fairburst.kube.views.status import StatusInput
from fairburst.kube.views.status_plan import StatusPlanner, StatusWrite
from fairburst.policy.admission import shares as fair_shares
from fairburst.policy.attainability import Attainability, attainability
from fairburst.policy.drf import inverse_capacity, largest_share
from fairburst.policy.model import EventKind, QueueDecision
from fairburst.policy.tolerance import exceeds

LOOK_SECONDS = 1.0  # between two looks without a change
LOOK_FACTOR = 10.0  # looks take at most a tenth of the time
MOST_AT_ONCE = 200  # queues in one look: about 50 ms


class _Grounds(NamedTuple):
    """What the verdicts of a queue's status rest on, apart from the round's decision and memory. waits: whether work of it does; foretold:
    whether the object of its forecast is part of that."""

    obj: Mapping[str, Any]
    obstacles: list[Obstacle]
    too_large: list[str] | None
    no_node: Mapping[str, tuple[str, Mapping[str, float]]]
    not_offered: Mapping[str, tuple[str, str]]
    ports_taken: Mapping[str, tuple[str, tuple[Any, ...]]]
    contained: str | None
    never_start: list[Oversize] | None
    waits: bool
    foretold: bool


class StatusRounds:
    """Chooses queues to look at, and builds the inputs of their statuses."""

    def __init__(
        self, config: Config, cluster: ClusterState, contained: Containment, reserve: Reserve | None, gates: UngatePlanner,
        history: BurstHistory, *, observing: bool = False,
    ) -> None:  # fmt: skip
        self._observing = observing
        self._config = config
        self._cluster = cluster
        self._contained = contained
        self._reserve = reserve
        self._gates = gates
        self._history = history
        self._bursts = BurstSizes()
        self._weeks = WeeklyUse()
        self._rows_moved = True
        self.suggestions: Mapping[str, Mapping[str, Any]] = {}
        self.forecasts = Forecasts()
        self._agenda = Agenda()
        self._moved: set[str] = set()  # namespaces whose objects have changed since the last look
        self._candidates: set[str] = set()
        self._grounds: dict[str, _Grounds] = {}  # of the last look, by uid
        self._positions: dict[str, list[int]] = {}
        self._everything = True
        self._used = np.zeros(0)
        self._look_at = -math.inf
        self._turns = StatusTurns()
        self._turn = 0
        self.planner = StatusPlanner(config.rounds.status_interval_seconds, contained=contained)

    def look_again(self, namespace: str, at: float) -> None:
        """Look at the namespace's queues at `at`, or earlier."""
        self._agenda.put(namespace, at)

    def written(self, write: StatusWrite, now: float, took_seconds: float, stored: Mapping[str, Any] | None) -> None:
        """Note the answer to a status write. `stored`: the queue as it is known to be now, with that status; without it, the next look
        checks whether the status arrived.
        """
        self.planner.written(write, now, took_seconds, stored)
        grounds = self._grounds.get(write.entry.uid)
        if stored is not None and grounds is not None and _but_status(stored) == _but_status(grounds.obj):
            self._grounds[write.entry.uid] = grounds._replace(obj=stored)
        else:
            self.look_again(write.entry.namespace, now)

    def lay_out(self, queue_set: QueueSet) -> None:
        """Prepare for another set of queues."""
        self._positions = {}
        for position, entry in enumerate(queue_set.entries):
            if self._observing and not entry.observed_only:
                continue  # the enforced decision writes its status
            self._positions.setdefault(entry.namespace, []).append(position)
        uids = {entry.uid for entry in queue_set.entries}
        self.planner.retain(uids, {spec.name for spec in queue_set.specs})
        self._grounds = {uid: grounds for uid, grounds in self._grounds.items() if uid in uids}
        self._bursts.keep({spec.name for spec in queue_set.specs})
        # a take-over needs the accounts of latency queues, and a level decides whether a whole Job can ever start
        governing = queue_set.governing
        self._turns.lay_out(
            [entry.key[0] == "ThroughputQueue" for entry in governing], [entry.mode.holds is not None for entry in governing]
        )
        self._everything = self._rows_moved = True

    def plan_in_time(
        self, round_: RoundContext, managed: ManagedNamespaces, demands: Mapping[str, NamespaceDemand], plan: RoundPlan, *, news: bool
    ) -> None:
        """Compute statuses at once after a change for users, otherwise at most once a second: figures may wait."""
        self._moved |= round_.changed
        if not (news or self._everything or round_.result.events or round_.now >= self._look_at):
            plan.due = min(plan.due, self._due())
            return
        started = time.perf_counter()
        plan.statuses_planned = True
        self._plan(round_, managed, demands, plan)
        self._look_at = round_.now + max(LOOK_SECONDS if not self._candidates else 0.0, LOOK_FACTOR * (time.perf_counter() - started))
        self._everything = False
        plan.due = min(plan.due, self._due())

    def _due(self) -> float:
        """Return when to look next if nothing changes. A round that has another reason looks at some queues in turn."""
        return self._look_at if self._moved or self._candidates or self._turns.waiting else max(self._agenda.next(), self._look_at)

    def _plan(self, round_: RoundContext, managed: ManagedNamespaces, demands: Mapping[str, NamespaceDemand], plan: RoundPlan) -> None:
        queue_set = round_.queue_set
        with self._contained.object("count the week of", ""):
            self._count_weeks(round_)
        self._used = round_.snapshot.usage.sum(axis=0)
        self._candidates |= self._with_news(round_, managed, demands, plan)
        called = self._agenda.take(round_.now)
        rows = self._turns.take(round_, self.planner.figures_per_second, len(called))
        namespaces = self._candidates | called | {queue_set.governing[row].namespace for row in rows}
        inputs, shown = [], []
        for entry in self._in_turn(round_, self._positions.keys() if self._everything else namespaces):
            row = round_.rows.get(entry.space) if entry.governs else None
            if row is None:
                inputs.append(StatusInput(entry, conditions_of(entry, None, None, (), observed_only=False)))
                continue
            with self._contained.object("show", entry.namespace):
                decision = round_.result.decisions[row]
                inputs.append(self._input(round_, entry, row, decision, managed, demands[entry.space], plan))
                shown.append((row, decision))
                continue
            inputs.append(StatusInput(entry, [self.planner.internal_error(entry.namespace)], failed=True))
        plan.shown, plan.shows_all = shown, self._everything
        for item in inputs:
            plan.false_conditions[item.entry.qualified_name] = {one.type for one in item.conditions if one.status == "False"}
        plan.statuses, dues = self.planner.plan(inputs, round_.snapshot.resources, round_.wall, round_.now)
        for namespace, due in dues.items():
            self._agenda.put(namespace, due)

    def _with_news(
        self, round_: RoundContext, managed: ManagedNamespaces, demands: Mapping[str, NamespaceDemand], plan: RoundPlan
    ) -> set[str]:  # fmt: skip
        """Return the namespaces whose changed objects may be news for users. The others have new figures, which wait for their turn."""
        entries, found = round_.queue_set.entries, set[str]()
        for namespace in self._moved:
            for position in self._positions.get(namespace, ()):
                same = False
                with self._contained.object("show", namespace):
                    same = self._has_same_grounds(round_, entries[position], managed, demands, plan)
                if not same:
                    found.add(namespace)
        self._moved = set()
        return found

    def _has_same_grounds(
        self, round_: RoundContext, entry: QueueEntry, managed: ManagedNamespaces, demands: Mapping[str, NamespaceDemand], plan: RoundPlan
    ) -> bool:  # fmt: skip
        """Return whether nothing but figures can have changed in the queue's objects since the last look."""
        row = round_.rows.get(entry.space) if entry.governs else None
        if row is None or not self._turns.patient[row] or entry.qualified_name in plan.elastic.queues:
            return False
        return self._grounds.get(entry.uid) == self._grounds_of(round_, entry, row, managed, demands[entry.space])

    def _grounds_of(
        self, round_: RoundContext, entry: QueueEntry, row: int, managed: ManagedNamespaces, demanded: NamespaceDemand
    ) -> _Grounds:  # fmt: skip
        snapshot, forecast = round_.snapshot, self.forecasts.queues.get(entry.qualified_name)
        return _Grounds(
            entry.obj,
            [obstacle for item in managed.of([entry.space]) for obstacle in item.obstacles],
            None if self._reserve is None else self._reserve.too_large(entry, snapshot),
            demanded.no_node,
            demanded.not_offered,
            demanded.ports.taken,
            self._contained.problems.get(entry.space),
            too_large_to_start(managed.of([entry.space]), snapshot, self._gates, round_.view.pods).get(entry.space),
            bool(exceeds(whole_demand(demanded, snapshot, row), snapshot.usage[row]).any()),
            forecast is not None and self._waits(forecast.uid, entry, demanded),
        )

    def _input(
        self, round_: RoundContext, entry: QueueEntry, row: int, decision: QueueDecision, managed: ManagedNamespaces,
        demanded: NamespaceDemand, plan: RoundPlan,
    ) -> StatusInput:  # fmt: skip
        """Return the input for the status of a queue that governs its namespace."""
        snapshot = round_.snapshot
        grounds = self._grounds[entry.uid] = self._grounds_of(round_, entry, row, managed, demanded)
        reserve = None
        if self._reserve is not None:
            reserve = self._reserve.view(entry, row, snapshot, round_.result, observed_only=entry.observed_only)
        conditions = conditions_of(
            entry,
            decision,
            self._attainable(round_, decision, row, demanded),
            grounds.obstacles,
            observed_only=entry.observed_only,
            too_large=grounds.too_large,
            never_start=grounds.never_start,
            no_node=grounds.no_node,
            not_offered=grounds.not_offered,
            ports_taken=grounds.ports_taken,
            contained=grounds.contained,
            lacks_reserve=self._reserve is not None and lacks_reserve(entry),
        )
        usage, elastic = snapshot.usage[row], plan.elastic.queues.get(entry.qualified_name)
        demand = whole_demand(demanded, snapshot, row)
        forecast = self.forecasts.queues.get(entry.qualified_name)
        conditions = with_forecast(conditions, forecast, decision.window, waits=grounds.waits and grounds.foretold)
        allocated, used, waiting = largest_share(
            np.stack([decision.allocation, usage, np.maximum(demand - usage, 0.0)]), inverse_capacity(snapshot.live_capacity)
        ).tolist()
        return StatusInput(
            entry,
            conditions if elastic is None else [*conditions, condition(elastic)],
            decision,
            round_.memory.entry(entry.qualified_name),
            usage,
            demand,
            None if entry.observed_only else pod_priority_of(decision.guarantee_class, self._config, entry.lane),
            entry.mode.holds,
            reserve=reserve,
            lead_time=self._lead_time(plan, entry.qualified_name, row),
            suggestion=self.suggestions.get(entry.qualified_name),
            uncertainty=self._history.status_part(entry.uid),
            bursts_seen=self._history.internal_part(entry.uid),
            shares=(allocated, used, waiting),
            week=self._weeks.of(entry.uid),
            elasticity=None if elastic is None else status_part(elastic, snapshot.resources, self._config.elasticity.status_jobs),
        )

    def _waits(self, uid: str, entry: QueueEntry, demand: NamespaceDemand) -> bool:
        """Return whether an object is one of those that start next in its queue; True for an unknown one."""
        first = first_waiting(entry.mode.holds, demand, behind_gates(entry, self._gates.gated.of))
        return not uid or any(one.uid == uid for one in first)

    def _count_weeks(self, round_: RoundContext) -> None:
        """Add the time since the last look to each queue's week."""
        if self._rows_moved:
            self._weeks.lay_out({entry.uid: entry.obj for entry in round_.queue_set.governing}, round_.wall, round_.now)
            self._rows_moved = False
        if round_.memory.columns is not None:
            self._weeks.look(round_.snapshot, fair_shares(round_.memory.columns), round_.wall, round_.now)

    def _in_turn(self, round_: RoundContext, namespaces: Collection[str]) -> list[QueueEntry]:
        """Return the queues of these namespaces to look at now, at most `MOST_AT_ONCE`; the others stay candidates.

        Queues with an event come first, then those that have waited longest. The limit keeps the event loop responsive.
        """
        members = round_.queue_set.entries
        found = {position for namespace in namespaces for position in self._positions.get(namespace, ())}
        news = {event.queue.partition("/")[0] for event in round_.result.events}
        order = sorted(found, key=lambda position: (members[position].namespace not in news, (position - self._turn) % len(members)))
        self._candidates = {members[position].namespace for position in order[MOST_AT_ONCE:]}
        if self._candidates:
            self._turn = order[MOST_AT_ONCE - 1] + 1
        return [members[position] for position in sorted(order[:MOST_AT_ONCE])]

    def _attainable(
        self, round_: RoundContext, decision: QueueDecision, row: int, demand: NamespaceDemand
    ) -> Attainability | None:  # fmt: skip
        """Return whether the promised burst can be in time on this cluster; None without a promise."""
        promised = round_.memory.promised(decision.queue)
        burst = promised.burst if promised is not None else None
        if burst is None:
            return None
        snapshot = round_.snapshot
        rate = burst_rate(burst, snapshot.resources)
        others = self._used - snapshot.usage[row]
        free = bool(np.all(others + rate <= snapshot.live_capacity * (1 + 1e-9)))
        unit = self._bursts.unit(decision.queue, snapshot.unit[row])
        return attainability(
            deadline_seconds=burst.deadline_seconds,
            demand_fraction=self._bursts.fraction(decision.queue),
            pods=pods_of(rate, unit),
            fitting_pods=self._cluster.fitting(unit),
            room_is_free=free,
            pace=round_.view.pace.pace(round_.now),
            port_limit=self._bursts.port_limit(decision.queue, demand, len(self._cluster.nodes)),
        )

    def _lead_time(self, plan: RoundPlan, queue: str, row: int) -> LeadTimeView | None:
        """Return the queue's lead time and the size of the pods for which room is held; None for a queue without one."""
        view = plan.lead_times.get(queue)
        return None if view is None else replace(view, pod_size=self._bursts.unit(queue, plan.snapshot.unit[row]))

    def remember_bursts(self, round_: RoundContext) -> None:
        """Note the use of each burst that this round judged."""
        for what in round_.result.events:
            if what.kind not in {EventKind.BURST_MET, EventKind.BURST_MISSED}:
                continue
            remembered, promised = round_.memory.entry(what.queue), round_.memory.promised(what.queue)
            burst = promised.burst if promised is not None else None
            if burst is not None:
                committed = round_.snapshot.committed_capacity
                counted = committed > 0
                demand = burst_rate(burst, round_.snapshot.resources) * burst.deadline_seconds
                most = float(np.max(demand[counted] / committed[counted], initial=0.0))
                self._bursts.ended(what.queue, remembered.delivered(round_.wall), most)


def _but_status(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a queue object a write of its status leaves as it is."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return {**obj, "metadata": metadata, "status": None}
