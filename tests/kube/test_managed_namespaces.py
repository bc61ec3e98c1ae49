"""Managed namespaces in rounds: with and without a queue, in Observe mode, and after edits by hand. No I/O."""

from __future__ import annotations

import pytest

from fairburst.kube.api.objects import SchedulingGate
from fairburst.kube.names import GATE, MANAGED_LABEL, POOL_LABEL
from tests.support.busy_queues import batch, run
from tests.support.objects import World, job, latency_spec, limit_range, pod, quota, requesting

TQ, LQ = "ThroughputQueue", "LatencyQueue"


def test_observe_yields_nothing_but_statuses() -> None:
    world = World()
    batch(world, pods=10, spec={"enforcement": "Observe"})
    plan = world.round()
    assert (plan.labels, plan.quota_writes, plan.resyncs) == ({}, [], [])
    assert world.condition(TQ, "batch", "Enforced")[:2] == ("False", "Observe")
    assert world.condition(TQ, "batch", "Ready")[0] == "True"
    assert "podPriority" not in world.status("batch")


def test_a_queue_that_changes_to_observe_is_released_once() -> None:
    world = World()
    batch(world, pods=10, spec={})
    world.round()
    status = world.status("batch")
    world.queue(TQ, "batch", spec={"enforcement": "Observe"}, generation=2, status=status)
    plan = world.round()
    assert plan.releases == ["batch"]
    assert plan.quota_writes == []
    again = world.plan()
    assert (again.releases, again.labels, again.quota_writes) == ([], {}, [])
    assert "podPriority" not in world.status("batch")


def test_a_queue_that_changes_to_observe_is_released_although_its_quota_has_gone_already() -> None:
    world = World()
    batch(world, pods=10, spec={})
    world.round()
    del world.quotas["batch", "fairburst"]
    world.queue(TQ, "batch", spec={"enforcement": "Observe"}, generation=2, status=world.status("batch"))
    assert world.plan().releases == ["batch"], "the namespace still has the label by which policies treat its pods"
    world.namespace("batch")
    assert world.plan().releases == []


@pytest.mark.parametrize("labels", [{}, {POOL_LABEL: "other"}])
def test_a_queue_that_changes_to_observe_is_released_although_its_quota_has_lost_its_label(labels: dict[str, str]) -> None:
    world = World()
    batch(world, pods=10, spec={})
    world.round()
    world.quotas["batch", "fairburst"].metadata.labels = labels
    world.queue(TQ, "batch", spec={"enforcement": "Observe"}, generation=2, status=world.status("batch"))
    plan = world.plan()
    assert (plan.releases, plan.quota_deletions) == (["batch"], [("batch", "fairburst")]), "nothing else would ever lift the limit"


def test_a_queue_in_observe_mode_that_replaces_one_of_another_pool_is_released_of_what_that_pool_wrote() -> None:
    """That pool's operator leaves the namespace to this one as soon as it has a queue of this pool."""
    world = World()
    batch(world, pods=10, spec={"enforcement": "Observe"})
    world.namespaces["", "batch"].metadata.labels = {MANAGED_LABEL: "true", POOL_LABEL: "other"}
    world.quotas["batch", "fairburst"] = quota("batch", {"requests.cpu": "1"}, pool="other")
    plan = world.round()
    assert (plan.releases, plan.quota_deletions) == (["batch"], [("batch", "fairburst")])
    assert world.plan().releases == []


