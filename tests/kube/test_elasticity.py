"""Elastic queues through whole rounds: Jobs are sized by the value of slots, within their bounds. No I/O."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairburst.curves.runs import Run
from fairburst.kube.api.objects import JOB_TRACKING
from fairburst.kube.jobs.job_size import SIZE_LABEL
from fairburst.kube.queues.job_annotations import MAXIMUM, MINIMUM, Declaration, parallelism_of, read_declaration, read_mark
from fairburst.policy.paf.curves import PointsCurve, progress_rates
from tests.support.elastic_queues import (
    FLAT,
    STEEP,
    TQ,
    cluster,
    declaration_annotations,
    elastic,
    present,
    queue,
    resize,
    round_,
    run_for,
    run_pods,
    settled,
    sizes,
)
from tests.support.objects import World, job, pod


@pytest.fixture
def world() -> World:
    """A cluster of 16 slots with an elastic queue."""
    made = cluster()
    queue(made)
    return made


def test_slots_move_from_the_job_that_loses_little_to_the_one_that_gains_much() -> None:
    world = settled()
    assert sizes(world) == {"flat": 2, "steep": 14}
    shown = world.status("batch")["elasticity"]
    assert (shown["jobs"], shown["fair"], shown["given"], shown["fairnessPercent"]) == (2, 16, 16, 90)
    assert shown["mostAffected"][0] == {
        "name": "flat",
        "fair": 8,
        "given": 2,
        "parallelism": 2,
        "predictedFairMilli": 971,
        "predictedMilli": 950,
        "reason": "GaveSlots",
    }
    assert world.condition(TQ, "batch", "Elastic")[:2] == ("True", "Divided")


def test_a_settled_elastic_queue_gets_no_writes() -> None:
    world = settled()
    for _ in range(60):
        plan = world.plan()
        assert (plan.elastic.writes, plan.elastic.events, plan.quota_writes, plan.statuses) == ([], [], [], [])
        world.after_due(plan)


def test_the_size_that_was_given_does_not_become_what_the_job_is_thought_to_want() -> None:
    world = settled()
    assert world.status("batch")["demand"]["cpu"] == "32", "sixteen each, as their owner asked"


def test_with_elasticity_off_a_round_is_the_same_to_the_byte() -> None:
    plans = []
    for annotated in (False, True):
        world = cluster()
        world.queue(TQ, "batch")
        made = elastic(world, "flat", FLAT if annotated else None)
        run_pods(world, made, 5)
        plan = world.round()
        plans.append((plan.quota_writes, plan.statuses[0].patch, plan.result.level.tobytes(), plan.elastic.writes, plan.elastic.events))
        assert plan.snapshot.elastic_jobs == ()
        assert "elasticity" not in world.status("batch")
        assert "Elastic" not in {one["type"] for one in world.status("batch")["conditions"]}
    assert plans[0] == plans[1]
    assert plans[0][3:] == ([], [])


def test_a_job_is_resized_at_most_once_an_interval_also_after_a_restart(world: World) -> None:
    flat, _ = elastic(world, "flat", FLAT), elastic(world, "steep", STEEP)
    assert {write.name for write in round_(world).elastic.writes} == {"flat", "steep"}
    elastic(world, "third", STEEP)  # which changes what is fair
    restarted = cluster()
    queue(restarted)
    for one in world.view.controllers.workloads("batch").of("Job"):
        restarted.controller("Job", None, one)
    restarted.after(10.0)
    plan = round_(restarted)
    assert {write.name for write in plan.elastic.writes} == {"third"}, "the others were resized ten seconds ago"
    assert plan.due <= restarted.now + 50.0 + 1e-6
    restarted.after(51.0)
    assert "steep" in {write.name for write in round_(restarted).elastic.writes}
    assert read_mark(flat.metadata.annotations) is None, "the caches' objects are never changed in place"


def test_a_change_smaller_than_the_hysteresis_is_not_made(world: World) -> None:
    made = elastic(world, "steep", STEEP, parallelism=15, completions=None)
    made.metadata.annotations = {**(made.metadata.annotations or {}), MAXIMUM: "16"}
    assert round_(world).elastic.writes == [], "one more than fifteen is within ten percent, rounded up"


def test_a_job_below_its_due_grows_by_however_little() -> None:
    world = cluster()
    queue(world, fairnessPercent=100)
    made = elastic(world, "steep", STEEP, parallelism=15, completions=None)
    resize(world, made, 15, {MAXIMUM: "16"})
    round_(world)
    assert sizes(world) == {"steep": 16}, "fifteen of sixteen is less than all of its fair progress"


def test_pods_that_are_about_to_complete_stay(world: World) -> None:
    flat = elastic(world, "flat", FLAT)
    elastic(world, "steep", STEEP)
    runs = world.engine.slots.runs

    def change(name: str, before: str | None, after: str | None) -> None:
        old, new = (
            None if phase is None else pod("batch", name, owner=("Job", "flat"), node="node", phase=phase) for phase in (before, after)
        )
        runs.pod_changed(old, new, world.now, watched=True)

    change("first", "Pending", "Running")
    world.after(10.0)
    change("first", "Running", None)
    for number in range(5):
        change(f"p{number}", "Pending", "Running")
    world.after(6.0)
    assert runs.completing(job("batch", "flat"), world.now) == 5
    round_(world)
    assert sizes(world)["flat"] == 5, "two are what it is given, five are nearly done"
    assert flat.spec.parallelism == 16


@pytest.mark.parametrize("ended", [0, 4], ids=["all of it", "beside pods that have ended and are not counted yet"])
def test_a_job_whose_whole_rest_runs_already_is_not_made_smaller(world: World, ended: int) -> None:
    flat = elastic(world, "flat", FLAT, completions=6 + ended)
    elastic(world, "steep", STEEP)
    run_pods(world, flat, 6)
    for number in range(ended):
        for phase in ("Running", "Succeeded"):
            world.put(pod("batch", f"ended-{number}", owner=("Job", "flat"), node="node", phase=phase, finalizers=[JOB_TRACKING]))
    round_(world)
    assert sizes(world)["flat"] == 16


def test_bounds_are_kept(world: World) -> None:
    flat, steep = elastic(world, "flat", FLAT), elastic(world, "steep", STEEP)
    resize(world, flat, 16, {MINIMUM: "5"})
    resize(world, steep, 16, {MAXIMUM: "10"})
    run_for(world, 130.0)
    assert sizes(world) == {"flat": 6, "steep": 10}


@pytest.mark.parametrize(("other", "want"), [("small", {"flat": 2, "steep": 14}), ("large", {"flat": 8, "steep": 8})])
def test_slots_move_only_between_jobs_of_one_size_category(world: World, other: str, want: dict[str, int]) -> None:
    for name, curve, size in (("flat", FLAT, "small"), ("steep", STEEP, other)):
        made = job("batch", name, 16, completions=1000)
        made.metadata.annotations, made.metadata.labels = declaration_annotations(Declaration(curve)), {SIZE_LABEL: size}
        world.controller("Job", None, made)
    round_(world)
    assert sizes(world) == want


def test_slots_move_between_queues_that_have_opted_in() -> None:
    world = cluster()
    for namespace, curve in (("one", FLAT), ("two", STEEP)):
        queue(world, namespace, acrossQueues=True)
        elastic(world, f"{namespace}-work", curve, namespace)
    run_for(world, 130.0)
    assert (sizes(world, "one"), sizes(world, "two")) == ({"one-work": 2}, {"two-work": 14})
    assert world.hard("one")["requests.cpu"] == "3", "two, and one more for quick succession"
    assert world.hard("two")["requests.cpu"] == "15"
    assert world.status("one")["elasticity"]["moved"]["cpu"] == "-6"
    assert world.status("one")["allocation"]["cpu"] == "8", "what moved still counts as the giver's"


def test_slots_that_a_queue_gave_away_are_not_owed_to_it() -> None:
    """They counted as received by the other one, whose fair share fell to half for it while the giver's rose: the exchange was taken back,
    and the giver was guaranteed 0.9 of the progress with more than its share."""
    world = cluster()
    for namespace, curve in (("one", FLAT), ("two", STEEP)):
        queue(world, namespace, acrossQueues=True)
        elastic(world, f"{namespace}-work", curve, namespace)
    for _ in range(240):
        follow(world)
        round_(world)
        world.after(5.0)
    assert (sizes(world, "one"), sizes(world, "two")) == ({"one-work": 2}, {"two-work": 14})
    assert [world.status(name)["elasticity"]["fair"] for name in ("one", "two")] == [8, 8]


def test_an_exchange_that_no_pod_has_followed_changes_no_balance() -> None:
    """In Quota mode the giver's pods run on, maybe for hours: both use their own."""
    world = cluster()
    for namespace, curve in (("one", FLAT), ("two", STEEP)):
        queue(world, namespace, acrossQueues=True, mode="Quota")
        run_pods(world, elastic(world, f"{namespace}-work", curve, namespace), 8)
    for _ in range(240):
        world.round()
        world.after(5.0)
    assert [world.status(name)["elasticity"]["given"] for name in ("one", "two")] == [2, 14]
    assert [world.status(name)["elasticity"]["fair"] for name in ("one", "two")] == [8, 8]


