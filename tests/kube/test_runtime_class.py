"""The overhead of a RuntimeClass: the API server adds it to pods and not to templates, and a held Job is as large as its pods will be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairburst.kube.api.class_objects import RuntimeClass
from fairburst.kube.api.objects import Job, PodSpec
from fairburst.kube.names import HELD_ANNOTATION
from fairburst.kube.usage.effective_requests import overheads_of, with_overhead
from tests.support.objects import World, job, node, requesting

SANDBOX = msgspec.convert({"metadata": {"name": "sandbox"}, "overhead": {"podFixed": {"cpu": "3", "memory": "1Gi"}}}, RuntimeClass)
PLAIN = msgspec.convert({"metadata": {"name": "plain"}, "handler": "runc"}, RuntimeClass)


def classes(*found: RuntimeClass) -> dict[tuple[str, str], RuntimeClass]:
    return {("", one.metadata.name): one for one in found}


def site(mode: str, *found: RuntimeClass) -> World:
    """A node of 16 cpu, and a queue with one Job of two pods of 1 cpu in a class with an overhead of 3."""
    world = World("smallJobs: {enabled: false}")
    world.nodes.clear()
    world.nodes["", "node-0"] = node("node-0", cpu="16", memory="64Gi", pods="110")
    world.view.runtime_classes = classes(*found)
    world.queue("ThroughputQueue", "batch", spec={"enforcement": mode})
    world.controller("Job", None, sandboxed("work", held=mode == "Suspend"))
    return world


def sandboxed(name: str, pods: int = 2, *, held: bool = False, **spec: Any) -> Job:
    made = job("batch", name, pods, requesting("1", "1Gi"), suspend=held)
    made.metadata.annotations = {HELD_ANNOTATION: "queue"} if held else None
    made.spec.template.spec.runtime_class_name = "sandbox"
    for field, value in spec.items():
        setattr(made.spec.template.spec, field, value)
    return made


def wanted(world: World) -> float:
    world.settle(5.0)
    return world.engine.demands["batch"].demand["cpu"]


@pytest.mark.parametrize("mode", ["Quota", "Suspend"])
def test_a_job_wants_what_its_pods_will_ask_for(mode: str) -> None:
    world = site(mode, SANDBOX, PLAIN)
    assert wanted(world) == 8
    assert world.engine.demands["batch"].unit["cpu"] == 4


def test_a_held_job_starts_only_where_its_pods_fit_with_their_overhead() -> None:
    world = site("Suspend", SANDBOX)
    world.queue("ThroughputQueue", "other")
    world.controller("Job", None, job("other", "theirs", 100))
    world.controller("Job", None, sandboxed("large", 4, held=True))
    plan = world.plan()
    row = next(row for row, spec in enumerate(plan.result.queues) if spec.name == "batch/queue")
    started = {start.name for start in plan.starts}
    assert sum({"work": 8, "large": 16}[name] for name in started) <= plan.result.level[row][0]


def test_the_demand_follows_a_class_that_comes_changes_and_goes() -> None:
    world = site("Quota")
    assert wanted(world) == 2
    world.view.runtime_classes = classes(SANDBOX)
    assert wanted(world) == 8
    larger = msgspec.convert({"metadata": {"name": "sandbox"}, "overhead": {"podFixed": {"cpu": "4"}}}, RuntimeClass)
    world.view.runtime_classes = classes(larger)
    assert wanted(world) == 10
    world.view.runtime_classes = classes(PLAIN)
    assert wanted(world) == 2


def test_an_overhead_that_the_template_has_counts_once() -> None:
    world = site("Quota", SANDBOX)
    world.controller("Job", sandboxed("work"), sandboxed("work", overhead={"cpu": "3", "memory": "1Gi"}))
    assert wanted(world) == 8


def test_a_pod_with_its_overhead_may_be_larger_than_each_node() -> None:
    world = site("Quota", SANDBOX)
    world.controller("Job", sandboxed("work"), None)
    made = sandboxed("large")
    made.spec.template.spec = msgspec.convert(
        {"containers": [{"name": "c", **requesting("14", "1Gi")}], "runtimeClassName": "sandbox"}, PodSpec
    )
    world.controller("Job", None, made)
    world.settle(5.0)
    assert world.condition("ThroughputQueue", "batch", "JobsFit")[1] == "LargerThanNodes"


def test_what_a_class_adds() -> None:
    overheads = overheads_of(classes(SANDBOX, PLAIN))
    assert dict(overheads) == {"sandbox": {"cpu": 3.0, "memory": 2.0**30}}
    asked = {"cpu": 1.0}
    spec = PodSpec(runtime_class_name="sandbox")
    assert with_overhead(asked, spec, overheads) == {"cpu": 4.0, "memory": 2.0**30}
    assert with_overhead(asked, spec, overheads) is not asked
    assert with_overhead(asked, PodSpec(), overheads) is asked
    assert with_overhead(asked, PodSpec(runtime_class_name="plain"), overheads) is asked
    assert with_overhead(asked, PodSpec(runtime_class_name="sandbox", overhead={"cpu": "3"}), overheads) is asked
