"""The governing queues of a round, their rows in the core's input, and what their statuses remember. Updated by differences; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from fairburst.config import Config
from fairburst.kube.containment import Containment
from fairburst.kube.queues.burst_history import BurstHistory
from fairburst.kube.queues.queue_set import ObjectKey, QueueEntry, QueueSet, QueueSetBuilder
from fairburst.kube.rounds.cluster_state import Changes, ClusterState
from fairburst.kube.rounds.recall import QueueRecall
from fairburst.kube.rounds.view import ClusterView
from fairburst.kube.usage.gated_pods import GatedPods
from fairburst.policy.model import ClusterSnapshot, Memory, QueueKind


class GoverningQueues:
    """Reads queue objects and keeps the queues in force.

    Attributes
    ----------
    queue_set : the pool's queues. rows : the row of each governed space in the core's input.
    absent : namespaces that are being deleted or no longer exist.
    holding : the spaces of queues whose mode holds work, by what it holds ("Pods" or "Jobs").
    reclaiming : (N,) whether the queue evicts for what it is owed.
    """

    def __init__(self, config: Config, own_namespace: str, contained: Containment, gated: GatedPods, *, observing: bool) -> None:
        self._contained = contained
        self._gated = gated
        self._observing = observing
        self._builder = QueueSetBuilder(config.pool.name, own_namespace, contained, observing=observing)
        self._recall = QueueRecall(config.pool.name, observing=observing)
        self.queue_set = QueueSet((), (), (), frozenset())
        self.rows: dict[str, int] = {}
        self.absent: frozenset[str] = frozenset()
        self.holding: dict[str, frozenset[str]] = {}
        self.reclaiming = np.zeros(0, dtype=np.bool_)

    @property
    def history(self) -> BurstHistory:
        """The observed bursts of queues that declare uncertainty."""
        return self._builder.history

    @property
    def observed(self) -> Mapping[ObjectKey, object]:
        """The pool's queues in Observe mode that are left out, each with a value that changes with its spec."""
        return self._builder.observed

    def kind_of(self, space: str) -> QueueKind | None:
        """Return the kind of the queue that governs the space."""
        row = self.rows.get(space)
        spec = self.queue_set.governing[row].spec if row is not None else None
        return None if spec is None else spec.kind

    def forget(self, keys: Iterable[ObjectKey]) -> None:
        """Read these queues' statuses again once their specs change, instead of the present memory of them."""
        for key in keys:
            self._recall.forget(key)

    def exclude(self, entry: QueueEntry) -> None:
        """Leave a queue out until its object changes: the core cannot decide on it, which is its space's problem."""
        self._builder.excluded[entry.uid] = entry.generation, self._contained.problems[entry.space]
        self._recall.forget(entry.key)

    def read(self, view: ClusterView, changes: Changes, cluster: ClusterState, memory: Memory, wall: float) -> Memory:
        """Read the changed queue objects; return the memory with their statuses. Sets `changes.everything` if rows have moved."""
        queues = view.read_queues()
        self._builder.wall = wall
        back = set[ObjectKey]()
        if changes.queues or changes.objects or changes.everything:
            absent = cluster.absent(queues)
            changes.everything |= not (absent ^ self.absent).isdisjoint(namespace for _, namespace, _ in queues)
            back = {key for key in queues if key[1] in self.absent and key[1] not in absent}
            self.absent = absent
        for key in back:  # its memory was dropped while its namespace was absent, perhaps only from a watch that was late
            self._recall.forget(key)
        memory = self._recall.read(queues, changes.queues | back, memory, self._builder.excluded, wall)
        queue_set = None if changes.everything else self._builder.update(queues, changes.queues, memory)
        if queue_set is None:
            changes.everything = True
            self._builder.lanes.prepare(view.pods.spaces, cluster.labels, view.pods.busy_lanes, assigns=not self._observing)
            self._lay_out(self._builder.build(queues, memory, self.absent))
            if not self._observing and self.queue_set.spaces is not view.pods.spaces:
                view.changed_namespaces |= self.queue_set.spaces.differing(view.pods.spaces)
                view.pods.divide(self.queue_set.spaces)
                view.controllers.spaces = self.queue_set.spaces
                in_lanes = (view.stored_pods[key] for key in view.pods.lane_pods() if key in view.stored_pods)
                self._gated.divide(self.queue_set.spaces, in_lanes)
        else:
            self.queue_set = queue_set
        return memory

    def _lay_out(self, queue_set: QueueSet) -> None:
        self.queue_set, governing = queue_set, queue_set.governing
        self.rows = {entry.space: row for row, entry in enumerate(governing)}
        self.holding = {kind: frozenset(one.space for one in governing if one.mode.holds == kind) for kind in ("Pods", "Jobs")}
        self.reclaiming = np.array([entry.reclaims for entry in governing], dtype=np.bool_)

    def watch_bursts(self, snapshot: ClusterSnapshot, memory: Memory, wall: float) -> None:
        """Learn from the bursts of queues that declare uncertainty."""
        with self._contained.object("learn the bursts of", ""):
            rows = {entry.uid: row for row, entry in enumerate(self.queue_set.governing)} if self.history.learning else {}
            self.history.watch(rows, snapshot, memory.columns, wall)