@pytest.mark.parametrize(("label", "released"), [("default", ["batch"]), ("other", [])])
def test_a_queue_that_changes_to_observe_is_released_where_another_pool_has_a_queue_unless_its_operator_has_come(
    label: str, released: list[str]
) -> None:
    """The other queue may name a pool that has no operator."""
    world = World()
    batch(world, pods=10, spec={"enforcement": "Gate"})
    world.round()
    world.queue(TQ, "batch", "stray", {"pool": "other"}, created="2026-01-02T00:00:00Z")
    gated = pod("batch", "waits")
    gated.spec.scheduling_gates = [SchedulingGate(GATE)]
    world.put(gated)
    world.queue(TQ, "batch", spec={"enforcement": "Observe"}, generation=2, status=world.status("batch"))
    world.namespaces["", "batch"].metadata.labels = {MANAGED_LABEL: "true", POOL_LABEL: label}
    plan = world.plan()
    assert plan.releases == released
    assert [one.key[0] for one in plan.ungates] == released, "its gates are those of the operator that has it"


def test_a_namespace_from_which_only_the_label_managed_was_removed_is_released() -> None:
    """As the last step of leaving, or while no operator ran, so that none has removed the labels of its queue."""
    world = World()
    batch(world, pods=10, spec={})
    world.round()
    world.queues.clear()
    labels = world.namespaces["", "batch"].metadata.labels or {}
    world.namespaces["", "batch"].metadata.labels = {name: text for name, text in labels.items() if name != MANAGED_LABEL}
    world.engine = World().engine
    plan = world.round()
    assert (plan.releases, plan.quota_deletions) == (["batch"], [("batch", "fairburst")])
    again = world.plan()
    assert (again.releases, again.labels, again.quota_writes) == ([], {}, [])


def test_a_namespace_without_the_label_managed_is_left_to_the_pool_of_its_queue() -> None:
    world = World()
    world.queue(TQ, "batch", "moved", {"pool": "other"})
    world.namespaces["", "batch"].metadata.labels = {POOL_LABEL: "default"}
    assert world.round().releases == []
    world.after(1.0)
    del world.queues[TQ, "batch", "moved"]
    assert world.round().releases == ["batch"]


def test_an_unlabelled_quota_of_our_name_stays_where_the_namespace_was_never_managed() -> None:
    world = World()
    batch(world, pods=10, spec={"enforcement": "Observe"})
    world.namespace("batch")
    world.quotas["batch", "fairburst"] = quota("batch", {"requests.cpu": "1"}, pool=None)
    assert world.plan().releases == []


def test_an_invalid_edit_does_not_end_observe() -> None:
    world = World()
    batch(world, pods=10, spec={"enforcement": "Observe"})
    world.round()
    status = world.status("batch")
    world.queue(TQ, "batch", spec={"enforcement": "Observe", "weight": 0}, generation=2, status=status)
    plan = world.round()
    assert (plan.labels, plan.quota_writes) == ({}, [])
    assert world.condition(TQ, "batch", "Ready")[1] == "InvalidSpec"


def test_a_managed_namespace_without_a_queue_runs_at_the_floor() -> None:
    world = World("enforcement: {floors: {cpu: 2, memory: 1Gi}}")
    world.namespace("left", managed=True)
    run(world, "left", 3)
    world.round()
    assert world.hard("left") == {"requests.cpu": "3", "requests.memory": "2Gi"}, "the floor and one pod"
    assert world.quotas["left", "fairburst"].metadata.owner_references is None


def test_a_deleted_queues_namespace_falls_to_the_floor_and_its_pods_lower_no_promise() -> None:
    world = World()
    batch(world, pods=10)
    batch(world, "other", pods=10)
    world.round()
    del world.queues[TQ, "batch", "queue"]
    world.after(5.0)
    plan = world.round()
    assert world.hard("batch") == {"requests.cpu": "2", "requests.memory": "2Gi"}
    assert plan.snapshot.live_capacity[0] == 54.0
    assert plan.snapshot.committed_capacity[0] == 64.0


