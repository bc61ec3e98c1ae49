"""The mutable sums inside the pod index, by space and by owner, and the contribution of one pod to them."""

from __future__ import annotations

from dataclasses import dataclass

from fairburst.kube.usage.pod_usage import NamespaceUsage, RequestVector
from fairburst.kube.usage.vector_sums import VectorBag, VectorSum


class NamespaceSums:
    """The sums over one space's pods."""

    __slots__ = ("bound", "by_class", "gated", "stored", "total", "unannounced", "unmanaged_stored", "usage", "without_requests")

    def __init__(self, width: int) -> None:
        self.total = 0
        self.usage: NamespaceUsage | None = None  # as last read; None once a pod has come, gone or changed
        self.bound, self.stored, self.unmanaged_stored = VectorBag(width), VectorBag(width), VectorSum(width)
        self.gated = VectorSum(width)
        self.by_class: dict[str, VectorBag] = {}
        self.without_requests: set[str] = set()
        self.unannounced: set[str] = set()


@dataclass(slots=True)
class OwnerSums:
    """The counts of one owner's pods."""

    pods: int = 0
    active: int = 0
    bound: int = 0
    terminating: int = 0
    ended: int = 0
    settled: int = 0  # those of `ended` that ended long enough ago for the Job's status to count them
    newest: tuple[str, str] = ("", "")
    newest_requests: RequestVector = ()


@dataclass(slots=True)
class PodFacts:
    """One pod's contribution and the sums that contain it, as last read, so that exactly this can be subtracted again.

    lane_class: its priority class if that is one of a lane's, empty otherwise.
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
