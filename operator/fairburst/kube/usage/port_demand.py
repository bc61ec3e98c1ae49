"""Pods of one space that ask for host ports: how many of them can run at a time, and which wait for a port that others have. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fairburst.kube.usage.host_ports import HostPorts, ports_text
from fairburst.kube.usage.pod_usage import NamespaceUsage
from fairburst.policy.attainability import PortLimit


class PortNodes(NamedTuple):
    """The number of nodes that could hold a pod if they were empty, and of those where no pod outside its space has one of its ports."""

    room: float
    free: float


NO_NODES = PortNodes(0, 0)
ANYWHERE = PortNodes(math.inf, math.inf)
NodesFor = Callable[[Mapping[str, float], HostPorts], PortNodes]
MOST_LOOKS = 32  # at the nodes for one space: each takes a few ms with thousands of nodes


def first_looks(nodes_for: NodesFor) -> NodesFor:
    """Return the same function, which after `MOST_LOOKS` answers that a pod may run anywhere: a tenant may ask for any number of ports."""
    left = MOST_LOOKS

    def limited(requests: Mapping[str, float], ports: HostPorts) -> PortNodes:
        nonlocal left
        left -= 1
        return nodes_for(requests, ports) if left >= 0 else ANYWHERE

    return limited


@dataclass(slots=True)
class PortDemand:
    """See the module. `taken`: by uid of a controller with waiting pods, its name and the ports if pods outside the space have one of them
    on each node; under "" pods without a known controller."""

    taken: dict[str, tuple[str, HostPorts]] = field(default_factory=dict)
    bare: int = 0  # pods without a known controller, if some of them ask for ports
    _numbers: set[int] = field(default_factory=set)
    _groups: dict[HostPorts, tuple[float, PortNodes]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, uid: str, name: str, ports: HostPorts, pods: float, bound: float, nodes: PortNodes) -> None:
        """Add the pods of a controller; `bound` of them have a node."""
        known, most = self._groups.get(ports, (0.0, nodes))
        self._groups[ports] = known + pods, max(most, nodes)
        self._numbers.update(port.number for port in ports)
        if pods > bound and nodes.room >= 1 > nodes.free:
            self.taken[uid] = name, ports

    def add_unannounced(self, usage: NamespaceUsage, resources: tuple[str, ...], nodes_for: NodesFor) -> None:
        """Add the pods that no known controller announces."""
        for (vector, ports, bound), count in usage.ported.items():
            requests = {resource: amount / 1000 for resource, amount in zip(resources, vector, strict=True)}
            self.bare = len(usage.unannounced)
            self.add("", "pods without a known controller", ports, count, count if bound else 0, nodes_for(requests, ports))

    def asks(self, numbers: set[int]) -> bool:
        """Return whether a pod asks for one of these ports."""
        return not self._numbers.isdisjoint(numbers)

    def limit(self, pods: float, *, alone: bool) -> PortLimit | None:
        """Return how few pods can run at a time; None if all can. `pods`: of the space's controllers, with ports or without. `alone`: if no
        pods outside the space had these ports."""
        groups = ((count, ports, nodes.room, nodes.room if alone else nodes.free) for ports, (count, nodes) in self._groups.items())
        over = [(count - free, ports, room, free) for count, ports, room, free in groups if count > free and room >= 1]
        if not over:
            return None
        _, ports, room, free = max(over)
        pods += self.bare
        return PortLimit(pods, pods - sum(count for count, *_ in over), ports_text(ports), room, free)
