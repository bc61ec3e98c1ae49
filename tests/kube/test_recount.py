"""Quotas that count pods which do not exist: when they are counted again, and how often."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from fairburst.kube.api.quota_objects import ResourceQuota
from fairburst.kube.enforce.quota_plan import QuotaPlanner, QuotaTarget
from fairburst.kube.enforce.recount import FIRST_SECONDS, LAST_SECONDS, Recounts
from fairburst.kube.names import SMALL_QUOTA
from tests.support.objects import GI, World, job, pod, quota
from tests.support.sized_work import ON, sized_job, sized_pod

HARD = {"requests.cpu": "7", "requests.memory": "7Gi", "pods": "100"}


def target(counted: float) -> QuotaTarget:
    """A level of six pods of a cpu and one of slack."""
    level, stored = {"cpu": 6.0, "memory": 6.0 * GI}, {"cpu": counted, "memory": counted * GI}
    return QuotaTarget("batch", level, {"cpu": 1.0, "memory": float(GI)}, stored, latency=False, pods=100)


def counting(pods: int) -> ResourceQuota:
    return quota("batch", HARD, {"requests.cpu": str(pods), "requests.memory": f"{pods}Gi", "pods": str(pods)})


def recounts(wanted: QuotaTarget, found: ResourceQuota, seconds: int) -> list[int]:
    """The seconds at which the quota is counted again; each time it is written."""
    observer, times = Recounts(), list[int]()
    for now in range(seconds):
        if observer.observe(wanted, found, {}, float(now)):
            observer.written(wanted.key, float(now))
            times.append(now)
    return times


def test_a_full_quota_that_counts_three_pods_too_many_is_counted_again_ever_more_rarely() -> None:
    times = recounts(target(4.0), counting(7), 3_000)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert times[0] == FIRST_SECONDS
    assert gaps[:3] == [2 * FIRST_SECONDS, 4 * FIRST_SECONDS, 8 * FIRST_SECONDS]
    assert gaps[-1] == LAST_SECONDS


def test_a_quota_whose_places_for_pods_are_full_is_counted_again_too() -> None:
    """Small pods fill the nodes' places first: cpu and memory are left."""
    hard = {"requests.cpu": "100", "requests.memory": "100Gi", "pods": "7"}
    full = quota("batch", hard, {"requests.cpu": "7", "requests.memory": "7Gi", "pods": "7"})
    assert recounts(target(4.0), full, 15) == [FIRST_SECONDS]


@pytest.mark.parametrize(
    ("counted", "used"), [pytest.param(7.0, 7, id="each pod exists"), pytest.param(3.0, 6, id="the next pod is admitted")]
)
def test_no_other_quota_is(counted: float, used: int) -> None:
    assert recounts(target(counted), counting(used), 300) == []


def test_pods_that_count_for_no_queue_are_none_too_many() -> None:
    """A DaemonSet's pods count for the namespace's quota and for no queue."""
    observer, wanted, unmanaged = Recounts(), target(4.0), {"cpu": 3.0, "memory": 3.0 * GI}
    assert not any(observer.observe(wanted, counting(7), unmanaged, float(now)) for now in range(300))


def at_work(pods: int) -> World:
    """Return a world with a Job of 100 pods of one cpu, of which so many run."""
    world = World("smallJobs: {enabled: false}")
    world.queue("ThroughputQueue", "batch")
    world.controller("Job", None, job("batch", "work", 100))
    world.settle(20.0)
    for number in range(pods):
        world.put(pod("batch", f"p{number}", owner=("Job", "work"), node="node-0", phase="Running"))
    world.settle(20.0)
    return world


def test_pods_of_a_daemon_set_that_wait_for_their_node_are_none_too_many_either() -> None:
    world = at_work(62)
    for number in range(3):
        world.put(pod("batch", f"agent-{number}", owner=("DaemonSet", "agent")))
    world.settle(20.0)
    world.quotas["batch", "fairburst"].status.used = {"requests.cpu": "65", "requests.memory": "65Gi"}
    assert world.hard("batch")["requests.cpu"] == "65"
    assert not [write for plan in world.settle(30.0) for write in plan.quota_writes]


def test_a_daemon_sets_pods_excuse_no_charge_of_the_quota_of_small_jobs_which_does_not_count_them() -> None:
    world, key = World(ON), ("batch", SMALL_QUOTA)
    world.queue("ThroughputQueue", "batch")
    world.controller("Job", None, sized_job("batch", "huge", 1, "large"))
    world.controller("Job", None, sized_job("batch", "tiny", 100, "small"))
    for number in range(58):
        world.put(sized_pod("batch", number, "tiny", "small", running=False))
    for number in range(4):
        world.put(pod("batch", f"agent-{number}", owner=("DaemonSet", "agent"), node="node-0", phase="Running"))
    world.settle(40.0)
    assert world.hard(*key)["requests.cpu"] == "61"
    world.quotas[key].status.used = {"requests.cpu": "61", "requests.memory": "61Gi"}
    assert [write.key for plan in world.settle(15.0) for write in plan.quota_writes] == [key]


def test_a_recount_that_was_not_written_is_proposed_until_it_is() -> None:
    observer, wanted, found = Recounts(), target(4.0), counting(7)
    observer.observe(wanted, found, {}, 0.0)
    assert all(observer.observe(wanted, found, {}, FIRST_SECONDS + second) for second in range(5))
    observer.written(wanted.key, 20.0)
    assert not observer.observe(wanted, found, {}, 21.0)
    assert observer.next_look(wanted.key) == 20.0 + 2 * FIRST_SECONDS


def test_a_recount_whose_write_failed_is_written_as_soon_as_the_server_takes_it() -> None:
    """The charges are lost where the API server is in trouble, and so are the writes."""
    world = at_work(60)
    world.quotas["batch", "fairburst"].status.used = dict(world.hard("batch"))
    begun, tried = world.now, list[float]()
    while world.now < begun + 16.0:
        plan = world.plan()
        tried += [world.now - begun for _ in plan.quota_writes]
        for write in plan.quota_writes:
            world.engine.quota_written(write, world.now, done=False)
        plan.quota_writes = []
        world.take(plan)
        world.after_due(plan)
    assert tried[:4] == [pytest.approx(FIRST_SECONDS + second, abs=0.5) for second in range(4)]


def test_a_quota_whose_use_still_changes_is_left_alone() -> None:
    """Charges of pods that have just ended are released within seconds."""
    observer, wanted = Recounts(), target(3.0)
    assert not any(observer.observe(wanted, counting(7 + now // 5 % 2), {}, float(now)) for now in range(300))
    assert observer.next_look(wanted.key) is not None
    observer.observe(wanted, counting(3), {}, 300.0)
    assert observer.next_look(wanted.key) is None


def test_the_recount_changes_the_spec_by_a_byte_and_no_use() -> None:
    planner = QuotaPlanner("default", 1.0)
    wanted = target(4.0)
    found = counting(7)
    assert planner.plan([wanted], {wanted.key: found}, 0.0) == ([], {})
    observer = Recounts()
    observer.observe(wanted, found, {}, 0.0)
    assert observer.observe(wanted, found, {}, FIRST_SECONDS)
    [write], _ = planner.plan([replace(wanted, recount=True)], {wanted.key: found}, FIRST_SECONDS)
    assert write.hard == {"requests.cpu": "7", "requests.memory": str(7 * int(GI) + 1), "pods": "100"}
    assert write.used == {}
