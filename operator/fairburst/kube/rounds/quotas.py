"""Plan the round's quota writes for the touched namespaces. Pure, apart from the planners' memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fairburst.config import Config
from fairburst.kube.api.quota_objects import ResourceQuota
from fairburst.kube.containment import Containment
from fairburst.kube.enforce.division import divided
from fairburst.kube.enforce.expiry import NOTES, Temporary, notes
from fairburst.kube.enforce.holds import HoldTimes
from fairburst.kube.enforce.managed_namespace import ManagedNamespace
from fairburst.kube.enforce.quota_plan import QuotaKey, QuotaPlanner, QuotaTarget, QuotaWrite, amounts, quota_key
from fairburst.kube.enforce.quota_targets import gated_target, namespace_quota_target
from fairburst.kube.enforce.recount import Recounts
from fairburst.kube.enforce.size_note import size_note
from fairburst.kube.enforce.slack import FIRST_PODS, STEERED_SECONDS, SlackControl
from fairburst.kube.enforce.slack_use import noted_slack, use_of
from fairburst.kube.jobs.reserve import Reserve, divides, left_over
from fairburst.kube.names import LANE_QUOTAS, OTHER_QUOTAS, QUOTA_NAME, SMALL_QUOTA
from fairburst.kube.queues.spaces import namespace_of
from fairburst.kube.rounds.cluster_state import Changes
from fairburst.kube.rounds.decision_changes import Entitlement
from fairburst.kube.rounds.differences import PATIENCE_SECONDS, Agenda
from fairburst.kube.rounds.governing import GoverningQueues
from fairburst.kube.rounds.managed import ManagedNamespaces
from fairburst.kube.rounds.view import RoundContext, RoundPlan
from fairburst.kube.usage.pod_counts import pods_in
from fairburst.kube.usage.pod_usage import NamespaceUsage
from fairburst.policy.table import NOT_ADMITTED, OPEN, OVERDUE
from fairburst.policy.tolerance import SMALLEST
from fairburst.quantity import format_quantity

RENEWED_SECONDS = 30.0  # between two looks at a quota that expires
SOON_SECONDS = 1.0  # a look within this time comes in time
BEGINNING_SECONDS = 10.0  # beginning of a burst, in which neither annotations alone nor slack alone are written


class QuotaRounds:
    """Steers the slack of quotas, and compares quotas with their targets."""

    def __init__(self, config: Config, contained: Containment, reserve: Reserve | None, agenda: Agenda) -> None:
        self._pool = config.pool.name
        self._has_head_room = bool(config.pool.head_room_percent or config.pool.head_room)
        self._contained = contained
        self._reserve = reserve
        self._agenda = agenda
        self._managed: frozenset[str] = frozenset()
        self._out_of_sync: dict[str, int] = {}
        self.planner = QuotaPlanner(config.pool.name, config.writes.quota_interval_seconds, contained)
        self.slack = SlackControl()
        self.hold_times = HoldTimes()
        self._recounts = Recounts()
        self._begun = False
        self._deleted: dict[QuotaKey, ResourceQuota] = {}  # as they were when their deletion was planned

    def _look(self, namespace: str, at: float, now: float) -> None:
        """Look at the namespace at `at`, or a little later if that is not soon: work may wait for a write that is due within a second."""
        self._agenda.put(namespace, at, min(PATIENCE_SECONDS, max(0.0, at - now - SOON_SECONDS) / 2))

    def note_holds(self, queues: GoverningQueues, changes: Changes, labels: Mapping[str, Mapping[str, str]], now: float) -> None:
        """Note since when new work of the changed namespaces is held. `labels`: of every namespace."""
        governing, rows = queues.queue_set.governing, queues.rows
        if changes.everything:
            self.hold_times.retain(rows)
            self.hold_times.note(governing, labels, now)
        else:
            spaces = queues.queue_set.spaces.whole(changes.namespaces)
            self.hold_times.note((governing[rows[space]] for space in spaces if space in rows), labels, now)

    def steer(self, round_: RoundContext, items: Sequence[ManagedNamespace], uncharged: Mapping[str, Mapping[str, float]]) -> None:
        """Set each namespace's slack, so that its level is used.

        `uncharged`: by namespace, requests of bound pods that count for no queue.
        """
        snapshot = round_.snapshot
        room = dict(zip(snapshot.resources, (snapshot.live_capacity - snapshot.usage.sum(axis=0)).tolist(), strict=True))
        for item in items:
            level = dict(zip(snapshot.resources, item.level.tolist(), strict=True))
            quotas = round_.view.quotas_of(item.quota_keys)
            usage = round_.view.pods.namespace(item.namespace)
            keeps_head_room = self._has_head_room and item.mode.holds == "Pods"
            use = None if keeps_head_room else use_of(item, level, usage, quotas, room, uncharged.get(item.namespace, {}))
            if not self._begun and use is not None and not _is_open(round_, item):
                self.slack.resume((item.namespace, QUOTA_NAME), noted_slack(quotas, item.unit), round_.now)
            item.slack = self.slack.observe((item.namespace, QUOTA_NAME), use, round_.now)
            if item.row is not None:
                item.slack = min(item.slack, max(FIRST_PODS, _pods_below(snapshot.queues[item.row].limits, level, item.unit)))
            item.takes_head_room = use is not None and use.takes_head_room
            if (pause := self.slack.pause((item.namespace, QUOTA_NAME))) is not None:
                self._look(item.namespace, round_.now + pause, round_.now)
        self._begun = True

    @staticmethod
    def entitle(round_: RoundContext, items: Sequence[ManagedNamespace], entitlement: Entitlement) -> None:
        """Note the amounts that queues in Quota mode may use at once, where these exceed their levels."""
        for item in items:
            if item.row is not None and entitlement.more[item.row] and item.mode.entitled:
                item.entitled = round_.as_counted(item.row, entitlement.amounts[item.row])
                item.bound_by_burst = entitlement.bound_by_burst

    def plan(
        self, round_: RoundContext, managed: ManagedNamespaces, items: Sequence[ManagedNamespace], plan: RoundPlan, *, roomy: bool
    ) -> dict[int, Mapping[str, float]]:
        """Add the quota writes of the touched namespaces to the plan, and the quotas of parts and lanes to delete.

        `roomy`: sinking levels are no hurry (`Entitlement`).
        Return by row, and by resource, how much an entitlement may sink before a quota is too large (`QuotaPlanner.margins`).
        """
        found, quotas = dict[str, list[QuotaTarget]](), round_.view.quotas
        self._deleted = {key: quota for key, quota in self._deleted.items() if quotas.get(key) is quota}
        for item in items:
            with self._contained.object("enforce", item.namespace):
                usage = round_.view.pods.namespace(item.namespace)
                found[item.namespace] = [
                    self._recounted(round_, item, usage, self._sized(round_, item, self._expiring(round_, item, target)))
                    for target in self._targets(round_, item, usage, plan)
                ]
        targets = [target for of_item in found.values() for target in of_item]
        plan.quota_writes, dues = self.planner.plan(targets, quotas, round_.now, roomy=roomy)
        for namespace, due in dues.items():
            self._look(namespace, due, round_.now)
        kept = round_.queue_set.left_as_is | {namespace_of(space) for space in self._contained.problems}
        wanted = {target.key for target in targets}
        parts = {(namespace, name) for namespace in round_.touched for name in OTHER_QUOTAS} & quotas.keys()
        keys, touched = (quotas.keys(), managed.all) if round_.everything else (parts, managed.of(round_.touched))
        own = {item.quota_key[0] for item in touched}
        released = [key for namespace in plan.releases for key in managed.quotas_left(round_, namespace)]
        leftover = left_over(quotas, keys, wanted, self._pool, within=own)
        plan.quota_deletions = released + [key for key in leftover if key[0] not in kept and key not in released]
        self._deleted |= {key: quotas[key] for key in plan.quota_deletions}
        self._count(round_, touched)
        plan.quotas_out_of_sync = sum(self._out_of_sync.values())
        return {
            item.row: {} if item.entitled is None else self.planner.margins(found[item.namespace], quotas)
            for item in items
            if item.row is not None and item.namespace in found
        }

    def _count(self, round_: RoundContext, touched: Iterable[ManagedNamespace]) -> None:
        """Count the quotas whose enforced values differ from the written ones."""
        if round_.everything:
            self._out_of_sync.clear()
        for namespace in round_.touched:
            self._out_of_sync.pop(namespace, None)
        for item in touched:
            quotas = round_.view.quotas_of(item.quota_keys)
            count = sum(quota.spec.hard != quota.status.hard and amounts(quota.spec.hard) != amounts(quota.status.hard) for quota in quotas)
            if count:
                self._out_of_sync[item.namespace] = count

    def _targets(self, round_: RoundContext, item: ManagedNamespace, usage: NamespaceUsage, plan: RoundPlan) -> list[QuotaTarget]:
        """Return the targets of a namespace's quotas; none where an obstacle prevents the first quota."""
        quota = round_.view.quotas.get(item.quota_key)
        if quota is None and any(obstacle.blocks for obstacle in item.obstacles):
            return []
        namespace_quota = namespace_quota_target(
            item,
            usage.stored,
            usage.pods,
            round_.snapshot.resources,
            self._enforced_lanes(round_, item),
            opening=_has_just_opened(round_, item),
        )
        if item.mode.unlimited:
            present = amounts(quota.spec.hard) if quota is not None else None
            gated = self.hold_times.reach_all_pods(item.namespace, round_.now)
            if not gated:
                self._look(item.namespace, round_.now + STEERED_SECONDS, round_.now)
            return [gated_target(namespace_quota, present, certain=gated)]
        if self._reserve is None or item.entry is None or item.row is None or not item.mode.divided:
            return [namespace_quota]
        division = self._reserve.division(item.entry, item.row, round_.snapshot, plan.result, round_.now)
        if division is None:
            return [namespace_quota]
        self._look(item.namespace, self._reserve.divided_until(item.namespace), round_.now)
        own = round_.view.quotas.get((item.namespace, SMALL_QUOTA))
        small, others = divided(namespace_quota, division, usage, own)
        # the namespace quota counts all pods until the other is enforced
        return [small, others if self._is_enforced(round_, (item.namespace, SMALL_QUOTA)) else namespace_quota]

    def _enforced_lanes(self, round_: RoundContext, item: ManagedNamespace) -> list[int]:
        """Return the lanes whose quotas are enforced. Until then the namespace quota counts their pods, for each counts for one."""
        return [lane for lane in item.lanes if self._is_enforced(round_, (item.quota_key[0], LANE_QUOTAS[lane]))]

    def _is_enforced(self, round_: RoundContext, key: QuotaKey) -> bool:
        """Return whether a quota is there and enforced, or has no limits. One that was to be deleted may be gone although no watch has told
        of it."""
        quota = round_.view.quotas.get(key)
        if quota is None or self._deleted.get(key) is quota:
            return False
        return bool(quota.status.hard) or not quota.spec.hard

    def written(self, write: QuotaWrite, now: float, done: bool | None) -> None:
        """Note a quota write. `done`: it succeeded; None: it was not sent."""
        if done is None:
            self.planner.not_sent(write.key)
            return
        self.planner.written(write.key, now)
        if done:
            self._recounts.written(write.key, now)

    def _recounted(self, round_: RoundContext, item: ManagedNamespace, usage: NamespaceUsage, target: QuotaTarget) -> QuotaTarget:
        """Return the target, marked if its quota should be counted again."""
        unmanaged = {} if target.name == SMALL_QUOTA else usage.unmanaged_stored  # they have no class of ours
        recount = self._recounts.observe(target, round_.view.quotas.get(target.key), unmanaged, round_.now)
        if (due := self._recounts.next_look(target.key)) is not None:
            self._look(item.namespace, max(due, round_.now + STEERED_SECONDS), round_.now)
        return replace(target, recount=True) if recount else target

    def _expiring(self, round_: RoundContext, item: ManagedNamespace, target: QuotaTarget) -> QuotaTarget:
        """Return the target with the annotations of its temporary part's expiry."""
        quota = round_.view.quotas.get(target.key)
        present = (quota.metadata.annotations or {}) if quota is not None else {}
        temporary = _temporary(round_, item, target)
        if temporary is None and not any(name in present for name in NOTES):
            return target
        wanted, renews = notes(temporary, present, round_.wall)
        early = _has_just_opened(round_, item)
        self._look(item.namespace, round_.now + (STEERED_SECONDS if early else RENEWED_SECONDS), round_.now)
        return replace(target, notes=wanted, renews=renews and quota is not None and not early)

    def _sized(self, round_: RoundContext, item: ManagedNamespace, target: QuotaTarget) -> QuotaTarget:
        """Return the target with the annotation of the threshold of small Jobs."""
        if self._reserve is None or item.entry is None or item.row is None or target.name != QUOTA_NAME:
            return target
        quota = round_.view.quotas.get(target.key)
        threshold = self._reserve.threshold(item.entry, round_.snapshot) if divides(item.entry, item.row, round_.result) else None
        note, renews = size_note(threshold, (quota.metadata.annotations or {}) if quota is not None else {})
        return replace(target, notes={**target.notes, **note}, renews=target.renews or (renews and quota is not None)) if note else target

    def retain(self, managed: frozenset[str]) -> None:
        """Forget every namespace that is no longer managed."""
        if managed is self._managed:
            return
        for namespace in self._managed - managed:
            self.planner.forget(namespace)
            self._recounts.forget(namespace)
            self._out_of_sync.pop(namespace, None)
        self.slack.retain(managed)
        self._managed = managed


