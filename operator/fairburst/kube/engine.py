"""One scheduling round: cluster view in, decisions and writes out. No I/O; what lives from round to round lives here.

Roster, demand and capacity make the core's snapshot; `policy.decide` decides; quota, wake, label, status and event plans are
views of the result. Level-triggered: every round is computed from the whole view, and a settled cluster yields no write.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairburst.config import Config, natural_units
from fairburst.kube.admission.hold_label import hold_labels
from fairburst.kube.api.objects import LimitRange, Namespace, Node, Pod, ResourceQuota
from fairburst.kube.containment import Containment
from fairburst.kube.culprits import UndecidableError, culprits
from fairburst.kube.enforce.enforceability import obstacles
from fairburst.kube.enforce.enforced import Enforced
from fairburst.kube.enforce.gate import Gatekeeper
from fairburst.kube.enforce.holds import HoldTimes, gate_levels, job_starts, too_large_to_start
from fairburst.kube.enforce.quota_plan import QuotaKey, QuotaPlanner, QuotaTarget, QuotaWrite, amounts, pool_of
from fairburst.kube.enforce.quota_targets import gated_target, umbrella_target
from fairburst.kube.enforce.reclaim import Cluster, Reclaimer, ReclaimPlan
from fairburst.kube.enforce.slack import SlackControl
from fairburst.kube.enforce.slack_use import fewest, use_of
from fairburst.kube.enforce.stamp import HOLDS, stamp_of
from fairburst.kube.enforce.suspend import JobStart
from fairburst.kube.enforce.wake import Room, WakePlanner
from fairburst.kube.jobs.elasticity import ElasticPlan, SlotPlanner
from fairburst.kube.jobs.reserve import CLASS_OF, Reserve, left_over
from fairburst.kube.names import LARGE_QUOTA, MANAGED_LABEL, OUR_QUOTAS, PART_QUOTAS, QUOTA_NAME, SMALL_QUOTA
from fairburst.kube.queues.roster import KINDS, NEVER_MANAGED, Member, ObjectKey, Roster, RosterBuilder, pool_name
from fairburst.kube.usage.burst_sizes import BurstSizes, pods_of
from fairburst.kube.usage.capacity import LowWaterMark, NodeShapes, counts
from fairburst.kube.usage.controller_index import ControllerIndex
from fairburst.kube.usage.demand import NamespaceDemand, Owner, namespace_demand, waiting_pods
from fairburst.kube.usage.gated_pods import GatedPod
from fairburst.kube.usage.pace import PaceMeter
from fairburst.kube.usage.pod_index import NamespaceUsage, PodIndex
from fairburst.kube.views.conditions import conditions_of
from fairburst.kube.views.elastic_view import condition, status_part
from fairburst.kube.views.lead_time_view import LeadTimeBook, LeadTimeView
from fairburst.kube.views.status import StatusInput, StatusPlanner, StatusWrite, memory_of
from fairburst.policy.arrays import FloatArray
from fairburst.policy.attainability import Attainability, attainability
from fairburst.policy.baselines import Policy
from fairburst.policy.decide import decide
from fairburst.policy.dress.memory import DressMemory
from fairburst.policy.drf import row_any
from fairburst.policy.entitlement import entitlements
from fairburst.policy.model import (
    Burst,
    ClusterSnapshot,
    EventKind,
    Memory,
    QueueDecision,
    QueueKind,
    QueueMemory,
    RoundEvent,
    RoundResult,
)

STATUS_PLAN_SECONDS = 0.5


@dataclass(slots=True)
class ClusterView:
    """Everything the informers and the queue watch hold, current as of now. The engine only reads it."""

    pods: PodIndex
    stored_pods: Mapping[tuple[str, str], Pod] = field(default_factory=dict)
    changed_namespaces: set[str] = field(default_factory=set)
    controllers: ControllerIndex = field(default_factory=ControllerIndex)
    pace: PaceMeter = field(default_factory=PaceMeter)
    nodes: Mapping[tuple[str, str], Node] = field(default_factory=dict)
    namespaces: Mapping[tuple[str, str], Namespace] = field(default_factory=dict)
    quotas: Mapping[tuple[str, str], ResourceQuota] = field(default_factory=dict)
    limit_ranges: Mapping[tuple[str, str], LimitRange] = field(default_factory=dict)
    read_queues: Callable[[], Mapping[ObjectKey, Mapping[str, Any]]] = dict


@dataclass(slots=True)
class RoundPlan:
    """What a round wants done. `due`: monotonic time of the next round if no event comes first; `since`: of the first event that led to
    this one."""

    result: RoundResult
    snapshot: ClusterSnapshot
    roster: Roster
    decide_seconds: float
    quota_writes: list[QuotaWrite] = field(default_factory=list)
    ungates: list[GatedPod] = field(default_factory=list)
    starts: list[JobStart] = field(default_factory=list)
    elastic: ElasticPlan = field(default_factory=ElasticPlan)
    reclaim: ReclaimPlan = field(default_factory=ReclaimPlan)
    wakes: list[Owner] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    hold_labels: list[tuple[str, str | None]] = field(default_factory=list)
    releases: list[str] = field(default_factory=list)
    quota_deletions: list[QuotaKey] = field(default_factory=list)
    lead_times: Mapping[str, LeadTimeView] = field(default_factory=dict)
    statuses: list[StatusWrite] = field(default_factory=list)
    statuses_planned: bool = False
    events: list[tuple[Member, RoundEvent]] = field(default_factory=list)
    false_conditions: dict[str, set[str]] = field(default_factory=dict)
    quotas_out_of_sync: int = 0
    refused: int = 0
    due: float = math.inf
    since: float = math.inf

    def dominant_shares(self) -> FloatArray:
        """(N, 2) dominant shares allocated and used, fractions of live capacity."""
        capacity = self.snapshot.live_capacity
        counted = capacity > 0
        if not counted.any():
            return np.zeros((len(self.snapshot.queues), 2))
        both = np.stack([self.result.allocation, self.snapshot.usage])
        shares: FloatArray = (both[:, :, counted] / capacity[counted]).max(axis=2, initial=0.0).T
        return shares


@dataclass(slots=True)
class _Bounds:
    """Limits that others have set, by namespace."""

    quotas: dict[str, list[ResourceQuota]]
    limit_ranges: dict[str, list[LimitRange]]

    @classmethod
    def of(cls, view: ClusterView) -> _Bounds:
        quotas: dict[str, list[ResourceQuota]] = {}
        for (namespace, name), quota in view.quotas.items():
            if name not in OUR_QUOTAS:
                quotas.setdefault(namespace, []).append(quota)
        limit_ranges: dict[str, list[LimitRange]] = {}
        for (namespace, _), limit_range in view.limit_ranges.items():
            limit_ranges.setdefault(namespace, []).append(limit_range)
        return cls(quotas, limit_ranges)


class Engine:
    """Holds the core's memory and the planners' between rounds. One per operator process."""

    def __init__(self, config: Config, own_namespace: str, policy: Policy = decide) -> None:
        self._config = config
        self._decide = policy
        self._policy = config.policy()
        self.contained = Containment()
        self._roster = RosterBuilder(config.pool.name, own_namespace, self.contained)
        self._never_managed = NEVER_MANAGED | {own_namespace}
        self._quotas = QuotaPlanner(config.pool.name, config.writes.quota_interval_seconds, self.contained)
        self._wakes = WakePlanner()
        self._statuses = StatusPlanner(config.rounds.status_interval_seconds, contained=self.contained)
        self._low_water = LowWaterMark(config.pool.capacity_window_seconds)
        self.slack = SlackControl()
        self.reserve = Reserve.of(config)
        self._lead_times = LeadTimeBook(learning=self.reserve is not None)
        self.slots = SlotPlanner(config.elasticity)
        self.gates = Gatekeeper()
        self.reclaim = Reclaimer(config.reclaim.rules())
        self._uncharged: dict[str, dict[str, float]] = {}
        self._hold_times = HoldTimes()
        self._bursts = BurstSizes()
        self._standing: object = None
        self._statuses_at = -math.inf
        self.memory = Memory()
        self._uids: dict[str, str] = {}
        self._demand: dict[str, NamespaceDemand] = {}
        self._kinds: dict[str, QueueKind] = {}
        self._gated: set[str] = set()
        self._demand_resources: tuple[str, ...] = ()
        self._floors = natural_units(config.enforcement.floors)
        self._nodes: dict[str, Node] = {}
        self._largest_node: dict[str, float] = {}
        self._shapes = NodeShapes.of((), ())

    def remember_committed(self, resources: tuple[str, ...], committed: FloatArray, as_of_monotonic: float) -> None:
        """Take over the low-water mark of an earlier process."""
        self._low_water.observe(resources, committed, as_of_monotonic)

    def remember_reserve(self, memory: DressMemory) -> None:
        """Take over the reserve ratio and what was learned by an earlier process."""
        self.memory = Memory(self.memory.queues, self.memory.next_admission_order, self.memory.columns, memory)

    def round(self, view: ClusterView, wall: float, now: float) -> RoundPlan:
        """Compute one round. `wall` is seconds since the epoch, `now` monotonic seconds.

        Queues on which the core cannot decide are left as they are, with a condition that says so, and the others are decided on without
        them. Raises where the others cannot be decided on either.
        """
        self.contained.begin_round()
        try:
            return self._round(view, wall, now)
        except UndecidableError as failure:
            names = culprits(failure.snapshot, self.memory, self._policy, wall)
            if not names:
                raise failure.cause from failure
            for member in failure.members:
                if member.qualified_name in names:
                    self.contained.note("decide on", member.namespace, names[member.qualified_name])
                    self._roster.excluded[member.uid] = member.generation, self.contained.problems[member.namespace]
        return self._round(view, wall, now)

    def _round(self, view: ClusterView, wall: float, now: float) -> RoundPlan:
        ending = frozenset(
            name for (_, name), item in view.namespaces.items() if item.metadata.deletion_timestamp or item.status.phase == "Terminating"
        )
        present = frozenset(name for _, name in view.namespaces)
        queues = view.read_queues()
        gone = frozenset(namespace for _, namespace, _ in queues if namespace not in present)
        self._recall(queues)
        roster = self._roster.build(queues, self.memory, ending | gone)
        resources = self._resources(roster, view)
        if view.pods.resources != resources:
            view.pods = PodIndex.rebuilt(resources, view.stored_pods.values(), by_class=self.reserve is not None)
        if view.pods.expire(wall):
            self._demand.clear()
        self._kinds = {member.namespace: member.spec.kind for member in roster.governing if member.spec is not None}
        view.changed_namespaces |= self.slots.prepare(view.controllers, view.pods, roster)
        changed = set(view.changed_namespaces)
        self._see_nodes(view, resources)
        self._refresh_demand(view, roster, resources, ending)
        self._uncharged = self._not_running(view, wall)
        snapshot = self._snapshot(view, roster, resources, now)
        if self.reserve is not None:
            snapshot = self.reserve.part(snapshot, roster, self._demand, changed, view.pods, view.stored_pods.values(), wall, now)
        snapshot = self.slots.part(snapshot)
        started = time.perf_counter()
        try:
            result, self.memory = self._decide(snapshot, self.memory, self._policy, wall)
        except Exception as error:
            raise UndecidableError(snapshot, roster.governing, error) from error
        plan = RoundPlan(result, snapshot, roster, time.perf_counter() - started)
        plan.due = min(now + max(0.0, result.next_boundary - wall), self._low_water.next_expiry())
        plan.elastic = self.slots.plan(result, view.controllers.marked_jobs(), roster, ending, wall, now)
        plan.due = min(plan.due, now + plan.elastic.wait)
        plan.lead_times = self._lead_times.views(snapshot, result)
        enforced = self._enforced(view, roster, plan, ending)
        self._hold_times.note(roster, now)
        with self.contained.object("reclaim for", ""):
            self._plan_reclaim(view, enforced, plan, wall, now)
        with self.contained.object("steer the quota of", ""):
            self._steer_slack(view, enforced, plan.snapshot, now)
            self._entitle(enforced, plan)
        with self.contained.object("release work of", ""):
            self._plan_holds(view, enforced, plan, ending, now)
        self._plan_quotas(view, enforced, plan, now)
        with self.contained.object("resync the controllers of", ""):
            self._plan_wakes(view, enforced, plan, now)
        with self.contained.object("remember the bursts of", ""):
            self._remember_bursts(plan, wall)
        self._plan_statuses_in_time(view, enforced, plan, wall, now)
        members = {member.qualified_name: member for member in roster.governing}
        plan.events = [(members[event.queue], event) for event in result.events if event.queue in members]
        return plan

    def pod_ended(self, namespace: str, now: float) -> None:
        """A counted pod has ended or is gone: a successor may take its place."""
        self.slack.ended((namespace, QUOTA_NAME), now)

    def kind_of(self, namespace: str) -> QueueKind | None:
        """Kind of the queue that governed the namespace in the last round."""
        return self._kinds.get(namespace)

    def quota_written(self, write: QuotaWrite, now: float) -> None:
        """Tell the planner that a quota write was sent."""
        self._quotas.written(write.key, now)

    def status_sent(self, write: StatusWrite, now: float) -> None:
        """Tell the planner that a status write is on its way."""
        self._statuses.sent(write, now)

    def status_written(self, write: StatusWrite, now: float) -> None:
        """Tell the planner that a status write was answered."""
        self._statuses.written(write, now)

    def _recall(self, queues: Mapping[ObjectKey, Mapping[str, Any]]) -> None:
        """Read the memory of queues that this process has not met, and forget namesakes of deleted ones."""
        read, forgotten = dict[str, QueueMemory](), set[str]()
        for (kind, namespace, name), obj in queues.items():
            qualified, uid = f"{namespace}/{name}", obj["metadata"].get("uid", "")
            if uid in self._roster.excluded:  # what its status remembers is read once it is decided on again
                if self._roster.excluded[uid][0] == int(obj["metadata"].get("generation", 0)):
                    self._uids.pop(f"{kind}/{qualified}", None)
                    continue
                del self._roster.excluded[uid]
            if self._uids.get(f"{kind}/{qualified}") == uid:
                continue
            self._uids[f"{kind}/{qualified}"] = uid
            remembered = memory_of(obj)
            if remembered is not None and pool_name(obj) == self._config.pool.name:
                read[qualified] = remembered
            elif self._remembers(kind, qualified):
                forgotten.add(qualified)
        for gone in self._uids.keys() - {f"{kind}/{namespace}/{name}" for kind, namespace, name in queues}:
            del self._uids[gone]
            kind, qualified = gone.split("/", 1)
            if self._remembers(kind, qualified):
                forgotten.add(qualified)
        if read or forgotten:
            known = {name: self.memory.entry(name) for name in self.memory.queues if name not in forgotten} | read
            following = 1 + max((entry.admission_order for entry in known.values()), default=-1)
            self.memory = Memory(known, max(self.memory.next_admission_order, following), dress=self.memory.dress)

    def _remembers(self, kind: str, qualified: str) -> bool:
        """Whether something is remembered of this object, and not of one of the other kind under the same name."""
        promised = self.memory.promised(qualified)
        return promised is not None and promised.promise.kind is KINDS[kind]

    def _resources(self, roster: Roster, view: ClusterView) -> tuple[str, ...]:
        """The K counted resources: the configured ones, and extended ones that a queue names and a node has."""
        named = {
            resource
            for spec in roster.specs
            for resource in (*(spec.burst.resources if spec.burst else ()), *spec.limits)
            if resource not in self._config.pool.counted_resources
        }
        offered = {resource for node in view.nodes.values() for resource in node.status.allocatable or ()} if named else set()
        return (*self._config.pool.counted_resources, *sorted(named & offered))

    def _orphans(self, view: ClusterView, roster: Roster, ending: frozenset[str]) -> set[str]:
        """Labelled namespaces without a queue, which run at the floor; not those where another pool's operator is in charge."""
        governed = {member.namespace for member in roster.governing}
        left = _labelled(view.namespaces) - governed - ending - roster.elsewhere - roster.left_as_is - self._never_managed
        return {name for name in left if self._is_nobody_elses(view.quotas.get((name, QUOTA_NAME)))}

    def _is_nobody_elses(self, quota: ResourceQuota | None) -> bool:
        return quota is None or pool_of(quota) in {None, self._config.pool.name}

    def _see_nodes(self, view: ClusterView, resources: tuple[str, ...]) -> None:
        """What the pool's nodes offer; what controllers want is worked out anew where that has changed."""
        pool = self._config.pool
        self._nodes = {name: node for (_, name), node in view.nodes.items() if counts(node, pool.node_selector)}
        shapes = NodeShapes.of(self._nodes.values(), resources)
        if not shapes.same_as(self._shapes):
            self._demand.clear()
            self._shapes = shapes
            most = np.full(len(resources), np.inf) if pool.autoscaled else shapes.largest()
            self._largest_node = dict(zip(resources, most.tolist(), strict=True))

    def _fitting(self, unit: FloatArray) -> float:
        """How many pods of the (K,) size `unit` the pool's nodes hold while they are empty; no limit where nodes come as needed."""
        if self._config.pool.autoscaled:
            return math.inf
        return self._shapes.fitting(unit)

    def _refresh_demand(self, view: ClusterView, roster: Roster, resources: tuple[str, ...], ending: frozenset[str]) -> None:
        """Recompute the demand of namespaces in which something changed."""
        managed = {member.namespace for member in roster.governing} | self._orphans(view, roster, ending)
        gated = {member.namespace for member in roster.governing if member.enforcement == "Gate"}
        view.changed_namespaces |= gated ^ self._gated
        self._gated = gated
        if resources != self._demand_resources:
            self._demand.clear()
            self._demand_resources = resources
        stale = view.changed_namespaces
        for namespace in managed:
            if namespace in stale or namespace not in self._demand:
                with self.contained.object("read the work of", namespace):
                    self._demand[namespace] = namespace_demand(
                        view.controllers.workloads(namespace),
                        view.pods.namespace(namespace),
                        view.pods.owner,
                        resources,
                        self.slots.wishes(namespace),
                        lambda charge: self._fitting(_vector(resources, charge)),
                        gated=namespace in gated,
                    )
                self._demand.setdefault(namespace, NamespaceDemand())
        for namespace in self._demand.keys() - managed:
            del self._demand[namespace]
            self._quotas.forget(namespace)
        self.slack.retain(managed)
        view.changed_namespaces.clear()

    def _snapshot(self, view: ClusterView, roster: Roster, resources: tuple[str, ...], now: float) -> ClusterSnapshot:
        live, committed = self._capacity(view, roster, resources, now)
        shape = (len(roster.governing), len(resources))
        demand, usage, unit = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for row, member in enumerate(roster.governing):
            wanted = self._demand[member.namespace]
            running, uncharged = view.pods.namespace(member.namespace), self._uncharged.get(member.namespace, {})
            for column, resource in enumerate(resources):
                demand[row, column] = wanted.placeable.get(resource, 0.0)
                usage[row, column] = max(running.bound.get(resource, 0.0) - uncharged.get(resource, 0.0), 0.0)
                unit[row, column] = wanted.unit.get(resource, 0.0)
        waiting = waiting_pods((self._demand[member.namespace] for member in roster.governing), resources)
        return ClusterSnapshot(resources, live, committed, roster.specs, np.maximum(demand, usage), usage, unit, waiting=waiting)

    def _not_running(self, view: ClusterView, wall: float) -> dict[str, dict[str, float]]:
        """Charge by namespace of bound pods that no queue is charged for: reclaim is ending them, or their node does not exist."""
        nodes = {name for _, name in view.nodes}
        uncharged = view.pods.bound_nowhere(nodes)
        for namespace, freed in self.reclaim.freed(view.stored_pods, view.pods, nodes, wall).items():
            known = uncharged.setdefault(namespace, {})
            for resource, amount in freed.items():
                known[resource] = known.get(resource, 0.0) + amount
        return uncharged

    def _capacity(self, view: ClusterView, roster: Roster, resources: tuple[str, ...], now: float) -> tuple[FloatArray, FloatArray]:
        """(K,) live and committed capacity. The pods of deleted queues lower only the live one."""
        pool = self._config.pool
        head_room, declared = natural_units(pool.head_room), natural_units(pool.declared_capacity)
        offered = self._shapes.total()
        reserve = offered * pool.head_room_percent / 100 + _vector(resources, head_room)
        governed = frozenset(member.namespace for member in roster.governing)
        orphaned = self._orphans(view, roster, frozenset())
        offers = dict(zip(self._nodes, self._shapes.offers.tolist(), strict=True))
        foreign = _vector(resources, view.pods.bound_outside(governed | orphaned, offers))
        outside = _vector(resources, view.pods.bound_outside(governed, offers)) if orphaned else foreign
        leftover = outside - foreign
        low = self._low_water.observe(resources, np.maximum(offered - reserve - foreign, 0.0), now)
        committed = np.array([declared.get(resource, amount) for resource, amount in zip(resources, low, strict=True)])
        live = committed if pool.autoscaled else np.maximum(offered - reserve - foreign - leftover, 0.0)
        return live, committed

    def _enforced(self, view: ClusterView, roster: Roster, plan: RoundPlan, ending: frozenset[str]) -> list[Enforced]:
        """Every namespace whose quota is ours to write, with its level. A labelled namespace without a queue runs at the floor."""
        resources, found = plan.snapshot.resources, []
        labelled, bounds = _labelled(view.namespaces), _Bounds.of(view)
        for row, member in enumerate(roster.governing):
            if member.observed_only:
                if self._is_ours(view.quotas.get((member.namespace, QUOTA_NAME))):
                    plan.releases.append(member.namespace)  # it has just left enforcement: let go of what was held
                continue
            if member.namespace not in labelled:
                plan.labels.append(member.namespace)
            with self.contained.object("enforce", member.namespace):
                item = self._enforce(view, member.namespace, member, row, plan.result.level[row], bounds)
                item.held_back = plan.result.held_back is not None and bool(plan.result.held_back[row])
                found.append(item)
        if self._config.webhook.enabled:
            plan.hold_labels = hold_labels(view.namespaces.values(), self._gated, roster.elsewhere | ending)
        for namespace in sorted(self._orphans(view, roster, ending)):
            with self.contained.object("enforce", namespace):
                found.append(self._enforce(view, namespace, None, None, np.zeros(len(resources)), bounds))
        return found

    def _is_ours(self, quota: ResourceQuota | None) -> bool:
        return quota is not None and pool_of(quota) == self._config.pool.name

    def _enforce(
        self, view: ClusterView, namespace: str, member: Member | None, row: int | None, level: FloatArray, bounds: _Bounds
    ) -> Enforced:
        resources = view.pods.resources
        wanted = self._demand[namespace]
        unit = self._creatable_unit(wanted, resources)
        floor = [max(self._floors.get(resource, 0.0), unit[resource]) for resource in resources]
        promise = dict(zip(resources, np.maximum(level, self._burst_rate(member, resources)).tolist(), strict=True))
        blocked = obstacles(
            unrequested=[*view.pods.namespace(namespace).pods_without_requests, *wanted.unrequested],
            foreign_quotas=bounds.quotas.get(namespace, ()),
            limit_ranges=bounds.limit_ranges.get(namespace, ()),
            promise=promise,
            unit=wanted.unit,
        )
        return Enforced(namespace, member, row, wanted, unit, np.maximum(level, floor), blocked)

    def _creatable_unit(self, wanted: NamespaceDemand, resources: tuple[str, ...]) -> dict[str, float]:
        """The largest pod for which a quota always leaves room; at most what a node holds, so that wanting an absurd pod lifts no quota."""
        return {resource: min(wanted.unit.get(resource, 0.0), self._largest_node.get(resource, math.inf)) for resource in resources}

    def _burst_rate(self, member: Member | None, resources: tuple[str, ...]) -> FloatArray:
        """(K,) rate that a hard or soft queue is promised in its windows, also while it has none; zeros for others."""
        latency = member is not None and member.key[0] == "LatencyQueue"
        promised = self.memory.promised(member.qualified_name) if member is not None and latency else None
        burst = promised.burst if promised is not None else None
        return np.zeros(len(resources)) if burst is None else _rate(burst, resources)

    def _plan_quotas(self, view: ClusterView, enforced: Iterable[Enforced], plan: RoundPlan, now: float) -> None:
        targets, current = list[QuotaTarget](), dict[QuotaKey, ResourceQuota]()
        for item in enforced:
            with self.contained.object("enforce", item.namespace):
                found, wanted = self._quota_targets(view, item, plan, now)
                current |= found
                targets += wanted
        plan.quota_writes, due = self._quotas.plan(targets, current, now)
        kept = {key for key in view.quotas if key[0] in plan.roster.left_as_is or key[0] in self.contained.problems}
        plan.quota_deletions = left_over(view.quotas, {target.key for target in targets} | kept, self._config.pool.name)
        plan.due = min(plan.due, due)
        plan.quotas_out_of_sync = sum(amounts(quota.spec.hard) != amounts(quota.status.hard) for quota in current.values())

    def _quotas_of(self, view: ClusterView, namespace: str) -> dict[QuotaKey, ResourceQuota]:
        """The quotas of a namespace that are ours."""
        names = (QUOTA_NAME,) if self.reserve is None else (QUOTA_NAME, *PART_QUOTAS)
        return {(namespace, name): quota for name in names if (quota := view.quotas.get((namespace, name))) is not None}

    def _steer_slack(self, view: ClusterView, enforced: Sequence[Enforced], snapshot: ClusterSnapshot, now: float) -> None:
        """How far above its level each namespace is let: as much as its level takes to be used."""
        room = dict(zip(snapshot.resources, (snapshot.live_capacity - snapshot.usage.sum(axis=0)).tolist(), strict=True))
        for item in enforced:
            level = dict(zip(snapshot.resources, item.level.tolist(), strict=True))
            quota = view.quotas.get((item.namespace, QUOTA_NAME))
            use = use_of(item, level, view.pods.namespace(item.namespace), quota, room, self._uncharged.get(item.namespace, {}))
            item.slack = self.slack.observe((item.namespace, QUOTA_NAME), fewest(level, item.unit), use, now)

    def _quota_targets(
        self, view: ClusterView, item: Enforced, plan: RoundPlan, now: float
    ) -> tuple[dict[QuotaKey, ResourceQuota], list[QuotaTarget]]:
        """A namespace's quotas that are ours, and what each should permit."""
        usage = view.pods.namespace(item.namespace)
        current = self._quotas_of(view, item.namespace)
        if (item.namespace, QUOTA_NAME) not in current and any(obstacle.blocks for obstacle in item.obstacles):
            return current, []
        umbrella = umbrella_target(item, usage.stored, plan.snapshot.resources)
        if item.is_in("Gate"):
            quota = view.quotas.get((item.namespace, QUOTA_NAME))
            present = amounts(quota.spec.hard) if quota is not None else {}
            settled = self._hold_times.settled(item.namespace, now)
            return current, [gated_target(umbrella, item, plan.snapshot, present, settled=settled)]
        parts = list[QuotaTarget]()
        if self.reserve is not None and item.member is not None and item.row is not None:
            parts = self.reserve.targets(umbrella, item.member, item.row, plan.snapshot, plan.result, usage.by_class, now)
        return current, [umbrella, *parts]

    @staticmethod
    def _entitle(enforced: Sequence[Enforced], plan: RoundPlan) -> None:
        """What the queues in Quota mode may have at once, beside their levels."""
        entitled, bound_by_burst = entitlements(plan.result, plan.snapshot)
        more = row_any(entitled > plan.result.level)
        for item in enforced:
            if item.row is not None and more[item.row] and item.is_in("Quota"):
                item.entitled, item.bound_by_burst = entitled[item.row], bound_by_burst

    def _plan_holds(self, view: ClusterView, enforced: Sequence[Enforced], plan: RoundPlan, ending: frozenset[str], now: float) -> None:
        """Which gated pods and which held Jobs go: by their queue's level, all of them where no queue holds them any more."""
        left_alone = plan.roster.elsewhere | plan.roster.left_as_is | ending | self._never_managed
        levels = gate_levels(enforced, plan.result, self.gates.gated.namespaces())
        plan.ungates, due = self.gates.plan(levels, left_alone, view.pods, now)
        plan.due = min(plan.due, due)
        plan.starts = job_starts(enforced, plan.result, plan.snapshot.resources, view.controllers.noted_jobs(), left_alone)

    def _plan_reclaim(self, view: ClusterView, enforced: Sequence[Enforced], plan: RoundPlan, wall: float, now: float) -> None:
        """Whose work goes for what queues are owed; who gives is held exactly to its level until all of that is placed."""
        reclaiming = np.array([member.reclaims for member in plan.roster.governing], dtype=bool)
        cluster = Cluster(view.stored_pods, view.pods, view.controllers, view.quotas, self._nodes, self._shapes)
        plan.reclaim = self.reclaim.plan(cluster, enforced, plan.snapshot, plan.result, reclaiming, wall, now)
        plan.due = min(plan.due, now + plan.reclaim.due)
        for item in enforced:
            item.held_back |= item.namespace in plan.reclaim.holding

    def _plan_wakes(self, view: ClusterView, enforced: Iterable[Enforced], plan: RoundPlan, now: float) -> None:
        written = {write.key: write for write in plan.quota_writes}
        rooms = []
        for item in enforced:
            if not item.demand.lacking:
                continue
            usage = view.pods.namespace(item.namespace)
            free = _room(view, written, (item.namespace, QUOTA_NAME), usage.stored)
            cause = _figures(view, written, item.namespace)
            if self.reserve is None:
                rooms.append(Room(free, item.demand.lacking, cause))
            else:
                rooms += _rooms_by_size(self.reserve.small_owners(item.namespace), view, written, item, usage, free, cause)
        plan.wakes, due = self._wakes.plan(rooms, now)
        plan.refused = self._wakes.refused
        plan.due = min(plan.due, due)

    def _plan_statuses_in_time(self, view: ClusterView, enforced: Sequence[Enforced], plan: RoundPlan, wall: float, now: float) -> None:
        """Look at the statuses when there is news for users, else twice a second: that is most of a round's work, and figures may wait."""
        members = tuple((member.key, member.uid, member.generation, member.problem, member.governs) for member in plan.roster.members)
        standing = members, tuple((item.namespace, tuple(item.obstacles)) for item in enforced if item.obstacles)
        if plan.result.events or standing != self._standing or now >= self._statuses_at + STATUS_PLAN_SECONDS:
            self._standing, self._statuses_at = standing, now
            plan.statuses_planned = True
            self._plan_statuses(view, enforced, plan, wall, now)
        else:
            plan.due = min(plan.due, self._statuses_at + STATUS_PLAN_SECONDS)

    def _plan_statuses(self, view: ClusterView, enforced: Sequence[Enforced], plan: RoundPlan, wall: float, now: float) -> None:
        roster = plan.roster
        rows = {member.key: row for row, member in enumerate(roster.governing)}
        blocked = {item.member.key: item.obstacles for item in enforced if item.member is not None}
        never_start = too_large_to_start(enforced, self.gates.gated, view.pods)
        inputs = []
        for member in roster.members:
            row = rows.get(member.key)
            if row is None:
                inputs.append(StatusInput(member, conditions_of(member, None, None, (), observed_only=False)))
                continue
            decision = plan.result.decisions[row]
            observed_only = member.observed_only
            attainable = self._attainable(view, plan.snapshot, decision, row, now)
            reserve, too_large = None, None
            if self.reserve is not None:
                reserve = self.reserve.view(member, row, plan.snapshot, plan.result, observed_only=observed_only)
                too_large = self.reserve.too_large(member, plan.snapshot)
            conditions = conditions_of(
                member,
                decision,
                attainable,
                blocked.get(member.key, ()),
                observed_only=observed_only,
                too_large=too_large,
                never_start=never_start.get(member.namespace),
                contained=self.contained.problems.get(member.namespace),
            )
            elastic = plan.elastic.queues.get(member.qualified_name)
            inputs.append(
                StatusInput(
                    member,
                    conditions if elastic is None else [*conditions, condition(elastic)],
                    decision,
                    self.memory.entry(member.qualified_name),
                    plan.snapshot.usage[row],
                    np.maximum(_vector(plan.snapshot.resources, self._demand[member.namespace].demand), plan.snapshot.demand[row]),
                    None if observed_only else stamp_of(decision.guarantee_class, self._config),
                    HOLDS.get(member.enforcement),
                    reserve=reserve,
                    lead_time=self._lead_time(plan, member.qualified_name, row),
                    elasticity=None
                    if elastic is None
                    else status_part(elastic, plan.snapshot.resources, self._config.elasticity.status_jobs),
                )
            )
        for item in inputs:
            plan.false_conditions[item.member.qualified_name] = {one.type for one in item.conditions if one.status == "False"}
        plan.statuses, due = self._statuses.plan(inputs, plan.snapshot.resources, wall, now)
        plan.due = min(plan.due, due)

    def _attainable(
        self, view: ClusterView, snapshot: ClusterSnapshot, decision: QueueDecision, row: int, now: float
    ) -> Attainability | None:
        """Whether the promised burst can be in time on this cluster; None where no burst is promised."""
        promised = self.memory.promised(decision.queue)
        burst = promised.burst if promised is not None else None
        if burst is None:
            return None
        rate = _rate(burst, snapshot.resources)
        others = snapshot.usage.sum(axis=0) - snapshot.usage[row]
        free = bool(np.all(others + rate <= snapshot.live_capacity * (1 + 1e-9)))
        unit = self._bursts.unit(decision.queue, snapshot.unit[row])
        return attainability(
            deadline_seconds=burst.deadline_seconds,
            demand_fraction=self._bursts.fraction(decision.queue),
            pods=pods_of(rate, unit),
            fitting_pods=self._fitting(unit),
            room_is_free=free,
            pace=view.pace.pace(now),
        )

    def _lead_time(self, plan: RoundPlan, queue: str, row: int) -> LeadTimeView | None:
        """Its lead time, with the size of the pods for which room is held; None for a queue that asks for none."""
        view = plan.lead_times.get(queue)
        return None if view is None else replace(view, pod_size=self._bursts.unit(queue, plan.snapshot.unit[row]))

    def _remember_bursts(self, plan: RoundPlan, wall: float) -> None:
        """Note how much each burst that was judged in this round has used."""
        for what in plan.result.events:
            if what.kind in {EventKind.BURST_MET, EventKind.BURST_MISSED}:
                memory, promised = self.memory.entry(what.queue), self.memory.promised(what.queue)
                burst = promised.burst if promised is not None else None
                if burst is not None:
                    committed = plan.snapshot.committed_capacity
                    counted = committed > 0
                    demand = _rate(burst, plan.snapshot.resources) * burst.deadline_seconds
                    self._bursts.ended(what.queue, memory.delivered(wall), float(np.max(demand[counted] / committed[counted], initial=0.0)))
        self._bursts.keep({spec.name for spec in plan.roster.specs})


