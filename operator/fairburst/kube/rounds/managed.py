"""The managed namespaces with their levels and obstacles, updated by differences. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence, ValuesView

import numpy as np

from fairburst.config import Config, natural_units
from fairburst.kube.containment import Containment
from fairburst.kube.enforce.enforceability import Obstacle, obstacles
from fairburst.kube.enforce.managed_namespace import ManagedNamespace
from fairburst.kube.enforce.namespace_labels import NO_QUEUE, Labels, differing, queue_labels
from fairburst.kube.enforce.pod_priority import class_values, pod_class
from fairburst.kube.enforce.quota_plan import QuotaKey, pool_of
from fairburst.kube.jobs.reserve import Reserve, takes_part
from fairburst.kube.names import OUR_QUOTAS, POOL_LABEL, QUOTA_NAME, SMALL_CLASS
from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.kube.queues.spaces import namespace_of
from fairburst.kube.rounds.cluster_state import ClusterState
from fairburst.kube.rounds.view import RoundContext, RoundPlan
from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.kube.usage.pod_counts import pods_in
from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import Burst, GuaranteeClass, Memory


class ManagedNamespaces:
    """Every namespace whose quota the operator writes, with its level. A labelled namespace without a queue runs at the floor."""

    def __init__(self, config: Config, cluster: ClusterState, contained: Containment, reserve: Reserve | None = None) -> None:
        self._pool = config.pool.name
        self._floors = natural_units(config.enforcement.floors)
        self._class_values = class_values(config)
        self._cluster = cluster
        self._contained = contained
        self._reserve = reserve
        self._items: dict[str, ManagedNamespace] = {}
        self._holding: frozenset[str] = frozenset()
        self._holds = False  # whether room is held for an expected burst

    @property
    def all(self) -> ValuesView[ManagedNamespace]:
        """Return all of them, in the queues' order."""
        return self._items.values()

    def of(self, namespaces: Collection[str]) -> list[ManagedNamespace]:
        """Return the managed ones among these namespaces."""
        return [self._items[namespace] for namespace in namespaces if namespace in self._items]

    def obstacles(self, namespace: str) -> Sequence[Obstacle]:
        """Return what keeps a namespace's quota or its pods from being created."""
        item = self._items.get(namespace)
        return () if item is None else item.obstacles

    def touched(self, round_: RoundContext) -> list[ManagedNamespace]:
        """Return the touched ones, and touch all spaces of their namespaces: quotas without a target among them are deleted."""
        round_.touched.update(round_.queue_set.spaces.whole(round_.touched))
        return self.of(round_.touched)

    def refresh(self, round_: RoundContext, demands: Mapping[str, NamespaceDemand], plan: RoundPlan) -> bool:
        """Compute the touched namespaces again; return whether the obstacles of one have changed.

        Namespaces with wrong labels, and those whose queue has left enforcement, are added to the plan.
        """
        self._holds = any(decision.holding for decision in round_.result.lead_time)
        if round_.everything:
            former, self._items = self._items, {}
        else:
            former = {namespace: self._items[namespace] for namespace in round_.touched if namespace in self._items}
        every = (*round_.rows, *sorted(self._cluster.orphans), *sorted(round_.queue_set.observed), *sorted(self._cluster.dismissed))
        for namespace in every if round_.everything else round_.touched:
            known = False
            with self._contained.object("enforce", namespace):
                self._refresh_one(round_, demands, namespace, plan)
                known = True
            if not known:  # its quota stays as it is
                self._items.pop(namespace, None)
        return any(
            (before := former.get(item.namespace)) is None or before.obstacles != item.obstacles
            for item in self.of(round_.touched if not round_.everything else self._items)
            if item.obstacles or item.namespace in former
        )

    def hold_back(self, round_: RoundContext, holding: frozenset[str]) -> None:
        """Hold these namespaces exactly to their levels; those that are no longer held are touched too."""
        for namespace in holding ^ self._holding:
            round_.touched.add(namespace)
            item = self._items.get(namespace)
            if item is not None and item.row is not None:
                item.held_back = self._is_held_back(round_, item.row, item.entry, item.demand)
        self._holding = holding
        for namespace in holding:
            if namespace in self._items:
                self._items[namespace].held_back = True

    def _refresh_one(self, round_: RoundContext, demands: Mapping[str, NamespaceDemand], namespace: str, plan: RoundPlan) -> None:
        row = round_.rows.get(namespace)
        if row is None:
            if namespace in self._cluster.orphans:
                nothing = np.zeros(len(round_.snapshot.resources))
                self._label(namespace, NO_QUEUE, plan)
                self._items[namespace] = self._item(round_, demands[namespace], namespace, None, None, nothing)
            else:
                self._items.pop(namespace, None)
            if namespace in self._cluster.dismissed or (namespace in round_.queue_set.observed and self._is_held(round_, namespace)):
                plan.releases.append(namespace)
            return
        entry = round_.queue_set.governing[row]
        if entry.observed_only:
            self._items.pop(namespace, None)
            return
        further = [round_.queue_set.governing[round_.rows[space]] for space in round_.queue_set.spaces.within(namespace)[1:]]
        if entry.lane is None:
            guarantee_class, by_size = round_.result.classes[row], self._reserve is not None and takes_part(entry)
            self._label(namespace, queue_labels(entry, guarantee_class, self._pool, by_size=by_size, further=further), plan)
        held_back = self._is_held_back(round_, row, entry, demands[namespace])
        level = round_.as_counted(row, round_.result.level[row])
        item = self._item(round_, demands[namespace], namespace, entry, row, level, held_back=held_back)
        item.lanes = tuple(one.lane for one in further if one.lane is not None)
        self._items[namespace] = item

    def _is_held_back(self, round_: RoundContext, row: int, entry: QueueEntry | None, demand: NamespaceDemand) -> bool:
        """Return whether the quota may permit no more than the level. Work that waits whole creates no pods, so its quota can stay as it
        is while others have their turns; only an expected burst's room is kept from its namespace too."""
        held_back = round_.result.held_back
        return held_back is not None and bool(held_back[row]) and (self._holds or not _waits_whole(entry, demand))

    def _label(self, namespace: str, wanted: Labels, plan: RoundPlan) -> None:
        """Add the labels of a namespace that have to change to the plan."""
        if changes := differing(wanted, self._cluster.labels.get(namespace, {})):
            plan.labels[namespace] = changes

    def _is_held(self, round_: RoundContext, namespace: str) -> bool:
        """Return whether a namespace that has left enforcement still has an operator's quota or labels. Either may have lost its pool, or
        name that of a former queue: no other operator would release it."""
        quota = round_.view.quotas.get((namespace, QUOTA_NAME))
        pools = self._cluster.labels.get(namespace, {}).get(POOL_LABEL), pool_of(quota) if quota is not None else None
        return namespace not in round_.left_alone and (self._pool in pools or namespace in self._cluster.labelled)

    def quotas_left(self, round_: RoundContext, namespace: str) -> list[QuotaKey]:
        """Return the quotas with our names in a namespace that is being released. One without a pool's label is an operator's only where
        the namespace is managed."""
        quotas, managed = round_.view.quotas, namespace in self._cluster.labelled
        present = [key for name in sorted(OUR_QUOTAS) if (key := (namespace, name)) in quotas]
        return [key for key in present if managed or pool_of(quotas[key]) is not None]

    def _item(
        self, round_: RoundContext, demand: NamespaceDemand, namespace: str, entry: QueueEntry | None, row: int | None, level: FloatArray,
        *, held_back: bool = False,
    ) -> ManagedNamespace:  # fmt: skip
        resources = round_.snapshot.resources
        # the largest pod for which a quota always leaves room: limited by the largest node, so that an absurd pod lifts no quota
        most = self._cluster.largest_node
        unit = {resource: min(demand.unit.get(resource, 0.0), most.get(resource, math.inf)) for resource in resources}
        if _waits_whole(entry, demand) and pods_in(dict(zip(resources, level.tolist(), strict=True)), unit) < 1.0:
            level, unit = np.zeros_like(level), dict.fromkeys(resources, 0.0)  # as of an idle queue
        floor = [max(self._floors.get(resource, 0.0), unit[resource]) for resource in resources]
        limits, where = self._cluster.limits, namespace_of(namespace)
        foreign_quotas = limits.quotas.get(where, ())
        promise = np.maximum(level, _burst_rate(entry, round_.memory, resources)).tolist() if foreign_quotas else level.tolist()
        item = ManagedNamespace(namespace, entry, row, demand, unit, level if held_back else np.maximum(level, floor), [], held_back)
        item.obstacles = obstacles(
            unrequested=[*round_.view.pods.namespace(namespace).pods_without_requests, *demand.unrequested],
            foreign_quotas=foreign_quotas,
            limit_ranges=limits.limit_ranges.get(where, ()),
            promise=dict(zip(resources, promise, strict=True)),
            unit=demand.unit,
            has_quota=item.quota_key in round_.view.quotas,
            gated=item.mode.unlimited,
            classes=self._classes(entry, None if row is None else round_.result.classes[row]),
            priorities=self._cluster.priorities,
        )
        return item

    def _classes(self, entry: QueueEntry | None, guarantee_class: GuaranteeClass | None) -> Mapping[str, int]:
        """Return the priority classes of a space's new pods, with their values."""
        names = [pod_class(guarantee_class, entry.lane if entry is not None else None)]
        if entry is not None and self._reserve is not None and takes_part(entry):
            names.append(SMALL_CLASS)
        return {name: self._class_values[name] for name in names}


def _waits_whole(entry: QueueEntry | None, demand: NamespaceDemand) -> bool:
    return entry is not None and entry.mode.holds == "Jobs" and demand.waits_whole


def _burst_rate(entry: QueueEntry | None, memory: Memory, resources: tuple[str, ...]) -> FloatArray:
    """Return the (K,) rate promised to a hard or soft queue in its windows, also between windows; zeros for others."""
    latency = entry is not None and entry.key[0] == "LatencyQueue"
    promised = memory.promised(entry.qualified_name) if entry is not None and latency else None
    burst = promised.burst if promised is not None else None
    return np.zeros(len(resources)) if burst is None else burst_rate(burst, resources)


def burst_rate(burst: Burst, resources: tuple[str, ...]) -> FloatArray:
    """Return the (K,) guaranteed rate d/t, resource units."""
    return np.array([burst.resources.get(resource, 0.0) * burst.duration_seconds / burst.deadline_seconds for resource in resources])
