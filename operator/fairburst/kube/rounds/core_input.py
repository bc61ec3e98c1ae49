"""The core's input: capacity, demand and use of the governing queues, read again only where something has changed. Decides nothing."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection

from fairburst.kube.containment import Containment
from fairburst.kube.enforce.gate import UngatePlanner
from fairburst.kube.enforce.reclaim import Reclaimer
from fairburst.kube.jobs.elasticity import SlotPlanner
from fairburst.kube.jobs.reserve import Reserve
from fairburst.kube.rounds.cluster_state import Changes, ClusterState, vector
from fairburst.kube.rounds.demands import DemandTable
from fairburst.kube.rounds.governing import GoverningQueues
from fairburst.kube.rounds.resync import ResyncRounds
from fairburst.kube.rounds.view import ClusterView
from fairburst.kube.usage.closed_nodes import ClosedNodes
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.workloads.job import earlier_ends
from fairburst.policy.model import ClusterSnapshot, QueueKind

MANY_CONTROLLERS = 100
PAUSE_A_CONTROLLER = 1e-4  # seconds: to read the work of such namespaces takes about a tenth of their pause


class CoreInput:
    """Builds the `ClusterSnapshot` of each round.

    The work of namespaces with many controllers is read less often, so that the rounds of all others are not longer for it. Their usage is
    always that of the moment.

    Attributes
    ----------
    demands : the demand of each managed namespace.
    changed_namespaces : those whose work had changed when the last round read it.
    due : when to read work that had changed again but was read just before; infinite if there is none.
    changed_ports : the host ports whose use on nodes has changed since the last round.
    """

    def __init__(
        self, cluster: ClusterState, contained: Containment, reserve: Reserve | None, slots: SlotPlanner, reclaim: Reclaimer,
        gates: UngatePlanner, resyncs: ResyncRounds, largest_turn: float,
    ) -> None:  # fmt: skip
        self._resyncs = resyncs
        self._cluster = cluster
        self._reserve = reserve
        self._slots = slots
        self._reclaim = reclaim
        self._gated: frozenset[str] = frozenset()
        self.demands = DemandTable(contained, gates, largest_turn)
        self.changed_namespaces: frozenset[str] = frozenset()
        self.due = math.inf
        self._read_again_at: dict[str, float] = {}  # of the namespaces with many controllers
        self._read_of = frozenset[str]()  # the managed namespaces, all of which have been read
        self._later: set[str] = set()
        self.changed_ports: set[int] = set()
        self._closed = ClosedNodes()

    def read(self, view: ClusterView, changes: Changes, queues: GoverningQueues, wall: float, now: float) -> set[str]:
        """Read changed nodes, namespaces and work; return the namespaces whose demand was read again.

        Sets `changes.everything` if the counted resources have changed.
        """
        stale = self._read_nodes(view, changes, queues)
        self._find_managed(view, changes, queues)
        if not view.pods.knows_earlier_ends:
            _note_earlier_ends(view)
        self._resyncs.recall(view.controllers.all_controllers(), wall)
        view.changed_namespaces |= view.pods.expire(wall) | self._resyncs.moved()
        view.changed_namespaces |= self._with_moved_ports(view.pods) | changes.defaults
        view.changed_namespaces |= self._slots.prepare(
            view.controllers, view.pods, queues.queue_set, self._cluster.pod_defaults, moved=changes.everything
        )
        view.changed_namespaces |= queues.queue_set.spaces.whole(view.changed_namespaces)
        self._read_again_at = {space: at for space, at in self._read_again_at.items() if now < at}
        self._later = view.changed_namespaces & self._read_again_at.keys()
        view.changed_namespaces -= self._later
        gated, managed, resources = queues.holding["Pods"], self._cluster.managed, self._cluster.resources
        left = self.demands.leave_behind(self._left_behind(view, queues))
        new = frozenset[str]() if managed is self._read_of else managed - self.demands.by_namespace.keys()
        again = {*stale, *view.changed_namespaces, *left, *(gated ^ self._gated), *new} & managed
        touched = view.changed_namespaces | again
        self._gated = gated
        self.demands.refresh(
            view, again, self._slots.desired_pods, lambda requests: self._cluster.fitting(vector(resources, requests)), gated,
            self._cluster.lacking, lambda space: functools.partial(self._cluster.nodes_for, view.pods.ports, space),
            self._cluster.pod_defaults, self._resyncs.stalled,
        )  # fmt: skip
        self._read_of = managed
        self.changed_namespaces = frozenset(view.changed_namespaces)
        self._later -= again
        view.changed_namespaces.clear()
        view.changed_namespaces |= self._later
        self._note_reading(again, now)
        return touched

    def _with_moved_ports(self, pods: PodIndex) -> set[str]:
        """Return the spaces with pods that ask for a host port whose use has changed."""
        pods.ports.watch(self)
        moved, self.changed_ports = self.changed_ports, set[int]()
        return {space for space, demand in self.demands.by_namespace.items() if demand.ports.asks(moved)} if moved else set()

    def _note_reading(self, spaces: Collection[str], now: float) -> None:
        """Set when these spaces are read again at the earliest, and when those that have to wait are."""
        controllers = {space: len(self.demands.by_namespace[space].desired_pods) for space in spaces}
        many = {space: count for space, count in controllers.items() if count >= MANY_CONTROLLERS}
        self._read_again_at |= dict.fromkeys(many, now + PAUSE_A_CONTROLLER * sum(many.values()))
        self.due = min((self._read_again_at[space] for space in self._later), default=math.inf)

    def _read_nodes(self, view: ClusterView, changes: Changes, queues: GoverningQueues) -> Collection[str]:
        """Return the namespaces whose demand depends on a change of nodes or of the counted resources."""
        self._cluster.read_resources(queues.queue_set, view, again=changes.nodes or changes.everything)
        resources = self._cluster.resources
        stale = self.demands.by_namespace.keys() if self._cluster.see_nodes(view, changed=changes.nodes) else set[str]()
        if view.pods.resources != resources:
            view.pods = PodIndex.rebuilt(resources, view.stored_pods.values(), by_class=self._reserve is not None, spaces=view.pods.spaces)
        if self.demands.resources != resources:
            stale, changes.everything, self.demands.resources = self.demands.by_namespace.keys(), True, resources
        return stale

    def _find_managed(self, view: ClusterView, changes: Changes, queues: GoverningQueues) -> None:
        """Find the managed namespaces, those of deleted queues among them, and forget all others."""
        unowned = any(name in self._cluster.labelled and name not in self._cluster.governed for name in changes.namespaces)
        if changes.everything or changes.objects or unowned:
            changes.namespaces |= self._cluster.find_orphans(view, queues.queue_set)
            self.demands.retain(self._cluster.managed)

    def snapshot(
        self, view: ClusterView, changes: Changes, queues: GoverningQueues, touched: set[str], wall: float, now: float
    ) -> ClusterSnapshot:
        """Return the core's input, with new rows where the demand was read again. Touches namespaces whose uncharged pods have changed."""
        live, committed = self._cluster.capacity(view, now)
        table, queue_set = self.demands, queues.queue_set
        touched |= table.charge_no_more(self._not_running(view, wall))
        table.lay_out(view, queues, live, None if changes.everything else touched)
        table.note_usage(view, queues.rows, self._later)
        snapshot = ClusterSnapshot(
            self._cluster.resources, live, committed, queue_set.specs, table.demand, table.usage, table.unit, waiting=table.waiting,
            oldest_work=table.oldest, next_start=table.next_starts.need, starting=table.next_starts.begun,
            left_behind=table.left_behind(view, queues.rows),
        )  # fmt: skip
        if self._reserve is not None:
            snapshot = self._reserve.part(
                snapshot, queue_set, table.by_namespace, touched, view.pods, view.stored_pods.values(), wall, now,
                moved=changes.everything,
            )  # fmt: skip
        return self._slots.part(snapshot)

    def _left_behind(self, view: ClusterView, queues: GoverningQueues) -> dict[str, dict[str, float]]:
        """Return the requests by space of throughput queues' pods on nodes that closed under them. Bursts are charged for all that they
        have."""
        found, specs = self._closed.read(view.pods, self._cluster.closed), queues.queue_set.specs
        rows = ((space, queues.rows.get(space)) for space in found)
        return {space: found[space] for space, row in rows if row is not None and specs[row].kind is QueueKind.THROUGHPUT}

    def _not_running(self, view: ClusterView, wall: float) -> dict[str, dict[str, float]]:
        """Return the requests by namespace of bound pods that count for no queue: reclaim evicts them, or their node does not exist."""
        nodes = self._cluster.node_names
        uncharged = view.pods.bound_nowhere(nodes)
        for namespace, freed in self._reclaim.freed(view.stored_pods, view.pods, nodes, wall).items():
            known = uncharged.setdefault(namespace, {})
            for resource, amount in freed.items():
                known[resource] = known.get(resource, 0.0) + amount
        return uncharged


def _note_earlier_ends(view: ClusterView) -> None:
    """Note the pods that ended before the index began and that their Jobs still have as active: they are not lacking."""
    for job in view.controllers.all_jobs():
        if not job.finished:
            owner = job.metadata.namespace, job.metadata.uid
            view.pods.note_earlier_ends(*owner, *earlier_ends(job, view.pods.owner(*owner)))
    view.pods.knows_earlier_ends = True
