"""What the admission policy writes into a queue's pods: the PriorityClass of the queue's granted class, never of its window."""

from __future__ import annotations

from typing import Any

from fairburst.config import Config
from fairburst.kube.manifests import class_name, class_values
from fairburst.policy.model import GuaranteeClass


def stamp_of(guarantee_class: GuaranteeClass | None, config: Config) -> dict[str, Any]:
    """status.stamp for a class; rejected queues run in the lowest. None of the classes preempts."""
    match guarantee_class:
        case GuaranteeClass.HARD:
            name = class_name("hard")
        case GuaranteeClass.SOFT:
            name = class_name("soft")
        case GuaranteeClass.ELASTIC | None:
            name = class_name("large")
    return {"className": name, "value": class_values(config)[name], "preemptionPolicy": "Never"}
