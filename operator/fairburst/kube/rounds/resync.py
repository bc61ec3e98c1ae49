"""Choose controllers to resync: those that lack pods in touched namespaces although a quota has room. Pure, apart from their memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence

from fairburst.kube.enforce.controller_resync import ResyncPlanner, Room
from fairburst.kube.enforce.managed_namespace import ManagedNamespace
from fairburst.kube.enforce.quota_plan import QuotaKey, QuotaWrite, amounts
from fairburst.kube.jobs.reserve import Reserve
from fairburst.kube.names import CLASS_OF, LARGE_QUOTA, SMALL_QUOTA
from fairburst.kube.rounds.differences import Agenda
from fairburst.kube.rounds.view import ClusterView, RoundContext, RoundPlan
from fairburst.kube.usage.pod_usage import NamespaceUsage


class ResyncRounds:
    """Compares the pods that controllers lack with the room in their namespaces' quotas."""

    def __init__(self, reserve: Reserve | None, agenda: Agenda) -> None:
        self._reserve = reserve
        self._agenda = agenda
        self.planner = ResyncPlanner()

    def plan(self, round_: RoundContext, items: Sequence[ManagedNamespace], plan: RoundPlan) -> None:
        """Add the controllers to the plan."""
        written = {write.key: write for write in plan.quota_writes}
        rooms = {namespace: list[Room]() for namespace in round_.touched}
        for item in items:
            if item.demand.lacking:
                rooms[item.namespace] = self._rooms(round_.view, item, written)
        plan.resyncs, dues = self.planner.plan(rooms, round_.now)
        plan.refused = self.planner.refused
        plan.due = min(plan.due, self.planner.due(round_.now))
        for namespace, due in dues.items():
            self._agenda.put(namespace, due)

    def pardon(self, now: float) -> None:
        """Look again at the controllers whose resync failed, because the API server answers again."""
        for namespace in self.planner.pardon():
            self._agenda.put(namespace, now)

    def _rooms(self, view: ClusterView, item: ManagedNamespace, written: Mapping[QuotaKey, QuotaWrite]) -> list[Room]:
        usage = view.pods.namespace(item.namespace)
        free = _room(view, written, item.quota_key, usage.stored)
        cause = _figures(view, written, item.quota_keys)
        if self._reserve is None or (item.entry is not None and item.entry.shares):
            return [Room(free, item.demand.lacking, cause)]
        return _rooms_by_size(self._reserve.small_owners(item.namespace), view, written, item, usage, free, cause)


def _room(view: ClusterView, written: Mapping[QuotaKey, QuotaWrite], key: QuotaKey, stored: Mapping[str, float]) -> dict[str, float]:
    """Return the amounts that a quota still admits after this round's writes, by resource; empty without a quota."""
    quota, write = view.quotas.get(key), written.get(key)
    hard = amounts(write.hard) if write is not None else amounts(quota.status.hard) if quota is not None else {}
    return {name: limit - stored.get(name, 0.0) for name, limit in hard.items()}


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


def _rooms_by_size(
    small_owners: Collection[str],
    view: ClusterView,
    written: Mapping[QuotaKey, QuotaWrite],
    item: ManagedNamespace,
    usage: NamespaceUsage,
    free: Mapping[str, float],
    cause: Hashable,
) -> list[Room]:
    """Return the room of small and of large controllers: in their own quota, if there is one, and in the namespace's."""
    rooms = []
    for name, small in ((SMALL_QUOTA, True), (LARGE_QUOTA, False)):
        lacking = [owner for owner in item.demand.lacking if (owner.uid in small_owners) is small]
        if lacking:
            part = usage.by_class.get(CLASS_OF[name])
            own = _room(view, written, (item.namespace, name), part.stored if part is not None else {})
            rooms.append(Room({key: min(limit, own.get(key, math.inf)) for key, limit in free.items()}, lacking, cause))
    return rooms
