"""The reserve for small jobs in rounds on a hand-built cluster: sizes and classes in, quotas by class and figures out. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairburst.kube.enforce.quota_scope import SYSTEM_CLASSES
from fairburst.kube.jobs.job_size import SIZE_LABEL
from fairburst.kube.names import SMALL_UP_TO_ANNOTATION
from fairburst.policy.dress.memory import DressMemory
from fairburst.quantity import parse_quantity
from tests.support.objects import GI, World, job, latency_spec, pod, requesting
from tests.support.sized_work import OFF, ON, sized_job, sized_pod

TQ, LQ = "ThroughputQueue", "LatencyQueue"
SMALL = "fairburst-small"


def submit(world: World, namespace: str, name: str, pods: int, size: str, running: int = 0) -> None:
    world.controller("Job", None, sized_job(namespace, name, pods, size))
    for number in range(running):
        world.put(sized_pod(namespace, number, name, size))


def batch(world: World, namespace: str = "batch", large: int = 100, running: int = 64, **queue: Any) -> None:
    """A throughput queue whose large Job fills the cluster of 64 cpu."""
    world.queue(TQ, namespace, **queue)
    submit(world, namespace, "large", large, "large", running)


def cpu(world: World, quota: str, namespace: str = "batch") -> float:
    return parse_quantity(world.hard(namespace, quota)["requests.cpu"])


@pytest.fixture
def world() -> World:
    """A cluster that a queue's large Job fills."""
    made = World(ON)
    batch(made)
    return made


def test_a_queue_with_jobs_of_either_size_gets_a_second_quota_and_each_pod_counts_for_one(world: World) -> None:
    world.round()
    assert {name for _, name in world.quotas} == {"fairburst"}, "nothing to divide"
    submit(world, "batch", "small", 4, "small")
    world.round()
    assert world.scope("batch", SMALL) == ("In", {SMALL})
    assert world.scope("batch", "fairburst") == ("NotIn", {*SYSTEM_CLASSES}), "no pod may count for none: the other comes first"
    assert cpu(world, "fairburst") == 65
    world.settle(2.0)
    assert world.scope("batch", "fairburst") == ("NotIn", {*SYSTEM_CLASSES, SMALL})
    assert cpu(world, "fairburst") + cpu(world, SMALL) == 66, "the level, and a pod of either size"
    used = world.quotas["batch", "fairburst"].status.used
    assert used is not None
    assert used["requests.cpu"] == "64", "without the small pods"


def test_the_quota_of_small_jobs_goes_once_the_namespace_quota_counts_their_pods(world: World) -> None:
    submit(world, "batch", "small", 4, "small", running=2)
    world.settle()
    world.queue(TQ, "batch", spec={"reserve": "Off"}, generation=2, status=world.status("batch"))
    plan = world.round()
    assert (world.scope("batch", "fairburst"), plan.quota_deletions) == (("NotIn", {*SYSTEM_CLASSES}), [])
    assert world.round().quota_deletions == [("batch", SMALL)]


def test_the_quota_of_small_jobs_of_a_former_pool_goes(world: World) -> None:
    """The pool has another name in the configuration, or the queue was created again in another pool, whose operator does not run any more.
    Small pods then counted for a second quota, of an amount that no one changed."""
    submit(world, "batch", "small", 4, "small", running=2)
    world.settle()
    other = World("{smallJobs: {enabled: true}, pool: {name: other}}")
    other.namespaces.update(world.namespaces)
    other.quotas.update(world.quotas)
    for one in world.pods.values():
        other.put(one)
    other.queue(TQ, "batch", spec={"pool": "other"}, uid="again")
    submit(other, "batch", "small", 4, "small")
    other.settle()
    assert {name for _, name in other.quotas} == {"fairburst"}
    assert other.scope("batch", "fairburst") == ("NotIn", {*SYSTEM_CLASSES})


