"""The mutable sums inside the pod index, by space, and the contribution of one pod. Those by owner are in `owner_sums.py`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TypeVar

from fairburst.kube.usage.host_ports import HostPorts
from fairburst.kube.usage.pod_usage import NamespaceUsage, RequestVector
from fairburst.kube.usage.vector_sums import VectorBag, VectorSum


class NamespaceSums:
    """The sums over one space's pods."""

    __slots__ = (
        "bound", "by_class", "gated", "ported", "stored", "total", "unannounced", "uncounted", "unmanaged_stored", "usage",
        "without_requests",
    )  # fmt: skip

    def __init__(self, width: int) -> None:
        self.total = 0
        self.usage: NamespaceUsage | None = None  # as last read; None once a pod has come, gone or changed
        self.bound, self.stored, self.unmanaged_stored = VectorBag(width), VectorBag(width), VectorSum(width)
        self.gated = VectorSum(width)
        self.by_class: dict[str, VectorBag] = {}
        self.without_requests: set[str] = set()
        self.unannounced: set[str] = set()
        self.uncounted = Counter[tuple[RequestVector, tuple[str, ...]]]()
        self.ported = Counter[tuple[RequestVector, HostPorts, bool]]()


@dataclass(slots=True)
class PodFacts:
    """One pod's contribution and the sums that contain it, as last read, so that exactly this can be subtracted again.

    lane_class: its priority class if that is one of a lane's, empty otherwise. uncounted: extended resources that it asks for and the pool
    does not count.
    """

    namespace: str
    space: str
    name: str
    uid: str
    node: str
    owner: str
    owner_kind: str
    created: tuple[str, str]
    requests: RequestVector
    size_class: str
    lane_class: str
    ended: bool
    tracked: bool
    bound: bool
    counted: bool
    terminating: bool
    unmanaged: bool
    gated: bool
    lacks_requests: bool
    uncounted: tuple[str, ...] = ()
    ports: HostPorts = ()


K = TypeVar("K")


def count_key(counts: Counter[K], key: K, sign: int) -> None:
    """Count a pod with this key once more (+1) or once less (-1)."""
    counts[key] += sign
    if not counts[key]:
        del counts[key]


def mark_unannounced(sums: NamespaceSums, facts: PodFacts, sign: int) -> None:
    """Add a pod that no known object announces (+1) or remove it (-1)."""
    mark(sums.unannounced, facts.name, sign)
    if facts.ports:
        count_key(sums.ported, (facts.requests, facts.ports, facts.bound), sign)


def mark(names: set[str], name: str, sign: int) -> None:
    """Add a name (+1) or remove it (-1)."""
    if sign > 0:
        names.add(name)
    else:
        names.discard(name)
