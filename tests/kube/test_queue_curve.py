"""The curve of a queue's spec: for Jobs without any other, read as a Job's annotation is, refused with the reason on the queue."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairburst.curves.runs import Run
from fairburst.kube.install.crd import all_crds
from fairburst.kube.queues.curve_text import MOST_POINTS, MalformedCurveError, read_curve
from fairburst.kube.queues.job_annotations import CURVE, MINIMUM
from fairburst.kube.queues.objects import InvalidQueueError, parse_queue
from fairburst.kube.queues.specs import ThroughputQueueSpec
from fairburst.policy.paf.curves import Curve, ErnestCurve, PointsCurve
from tests.support import queues
from tests.support.elastic_queues import (
    FLAT,
    STEEP,
    TQ,
    cluster,
    curve_text,
    elastic,
    present,
    queue,
    resize,
    round_,
    run_for,
    sizes,
    take_sizes,
)
from tests.support.objects import World, job

FLAT_TEXT, STEEP_TEXT = curve_text(FLAT, None), curve_text(STEEP, None)
LONGEST = curve_text(PointsCurve(tuple(n + 10000 / 3 for n in range(MOST_POINTS)), tuple(n / 3000 for n in range(MOST_POINTS))), 1e5 / 3)
NEVER_RISES = '{"points": [[1, 0.5], [9, 0.5]]}'


def spec_with(curve: Any) -> dict[str, Any]:
    return queues.queue(TQ, {"elasticity": {"curve": curve}})


def teach(world: World, family: str, seconds: list[float]) -> None:
    """Five runs of a family, with 1 to 16 slots."""
    for slots, took in zip((1, 2, 4, 8, 16), seconds, strict=True):
        world.engine.slots.learned.completed(f"batch/{family}/1000", Run(slots, took), world.wall)


def curve_of(world: World, name: str) -> Curve | None:
    """The curve by which a Job's slots were decided in a round now."""
    [found] = [one.curve for one in world.plan().snapshot.elastic_jobs if one.name == f"batch/{name}"]
    return found


@pytest.mark.parametrize("curve", [FLAT, ErnestCurve(0.1, 0.02, 0.9, 0.1, 2, 64), ErnestCurve(0.0, 0.0, 16.0, 0.0)])
def test_the_text_of_a_curve_is_read_back_as_it_was_built(curve: Curve) -> None:
    assert read_curve(curve_text(curve, 600.0), 16) == (curve, 600.0)


def test_a_text_longer_than_any_curve_is_not_read() -> None:
    """An annotation may have 256 KB, which would be read again with every change of its Job."""
    with pytest.raises(MalformedCurveError, match=r"expected at most 16384 characters, found 200032"):
        read_curve(f'{{"points": [[1, 0.1], [2, 0.2]]{" " * 200_000}}}', 16)


@pytest.mark.parametrize("text", [FLAT_TEXT, '{"coefficients": [0, 0, 1, 0], "lowest": 2, "highest": 64}', LONGEST, NEVER_RISES])
def test_any_text_of_a_curves_length_is_a_valid_spec(text: str) -> None:
    spec = parse_queue(spec_with(text)).spec
    assert isinstance(spec, ThroughputQueueSpec)
    assert spec.elasticity is not None
    assert spec.elasticity.curve == text


@pytest.mark.parametrize(
    ("curve", "want"),
    [
        pytest.param("", "at least 1 character, found ''", id="empty"),
        pytest.param("x" * 16_385, "at most 16384 characters", id="too long"),
        pytest.param(0.5, "expected a valid string, found 0.5", id="a number"),
        pytest.param({"points": [[1, 1], [2, 2]]}, "expected a valid string", id="not as text"),
    ],
)
def test_a_spec_whose_curve_is_no_text_is_refused(curve: Any, want: str) -> None:
    with pytest.raises(InvalidQueueError, match=r"spec\.elasticity\.curve: ") as caught:
        parse_queue(spec_with(curve))
    assert want in str(caught.value)


def test_the_crd_takes_the_curve_as_bounded_text() -> None:
    [versions] = [crd["spec"]["versions"] for crd in all_crds().values() if crd["spec"]["names"]["kind"] == TQ]
    elasticity = versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["elasticity"]
    shown = elasticity["properties"]["curve"]
    assert {key: shown[key] for key in ("type", "minLength", "maxLength")} == {"type": "string", "minLength": 1, "maxLength": 16_384}
    assert len(LONGEST) < shown["maxLength"], "the most points with all their digits fit"


