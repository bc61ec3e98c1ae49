"""What the extender reads of queue objects: the class that their pods are stamped with, and the burst that room is held for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from fairburst.kube.api.objects import Object, ResourceList, Struct
from fairburst.kube.names import GROUP, VERSION
from fairburst.quantity import parse_quantity

PATHS = tuple(f"/apis/{GROUP}/{VERSION}/{plural}" for plural in ("latencyqueues", "throughputqueues"))


class Stamp(Struct):
    """Of a queue's status: what its pods are stamped with."""

    class_name: str = ""


class LeadTime(Struct):
    """Of a queue's status: what room is held for. `needed` at a time by the next burst, in pods of `pod_size`."""

    reason: str = ""
    needed: ResourceList | None = None
    pod_size: ResourceList | None = None


class QueueStatus(Struct):
    """As much of a queue's status as is read here; written by the operator."""

    stamp: Stamp | None = None
    lead_time: LeadTime | None = None


class QueueSpec(Struct):
    """As much of a queue's spec as is read here."""

    pool: str = "default"


class Queue(Object):
    """A LatencyQueue or a ThroughputQueue."""

    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)


@dataclass(frozen=True, slots=True)
class ExpectedBurst:
    """A burst that room is held for: `needed` at a time, in pods of `unit`, both in resource units by resource."""

    queue: str
    needed: dict[str, float]
    unit: dict[str, float]


def classes(queues: Iterable[Queue], pool: str) -> dict[str, str]:
    """The class that pods are stamped with, by namespace: of those that a queue of the pool governs and does not only observe."""
    governing = (queue for queue in queues if queue.spec.pool == pool and queue.status.stamp is not None)
    return {queue.metadata.namespace: queue.status.stamp.class_name for queue in governing if queue.status.stamp is not None}


def expected_bursts(queues: Iterable[Queue], pool: str) -> list[ExpectedBurst]:
    """The bursts that room is held for now, by name; without those of which no pod has been seen: nobody knows which nodes suit them."""
    found = []
    for queue in queues:
        held = queue.status.lead_time
        if queue.spec.pool == pool and held is not None and held.reason == "Holding" and held.needed and held.pod_size:
            name = f"{queue.metadata.namespace}/{queue.metadata.name}"
            found.append(ExpectedBurst(name, _units(held.needed), _units(held.pod_size)))
    return sorted(found, key=lambda burst: burst.queue)


def _units(amounts: ResourceList) -> dict[str, float]:
    return {resource: parse_quantity(str(text)) for resource, text in amounts.items()}
