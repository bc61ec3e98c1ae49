"""Jobs of elastic queues that are not sized: given back, held, other managers' own, malformed, or impossible. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairburst.kube.api.objects import Job
from fairburst.kube.queues.job_annotations import CURVE, GIVEN, MAXIMUM, MINIMUM, ORIGINAL, Declaration, parallelism_of
from tests.support.elastic_queues import (
    ELASTIC,
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
    settled,
    sizes,
)
from tests.support.objects import job, requesting


@pytest.mark.parametrize("how", ["off", "quota", "observe", "deleted", "curve gone"])
def test_what_was_changed_is_undone(how: str) -> None:
    world = settled()
    if how == "off":
        world.queue(TQ, "batch", generation=2)
    elif how == "quota":
        world.queue(TQ, "batch", spec={"elasticity": {"mode": "Quota", "acrossQueues": True}}, generation=2)
    elif how == "observe":
        world.queue(TQ, "batch", spec={"elasticity": ELASTIC, "enforcement": "Observe"}, generation=2)
    elif how == "deleted":
        del world.queues[TQ, "batch", "queue"]
    else:
        for one in list(world.view.controllers.workloads("batch").of("Job")):
            resize(world, one, parallelism_of(one), {CURVE: None})
    world.after(1.0)
    round_(world)
    assert sizes(world) == {"flat": 16, "steep": 16}
    for one in world.view.controllers.workloads("batch").of("Job"):
        assert {ORIGINAL, GIVEN}.isdisjoint(one.metadata.annotations or {})
    assert world.plan().elastic.writes == []


@pytest.mark.parametrize("how", ["suspended", "invalid"])
def test_while_a_queue_is_held_or_its_spec_is_invalid_its_jobs_stay_as_they_are(how: str) -> None:
    world = settled()
    spec = {"elasticity": ELASTIC, "suspended": True} if how == "suspended" else {"elasticity": {"mode": "Both"}}
    world.queue(TQ, "batch", spec=spec, generation=2, status=world.status("batch"))
    run_for(world, 130.0)
    assert sizes(world) == {"flat": 2, "steep": 14}


def test_a_job_that_wants_no_pods_for_now_keeps_the_size_it_has() -> None:
    world = settled()
    old = present(world, job("batch", "flat"))
    held = msgspec.convert(msgspec.to_builtins(old), Job)
    held.spec.suspend = True
    world.controller("Job", old, held)
    run_for(world, 130.0)
    assert sizes(world) == {"flat": 2, "steep": 16}


def test_a_job_that_somebody_else_resizes_is_left_alone_and_told_so_once() -> None:
    world = settled()
    flat = present(world, job("batch", "flat"))
    resize(world, flat, 9)
    events = []
    for _ in range(20):
        plan = round_(world)
        events += [event for event in plan.elastic.events if event.reason == "ForeignManager"]
        world.after(10.0)
    assert sizes(world)["flat"] == 9
    assert [(event.name, event.warning) for event in events] == [("flat", True)]
    assert world.condition(TQ, "batch", "Elastic")[0] == "True", "that is no fault of the queue's"


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        pytest.param("Apply", {"f:parallelism": {}, "f:template": {}}, id="declared configuration"),
        pytest.param("Update", {"f:parallelism": {}}, id="autoscaler"),
    ],
)
def test_a_job_whose_parallelism_another_manager_owns_is_left_alone(operation: str, fields: dict[str, Any]) -> None:
    world = cluster()
    queue(world)
    made = elastic(world, "flat", FLAT)
    elastic(world, "steep", STEEP)
    owned = msgspec.to_builtins(made)
    owned["metadata"]["managedFields"] = [{"manager": "other", "operation": operation, "fieldsV1": {"f:spec": fields}}]
    world.controller("Job", made, msgspec.convert(owned, Job))
    run_for(world, 130.0)
    assert sizes(world)["flat"] == 16


def test_the_creator_of_a_job_is_not_taken_for_another_manager() -> None:
    world = cluster()
    queue(world)
    made = elastic(world, "flat", FLAT)
    owned = msgspec.to_builtins(made)
    template = {"f:parallelism": {}, "f:template": {"f:spec": {}}}
    creator = {"manager": "kubectl-create", "operation": "Update", "fieldsV1": {"f:spec": template}}
    ours = {"manager": "fairburst", "operation": "Update", "fieldsV1": {"f:spec": {"f:parallelism": {}}}}
    owned["metadata"]["managedFields"] = [creator, ours]
    world.controller("Job", made, msgspec.convert(owned, Job))
    elastic(world, "steep", STEEP)
    round_(world)
    assert sizes(world)["flat"] == 2


@pytest.mark.parametrize(
    ("annotations", "want_reason", "want_message"),
    [
        pytest.param({CURVE: "{"}, "MalformedAnnotation", "expected JSON", id="no JSON"),
        pytest.param({CURVE: '{"points": [[1, 0.5]]}'}, "MalformedAnnotation", "at least two points", id="one point"),
        pytest.param({CURVE: '{"points": [[1, 0.5], [9, NaN]]}'}, "MalformedAnnotation", "expected points", id="no number"),
        pytest.param({CURVE: '{"points": [[1, 0.5], [2, 0.5]]}'}, "MalformedAnnotation", "expected a curve that rises", id="never rises"),
        pytest.param({CURVE: '{"coefficients": [-1, 0, 4, 0]}'}, "CurveRefused", "pole or negative", id="a pole below its own size"),
        pytest.param({CURVE: '{"coefficients": [-1, 0, 4, 0]}', MAXIMUM: "16"}, "MalformedAnnotation", "pole or negative", id="a pole"),
        pytest.param({MINIMUM: "many"}, "MalformedAnnotation", "expected a whole number", id="no bound"),
    ],
)
def test_what_is_malformed_is_told_on_the_job_and_the_queue_and_disturbs_nobody(
    annotations: dict[str, str], want_reason: str, want_message: str
) -> None:
    world = cluster(24)
    queue(world)
    elastic(world, "flat", FLAT)
    elastic(world, "steep", STEEP)
    bad = elastic(world, "bad", None)
    resize(world, bad, 16, dict(annotations))
    plan = round_(world)
    told = [event for event in plan.elastic.events if event.name == "bad"]
    assert [(event.reason, event.warning) for event in told] == [(want_reason, True)]
    assert want_message in told[0].message
    status, reason, message = world.condition(TQ, "batch", "Elastic")
    assert (status, reason) == ("False", want_reason)
    assert message.startswith("Job bad: ")
    decided = {one.job: one for one in plan.result.slots}
    assert decided["batch/bad"].given == decided["batch/bad"].fair == 8
    assert sizes(world) == {"flat": 2, "steep": 14, "bad": 16}, "eight of 24 slots are left to it, and its size is its own business"
    assert world.condition(TQ, "batch", "Ready")[0] == "True"
    assert round_(world).elastic.events == []


@pytest.mark.parametrize(
    ("parallelism", "request_", "want"),
    [
        pytest.param(2_000_000_000, requesting("1", "1Gi"), 10, id="more pods than anybody has"),
        pytest.param(2_000_000_000, requesting("1e15", "1e30"), 0, id="and each larger than any cluster"),
        pytest.param(16, requesting("30", "1Gi"), 0, id="a pod larger than the pool"),
        pytest.param(0, requesting("1", "1Gi"), None, id="no pods at all"),
    ],
)
def test_a_job_that_asks_for_the_impossible_stops_no_round(parallelism: int, request_: Any, want: int | None) -> None:
    world = cluster(20)
    queue(world)
    elastic(world, "steep", STEEP)
    made = job("batch", "huge", parallelism, request_, completions=2_000_000_000)
    made.metadata.annotations = declaration_annotations(Declaration(STEEP))
    world.controller("Job", None, made)
    plan = round_(world)
    decided = {one.job: one.fair for one in plan.result.slots}
    assert decided.get("batch/huge") == want
    assert "batch/steep" in decided
