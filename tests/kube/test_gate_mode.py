"""Rounds with queues in Gate mode: gated pods are demand and no usage, the level releases them, the quota has no limits."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fairburst.kube.api.objects import SchedulingGate
from fairburst.kube.enforce.holds import HOLD_SETTLES_SECONDS
from fairburst.kube.names import GATE, HOLDS_LABEL
from fairburst.quantity import parse_quantity
from tests.support.objects import World, job, latency_spec, pod, requesting

TQ, LQ = "ThroughputQueue", "LatencyQueue"
GATES: dict[str, Any] = {"enforcement": "Gate"}


def bare(world: World, namespace: str, pods: int, first: int = 0, cpu: str = "1") -> None:
    """Bare pods as the admission policy has changed them."""
    for number in range(first, first + pods):
        made = pod(namespace, f"p{number:03}", requesting(cpu, "1Gi"), creationTimestamp="2026-01-01T00:00:00Z")
        made.spec.scheduling_gates = [SchedulingGate(GATE)]
        world.put(made)


def gated(world: World, namespace: str) -> int:
    return sum(one.gated for (where, _), one in world.pods.items() if where == namespace)


def bind(world: World, namespace: str) -> None:
    """Bind what is released."""
    for (where, name), one in list(world.pods.items()):
        if where == namespace and not one.gated:
            world.put(pod(where, name, node="node-0", phase="Running"))


def settle(world: World) -> None:
    for _ in range(5):
        world.round()
        world.after(HOLD_SETTLES_SECONDS)


@pytest.fixture
def world() -> World:
    """A cluster of 64 cpu with a queue in Gate mode."""
    made = World()
    made.queue(TQ, "batch", spec=GATES)
    return made


def test_the_status_tells_the_policies_to_hold_pods_and_the_condition_says_how_the_queue_is_enforced(world: World) -> None:
    settle(world)
    assert world.status("batch")["holds"] == "Pods"
    assert world.condition(TQ, "batch", "Enforced")[:2] == ("True", "Gate")


def test_gated_pods_are_demand_and_no_usage_and_go_by_the_level() -> None:
    world = World()  # 64 cpu
    for namespace in ("batch", "other"):
        world.queue(TQ, namespace, spec=GATES)
        bare(world, namespace, 100)
    world.round()
    status = world.status("batch")
    assert (status["demand"]["cpu"], status["usage"]["cpu"], status["allocation"]["cpu"]) == ("100", "0", "32")
    assert (gated(world, "batch"), gated(world, "other")) == (68, 68)
    for namespace in ("batch", "other"):
        bind(world, namespace)
    settle(world)
    world.after(30.0)
    settle(world)
    assert world.status("batch")["usage"]["cpu"] == "32"
    assert (gated(world, "batch"), gated(world, "other")) == (68, 68), "no more than the level, round after round"


def test_pods_of_one_queue_alone_all_go_and_no_more_is_wanted_than_there_is(world: World) -> None:
    """In Quota mode bare pods want a step beyond what exists, since others may have been refused. Here none is refused."""
    bare(world, "batch", 10)
    settle(world)
    assert gated(world, "batch") == 0
    assert world.status("batch")["demand"]["cpu"] == "10"


def test_the_quota_has_no_limits_and_costs_no_write_however_many_pods_wait(world: World) -> None:
    """Otherwise gated pods, which are charged in full, would keep out the pods behind them, and each creation would wait for a count."""
    world.queue(TQ, "other", spec=GATES)
    bare(world, "other", 500)
    bare(world, "batch", 500)
    settle(world)
    assert gated(world, "batch") > 400
    assert world.hard("batch") == {}
    for count in range(500, 3000, 250):
        bare(world, "batch", 250, first=count)
        assert world.round().quota_writes == []
        world.after(1.0)


def test_a_queue_that_leaves_gate_mode_gets_its_level_as_a_quota_again(world: World) -> None:
    world.queue(TQ, "other")
    bare(world, "batch", 20)
    settle(world)
    world.queue(TQ, "batch", spec={"enforcement": "Quota"}, generation=2)
    (write,) = [one for one in world.round().quota_writes if one.namespace == "batch"]
    assert parse_quantity(write.hard["requests.cpu"]) >= 20
    assert write.used["requests.cpu"] == "20", "what exists counts at once"


def test_the_quota_loses_its_limits_only_once_new_pods_are_sure_to_be_gated(world: World) -> None:
    """A second after the stored status says so. Until then it holds as in Quota mode, but takes nothing back."""
    world.round()
    assert world.permitted_cpu("batch") <= 2, "the floor, and one pod more"
    world.after(0.1)
    world.round()
    assert world.permitted_cpu("batch") <= 2
    world.after(HOLD_SETTLES_SECONDS + 0.1)
    world.round()
    assert world.permitted_cpu("batch") == math.inf


def test_a_restarted_operator_lowers_no_quota_of_a_queue_with_gated_pods(world: World) -> None:
    bare(world, "batch", 500)
    settle(world)
    before = world.permitted_cpu("batch")
    again = World()
    for name in ("pods", "nodes", "namespaces", "quotas", "queues"):
        getattr(again, name).update(getattr(world, name))
    for one in world.pods.values():
        again.put(one)
    assert again.round().quota_writes == []
    settle(again)
    assert again.permitted_cpu("batch") == before


def test_a_settled_cluster_with_waiting_pods_gets_no_writes(world: World) -> None:
    world.queue(LQ, "burst", spec=latency_spec() | GATES)
    bare(world, "batch", 200)
    settle(world)
    bind(world, "batch")
    settle(world)
    world.after(190.0)  # the first figures of a week come after three minutes at most
    settle(world)
    for _ in range(30):
        plan = world.plan()
        assert (plan.labels, plan.quota_writes, plan.statuses, plan.events, plan.ungates) == ({}, [], [], [], [])
        assert plan.due > world.now
        world.after_due(plan)


def test_an_armed_hard_queue_lets_its_burst_go_between_rounds() -> None:
    """Its whole rate is its level from the moment it is armed, so nothing has to be decided when the burst comes."""
    world = World()
    world.queue(LQ, "burst", spec=latency_spec("16") | GATES)
    settle(world)
    assert world.condition(LQ, "burst", "Guaranteed")[0] == "True"
    bare(world, "burst", 20)
    chosen = world.engine.gates.between_rounds({"burst"}, world.view.pods)
    assert [one.key[1] for one in chosen] == [f"p{number:03}" for number in range(16)]


def test_the_burst_of_a_hard_queue_goes_before_batch(world: World) -> None:
    world.queue(LQ, "burst", spec=latency_spec("16") | GATES, created="2026-02-01T00:00:00Z")
    settle(world)
    bare(world, "batch", 100)
    bare(world, "burst", 16)
    plan = world.plan()
    order = [held.key[0] for held in plan.ungates]
    assert order == ["burst"] * 16 + ["batch"] * 48


def test_a_suspended_queue_runs_at_the_floor() -> None:
    world = World("enforcement: {floors: {cpu: 2, memory: 4Gi}}")
    world.queue(LQ, "burst", spec=latency_spec() | GATES | {"suspended": True})
    bare(world, "burst", 10)
    settle(world)
    assert world.condition(LQ, "burst", "Admitted")[:2] == ("False", "Suspended")
    assert gated(world, "burst") == 8


def test_a_rejected_queue_runs_in_what_is_idle() -> None:
    world = World("{enforcement: {floors: {cpu: 2, memory: 4Gi}}, admission: {expectedQueues: 1}}")
    # a burst that leaves no room for another queue's share
    world.queue(LQ, "first", spec=latency_spec("50", duration=50), created="2025-01-01T00:00:00Z")
    world.queue(LQ, "burst", spec=latency_spec() | GATES)
    bare(world, "burst", 10)
    settle(world)
    assert world.condition(LQ, "burst", "Admitted")[:2] == ("False", "BreaksEarlierPromise")
    assert gated(world, "burst") == 0


@pytest.mark.parametrize("change", [{"enforcement": "Quota"}, {"enforcement": "Observe"}, None], ids=["to quota", "to observe", "deleted"])
def test_when_a_queue_leaves_gate_mode_all_its_pods_are_released(world: World, change: dict[str, Any] | None) -> None:
    bare(world, "batch", 200)
    settle(world)
    assert gated(world, "batch") == 136
    if change is None:
        del world.queues[TQ, "batch", "queue"]
    else:
        world.queue(TQ, "batch", spec=change, generation=2, status=world.status("batch"))
    world.round()
    assert gated(world, "batch") == 0
    if change is not None:
        assert "holds" not in world.status("batch")


def test_an_invalid_edit_leaves_pods_gated(world: World) -> None:
    bare(world, "batch", 200)
    settle(world)
    world.queue(TQ, "batch", spec=GATES | {"weight": 0}, generation=2, status=world.status("batch"))
    settle(world)
    assert gated(world, "batch") == 136


def test_pods_gated_for_another_pools_queue_are_left_to_its_operator() -> None:
    world = World()
    world.queue(TQ, "theirs", spec=GATES | {"pool": "gpu"})
    bare(world, "theirs", 3)
    settle(world)
    assert gated(world, "theirs") == 3
    world.queue(TQ, "theirs", spec=GATES | {"pool": "default"}, uid="another")
    settle(world)
    assert gated(world, "theirs") == 0


def test_the_reserve_for_small_jobs_keeps_no_quotas_where_a_gate_holds_the_pods() -> None:
    world = World("smallJobs: {enabled: true}")
    world.queue(TQ, "batch", spec=GATES)
    world.queue(TQ, "other")
    for namespace in ("batch", "other"):
        for name, pods in (("small", 2), ("large", 60)):
            world.controller("Job", None, job(namespace, f"{namespace}-{name}", pods))
    settle(world)
    assert sorted(name for namespace, name in world.quotas if namespace == "batch") == ["fairburst"]
    assert sorted(name for namespace, name in world.quotas if namespace == "other") == ["fairburst", "fairburst-small"]


@pytest.mark.parametrize("config", ["webhook: {enabled: true}", "{}"])
@pytest.mark.parametrize(("mode", "holds"), [("Gate", "Pods"), ("Suspend", "Jobs"), ("Quota", None)])
def test_a_namespace_says_which_of_its_new_work_waits_for_a_release(config: str, mode: str, holds: str | None) -> None:
    world = World(config)
    world.queue(TQ, "batch", spec={"enforcement": mode})
    world.queue(TQ, "other")
    assert world.round().labels["batch"].get(HOLDS_LABEL) == holds
    assert world.round().labels == {}, "once it says so"
    world.queue(TQ, "batch")
    changed = {"batch": {HOLDS_LABEL: None}} if holds else {}
    assert world.round().labels == changed


def test_a_group_larger_than_the_queues_level_is_named_with_both_numbers_and_holds_up_nobody() -> None:
    world = World()  # 64 cpu
    world.queue(TQ, "batch", spec=GATES)
    for number in range(65):
        made = pod("batch", f"team-{number:02}", requesting("1", "1Gi"), creationTimestamp="2026-01-01T00:00:00Z")
        made.metadata.labels = {"fairburst.dev/group": "team", "fairburst.dev/group-size": "65"}
        made.spec.scheduling_gates = [SchedulingGate(GATE)]
        world.put(made)
    bare(world, "batch", 3)
    settle(world)
    assert gated(world, "batch") == 65
    status, reason, message = world.condition(TQ, "batch", "JobsFit")
    assert (status, reason) == ("False", "LargerThanLevel")
    assert "the group of 65 pods with batch/team-00 starts whole and needs 65 cpu, the queue's level is 64." in message
    world.end("batch", "team-64")  # one is missing: it is no whole group, and waits for that
    settle(world)
    assert world.condition(TQ, "batch", "JobsFit")[0] == "True"


def test_a_queue_of_another_pool_that_is_not_in_force_keeps_no_pod_of_the_namespace_waiting(world: World) -> None:
    world.queue(TQ, "batch", "stray", {"pool": "other"}, created="2026-01-02T00:00:00Z")
    bare(world, "batch", 10)
    settle(world)
    assert gated(world, "batch") == 0


def test_jobs_without_groups_start_pod_by_pod_also_before_any_of_their_pods_exists() -> None:
    """All that such a Job lacked was taken as one start, which had a turn, and the places of that turn waited for the Job controller."""
    world, crowd = World(), [f"crowd-{number}" for number in range(10)]  # 64 cpu
    for where in crowd:
        world.queue(TQ, where, spec=GATES)
        world.controller("Job", None, job(where, "work", 22, requesting()))
        plan = world.round()
        world.after(1.0)
    assert plan.snapshot.next_start == {}
    assert sorted(plan.result.level[:, 0].tolist()) == [6.0] * 6 + [7.0] * 4