def follow(world: World) -> None:
    """Run as many pods of each Job as its parallelism."""
    for namespace in ("one", "two"):
        for made in world.view.controllers.workloads(namespace).of("Job"):
            running = sorted(name for at, name in world.pods if at == namespace)
            for name in running[parallelism_of(made) :]:
                world.end(namespace, name)
            for number in range(len(running), parallelism_of(made)):
                name = f"{made.metadata.name}-{number:02}"
                world.put(pod(namespace, name, owner=("Job", made.metadata.name), node="node", phase="Running"))


def test_in_quota_mode_levels_move_and_jobs_stay_as_they_are() -> None:
    world = cluster()
    for namespace, curve in (("one", FLAT), ("two", STEEP)):
        queue(world, namespace, acrossQueues=True, mode="Quota")
        elastic(world, f"{namespace}-work", curve, namespace)
    run_for(world, 130.0)
    assert (sizes(world, "one"), sizes(world, "two")) == ({"one-work": 16}, {"two-work": 16})
    assert world.hard("one")["requests.cpu"] == "3"
    assert world.hard("two")["requests.cpu"] == "15"


def test_a_family_without_a_curve_of_its_own_uses_the_learned_one(world: World) -> None:
    for name, alone in (("flat-x7k2p", [58.0, 54.0, 52.0, 51.0, 50.5]), ("steep-x7k2p", [1600.0, 800.0, 400.0, 200.0, 100.0])):
        elastic(world, name, None)
        for slots, seconds in zip((1, 2, 4, 8, 16), alone, strict=True):
            world.engine.slots.learned.completed(f"batch/{name.split('-')[0]}/1000", Run(slots, seconds), world.wall)
    run_for(world, 130.0)
    found = sizes(world)
    assert found["flat-x7k2p"] <= 4
    assert found["steep-x7k2p"] >= 12


