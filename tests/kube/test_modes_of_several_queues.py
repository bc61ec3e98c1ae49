"""Several queues in one namespace, each in a mode of its own: each holds and releases its own work, and no other's."""

from __future__ import annotations

import math

import pytest

from fairburst.kube.api.objects import Job
from fairburst.kube.enforce.holds import HOLD_SETTLES_SECONDS
from fairburst.kube.usage.gated_pods import GROUP_LABEL, GROUP_SIZE
from fairburst.kube.views.forecast_view import QueueForecast, StartForecast
from tests.support import lanes
from tests.support.lanes import LQ, TQ, asking, of_class
from tests.support.objects import World, job, latency_spec

LANE = "fairburst-queue-1"


def team(default: str = "Quota", further: str = "Quota") -> World:
    """A namespace with a latency queue and a throughput queue. 64 cpu."""
    world = World()
    world.queue(LQ, "team", "bursts", latency_spec(cpu="16", enforcement=default), created="2026-01-01T00:00:00Z")
    world.queue(TQ, "team", "nightly", {"enforcement": further}, created="2026-01-01T00:00:01Z")
    settle(world)
    return world


def settle(world: World) -> None:
    for _ in range(4):
        world.round()
        world.after(HOLD_SETTLES_SECONDS)


def gated(world: World, name: str, class_name: str, created: int = 0, **labels: str) -> None:
    """A pod of this class behind our gate."""
    world.put(lanes.gated(of_class(name, class_name, creationTimestamp=f"2026-01-01T00:00:{created:02}Z", labels=labels)))


def gated_nights(world: World) -> None:
    """A hundred pods of the further queue behind our gate, more than its level."""
    for number in range(100):
        gated(world, f"night-{number:02}", LANE)
    settle(world)


def waiting_pods(world: World) -> list[str]:
    return sorted(name for (_, name), one in world.pods.items() if one.gated)


def held(world: World, one: Job) -> None:
    """A Job as the policy has suspended it."""
    world.controller("Job", None, lanes.held(one))


def waiting_jobs(world: World) -> list[str]:
    return sorted(one.metadata.name for one in world.view.controllers.workloads("team").of("Job") if one.spec.suspend)


def labels_of(world: World) -> dict[str, str]:
    return world.namespaces["", "team"].metadata.labels or {}


@pytest.mark.parametrize(
    ("default", "further", "holds", "queues_hold"),
    [
        ("Quota", "Suspend", None, "1-Jobs"),
        ("Quota", "Gate", None, "1-Pods"),
        ("Gate", "Quota", "Pods", None),
        ("Suspend", "Gate", "Jobs", "1-Pods"),
    ],
)
def test_the_namespace_says_which_queue_holds_what(default: str, further: str, holds: str | None, queues_hold: str | None) -> None:
    world = team(default, further)
    labels = labels_of(world)
    assert (labels.get("fairburst.dev/holds"), labels.get("fairburst.dev/queues-hold")) == (holds, queues_hold)
    assert world.condition(LQ, "team", "Enforced", "bursts")[:2] == ("True", default)
    assert world.condition(TQ, "team", "Enforced", "nightly")[:2] == ("True", further)
    assert world.status("team", "nightly").get("holds") == (queues_hold.partition("-")[2] if queues_hold else None)


def test_gated_pods_of_one_queue_go_by_its_level_and_those_of_the_other_by_theirs() -> None:
    world = team("Gate", "Gate")
    for number in range(100):
        gated(world, f"night-{number:02}", LANE)
        gated(world, f"day-{number:02}", "fairburst-hard")
    settle(world)
    result = world.plan()
    level = dict(zip([spec.name for spec in result.snapshot.queues], result.result.level[:, 0].tolist(), strict=True))
    left = waiting_pods(world)
    assert 100 - sum(name.startswith("night") for name in left) == int(level["team/nightly"] + 1e-6)
    assert 100 - sum(name.startswith("day") for name in left) == int(level["team/bursts"] + 1e-6)
    assert 0 < len(left) < 200


def test_a_queue_behind_gates_leaves_the_pods_of_a_quota_queue_alone_and_only_its_quota_has_no_limits() -> None:
    world = team("Quota", "Gate")
    assert world.permitted_cpu("team", "fairburst-queue-1") == math.inf
    assert world.permitted_cpu("team", "fairburst") < 64
    gated(world, "night", LANE)
    settle(world)
    assert waiting_pods(world) == []


def test_pods_that_a_queue_no_longer_holds_are_all_released() -> None:
    world = team("Quota", "Gate")
    gated_nights(world)
    assert waiting_pods(world)
    world.queue(TQ, "team", "nightly", {"enforcement": "Quota"}, created="2026-01-01T00:00:01Z", generation=2)
    settle(world)
    assert waiting_pods(world) == []


