"""Table of nodes, updated event by event: the used fraction of each node, each space's part, and the nodes kept for bursts.

Requests are answered from its arrays alone. policy/placement.py chooses the nodes to keep.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairburst.kube.api.objects import Node
from fairburst.kube.extender.queue_objects import ExpectedBurst
from fairburst.kube.names import LANE_OF_CLASS, SIZE_CLASSES
from fairburst.kube.usage.capacity import NodeShapes, counts
from fairburst.kube.usage.pod_usage import NodeUsage
from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.placement import BEST, kept_nodes, whole_pods

BATCH_CLASSES = frozenset({*SIZE_CLASSES, *LANE_OF_CLASS})


class NodeTable:
    """Nodes as rows of arrays, in the order of `names`.

    used: (M,) fraction of the node that is used. kept: (M,) whether the node is kept for a burst. kept_by: the burst's queue by node name.
    scored_hosts: (scores, M) HostPriority of each score and node as JSON, because a look-up is faster than encoding.

    Parameters
    ----------
    resources : the counted resources, the order of every vector.
    node_selector : labels of the pool's nodes. Other nodes have rows, but are never kept.
    on_node : returns the usage of a node's bound pods, by node name.
    """

    def __init__(self, resources: Sequence[str], node_selector: Mapping[str, str], on_node: Callable[[str], NodeUsage]) -> None:
        self.resources = tuple(resources)
        self._selector, self._on_node = dict(node_selector), on_node
        self._classes: dict[str, str] = {}
        self.kept_by: dict[str, str] = {}
        self.set_nodes(())

    # Changes ---------------------------------------------------------------------------------------------------------

    def concerns(self, old: Node | None, new: Node | None) -> bool:
        """Return whether a node's change affects the table. Most changes are heartbeats, which do not."""
        return self._facts(old) != self._facts(new)

    def _facts(self, node: Node | None) -> object:
        return None if node is None else (node.status.allocatable, counts(node, self._selector))

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """Replace all nodes after one was added, removed or changed in a relevant field."""
        present = sorted(nodes, key=lambda node: node.metadata.name)
        shapes = NodeShapes.of(present, self.resources)
        self.names = [node.metadata.name for node in present]
        self.row_of = {name: row for row, name in enumerate(self.names)}
        self.scored_hosts = _scored_hosts(self.names)
        self._offers, self._offered = shapes.offers, shapes.offers.tolist()
        self._most_pods = np.where(np.isinf(shapes.pods), np.iinfo(np.int32).max, shapes.pods).astype(np.int64)
        self._takes_pods = np.array([counts(node, self._selector) for node in present], dtype=np.bool_)
        self.used, self._batch, self._lasting = np.zeros(len(present)), np.zeros(len(present)), np.zeros_like(shapes.offers)
        self.kept = self._mask(self.kept_by)
        self._read_all()

    def set_classes(self, classes: Mapping[str, str]) -> None:
        """Set the priority class of the pods of each governed space. Does nothing if the classes have not changed."""
        if classes != self._classes:
            self._classes = dict(classes)
            self._read_all()

    def refresh(self, nodes: Iterable[str]) -> None:
        """Update these nodes from their bound pods."""
        for name in nodes:
            row = self.row_of.get(name)
            if row is not None:
                self._read(row, self._on_node(name))

    def _read_all(self) -> None:
        self._parts: list[dict[str, float]] = [{} for _ in self.names]
        self._shares: dict[str, FloatArray] = {}
        self.refresh(self.names)

    def _read(self, row: int, usage: NodeUsage) -> None:
        """Update one node: its used fraction, its batch work's fraction, and the amounts that stay when batch work has ended."""
        parts: dict[str, float] = {}
        total, batch = self._vector(usage.unmanaged), [0.0] * len(self.resources)
        for space, amounts in usage.by_namespace.items():
            taken = self._vector(amounts)
            total = [one + other for one, other in zip(total, taken, strict=True)]
            if self._classes.get(space) in BATCH_CLASSES:
                batch = [one + other for one, other in zip(batch, taken, strict=True)]
            parts[space] = self._fraction(row, taken)
        self.used[row], self._batch[row] = self._fraction(row, total), self._fraction(row, batch)
        self._lasting[row] = [one - other for one, other in zip(total, batch, strict=True)]
        for space in parts.keys() | self._parts[row].keys():
            if space in self._shares:
                self._shares[space][row] = parts.get(space, 0.0)
        self._parts[row] = parts

    def _fraction(self, row: int, amounts: Sequence[float]) -> float:
        """Return the used fraction of a node: the mean over the resources that it offers, as in kube-scheduler's own scores."""
        parts = [amount / offered for amount, offered in zip(amounts, self._offered[row], strict=True) if offered > 0]
        return sum(parts) / len(parts) if parts else 0.0

    def _vector(self, amounts: Mapping[str, float]) -> list[float]:
        return [amounts.get(resource, 0.0) for resource in self.resources]

    # Nodes kept for bursts -------------------------------------------------------------------------------------------

    def keep(self, bursts: Sequence[ExpectedBurst]) -> None:
        """Choose the nodes to keep for these bursts. No node is kept for two bursts."""
        free, kept_by = self._takes_pods, dict[str, str]()
        for burst in bursts:
            chosen = self._chosen(burst, free)
            free = free & ~chosen
            kept_by |= {self.names[row]: burst.queue for row in np.flatnonzero(chosen)}
        self.kept_by, self.kept = kept_by, self._mask(kept_by)

    def _chosen(self, burst: ExpectedBurst, free: BoolArray) -> BoolArray:
        unit, needed = (np.array(self._vector(amounts)) for amounts in (burst.unit, burst.needed))
        sized = (unit > 0) & (needed > 0)
        if not sized.any():
            return np.zeros(len(self.names), dtype=np.bool_)
        pods = np.where(free, np.minimum(whole_pods(self._offers - self._lasting, unit), self._most_pods), 0)
        wanted = math.ceil(float((needed[sized] / unit[sized]).max()) - 1e-9)
        return kept_nodes(pods, self._batch, wanted, self._mask(name for name, queue in self.kept_by.items() if queue == burst.queue))

    def _mask(self, names: Iterable[str]) -> BoolArray:
        chosen = np.zeros(len(self.names), dtype=np.bool_)
        chosen[[self.row_of[name] for name in names if name in self.row_of]] = True
        return chosen

    # Reading ---------------------------------------------------------------------------------------------------------

    def class_of(self, namespace: str) -> str | None:
        """Return the priority class of the pods of the namespace's default queue, or None if no queue governs it."""
        return self._classes.get(namespace)

    def share(self, space: str) -> FloatArray:
        """Return the (M,) fraction of each node that the space's pods use. The array is updated with each event after the first call."""
        if space not in self._shares:
            self._shares[space] = np.array([parts.get(space, 0.0) for parts in self._parts])
        return self._shares[space]


def _scored_hosts(names: Sequence[str]) -> NDArray[np.object_]:
    hosts = [msgspec.json.encode(name) for name in names]
    scored = np.empty((BEST + 1, len(names)), dtype=np.object_)
    for score in range(BEST + 1):
        scored[score] = [b'{"Host":%b,"Score":%d}' % (host, score) for host in hosts]
    return scored
