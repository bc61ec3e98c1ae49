"""The sums over pods that readers of the pod index get, in natural units. Values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from fairburst.kube.usage.host_ports import HostPorts

RequestVector = tuple[int, ...]
Amounts = dict[str, float]


@dataclass(frozen=True, slots=True)
class ClassUsage:
    """Sums over a namespace's counted pods of one priority class: their requests, the largest of them per resource, and their number."""

    stored: Amounts
    largest: Amounts
    pods: int


@dataclass(frozen=True, slots=True)
class NamespaceUsage:
    """Sums over the pods of one namespace, without unmanaged ones. Amounts are effective requests.

    bound: of pods from bound to ended. stored: of all pods that quota counts. gated: of pods that our gate holds, empty without one.
    largest: the largest of any counted pod, per resource. pods_without_requests: names of counted pods without a cpu or memory request that
    quota demands. unannounced: names of live pods whose successors no known object announces: bare ones, and those of other controllers.
    pods: the number of counted pods. unmanaged_stored: of the namespace's unmanaged pods. by_class: sums by the priority classes of small
    and large jobs, if there are any. vectors, bound_vectors: how many pods of `stored` and `bound` have each request vector. uncounted: how
    many pods of `stored` that are not bound have each request vector together with extended resources that are not counted. ported: how
    many of the unannounced pods have each request vector together with host ports, and how many of those are bound.
    """

    bound: Amounts
    stored: Amounts
    largest: Amounts
    pods_without_requests: frozenset[str]
    unannounced: frozenset[str]
    pods: int
    unmanaged_stored: Amounts
    gated: Amounts = field(default_factory=dict)
    by_class: dict[str, ClassUsage] = field(default_factory=dict)
    vectors: dict[RequestVector, int] = field(default_factory=dict)
    bound_vectors: dict[RequestVector, int] = field(default_factory=dict)
    uncounted: dict[tuple[RequestVector, tuple[str, ...]], int] = field(default_factory=dict)
    ported: dict[tuple[RequestVector, HostPorts, bool], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OwnerUsage:
    """Sums over one owner's pods.

    active: pods that have not ended. bound: those of them that have a node. terminating: those of them being deleted.
    ended: pods that ended while the Job controller tracked them, since the index began. lately: those of them that ended in the last
    `COUNTED_SECONDS`. newest_requests: of the newest pod seen, also after its end. newest_uncounted: the extended resources of the same
    pod that are not counted. newest_ports: its host ports.
    """

    active: int
    bound: int
    terminating: int
    ended: int
    lately: int
    newest_requests: Amounts
    newest_uncounted: tuple[str, ...] = ()
    newest_ports: HostPorts = ()


NO_PODS = OwnerUsage(0, 0, 0, 0, 0, {})


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """Requests of the pods bound to one node: unmanaged ones, and the others by namespace."""

    unmanaged: Amounts
    by_namespace: dict[str, Amounts]


class NodeWatcher(Protocol):
    """Reads and empties `changed_nodes`."""

    changed_nodes: set[str]