def test_the_pods_of_a_deleted_namespace_lower_no_promise() -> None:
    """The queue goes first, the pods end in their grace time, and our caches may learn last that they are gone."""
    world = World()
    batch(world, pods=10)
    batch(world, "other", pods=10)
    world.round()
    world.namespace("batch", managed=True, phase="Terminating")
    capacities = [world.round().snapshot]
    del world.queues[TQ, "batch", "queue"]
    world.after(5.0)
    capacities.append(world.round().snapshot)
    del world.namespaces["", "batch"]
    world.after(5.0)
    capacities.append(world.round().snapshot)
    assert [(one.live_capacity[0], one.committed_capacity[0]) for one in capacities] == [(54.0, 64.0)] * 3
    for number in range(10):
        world.end("batch", f"p{number}")
    world.after(5.0)
    assert world.round().snapshot.live_capacity[0] == 64.0


def test_the_pods_of_a_namespace_that_was_being_deleted_at_the_start_lower_no_promise() -> None:
    world = World()
    batch(world, "other", pods=10)
    world.namespace("batch", managed=True, phase="Terminating")
    run(world, "batch", 10)
    snapshot = world.round().snapshot
    assert (snapshot.live_capacity[0], snapshot.committed_capacity[0]) == (54.0, 64.0)


def test_a_pod_of_a_deleted_namespace_that_comes_again_unmanaged_counts() -> None:
    world = World()
    batch(world, pods=10)
    world.round()
    world.namespace("batch", managed=True, phase="Terminating")
    del world.queues[TQ, "batch", "queue"]
    world.round()
    world.namespace("batch")
    world.after(5.0)
    assert world.round().snapshot.committed_capacity[0] == 54.0


@pytest.mark.parametrize("name", ["kube-system", "fairburst-system"])
def test_a_label_on_a_namespace_of_the_system_or_the_operator_has_no_effect(name: str) -> None:
    world = World()
    world.namespace(name, managed=True)
    run(world, name, 2)
    plan = world.round()
    assert plan.quota_writes == []
    assert plan.snapshot.live_capacity[0] == 62.0, "its pods take capacity like those of other unmanaged namespaces"


def test_namespaces_of_another_pool_are_left_to_its_operator() -> None:
    world = World()
    world.queue(TQ, "theirs", spec={"pool": "gpu"})
    world.namespace("theirs", managed=True)
    world.namespace("orphan-of-theirs", managed=True)
    world.quotas["orphan-of-theirs", "fairburst"] = quota("orphan-of-theirs", {"requests.cpu": "50"}, pool="gpu")
    assert world.plan().quota_writes == []


def test_a_removed_label_is_put_back() -> None:
    world = World()
    batch(world, pods=2)
    world.round()
    world.namespace("batch", managed=False)
    assert set(world.round().labels) == {"batch"}
    assert (world.namespaces["", "batch"].metadata.labels or {})[MANAGED_LABEL] == "true"


def test_a_quota_deleted_or_edited_by_hand_is_put_back() -> None:
    world = World()
    batch(world, pods=4)
    world.settle(5.0)
    want = world.hard("batch")
    del world.quotas["batch", "fairburst"]
    world.round()
    assert world.hard("batch") == want
    world.quotas["batch", "fairburst"] = quota("batch", want | {"requests.cpu": "900"})
    world.after(1.1)
    world.round()
    assert world.hard("batch") == want


def test_edits_of_a_quota_at_every_moment_cost_one_write_a_second_and_deletions_one_write_each() -> None:
    """By someone whom no policy stops. The other queue is left alone, and neither its status nor its quota is written."""
    world = World()
    batch(world, "edited", pods=4)
    batch(world, "other", pods=4)
    world.settle(30.0)
    want, other = world.hard("edited"), world.quotas["other", "fairburst"]
    writes, statuses = list[str](), list[str]()
    for moment in range(200):
        world.quotas["edited", "fairburst"] = quota("edited", want | {"requests.cpu": str(900 + moment)})
        plan = world.round()
        writes += [write.namespace for write in plan.quota_writes]
        statuses += [status.entry.namespace for status in plan.statuses]
        world.after(0.05)
    assert set(writes) == {"edited"}
    assert 9 <= len(writes) <= 11, "in ten seconds"
    deletions, writes = 0, []
    for _ in range(200):
        deletions += world.quotas.pop(("edited", "fairburst"), None) is not None
        writes += [write.namespace for write in world.round().quota_writes]
        world.after(0.05)
    assert set(writes) == {"edited"}
    assert 9 <= len(writes) <= deletions + 1, "a deletion that no round has seen is found a second later"
    assert world.quotas["other", "fairburst"] is other
    assert "other" not in statuses
    assert len(statuses) <= 2


