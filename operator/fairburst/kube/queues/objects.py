"""LatencyQueue and ThroughputQueue as objects, parsed from the API server's JSON or refused with a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ValidationError

from fairburst.kube.queues.fields import Timestamp
from fairburst.kube.queues.former_places import in_present_places
from fairburst.kube.queues.rules import KubeModel, violations
from fairburst.kube.queues.specs import LatencyQueueSpec, ThroughputQueueSpec
from fairburst.kube.queues.statuses import QueueStatus
from fairburst.validation import problems_of


class InvalidQueueError(Exception):
    """An object is not a usable queue. `problems`: one sentence each, with the path, the expected and the found value."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class ObjectMeta(KubeModel):
    """The metadata that the operator reads."""

    name: str
    namespace: str
    creation_timestamp: Timestamp
    generation: int = 0
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: Timestamp | None = None


class LatencyQueue(KubeModel):
    """A queue of bursty, latency-sensitive work: it declares its bursts, and is told what can be promised. At most one in a namespace."""

    kind: Literal["LatencyQueue"]
    metadata: ObjectMeta
    spec: LatencyQueueSpec


class ThroughputQueue(KubeModel):
    """A queue of long-running work that wants its fair share over time. It governs its namespace, or the pods there that ask for it."""

    kind: Literal["ThroughputQueue"]
    metadata: ObjectMeta
    spec: ThroughputQueueSpec


Queue = LatencyQueue | ThroughputQueue
_KINDS: dict[str, type[LatencyQueue] | type[ThroughputQueue]] = {"LatencyQueue": LatencyQueue, "ThroughputQueue": ThroughputQueue}


def parse_queue(obj: Mapping[str, Any]) -> Queue:
    """Return the queue in an object as the API server sends it; the status is ignored.

    Raises
    ------
    InvalidQueueError : with every problem, including those that the API server would refuse today.
    """
    kind = obj.get("kind")
    queue_type = _KINDS.get(kind) if isinstance(kind, str) else None
    if queue_type is None:
        raise InvalidQueueError([f"kind: expected LatencyQueue or ThroughputQueue, found {kind!r}"])
    try:
        queue = queue_type.model_validate(dict(obj), by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidQueueError(problems_of(error, _SPEC_KEYS[queue_type])) from error
    problems = list(violations(queue.spec, "spec"))
    if problems:
        raise InvalidQueueError(problems)
    return queue


def parse_status(obj: Mapping[str, Any]) -> QueueStatus:
    """Return the status of an object, an empty one if it has none. Raises InvalidQueueError if it is not one that the operator wrote.

    Values that earlier versions wrote in other places are in their present ones.
    """
    try:
        return QueueStatus.model_validate(in_present_places(obj.get("status") or {}), by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidQueueError(problems_of(error, (), prefix="status.")) from error


def _spec_keys(model: type[KubeModel], prefix: str) -> list[str]:
    found = []
    for name, field in model.model_fields.items():
        path = f"{prefix}.{field.alias or name}"
        found.append(path)
        for part in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(part, type) and issubclass(part, KubeModel):
                found.extend(_spec_keys(part, path))
    return found


_SPEC_KEYS = {LatencyQueue: _spec_keys(LatencyQueueSpec, "spec"), ThroughputQueue: _spec_keys(ThroughputQueueSpec, "spec")}
