"""Rounds on a hand-built view of the cluster: their writes, and when they write nothing. No I/O."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from fairburst.kube.api.objects import Pod
from fairburst.kube.names import GATE, HELD_ANNOTATION, MANAGED_LABEL, POOL_LABEL, PRIORITY_LABEL, QUOTA_NAME
from fairburst.policy import explain
from fairburst.policy.model import QueueKind
from fairburst.quantity import parse_quantity
from tests.support.busy_queues import batch, run
from tests.support.objects import GI, World, job, latency_spec, node, pod, requesting

TQ, LQ = "ThroughputQueue", "LatencyQueue"


def gated_pod(namespace: str, name: str, *containers: Any) -> Pod:
    body = msgspec.to_builtins(pod(namespace, name, *containers))
    body["spec"]["schedulingGates"] = [{"name": GATE}]
    return msgspec.convert(body, Pod)


def test_the_first_round_labels_the_namespace_and_writes_quota_and_status() -> None:
    world = World()
    batch(world, pods=4)
    plan = world.round()
    assert plan.labels == {"batch": {MANAGED_LABEL: "true", POOL_LABEL: "default", PRIORITY_LABEL: "by-size"}}
    assert world.hard("batch") == {"requests.cpu": "65", "requests.memory": "128Gi"}, (
        "64 pods fit, and one more; other pods might have the memory"
    )
    status = world.status("batch")
    assert (status["class"], status["usage"]["cpu"], status["demand"]["cpu"]) == ("Elastic", "4", "100")
    assert status["podPriority"] == {"className": "fairburst-large", "value": -2, "preemptionPolicy": "Never"}
    assert world.condition(TQ, "batch", "Ready")[:2] == ("True", "Ready")
    assert [event.kind.value for _, event in plan.events] == ["Admitted"]


@pytest.mark.parametrize("parallelism", [1, 2_000_000_000])
def test_a_job_that_requests_more_than_a_quantity_can_hold_stops_no_round(parallelism: int) -> None:
    world = World()
    batch(world)
    batch(world, "other", pods=2, wanted=4)
    world.controller("Job", None, job("batch", "absurd", parallelism, requesting("1e15", "1e30"), completions=parallelism))
    world.round()
    assert world.status("other")["usage"]["cpu"] == "2"
    assert world.status("batch")["class"] == "Elastic"


def test_a_pod_that_fits_no_node_does_not_lift_its_quota_beyond_a_nodes_worth() -> None:
    """Otherwise a tenant could ask for one absurd pod to get any quota, and use it for small ones."""
    world = World()  # 2 nodes of 32 cpu, 32 Gi
    batch(world, "greedy", pods=2, wanted=4)
    world.controller("Job", None, job("greedy", "absurd", 1, requesting("500", "500Gi")))
    batch(world, "other", wanted=100)
    world.round()
    assert parse_quantity(world.hard("greedy")["requests.cpu"]) <= 2 * 32
    grown = World("pool: {autoscaled: true, declaredCapacity: {cpu: '1000', memory: 1000Gi}}")
    grown.queue(TQ, "wide")
    grown.controller("Job", None, job("wide", "fits-a-larger-node", 1, requesting("500", "500Gi")))
    grown.round()
    assert parse_quantity(grown.hard("wide")["requests.cpu"]) >= 500, "an autoscaler may bring a node for it"


def test_a_settled_cluster_gets_no_writes() -> None:
    world = World()
    batch(world, pods=10)
    batch(world, "other", pods=5, wanted=5)
    world.queue(LQ, "burst", spec=latency_spec())
    world.settle(190.0)  # the first figures of a week come after three minutes at most
    assert world.condition(LQ, "burst", "Guaranteed")[:2] == ("True", "HardGuarantee")
    for _ in range(60):
        plan = world.plan()
        assert (plan.labels, plan.quota_writes, plan.statuses, plan.events) == ({}, [], [], [])
        assert plan.due > world.now, "a round due in the past makes the loop turn without end"
        world.after_due(plan)


@pytest.mark.parametrize("mode", ["Quota", "Gate", "Suspend"])
def test_a_round_that_plans_no_statuses_words_no_decision(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence names the tightest of all promises: with one for each hard queue a round would be quadratic."""
    world = World()
    batch(world, pods=10, spec={"enforcement": mode})
    world.put(gated_pod("batch", "gated", requesting("100", "100Gi")))
    held = job("batch", "held", 200, requesting(), suspend=True)
    held.metadata.annotations = {HELD_ANNOTATION: "true"}
    world.controller("Job", None, held)
    for number in range(5):
        world.queue(LQ, f"burst-{number}", spec=latency_spec(cpu="2"))
    world.settle()
    assert world.round().statuses_planned
    world.after(0.1)
    worded = []
    monkeypatch.setattr(explain, "admission_decision", lambda _, row: worded.append(row))
    world.view.changed_namespaces.add("batch")
    plan = world.plan()
    assert not plan.statuses_planned
    assert worded == []


