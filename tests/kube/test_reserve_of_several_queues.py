"""The reserve for small jobs of a namespace's default queue, while queues with lanes come and go beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairburst.kube.enforce.quota_scope import SYSTEM_CLASSES
from fairburst.kube.names import LANE_CLASSES, LANE_QUOTAS, LARGE_CLASS, OUR_QUOTAS, SMALL_CLASS, SMALL_QUOTA, SMALL_UP_TO_ANNOTATION
from fairburst.kube.rounds.view import RoundPlan
from tests.support.lanes import TQ, column, of_class
from tests.support.objects import World
from tests.support.sized_work import ON, sized_job, sized_pod

NIGHTLY = LANE_CLASSES[1]
BATCH, OTHERS = "batch", ("nightly", "weekly")


def further(world: World, name: str = "nightly", number: int = 1) -> None:
    world.queue(TQ, "team", name, created=f"2026-01-02T00:{number:02}:00Z", uid=f"{name}-{number}")


def submit(world: World, name: str, pods: int, size: str, running: int = 0, queue: str = "", class_suffix: str = "") -> None:
    """A Job with running pods, of the class of its size or of a lane."""
    world.controller("Job", None, sized_job("team", name, pods, size, queue))
    for number in range(running):
        world.put(sized_pod("team", number, name, class_suffix or size))


@pytest.fixture
def world() -> World:
    """A namespace whose default queue has jobs of both sizes, and one further queue. 64 cpu."""
    found = World(ON)
    found.queue(TQ, "team", BATCH)
    further(found)
    found.settle(5.0)
    submit(found, "large", 100, "large", running=30)
    submit(found, "small", 3, "small")
    submit(found, "night", 100, "small", running=32, queue="nightly", class_suffix="queue-1")
    found.settle(5.0)
    return found


Scopes = dict[str, tuple[str, set[str]]]  # by quota, as World.scope returns them


def scopes_of(world: World) -> Scopes:
    return {name: world.scope("team", name) for name in sorted(OUR_QUOTAS) if ("team", name) in world.quotas}


def each_class(scopes: Scopes) -> dict[str, list[str]]:
    """Return the quotas that count the team's pods of each class."""
    classes = (SMALL_CLASS, LARGE_CLASS, "", *LANE_CLASSES.values())
    return {one: [name for name, (operator, values) in scopes.items() if (one in values) == (operator == "In")] for one in classes}


def counting(world: World, class_name: str) -> list[str]:
    return each_class(scopes_of(world))[class_name]


def after_one_write(scopes: Scopes, plan: RoundPlan) -> Iterator[Scopes]:
    """Yield the scopes as each of the plan's writes leaves them if all others fail."""
    for write in plan.quota_writes:
        if write.namespace == "team":
            yield {**scopes, write.name: (write.scope.operator, {*write.scope.classes})}
    for namespace, gone in plan.quota_deletions:
        if namespace == "team":
            yield {name: scope for name, scope in scopes.items() if name != gone}


def test_the_default_queue_divides_its_level_and_each_pod_counts_for_one_quota(world: World) -> None:
    assert world.scope("team") == ("NotIn", {*SYSTEM_CLASSES, SMALL_CLASS, NIGHTLY})
    assert {name for _, name in world.quotas} == {"fairburst", SMALL_QUOTA, LANE_QUOTAS[1]}
    assert counting(world, SMALL_CLASS) == [SMALL_QUOTA]
    assert counting(world, NIGHTLY) == [LANE_QUOTAS[1]]
    assert counting(world, LARGE_CLASS) == counting(world, LANE_CLASSES[2]) == ["fairburst"]


def test_the_labels_and_the_namespace_quota_tell_the_policies_which_jobs_of_the_default_queue_are_small(world: World) -> None:
    labels = world.namespaces["", "team"].metadata.labels or {}
    assert labels["fairburst.dev/pod-priority"] == "by-size-or-queue"
    assert SMALL_UP_TO_ANNOTATION in (world.quotas["team", "fairburst"].metadata.annotations or {})
    assert SMALL_UP_TO_ANNOTATION not in (world.quotas["team", LANE_QUOTAS[1]].metadata.annotations or {})


def test_work_of_a_further_queue_is_not_among_the_jobs_of_either_size(world: World) -> None:
    reserve = world.status("team", BATCH)["reserve"]
    assert (reserve["smallJobs"], reserve["largeJobs"]) == (1, 1)
    assert world.status("team", BATCH)["smallPodPriority"]["className"] == SMALL_CLASS
    assert not {"reserve", "smallPodPriority", "sizeThreshold"} & set(world.status("team", "nightly"))


