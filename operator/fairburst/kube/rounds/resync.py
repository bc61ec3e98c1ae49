"""Choose controllers to resync: those that lack pods in touched namespaces although a quota has room. Pure, apart from their memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairburst.kube.enforce.controller_resync import ResyncPlanner, Room, noted_stall
from fairburst.kube.enforce.division import counted, leaves_out_small
from fairburst.kube.enforce.managed_namespace import ManagedNamespace
from fairburst.kube.enforce.quota_plan import QuotaKey, QuotaWrite, amounts
from fairburst.kube.jobs.reserve import Reserve
from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.kube.queues.specs import ThroughputQueueSpec
from fairburst.kube.rounds.differences import Agenda
from fairburst.kube.rounds.view import ClusterView, RoundContext, RoundPlan
from fairburst.kube.usage.pod_usage import NamespaceUsage

SOON_SECONDS = 1.0  # until the work of a controller that is stalled, or no longer, is read again


class ResyncRounds:
    """Compares the pods that controllers lack with the room in their namespaces' quotas.

    stalled: by namespace of a throughput queue and uid, controllers that do not create the pods for which there is room, with the number of
    pods that they had then.
    """

    def __init__(self, reserve: Reserve | None, agenda: Agenda) -> None:
        self._reserve = reserve
        self._agenda = agenda
        self.planner = ResyncPlanner()
        self.stalled: dict[str, dict[str, int]] = {}
        self._moved = set[str]()
        self._recalled = False

    def recall(self, controllers: Iterable[Any], wall: float) -> None:
        """Note the controllers that an earlier process found stalled, once, before the first decision."""
        found = () if self._recalled else controllers
        self._recalled = True
        for one in found:
            if (pods := noted_stall(one.metadata.annotations, wall)) is not None:
                self.stalled.setdefault(one.metadata.namespace, {})[one.metadata.uid] = pods
                self.planner.recall(one.metadata.uid, pods)

    def plan(self, round_: RoundContext, items: Sequence[ManagedNamespace], plan: RoundPlan) -> None:
        """Add the controllers to the plan."""
        written = {write.key: write for write in plan.quota_writes}
        rooms = {namespace: list[Room]() for namespace in round_.touched}
        for item in items:
            if item.demand.lacking:
                rooms[item.namespace] = self._rooms(round_.view, item, written)
        self.planner.starts_are_noted = round_.view.controllers.starts_are_noted
        resyncs, dues = self.planner.plan(rooms, round_.now)
        plan.refused, plan.unprocessed = self.planner.refused, self.planner.unprocessed
        of_batch = {item.namespace for item in items if item.entry is not None and _lends_what_stalls(item.entry)}
        for namespace in rooms:
            self._note_stalled(namespace, self.planner.stalled(namespace) if namespace in of_batch else {}, round_.now)
        stalled = {uid for in_space in self.stalled.values() for uid in in_space}
        plan.resyncs = [replace(owner, stalled=True) if owner.uid in stalled else owner for owner in resyncs]
        plan.due = min(plan.due, self.planner.due(round_.now))
        for namespace, due in dues.items():
            self._agenda.put(namespace, due)

    def moved(self) -> set[str]:
        """Return the namespaces whose stalled controllers have changed since the last call."""
        moved, self._moved = self._moved, set()
        return moved

    def _note_stalled(self, namespace: str, stalled: dict[str, int], now: float) -> None:
        """Note the stalled controllers of a namespace; a change makes its work be read again soon."""
        if stalled != self.stalled.get(namespace, {}):
            if stalled:
                self.stalled[namespace] = stalled
            else:
                del self.stalled[namespace]
            self._moved.add(namespace)
            self._agenda.put(namespace, now + SOON_SECONDS)

    def pardon(self, now: float) -> None:
        """Look again at the controllers whose resync failed, because the API server answers again."""
        for namespace in self.planner.pardon():
            self._agenda.put(namespace, now)

    def _rooms(self, view: ClusterView, item: ManagedNamespace, written: Mapping[QuotaKey, QuotaWrite]) -> list[Room]:
        """Return the room of small and of other controllers that lack pods."""
        usage, cause = view.pods.namespace(item.namespace), _figures(view, written, item.quota_keys)
        small_owners = frozenset[str]() if self._reserve is None else self._reserve.small_owners(item.namespace)
        small = [owner for owner in item.demand.lacking if owner.uid in small_owners]
        others = [owner for owner in item.demand.lacking if owner.uid not in small_owners]
        own, of_small = _free(view, written, item.quota_key, usage), _free(view, written, item.quota_keys[-1], usage)
        if not leaves_out_small(view.quotas.get(item.quota_key)):
            of_small = {name: min(limit, of_small.get(name, math.inf)) for name, limit in own.items()}
        gated = item.mode.holds == "Pods"
        return [Room(free, lacking, cause, gated) for free, lacking in ((of_small, small), (own, others)) if lacking]


def _lends_what_stalls(entry: QueueEntry) -> bool:
    """Return whether stalled controllers lend their part: a latency queue is promised its own, an elastic one divides slots."""
    spec = entry.queue.spec if entry.queue is not None else None
    return isinstance(spec, ThroughputQueueSpec) and spec.elasticity is None


def _free(view: ClusterView, written: Mapping[QuotaKey, QuotaWrite], key: QuotaKey, usage: NamespaceUsage) -> dict[str, float]:
    """Return the amounts that a quota still admits after this round's writes, by resource; empty without a quota."""
    quota, write = view.quotas.get(key), written.get(key)
    hard = write.hard if write is not None and not write.rescope else quota.status.hard if quota is not None else {}
    stored = usage.stored if quota is None else counted(quota, usage)
    return {name: limit - stored.get(name, 0.0) for name, limit in amounts(hard).items()}


def _figures(view: ClusterView, written: Mapping[QuotaKey, QuotaWrite], keys: Collection[QuotaKey]) -> Hashable:
    """Return the limits and the use of these quotas after this round's writes."""
    figures = []
    for key in keys:
        quota, write = view.quotas.get(key), written.get(key)
        if quota is not None or write is not None:
            hard = amounts(write.hard if write is not None else quota.status.hard if quota is not None else {})
            used = amounts(quota.status.used if quota is not None else {})
            figures.append((key, tuple(sorted(hard.items())), tuple(sorted(used.items()))))
    return tuple(figures)
