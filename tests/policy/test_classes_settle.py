"""In the round of any change, every queue gets the best class whose conditions hold."""

from __future__ import annotations

import dataclasses

import numpy as np

from fairburst.policy import memory as saved
from fairburst.policy.decide import decide
from fairburst.policy.model import EventKind, GuaranteeClass, Memory, PolicyConfig, QueueSpec, RoundResult, Sporadic
from tests.support.policy import latency, snapshot, throughput

HARD, SOFT, ELASTIC = GuaranteeClass.HARD, GuaranteeClass.SOFT, GuaranteeClass.ELASTIC


def settle(queues: tuple[QueueSpec, ...], capacity: float, memory: Memory, now: float) -> tuple[RoundResult, Memory]:
    return decide(snapshot(queues, [capacity], np.zeros((len(queues), 1))), memory, PolicyConfig(), now)


def test_a_condition_that_holds_after_a_change_promotes_in_the_same_round() -> None:
    burst = latency("b", 1.0, [100.0], 40, Sporadic(100))
    result, memory = settle((throughput("a", weight=3.0), burst), 100.0, Memory(), 0.0)
    assert result.classes == (ELASTIC, ELASTIC)  # condition (2): 4000 > 100 x 100 / 4
    light = (throughput("a", weight=1.0), burst)
    result, memory = settle(light, 100.0, memory, 1.0)
    assert result.classes == (ELASTIC, HARD)  # 4000 <= 100 x 100 / 2
    assert [event.queue for event in result.events if event.kind is EventKind.CLASS_CHANGED] == ["b"]
    steady, memory = settle(light, 100.0, memory, 3600.0)
    restarted, _ = settle(light, 100.0, saved.load(saved.dump(memory)), 3601.0)
    assert steady.classes == restarted.classes == (ELASTIC, HARD)


def test_an_older_rejected_queue_is_looked_at_again_as_soon_as_a_younger_change_makes_room() -> None:
    promise = latency("a", 0.0, [50.0], 40, Sporadic(100))
    young = throughput("z", 1.5, weight=1.5)
    old = throughput("m", 1.0)
    result, memory = settle((promise, young), 50.0, Memory(), 0.0)
    queues = (promise, old, young)
    result, memory = settle(queues, 50.0, memory, 1.0)
    assert result.classes == (HARD, None, ELASTIC)  # 2000 > 50 x 100 / 3.5
    result, memory = settle((promise, old, dataclasses.replace(young, weight=0.25)), 50.0, memory, 2.0)
    assert result.classes == (HARD, ELASTIC, ELASTIC)  # 2000 <= 50 x 100 / 2.25
    told = [(event.queue, event.kind) for event in result.events]
    assert told == [("z", EventKind.PROMISE_CHANGED), ("m", EventKind.ADMITTED)]


def test_an_older_refused_change_is_looked_at_again_as_soon_as_a_younger_change_makes_room() -> None:
    promise = latency("a", 0.0, [50.0], 40, Sporadic(100))
    first, second = throughput("b", 1.0, weight=0.5), throughput("c", 2.0, weight=0.9)
    _, memory = settle((promise, first, second), 50.0, Memory(), 0.0)
    heavier = dataclasses.replace(first, weight=1.0)
    result, memory = settle((promise, heavier, second), 50.0, memory, 1.0)
    assert [event.kind for event in result.events] == [EventKind.PROMISE_CHANGE_REJECTED]  # 2000 > 50 x 100 / 2.9
    result, memory = settle((promise, heavier, dataclasses.replace(second, weight=0.5)), 50.0, memory, 2.0)
    assert [(event.queue, event.kind) for event in result.events] == [("c", EventKind.PROMISE_CHANGED), ("b", EventKind.PROMISE_CHANGED)]
    assert result.decisions[1].share == 1.0 / 2.5


def test_no_explanation_names_the_queue_as_in_its_own_way() -> None:
    alone = latency("a", 0.0, [20.0], 5, Sporadic(400))
    result, _ = settle((alone,), 10.0, Memory(), 0.0)
    assert result.classes == (SOFT,)
    message = result.decisions[0].admission.message
    assert "most of it a" not in message
    assert message == "Soft: its own rate of 20 cores does not fit into 10 cores. Allow a later deadline, or ask for less."