def test_the_small_job_has_its_part_while_large_work_and_the_further_queue_fill_the_pool(world: World) -> None:
    plan = world.round()
    assert plan.result.small_level is not None
    assert dict(zip([spec.name for spec in plan.snapshot.queues], plan.result.small_level[:, 0].tolist(), strict=True)) == {
        "team/batch": pytest.approx(3.0),
        "team/nightly": 0.0,
    }


def test_only_the_further_queue_says_that_it_keeps_no_reserve(world: World) -> None:
    assert "give them a queue of their own" in world.condition(TQ, "team", "Enforced", "nightly")[2]
    assert "reserve" not in world.condition(TQ, "team", "Enforced", BATCH)[2]


def test_pods_of_a_deleted_queue_are_large_whatever_their_jobs_were(world: World) -> None:
    del world.queues[TQ, "team", "nightly"]
    world.settle(5.0)
    reserve = world.status("team", BATCH)["reserve"]
    assert (reserve["smallJobs"], reserve["largeJobs"]) == (1, 2)
    assert counting(world, NIGHTLY) == ["fairburst"]
    assert counting(world, SMALL_CLASS) == [SMALL_QUOTA]
    assert (world.quotas["team", "fairburst"].status.used or {})["requests.cpu"] == "62"


def test_a_new_queue_takes_its_former_pods_out_of_the_jobs_of_the_default_queue(world: World) -> None:
    """They keep its class through a deletion and a new creation."""
    del world.queues[TQ, "team", "nightly"]
    world.settle(5.0)
    further(world, number=2)
    for lane in range(2, 9):  # so that the lane whose pods still live is the only one left
        further(world, f"other-{lane}", lane + 10)
    world.settle(5.0)
    assert world.status("team", BATCH)["reserve"]["largeJobs"] == 1
    assert not world.engine.contained.failures


def test_tasks_are_those_of_the_default_queue(world: World) -> None:
    reserve = world.engine.reserve
    assert reserve is not None
    assert len(reserve.index) == 30
    for number in range(10):
        world.end("team", f"night-{number}")
        world.put(of_class(f"more-{number}", NIGHTLY))
    world.round()
    assert len(reserve.index) == 30
    del world.queues[TQ, "team", "nightly"]
    world.after(1.0)
    world.round()
    assert len(reserve.index) == 52, "22 of the Job and 30 of the default queue's; bare pods here have no time of start"


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("queue"), st.sampled_from(OTHERS)),
        st.tuples(st.just("small"), st.integers(0, 8)),
        st.tuples(st.just("large"), st.integers(0, 80)),
        st.tuples(st.just("pod"), st.sampled_from(("small", "large", "queue-1", "queue-2"))),
        st.tuples(st.just("reserve"), st.sampled_from(("Off", "Auto"))),
        st.tuples(st.just("mode"), st.sampled_from(("Quota", "Gate", "Suspend"))),
        st.tuples(st.just("wait"), st.sampled_from((1.0, 30.0, 70.0))),
    ),
    max_size=25,
)


def happen(world: World, number: int, what: str, value: Any) -> None:
    default = world.queues[TQ, "team", BATCH]
    match what:
        case "queue" if (TQ, "team", value) in world.queues:
            del world.queues[TQ, "team", value]
        case "queue":
            further(world, value, number)
        case "small" | "large":
            world.controller("Job", None, sized_job("team", what, value, what))
        case "pod":
            world.put(sized_pod("team", number, "stray", value))
        case "reserve" | "mode":
            field = {"reserve": "reserve", "mode": "enforcement"}[what]
            metadata = {**default["metadata"], "generation": number + 2}
            world.queues[TQ, "team", BATCH] = default | {"metadata": metadata, "spec": {**default["spec"], field: value}}
        case "wait":
            world.after(value)


@settings(max_examples=25)
@given(events=EVENTS)
def test_every_pod_counts_for_a_quota_at_any_time_and_for_one_at_rest_whatever_comes_and_goes(events: list[tuple[str, Any]]) -> None:
    """Also where only one of a round's writes succeeds."""
    world = World(ON)
    world.queue(TQ, "team", BATCH)
    world.queue(TQ, "rival", "batch")
    world.settle(5.0)
    for number, event in enumerate(events):
        happen(world, number, *event)
        for _ in range(2):
            world.after(0.6)
            before, plan = scopes_of(world), world.plan()
            world.take(plan)
            for scopes in (*after_one_write(before, plan), scopes_of(world)):
                found = each_class(scopes)
                assert all(found.values()), f"pods that count for none: {found}"
            assert sum(column(plan, "usage").values()) == len(world.pods)
    world.settle(5.0)
    found = each_class(scopes_of(world))
    assert all(len(names) == 1 for names in found.values()), found
    assert not world.engine.contained.failures
