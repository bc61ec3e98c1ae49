"""The pool's capacity: live, committed for admission, and by node. Pure, apart from the low-water mark.

Live: allocatable of ready, schedulable nodes of the pool, minus unmanaged pods on them, minus head-room. Committed: the declared
capacity, or the lowest live value of the last `capacityWindow`, so that a reboot or a stray CronJob does not change classes back and
forth.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fairburst.bounds import MOST_AMOUNT, bounded_amount
from fairburst.kube.api.class_objects import DeviceClass
from fairburst.kube.api.objects import Node, Quantity
from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.quantity import QuantityError, parse_quantity

# Taints that keep all users' pods off a node: of a control plane, and of a node that is not ready for new pods or is about to go. Pods with
# requests tolerate node.kubernetes.io/memory-pressure. Nodes that are not ready or cordoned say so elsewhere.
NO_PODS_TAINTS = frozenset(
    {
        "node-role.kubernetes.io/control-plane",
        "node-role.kubernetes.io/master",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/out-of-service",
        "node.kubernetes.io/pid-pressure",
        "node.cloudprovider.kubernetes.io/shutdown",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
    }
)


def counts(node: Node, node_selector: Mapping[str, str]) -> bool:
    """Return whether the node is in the pool and takes pods now. Taints that some pods are meant to tolerate are ignored."""
    kept = any(taint.key in NO_PODS_TAINTS and taint.effect != "PreferNoSchedule" for taint in node.spec.taints or ())
    return node.schedulable and not kept and node.has_labels(node_selector)


def extended_offers(
    nodes: Collection[Node], device_classes: Mapping[tuple[str, str], DeviceClass] | None, *, autoscaled: bool
) -> frozenset[str] | None:
    """Return the extended resources that some node offers or that a DRA driver may provide; nodes do not list the latter.

    None if they cannot be told: the device classes are not known (None), there are no nodes yet, or the next node may offer more.
    """
    if device_classes is None or autoscaled or not nodes:
        return None
    by_node = {
        resource
        for node in nodes
        for resource, quantity in (node.status.allocatable or {}).items()
        if "/" in resource and _offered(quantity) > 0
    }
    return frozenset(by_node | {one.spec.extended_resource_name for one in device_classes.values()})


def first_lacking(extended: Iterable[str], offered: frozenset[str] | None) -> str:
    """Return the first of some extended resources that is not offered, as `extended_offers` says; empty if there is none."""
    return "" if offered is None else next((resource for resource in extended if resource not in offered), "")


@dataclass(frozen=True, slots=True, eq=False)
class NodeShapes:
    """The capacities of the pool's M nodes: `offers` (M, K) allocatable, resource units, and `pods` (M,) their places for pods."""

    offers: FloatArray
    pods: FloatArray

    @classmethod
    def of(cls, nodes: Collection[Node], resources: tuple[str, ...]) -> NodeShapes:
        """Read the nodes. A missing or unreadable quantity counts as zero, a missing number of pods as no limit."""
        offers = np.zeros((len(nodes), len(resources)))
        pods = np.full(len(nodes), np.inf)
        for row, node in enumerate(nodes):
            amounts = node.status.allocatable or {}
            for column, resource in enumerate(resources):
                if resource in amounts:
                    offers[row, column] = _offered(amounts[resource])
            if "pods" in amounts:
                pods[row] = _offered(amounts["pods"])
        return cls(offers, pods)

    def total(self) -> FloatArray:
        """Return (K,) sums over the nodes, within the bounds."""
        total: FloatArray = np.minimum(self.offers.sum(axis=0), MOST_AMOUNT)
        return total

    def largest(self) -> FloatArray:
        """Return (K,) the most that any one node offers: no larger pod can run. Infinite without nodes."""
        largest: FloatArray = self.offers.max(axis=0) if len(self.offers) else np.full(self.offers.shape[1], np.inf)
        return largest

    def same_as(self, other: NodeShapes) -> bool:
        """Return whether the nodes have the same capacities, in order."""
        return np.array_equal(self.offers, other.offers) and np.array_equal(self.pods, other.pods)

    def fitting(self, unit: FloatArray) -> float:
        """Return how many pods of the (K,) size `unit` fit on the empty nodes; infinite for a pod without requests."""
        return float(self._by_node(unit).sum()) if (unit > 0).any() else math.inf

    def roomy(self, unit: FloatArray) -> BoolArray:
        """Return (M,) whether a node could hold a pod of the (K,) size `unit` if it were empty."""
        roomy: BoolArray = self._by_node(unit) >= 1
        return roomy

    def _by_node(self, unit: FloatArray) -> FloatArray:
        asked = unit > 0
        if not asked.any():
            return self.pods
        by_node: FloatArray = np.minimum(np.floor(np.min(self.offers[:, asked] / unit[asked], axis=1) + 1e-9), self.pods)
        return by_node


def _offered(quantity: Quantity) -> float:
    try:
        return bounded_amount(parse_quantity(quantity))
    except QuantityError:
        return 0.0


class LowWaterMark:
    """Elementwise minimum of samples of the last `window_seconds`, kept up to a tenth of the window longer (in buckets of a tenth)."""

    def __init__(self, window_seconds: float) -> None:
        self._window = window_seconds
        self._bucket_seconds = max(window_seconds / 10, 1e-9)
        self._resources: tuple[str, ...] = ()
        self._buckets: dict[int, FloatArray] = {}

    def observe(self, resources: tuple[str, ...], amount: FloatArray, now: float) -> FloatArray:
        """Add a sample and return the (K,) minimum. A resource that was not counted before starts with this sample."""
        if resources != self._resources:
            self._realign(resources, amount)
        bucket = int(now // self._bucket_seconds)
        known = self._buckets.get(bucket)
        self._buckets[bucket] = amount if known is None else np.minimum(known, amount)
        horizon = int((now - self._window) // self._bucket_seconds)
        self._buckets = {index: low for index, low in self._buckets.items() if index >= horizon}
        low: FloatArray = np.minimum.reduce(list(self._buckets.values()))
        return low

    def next_expiry(self) -> float:
        """Return when the oldest bucket leaves the window and the mark may rise; infinite with at most one bucket."""
        if len(self._buckets) < 2:
            return float("inf")
        return (min(self._buckets) + 1) * self._bucket_seconds + self._window

    def _realign(self, resources: tuple[str, ...], sample: FloatArray) -> None:
        position = {resource: index for index, resource in enumerate(self._resources)}
        self._buckets = {
            bucket: np.array([low[position[r]] if r in position else sample[i] for i, r in enumerate(resources)])
            for bucket, low in self._buckets.items()
        }
        self._resources = resources
