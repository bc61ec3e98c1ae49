"""Work of several queues in one namespace, on a hand-built cluster."""

from __future__ import annotations

from typing import Any

import msgspec

from fairburst.kube.api.objects import Job, Pod, SchedulingGate
from fairburst.kube.names import GATE, HELD_ANNOTATION
from fairburst.kube.rounds.view import RoundPlan
from tests.support.objects import job, pod, pod_spec

LQ, TQ = "LatencyQueue", "ThroughputQueue"


def of_class(name: str, class_name: str, **more: Any) -> Pod:
    """A running pod of the team with a priority class."""
    found = pod("team", name, node="node-0", **more)
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, priority_class_name=class_name))


def gated(one: Pod) -> Pod:
    """The pod before its node was chosen, behind our gate."""
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, scheduling_gates=[SchedulingGate(GATE)], node_name=""))


def held(one: Job) -> Job:
    """The Job as the policy suspends it at its creation."""
    metadata = msgspec.structs.replace(one.metadata, annotations={HELD_ANNOTATION: "true"})
    return msgspec.structs.replace(one, metadata=metadata, spec=msgspec.structs.replace(one.spec, suspend=True))


def asking(name: str, pods: int, queue: str) -> Job:
    """A Job whose pods ask for a queue."""
    template = {"metadata": {"labels": {"fairburst.dev/queue": queue}}, "spec": pod_spec()}
    return job("team", name, pods, template=template)


def column(plan: RoundPlan, what: str) -> dict[str, float]:
    """Cpu by queue of one of the round's inputs."""
    return dict(zip([spec.name for spec in plan.snapshot.queues], getattr(plan.snapshot, what)[:, 0].tolist(), strict=True))
