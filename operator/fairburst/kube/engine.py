"""One scheduling round: cluster view in, decisions and writes out. No I/O; this module and `rounds` hold the state between rounds.

The queues, their demand and the capacity form the core's snapshot; `policy.decide` decides; quotas, releases, resyncs, statuses and events
are views of the result. The cost of a round is proportional to the changes since the last one: the steps look only at namespaces that have
changed, whose decision differs, or that are due. An unchanged cluster yields no write.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fairburst.config import Config
from fairburst.kube.api.objects import Pod
from fairburst.kube.containment import Containment
from fairburst.kube.culprits import UndecidableError, culprits
from fairburst.kube.enforce.gate import GateLevel, UngatePlanner
from fairburst.kube.enforce.holds import gate_level, job_starts
from fairburst.kube.enforce.managed_namespace import ManagedNamespace
from fairburst.kube.enforce.quota_plan import QuotaWrite
from fairburst.kube.enforce.reclaim import Cluster, Reclaimer
from fairburst.kube.enforce.slack import SlackControl
from fairburst.kube.jobs.elasticity import SlotPlanner
from fairburst.kube.jobs.reserve import Reserve
from fairburst.kube.names import QUOTA_NAME
from fairburst.kube.queues.queue_set import ObjectKey, QueueSet, QueueSetBuilder
from fairburst.kube.rounds.cluster_state import Changes, ClusterState, vector
from fairburst.kube.rounds.decision_changes import DecisionChanges
from fairburst.kube.rounds.demands import DemandTable
from fairburst.kube.rounds.differences import Agenda
from fairburst.kube.rounds.managed import ManagedNamespaces
from fairburst.kube.rounds.places import Places
from fairburst.kube.rounds.quotas import STEERED_SECONDS, QuotaRounds
from fairburst.kube.rounds.recall import QueueRecall
from fairburst.kube.rounds.resync import ResyncRounds
from fairburst.kube.rounds.statuses import StatusRounds
from fairburst.kube.rounds.suggestions import Suggestions
from fairburst.kube.rounds.view import ClusterView, RoundContext, RoundPlan
from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.views.lead_time_view import LeadTimeForecasts
from fairburst.kube.views.status_plan import StatusWrite
from fairburst.kube.wall_clock import WallClock
from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.baselines import Policy
from fairburst.policy.clock_step import shifted, shifted_reclaim
from fairburst.policy.decide import decide
from fairburst.policy.dress.memory import DressMemory
from fairburst.policy.drf import row_any
from fairburst.policy.entitlement import entitlements
from fairburst.policy.model import ClusterSnapshot, Memory, QueueKind
from fairburst.telemetry.log import event

logger = logging.getLogger(__name__)

UNSURE_SECONDS = 1.0  # after a write: then its arrival is checked once more


class Engine:
    """Holds the memory of the core and of the steps between rounds.

    `observing`: whether queues in Observe mode take part, and only their statuses are planned (`shadow.py`).
    """

    def __init__(self, config: Config, own_namespace: str, policy: Policy = decide, *, observing: bool = False) -> None:
        self._config = config
        self._observing = observing
        self._decide = policy
        self._policy = config.policy()
        self.memory = Memory()
        self.contained = Containment()
        self.reserve = Reserve.of(config)
        self.slots = SlotPlanner(config.elasticity)
        self.gates = UngatePlanner()
        self.reclaim = Reclaimer(config.reclaim.rules())
        self._queues = QueueSetBuilder(config.pool.name, own_namespace, self.contained, observing=observing)
        self._queue_set = QueueSet((), (), (), frozenset())
        self._recall = QueueRecall(config.pool.name, observing=observing)
        self._agenda = Agenda()
        self._cluster = ClusterState(config, own_namespace)
        self._demands = DemandTable(self.contained)
        self._managed = ManagedNamespaces(config, self._cluster, self.contained, self.reserve)
        self._places = Places()
        self._quotas = QuotaRounds(config, self.contained, self.reserve, self._agenda)
        self._resyncs = ResyncRounds(self.reserve, self._agenda)
        self._statuses = StatusRounds(
            config, self._cluster, self.contained, self.reserve, self.gates, self._queues.history, observing=observing
        )
        self._lead_times = LeadTimeForecasts(learning=self.reserve is not None)
        self._decision_changes = DecisionChanges()
        self._rows: dict[str, int] = {}
        self._holding: dict[str, frozenset[str]] = {}
        self._reclaiming = np.zeros(0, dtype=np.bool_)
        self._gated: frozenset[str] = frozenset()
        self._gate_levels: dict[str, GateLevel] = {}
        self._absent: frozenset[str] = frozenset()
        self._in_trouble: set[str] = set()
        self.changed_namespaces: frozenset[str] = frozenset()
        self._unfinished = True
        self._wall_clock = WallClock()

    # Calls of the process ----------------------------------------------------------------------------------------------------------

    @property
    def slack(self) -> SlackControl:
        """The slack of each quota."""
        return self._quotas.slack

    def remember_committed(self, resources: tuple[str, ...], committed: FloatArray, as_of_monotonic: float) -> None:
        """Restore the low-water mark of an earlier process."""
        self._cluster.low_water.observe(resources, committed, as_of_monotonic)

    def remember_reserve(self, memory: DressMemory) -> None:
        """Restore the reserve ratio and the learned durations of an earlier process."""
        self.memory = Memory(self.memory.queues, self.memory.next_admission_order, self.memory.columns, memory)

    def pod_changed(self, old: Pod | None, new: Pod | None, pods: PodIndex, wall: float, now: float) -> None:
        """Apply one change of a pod that `pods` has seen."""
        if self.reserve is not None:
            self.reserve.pod_changed(old, new, pods, wall, now)

    def pod_ended(self, space: str, now: float) -> None:
        """Note the end of a counted pod: a successor may take its place."""
        self.slack.ended((space, QUOTA_NAME), now)

    @property
    def observed_queues(self) -> Mapping[ObjectKey, object]:
        """Return the pool's queues in Observe mode, which this engine leaves out, each with a value that changes with its spec."""
        return self._queues.observed

    def recall(self, keys: Iterable[ObjectKey]) -> None:
        """Read these queues' statuses again once their specs change, instead of what this engine remembers of them."""
        for key in keys:
            self._recall.forget(key)

    @property
    def demands(self) -> Mapping[str, NamespaceDemand]:
        """Return the demand of each managed namespace, as the last round read it."""
        return self._demands.by_namespace

    def kind_of(self, namespace: str) -> QueueKind | None:
        """Return the kind of the queue that governed the namespace in the last round."""
        row = self._rows.get(namespace)
        spec = self._queue_set.governing[row].spec if row is not None else None
        return None if spec is None else spec.kind

    def quota_written(self, write: QuotaWrite, now: float) -> None:
        """Note a quota write that was sent, successful or not."""
        self._quotas.planner.written(write.key, now)

    def status_sent(self, write: StatusWrite, now: float) -> None:
        """Note a status write in flight."""
        self._statuses.planner.sent(write, now)

    def status_written(self, write: StatusWrite, now: float) -> None:
        """Note the answer to a status write, successful or not."""
        self._statuses.planner.written(write, now)
        self._statuses.look_again(write.entry.namespace, now)

    def suggest(self, suggestions: Suggestions, plan: RoundPlan, wall: float, now: float) -> None:
        """Look for a suggestion for one observed queue after a round, and at its status again where there is a new one."""
        namespace = suggestions.look(plan, self.memory, self._policy, wall, now)
        if namespace is not None:
            self._statuses.suggestions = suggestions.of
            self._statuses.look_again(namespace, now)

    # The round ---------------------------------------------------------------------------------------------------------------------

    def round(self, view: ClusterView, wall: float, now: float) -> RoundPlan:
        """Compute one round. `wall` is seconds since the epoch, `now` monotonic seconds.

        Queues on which the core cannot decide are left as they are, with a condition that says so, and the others are decided on without
        them. Raises where the others cannot be decided on either; the next round then looks at everything.
        """
        self._in_trouble |= self.contained.problems.keys()
        self.contained.begin_round()
        self._follow_clock(wall, now)
        changes = self._cluster.look(view)
        changes.everything |= self._unfinished
        self._unfinished = True
        while True:  # each time without at least one queue more: the next queue of its namespace may be no better
            try:
                plan = self._round(view, changes, wall, now)
            except UndecidableError as failure:
                self._exclude(failure, wall)
                changes.everything = True
                continue
            self._unfinished, self._in_trouble = False, set()
            return plan

    def _follow_clock(self, wall: float, now: float) -> None:
        """After a step of the wall clock, move the remembered times, and look at everything."""
        step = self._wall_clock.step(wall, now)
        if step:
            event(logger, logging.WARNING, "the wall clock stepped, open windows and accounts go on as before", seconds=round(step, 1))
            self.memory, self.reclaim.memory = shifted(self.memory, step), shifted_reclaim(self.reclaim.memory, step)
            self._unfinished = True

    def _exclude(self, failure: UndecidableError, wall: float) -> None:
        """Leave out the queues on which the core cannot decide. Raises the failure's cause if there are none."""
        names = culprits(failure.snapshot, self.memory, self._policy, wall)
        if not names:
            raise failure.cause from failure
        for entry in failure.members:
            if entry.qualified_name in names:
                self.contained.note("decide on", entry.namespace, names[entry.qualified_name])
                self._queues.excluded[entry.uid] = entry.generation, self.contained.problems[entry.namespace]
                self._recall.forget(entry.key)

    def _round(self, view: ClusterView, changes: Changes, wall: float, now: float) -> RoundPlan:
        self._read_queues(view, changes, wall, now)
        touched = changes.namespaces | self._agenda.take(now) | self._in_trouble
        touched = self._queue_set.spaces.whole(touched | self._read_cluster(view, changes, wall))
        snapshot = self._snapshot(view, changes, touched, wall, now)
        started = time.perf_counter()
        try:
            result, self.memory = self._decide(snapshot, self.memory, self._policy, wall)
        except Exception as error:
            raise UndecidableError(snapshot, self._queue_set.governing, error) from error
        plan = RoundPlan(result, snapshot, self._queue_set, time.perf_counter() - started)
        self._watch_bursts(snapshot, wall)
        plan.due = min(now + max(0.0, result.next_boundary - wall), self._cluster.low_water.next_expiry())
        plan.elastic = self.slots.plan(result, view.controllers.marked_jobs(), self._queue_set, self._absent, wall, now)
        plan.lead_times = self._lead_times.views(snapshot, result)
        left_alone = self._queue_set.elsewhere | self._queue_set.left_as_is | self._absent | self._cluster.never_managed
        round_ = RoundContext(
            view, self._queue_set, snapshot, result, self.memory, self._rows, touched, changes.everything, left_alone, wall, now
        )  # fmt: skip
        self._enforce(round_, changes, plan)
        members = {entry.qualified_name: entry for entry in self._queue_set.governing} if result.events else {}
        plan.events = [(members[event.queue], event) for event in result.events if event.queue in members]
        for namespace in plan.written_namespaces():
            self._agenda.put(namespace, now + UNSURE_SECONDS)
        plan.due = min(plan.due, now + plan.elastic.wait, now + plan.reclaim.due, self._agenda.next())
        return plan

    def _watch_bursts(self, snapshot: ClusterSnapshot, wall: float) -> None:
        with self.contained.object("learn the bursts of", ""):
            rows = {entry.uid: row for row, entry in enumerate(self._queue_set.governing)} if self._queues.history.learning else {}
            self._queues.history.watch(rows, snapshot, self.memory.columns, wall)

    def _read_queues(self, view: ClusterView, changes: Changes, wall: float, now: float) -> None:
        """Read the changed queue objects; set `changes.everything` if rows have moved."""
        queues = view.read_queues()
        self._queues.wall = wall
        self.memory = self._recall.read(queues, changes.queues, self.memory, self._queues.excluded, wall)
        if changes.queues or changes.objects or changes.everything:
            absent = self._cluster.absent(queues)
            changes.everything |= not (absent ^ self._absent).isdisjoint(namespace for _, namespace, _ in queues)
            self._absent = absent
        queue_set = None if changes.everything else self._queues.update(queues, changes.queues, self.memory)
        if queue_set is not None:
            self._queue_set = queue_set
            rows = {self._rows[namespace] for namespace in changes.namespaces if namespace in self._rows}
            self._quotas.hold_times.note((queue_set.governing[row] for row in rows), self._cluster.labels, now)
            return
        changes.everything = True
        self._queues.lanes.prepare(view.pods.spaces, self._cluster.labels, view.pods.busy_lanes, assigns=not self._observing)
        self._queue_set = self._queues.build(queues, self.memory, self._absent)
        if self._queue_set.spaces is not view.pods.spaces and not self._observing:
            view.pods.divide(self._queue_set.spaces)
            view.controllers.spaces = self._queue_set.spaces
        governing = self._queue_set.governing
        self._rows = {entry.space: row for row, entry in enumerate(governing)}
        self._holding = {kind: frozenset(one.namespace for one in governing if one.mode.holds == kind) for kind in ("Pods", "Jobs")}
        self._reclaiming = np.array([entry.reclaims for entry in governing], dtype=np.bool_)
        self._statuses.lay_out(self._queue_set)
        self._quotas.hold_times.retain(self._rows)
        self._quotas.hold_times.note(governing, self._cluster.labels, now)

    def _read_cluster(self, view: ClusterView, changes: Changes, wall: float) -> set[str]:
        """Read changed nodes, namespaces and work; return the namespaces whose demand was read again."""
        self._cluster.read_resources(self._queue_set, view, again=changes.nodes or changes.everything)
        resources = self._cluster.resources
        stale = self._demands.by_namespace.keys() if self._cluster.see_nodes(view, changed=changes.nodes) else set[str]()
        if view.pods.resources != resources:
            view.pods = PodIndex.rebuilt(resources, view.stored_pods.values(), by_class=self.reserve is not None, spaces=view.pods.spaces)
        if self._demands.resources != resources:
            stale, changes.everything, self._demands.resources = self._demands.by_namespace.keys(), True, resources
        unowned = any(name in self._cluster.labelled and name not in self._cluster.governed for name in changes.namespaces)
        if changes.everything or changes.objects or unowned:
            changes.namespaces |= self._cluster.find_orphans(view, self._queue_set)
            self._forget_others()
        view.changed_namespaces |= view.pods.expire(wall)
        view.changed_namespaces |= self.slots.prepare(view.controllers, view.pods, self._queue_set, moved=changes.everything)
        gated = self._holding["Pods"]
        managed = self._cluster.managed
        view.changed_namespaces |= self._queue_set.spaces.whole(view.changed_namespaces)
        stale = {*stale, *view.changed_namespaces, *(gated ^ self._gated), *(managed - self._demands.by_namespace.keys())} & managed
        touched = view.changed_namespaces | stale
        self._gated = gated
        self._demands.refresh(
            view, stale, self.slots.desired_pods, lambda requests: self._cluster.fitting(vector(resources, requests)), gated
        )  # fmt: skip
        self.changed_namespaces = frozenset(view.changed_namespaces)
        view.changed_namespaces.clear()
        return touched

    def _forget_others(self) -> None:
        """Forget namespaces that are no longer managed."""
        for namespace in self._demands.retain(self._cluster.managed):
            self._quotas.forget(namespace)
        self.slack.retain(self._cluster.managed)

    def _snapshot(self, view: ClusterView, changes: Changes, touched: set[str], wall: float, now: float) -> ClusterSnapshot:
        """Return the core's input, with new rows where the demand was read again."""
        live, committed = self._cluster.capacity(view, now)
        table = self._demands
        touched |= table.charge_no_more(self._not_running(view, wall))
        table.lay_out(view, self._rows, None if changes.everything else touched)
        specs, resources = self._queue_set.specs, self._cluster.resources
        snapshot = ClusterSnapshot(resources, live, committed, specs, table.demand, table.usage, table.unit, waiting=table.waiting)
        if self.reserve is not None:
            snapshot = self.reserve.part(
                snapshot, self._queue_set, table.by_namespace, touched, view.pods, view.stored_pods.values(), wall, now,
                moved=changes.everything,
            )  # fmt: skip
        return self.slots.part(snapshot)

    def _not_running(self, view: ClusterView, wall: float) -> dict[str, dict[str, float]]:
        """Return the requests by namespace of bound pods that count for no queue: reclaim evicts them, or their node does not exist."""
        nodes = {name for _, name in view.nodes}
        uncharged = view.pods.bound_nowhere(nodes)
        for namespace, freed in self.reclaim.freed(view.stored_pods, view.pods, nodes, wall).items():
            known = uncharged.setdefault(namespace, {})
            for resource, amount in freed.items():
                known[resource] = known.get(resource, 0.0) + amount
        return uncharged

    def _enforce(self, round_: RoundContext, changes: Changes, plan: RoundPlan) -> None:
        """Turn the decision into writes, step by step."""
        entitled, more, bound = self._entitled(round_)
        differing = self._decision_changes.rows(round_.result, round_.snapshot, self.memory, entitled, more, bound_by_burst=bound)
        governing = self._queue_set.governing
        round_.touched.update(governing[row].space for row in np.flatnonzero(differing).tolist())
        if round_.everything:
            round_.touched.update(self._cluster.managed)
        round_.touched.update(self._queue_set.spaces.whole(round_.touched))
        news = self._managed.refresh(round_, self._demands.by_namespace, plan)
        with self.contained.object("reclaim for", ""):
            self._plan_reclaim(round_, plan)
        with self.contained.object("divide places for pods of", ""):
            total = self._cluster.slots(round_.view)
            self._places.divide(round_, self._managed, total, self._demands.pods, promises_changed=bool(changes.queues))
        items = self._managed.of(round_.touched)
        with self.contained.object("steer the quota of", ""):
            self._quotas.steer(round_, items, self._demands.uncharged)
            self._quotas.entitle(items, entitled, more, bound_by_burst=bound)
        with self.contained.object("release work of", ""):
            self._plan_releases(round_, items, plan)
        self._quotas.plan(round_, self._managed, items, plan)
        with self.contained.object("resync the controllers of", ""):
            self._resyncs.plan(round_, items, plan)
        with self.contained.object("remember the bursts of", ""):
            self._statuses.remember_bursts(round_)
        self._statuses.plan_in_time(round_, self._managed, self._demands.by_namespace, plan, news=news)

    def _entitled(self, round_: RoundContext) -> tuple[FloatArray, BoolArray, bool]:
        """Return (N, K) amounts that quotas may admit, (N,) whether these exceed the level, and whether an armed burst bounds them."""
        level = round_.result.level
        entitled, bound = level, False
        with self.contained.object("entitle", ""):
            entitled, bound = entitlements(round_.result, round_.snapshot, self.memory)
        return entitled, row_any(entitled > level), bound

    def _plan_reclaim(self, round_: RoundContext, plan: RoundPlan) -> None:
        """Plan evictions for owed amounts; queues that give are held exactly to their level until the waiting pods are placed."""
        view = round_.view
        cluster = Cluster(view.stored_pods, view.pods, view.controllers, view.quotas, self._cluster.nodes, self._cluster.shapes)
        plan.reclaim = self.reclaim.plan(
            cluster, self._managed.all, round_.snapshot, round_.result, self._reclaiming, round_.wall, round_.now
        )  # fmt: skip
        self._managed.hold_back(round_, plan.reclaim.holding)

    def _plan_releases(self, round_: RoundContext, items: Sequence[ManagedNamespace], plan: RoundPlan) -> None:
        """Release gated pods and held Jobs: by their queue's level, or all of them where no queue holds them any more."""
        waiting = self.gates.gated.namespaces()
        for namespace in round_.touched:
            self._gate_levels.pop(namespace, None)
        for item in (*items, *self._managed.of(waiting)):
            if item.row is not None and item.mode.holds == "Pods":
                self._gate_levels[item.namespace] = gate_level(item, round_.result, waiting=item.namespace in waiting)
        plan.ungates, due = self.gates.plan(self._gate_levels, round_.left_alone, round_.view.pods, round_.now)
        plan.due = min(plan.due, due)
        for item in items:
            if self.reserve is not None and item.entry is not None and item.row is not None and item.mode.holds == "Jobs":
                item.parts = self.reserve.level_parts(item.entry, item.row, round_.result, round_.now, exact=item.held_back)
                if item.parts is not None:
                    self._agenda.put(item.namespace, round_.now + STEERED_SECONDS)
        noted, resources = round_.view.controllers.noted_jobs(), round_.snapshot.resources
        plan.starts = job_starts(items, self._holding["Jobs"], round_.result, resources, noted, round_.left_alone)
