"""The suggestion for a queue in Observe mode: its bursts as they were, and the class that the declaration would have."""

from __future__ import annotations

import random
import re

import pytest

from fairburst.kube.shadow import ObservingEngine
from fairburst.kube.usage.work_history import MOST_PIECES, WorkHistories
from tests.support.objects import World, latency_spec, pod, requesting

TQ, LQ = "ThroughputQueue", "LatencyQueue"


def burst(world: World, number: int, pods: int, seconds: float) -> None:
    names = [f"burst-{number}-{index}" for index in range(pods)]
    for name in names:
        world.put(pod("seen", name, requesting("1", "2Gi"), node="node-0", phase="Running"))
    world.round()
    world.after(seconds)
    for name in names:
        world.end("seen", name)
    world.round()


def observed(world: World, count: int, pods: int = 8, period: float = 300.0, seconds: float = 35.0) -> None:
    """Bursts every 300 s, give or take 8."""
    draw = random.Random(1)
    left = 0.0
    for number in range(count):
        late = draw.uniform(-4.0, 4.0)
        world.after(period - seconds + late - left)
        left = late
        burst(world, number, pods, seconds)
    world.after(70.0)
    world.round()
    world.after(5.0)
    world.round()


@pytest.mark.parametrize("kind", [TQ, LQ])
def test_a_queue_that_is_observed_is_told_what_to_declare(kind: str) -> None:
    world = World()
    world.queue(TQ, "batch")
    world.queue(kind, "seen", spec={"enforcement": "Observe"} if kind == TQ else latency_spec("1", 5, 60, enforcement="Observe"))
    world.round()
    observed(world, 8)
    found = world.status("seen", kind=kind)["suggestion"]
    assert found["burst"] == {"resources": {"cpu": "8", "memory": "16Gi"}, "durationSeconds": 35, "deadlineSeconds": 35}
    period = found["arrival"]["periodic"]
    assert 297 <= period["periodSeconds"] <= 303
    assert 1 <= period["jitterSeconds"] <= 9
    assert (found["bursts"], found["class"]) == (8, "Hard")
    said = r"8 bursts were seen: 8 cpu, 16Gi memory for 35 s, every 30\d ± \d s\. A LatencyQueue .* would be Hard\."
    assert re.fullmatch(said, found["message"])


def test_bursts_beyond_a_fair_share_are_told_the_class_that_they_would_have() -> None:
    world = World()
    world.queue(TQ, "batch", spec={"weight": 50})
    world.queue(TQ, "seen", spec={"enforcement": "Observe"})
    world.round()
    observed(world, 8, pods=14, period=60.0)
    assert world.status("seen")["suggestion"]["class"] == "Elastic"


def test_too_few_bursts_are_said_to_be_too_few_and_an_enforced_queue_is_told_nothing() -> None:
    world = World()
    world.queue(TQ, "batch")
    world.queue(TQ, "seen", spec={"enforcement": "Observe"})
    world.round()
    observed(world, 3)
    told = world.status("seen")["suggestion"]
    assert told == {"message": "No declaration is suggested: 3 whole bursts were seen; 5 are needed."}
    assert "suggestion" not in world.status("batch")
    world.queue(TQ, "seen", status=world.status("seen"), spec={"enforcement": "Quota"})
    world.round()
    assert "suggestion" not in world.status("seen")


def test_the_last_suggestion_outlives_a_restart() -> None:
    world = World()
    world.queue(TQ, "batch")
    world.queue(TQ, "seen", spec={"enforcement": "Observe"})
    world.round()
    observed(world, 8)
    before = world.status("seen")["suggestion"]
    world.engine = ObservingEngine(world.config, world.config.namespace)
    for _ in range(4):
        world.after(30.0)
        world.round()
    assert world.status("seen")["suggestion"] == before


def test_the_history_of_a_namespace_is_bounded_and_knows_where_it_begins() -> None:
    histories = WorkHistories()
    histories.watch({"seen"}, 1000.0)
    for number in range(MOST_PIECES + 100):
        one = pod("seen", f"p{number}", requesting("1", "1Gi"), node="node-0", phase="Running")
        histories.pod_changed(None, one, 1000.0 + number)
        histories.pod_changed(one, None, 1010.0 + number)
    other = pod("other", "p", requesting("1", "1Gi"))
    histories.pod_changed(None, other, 1000.0)
    assert histories.changed() == ["seen"]
    history = histories.read("seen", ("cpu", "memory"), 9000.0)
    assert len(history.begin) == MOST_PIECES
    assert history.since == pytest.approx(1010.0 + 99)
    assert histories.changed() == []
    histories.watch(set(), 9000.0)
    histories.pod_changed(None, one, 9000.0)
    assert histories.changed() == []
