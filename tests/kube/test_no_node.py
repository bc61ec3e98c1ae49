"""Pods that no node could hold, even if it were empty: they wait and claim nothing, until a node can hold them.

A node also holds no pod that asks for an extended resource which it does not offer, whether the pool counts the resource or not.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairburst.kube.api.class_objects import DeviceClass
from fairburst.kube.api.objects import SchedulingGate
from fairburst.kube.names import GATE, HELD_ANNOTATION
from tests.support.objects import World, job, node, pod, requesting

BIG = requesting("100", "1Gi")
GPU = "nvidia.com/gpu"
ON_GPU = requesting("10", "1Gi", **{GPU: "1"})


def level(world: World, namespace: str) -> float:
    plan = world.plan()
    row = next(row for row, spec in enumerate(plan.result.queues) if spec.name == f"{namespace}/queue")
    return float(plan.result.level[row][0])


def site(mode: str = "Quota", pool: str = "{}") -> World:
    """Two nodes of 64 cpu each; one queue under test, one that wants everything."""
    world = World(f"smallJobs: {{enabled: false}}\npool: {pool}")
    world.nodes = {("", f"node-{number}"): node(f"node-{number}", cpu="64", memory="256Gi", pods="110") for number in range(2)}
    world.view.nodes = world.nodes
    world.queue("ThroughputQueue", "odd", spec={"enforcement": mode})
    world.queue("ThroughputQueue", "batch")
    world.controller("Job", None, job("batch", "work", 200))
    return world


def arrives(world: World, mode: str, asks: dict[str, Any] = BIG) -> None:
    if mode == "Suspend":
        made = job("odd", "big", 1, asks, suspend=True)
        made.metadata.annotations = {HELD_ANNOTATION: "queue"}
        world.controller("Job", None, made)
        return
    world.controller("Job", None, job("odd", "big", 1, asks))
    made_pod = pod("odd", "big-0", asks, owner=("Job", "big"))
    if mode == "Gate":
        made_pod.spec.scheduling_gates = [SchedulingGate(GATE)]
    world.put(made_pod)


def claims_nothing(world: World, reason: str, message: str) -> None:
    """See that the queue's work is held back, and that the queue says why."""
    plans = world.settle(20.0)
    assert level(world, "batch") >= 126, "the rest of the pool is the others'"
    assert not any(plan.ungates or plan.starts for plan in plans)
    assert world.condition("ThroughputQueue", "odd", "JobsFit") == ("False", reason, message)
    assert world.condition("ThroughputQueue", "odd", "Ready")[0] == "False"


def claims_again(world: World, mode: str, least: float) -> None:
    """See that the queue has this level, that its work is released, and that nothing is wrong any more."""
    plans = world.settle(40.0)
    assert level(world, "odd") >= least
    assert any(plan.ungates or plan.starts for plan in plans) or mode == "Quota"
    conditions = {one["type"]: one["status"] for one in world.status("odd")["conditions"]}
    assert conditions.get("JobsFit", "True") == "True"
    assert conditions["Ready"] == "True"


@pytest.mark.parametrize("mode", ["Quota", "Gate", "Suspend"])
def test_it_claims_nothing_and_is_not_released_until_a_node_can_hold_it(mode: str) -> None:
    world = site(mode)
    arrives(world, mode)
    claims_nothing(
        world,
        "LargerThanNodes",
        "Job big: a pod asks for 100 cpu, 1Gi memory. No node of the pool could hold it, so it waits and gets no part of the pool: make it "
        "smaller, or add larger nodes.",
    )
    world.nodes["", "large"] = node("large", cpu="128", memory="256Gi", pods="110")
    claims_again(world, mode, 100)


def test_while_its_node_takes_no_pods_it_waits_and_then_claims_again() -> None:
    world = site()
    world.nodes["", "large"] = large = node("large", cpu="128", memory="256Gi", pods="110")
    arrives(world, "Quota")
    world.settle(20.0)
    assert level(world, "odd") >= 100
    cordoned = node("large", cpu="128", memory="256Gi", pods="110")
    cordoned.spec.unschedulable = True
    world.nodes["", "large"] = cordoned
    world.settle(20.0)
    assert level(world, "odd") < 100
    world.nodes["", "large"] = large
    world.settle(20.0)
    assert level(world, "odd") >= 100


def test_an_autoscaled_pool_may_get_a_node_for_it() -> None:
    world = site(pool="{autoscaled: true, declaredCapacity: {cpu: 200, memory: 400Gi}}")
    arrives(world, "Quota")
    world.settle(20.0)
    assert all(one["type"] != "JobsFit" for one in world.status("odd")["conditions"])


@pytest.mark.parametrize("mode", ["Quota", "Gate", "Suspend"])
@pytest.mark.parametrize("named", [False, True], ids=["that no queue names", "that its queue names"])
def test_a_pod_that_asks_for_a_resource_which_no_node_offers_claims_nothing_until_one_does(mode: str, named: bool) -> None:
    world = site(mode)
    if named:
        world.queue("ThroughputQueue", "odd", spec={"enforcement": mode, "limits": {GPU: "12"}})
    arrives(world, mode, ON_GPU)
    claims_nothing(
        world,
        "ResourceNotOffered",
        "Job big: a pod asks for nvidia.com/gpu. No node of the pool offers that, so it waits and gets no part of the pool: add nodes that "
        "do, or start their device plugin.",
    )
    world.nodes["", "gpus"] = node("gpus", cpu="64", memory="256Gi", pods="110", _gpu="4")
    claims_again(world, mode, 10)


def test_a_bare_pod_that_asks_for_it_claims_nothing_beside_one_that_does_not() -> None:
    world = site()
    world.put(pod("odd", "on-gpu", ON_GPU))
    world.settle(20.0)
    assert level(world, "odd") < 10
    assert world.condition("ThroughputQueue", "odd", "JobsFit")[1] == "ResourceNotOffered"
    world.put(pod("odd", "plain", requesting("10", "1Gi")))
    world.settle(20.0)
    assert 10 <= level(world, "odd") <= 30


def test_what_a_driver_of_devices_may_provide_keeps_its_claim() -> None:
    """No node lists it: with DRA a device class names the extended resource (KEP-5004)."""
    world = site()
    world.view.device_classes = {
        ("", "gpus"): msgspec.convert({"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": GPU}}, DeviceClass)
    }
    arrives(world, "Quota", ON_GPU)
    world.settle(20.0)
    assert level(world, "odd") >= 10
    assert all(one["type"] != "JobsFit" for one in world.status("odd")["conditions"])
    world.view.device_classes = {}
    world.settle(20.0)
    assert world.condition("ThroughputQueue", "odd", "JobsFit")[1] == "ResourceNotOffered"


@pytest.mark.parametrize(
    "resource", ["ephemeral-storage", "hugepages-2Mi", "deviceclass.resource.kubernetes.io/gpu"], ids=["storage", "pages", "a device class"]
)
def test_the_systems_own_resources_are_not_compared_with_the_nodes(resource: str) -> None:
    world = site()
    arrives(world, "Quota", requesting("10", "1Gi", **{resource: "1"}))
    world.settle(20.0)
    assert level(world, "odd") >= 10


def test_an_autoscaled_pool_may_get_a_node_that_offers_it() -> None:
    world = site(pool="{autoscaled: true, declaredCapacity: {cpu: 200, memory: 400Gi}}")
    arrives(world, "Quota", ON_GPU)
    world.settle(20.0)
    assert all(one["type"] != "JobsFit" for one in world.status("odd")["conditions"])