def test_a_deleted_quota_of_small_jobs_is_made_again_while_the_namespace_quota_counts_their_pods(world: World) -> None:
    submit(world, "batch", "small", 4, "small", running=2)
    world.settle()
    del world.quotas["batch", SMALL]
    world.round()
    assert world.scope("batch", "fairburst") == ("NotIn", {*SYSTEM_CLASSES})
    assert ("batch", SMALL) in world.quotas
    world.settle(2.0)
    assert world.scope("batch", "fairburst") == ("NotIn", {*SYSTEM_CLASSES, SMALL})


def test_small_jobs_get_their_part_at_once_and_large_ones_shrink_by_it(world: World) -> None:
    world.settle()
    submit(world, "batch", "small", 4, "small")
    world.after(1.0)
    plan = world.round()
    assert plan.result.small_level is not None
    assert plan.result.small_level[0, 0] == pytest.approx(4.0)
    assert cpu(world, SMALL) == 5, "what they want, and one pod more"
    world.settle(2.0)
    assert cpu(world, "fairburst") == 61, "the rest of the level, and one pod"


def test_small_jobs_can_be_created_before_they_are_decided_on_as_far_as_the_reserve_goes() -> None:
    world = World("smallJobs: {enabled: true, minReservePercent: 20}")
    batch(world, large=20, running=20)
    submit(world, "batch", "small", 1, "small", running=1)
    world.settle()
    assert cpu(world, SMALL) == pytest.approx(0.2 * 64, abs=1.01)


def test_some_pod_of_either_size_can_always_be_created() -> None:
    world = World(ON)
    batch(world, large=2, running=2)
    submit(world, "batch", "small", 62, "small", running=62)
    world.settle()
    for name in (SMALL, "fairburst"):
        used = 62.0 if name == SMALL else 2.0
        assert cpu(world, name) >= min(used, 1.0) + 1.0


def test_the_core_moves_nothing_between_queues() -> None:
    """design §4: δ chooses the split inside the queues' totals."""
    off, on = World(OFF), World(ON)
    for world in (off, on):
        batch(world, running=32)
        world.queue(TQ, "other", created="2026-01-01T00:00:01Z")
        submit(world, "other", "small", 40, "small", running=32)
        world.settle()
    for namespace in ("batch", "other"):
        assert off.hard(namespace) == on.hard(namespace)


def test_the_status_carries_threshold_and_both_priorities(world: World) -> None:
    submit(world, "batch", "small", 4, "small")
    world.settle()
    status = world.status("batch")
    assert status["sizeThreshold"] == {"cpu": "6400m", "memory": str(int(12.8 * GI))}
    assert status["podPriority"] == {"className": "fairburst-large", "value": -2, "preemptionPolicy": "Never"}
    assert status["smallPodPriority"] == {"className": "fairburst-small", "value": -1, "preemptionPolicy": "Never"}
    assert (status["reserve"]["smallJobs"], status["reserve"]["largeJobs"]) == (1, 1)
    assert world.condition(TQ, "batch", "JobsFit")[:2] == ("False", "NeverFits"), "a hundred pods on 64 cpu"


def noted(world: World) -> str | None:
    """Return the threshold on the namespace quota, where the policy on Jobs reads it."""
    return (world.quotas["batch", "fairburst"].metadata.annotations or {}).get(SMALL_UP_TO_ANNOTATION)


def test_the_namespace_quota_carries_the_threshold_until_the_queue_keeps_no_reserve(world: World) -> None:
    world.settle()
    assert noted(world) == f"cpu=6400m,memory={int(12.8 * GI)}"
    world.queue(TQ, "batch", spec={"reserve": "Off"}, generation=2, status=world.status("batch"))
    submit(world, "batch", "more", 4, "large")
    world.settle()
    assert noted(world) is None


def test_a_queues_own_threshold_goes_before_the_pools() -> None:
    world = World(ON)
    batch(world, spec={"smallJobs": {"thresholdPercent": 50}})
    world.round()
    assert world.status("batch")["sizeThreshold"]["cpu"] == "32"


