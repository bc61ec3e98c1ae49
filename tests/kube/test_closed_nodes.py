"""Nodes that close under their pods: what runs on them takes nothing from the nodes that are left, and is no reason to leave these idle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairburst.kube.api.objects import Node, SchedulingGate, Taint
from fairburst.kube.names import GATE, HELD_ANNOTATION
from fairburst.kube.usage.closed_nodes import ClosedNodes
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.quantity import parse_quantity
from tests.support.objects import World, job, latency_spec, node, pod, requesting

TQ, LQ = "ThroughputQueue", "LatencyQueue"
NODE_CPU, PODS = 16, 40
ONE = requesting("1", "1Gi")
LATER = "2027-01-01T00:00:00Z"


def cluster(*batches: str, mode: str = "Quota", spec: dict[str, Any] | None = None, pods: int = PODS) -> World:
    """Two nodes. Each batch queue has a Job of forty pods, or so many, that fills a node; the others wait for a place."""
    world = World("{smallJobs: {enabled: false}, allocation: {batchMemorySeconds: 0}}", nodes=0)
    for number in range(2):
        world.nodes["", f"node-{number}"] = node(f"node-{number}", cpu=str(NODE_CPU), memory="64Gi", pods="110")
    for row, where in enumerate(batches):
        world.queue(TQ, where, spec={"enforcement": mode, **(spec or {})})
        world.controller("Job", None, job(where, f"work-{where}", pods, ONE))
        for number in range(pods if mode == "Quota" else NODE_CPU):
            world.put(of_job(where, number, **(placed(row) if number < NODE_CPU else {})))
    world.settle()
    return world


def placed(row: int) -> dict[str, str]:
    return {"node": f"node-{row}", "phase": "Running"}


def of_job(where: str, number: int, **more: Any) -> Any:
    return pod(where, f"work-{number}", ONE, owner=("Job", f"work-{where}"), **more)


def cordon(found: Node) -> None:
    found.spec.unschedulable = True


def fill(found: Node) -> None:
    found.spec.taints = [Taint("node.kubernetes.io/disk-pressure", effect="NoSchedule")]


def fail(found: Node) -> None:
    for condition in found.status.conditions or ():
        condition.status = "Unknown"


def close(world: World, how: Callable[[Node], None] = cordon) -> None:
    made = node("node-0", cpu=str(NODE_CPU), memory="64Gi", pods="110")
    how(made)
    world.nodes["", "node-0"] = made
    world.settle()


def reopen(world: World) -> None:
    close(world, lambda _: None)


def permitted(world: World, where: str) -> float:
    """The cpu that is enforced, before slack: the queue's level and what it has on closed nodes."""
    (item,) = world.engine.managed.of([where])
    return float(item.level[0])


@pytest.mark.parametrize("how", [cordon, fill, fail])
def test_the_nodes_that_are_left_go_to_whoever_has_work(how: Callable[[Node], None]) -> None:
    """They stood idle until the work on the closed node ended: its pods counted, and the closed node did not."""
    world = cluster("alone")
    close(world, how)
    assert permitted(world, "alone") == 2 * NODE_CPU
    assert parse_quantity(world.hard("alone")["requests.cpu"]) >= 2 * NODE_CPU


def test_what_runs_on_a_closed_node_is_no_part_of_a_share() -> None:
    world = cluster("first", "second")
    close(world)
    assert permitted(world, "second") == NODE_CPU / 2
    assert permitted(world, "first") == NODE_CPU + NODE_CPU / 2
    status = world.status("first")
    assert (status["usage"]["cpu"], status["demand"]["cpu"]) == ("0", str(PODS - NODE_CPU))


def test_a_quota_falls_as_the_pods_on_a_closed_node_end() -> None:
    world = cluster("first", "second")
    close(world)
    for number in range(10):
        world.end("first", f"work-{number}")
    world.settle()
    assert permitted(world, "first") == NODE_CPU - 10 + NODE_CPU / 2


def test_a_pod_that_comes_to_a_closed_node_counts_for_its_queue() -> None:
    """One that tolerates every taint. Its owner would have it in addition to the share, without end."""
    world = cluster("first", "second")
    close(world)
    for number in range(6):
        world.end("first", f"work-{number}")
    world.settle()
    for number in range(PODS, PODS + 6):
        world.put(of_job("first", number, **placed(0)))
    world.settle()
    assert permitted(world, "first") == NODE_CPU - 6 + NODE_CPU / 2
    assert world.status("first")["usage"]["cpu"] == "6"


