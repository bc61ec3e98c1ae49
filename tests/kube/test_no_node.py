"""Pods that no node could hold, even if it were empty: they wait and claim nothing, until a node can hold them."""

from __future__ import annotations

import pytest

from fairburst.kube.api.objects import SchedulingGate
from fairburst.kube.names import GATE, HELD_ANNOTATION
from tests.support.objects import World, job, node, pod, requesting

BIG = requesting("100", "1Gi")


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


def arrives(world: World, mode: str) -> None:
    if mode == "Suspend":
        made = job("odd", "big", 1, BIG, suspend=True)
        made.metadata.annotations = {HELD_ANNOTATION: "queue"}
        world.controller("Job", None, made)
        return
    world.controller("Job", None, job("odd", "big", 1, BIG))
    made_pod = pod("odd", "big-0", BIG, owner=("Job", "big"))
    if mode == "Gate":
        made_pod.spec.scheduling_gates = [SchedulingGate(GATE)]
    world.put(made_pod)


@pytest.mark.parametrize("mode", ["Quota", "Gate", "Suspend"])
def test_it_claims_nothing_and_is_not_released_until_a_node_can_hold_it(mode: str) -> None:
    world = site(mode)
    arrives(world, mode)
    plans = world.settle(20.0)
    assert level(world, "batch") >= 126, "the rest of the pool is the others'"
    assert not any(plan.ungates or plan.starts for plan in plans)
    assert world.condition("ThroughputQueue", "odd", "JobsFit") == (
        "False",
        "LargerThanNodes",
        "Job big: a pod asks for 100 cpu, 1Gi memory. No node of the pool could hold it, so it waits and gets no part of the pool: make it "
        "smaller, or add larger nodes.",
    )
    assert world.condition("ThroughputQueue", "odd", "Ready")[0] == "False"
    world.nodes["", "large"] = node("large", cpu="128", memory="256Gi", pods="110")
    plans = world.settle(40.0)
    assert level(world, "odd") >= 100
    assert any(plan.ungates or plan.starts for plan in plans) or mode == "Quota"
    conditions = {one["type"]: one["status"] for one in world.status("odd")["conditions"]}
    assert conditions.get("JobsFit", "True") == "True"
    assert conditions["Ready"] == "True"


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
