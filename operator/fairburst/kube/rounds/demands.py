"""Demand and use of the queues' namespaces, as the core's arrays, updated by namespace. Decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

import numpy as np

from fairburst.bounds import bounded_amount
from fairburst.kube.api.objects import controller_of
from fairburst.kube.containment import Containment
from fairburst.kube.enforce.gate import UngatePlanner
from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.kube.queues.spaces import changed_keys
from fairburst.kube.rounds.governing import GoverningQueues
from fairburst.kube.rounds.next_starts import NextStarts
from fairburst.kube.rounds.view import ClusterView
from fairburst.kube.times import to_epoch
from fairburst.kube.usage.demand import NamespaceDemand, growth_step, namespace_demand
from fairburst.kube.usage.pod_counts import pods_in
from fairburst.kube.usage.pod_defaults import PodDefaults
from fairburst.kube.usage.port_demand import NodesFor
from fairburst.kube.usage.waiting_pods import waiting_lines, waiting_pods
from fairburst.kube.views.idle_room import UnboundPods
from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import ClusterSnapshot, QueueKind, WaitingPods


class DemandTable:
    """The demand of each managed namespace, and (N, K) arrays of the governing queues' rows; (N,) `pods` that they have or want.

    oldest: by row of a latency queue, when the oldest of its work was created, if that is known. unbound: pods without a node as they are
    now; unlike the other arrays, its arrays change with each round.
    """

    def __init__(self, contained: Containment, gates: UngatePlanner, largest_turn: float) -> None:
        self._contained = contained
        self.next_starts = NextStarts(gates, largest_turn)
        self.by_namespace: dict[str, NamespaceDemand] = {}
        self.resources: tuple[str, ...] = ()
        self.demand = self.usage = self.unit = np.zeros((0, 0))
        self.unbound = UnboundPods(self.demand, self.demand)
        self.pods = np.zeros(0)
        self.oldest: dict[int, float] = {}
        self.uncharged: dict[str, dict[str, float]] = {}
        self._left_behind: dict[str, dict[str, float]] = {}
        self._defaults: dict[str, PodDefaults] = {}
        self.waiting: WaitingPods | None = None
        self._listed: set[int] = set()  # rows with waiting pods
        self._lines: dict[int, tuple[FloatArray, FloatArray] | None] = {}  # of the rows written in this round, if they have or had any

    def refresh(
        self,
        view: ClusterView,
        namespaces: Iterable[str],
        desired_pods: Callable[[str], Mapping[str, int]],
        fitting: Callable[[Mapping[str, float]], float],
        gated: frozenset[str],
        lacking: Callable[[tuple[str, ...]], str],
        nodes_for: Callable[[str], NodesFor],
        defaults: Callable[[str], PodDefaults],
        stalled: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Read the work of these namespaces again. `defaults`: what the API server adds to the pods of a namespace; `stalled`: by
        namespace, as `namespace_demand` takes it."""
        resources = view.pods.resources
        for namespace in namespaces:
            former = self.by_namespace.get(namespace, NamespaceDemand())
            with self._contained.object("read the work of", namespace):
                known, added = self._defaults.get(namespace), defaults(namespace)
                self.by_namespace[namespace] = namespace_demand(
                    view.controllers.workloads(namespace),
                    view.pods.namespace(namespace),
                    view.pods.owners_in(namespace),
                    resources,
                    desired_pods(namespace),
                    fitting if namespace not in self._left_behind else fitting_beside(self._left_behind[namespace], fitting),
                    gated=namespace in gated,
                    belongs=view.controllers.belongs_to(namespace),
                    elsewhere=view.pods.elsewhere(namespace),
                    former=former.desired_pods if former.resources == resources and known == added else (),
                    lacking=lacking,
                    nodes_for=nodes_for(namespace),
                    defaults=added,
                    stalled=stalled.get(namespace, {}),
                )
                self._defaults[namespace] = added
            self.by_namespace.setdefault(namespace, NamespaceDemand())

    def lay_out(self, view: ClusterView, queues: GoverningQueues, capacity: FloatArray, namespaces: Iterable[str] | None) -> None:
        """Write the rows of these namespaces, or all of them (None) if rows have moved. `capacity`: (K,) of the pool, resource units."""
        rows, specs, governing = queues.rows, queues.queue_set.specs, queues.queue_set.governing
        if namespaces is None:
            shape = len(rows), len(view.pods.resources)
            self.demand, self.usage, self.unit = np.zeros(shape), np.zeros(shape), np.zeros(shape)
            self.unbound = UnboundPods(np.zeros(shape), np.zeros(shape))
            self.pods, self.oldest = np.zeros(len(rows)), {}
            self.next_starts.begin(rows_moved=True)
            namespaces = rows
            self.waiting = None
            self._listed.clear()
        else:  # a snapshot of an earlier round may still be read
            namespaces = [namespace for namespace in namespaces if namespace in rows]
            if not namespaces:
                return
            self.demand, self.usage, self.unit = self.demand.copy(), self.usage.copy(), self.unit.copy()
            self.oldest = dict(self.oldest)
            self.next_starts.begin(rows_moved=False)
        for namespace in namespaces:
            row = rows[namespace]
            self._write(view, namespace, row, promised=specs[row].kind is QueueKind.LATENCY)
            if governing[row].starts_whole:
                with self._contained.object("read the next start of", namespace):
                    demand = self.by_namespace[namespace]
                    wanted = amounts_wanted(demand, view.pods.resources) - self._used(view, namespace)[1]
                    self.next_starts.read(view, governing[row], row, demand, wanted, self.usage[row], capacity, specs[row].limits)
            oldest = self.by_namespace[namespace].oldest if specs[row].kind is QueueKind.LATENCY else None
            if oldest is None:
                self.oldest.pop(row, None)
            else:
                self.oldest[row] = oldest
        if self._lines:
            self.waiting = waiting_pods(self.waiting, self._lines)
            self._lines.clear()

    def created(self, view: ClusterView, governing: Sequence[QueueEntry], row: int) -> list[float] | None:
        """Return when the row's unfinished work was created, ascending, in seconds since the epoch; None if that is not known of all."""
        entry = governing[row]
        times = set(self.by_namespace[entry.space].created)
        if None in times:  # pods that no known controller announces: those without any controller are as old as they say
            names = view.pods.namespace(entry.space).unannounced
            pods = [view.stored_pods[entry.namespace, name].metadata for name in names]
            known = bool(pods) and not any(map(controller_of, pods))
            times = times - {None} | {pod.creation_timestamp for pod in pods} if known else times
        return sorted(to_epoch(datetime.fromisoformat(time)) for time in times if time is not None) if None not in times else None

    def charge_no_more(self, uncharged: dict[str, dict[str, float]]) -> set[str]:
        """Note the requests by namespace of bound pods that count for no queue; return the namespaces where they changed."""
        former, self.uncharged = self.uncharged, uncharged
        return changed_keys(former, uncharged)

    def leave_behind(self, amounts: dict[str, dict[str, float]]) -> set[str]:
        """Note the requests by space of pods on nodes that closed under them; return the spaces where they changed."""
        former, self._left_behind = self._left_behind, amounts
        return changed_keys(former, amounts)

    def left_behind(self, view: ClusterView, rows: Mapping[str, int]) -> dict[int, FloatArray]:
        """Return by row the (K,) requests of pods that nodes have closed under."""
        found = {rows[space]: np.array(self._used(view, space)[1]) for space in self._left_behind if space in rows}
        return {row: amounts for row, amounts in found.items() if amounts.any()}

    def retain(self, namespaces: frozenset[str]) -> None:
        """Forget every other namespace."""
        for namespace in self.by_namespace.keys() - namespaces:
            del self.by_namespace[namespace]
            self._defaults.pop(namespace, None)

    def note_usage(self, view: ClusterView, rows: Mapping[str, int], spaces: Iterable[str]) -> None:
        """Write the present usage of spaces whose work was not read again. A queue wants at least what it uses."""
        placed = [(space, rows[space]) for space in spaces if space in rows]
        if placed:
            self.demand, self.usage = self.demand.copy(), self.usage.copy()
        for space, row in placed:
            self.usage[row], _ = self._used(view, space)
            self.demand[row] = np.maximum(self.demand[row], self.usage[row])
            self.unbound.note(row, view.pods.resources, view.pods.namespace(space))

    def _used(self, view: ClusterView, space: str) -> tuple[list[float], list[float]]:
        """Return the requests of the space's bound pods by resource: those charged to its queue, and those on nodes that closed under
        them."""
        bound, uncharged = view.pods.namespace(space).bound, self.uncharged.get(space, {})
        charged = [max(bound.get(resource, 0.0) - uncharged.get(resource, 0.0), 0.0) for resource in view.pods.resources]
        behind = self._left_behind.get(space)
        if behind is None:
            return charged, [0.0] * len(charged)
        left = [min(behind.get(resource, 0.0), amount) for resource, amount in zip(view.pods.resources, charged, strict=True)]
        return [amount - gone for amount, gone in zip(charged, left, strict=True)], left

    def _write(self, view: ClusterView, namespace: str, row: int, *, promised: bool) -> None:
        """Write a namespace's row. promised: a burst that waits for a node is not done, so that it can be missed."""
        wanted, running = self.by_namespace[namespace], view.pods.namespace(namespace)
        amounts = zip(view.pods.resources, *self._used(view, namespace), strict=True)
        for column, (resource, used, left) in enumerate(amounts):
            self.usage[row, column] = used
            waits = wanted.without_node.get(resource, 0.0) if promised else 0.0
            self.demand[row, column] = max(bounded_amount(wanted.placeable.get(resource, 0.0) + waits) - left, used)
            self.unit[row, column] = wanted.unit.get(resource, 0.0)
        self.unbound.note(row, view.pods.resources, running)
        lacking = sum(owner.wanted - owner.existing for owner in wanted.lacking)
        grows = growth_step(running.pods, 1.0) if running.unannounced else 0.0
        self.pods[row] = running.pods + lacking + grows
        lines = waiting_lines(wanted, view.pods.resources)
        if lines is not None or row in self._listed:
            self._lines[row] = lines
        if lines is not None:
            self._listed.add(row)
        else:
            self._listed.discard(row)


def fitting_beside(left: Mapping[str, float], fitting: Callable[[Mapping[str, float]], float]) -> Callable[[Mapping[str, float]], float]:
    """Return how many pods of some requests a space can have on the empty nodes, beside what it has `left` on nodes that closed."""

    def found(requests: Mapping[str, float]) -> float:
        here = fitting(requests)
        return here + round(pods_in(left, requests)) if here >= 1 else here

    return found


def amounts_wanted(demand: NamespaceDemand, resources: tuple[str, ...]) -> FloatArray:
    """Return (K,) the whole demand of the namespace, resource units."""
    return np.array([demand.demand.get(resource, 0.0) for resource in resources])


def whole_demand(demand: NamespaceDemand, snapshot: ClusterSnapshot, row: int) -> FloatArray:
    """Return (K,) all that a queue wants, resource units. The snapshot's demand ends at the pool, and may include more than pods.

    What runs on nodes that closed under it is left out, as in the snapshot's demand and use."""
    wanted = amounts_wanted(demand, snapshot.resources) - snapshot.left_behind.get(row, 0.0)
    whole: FloatArray = np.maximum(wanted, snapshot.demand[row])
    return whole
