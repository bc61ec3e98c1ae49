"""Lead time in rounds on a hand-built cluster: room is held ahead of a burst, and the queue says so. No I/O."""

from __future__ import annotations

from typing import Any

import pytest

from fairburst.kube.enforce.quota_plan import amounts
from fairburst.kube.names import QUOTA_NAME
from fairburst.kube.queues.job_annotations import FAMILY
from fairburst.policy.dress.learned import FamilyDurations
from fairburst.policy.dress.memory import DressMemory
from fairburst.policy.holding import LATE_SECONDS
from tests.support.objects import WALL, World, latency_spec
from tests.support.sized_work import OFF, ON, sized_job, sized_pod

LQ, TQ = "LatencyQueue", "ThroughputQueue"
ARRIVAL_SECONDS, TASK_SECONDS = 30.0, 20.0


def spec(**more: Any) -> dict[str, Any]:
    """16 of 64 cpu for 10 s every minute, first half a minute after the beginning."""
    wanted = latency_spec(duration=10, **({"leadTime": "Auto"} | more))
    return wanted | {"arrival": {"periodic": {"periodSeconds": 60, "firstArrival": "2026-01-01T00:00:30Z"}}}


def learned() -> DressMemory:
    """Tasks of the family run for twenty seconds, as they always have."""
    families = FamilyDurations.of({"batch/recurring": [TASK_SECONDS] * 32}, {"batch/recurring": WALL})
    return DressMemory(0.0, families=families)


def busy(world: World) -> None:
    """A throughput queue fills the cluster with a Job of that family, all of it started at the beginning."""
    world.queue(LQ, "burst", spec=spec())
    world.queue(TQ, "batch", created="2026-01-01T00:00:01Z")
    job = sized_job("batch", "large", 200, "large")
    job.metadata.labels = {FAMILY: "recurring"}
    world.controller("Job", None, job)
    for number in range(64):
        world.put(sized_pod("batch", number, "large", "large"))


def begin_anew(world: World, pods: int) -> None:
    """All batch work ends, and fifteen seconds later so many of its pods begin: none of them ends before the burst comes."""
    for number in range(64):
        world.end("batch", f"large-{number}")
    world.after(15.0)
    for number in range(pods):
        world.put(sized_pod("batch", 100 + number, "large", "large", started=15))


def batch_level(world: World) -> float:
    plan = world.round()
    return float(plan.result.level[[spec.name for spec in plan.snapshot.queues].index("batch/queue"), 0])


@pytest.fixture
def world() -> World:
    """A busy cluster that knows how long its tasks run."""
    made = World(ON)
    made.engine.remember_reserve(learned())
    busy(made)
    return made


def test_what_running_work_gives_back_in_time_is_not_held_and_what_it_does_not_is(world: World) -> None:
    world.after(5.0)
    assert batch_level(world) == 64, "all of it ends before the burst comes"
    assert world.status("burst", kind=LQ)["leadTime"]["reason"] == "EnoughExpected"
    world.after(15.0)
    for number in range(20):
        world.end("batch", f"large-{number}")
    for number in range(4):  # some places are taken by tasks that will not end before the burst comes
        world.put(sized_pod("batch", 100 + number, "large", "large", started=int(TASK_SECONDS)))
    for number in range(20, 64):
        world.end("batch", f"large-{number}")
    for number in range(20, 64):
        world.put(sized_pod("batch", 200 + number, "large", "large", started=int(TASK_SECONDS)))
    world.after(0.5)
    assert batch_level(world) <= 64 - 16
    world.after(5.0)
    world.round()
    status = world.status("burst", kind=LQ)["leadTime"]
    assert (status["reason"], status["held"]["cpu"], status["arrival"]) == ("Holding", "16", "2026-01-01T00:00:30Z")


