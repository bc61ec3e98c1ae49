"""Schedules as columns: they equal the bursts one by one, and invalid ones are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairburst.policy.decide import decide
from fairburst.policy.declared import compile_queues
from fairburst.policy.errors import InvalidSpecError
from fairburst.policy.model import Burst, ClusterSnapshot, Memory, PolicyConfig, QueueKind, QueueSpec, Schedule, ScheduledBurst
from fairburst.policy.schedule import BurstTable

BURSTS = (
    ScheduledBurst(1000.0, Burst({"cpu": 4.0}, 10.0, 20.0)),
    ScheduledBurst(1100.0, Burst({"cpu": 2.0, "memory": 8.0}, 10.0, 10.0)),
    ScheduledBurst(5000.0, Burst({"memory": 64.0}, 30.0, 60.0)),
)


def spec(bursts: object) -> QueueSpec:
    return QueueSpec("ns/q", QueueKind.LATENCY, (0.0, "ns/q"), arrival=Schedule(bursts))  # type: ignore[arg-type]


def table(**changed: object) -> BurstTable:
    columns = {
        "resources": ("cpu",), "arrival": np.array([1000.0, 1100.0]), "duration": np.array([10.0, 10.0]),
        "deadline": np.array([20.0, 20.0]), "amounts": np.array([[4.0], [2.0]]),
    }  # fmt: skip
    return BurstTable(**(columns | changed))  # type: ignore[arg-type]


def test_a_table_is_the_sequence_of_its_bursts() -> None:
    columns = BurstTable.of(BURSTS)
    assert len(columns) == 3
    assert columns[0].burst.resources == {"cpu": 4.0, "memory": 0.0}
    assert [item.arrival for item in columns[1:]] == [1100.0, 5000.0]
    assert BurstTable.of(tuple(columns)) == columns
    assert BurstTable.of(columns) is columns
    assert columns != BurstTable.of(BURSTS[:2])


def test_the_heaviest_burst_is_found_resource_by_resource() -> None:
    declared = compile_queues((spec(BURSTS),), ("cpu", "memory"), 3600.0)
    assert declared.worst[0] == pytest.approx([40.0 / 100.0, 64.0 * 30.0 / 3600.0])  # the last one counts over the cycle limit
    assert declared.highest_rate[0] == pytest.approx([2.0, 32.0])
    shorter = compile_queues((spec(BURSTS),), ("cpu", "memory"), 50.0)
    assert shorter.worst[0] == pytest.approx([40.0 / 50.0, 64.0 * 30.0 / 50.0])


def test_a_resource_that_is_not_counted_is_named_only_if_a_burst_needs_it() -> None:
    assert compile_queues((spec(BURSTS),), ("cpu",), 3600.0).unknown == {0: "memory"}
    nothing = BurstTable.of((ScheduledBurst(1000.0, Burst({"cpu": 1.0, "memory": 0.0}, 10.0, 20.0)),))
    assert compile_queues((spec(nothing),), ("cpu",), 3600.0).unknown == {}


@pytest.mark.parametrize(
    ("bursts", "want"),
    [
        pytest.param((), "at least one scheduled burst", id="none"),
        pytest.param(table(amounts=np.array([[4.0], [math.nan]])), "amount of cpu between 0", id="an amount that is no number"),
        pytest.param(table(amounts=np.array([[-1.0], [2.0]])), "found -1", id="a negative amount"),
        pytest.param(table(duration=np.array([10.0, 30.0])), "duration <= deadline", id="longer than its deadline"),
        pytest.param(table(deadline=np.array([math.inf, 20.0])), "duration <= deadline", id="without a deadline"),
        pytest.param(table(arrival=np.array([1100.0, 1000.0])), "ascending order", id="backwards"),
        pytest.param(table(arrival=np.array([1000.0, 1010.0])), "ascending order", id="the next before the deadline"),
        pytest.param(table(arrival=np.array([math.nan, 1000.0])), "ascending order", id="an arrival that is no number"),
    ],
)
def test_a_schedule_that_cannot_be_worked_with_is_refused_by_queue_and_reason(bursts: object, want: str) -> None:
    with pytest.raises(InvalidSpecError, match=want) as error:
        compile_queues((spec(bursts),), ("cpu",), 3600.0)
    assert "queue ns/q" in str(error.value)


def test_columns_and_single_bursts_decide_alike_through_all_windows() -> None:
    memories = [Memory(), Memory()]
    for now in (900.0, 1000.0, 1015.0, 1105.0, 3000.0, 5010.0, 9000.0):
        results = []
        for position, bursts in enumerate((BURSTS, BurstTable.of(BURSTS))):
            demand = np.array([[3.0, 8.0]])
            capacity = np.array([10.0, 100.0])
            snapshot = ClusterSnapshot(("cpu", "memory"), capacity, capacity, (spec(bursts),), demand, demand / 2, np.ones((1, 2)))
            result, memories[position] = decide(snapshot, memories[position], PolicyConfig(), now)
            results.append((result.allocation.tobytes(), result.level.tobytes(), result.next_boundary, result.events))
        assert results[0] == results[1]