def test_a_pod_that_names_its_own_node_takes_no_more_than_that_node() -> None:
    """A pod of a million cpu once took a hard queue's class for ten minutes: the committed capacity was zero for so long."""
    world = World(nodes=4)
    world.queue(LQ, "burst", spec=latency_spec(cpu="64"))
    world.round()
    assert world.status("burst", kind=LQ)["class"] == "Hard"
    world.put(pod("elsewhere", "phantom", requesting("1000000", "1000Ti"), node="node-0"))
    world.put(pod("elsewhere", "lost", requesting("1000000", "1000Ti"), node="no-such-node"))
    world.after(0.5)
    plan = world.round()
    assert plan.snapshot.live_capacity[0] == 96.0
    assert world.status("burst", kind=LQ)["class"] == "Hard"


def test_a_pod_on_a_node_that_no_longer_exists_is_charged_to_no_queue() -> None:
    world = World()
    batch(world, pods=4)
    assert world.round().snapshot.usage[0, 0] == 4.0
    del world.nodes["", "node-1"]
    world.after(1.0)
    assert world.round().snapshot.usage[0, 0] == 2.0


def test_pods_that_request_nothing_leave_places_for_a_hard_queues_burst() -> None:
    world = World(nodes=0)
    for number in range(2):
        world.nodes["", f"node-{number}"] = node(f"node-{number}", cpu="8", memory="64Gi", pods="110")
    world.queue(LQ, "burst", spec=latency_spec(cpu="4", interarrival=600))
    batch(world)
    world.controller("Job", None, job("batch", "empty", 220, requesting("0", "0")))
    world.settle()
    assert world.status("burst", kind=LQ)["class"] == "Hard"
    most = int(world.hard("batch")["pods"])
    assert 100 <= most <= 220 - 55, "the burst keeps a quarter of the places: it is promised a quarter of the cpu"
    assert int(world.hard("burst")["pods"]) >= 55
    world.after(1.0)
    assert world.plan().quota_writes == [], "settled"


def test_in_gate_mode_no_more_pods_are_let_go_than_there_are_places() -> None:
    world = World(nodes=0)
    world.nodes["", "node-0"] = node("node-0", cpu="8", memory="64Gi", pods="20")
    world.queue(TQ, "gated", spec={"enforcement": "Gate"})
    batch(world, "other", wanted=4)
    world.settle()
    for number in range(20):
        world.put(gated_pod("gated", f"p{number}", requesting("0", "0")))
    world.settle()
    release = [key for key, one in world.pods.items() if key[0] == "gated" and not one.spec.scheduling_gates]
    assert 10 <= len(release) <= 15, "the other queue keeps a part of its fair share"
    assert "pods" not in world.hard("gated"), "gated pods are no reason to refuse more"


def test_a_queue_created_anew_under_an_old_name_does_not_get_the_old_promise() -> None:
    world = World()
    world.queue(LQ, "burst", spec=latency_spec(), uid="one")
    world.round()
    assert world.status("burst", kind=LQ)["class"] == "Hard"
    impossible = latency_spec(cpu="200")
    world.queue(LQ, "burst", spec=impossible, uid="two", created="2026-01-01T00:01:00Z")
    world.after(1.0)
    plan = world.round()
    assert plan.snapshot.queues[0].burst is not None
    assert world.status("burst", kind=LQ)["promise"]["burst"]["resources"]["cpu"] == "200"
    assert world.status("burst", kind=LQ)["class"] != "Hard"


def test_a_queue_of_the_other_kind_under_the_same_name_inherits_nothing() -> None:
    world = World()
    world.queue(LQ, "same", spec=latency_spec())
    world.queue(TQ, "same", created="2026-01-01T00:00:01Z", uid="late")
    world.round()
    assert world.condition(TQ, "same", "Ready")[1] == "SecondQueue"
    del world.queues[LQ, "same", "queue"]
    world.after(1.0)
    world.round()
    assert world.status("same")["promise"]["kind"] == "Throughput"


def test_an_unknown_resource_gets_a_condition_and_disturbs_nobody() -> None:
    world = World()
    batch(world, pods=10)
    spec = latency_spec()
    spec["burst"]["resources"]["example.com/fpga"] = "4"
    world.queue(LQ, "burst", spec=spec)
    plan = world.round()
    status, reason, message = world.condition(LQ, "burst", "Admitted")
    assert (status, reason) == ("False", "UnknownResource")
    assert "example.com/fpga" in message
    assert plan.snapshot.resources == ("cpu", "memory")
    assert world.condition(TQ, "batch", "Ready")[0] == "True"


def test_an_extended_resource_that_a_node_has_is_counted_from_then_on() -> None:
    world = World()
    batch(world, pods=4)
    world.settle(15.0)
    before = world.hard("batch")
    world.nodes["", "gpu"] = node("gpu", cpu="32", memory="64Gi", _gpu="8")
    world.queue(LQ, "burst", spec=latency_spec() | {"burst": {"resources": {"nvidia.com/gpu": 4}, "durationSeconds": 20}})
    plan = world.round()
    assert plan.snapshot.resources == ("cpu", "memory", "nvidia.com/gpu")
    assert world.condition(LQ, "burst", "Admitted")[0] == "True"
    assert world.hard("batch").keys() - before.keys() == {"requests.nvidia.com/gpu"}
    (write,) = [write for write in plan.quota_writes if write.key == ("batch", QUOTA_NAME)]
    assert write.used == {"requests.nvidia.com/gpu": "0"}


