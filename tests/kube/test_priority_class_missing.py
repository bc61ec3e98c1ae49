"""A PriorityClass of the installation that is deleted, or is made again with another value: the API server refuses the pods that get it."""

from __future__ import annotations

import msgspec
import pytest

from fairburst.kube.api.class_objects import PriorityClass
from fairburst.kube.enforce.pod_priority import class_values
from fairburst.kube.names import LANE_CLASSES, LARGE_CLASS, SMALL_CLASS
from fairburst.kube.rounds.work_events import WAITED_SECONDS, WorkEvents
from tests.support.objects import World, job, latency_spec, requesting

LQ, TQ = "LatencyQueue", "ThroughputQueue"
SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def put(world: World, **changes: int | None) -> None:
    """Let the cluster have its own classes and those of the installation, some of them changed or missing."""
    values = SYSTEM | class_values(world.config) | {f"fairburst-{rung}": value for rung, value in changes.items()}
    found = {name: msgspec.convert({"metadata": {"name": name}, "value": value}, PriorityClass) for name, value in values.items() if value}
    world.view.priority_classes = {("", name): one for name, one in found.items()}


def site() -> World:
    world = World()
    world.queue(TQ, "batch")
    world.queue(TQ, "batch", name="nightly", created="2026-02-01T00:00:00Z")
    world.queue(LQ, "bursts", spec=latency_spec())
    put(world)
    world.settle(3.0)
    return world


def reasons(world: World) -> dict[str, str]:
    world.after(2.0)
    world.round()
    queues = ((TQ, "batch", "queue"), (TQ, "batch", "nightly"), (LQ, "bursts", "queue"))
    return {name if where == "batch" else where: world.condition(kind, where, "Enforced", name)[1] for kind, where, name in queues}


def test_nothing_is_said_where_all_classes_are_there_or_may_not_be_read() -> None:
    world = site()
    expected = {"queue": "Quota", "nightly": "Quota", "bursts": "Quota"}
    assert reasons(world) == expected
    world.view.priority_classes = {}
    assert reasons(world) == expected


@pytest.mark.parametrize(
    ("name", "queue"),
    [(SMALL_CLASS, "queue"), (LARGE_CLASS, "queue"), (LANE_CLASSES[1], "nightly"), ("fairburst-hard", "bursts")],
)
def test_the_queue_whose_pods_get_a_missing_class_says_so_until_it_is_back(name: str, queue: str) -> None:
    world = site()
    put(world, **{name.removeprefix("fairburst-"): None})
    found = reasons(world)
    assert found.pop(queue) == "PriorityClassMissing"
    assert set(found.values()) == {"Quota"}
    put(world)
    assert reasons(world)[queue] == "Quota"


def test_a_class_of_another_value_is_named_with_both_and_the_queue_is_not_ready() -> None:
    world = site()
    put(world, hard=7)
    assert reasons(world)["bursts"] == "PriorityClassMissing"
    status, _, message = world.condition(LQ, "bursts", "Enforced")
    value = class_values(world.config)["fairburst-hard"]
    assert message.startswith(f"expected PriorityClass fairburst-hard with the value {value}, found 7: the API server refuses")
    assert (status, world.condition(LQ, "bursts", "Ready")[:2]) == ("False", ("False", "PriorityClassMissing"))


def test_a_job_whose_pods_are_refused_is_told_so() -> None:
    world, events = site(), WorkEvents()
    world.controller("Job", None, job("batch", "waits", 3, requesting("1", "1Gi")))
    put(world, large=None)
    engine, told = world.engine, []
    for _ in range(3):
        told += events.due(world.round(), engine.demands, engine.gates.gated.of, world.now, obstacles=engine.managed.obstacles)
        world.after(WAITED_SECONDS)
    (event,) = told
    assert (event.involved["name"], event.reason, event.warning) == ("waits", "PriorityClassMissing", True)
    assert "the queue's condition Enforced says which PriorityClass" in event.message
