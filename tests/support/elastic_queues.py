"""Elastic queues on a hand-built cluster: their Jobs, what a round's new sizes make of these, and how sizes settle."""

from __future__ import annotations

import copy
import functools
import json
from typing import Any

import msgspec

from fairburst.kube.api.objects import Job
from fairburst.kube.queues.job_annotations import CURVE, JOB_WEIGHT, MAXIMUM, MINIMUM, Declaration, mark_annotations, parallelism_of
from fairburst.kube.rounds.view import RoundPlan
from fairburst.policy.paf.curves import Curve, ErnestCurve, PointsCurve
from tests.support.objects import World, job, node, pod

TQ = "ThroughputQueue"
FLAT = PointsCurve((1.0, 2.0, 16.0), (0.5, 0.95, 1.0))
STEEP = PointsCurve((1.0, 16.0), (1 / 16, 1.0))
ELASTIC: dict[str, Any] = {"mode": "Parallelism"}


def cluster(capacity: int = 16, *, explore: bool = False) -> World:
    """One node of so many one-cpu slots."""
    world = World(f"elasticity: {{changeIntervalSeconds: 60, fairnessPercent: 90, explore: {str(explore).lower()}}}", nodes=0)
    world.nodes["", "node"] = node("node", cpu=str(capacity), memory=f"{capacity}Gi")
    return world


def queue(world: World, namespace: str = "batch", **elasticity: Any) -> None:
    world.queue(TQ, namespace, spec={"elasticity": {**ELASTIC, **elasticity}})


def curve_text(curve: Curve, alone_seconds: float | None) -> str:
    """The text of a curve; inverse of `read_curve`."""
    alone = {} if alone_seconds is None else {"aloneSeconds": alone_seconds}
    match curve:
        case PointsCurve(slots, progress):
            return json.dumps({"points": list(zip(slots, progress, strict=True)), **alone})
        case ErnestCurve(a0, a1, a2, a3, lowest, highest):
            bounds = {key: bound for key, bound in (("lowest", lowest), ("highest", highest)) if bound is not None}
            return json.dumps({"coefficients": [a0, a1, a2, a3], **bounds, **alone})


def declaration_annotations(declaration: Declaration) -> dict[str, str]:
    """The annotations for a declaration; inverse of `read_declaration`."""
    written = {}
    if declaration.curve is not None:
        written[CURVE] = curve_text(declaration.curve, declaration.alone_seconds)
    if declaration.minimum is not None:
        written[MINIMUM] = str(declaration.minimum)
    if declaration.maximum is not None:
        written[MAXIMUM] = str(declaration.maximum)
    if declaration.weight != 1:
        written[JOB_WEIGHT] = f"{declaration.weight:.15g}"
    return written


def elastic(world: World, name: str, curve: PointsCurve | None, namespace: str = "batch", parallelism: int = 16, **spec: Any) -> Job:
    """A Job whose pods all run."""
    made = job(namespace, name, parallelism, **({"completions": 1000} | spec))
    made.metadata.annotations = declaration_annotations(Declaration(curve, 100.0 if curve else None))
    made.metadata.resource_version = "1"
    world.controller("Job", None, made)
    return made


def run_pods(world: World, made: Job, count: int) -> None:
    for number in range(count):
        name = f"{made.metadata.name}-{number}"
        world.put(pod(made.metadata.namespace, name, owner=("Job", made.metadata.name), node="node", phase="Running"))


def present(world: World, made: Job) -> Job:
    for one in world.view.controllers.workloads(made.metadata.namespace).of("Job"):
        if one.metadata.name == made.metadata.name:
            return one
    raise AssertionError(f"no Job {made.metadata.name}")


def resize(world: World, made: Job, parallelism: int, annotations: dict[str, str | None] | None = None) -> None:
    """Change a Job as a patch would."""
    old = present(world, made)
    new = msgspec.convert(msgspec.to_builtins(old), Job)
    new.spec.parallelism = parallelism
    merged = {**(new.metadata.annotations or {}), **(annotations or {})}
    new.metadata.annotations = {name: text for name, text in merged.items() if text is not None}
    new.metadata.resource_version = str(int(new.metadata.resource_version or 0) + 1)
    world.controller("Job", old, new)


def take_sizes(world: World, plan: RoundPlan) -> None:
    for write in plan.elastic.writes:
        [old] = [one for one in world.view.controllers.workloads(write.namespace).of("Job") if one.metadata.name == write.name]
        assert old.metadata.resource_version == write.resource_version
        resize(world, old, write.parallelism, mark_annotations(write.mark))


def round_(world: World) -> RoundPlan:
    plan = world.round()
    take_sizes(world, plan)
    return plan


def sizes(world: World, namespace: str = "batch") -> dict[str, int]:
    return {one.metadata.name: parallelism_of(one) for one in world.view.controllers.workloads(namespace).of("Job")}


def settled() -> World:
    """Two Jobs that have had their sizes for minutes."""
    return copy.deepcopy(_settled_once())


@functools.cache
def _settled_once() -> World:
    world = cluster()
    queue(world)
    elastic(world, "flat", FLAT)
    elastic(world, "steep", STEEP)
    return run_for(world, 300.0)


def run_for(world: World, seconds: float) -> World:
    until = world.now + seconds
    while world.now < until:
        plan = round_(world)
        world.after_due(plan)
    return world
