"""Held Jobs of a queue in Suspend mode, on a hand-built cluster."""

from __future__ import annotations

from typing import Any

from fairburst.kube.api.objects import Job
from fairburst.kube.enforce.holds import HOLD_SETTLES_SECONDS
from fairburst.kube.names import HELD_ANNOTATION
from tests.support.objects import World, job, requesting

TQ, LQ = "ThroughputQueue", "LatencyQueue"
SUSPENDS: dict[str, Any] = {"enforcement": "Suspend"}


def held(world: World, name: str, pods: int, *, namespace: str = "batch", cpu: str = "1", created: int = 0, **spec: Any) -> None:
    """A Job as the admission policy leaves it at its creation."""
    made = job(namespace, name, pods, requesting(cpu, "1Gi"), suspend=True, **spec)
    made.metadata.annotations = {HELD_ANNOTATION: "true"}
    made.metadata.creation_timestamp = f"2026-01-01T00:{created:02}:00Z"
    made.metadata.resource_version = "1"
    world.controller("Job", None, made)


def jobs(world: World, namespace: str = "batch") -> dict[str, Job]:
    return {one.metadata.name: one for one in world.view.controllers.workloads(namespace).of("Job")}


def waiting(world: World, namespace: str = "batch") -> list[str]:
    return sorted(name for name, one in jobs(world, namespace).items() if one.spec.suspend)


def settle(world: World) -> None:
    for _ in range(4):
        world.round()
        world.after(HOLD_SETTLES_SECONDS)


def world_with_batch(**more: Any) -> World:
    world = World(**more)  # 64 cpu
    world.queue(TQ, "batch", spec=SUSPENDS)
    return world
