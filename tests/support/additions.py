"""A toy mode and a toy kind of work, added through the registries alone; `python -m tests.support.additions` prints what follows from them.

A process of its own: the CRDs and the watched kinds are made from the registries at import.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from fairburst.kube.api.answers import Answers
from fairburst.kube.modes.mode import Mode
from fairburst.kube.modes.registry import MODES
from fairburst.kube.workloads import registry
from fairburst.kube.workloads.kind import WorkloadKind, all_of_kind
from fairburst.kube.workloads.replicas import StatefulSet, replicas

TOY_MODE = Mode("Toy", "as a toy.", "it is held as a toy is.", holds="Pods")
TOY_KIND = WorkloadKind(
    "Toy", "toys.example.com", "v1", "toys", StatefulSet, optional=True, creates_pods=True, wanting=all_of_kind("Toy"),
    wanted=lambda toy, _pods: replicas(toy),
)  # fmt: skip


def add() -> None:
    """Register both, before any module is imported that reads the registries at import."""
    MODES[TOY_MODE.name] = TOY_MODE
    registry.KINDS[TOY_KIND.name] = TOY_KIND
    registry.ANNOUNCED_KINDS |= {TOY_KIND.name}


def outcome() -> dict[str, Any]:
    """Return the operator's outputs for both: CRD, rights, condition, status, demand, releases and quota."""
    from fairburst.config import parse_config
    from fairburst.kube.api.objects import SchedulingGate
    from fairburst.kube.install.crd import crd_for
    from fairburst.kube.install.manifests import cluster_rules
    from fairburst.kube.names import GATE
    from fairburst.kube.process import Operator
    from fairburst.kube.queues.objects import ThroughputQueue
    from tests.support.objects import World, pod, replicated, requesting

    world = World("pool: {countedResources: [cpu, memory]}")  # 64 cores
    world.queue("ThroughputQueue", "play", spec={"enforcement": "Toy"})
    toy = replicated(StatefulSet, "play", "toy", 120, requesting("1", "1Gi"))
    world.controller("Toy", None, toy)
    for number in range(100):
        one = pod("play", f"p{number:03}", requesting("1", "1Gi"), owner=("Toy", "toy"), creationTimestamp="2026-01-01T00:00:00Z")
        one.spec.scheduling_gates = [SchedulingGate(GATE)]
        world.put(one)
    for _ in range(5):
        world.round()
        world.after(3.0)  # not so long that the toy counts as a controller that creates no pods
    spec = crd_for(ThroughputQueue)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    client: Any = type("NoClient", (), {"answers": Answers()})()
    watched = Operator(parse_config(""), client).caches.controllers["Toy"]
    return {
        "enum": spec["enforcement"]["enum"],
        "description": spec["enforcement"]["description"],
        "rules": [rule for rule in cluster_rules() if rule["apiGroups"] == [TOY_KIND.group]],
        "watched": watched.path,
        "condition": world.condition("ThroughputQueue", "play", "Enforced"),
        "holds": world.status("play")["holds"],
        "demand": world.status("play")["demand"]["cpu"],
        "gated": sum(one.gated for one in world.pods.values()),
        "quota": world.hard("play"),
    }


if __name__ == "__main__":
    add()
    print(json.dumps(outcome(), default=msgspec.to_builtins))