def _rate(burst: Burst, resources: tuple[str, ...]) -> FloatArray:
    """(K,) guaranteed rate d/t, resource units."""
    return np.array([burst.resources.get(resource, 0.0) * burst.duration_seconds / burst.deadline_seconds for resource in resources])


def _vector(resources: tuple[str, ...], amounts_by_name: Mapping[str, float]) -> FloatArray:
    return np.array([amounts_by_name.get(resource, 0.0) for resource in resources])


def _labelled(namespaces: Mapping[tuple[str, str], Namespace]) -> set[str]:
    return {name for (_, name), item in namespaces.items() if (item.metadata.labels or {}).get(MANAGED_LABEL) == "true"}


def _room(view: ClusterView, written: Mapping[QuotaKey, QuotaWrite], key: QuotaKey, stored: Mapping[str, float]) -> dict[str, float]:
    """What a quota will still admit by resource once this round is written; empty where there is none."""
    quota, write = view.quotas.get(key), written.get(key)
    hard = amounts(write.hard) if write is not None else amounts(quota.status.hard) if quota is not None else {}
    return {name: limit - stored.get(name, 0.0) for name, limit in hard.items()}


def _figures(view: ClusterView, written: Mapping[QuotaKey, QuotaWrite], namespace: str) -> Hashable:
    """What the namespace's quotas permit and count, once this round is written."""
    figures = []
    for name in OUR_QUOTAS:
        quota, write = view.quotas.get((namespace, name)), written.get((namespace, name))
        if quota is not None or write is not None:
            hard = amounts(write.hard if write is not None else quota.status.hard if quota is not None else {})
            used = amounts(quota.status.used if quota is not None else {})
            figures.append((name, tuple(sorted(hard.items())), tuple(sorted(used.items()))))
    return tuple(figures)


def _rooms_by_size(
    small_owners: Collection[str],
    view: ClusterView,
    written: Mapping[QuotaKey, QuotaWrite],
    item: Enforced,
    usage: NamespaceUsage,
    free: Mapping[str, float],
    cause: Hashable,
) -> list[Room]:
    """What small and large controllers may still create: room in their own quota, if there is one, and below the umbrella."""
    rooms = []
    for name, small in ((SMALL_QUOTA, True), (LARGE_QUOTA, False)):
        part = usage.by_class.get(CLASS_OF[name])
        own = _room(view, written, (item.namespace, name), part.stored if part is not None else {})
        lacking = [owner for owner in item.demand.lacking if (owner.uid in small_owners) is small]
        if lacking:
            rooms.append(Room({key: min(limit, own.get(key, math.inf)) for key, limit in free.items()}, lacking, cause))
    return rooms
