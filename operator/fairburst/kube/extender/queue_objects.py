"""The extender's view of queue objects: the priority class of their pods, and the burst for which room is held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from fairburst.kube.api.objects import Object, ResourceList, Struct
from fairburst.kube.names import GROUP, LANE_OF_CLASS, PLURALS, VERSION
from fairburst.kube.queues.spaces import UNDIVIDED, Spaces, namespace_of, queue_of, space_of
from fairburst.quantity import parse_quantity

PATHS = tuple(f"/apis/{GROUP}/{VERSION}/{plural}" for plural in PLURALS.values())


class PodPriority(Struct):
    """Status field: priority class of the queue's pods."""

    class_name: str = ""


class LeadTime(Struct):
    """Status field: room held for the next burst. needed: amounts at one time. pod_size: request of one pod."""

    reason: str = ""
    needed: ResourceList | None = None
    pod_size: ResourceList | None = None


class QueueStatus(Struct):
    """The status fields that the extender reads. The operator writes them."""

    pod_priority: PodPriority | None = None
    lead_time: LeadTime | None = None


class QueueSpec(Struct):
    """The spec fields that the extender reads."""

    pool: str = "default"


class Queue(Object):
    """A LatencyQueue or a ThroughputQueue."""

    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)


@dataclass(frozen=True, slots=True)
class ExpectedBurst:
    """A burst for which room is held. needed: resource units at one time. unit: resource units of one pod. Both by resource name."""

    queue: str
    needed: dict[str, float]
    unit: dict[str, float]


def classes(queues: Iterable[Queue], pool: str) -> dict[str, str]:
    """Return the pods' priority class by space, for each queue of this pool that is governing and not in Observe mode."""
    found = dict[str, str]()
    for queue in queues:
        metadata, priority = queue.metadata, queue.status.pod_priority
        if queue.spec.pool == pool and priority is not None:
            lane = priority.class_name in LANE_OF_CLASS
            found[space_of(metadata.namespace, metadata.name) if lane else metadata.namespace] = priority.class_name
    return found


def spaces_of(classes_by_space: Mapping[str, str]) -> Spaces:
    """Return the divided namespaces, by the result of `classes`."""
    lanes: dict[str, dict[str, int]] = {}
    for space, class_name in classes_by_space.items():
        if class_name in LANE_OF_CLASS:
            lanes.setdefault(namespace_of(space), {})[queue_of(space)] = LANE_OF_CLASS[class_name]
    return Spaces(lanes) if lanes else UNDIVIDED


def expected_bursts(queues: Iterable[Queue], pool: str) -> list[ExpectedBurst]:
    """Return the bursts for which room is held now, sorted by queue. Skip queues without a known pod size."""
    found = []
    for queue in queues:
        held = queue.status.lead_time
        if queue.spec.pool == pool and held is not None and held.reason == "Holding" and held.needed and held.pod_size:
            name = f"{queue.metadata.namespace}/{queue.metadata.name}"
            found.append(ExpectedBurst(name, _units(held.needed), _units(held.pod_size)))
    return sorted(found, key=lambda burst: burst.queue)


def _units(amounts: ResourceList) -> dict[str, float]:
    return {resource: parse_quantity(str(text)) for resource, text in amounts.items()}