def test_pods_without_requests_get_a_condition_until_a_limit_range_supplies_them() -> None:
    world = World()
    world.namespace("web")
    world.put(pod("web", "old", requesting(None, None), owner=("ReplicaSet", "rs"), node="node-0", phase="Running"))
    world.queue(TQ, "web")
    world.settle(3.0)
    status, reason, message = world.condition(TQ, "web", "Enforced")
    assert (status, reason) == ("False", "PodsWithoutRequests")
    assert "old" in message
    assert ("web", "fairburst") not in world.quotas
    world.limit_ranges["web", "d"] = limit_range("web", "d", type="Container", defaultRequest={"cpu": "1", "memory": "1Gi"})
    world.settle(3.0)
    assert world.condition(TQ, "web", "Enforced")[0] == "True"
    assert ("web", "fairburst") in world.quotas
    del world.limit_ranges["web", "d"]
    world.settle(3.0)
    assert "the namespace's quota refuses their successors. Add requests" in world.condition(TQ, "web", "Enforced")[2]


def test_a_missing_quota_that_must_stay_missing_makes_no_round_due_in_the_past() -> None:
    world = World()
    batch(world, pods=4)
    world.settle(5.0)
    world.quotas["batch", "fairburst"] = quota("batch", world.hard("batch"), {"requests.cpu": "4", "requests.memory": "4Gi"})
    world.end("batch", "p0")
    world.round()
    del world.quotas["batch", "fairburst"]
    world.put(pod("batch", "bare", requesting(None, None), node="node-0", phase="Running"))
    for _ in range(8):
        world.after(10.0)
        assert world.round().due > world.now


def test_a_foreign_quota_below_the_burst_is_told_before_the_burst_comes() -> None:
    world = World()
    world.quotas["burst", "theirs"] = quota("burst", {"cpu": "4"}, name="theirs", scoped=False)
    spec = latency_spec(cpu="16") | {"arrival": {"periodic": {"periodSeconds": 3600, "firstArrival": "2026-01-01T00:30:00Z"}}}
    world.queue(LQ, "burst", spec=spec)
    world.round()
    assert world.status("burst", kind=LQ)["window"]["state"] == "Closed"
    status, reason, message = world.condition(LQ, "burst", "Enforced")
    assert (status, reason) == ("False", "ForeignQuotaBelowPromise")
    assert "limits cpu to 4, the promise is 16" in message


def test_a_namespace_deleted_in_mid_burst_disturbs_nobody() -> None:
    world = World()
    batch(world, pods=10, wanted=20)
    world.queue(LQ, "burst", spec=latency_spec())
    world.controller("Job", None, job("burst", "burst-job", 16))
    world.settle(2.0)
    run(world, "burst", 16)
    world.settle(8.0)
    assert world.status("burst", kind=LQ)["window"]["state"] == "Open"
    before = world.hard("batch")
    world.namespace("burst", managed=True, phase="Terminating")
    plan = world.round()
    assert {write.namespace for write in plan.quota_writes} <= {"batch"}
    assert [write.entry.namespace for write in plan.statuses if write.entry.namespace == "burst"] == []
    del world.namespaces["", "burst"]  # the namespace goes first, its objects are still in our caches
    world.settle(5.0)
    assert world.hard("batch") == before
    assert world.status("batch")["class"] == "Elastic"
