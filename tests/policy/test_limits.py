"""A queue's limits cap what it is allocated and what its quota permits; they take nothing from its promise."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from fairburst.policy.decide import decide
from fairburst.policy.model import ClusterSnapshot, EventKind, GuaranteeClass, Memory, PolicyConfig, QueueSpec, RoundResult, Sporadic
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START

CONFIG = PolicyConfig()


def bursting(rate: float, **limits: float) -> QueueSpec:
    """A burst of `rate` cores for 10 s."""
    return dataclasses.replace(latency("l/q", 0.0, [rate], 10, Sporadic(100)), limits=limits)


def decided(
    spec: QueueSpec, seconds: float, demand: float, unit: float = 1.0, batch: float = 0.0, memory: Memory | None = None
) -> tuple[RoundResult, Memory]:
    """One round over the queue and a batch queue on 20 cores."""
    given = snapshot((spec, throughput("t/q", 1.0)), [20.0], [[demand], [batch]], unit=[[unit], [1.0]])
    return decide(given, Memory() if memory is None else memory, CONFIG, START + seconds)


@pytest.mark.parametrize(("limits", "want"), [({}, 20.0), ({"cpu": 8.0}, 8.0)], ids=["without a limit", "with one"])
def test_a_burst_larger_than_declared_takes_idle_capacity_up_to_its_limit(limits: dict[str, float], want: float) -> None:
    _, memory = decided(bursting(5.0, **limits), 0, 0.0)
    result, _ = decided(bursting(5.0, **limits), 1, 20.0, memory=memory)
    assert (result.allocation[0].tolist(), result.level[0].tolist()) == ([want], [want])


def test_the_least_demand_that_a_float_can_hold_stays_within_a_limit() -> None:
    """The limit divided by it overflows. Warnings are errors here."""
    result, _ = decided(bursting(5.0, cpu=8.0), 1, 5e-324)
    assert 0.0 <= result.allocation[0, 0] <= 8.0


def test_what_a_limit_leaves_goes_to_others() -> None:
    """20 cores: 8 for the burst, 12 for the batch queue, which would have 10 beside a queue without a limit."""
    _, memory = decided(bursting(5.0, cpu=8.0), 0, 0.0)
    result, memory = decided(bursting(5.0, cpu=8.0), 50, 20.0, batch=20.0, memory=memory)
    assert result.allocation.tolist() == [[8.0], [12.0]]
    assert decided(bursting(5.0), 50, 20.0, batch=20.0)[0].allocation.tolist() == [[10.0], [10.0]]


@pytest.mark.parametrize("seconds", [0, 1], ids=["armed", "open"])
def test_whole_pods_never_raise_a_quota_above_the_limit(seconds: float) -> None:
    """A guaranteed rate of 5 cores in pods of 2 is 6 cores; a limit of 5.5 stops there."""
    result, memory = decided(bursting(5.0, cpu=5.5), 0, 0.0, unit=2.0)
    if seconds:
        result, _ = decided(bursting(5.0, cpu=5.5), seconds, 20.0, unit=2.0, memory=memory)
    assert result.level[0].tolist() == [5.5]
    assert decided(bursting(5.0, cpu=9.0), 0, 0.0, unit=2.0)[0].level[0].tolist() == [6.0]


def test_a_limit_that_holds_the_burst_costs_no_class_and_no_rate() -> None:
    result, memory = decided(bursting(8.0, cpu=8.0), 0, 0.0, batch=20.0)
    assert result.classes[0] is GuaranteeClass.HARD
    result, _ = decided(bursting(8.0, cpu=8.0), 1, 8.0, batch=20.0, memory=memory)
    assert (result.guaranteed[0].tolist(), result.level[0].tolist()) == ([8.0], [8.0])


@pytest.mark.parametrize("limit", [6.0, 12.0], ids=["lower", "higher"])
def test_a_changed_limit_is_in_force_at_once_and_keeps_the_class(limit: float) -> None:
    result, memory = decided(bursting(5.0, cpu=8.0), 0, 0.0)
    result, memory = decided(bursting(5.0, cpu=limit), 1, 20.0, memory=memory)
    assert [event.kind for event in result.events] == [EventKind.PROMISE_CHANGED, EventKind.BURST_OPENED]
    assert result.classes[0] is GuaranteeClass.HARD
    assert result.allocation[0].tolist() == [limit]
    assert dict(memory.queues["l/q"].promise.limits) == {"cpu": limit}


class TestLimits:
    def test_scale_down_the_demand_of_their_queue_as_a_whole_and_of_no_other(self) -> None:
        queues = (
            throughput("a/q", 0.0, cpu=4.0, memory=2.0),
            throughput("b/q", 1.0, cpu=4.0),
            throughput("c/q", 2.0),
            throughput("d/q", 3.0, cpu=0.0),
        )
        result, _ = decide(snapshot(queues, [40.0, 40.0], [[10.0, 10.0], [1.0, 1.0], [9.0, 9.0], [9.0, 9.0]]), Memory(), CONFIG, START)
        assert result.allocation.tolist() == [[2.0, 2.0], [1.0, 1.0], [9.0, 9.0], [0.0, 0.0]]

    def test_of_resources_that_nobody_counts_say_nothing(self) -> None:
        result, _ = decide(snapshot((throughput("a/q", 0.0, tpu=1.0),), [10.0], [[9.0]]), Memory(), CONFIG, START)
        assert result.allocation.tolist() == [[9.0]]


def test_an_infinite_burst_is_refused_by_name_though_its_pods_lack_a_resource() -> None:
    spec = latency("l/q", 0.0, [math.inf], 10, Sporadic(100))
    given = ClusterSnapshot(("cpu", "memory"), *([np.array([20.0, 20.0])] * 2), (spec,), *([np.zeros((1, 2))] * 2), np.array([[1.0, 0.0]]))
    with pytest.raises(ValueError, match="l/q"):
        decide(given, Memory(), CONFIG, START)
