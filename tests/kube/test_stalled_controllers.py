"""Controllers that create no pods although there is room, for failures of their pods or because the API server refuses them: what they
do not use is others' meanwhile."""

from __future__ import annotations

from datetime import datetime

import msgspec
import pytest

from fairburst.kube.api.objects import Job, JobStatus
from fairburst.kube.enforce.controller_resync import AWAITED_REACH_SECONDS, RESYNC_ANNOTATION, STALLED_ANNOTATION, noted_stall
from fairburst.kube.names import QUOTA_NAME
from fairburst.kube.times import to_epoch
from tests.support.objects import World, job, latency_spec, node, pod

LONG = 120.0  # long enough to be stalled, shorter than the longest back-off after failures


def site(kind: str = "ThroughputQueue", *, small_jobs: bool = False, mode: str = "Quota", unreached: tuple[str, ...] = ()) -> World:
    """A node of 16 cpu for two queues, each with a Job of more pods than fit. Neither has a pod yet. `unreached`: the namespaces whose Job
    has not been processed yet."""
    world = World(f"smallJobs: {{enabled: {str(small_jobs).lower()}}}", nodes=0)
    world.nodes["", "node"] = node("node", cpu="16", memory="64Gi", pods="110")
    world.queue(kind, "stuck", spec=latency_spec() if kind == "LatencyQueue" else {"enforcement": mode})
    world.queue("ThroughputQueue", "other", spec={"enforcement": mode})
    for where in ("stuck", "other"):
        one = work(where)
        world.controller("Job", None, msgspec.structs.replace(one, status=JobStatus()) if where in unreached else one)
    return world


def work(where: str) -> Job:
    return job(where, "work", 40, completions=40)


def create(world: World, where: str) -> None:
    """Create and bind the pods that the quota admits, as the Job's controller and the scheduler would."""
    existing = world.view.pods.namespace(where).pods
    for number in range(existing, int(min(world.permitted_cpu(where), 40))):
        bound = sum(one.spec.node_name != "" for one in world.pods.values()) < 16
        placed = {"node": "node", "phase": "Running"} if bound else {}
        world.put(pod(where, f"work-{number}", owner=("Job", "work"), **placed))


def serve(world: World, seconds: float, *creating: str) -> dict[str, float]:
    """Let time pass, in which the controllers of these namespaces create pods. Return the demand by namespace at the end."""
    until = world.now + seconds
    while world.now < until:
        plan = world.round()
        for where in creating:
            create(world, where)
        world.after_due(plan)
    snapshot = plan.snapshot
    return {spec.name.partition("/")[0]: float(snapshot.demand[row][0]) for row, spec in enumerate(snapshot.queues)}


def level(world: World, where: str) -> float:
    plan = world.round()
    return next(float(plan.result.level[row][0]) for row, spec in enumerate(plan.result.queues) if spec.name == f"{where}/queue")


@pytest.mark.parametrize("small_jobs", [False, True])
def test_what_a_controller_does_not_create_is_no_demand_after_a_while_and_others_use_its_share(small_jobs: bool) -> None:
    world = site(small_jobs=small_jobs)
    assert serve(world, 5.0, "other") == {"stuck": 16, "other": 16}
    assert level(world, "other") == 8
    assert serve(world, LONG, "other")["stuck"] == 0
    assert level(world, "other") == 16


@pytest.mark.parametrize("starts_are_noted", [True, False])
def test_a_job_that_its_controller_has_not_come_to_is_woken_only_if_no_job_shows_when_it_was_first_processed(
    starts_are_noted: bool,
) -> None:
    world = site(unreached=("stuck",) if starts_are_noted else ("stuck", "other"))
    woken, until = set[str](), world.now + LONG
    while world.now < until:
        plan = world.round()
        woken |= {owner.namespace for owner in plan.resyncs}
        create(world, "other")
        world.after_due(plan)
    assert ("stuck" in woken) is not starts_are_noted