def test_a_scheduled_burst_is_judged_attainable_like_any_other() -> None:
    world = World()
    burst = {"arrival": "2026-01-01T00:30:00Z", "resources": {"cpu": "16", "memory": "16Gi"}, "durationSeconds": 20}
    world.queue(LQ, "burst", spec={"arrival": {"schedule": {"bursts": [burst]}}})
    world.round()
    assert world.status("burst", kind=LQ)["class"] == "Hard"
    assert world.condition(LQ, "burst", "Attainable")[:2] == ("True", "InTime")


def test_a_burst_whose_pods_fit_the_pool_only_in_sum_is_told_so_with_the_numbers() -> None:
    """Two nodes of 32 cpu hold two pods of 17; the 51 cpu that are guaranteed are three."""
    world = World("{pool: {headRoomPercent: 0}, admission: {expectedQueues: 1}}")
    world.queue(LQ, "burst", spec=latency_spec(cpu="51"))
    world.round()
    assert world.condition(LQ, "burst", "Attainable")[0] == "True", "no pod has been seen yet"
    world.controller("Job", None, job("burst", "work", 3, {"resources": {"requests": {"cpu": "17", "memory": "1Gi"}}}))
    world.put(pod("burst", "first", {"resources": {"requests": {"cpu": "17", "memory": "1Gi"}}}, owner=("Job", "work")))
    world.after(2.0)
    world.round()
    status, reason, message = world.condition(LQ, "burst", "Attainable")
    assert (status, reason) == ("False", "DoesNotFitNodes")
    assert "3 pods at a time" in message
    assert "hold 2 even while" in message
    assert world.condition(LQ, "burst", "Guaranteed")[:2] == ("False", "NotAttainable")


def test_a_job_blocked_by_its_quota_is_resynced_when_the_quota_grows() -> None:
    world = World()
    batch(world, "a", pods=32, wanted=100)
    batch(world, "b", pods=32, wanted=100)
    for name in ("a", "b"):  # the one pod more that the quota admits waits for a node
        world.put(pod(name, "waiting", owner=("Job", f"{name}-job")))
    world.settle(10.0)
    assert world.plan().resyncs == [], "both have all that they may have"
    world.controller("Job", job("a", "a-job", 100), None)
    for number in range(32):
        world.end("a", f"p{number}")
    plan = world.round()
    assert [(owner.kind, owner.namespace) for owner in plan.resyncs] == [("Job", "b")]


def test_a_pod_stuck_in_termination_stops_counting_as_demand() -> None:
    world = World()
    world.queue(TQ, "web")
    stuck = {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}
    world.put(pod("web", "stuck", requesting("4"), owner=("ReplicaSet", "rs"), **stuck))
    world.round()
    assert world.status("web")["demand"]["cpu"] == "4"
    world.after(120.0)
    world.round()
    assert world.status("web")["demand"]["cpu"] == "0"


def test_shares_are_of_live_capacity_and_zero_where_there_is_none() -> None:
    world = World()
    batch(world, pods=16)
    assert world.plan().dominant_shares([0])[:, :2].tolist() == [[1.0, 0.25]]
    world.nodes.clear()
    assert world.plan().dominant_shares([0]).tolist() == [[0.0, 0.0, 0.0]]


def test_the_engine_tells_of_what_kind_a_namespaces_queue_is() -> None:
    world = World()
    batch(world)
    world.queue(LQ, "burst", spec=latency_spec())
    world.plan()
    assert [world.engine.queues.kind_of(name) for name in ("batch", "burst", "none")] == [QueueKind.THROUGHPUT, QueueKind.LATENCY, None]


def test_head_room_and_unmanaged_pods_lower_capacity() -> None:
    world = World("pool: {headRoomPercent: 10, headRoom: {memory: 8Gi}}")
    world.namespace("web")
    run(world, "web", 4)
    capacity = world.plan().snapshot.live_capacity
    assert capacity.tolist() == [64 * 0.9 - 4, (128 * 0.9 - 8 - 4) * GI]


def test_nothing_at_all_is_a_round_as_well() -> None:
    world = World(nodes=0)
    plan = world.round()
    assert (plan.quota_writes, plan.statuses, plan.events) == ([], [], [])
    assert plan.due == math.inf or plan.due > world.now


def test_a_plan_tells_whether_a_burst_waits() -> None:
    """The writes of the rounds before are cut short then."""
    world = World()
    world.queue(LQ, "burst", spec=latency_spec())
    world.settle()
    assert not world.round().burst_waits
    world.controller("Job", None, job("burst", "work", 16, requesting("1", "1Gi")))
    assert world.round().burst_waits
    for number in range(16):
        world.put(pod("burst", f"work-{number}", requesting("1", "1Gi"), node="node-0", phase="Running", owner=("Job", "work")))
    world.settle(25.0)
    assert not world.round().burst_waits