def test_the_first_runs_of_a_family_are_explored_without_falling_below_alpha_and_keep_their_size() -> None:
    world = cluster(explore=True)
    queue(world, fairnessPercent=50)
    world.engine.slots.learned.completed("batch/new/1000", Run(8, 60.0), world.wall)
    elastic(world, "new-x7k2p", None)
    other = elastic(world, "steep", STEEP)
    run_for(world, 5.0)
    assert sizes(world)["new-x7k2p"] == 4, "half of its fair eight is the least, and furthest from the eight that were tried"
    run_for(world, 200.0)
    assert sizes(world)["new-x7k2p"] == 4, "a run of changing size would teach nothing"
    world.controller("Job", present(world, other), None)
    run_for(world, 200.0)
    assert sizes(world)["new-x7k2p"] == 8, "half of the sixteen that are fair now"


def test_nothing_is_explored_unless_asked() -> None:
    world = cluster()
    queue(world, fairnessPercent=50)
    world.engine.slots.learned.completed("batch/new/1000", Run(8, 60.0), world.wall)
    elastic(world, "new-x7k2p", None)
    elastic(world, "steep", STEEP)
    run_for(world, 100.0)
    assert sizes(world)["new-x7k2p"] == 16


gains = st.lists(st.floats(0.01, 1.0), min_size=16, max_size=16)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    curves=st.lists(st.tuples(gains, st.booleans()), min_size=2, max_size=5),
    slots=st.integers(4, 40),
    percent=st.sampled_from([80, 95, 100]),
)
def test_whatever_the_curves_no_size_is_below_alpha_of_the_fair_progress_and_all_fit(
    curves: list[tuple[list[float], bool]], slots: int, percent: int
) -> None:
    """PAF section III-A, on the sizes that are written: hysteresis and bounds included."""
    world = cluster(slots)
    queue(world, fairnessPercent=percent)
    for number, (steps, concave) in enumerate(curves):
        raised = np.cumsum(sorted(steps, reverse=True) if concave else steps)
        curve = PointsCurve(tuple(map(float, range(1, 17))), tuple((raised / raised[-1]).tolist()))
        elastic(world, f"job-{number}", curve)
    run_for(world, 130.0)
    last = world.plan().result.slots
    written = sizes(world)
    assert sum(written.values()) <= max(slots, len(written))
    for one in last:
        name = one.job.removeprefix("batch/")
        declared = read_declaration(present(world, job("batch", name)).metadata.annotations)
        assert declared.curve is not None
        assert one.predicted_fair is not None
        reached = progress_rates(declared.curve, 16)[written[name]]
        assert reached >= percent / 100 * one.predicted_fair - 1e-9


def test_jobs_that_are_near_their_sizes_do_not_exceed_the_slots_together() -> None:
    """A size of 16 where 15 are given is within the hysteresis; the other Job's slots are not."""
    world = cluster(26)
    queue(world, fairnessPercent=80)
    for number, steps in enumerate(([1.0] * 15 + [0.25], [1.0] * 11 + [0.25, 0.25, 0.25, 0.5, 1.0])):
        raised = np.cumsum(steps)
        elastic(world, f"job-{number}", PointsCurve(tuple(map(float, range(1, 17))), tuple((raised / raised[-1]).tolist())))
    run_for(world, 130.0)
    assert sizes(world) == {"job-0": 15, "job-1": 11}


def test_status_names_a_few_jobs_and_counts_the_rest() -> None:
    world = cluster(256)
    queue(world)
    for number in range(40):
        elastic(world, f"job-{number:02d}", FLAT if number % 2 else STEEP)
    run_for(world, 10.0)
    shown = world.status("batch")["elasticity"]
    assert shown["jobs"] == 40
    assert len(shown["mostAffected"]) == 10
    assert sum(shown["byReason"].values()) == 40
