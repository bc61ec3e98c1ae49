"""Use of the pool's nodes by pods outside a set of spaces, added up again only for the nodes whose pods have changed. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairburst.bounds import MOST_AMOUNT
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.policy.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """What one node has for pods: amounts in thousandths, in the order of the resources, and places; infinite if it names no number."""

    amounts: tuple[int, ...]
    places: float


class OutsideUse:
    """The sums over all nodes, and each node's part in them."""

    def __init__(self) -> None:
        self._pods: PodIndex | None = None
        self._inside: frozenset[str] = frozenset()
        self._offers: Mapping[str, NodeOffer] = {}
        self.changed_nodes: set[str] = set()
        self._parts: dict[str, list[float]] = {}
        self._total: list[float] = []

    def read(self, pods: PodIndex, inside: frozenset[str], offers: Mapping[str, NodeOffer]) -> tuple[FloatArray, float]:
        """Return the (K,) bound requests of unmanaged pods and of spaces not in `inside`, in resource units, and the number of these pods.

        On each node they are at most its offer, because a pod that names its node itself may request any amount: the kubelet refuses it, a
        moment later. `offers` by node name, another mapping after each change; pods on other nodes are left out.
        """
        if pods is not self._pods:
            pods.watch_nodes(self)
        if pods is not self._pods or offers is not self._offers or (inside is not self._inside and inside != self._inside):
            self._parts, self._total = {}, [0] * (len(pods.resources) + 1)
            self.changed_nodes |= offers.keys()
        self._pods, self._inside, self._offers = pods, inside, offers
        for node in self.changed_nodes & offers.keys():
            self._add_up(pods, node, offers[node])
        self.changed_nodes.clear()
        total = np.array(self._total[:-1], dtype=np.float64)  # sums beyond 64 bits would make an array of objects
        return np.minimum(total / 1000, MOST_AMOUNT), self._total[-1]

    def _add_up(self, pods: PodIndex, node: str, offer: NodeOffer) -> None:
        claimed, count = pods.claims_outside(node, self._inside)
        part = [*map(min, claimed, offer.amounts), min(count, offer.places)]
        former = self._parts.get(node, [0] * len(part))
        self._total = [total + new - old for total, new, old in zip(self._total, part, former, strict=True)]
        self._parts[node] = part
