"""The spaces that namespaces are divided into: one for each queue, with the work that counts for it. Pure values.

A namespace with one queue is one space, with the namespace's name. Where further queues have lanes, each has a space with its own name,
"namespace/queue", and the rest of the namespace is the space of its default queue. A pod belongs to a space by its priority class, which
no one can change after its creation; its label only asks for one (docs/decisions/0250-several-queues-in-a-namespace.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fairburst.kube.names import LANE_OF_CLASS


@dataclass(frozen=True, slots=True)
class Spaces:
    """The divided namespaces. `lanes`: lane by the name of each further queue, by namespace."""

    lanes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def of_class(self, namespace: str, class_name: str) -> str:
        """Return the space of a pod of this priority class."""
        wanted = LANE_OF_CLASS.get(class_name)
        for queue, lane in self.lanes.get(namespace, {}).items():
            if lane == wanted:
                return space_of(namespace, queue)
        return namespace

    def of_queue(self, namespace: str, queue: str) -> str:
        """Return the space of new pods that ask for a queue by its name, empty or not."""
        return space_of(namespace, queue) if queue in self.lanes.get(namespace, {}) else namespace

    def within(self, namespace: str) -> list[str]:
        """Return the spaces of a namespace, that of its default queue first."""
        return [namespace, *(space_of(namespace, queue) for queue in self.lanes.get(namespace, {}))]

    def differing(self, other: Spaces) -> set[str]:
        """Return the namespaces that are not divided in the same way."""
        return changed_keys(self.lanes, other.lanes)

    def whole(self, spaces: Collection[str]) -> set[str]:
        """Return these spaces and all others of their namespaces."""
        found = set(spaces)
        if self.lanes:
            for namespace in {namespace_of(space) for space in spaces} & self.lanes.keys():
                found.update(self.within(namespace))
        return found


UNDIVIDED = Spaces()


def space_of(namespace: str, queue: str) -> str:
    """Return the space of a further queue. `namespace_of` and `queue_of` are the inverse."""
    return f"{namespace}/{queue}"


def queue_of(space: str) -> str:
    """Return the further queue of a space, empty for that of a default queue."""
    return space.partition("/")[2]


def namespace_of(space: str) -> str:
    """Return the namespace that a space is part of. No name of a namespace contains a slash."""
    return space.partition("/")[0]


def changed_keys(former: Mapping[str, object], present: Mapping[str, object]) -> set[str]:
    """Return the namespaces or spaces with another value."""
    return {key for key in former.keys() | present.keys() if former.get(key) != present.get(key)}
