"""The pod priority that the admission policy sets: that of the queue's granted class, never of its window."""

from __future__ import annotations

from typing import Any

from fairburst.config import Config
from fairburst.kube.names import LANE_CLASSES, LARGE_CLASS, LOWEST_CLASS, class_name
from fairburst.policy.model import GuaranteeClass


def class_values(config: Config) -> dict[str, int]:
    """Return the value of each PriorityClass by name. Further queues are elastic: their pods get the value of large jobs' pods."""
    values = {class_name(rung): value for rung, value in config.priority_classes.model_dump(by_alias=False).items()}
    return values | dict.fromkeys(LANE_CLASSES.values(), values[LARGE_CLASS])


def pod_priority_of(guarantee_class: GuaranteeClass | None, config: Config, lane: int | None = None) -> dict[str, Any]:
    """Return status.podPriority for a class; rejected queues run in the lowest. None of the classes preempts.

    `lane`: of a further queue.
    """
    return _priority(pod_class(guarantee_class, lane), config)


def pod_class(guarantee_class: GuaranteeClass | None, lane: int | None = None) -> str:
    """Return the name of the class that `pod_priority_of` describes."""
    if lane is not None:
        return LANE_CLASSES[lane]
    match guarantee_class:
        case GuaranteeClass.HARD:
            return class_name("hard")
        case GuaranteeClass.SOFT:
            return class_name("soft")
        case GuaranteeClass.ELASTIC | None:
            return LARGE_CLASS


def small_pod_priority(config: Config) -> dict[str, Any]:
    """Return status.smallPodPriority, for the pods of a throughput queue's small Jobs (kube/jobs/job_size.py)."""
    return _priority(class_name("small"), config)


def lowest_pod_priority(config: Config) -> dict[str, Any]:
    """Return the priority of pods in a namespace without a queue in force."""
    return _priority(LOWEST_CLASS, config)


def _priority(name: str, config: Config) -> dict[str, Any]:
    return {"className": name, "value": class_values(config)[name], "preemptionPolicy": "Never"}