def test_while_room_is_held_no_quota_lets_another_large_pod_in_and_afterwards_they_do(world: World) -> None:
    """Design §5: from then on only short small jobs get freed capacity. A quota that only followed the use down would be
    filled up again with each pod that ends."""
    begin_anew(world, 60)
    world.round()
    world.after(2.0)
    plan = world.round()
    assert plan.result.held_back is not None
    assert amounts(world.quotas["batch", QUOTA_NAME].spec.hard)["cpu"] <= 1.0, "its floor, one pod"
    world.after(ARRIVAL_SECONDS - 17.0 + 1.0)
    world.controller("Job", None, sized_job("burst", "burst", 16, None))
    world.round()
    world.after(2.0)
    world.round()
    assert amounts(world.quotas["batch", QUOTA_NAME].spec.hard)["cpu"] >= 48.0


def test_room_is_still_held_for_a_burst_that_comes_some_seconds_late_and_then_no_longer(world: World) -> None:
    """The operator sees a burst a little after its time. Without this margin batch work would take the room in between."""
    begin_anew(world, 48)
    world.after(ARRIVAL_SECONDS - 15.0 + 3.0)
    plan = world.round()
    assert plan.result.held_back is not None
    assert world.status("burst", kind=LQ)["leadTime"]["reason"] == "Holding"
    assert plan.due <= world.now + LATE_SECONDS - 3.0
    world.after(LATE_SECONDS - 3.0)
    assert world.round().result.held_back is None


def test_without_a_reserve_nothing_is_learned_and_the_queue_says_so() -> None:
    world = World(OFF)
    busy(world)
    assert batch_level(world) == 64
    status = world.status("burst", kind=LQ)["leadTime"]
    assert status["reason"] == "NotLearning"
    assert "smallJobs.enabled" in status["message"]


def test_without_history_nothing_is_held() -> None:
    world = World(ON)
    busy(world)
    world.after(20.0)
    assert batch_level(world) == 64
    assert world.status("burst", kind=LQ)["leadTime"]["reason"] == "NoHistory"


def test_when_the_burst_opens_the_queue_says_what_was_foretold_and_what_was_free(world: World) -> None:
    world.after(21.0)
    for number in range(24):
        world.end("batch", f"large-{number}")
    world.round()
    world.after(ARRIVAL_SECONDS - 21.0 + 0.5)
    world.controller("Job", None, sized_job("burst", "burst", 16, None))
    world.round()
    world.after(6.0)
    world.round()
    status = world.status("burst", kind=LQ)["leadTime"]
    assert status["reallyFree"]["cpu"] == "24"
    assert float(status["expectedFree"]["cpu"].rstrip("m")) > 0


def test_the_promise_remembers_lead_time_so_a_restart_changes_nothing() -> None:
    world = World(ON)
    busy(world)
    world.round()
    assert world.status("burst", kind=LQ)["promise"]["leadTime"] == "Auto"
    again = World(ON)
    for name in ("nodes", "namespaces", "quotas", "queues"):
        getattr(again, name).update(getattr(world, name))
    plan = again.plan()
    assert plan.events == []


def test_a_queue_with_a_phase_has_lead_time_unless_it_says_otherwise() -> None:
    world = World(ON)
    wanted = spec()
    del wanted["leadTime"]
    world.queue(LQ, "burst", spec=wanted)
    world.round()
    assert world.status("burst", kind=LQ)["leadTime"]["reason"] == "NoHistory"


@pytest.mark.parametrize(
    "wanted", [spec(leadTime="Off"), latency_spec(), latency_spec(leadTime="Auto")], ids=["off", "sporadic", "sporadic, auto"]
)
def test_a_queue_that_says_off_or_whose_bursts_come_at_any_time_has_no_lead_time(wanted: dict[str, Any]) -> None:
    world = World(ON)
    world.queue(LQ, "burst", spec=wanted)
    world.round()
    assert "leadTime" not in world.status("burst", kind=LQ)
    assert "leadTime" not in world.status("burst", kind=LQ)["promise"]