def test_a_pod_that_is_about_to_end_on_a_closed_node_counts_for_its_queue() -> None:
    """A drain evicts all at once. Once they are gone their controllers create others: the quota has fallen before."""
    world = cluster("first", "second")
    close(world)
    for number in range(6):
        world.put(of_job("first", number, **placed(0), deletionTimestamp=LATER, deletionGracePeriodSeconds=30))
    world.round()
    assert permitted(world, "first") == NODE_CPU - 6 + NODE_CPU / 2


def test_a_node_that_opens_again_counts_with_all_that_runs_there() -> None:
    world = cluster("first", "second")
    before = permitted(world, "first"), permitted(world, "second")
    close(world)
    reopen(world)
    assert (permitted(world, "first"), permitted(world, "second")) == before
    assert world.status("first")["usage"]["cpu"] == str(NODE_CPU)


def test_a_limit_bounds_all_that_a_queue_runs() -> None:
    world = cluster("alone", spec={"limits": {"cpu": "20"}})
    close(world)
    assert permitted(world, "alone") == 20


def test_the_pods_of_a_burst_count_wherever_they_run() -> None:
    """A burst is charged for all that it has, so that it gets no more than it declared."""
    world = cluster("batch")
    world.queue(LQ, "burst", spec=latency_spec("8", 60, 600))
    world.controller("Job", None, job("burst", "work-burst", 4, ONE))
    for number in range(4):
        world.put(of_job("burst", number, **placed(0)))
    close(world)
    assert world.status("burst", kind=LQ)["usage"]["cpu"] == "4"


def test_a_node_that_never_took_pods_of_the_pool_spares_none() -> None:
    """A tenant whose pods tolerate the taint of a control plane."""
    world = World("smallJobs: {enabled: false}", nodes=1)
    control = node("control", cpu=str(NODE_CPU), memory="64Gi", pods="110")
    control.spec.taints = [Taint("node-role.kubernetes.io/control-plane", effect="NoSchedule")]
    world.nodes["", "control"] = control
    world.queue(TQ, "batch")
    world.controller("Job", None, job("batch", "work-batch", PODS, ONE))
    for number in range(4):
        world.put(of_job("batch", number, node="control", phase="Running"))
    world.settle()
    assert world.status("batch")["usage"]["cpu"] == "4"


def test_gates_open_for_the_nodes_that_are_left() -> None:
    world = cluster("alone", mode="Gate")
    for number in range(NODE_CPU, PODS):
        waiting = of_job("alone", number)
        waiting.spec.scheduling_gates = [SchedulingGate(GATE)]
        world.put(waiting)
    world.settle()
    close(world)
    assert sum(not one.spec.scheduling_gates for one in world.pods.values()) == 2 * NODE_CPU


def test_jobs_start_on_the_nodes_that_are_left() -> None:
    world = cluster("alone", mode="Suspend", pods=NODE_CPU)
    close(world)
    for number in range(3):
        held = job("alone", f"held-{number}", 8, ONE, suspend=True)
        held.metadata.annotations = {HELD_ANNOTATION: "queue"}
        world.controller("Job", None, held)
    started = {start.name for plan in world.settle() for start in plan.starts}
    assert len(started) == 2


class TestClosedNodes:
    def test_only_pods_that_were_there_are_left_out(self) -> None:
        world, closed, nodes = cluster("first"), ClosedNodes(), frozenset({"node-0"})
        assert closed.read(world.view.pods, nodes)["first"]["cpu"] == NODE_CPU
        world.end("first", "work-0")
        assert closed.read(world.view.pods, nodes)["first"]["cpu"] == NODE_CPU - 1
        world.put(of_job("first", PODS, **placed(0)))
        assert closed.read(world.view.pods, nodes)["first"]["cpu"] == NODE_CPU - 1
        assert closed.read(world.view.pods, frozenset()) == {}
        assert closed.read(world.view.pods, nodes)["first"]["cpu"] == NODE_CPU, "it closed again"

    def test_all_pods_are_read_only_where_some_of_these_nodes_have_changed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world, closed, nodes = cluster("first", "second"), ClosedNodes(), frozenset({"node-0"})
        closed.read(world.view.pods, nodes)
        monkeypatch.setattr(PodIndex, "staying_on", lambda *_: pytest.fail("all pods are read"))
        world.end("second", "work-0")
        assert closed.read(world.view.pods, nodes)["first"]["cpu"] == NODE_CPU