def _temporary(round_: RoundContext, item: ManagedNamespace, target: QuotaTarget) -> Temporary | None:
    """Return the temporary part of the quota: the rate of an open window, or slack beyond one pod; None if it has none."""
    if item.row is None or item.mode.unlimited:
        return None
    columns, snapshot = round_.memory.columns, round_.snapshot
    if columns is not None and _is_open(round_, item):
        weights = columns.declared.weight[columns.guarantee != NOT_ADMITTED].sum()
        fair = snapshot.live_capacity * columns.declared.weight[item.row] / max(weights, SMALLEST)
        lasting = {
            name: min(amount, max(share, target.unit[name]))
            for (name, amount), share in zip(target.level.items(), fair.tolist(), strict=True)
        }
        return Temporary(float(columns.deadline[item.row]), _quantities(lasting))
    if target.slack > FIRST_PODS and not target.exact:
        return Temporary(None, _quantities({name: amount + target.unit[name] for name, amount in target.level.items()}))
    return None


def _pods_below(limits: Mapping[str, float], level: Mapping[str, float], unit: Mapping[str, float]) -> float:
    """Return how many pods of the size `unit` a level is below its queue's limits; infinite without limits."""
    sized = {name: unit[name] for name in limits if unit.get(name)}
    return max(0.0, pods_in({name: limits[name] - level[name] for name in sized}, sized)) if sized else math.inf


def _is_open(round_: RoundContext, item: ManagedNamespace) -> bool:
    """Return whether a window of its queue is open."""
    columns = round_.memory.columns
    return columns is not None and item.row is not None and columns.state[item.row] in {OPEN, OVERDUE}


def _has_just_opened(round_: RoundContext, item: ManagedNamespace) -> bool:
    """Return whether its burst has just begun: a write would conflict with the creation of its pods."""
    columns = round_.memory.columns
    if columns is None or item.row is None or columns.state[item.row] != OPEN:
        return False
    opened, deadline = float(columns.opened[item.row]), float(columns.deadline[item.row])
    return round_.wall < opened + min(BEGINNING_SECONDS, (deadline - opened) / 2)


def _quantities(amounts_by_name: Mapping[str, float]) -> dict[str, str]:
    """Return amounts by quota key, rounded down to a quota's units."""
    rounded = {name: math.floor(amount * (1000 if name == "cpu" else 1) + 1e-6) for name, amount in amounts_by_name.items()}
    return {quota_key(name): format_quantity(name, whole / (1000 if name == "cpu" else 1)) for name, whole in rounded.items()}