@pytest.mark.parametrize("spec", [{"reserve": "Off"}, {"enforcement": "Observe"}])
def test_a_queue_without_a_reserve_has_no_quotas_by_size_and_loses_those_it_had(world: World, spec: dict[str, Any]) -> None:
    world.settle()
    world.queue(TQ, "batch", spec=spec, generation=2, status=world.status("batch"))
    world.settle()
    assert SMALL not in {name for _, name in world.quotas}
    assert "smallPodPriority" not in world.status("batch")
    if "reserve" in spec:
        assert not {"sizeThreshold", "reserve"} & set(world.status("batch"))


def test_a_quota_of_small_jobs_whose_labels_were_removed_by_hand_goes_all_the_same(world: World) -> None:
    submit(world, "batch", "small", 4, "small")
    world.settle(2.0)
    quota = world.quotas["batch", SMALL]
    world.quotas["batch", SMALL] = msgspec.structs.replace(quota, metadata=msgspec.structs.replace(quota.metadata, labels=None))
    world.namespace("elsewhere")
    world.quotas["elsewhere", SMALL] = msgspec.structs.replace(
        quota, metadata=msgspec.structs.replace(quota.metadata, labels=None, namespace="elsewhere")
    )
    world.queue(TQ, "batch", spec={"reserve": "Off"}, generation=2, status=world.status("batch"))
    world.settle()
    assert [key for key in world.quotas if key[1] == SMALL] == [("elsewhere", SMALL)], "not another one's of the same name"


def test_latency_queues_and_namespaces_without_a_queue_have_none() -> None:
    world = World(ON)
    world.queue(LQ, "burst", spec=latency_spec())
    world.namespace("left", managed=True)
    world.settle()
    assert {name for _, name in world.quotas} == {"fairburst"}
    assert "smallPodPriority" not in world.status("burst", kind=LQ)


def test_an_operator_without_a_reserve_removes_what_an_earlier_one_left(world: World) -> None:
    world.settle()
    again = World(OFF)
    for name in ("nodes", "namespaces", "quotas", "queues"):
        getattr(again, name).update(getattr(world, name))
    again.controller("Job", None, sized_job("batch", "large", 100, "large"))
    again.settle()
    assert {name for _, name in again.quotas} == {"fairburst"}
    assert not {"smallPodPriority", "sizeThreshold", "reserve"} & set(again.status("batch"))


def test_without_a_reserve_nothing_is_different_from_what_it_was() -> None:
    """Off means that every part is absent: no jobs in the snapshot, no small level, no quota by class, no field in the status."""
    world = World(OFF)
    batch(world)
    submit(world, "batch", "small", 4, "small", running=2)
    for plan in world.settle():
        assert (plan.snapshot.jobs, plan.result.small_level, plan.result.dress) == (None, None, None)
    assert {name for _, name in world.quotas} == {"fairburst"}
    assert not {"smallPodPriority", "sizeThreshold", "reserve"} & set(world.status("batch"))
    assert {one["type"] for one in world.status("batch")["conditions"]} == {"Admitted", "Enforced", "Ready"}


def test_a_queue_whose_small_jobs_come_and_go_stays_divided_and_one_without_them_is_undivided_again(world: World) -> None:
    submit(world, "batch", "small", 1, "small", running=1)
    world.settle()
    world.controller("Job", sized_job("batch", "small", 1, "small"), None)
    world.end("batch", "small-0")
    for plan in world.settle(50.0):
        assert plan.quota_deletions == []
    deleted = [key for plan in world.settle(30.0) for key in plan.quota_deletions]
    assert deleted == [("batch", SMALL)]


def test_a_settled_cluster_with_a_reserve_gets_no_writes() -> None:
    world = World(ON)
    batch(world, large=20, running=20)
    submit(world, "batch", "small", 4, "small", running=4)
    world.settle(190.0)  # a busy queue's first figure of the week comes after three minutes at most
    for plan in world.settle(60.0):
        assert (plan.labels, plan.quota_writes, plan.quota_deletions, plan.statuses, plan.events) == ({}, [], [], [], [])


