"""Nodes, namespaces, and foreign quotas and limit ranges, updated by differences. Decides nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fairburst.config import Config, natural_units
from fairburst.kube.api.objects import Namespace, Node
from fairburst.kube.api.quota_objects import LimitRange, ResourceQuota
from fairburst.kube.enforce.quota_plan import pool_of
from fairburst.kube.names import MANAGED_LABEL, OUR_QUOTAS, POOL_LABEL, QUOTA_NAME
from fairburst.kube.queues.queue_set import NEVER_MANAGED, ObjectKey, QueueSet
from fairburst.kube.queues.spaces import namespace_of
from fairburst.kube.rounds.differences import Differences
from fairburst.kube.rounds.view import ClusterView
from fairburst.kube.usage.capacity import LowWaterMark, NodeShapes, counts, extended_offers, first_lacking
from fairburst.kube.usage.effective_requests import Overheads, overheads_of
from fairburst.kube.usage.host_ports import HostPorts, PortUse
from fairburst.kube.usage.outside import NodeOffer, OutsideUse
from fairburst.kube.usage.pod_defaults import PodDefaults, container_defaults
from fairburst.kube.usage.pod_usage import RequestVector
from fairburst.kube.usage.port_demand import PortNodes
from fairburst.policy.arrays import FloatArray

MOST_SIZES = 10_000  # pod sizes whose number that fits is cached


@dataclass(slots=True)
class Changes:
    """Changes of the stores since the last round.

    Attributes
    ----------
    namespaces : those with a change. objects : whether any Namespace object has changed.
    defaults : those with a change of a LimitRange.
    everything : whether all namespaces must be read again.
    """

    queues: set[ObjectKey]
    namespaces: set[str]
    nodes: bool
    objects: bool
    defaults: set[str]
    everything: bool = False


@dataclass(slots=True)
class Limits:
    """Foreign quotas and limit ranges, by namespace."""

    quotas: dict[str, list[ResourceQuota]] = field(default_factory=dict)
    limit_ranges: dict[str, list[LimitRange]] = field(default_factory=dict)


class ClusterState:
    """Values derived from the stores of a `ClusterView`, kept from round to round."""

    def __init__(self, config: Config, own_namespace: str) -> None:
        self._config = config
        self.never_managed = NEVER_MANAGED | {own_namespace}
        self.low_water = LowWaterMark(config.pool.capacity_window_seconds)
        self.limits = Limits()
        self.nodes: dict[str, Node] = {}
        self.node_names = frozenset[str]()  # also of nodes that are not the pool's
        self.closed: frozenset[str] = frozenset()  # nodes of the pool that take no pods now, and did before, or are not schedulable
        self.shapes = NodeShapes.of((), ())
        self.largest_node: dict[str, float] = {}
        self._extended: frozenset[str] | None = None  # as extended_offers
        self._fitting: dict[bytes, float] = {}
        self._holding: dict[RequestVector, bool] = {}
        self.labelled: frozenset[str] = frozenset()
        self.labels: dict[str, Mapping[str, str]] = {}
        self.ending: frozenset[str] = frozenset()
        self.governed: frozenset[str] = frozenset()
        self.orphans: frozenset[str] = frozenset()
        self.dismissed: frozenset[str] = frozenset()  # without a queue, and of our labels only `managed` was removed
        self._without_managed: frozenset[str] = frozenset()
        self.managed: frozenset[str] = frozenset()
        self.leaving: frozenset[str] = frozenset()  # managed until their namespace was deleted, with pods that have yet to end
        self._present: frozenset[str] = frozenset()
        self.resources: tuple[str, ...] = config.pool.counted_resources
        self._read_for: tuple[str, ...] | None = None
        self._queues = Differences[ObjectKey]()
        self._namespaces = Differences[tuple[str, str]]()
        self._quotas = Differences[tuple[str, str]]()
        self._limit_ranges = Differences[tuple[str, str]]()
        self._node_objects = Differences[tuple[str, str]]()
        self._overheads: Overheads = {}
        self._device_classes, self._runtime_classes = Differences[tuple[str, str]](), Differences[tuple[str, str]]()
        self._priority_classes = Differences[tuple[str, str]]()
        self.priorities: dict[str, int] = {}  # values of the cluster's PriorityClasses; empty if they are unknown
        self._node_facts: dict[tuple[str, str], tuple[object, ...]] = {}
        self._offers: dict[str, NodeOffer] = {}
        self._foreign, self._ungoverned = OutsideUse(), OutsideUse()

    def look(self, view: ClusterView) -> Changes:
        """Apply the changes since the last call."""
        changed_objects = self._namespaces.since_last(view.namespaces)
        changed_quotas = self._quotas.since_last(view.quotas)
        changed_ranges = self._limit_ranges.since_last(view.limit_ranges)
        if changed_objects:
            self._read_namespaces(view.namespaces)
        self._read_limits(view, changed_quotas, changed_ranges)
        namespaces = {name for _, name in changed_objects}
        namespaces |= {namespace for namespace, _ in changed_quotas | changed_ranges}
        queues = self._queues.since_last(view.read_queues())
        namespaces |= {namespace for _, namespace, _ in queues}
        nodes = self._note_nodes(view.nodes)
        nodes |= bool(self._device_classes.since_last(view.device_classes or {}))
        nodes |= bool(self._runtime_classes.since_last(view.runtime_classes))
        everything = bool(self._priority_classes.since_last(view.priority_classes)) and self._see_priorities(view)
        return Changes(queues, namespaces, nodes, bool(changed_objects), {namespace for namespace, _ in changed_ranges}, everything)

    def _see_priorities(self, view: ClusterView) -> bool:
        """Read the PriorityClasses; return whether one has come, gone or another value."""
        former, self.priorities = self.priorities, {name: one.value for (_, name), one in view.priority_classes.items()}
        return former != self.priorities

    def _note_nodes(self, nodes: Mapping[tuple[str, str], Node]) -> bool:
        """Return whether a node has changed, apart from what a kubelet reports every few minutes."""
        moved, changed = False, self._node_objects.since_last(nodes)
        if changed:
            self.node_names = frozenset(name for _, name in nodes)
        for key in changed:
            node = nodes.get(key)
            facts = (node.metadata.labels, node.schedulable, node.spec.taints, node.status.allocatable) if node is not None else None
            moved |= self._node_facts.get(key) != facts
            if facts is None:
                self._node_facts.pop(key, None)
            else:
                self._node_facts[key] = facts
        return moved

    def absent(self, queues: Iterable[ObjectKey]) -> frozenset[str]:
        """Return the namespaces that are being deleted, and those of queues whose namespace no longer exists."""
        return self.ending | frozenset(namespace for _, namespace, _ in queues if namespace not in self._present)

    def read_resources(self, queue_set: QueueSet, view: ClusterView, *, again: bool) -> None:
        """Find the K counted resources: the configured ones, and extended ones that a queue names and a node has."""
        if not again:
            return
        configured = self._config.pool.counted_resources
        named = {
            resource
            for spec in queue_set.specs
            for resource in (*(spec.burst.resources if spec.burst else ()), *spec.limits)
            if resource not in configured
        }
        offered = {resource for node in view.nodes.values() for resource in node.status.allocatable or ()} if named else set()
        self.resources = (*configured, *sorted(named & offered))

    def see_nodes(self, view: ClusterView, *, changed: bool) -> bool:
        """Read the capacities of the pool's nodes and the overheads of pods; return whether they have changed."""
        pool, resources = self._config.pool, self.resources
        if not changed and resources == self._read_for:
            return False
        self._read_for = resources
        open_before = self.nodes
        self.nodes = {name: node for (_, name), node in view.nodes.items() if counts(node, pool.node_selector)}
        self.closed = frozenset(
            name
            for (_, name), node in view.nodes.items()
            if name not in self.nodes and node.has_labels(pool.node_selector)
            if name in open_before or name in self.closed or not node.schedulable
        )
        shapes = NodeShapes.of(self.nodes.values(), resources)
        amounts = [tuple(round(1000 * amount) for amount in row) for row in shapes.offers.tolist()]
        self._offers = {
            name: NodeOffer(offer, places) for name, offer, places in zip(self.nodes, amounts, shapes.pods.tolist(), strict=True)
        }
        extended = extended_offers(self.nodes.values(), view.device_classes, autoscaled=pool.autoscaled)
        former, self._overheads = self._overheads, overheads_of(view.runtime_classes)
        if shapes.same_as(self.shapes) and extended == self._extended and former == self._overheads:
            return False
        self._extended = extended
        self.shapes = shapes
        self._fitting.clear()
        self._holding.clear()
        most = np.full(len(resources), np.inf) if pool.autoscaled else shapes.largest()
        self.largest_node = dict(zip(resources, most.tolist(), strict=True))
        return True

    def fitting(self, unit: FloatArray) -> float:
        """Return how many pods of the (K,) size `unit` the empty nodes of the pool hold; infinite in an autoscaled pool."""
        if self._config.pool.autoscaled:
            return math.inf
        size = unit.tobytes()
        if size not in self._fitting:
            if len(self._fitting) >= MOST_SIZES:
                self._fitting.clear()
            self._fitting[size] = self.shapes.fitting(unit)
        return self._fitting[size]

    def nodes_for(self, use: PortUse, space: str, requests: Mapping[str, float], ports: HostPorts) -> PortNodes:
        """Return the nodes for a pod of a space with these requests and host ports. `use`: the ports that pods have now."""
        if self._config.pool.autoscaled:
            return PortNodes(math.inf, math.inf)
        roomy = self.shapes.roomy(vector(self.resources, requests))
        taken = use.taken(ports, space)
        names = [name for name, has_room in zip(self.nodes, roomy.tolist(), strict=True) if has_room]
        return PortNodes(len(names), sum(1 for name in names if name not in taken))

    def holds(self, requests: RequestVector) -> bool:
        """Return whether some node of the pool could hold a pod with these requests, in thousandths."""
        known = self._holding.get(requests)
        if known is None:
            if len(self._holding) >= MOST_SIZES:
                self._holding.clear()
            known = self._holding[requests] = self.fitting(np.array(requests) / 1000) >= 1
        return known

    def lacking(self, extended: tuple[str, ...]) -> str:
        """Return the first of some extended resources that the pool cannot offer; empty if there is none, or a new node may offer them."""
        return first_lacking(extended, self._extended)

    def find_orphans(self, view: ClusterView, queue_set: QueueSet) -> frozenset[str]:
        """Find labelled namespaces without a queue and without another pool's operator: they run at the floor.

        Returns the namespaces that were added or removed since the last call.
        """
        self.governed = frozenset(entry.space for entry in queue_set.governing)
        left = self.labelled - self.governed - queue_set.elsewhere - queue_set.left_as_is - queue_set.observed - self.never_managed
        left = frozenset(name for name in left if self._is_free(view.quotas.get((name, QUOTA_NAME))))
        found = left - self.ending
        changed, self.orphans = found ^ self.orphans, found
        spared = self.governed | queue_set.elsewhere | queue_set.left_as_is | queue_set.observed | self.never_managed | self.ending
        self.dismissed = self._without_managed - spared
        known, with_pods = self.managed | self.leaving | left, view.pods.namespaces()
        self.leaving = frozenset(space for space in known if space in with_pods and self._is_going(namespace_of(space)))
        self.managed = self.governed | found
        return changed

    def elsewhere(self, queue_set: QueueSet) -> frozenset[str]:
        """Return the namespaces that are left to operators of other pools.

        Where this pool's own queues are in Observe mode, only those that such an operator has labelled: it may never come.
        """
        unsure = {name: self.labels.get(name, {}).get(POOL_LABEL) for name in queue_set.elsewhere & queue_set.observed}
        return queue_set.elsewhere - {name for name, pool in unsure.items() if pool in {None, self._config.pool.name}}

    def capacity(self, view: ClusterView, now: float) -> tuple[FloatArray, FloatArray]:
        """Return (K,) live and committed capacity. The pods of deleted queues and namespaces lower only the live one."""
        pool, resources = self._config.pool, self.resources
        head_room, declared = natural_units(pool.head_room), natural_units(pool.declared_capacity)
        offered = self.shapes.total()
        reserve = offered * pool.head_room_percent / 100 + vector(resources, head_room)
        foreign, leftover, _ = self._outside(view)
        low = self.low_water.observe(resources, np.maximum(offered - reserve - foreign, 0.0), now)
        committed = np.array([declared.get(resource, amount) for resource, amount in zip(resources, low, strict=True)])
        live = committed if pool.autoscaled else np.maximum(offered - reserve - foreign - leftover, 0.0)
        return live, committed

    def slots(self, view: ClusterView) -> float:
        """Return the places for pods of queues on the pool's nodes; infinite if a node names no number of places, or the pool is
        autoscaled."""
        if self._config.pool.autoscaled or not len(self.shapes.pods):
            return math.inf
        return float(self.shapes.pods.sum()) - self._outside(view)[2]

    def _outside(self, view: ClusterView) -> tuple[FloatArray, FloatArray, float]:
        """Return (K,) requests of unmanaged pods and of other namespaces on the pool's nodes, those of what was managed before, and the
        number of all these pods."""
        outside, pods = self._ungoverned.read(view.pods, self.governed, self._offers)
        if not (self.orphans or self.leaving):
            return outside, np.zeros(len(outside)), pods
        foreign, _ = self._foreign.read(view.pods, self.managed | self.leaving, self._offers)
        return foreign, outside - foreign, pods

    def _read_namespaces(self, namespaces: Mapping[tuple[str, str], Namespace]) -> None:
        self._present = frozenset(name for _, name in namespaces)
        self.labels = {name: item.metadata.labels or {} for (_, name), item in namespaces.items()}
        self.labelled = frozenset(name for name, labels in self.labels.items() if labels.get(MANAGED_LABEL) == "true")
        self._without_managed = frozenset(
            name for name, labels in self.labels.items() if labels.get(POOL_LABEL) == self._config.pool.name and name not in self.labelled
        )
        self.ending = frozenset(
            name for (_, name), item in namespaces.items() if item.metadata.deletion_timestamp or item.status.phase == "Terminating"
        )

    def _read_limits(self, view: ClusterView, quotas: set[tuple[str, str]], limit_ranges: set[tuple[str, str]]) -> None:
        if any(name not in OUR_QUOTAS for _, name in quotas):
            found: dict[str, list[ResourceQuota]] = {}
            for (namespace, name), quota in view.quotas.items():
                if name not in OUR_QUOTAS:
                    found.setdefault(namespace, []).append(quota)
            self.limits.quotas = found
        if limit_ranges:
            ranges: dict[str, list[LimitRange]] = {}
            for (namespace, _), limit_range in view.limit_ranges.items():
                ranges.setdefault(namespace, []).append(limit_range)
            self.limits.limit_ranges = ranges

    def pod_defaults(self, space: str) -> PodDefaults:
        """Return what the API server adds to the pods of a space's templates."""
        return PodDefaults(self._overheads, container_defaults(self.limits.limit_ranges.get(namespace_of(space), ())))

    def _is_going(self, namespace: str) -> bool:
        """Return whether the namespace is being deleted, or is gone while our caches still have pods of it."""
        return namespace in self.ending or namespace not in self._present

    def _is_free(self, quota: ResourceQuota | None) -> bool:
        return quota is None or pool_of(quota) in {None, self._config.pool.name}


def vector(resources: tuple[str, ...], amounts_by_name: Mapping[str, float]) -> FloatArray:
    """Return (K,) amounts in the order of `resources`; zero for missing ones."""
    return np.array([amounts_by_name.get(resource, 0.0) for resource in resources])
