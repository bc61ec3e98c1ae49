"""Requests that a LimitRange supplies: the API server adds them to pods and not to templates, and a held Job is as large as its pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairburst.kube.api.objects import Job, PodSpec
from fairburst.kube.api.quota_objects import LimitRange
from fairburst.kube.names import HELD_ANNOTATION
from fairburst.kube.usage.pod_defaults import PodDefaults, container_defaults
from tests.support import elastic_queues
from tests.support.objects import World, job, limit_range, node, requesting

DEFAULTS = {"type": "Container", "defaultRequest": {"cpu": "3", "memory": "1Gi"}}


def site(mode: str, *ranges: LimitRange) -> World:
    """A node of 16 cpu, and a queue with one Job of two pods that name no requests."""
    world = World("smallJobs: {enabled: false}")
    world.nodes.clear()
    world.nodes["", "node-0"] = node("node-0", cpu="16", memory="64Gi", pods="110")
    for one in ranges:
        world.limit_ranges[one.metadata.namespace, one.metadata.name] = one
    world.queue("ThroughputQueue", "batch", spec={"enforcement": mode})
    world.controller("Job", None, plain("work", held=mode == "Suspend"))
    return world


def plain(name: str, pods: int = 2, *, held: bool = False, resources: dict[str, Any] | None = None) -> Job:
    made = job("batch", name, pods, resources or {}, suspend=held)
    made.metadata.annotations = {HELD_ANNOTATION: "queue"} if held else None
    return made


def wanted(world: World) -> float:
    world.settle(5.0)
    return world.engine.demands["batch"].demand.get("cpu", 0.0)


@pytest.mark.parametrize("mode", ["Quota", "Suspend"])
def test_a_job_without_requests_wants_what_the_limit_range_gives_its_pods(mode: str) -> None:
    world = site(mode, limit_range("batch", "defaults", **DEFAULTS))
    assert wanted(world) == 6
    assert world.engine.demands["batch"].unit["cpu"] == 3


def test_a_held_job_without_requests_has_room_for_its_pods_once_it_starts() -> None:
    world = site("Suspend", limit_range("batch", "defaults", **DEFAULTS))
    plan = world.plan()
    assert [start.name for start in plan.starts] == ["work"]
    row = next(row for row, spec in enumerate(plan.result.queues) if spec.name == "batch/queue")
    assert plan.result.level[row][0] >= 6


def test_a_held_job_that_its_limit_range_makes_larger_than_the_pool_does_not_start() -> None:
    world = site("Suspend", limit_range("batch", "defaults", **DEFAULTS))
    world.controller("Job", plain("work", held=True), plain("work", 6, held=True))
    assert not world.plan().starts


def test_the_demand_follows_a_limit_range_that_comes_changes_and_goes() -> None:
    world = site("Quota")
    assert wanted(world) == 0
    world.limit_ranges["batch", "defaults"] = limit_range("batch", "defaults", **DEFAULTS)
    assert wanted(world) == 6
    larger = DEFAULTS | {"defaultRequest": {"cpu": "4", "memory": "1Gi"}}
    world.limit_ranges["batch", "defaults"] = limit_range("batch", "defaults", **larger)
    assert wanted(world) == 8
    del world.limit_ranges["batch", "defaults"]
    assert wanted(world) == 0


def test_the_limit_range_of_another_namespace_means_nothing() -> None:
    assert wanted(site("Quota", limit_range("other", "defaults", **DEFAULTS))) == 0


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [{"name": "a"}]}, {"cpu": 3.0, "memory": 2.0**30}, id="nothing named"),
        pytest.param({"containers": [{"name": "a", **requesting("1", "2Gi")}]}, {"cpu": 1.0, "memory": 2.0**31}, id="own requests"),
        pytest.param(
            {"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}]}, {"cpu": 1.0, "memory": 2.0**30}, id="own limit first"
        ),
        pytest.param({"containers": [{"name": "a"}, {"name": "b"}]}, {"cpu": 6.0, "memory": 2.0**31}, id="every container"),
        pytest.param(
            {"containers": [{"name": "a"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]},
            {"cpu": 6.0, "memory": 2.0**31},
            id="a sidecar",
        ),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "b"}], "resources": {"requests": {"cpu": "1"}}},
            {"cpu": 1.0, "memory": 2.0**31},
            id="the pod's own requests decide",
        ),
    ],
)
def test_what_a_limit_range_adds(spec: dict[str, Any], want: dict[str, float]) -> None:
    defaults = PodDefaults(containers=container_defaults([limit_range("a", "defaults", **DEFAULTS)]))
    assert dict(defaults.requests_of(msgspec.convert(spec, PodSpec))) == want


def test_of_several_limit_ranges_the_largest_default_counts() -> None:
    small = limit_range("a", "small", type="Container", defaultRequest={"cpu": "1"})
    large = limit_range("a", "large", type="Container", default={"cpu": "2", "memory": "1Gi"})
    pods = limit_range("a", "pods", type="Pod", max={"cpu": "9"})
    assert dict(container_defaults([small, large, pods])) == {"cpu": "2", "memory": "1Gi"}
    assert container_defaults([pods]) == ()


def test_an_elastic_job_without_requests_is_given_slots_for_what_the_limit_range_gives_its_pods() -> None:
    world = elastic_queues.cluster(16)
    elastic_queues.queue(world)
    world.limit_ranges["batch", "defaults"] = limit_range("batch", "defaults", **DEFAULTS)
    made = elastic_queues.elastic(world, "work", elastic_queues.STEEP)
    made.spec.template.spec.containers[0].resources = None
    [decision] = world.round().result.slots
    assert decision.given == 5
