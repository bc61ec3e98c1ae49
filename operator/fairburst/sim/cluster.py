"""Simulated machines, and their snapshots for the decision core.

Amounts are integers in millionths of a unit, so that starting and ending a task a million times leaves no rounding error. A cluster with
one node is "one big machine". With several nodes, tasks are placed first fit, and fragmentation is visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray, IntArray
from fairburst.policy.model import ClusterSnapshot, QueueSpec
from fairburst.sim.errors import ScenarioError

MILLIONTHS = 1_000_000


@dataclass(frozen=True, slots=True)
class Cluster:
    """Resource names and the amounts of each node: nodes[i][k]."""

    resources: tuple[str, ...]
    nodes: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if not self.nodes or not self.resources:
            raise ScenarioError("cluster: expected at least one node and one resource, found none")
        for number, node in enumerate(self.nodes):
            if len(node) != len(self.resources) or not all(0 <= amount < float("inf") for amount in node):
                raise ScenarioError(f"node {number}: expected an amount >= 0 of each of {', '.join(self.resources)}, found {node}")

    @property
    def capacity(self) -> FloatArray:
        """(K,) amounts of all nodes together."""
        total: FloatArray = np.array(self.nodes, dtype=np.float64).sum(axis=0)
        return total


def one_machine(resources: Sequence[str], amounts: Sequence[float]) -> Cluster:
    """Return a cluster with a single node, which cannot fragment."""
    return Cluster(tuple(resources), (tuple(amounts),))


class Machines:
    """Free amounts of the nodes, (nodes, K) millionths. They fall below zero if a node shrinks under running tasks."""

    def __init__(self, cluster: Cluster) -> None:
        self.capacity: IntArray = _millionths(cluster.nodes)
        self.free: IntArray = self.capacity.copy()

    def total(self) -> IntArray:
        """(K,) capacity of the nodes that are up."""
        result: IntArray = self.capacity.sum(axis=0)
        return result

    def place(self, demand: IntArray, most: int) -> list[tuple[int, int]]:
        """Take room for up to `most` tasks of `demand`, first fit. Returns (node, tasks) for each node with tasks."""
        if len(self.free) == 1:
            free = self.free[0]
            count = most
            for amount, need in zip(free.tolist(), demand.tolist(), strict=True):
                if need > 0:
                    count = min(count, amount // need)
            if count <= 0:
                return []
            free -= count * demand
            return [(0, count)]
        needs = demand > 0
        fits = np.clip((self.free[:, needs] // demand[needs]).min(axis=1), 0, most) if needs.any() else np.array([most])
        before = np.cumsum(fits) - fits
        given = np.clip(most - before, 0, fits)
        placed = [(int(node), int(given[node])) for node in np.flatnonzero(given)]
        for node, count in placed:
            self.free[node] -= count * demand
        return placed

    def release(self, node: int, demand: IntArray, count: int) -> None:
        """Release the room of `count` tasks."""
        self.free[node] += count * demand

    def resize(self, node: int, amounts: Sequence[float]) -> None:
        """Set a node's capacity to `amounts`; zeros mean that the node is down."""
        capacity = _millionths([amounts])[0]
        self.free[node] += capacity - self.capacity[node]
        self.capacity[node] = capacity


def _millionths(amounts: Sequence[Sequence[float]]) -> IntArray:
    result: IntArray = np.round(np.array(amounts, dtype=np.float64) * MILLIONTHS).astype(np.int64)
    return result


def snapshot(
    resources: tuple[str, ...],
    live: IntArray,
    committed: FloatArray,
    queues: tuple[QueueSpec, ...],
    demand: IntArray,
    usage: IntArray,
    unit: IntArray,
) -> ClusterSnapshot:
    """Return the core's input. demand, usage, unit: (N, K) millionths. Demand includes running work, so it is at least the usage."""
    used = usage / MILLIONTHS
    return ClusterSnapshot(resources, live / MILLIONTHS, committed, queues, np.maximum(demand / MILLIONTHS, used), used, unit / MILLIONTHS)