def test_a_job_without_a_curve_of_its_own_is_sized_by_its_queues() -> None:
    world = cluster()
    queue(world, curve=STEEP_TEXT)
    elastic(world, "flat", FLAT)
    elastic(world, "plain", None)
    run_for(world, 130.0)
    assert sizes(world) == {"flat": 2, "plain": 14}
    assert world.condition(TQ, "batch", "Elastic")[:2] == ("True", "Divided")
    shown = {one["name"]: one for one in world.status("batch")["elasticity"]["mostAffected"]}
    assert shown["plain"]["predictedMilli"] == 875, "fourteen of sixteen slots, on a line"


def test_a_jobs_annotation_goes_before_what_was_learned_and_that_before_the_queues_curve() -> None:
    world = cluster(64)
    queue(world, curve=STEEP_TEXT)
    for name, own in (("annotated-x7k2p", FLAT), ("learned-x7k2p", None), ("plain-x7k2p", None)):
        elastic(world, name, own)
    for family in ("annotated", "learned"):
        teach(world, family, [116.0, 108.0, 104.0, 102.0, 101.0])
    learned = world.engine.slots.learned.curves["batch/learned/1000"].curve
    assert learned not in (FLAT, STEEP)
    assert curve_of(world, "annotated-x7k2p") == FLAT
    assert curve_of(world, "learned-x7k2p") == learned
    assert curve_of(world, "plain-x7k2p") == STEEP
    world.queue(TQ, "batch", spec={"elasticity": {}}, generation=2)
    assert curve_of(world, "plain-x7k2p") is None


@pytest.mark.parametrize(("more", "want"), [({}, 4), ({"curve": STEEP_TEXT}, 8)], ids=["explored", "not explored"])
def test_a_family_is_not_explored_where_the_queues_curve_is_known(more: dict[str, Any], want: int) -> None:
    world = cluster(explore=True)
    queue(world, fairnessPercent=50, **more)
    world.engine.slots.learned.completed("batch/new/1000", Run(8, 60.0), world.wall)
    elastic(world, "new-x7k2p", None)
    elastic(world, "steep", STEEP)
    run_for(world, 5.0)
    assert sizes(world)["new-x7k2p"] == want


def test_the_queues_curve_says_how_long_its_jobs_take_alone() -> None:
    world = cluster()
    queue(world, curve=curve_text(STEEP, 600.0))
    elastic(world, "plain", None)
    elastic(world, "annotated", FLAT)
    plan = round_(world)
    assert {one.decision.job: one.candidate.alone_seconds for one in plan.elastic.queues["batch/queue"].jobs} == {
        "batch/plain": 600.0,
        "batch/annotated": 100.0,
    }


def test_a_job_whose_annotation_is_malformed_is_not_sized_by_the_queues_curve() -> None:
    world = cluster()
    queue(world, curve=STEEP_TEXT)
    for name, malformed in (("bad", {CURVE: "{"}), ("bounded", {MINIMUM: "many"})):
        resize(world, elastic(world, name, None), 16, dict(malformed))
    for _ in range(3):
        plan = round_(world)
        world.after(60.0)
    assert {one.reason for one in plan.result.slots} == {"NoCurve"}
    assert sizes(world) == {"bad": 16, "bounded": 16}


def test_a_job_that_somebody_else_sizes_is_left_alone_whatever_the_queues_curve() -> None:
    world = cluster()
    queue(world, curve=FLAT_TEXT)
    elastic(world, "plain", None)
    elastic(world, "steep", STEEP)
    run_for(world, 130.0)
    assert sizes(world)["plain"] == 2
    resize(world, present(world, job("batch", "plain")), 9)
    run_for(world, 130.0)
    assert sizes(world)["plain"] == 9


BAD = [
    pytest.param("{", "expected JSON, found '{'", id="no JSON"),
    pytest.param("0.5", 'expected an object with "coefficients" or "points", found \'0.5\'', id="neither form"),
    pytest.param('{"points": [[1, 0.5]]}', "expected at least two points, each with slots and progress, found 1 and 1", id="one point"),
    pytest.param('{"points": [[1, 0.5], [9, NaN]]}', "expected points as [[slots, progress], ...]", id="no number"),
    pytest.param(NEVER_RISES, "expected a curve that rises, found its highest progress, 0.5, with one slot already", id="never rises"),
    pytest.param('{"coefficients": [-1, 0, 4, 0], "highest": 16}', "found -0.75: a pole or negative progress", id="a pole"),
    pytest.param(json.dumps({"points": [[-n, 1] for n in range(MOST_POINTS)]}), "expected ascending slots >= 0", id="many out of order"),
    pytest.param(r'{"points": [], "\ud800": 5}', r"no such key: '\ud800'", id="a key that cannot be sent in a message"),
]


