"""Host ports: which ones a pod asks for, and which pods have them on which nodes. Decides nothing.

A node runs one pod at most for each port, protocol and address (the scheduler's NodePorts). Ports of init containers are not read.
"""

from __future__ import annotations

import functools
import weakref
from collections import Counter
from typing import NamedTuple, Protocol

from fairburst.kube.api.objects import PodSpec

MOST_PORTS = 16  # read of a pod: a tenant may write thousands
NAMED_PORTS = 5  # in a message
ANY_ADDRESS = frozenset({"", "0.0.0.0"})  # noqa: S104  what a pod asks for, not an address that we listen on


class HostPort(NamedTuple):
    """A port of a node. An empty address is every one of the node's."""

    number: int
    protocol: str
    address: str

    @property
    def text(self) -> str:
        """Return the port as messages name it."""
        return f"{self.number}/{self.protocol}" + (f" of {self.address}" if self.address else "")


HostPorts = tuple[HostPort, ...]


def ports_text(ports: HostPorts) -> str:
    """Return a pod's host ports as messages name them, the first few of many."""
    named = ", ".join(port.text for port in ports[:NAMED_PORTS])
    return f"host port{'s' if len(ports) > 1 else ''} {named}{' and more' if len(ports) > NAMED_PORTS else ''}"


class PortWatcher(Protocol):
    """Reads and empties `changed_ports`: numbers of ports that pods have got or left on a node."""

    changed_ports: set[int]


def host_ports(spec: PodSpec) -> HostPorts:
    """Return the ports of its node that a pod asks for, in order, at most `MOST_PORTS`; nearly always none.

    The API server copies the container's port of a pod in its node's network, and leaves templates as they are.
    """
    if not any(container.ports for container in spec.containers):
        return ()
    found = set[HostPort]()
    for container in spec.containers:
        for port in (container.ports or ())[:MOST_PORTS]:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number and len(found) < MOST_PORTS:
                found.add(HostPort(number, port.protocol or "TCP", "" if port.host_ip in ANY_ADDRESS else port.host_ip))
    return _shared(tuple(sorted(found))) if found else ()


@functools.lru_cache(maxsize=4096)
def _shared(ports: HostPorts) -> HostPorts:
    """Return one tuple for all pods with these ports."""
    return ports


class PortUse:
    """The ports that bound pods have on their nodes. O(ports) for each change of a pod that asks for any, and nothing for others."""

    def __init__(self) -> None:
        # by number and protocol, and by node: how many pods of which space have it at which address; None stands for unmanaged pods
        self._held: dict[tuple[int, str], dict[str, Counter[tuple[str, str | None]]]] = {}
        self._watchers = weakref.WeakSet[PortWatcher]()

    @property
    def is_empty(self) -> bool:
        """Whether no bound pod has a port of its node."""
        return not self._held

    def watch(self, watcher: PortWatcher) -> None:
        """Add the ports whose use changes from now on to the watcher's, as long as there is another reference to it."""
        self._watchers.add(watcher)

    def account(self, ports: HostPorts, node: str, space: str | None, sign: int) -> None:
        """Add a pod on a node (+1), or remove it (-1)."""
        for port in ports:
            nodes = self._held.setdefault((port.number, port.protocol), {})
            holders = nodes.setdefault(node, Counter())
            holders[port.address, space] += sign
            if not holders[port.address, space]:
                del holders[port.address, space]
            if not holders:
                del nodes[node]
            if not nodes:
                del self._held[port.number, port.protocol]
        for watcher in self._watchers:
            watcher.changed_ports.update(port.number for port in ports)

    def taken(self, ports: HostPorts, space: str) -> set[str]:
        """Return the nodes where a pod of no such space, or an unmanaged one, has one of the ports."""
        return {
            node
            for port in ports
            for node, holders in self._held.get((port.number, port.protocol), {}).items()
            if any(holder != space and _collide(address, port.address) for address, holder in holders)
        }


def _collide(one: str, other: str) -> bool:
    return not one or not other or one == other