def test_in_gate_mode_what_a_job_would_use_that_its_controller_has_not_come_to_is_lent_until_it_has() -> None:
    """Of a thousand queues in Gate mode whose Jobs came at once, three hundred had pods after two minutes. The others kept two thirds
    of the cluster idle meanwhile.
    """
    world = site(mode="Gate", unreached=("stuck",))
    assert serve(world, AWAITED_REACH_SECONDS - 1, "other")["stuck"] == 16
    assert level(world, "other") == 8
    assert serve(world, 4.0, "other")["stuck"] == 0
    assert level(world, "other") == 16
    world.controller("Job", world.view.controllers.job("stuck", "work"), work("stuck"))
    assert serve(world, 3.0, "other")["stuck"] == 16
    assert level(world, "other") == 8


def test_its_quota_keeps_room_and_its_demand_is_back_with_its_first_pod() -> None:
    world = site()
    serve(world, LONG, "other")
    assert float(world.quotas["stuck", QUOTA_NAME].status.hard["requests.cpu"]) >= 8
    world.put(pod("stuck", "work-0", owner=("Job", "work")))
    assert serve(world, 1.0, "other")["stuck"] == 16
    assert level(world, "stuck") == 8


def test_a_controller_that_goes_on_creating_keeps_its_demand() -> None:
    world = site()
    assert serve(world, LONG, "stuck", "other") == {"stuck": 16, "other": 16}


def test_what_a_burst_was_promised_waits_for_its_controller() -> None:
    world = site("LatencyQueue")
    serve(world, LONG, "other")
    assert world.engine.demands["stuck"].demand["cpu"] == 40


def test_a_new_process_lends_at_once_what_the_old_one_lent() -> None:
    """Otherwise the other queue's quota sinks to its share for more than a minute after each restart."""
    world = site()
    serve(world, LONG, "other")
    again = world.restarted()
    assert again.plan().quota_writes == []
    assert serve(again, 200.0, "other")["stuck"] == 0
    assert level(again, "other") == 16


def test_a_new_process_counts_the_demand_of_a_controller_whose_pods_have_changed_meanwhile() -> None:
    world = site()
    serve(world, LONG, "other")
    world.put(pod("stuck", "work-0", owner=("Job", "work")))
    assert serve(world.restarted(), 3.0, "other")["stuck"] == 16


def test_a_new_process_lends_nothing_of_a_burst_whose_controller_creates_no_pods() -> None:
    world = site("LatencyQueue")
    serve(world, LONG, "other")
    again = world.restarted()
    again.round()
    assert again.engine.demands["stuck"].demand["cpu"] == 40


def test_a_controller_that_creates_pods_again_loses_its_note_when_it_is_next_resynced() -> None:
    world = site()
    serve(world, LONG, "other")
    (stuck,) = [one for one in world.view.controllers.all_jobs() if one.metadata.namespace == "stuck"]
    assert (stuck.metadata.annotations or {}).get(STALLED_ANNOTATION) == "0"
    world.put(pod("stuck", "work-0", owner=("Job", "work")))
    serve(world, 30.0, "other")
    assert STALLED_ANNOTATION not in (stuck.metadata.annotations or {})


@pytest.mark.parametrize(
    ("pods", "at", "found"),
    [
        ("3", "2026-01-01T00:00:00+00:00", 3),
        ("0", "2026-01-01T00:00:00+00:00", 0),
        ("3", "2025-12-31T23:00:00+00:00", None),
        ("3", "", None),
        ("3", "yesterday", None),
        ("3", "2026-01-01T00:00:00", None),
        ("-3", "2026-01-01T00:00:00+00:00", None),
        ("many", "2026-01-01T00:00:00+00:00", None),
        ("", "2026-01-01T00:00:00+00:00", None),
    ],
)
def test_a_note_counts_if_it_is_one_and_recent(pods: str, at: str, found: int | None) -> None:
    """A tenant may write anything to its Job, and one that is stalled is resynced every ten minutes."""
    wall = to_epoch(datetime.fromisoformat("2026-01-01T00:01:00+00:00"))
    assert noted_stall({STALLED_ANNOTATION: pods, RESYNC_ANNOTATION: at}, wall) == found
    assert noted_stall(None, wall) is None
