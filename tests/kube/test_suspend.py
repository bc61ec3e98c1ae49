"""Queues in Suspend mode: Jobs wait suspended and start whole, in order, when their full demand fits the queue's level."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fairburst.kube.enforce.suspend import LevelParts, starts
from fairburst.kube.names import HELD_ANNOTATION, RELEASED_ANNOTATION
from fairburst.kube.usage.demand import DesiredPods, NamespaceDemand, Owner, is_held
from fairburst.kube.usage.start_order import HeldJob, OrderedJobs
from tests.support.held_work import LQ, SUSPENDS, TQ, held, jobs, settle, waiting, world_with_batch
from tests.support.objects import World, job, latency_spec, pod


def finish(world: World, name: str) -> None:
    old = jobs(world)[name]
    world.controller("Job", old, None)


def test_the_status_tells_the_policy_to_hold_jobs_and_the_quota_holds_as_in_quota_mode() -> None:
    world = world_with_batch()
    held(world, "a", 10)
    settle(world)
    assert world.status("batch")["holds"] == "Jobs"
    assert world.condition(TQ, "batch", "Enforced")[:2] == ("True", "Suspend")
    assert world.hard("batch")["requests.cpu"] == "11", "ten pods, and one more for quick succession"


def test_a_held_job_is_demand_and_starts_whole_once_it_fits() -> None:
    world = world_with_batch()
    held(world, "a", 40)
    held(world, "b", 30, created=1)
    world.round()
    assert world.status("batch")["demand"]["cpu"] == "70"
    assert waiting(world) == ["b"], "24 places are too few for all of it"
    settle(world)
    assert waiting(world) == ["b"]
    assert world.plan().resyncs == [], "what is held lacks no pods"
    finish(world, "a")
    settle(world)
    assert waiting(world) == []
    assert RELEASED_ANNOTATION in (jobs(world)["b"].metadata.annotations or {})


def test_jobs_start_in_the_order_of_their_creation() -> None:
    world = world_with_batch()
    held(world, "c", 30, created=0)
    held(world, "b", 40, created=1)
    held(world, "a", 10, created=2)
    settle(world)
    assert waiting(world) == ["a", "b"], "b is first, and no Job behind it takes what it waits for"
    finish(world, "c")
    settle(world)
    assert waiting(world) == []


def test_held_jobs_are_put_in_order_when_their_namespace_is_read_and_not_in_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    world, orders = world_with_batch(), list[int]()
    of = OrderedJobs.of
    monkeypatch.setattr(OrderedJobs, "of", lambda held, resources: orders.append(len(held)) or of(held, resources))
    for number in range(20):
        held(world, f"job-{number}", 40)
    settle(world)
    world.queue(TQ, "other")
    before = len(orders)
    for number in range(30):
        world.put(pod("other", f"pod-{number}", node="node-0", phase="Running"))
        world.round()
        world.after(1.0)
    world.after(10.0)
    world.round()
    assert world.status("other")["usage"]["cpu"] == "30", "the levels of the held Jobs' queue have changed meanwhile"
    assert len(orders) == before
    held(world, "last", 40)
    world.round()
    assert len(orders) == before + 1


def test_a_job_that_fits_no_level_holds_up_nobody() -> None:
    world = world_with_batch()
    held(world, "absurd", 500)
    held(world, "small", 4, created=1)
    settle(world)
    assert waiting(world) == ["absurd"]


def test_a_job_needs_no_more_pods_than_it_has_completions_left() -> None:
    world = world_with_batch()
    held(world, "a", 500, completions=6)
    settle(world)
    assert waiting(world) == []


def test_two_queues_start_jobs_by_their_shares() -> None:
    world = world_with_batch()
    world.queue(TQ, "other", spec=SUSPENDS)
    for number in range(10):
        held(world, f"a{number}", 8, created=number)
        held(world, f"b{number}", 8, created=number, namespace="other")
    settle(world)
    assert (len(waiting(world)), len(waiting(world, "other"))) == (6, 6), "four of eight pods each"


def test_pods_that_run_besides_count_against_the_level() -> None:
    world = world_with_batch()
    for number in range(60):
        world.put(pod("batch", f"p{number}", node=f"node-{number % 2}", phase="Running"))
    held(world, "a", 6)
    settle(world)
    assert waiting(world) == ["a"]


def test_a_job_suspended_by_its_user_is_respected() -> None:
    """An older Job, and one that was started and then suspended."""
    world = world_with_batch()
    world.controller("Job", None, job("batch", "theirs", 4, suspend=True))
    held(world, "ours", 4)
    settle(world)
    assert waiting(world) == ["theirs"]
    started = jobs(world)["ours"]
    again = job("batch", "ours", 4, suspend=True)
    again.metadata.annotations = started.metadata.annotations
    world.controller("Job", started, again)
    settle(world)
    assert waiting(world) == ["ours", "theirs"]
    assert world.plan().starts == []


def test_a_job_that_somebody_started_over_our_heads_loses_our_note() -> None:
    """Otherwise a later suspension by its user would be taken for ours."""
    world = world_with_batch()
    held(world, "a", 500)
    settle(world)
    old = jobs(world)["a"]
    started = job("batch", "a", 500)
    started.metadata.annotations, started.metadata.resource_version = {HELD_ANNOTATION: "true"}, "2"
    world.controller("Job", old, started)
    settle(world)
    assert HELD_ANNOTATION not in (jobs(world)["a"].metadata.annotations or {})
    assert world.plan().starts == []


def test_a_job_that_changes_while_suspended_starts_by_what_it_is_now() -> None:
    """A start is valid for one version only: one for an older version is refused, and decided again."""
    world = world_with_batch()
    held(world, "a", 4)
    plan = world.plan()
    assert [start.name for start in plan.starts] == ["a"]
    grown = job("batch", "a", 500, suspend=True)
    grown.metadata.annotations, grown.metadata.resource_version = {HELD_ANNOTATION: "true"}, "2"
    world.controller("Job", jobs(world)["a"], grown)
    world.take(plan)
    assert waiting(world) == ["a"]
    settle(world)
    assert waiting(world) == ["a"], "500 pods fit nowhere"
    shrunk = job("batch", "a", 5, suspend=True)
    shrunk.metadata.annotations, shrunk.metadata.resource_version = {HELD_ANNOTATION: "true"}, "3"
    world.controller("Job", jobs(world)["a"], shrunk)
    settle(world)
    assert waiting(world) == []


def test_the_jobs_of_a_burst_start_before_those_of_batch() -> None:
    world = world_with_batch()
    world.queue(LQ, "burst", spec=latency_spec("16") | SUSPENDS, created="2026-02-01T00:00:00Z")
    settle(world)
    held(world, "a", 10)
    held(world, "b", 10, namespace="burst")
    assert [start.namespace for start in world.plan().starts] == ["burst", "batch"]


@pytest.mark.parametrize("change", [{"enforcement": "Gate"}, {"enforcement": "Observe"}, None], ids=["to gate", "to observe", "deleted"])
def test_when_a_queue_leaves_suspend_mode_all_its_jobs_start(change: dict[str, Any] | None) -> None:
    world = world_with_batch()
    for number in range(5):
        held(world, f"a{number}", 30)
    settle(world)
    assert len(waiting(world)) == 3
    if change is None:
        del world.queues[TQ, "batch", "queue"]
    else:
        world.queue(TQ, "batch", spec=change, generation=2, status=world.status("batch"))
    world.round()
    assert waiting(world) == []


def test_jobs_of_another_pools_queue_are_left_to_its_operator() -> None:
    world = World()
    world.queue(TQ, "theirs", spec=SUSPENDS | {"pool": "gpu"})
    held(world, "a", 1, namespace="theirs")
    settle(world)
    assert waiting(world, "theirs") == ["a"]


def test_a_settled_cluster_with_waiting_jobs_gets_no_writes() -> None:
    world = world_with_batch()
    held(world, "a", 500)
    settle(world)
    world.after(190.0)  # the first figures of a week come after three minutes at most
    settle(world)
    for _ in range(20):
        plan = world.plan()
        assert (plan.quota_writes, plan.statuses, plan.events, plan.starts, plan.resyncs) == ([], [], [], [], [])
        world.after_due(plan)


def test_a_queue_whose_jobs_all_wait_keeps_the_quota_of_an_idle_one() -> None:
    """With 1,000 queues whose first Jobs came, 900 quotas were lowered by a pod that none of the Jobs could have used."""
    world, crowd = world_with_batch(), [f"crowd-{number}" for number in range(20)]
    for where in crowd:
        world.queue(TQ, where, spec=SUSPENDS)
    settle(world)
    idle, written = {where: world.hard(where) for where in crowd}, Counter[str]()
    for where in crowd:
        held(world, "a", 32, namespace=where)
    for _ in range(5):
        written.update(write.namespace for write in world.round().quota_writes)
        world.after(1.0)
    still = [where for where in crowd if waiting(world, where)]
    assert len(still) == len(crowd) - 2
    assert {where: world.hard(where) for where in still} == {where: idle[where] for where in still}
    assert written.keys() == set(crowd) - set(still)


def test_the_places_of_started_jobs_are_kept_until_their_pods_exist() -> None:
    """Several Jobs start at once in a large share. Newcomers lowered it before the Job controller had come to them, and started more Jobs
    in the same places."""
    world = world_with_batch()
    settle(world)
    for number in range(4):
        held(world, f"first-{number}", 8, created=number)
    world.round()
    assert waiting(world) == []
    crowd = [f"crowd-{number}" for number in range(15)]
    for where in crowd:
        world.queue(TQ, where, spec=SUSPENDS)
        held(world, "a", 8, namespace=where)
    settle(world)
    started = [where for where in crowd if not waiting(world, where)]
    assert len(started) == 4, "32 places are those of the first Jobs"
    assert float(world.hard("batch")["requests.cpu"]) >= 32


def test_only_our_note_on_a_suspended_job_means_held() -> None:
    plain, running, ours = job("n", "a", suspend=True), job("n", "b"), job("n", "c", suspend=True)
    running.metadata.annotations = ours.metadata.annotations = {HELD_ANNOTATION: "true"}
    assert [is_held(one) for one in (plain, running, ours)] == [False, False, True]


def test_a_job_larger_than_the_queues_level_is_named_with_both_numbers_and_the_condition_goes_when_it_fits() -> None:
    """It never starts, and without this condition its owner would not see why."""
    world = world_with_batch()
    settle(world)
    assert world.condition(TQ, "batch", "JobsFit")[:2] == ("True", "Fit")
    held(world, "huge", 65)
    held(world, "fits", 30, created=1)
    settle(world)
    assert waiting(world) == ["huge"]
    status, reason, message = world.condition(TQ, "batch", "JobsFit")
    assert (status, reason) == ("False", "LargerThanLevel")
    assert "Job batch/huge starts whole and needs 65 cpu, the queue's level is 64." in message
    old = jobs(world)["huge"]
    world.controller("Job", old, None)
    held(world, "huge", 34)
    settle(world)
    assert waiting(world) == []
    assert world.condition(TQ, "batch", "JobsFit")[:2] == ("True", "Fit")


def test_a_job_larger_than_the_level_is_named_also_beside_one_that_no_node_could_hold() -> None:
    world = world_with_batch()
    settle(world)
    held(world, "wide", 65)
    held(world, "deep", 1, cpu="100")
    settle(world)
    assert waiting(world) == ["deep", "wide"]
    _, reason, message = world.condition(TQ, "batch", "JobsFit")
    assert reason == "LargerThanLevel"
    assert "Job batch/wide starts whole and needs 65 cpu, the queue's level is 64." in message
    assert "Job deep: a pod asks for 100 cpu" in message


def test_a_job_that_fits_the_pool_but_neither_the_queues_share_nor_a_turn_is_named_too() -> None:
    world = world_with_batch()
    world.queue(TQ, "other", spec=SUSPENDS)
    held(world, "wide", 40)
    held(world, "wide", 40, namespace="other")
    settle(world)
    first, second = (world.condition(TQ, where, "JobsFit") for where in ("batch", "other"))
    assert first[1] == "Fit"  # idle capacity is lent to one of them, and the other waits for it
    assert second[1] == "LargerThanLevel"
    assert "needs 40 cpu, the queue's level is 24" in second[2]


def test_a_job_that_a_turn_holds_waits_for_it_and_one_beyond_the_queues_limit_is_named() -> None:
    world = world_with_batch(config="allocation: {largestTurnPercent: 70}")
    world.queue(TQ, "other", spec=SUSPENDS | {"limits": {"cpu": "39"}})
    held(world, "wide", 40)
    held(world, "wide", 40, namespace="other")
    held(world, "fits", 38, namespace="other", created=1)
    settle(world)
    first, second = (world.condition(TQ, where, "JobsFit") for where in ("batch", "other"))
    assert first[1] == "Fit"
    assert second[1] == "LargerThanLevel"
    assert second[2].startswith("Job other/wide starts whole and needs 40 cpu, the queue's level is 38. It waits"), (
        "in the turn of the next"
    )


def test_small_jobs_start_first_as_far_as_their_part_goes_and_no_quota_of_the_parts_refuses_their_pods() -> None:
    """The starts hold the division between small and large Jobs. Quotas of the parts would refuse pods of Jobs that have started."""
    world = world_with_batch(config="smallJobs: {enabled: true, thresholdPercent: 10, minReservePercent: 10}")
    for number in range(6):
        held(world, f"large-{number}", 20, created=number)
    for number in range(40):
        held(world, f"small-{number}", 4, created=number + 10)
    settle(world)
    started = Counter(name.split("-")[0] for name in set(jobs(world)) - set(waiting(world)))
    assert started["small"] >= 2, "the reserve is a tenth of 64 cpu, and more as long as it is asked for"
    assert started["large"] >= 1, "they have the rest"
    assert started["small"] * 4 + started["large"] * 20 <= 64
    assert {name for namespace, name in world.view.quotas if namespace == "batch"} == {"fairburst"}


def test_the_first_job_of_a_part_starts_though_it_is_larger_than_the_part() -> None:
    resources = ("cpu",)
    running = DesiredPods(Owner("Job", "batch", "running", "running", 20, 20, {"cpu": 1.0}), job("batch", "running", 20))
    first, second = (HeldJob(job("batch", name, 4), {"cpu": 4.0}) for name in ("first", "second"))
    small = frozenset({first.job.metadata.uid, second.job.metadata.uid})
    demand = NamespaceDemand(demand={"cpu": 28.0}, held=[first, second], desired_pods=[running], resources=resources)
    parts = LevelParts(small=[2.0], large=[28.0], small_owners=small)
    assert [one.name for one in starts(demand, resources, [30.0], [0.0], parts)] == ["first"]
    parts = LevelParts(small=[8.0], large=[22.0], small_owners=small)
    assert [one.name for one in starts(demand, resources, [30.0], [0.0], parts)] == ["first", "second"]
    assert [one.name for one in starts(demand, resources, [20.0], [0.0], parts)] == [], "the level is full"
    assert [one.name for one in starts(demand, resources, [20.0], [4.0], parts)] == ["first"], "as far as Jobs may start early"
