"""Sums over the controllers of a namespace whose pods request the same. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from fairburst.kube.api.objects import PodTemplate
from fairburst.kube.usage.effective_requests import uncounted_resources
from fairburst.kube.usage.host_ports import HostPorts
from fairburst.kube.usage.pod_defaults import PodDefaults
from fairburst.kube.usage.port_demand import NodesFor, PortNodes


class PodSums(Protocol):
    """The sums of a NamespaceDemand, of the same meaning."""

    demand: dict[str, float]
    placeable: dict[str, float]
    unit: dict[str, float]
    waiting: list[tuple[Mapping[str, float], float]]


@dataclass(slots=True)
class PodSum:
    """Sums over the controllers whose pods request the same. fits: how many such pods the empty nodes hold. The others as in Owner and
    NamespaceDemand."""

    requests: Mapping[str, float]
    fits: float
    pods: float = 0
    placeable: float = 0
    existing: float = 0
    waiting: float = 0
    sets_unit: bool = False
    nodes: PortNodes | None = None

    def add(self, pods: float, placeable: float, existing: float, *, sets_unit: bool) -> None:
        """Add one controller's pods, apart from those that wait. `sets_unit`: whether they count for the queue's largest pod."""
        self.pods += pods
        self.placeable += placeable
        self.existing += existing
        self.sets_unit |= sets_unit

    def placeable_of(self, pods: float, existing: float, bound: float, *, whole: bool) -> float:
        """Return how many of a controller's pods, `existing` and `bound` ones among them, the empty nodes hold. whole: they may
        start only if their queue's level has room for all of them, also for those that then wait for a host port."""
        if self.fits < 1:
            return bound
        if self.nodes is None or whole:
            return max(existing, min(pods, self.fits))
        return max(bound, min(pods, self.fits, self.nodes.room))


class EqualPods:
    """Sums over a namespace's controllers by the requests of their pods. Thousands of its Jobs have few different ones."""

    def __init__(
        self, resources: tuple[str, ...], fitting: Callable[[Mapping[str, float]], float], nodes_for: NodesFor, defaults: PodDefaults
    ) -> None:  # fmt: skip
        self.resources, self._defaults = resources, defaults
        self._fitting, self._nodes_for = fitting, nodes_for
        self._sums: dict[tuple[object, ...], PodSum] = {}
        self._by_identity: dict[int, PodSum] = {}
        self._counted: dict[int, tuple[Mapping[str, float], tuple[Mapping[str, float], tuple[str, ...]]]] = {}

    def requests_of(self, template: PodTemplate) -> tuple[Mapping[str, float], tuple[str, ...]]:
        """Return the counted requests of a template's pods, and the extended resources that they ask for and that are not counted."""
        requests = self._defaults.requests_of(template.spec)
        known = self._counted.get(id(requests))
        if known is None:  # it holds the mapping whose identity is the key
            split = counted(requests, self.resources), uncounted_resources(requests, self.resources)
            known = self._counted[id(requests)] = requests, split
        return known[1]

    def to(self, requests: Mapping[str, float], missing: str = "", ports: HostPorts = ()) -> PodSum:
        """Return the sums to which a controller with these requests is added. `missing`: a resource that no node offers to its pods;
        `ports`: their host ports."""
        if missing:
            return self._sums.setdefault((missing, *self._key(requests)), PodSum(requests, 0.0))
        if ports:
            return self._with_ports(requests, ports)
        same = self._by_identity.get(id(requests))
        if same is None or same.requests is not requests:
            key = self._key(requests)
            same = self._sums.get(key)
            if same is None:
                same = self._sums[key] = self._by_identity[id(requests)] = PodSum(requests, self._fitting(requests))
        return same

    def _with_ports(self, requests: Mapping[str, float], ports: HostPorts) -> PodSum:
        key = (ports, *self._key(requests))
        if key not in self._sums:
            nodes = self._nodes_for(requests, ports)
            self._sums[key] = PodSum(requests, self._fitting(requests), nodes=nodes)
        return self._sums[key]

    def _key(self, requests: Mapping[str, float]) -> tuple[float, ...]:
        return tuple([requests.get(resource, 0.0) for resource in self.resources])

    def add_to(self, result: PodSums) -> dict[str, float]:
        """Add the sums to the demand; return the requests of the existing pods."""
        announced = dict[str, float]()
        for same in self._sums.values():
            for resource, amount in same.requests.items():
                result.demand[resource] = result.demand.get(resource, 0.0) + same.pods * amount
                result.placeable[resource] = result.placeable.get(resource, 0.0) + same.placeable * amount
                announced[resource] = announced.get(resource, 0.0) + same.existing * amount
                if same.sets_unit:
                    result.unit[resource] = max(result.unit.get(resource, 0.0), amount)
            result.waiting.append((same.requests, same.waiting))
        return announced


def counted(requests: Mapping[str, float], resources: tuple[str, ...]) -> dict[str, float]:
    """Return the counted ones of some requests."""
    return {resource: amount for resource, amount in requests.items() if resource in resources}