@pytest.mark.parametrize(("text", "want"), BAD)
def test_a_bad_curve_is_told_on_the_queue_its_jobs_keep_their_fair_share_and_nobody_else_is_disturbed(text: str, want: str) -> None:
    world = cluster(24)
    queue(world, curve=text)
    elastic(world, "flat", FLAT)
    elastic(world, "steep", STEEP)
    elastic(world, "plain", None)
    queue(world, "other", curve=FLAT_TEXT)
    plan = round_(world)
    status, reason, message = world.condition(TQ, "batch", "Elastic")
    assert (status, reason) == ("False", "CurveRefused")
    assert message.startswith("spec.elasticity.curve: ")
    assert want in message
    assert len(message.encode()) < 500
    decided = {one.job: one for one in plan.result.slots}
    assert decided["batch/plain"].given == decided["batch/plain"].fair == 8
    assert decided["batch/plain"].reason == "NoCurve"
    assert sizes(world) == {"flat": 2, "steep": 14, "plain": 16}
    assert [event for event in plan.elastic.events if event.warning] == [], "it is no fault of the Jobs'"
    assert world.condition(TQ, "batch", "Ready")[0] == "True"
    assert world.condition(TQ, "other", "Elastic")[0] == "True"
    world.after(1.0)
    assert world.plan().statuses == [], "said once"


def test_a_curve_that_has_a_pole_within_one_jobs_size_is_refused_for_that_job_alone() -> None:
    world = cluster(24)
    queue(world, curve='{"coefficients": [-1, 0, 12, 0]}')
    elastic(world, "four", None, parallelism=4)
    elastic(world, "many", None, parallelism=16)
    plan = round_(world)
    assert {one.job: one.reason == "CurveRefused" for one in plan.result.slots} == {"batch/four": False, "batch/many": True}
    [told] = [event for event in plan.elastic.events if event.warning]
    assert (told.name, told.reason) == ("many", "CurveRefused")
    assert told.message.endswith("a pole or negative progress. The curve is that of the queue's spec.")
    assert world.condition(TQ, "batch", "Elastic")[:2] == ("False", "CurveRefused")


def test_a_curve_is_looked_at_up_to_the_maximum_that_the_queue_declares() -> None:
    world = cluster(24)
    queue(world, curve='{"coefficients": [-1, 0, 12, 0]}', maximumParallelism=16)
    elastic(world, "plain", None)
    plan = round_(world)
    assert [event for event in plan.elastic.events if event.warning] == []
    _, reason, message = world.condition(TQ, "batch", "Elastic")
    assert reason == "CurveRefused"
    assert "expected 1/p above 0 from 1 to 16 slots, found -0.25" in message


def test_the_queues_curve_and_a_jobs_are_both_told_if_both_are_bad() -> None:
    world = cluster()
    queue(world, curve="{")
    resize(world, elastic(world, "bad", None), 16, {CURVE: "["})
    round_(world)
    _, reason, message = world.condition(TQ, "batch", "Elastic")
    assert reason == "CurveRefused"
    assert "spec.elasticity.curve: expected JSON, found '{'" in message
    assert f"Job bad: {CURVE}: expected JSON, found '['" in message


@pytest.mark.parametrize("bad", [None, "{"], ids=["gone", "bad"])
def test_sizes_go_back_when_the_curve_goes_and_come_again_with_it(bad: str | None) -> None:
    world = cluster()
    queue(world, curve=STEEP_TEXT)
    elastic(world, "flat", FLAT)
    elastic(world, "plain", None)
    run_for(world, 130.0)
    assert sizes(world)["plain"] == 14
    for generation, curve, want in ((2, bad, 16), (3, STEEP_TEXT, 14)):
        elasticity = {"mode": "Parallelism"} | ({} if curve is None else {"curve": curve})
        world.queue(TQ, "batch", spec={"elasticity": elasticity}, generation=generation, status=world.status("batch"))
        run_for(world, 130.0)
        assert sizes(world)["plain"] == want
    assert world.condition(TQ, "batch", "Elastic")[0] == "True"


def test_where_every_job_has_its_own_curve_the_queues_changes_no_byte_of_a_round() -> None:
    plans = []
    for more in ({}, {"curve": STEEP_TEXT}):
        world = cluster()
        queue(world, **more)
        elastic(world, "flat", FLAT)
        elastic(world, "steep", STEEP)
        rounds = []
        for _ in range(3):
            plan = world.round()
            patches, said = [one.patch for one in plan.statuses], (plan.elastic.events, plan.elastic.wait)
            rounds.append((plan.elastic.writes, plan.quota_writes, patches, plan.result.level.tobytes(), plan.result.slots, *said))
            take_sizes(world, plan)
            world.after(60.0)
        plans.append(rounds)
    assert plans[0] == plans[1]
    assert plans[0][0][0], "sizes are written"