def test_gated_pods_of_a_deleted_queue_wait_for_the_default_queue_if_it_holds_pods() -> None:
    world = team("Gate", "Gate")
    gated_nights(world)
    before = waiting_pods(world)
    del world.queues[TQ, "team", "nightly"]
    settle(world)
    assert world.engine.gates.gated.waiting() == {"team"}
    assert waiting_pods(world) == before, "the released ones take all of the default queue's level"


def test_gated_pods_of_a_deleted_queue_are_released_where_the_default_queue_holds_none() -> None:
    world = team("Quota", "Gate")
    gated_nights(world)
    del world.queues[TQ, "team", "nightly"]
    settle(world)
    assert waiting_pods(world) == []


def test_a_group_is_of_one_queue() -> None:
    world = team("Gate", "Gate")
    group = {GROUP_LABEL: "mixed", GROUP_SIZE: "2"}
    gated(world, "night-0", LANE, **group)
    gated(world, "day-0", "fairburst-hard", **group)
    settle(world)
    assert waiting_pods(world) == ["day-0", "night-0"], "each queue has one pod of two"
    gated(world, "night-1", LANE, **group)
    settle(world)
    assert waiting_pods(world) == ["day-0"]


def test_a_suspended_queue_starts_its_jobs_whole_beside_a_quota_queue() -> None:
    world = team("Quota", "Suspend")
    world.queue(TQ, "rival", created="2026-01-01T00:00:02Z")
    world.controller("Job", None, job("rival", "work", 200))
    held(world, asking("first", 20, "nightly"))
    held(world, asking("second", 40, "nightly"))
    world.controller("Job", None, job("team", "day", 4))
    settle(world)
    assert waiting_jobs(world) == ["second"], "a third of the pool is for nightly"
    assert world.condition(TQ, "team", "JobsFit", "nightly")[1] == "LargerThanLevel"
    assert "second" in world.condition(TQ, "team", "JobsFit", "nightly")[2]


def test_held_jobs_start_when_their_own_queue_holds_none() -> None:
    """Also one whose label was changed while it waited: its pods will belong to the other queue."""
    world = team("Quota", "Suspend")
    held(world, asking("moved", 2, ""))
    held(world, asking("absurd", 500, "nightly"))
    settle(world)
    assert waiting_jobs(world) == ["absurd"]
    world.queue(TQ, "team", "nightly", {"enforcement": "Quota"}, created="2026-01-01T00:00:01Z", generation=2)
    settle(world)
    assert waiting_jobs(world) == []


def test_a_held_job_of_the_default_queue_waits_for_that_queue_alone() -> None:
    world = team("Suspend", "Quota")
    held(world, job("team", "day", 500))
    held(world, asking("night", 500, "nightly"))
    settle(world)
    assert waiting_jobs(world) == ["day"]


@pytest.mark.parametrize(("default", "further"), [("Gate", "Suspend"), ("Suspend", "Gate")])
def test_a_settled_namespace_gets_no_writes(default: str, further: str) -> None:
    world = team(default, further)
    held(world, asking("absurd", 500, "nightly" if further == "Suspend" else ""))
    gated(world, "pod", LANE if further == "Gate" else "fairburst-hard")
    for _ in range(30):
        world.round()
        world.after(2.0)
    plan = world.round()
    assert [plan.quota_writes, plan.labels, plan.quota_deletions, plan.ungates, plan.starts] == [[], {}, [], [], []]
    assert not world.engine.contained.failures


def test_another_engine_takes_over_with_gated_pods_in_their_queues() -> None:
    world = team("Gate", "Gate")
    gated_nights(world)
    before = waiting_pods(world)
    assert before
    other = World()
    other.queues, other.wall, other.now = world.queues, world.wall, world.now
    other.namespaces.update(world.namespaces)
    other.quotas.update(world.quotas)
    for one in world.pods.values():
        other.put(one)
    other.round()
    assert waiting_pods(other) == before
    assert other.engine.gates.gated.waiting() == {"team/nightly"}


def test_a_queue_behind_gates_says_when_its_first_pod_starts_whichever_queue_it_is() -> None:
    """The default queue's pods were taken for those of the further one, so that its forecast was withdrawn at once."""
    world = team("Quota", "Gate")
    gated_nights(world)
    first = world.pods["team", waiting_pods(world)[0]].metadata
    at = world.wall + 100.0
    start = StartForecast(world.wall, at, {50: (at - 10, at + 10), 90: (at - 20, at + 20)})
    world.engine.forecast({}, {"team/nightly": QueueForecast(f"Pod {first.name}", start, None, first.uid)}, world.wall, world.now)
    settle(world)
    assert world.condition(TQ, "team", "StartForecast", "nightly")[:2] == ("True", "Forecast")