def test_a_small_job_that_a_full_namespace_has_blocked_is_woken_when_there_is_room(world: World) -> None:
    world.settle()
    submit(world, "batch", "small", 4, "small")
    world.round()
    for number in range(4):
        world.end("batch", f"large-{number}")
    plans = world.settle(8.0)
    resynced = [owner.name for plan in plans for owner in plan.resyncs]
    assert "small" in resynced


def test_a_job_without_a_label_is_sized_by_the_operators_own_arithmetic_and_keeps_its_size() -> None:
    world = World(ON)
    batch(world, large=0, running=0)
    world.controller("Job", None, sized_job("batch", "three", 3, None))
    world.controller("Job", None, sized_job("batch", "seven", 7, None))
    plan = world.round()
    assert plan.snapshot.jobs is not None
    sizes = {one.name: one.category.value for one in plan.snapshot.jobs.pending if one.category}
    assert sizes == {"Job batch/three": "small", "Job batch/seven": "large"}
    world.controller("Job", sized_job("batch", "three", 3, None), sized_job("batch", "three", 30, None))
    plan = world.round()
    assert plan.snapshot.jobs is not None
    assert {one.name: one.category.value for one in plan.snapshot.jobs.pending if one.category} == sizes


def test_pods_of_one_group_are_one_job() -> None:
    world = World(ON)
    world.queue(TQ, "batch")
    for number in range(3):
        one = sized_job("batch", f"part-{number}", 2, "large")
        one.spec.template.metadata.labels = {SIZE_LABEL: "large", "fairburst.dev/job": "whole"}
        world.controller("Job", None, one)
    plan = world.round()
    assert plan.snapshot.jobs is not None
    (whole,) = plan.snapshot.jobs.pending
    assert whole.request.tolist() == [6.0, 6 * GI]


def test_a_bare_pod_is_a_job_of_its_own() -> None:
    world = World(ON)
    world.queue(TQ, "batch")
    world.put(pod("batch", "bare"))
    plan = world.round()
    assert plan.snapshot.jobs is not None
    assert [(one.name, one.request.tolist()) for one in plan.snapshot.jobs.pending] == [("Pod batch/bare", [1.0, GI])]


def test_the_memory_of_an_earlier_process_is_taken_over() -> None:
    world = World(ON)
    world.engine.remember_reserve(DressMemory(0.25))
    batch(world)
    submit(world, "batch", "small", 30, "small")
    plan = world.round()
    assert plan.result.reserve_ratio is not None
    assert plan.result.reserve_ratio >= 0.2
    assert world.engine.memory.dress is not None


@pytest.mark.parametrize("requests", [requesting("1", "8Ei"), requesting("1e15", "1e30")])
def test_a_job_that_asks_for_more_than_any_cluster_has_stops_no_round(requests: dict[str, Any]) -> None:
    world = World(ON)
    batch(world, large=4, running=4)
    monster = job("batch", "monster", 2_000_000_000, requests)
    monster.spec.template.metadata.labels = {SIZE_LABEL: "large"}
    world.controller("Job", None, monster)
    world.settle(5.0)
    assert world.condition(TQ, "batch", "JobsFit")[:2] == ("False", "LargerThanNodes")
    assert {name for _, name in world.quotas} == {"fairburst"}


def test_a_queue_of_which_no_job_is_labelled_still_runs() -> None:
    """Jobs that are older than the policy: their pods have the large class and count as large from the first."""
    world = World(ON)
    world.queue(TQ, "batch")
    world.controller("Job", None, job("batch", "old", 5, requesting()))
    world.round()
    world.put(sized_pod("batch", 0, "old", "large"))
    submit(world, "batch", "small", 1, "small", running=1)
    world.settle()
    assert cpu(world, "fairburst") + cpu(world, SMALL) == 64, "its demand is met, so its quotas are what it would be given"
