"""Resources that a burst leaves out and its pods request: they count, or the queue is not guaranteed and told why."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fairburst.policy import memory as saved
from fairburst.policy.decide import decide
from fairburst.policy.model import (
    Burst,
    ClusterSnapshot,
    EventKind,
    GuaranteeClass,
    Memory,
    PolicyConfig,
    QueueKind,
    QueueSpec,
    Schedule,
    ScheduledBurst,
    Sporadic,
)
from tests.support.policy import latency, snapshot, throughput

HARD, ELASTIC = GuaranteeClass.HARD, GuaranteeClass.ELASTIC
CPU_ONLY = latency("l", 1.0, [40.0], 30, Sporadic(300))
CAPACITY = [100.0, 400.0]


def beside(spec: QueueSpec, unit: list[float], wanted: list[float] | None = None) -> ClusterSnapshot:
    """The queue beside a backlogged one that uses all the memory."""
    demand = [[100.0, 800.0], [0.0, 0.0] if wanted is None else wanted]
    return snapshot((throughput("t"), spec), CAPACITY, demand, [[50.0, 400.0], [0.0, 0.0]], [[1.0, 8.0], unit])


def test_a_guarantee_of_cores_comes_with_the_memory_of_their_pods() -> None:
    result, _ = decide(beside(CPU_ONLY, [1.0, 2.0], [40.0, 80.0]), Memory(), PolicyConfig(), 0.0)
    assert result.classes == (ELASTIC, HARD)
    assert result.level[1].tolist() == [40.0, 80.0]
    assert result.decisions[1].admission.message.endswith(
        "The burst counts with 80 B that it does not declare, because its pods request as much."
    )


@pytest.mark.parametrize("scheduled", [False, True], ids=["sporadic", "scheduled"])
def test_pods_of_any_size_ask_for_no_more_than_can_be_written(scheduled: bool) -> None:
    """Found by fuzzed objects: 2^61 cores in pods of a few, each with 2^61 bytes, were a product that no round could decide on."""
    most = 2.0**61
    arrival = Schedule((ScheduledBurst(100.0, Burst({"cpu": most}, 30, 30)),)) if scheduled else Sporadic(300)
    spec = dataclasses.replace(latency("l", 1.0, [most], 30, Sporadic(300)), arrival=arrival)
    result, memory = decide(beside(spec, [1.0, most]), Memory(), PolicyConfig(), 0.0)
    assert result.classes[1] is ELASTIC
    counted = memory.queues["l"].promise
    bursts = [one.burst for one in counted.arrival.bursts] if isinstance(counted.arrival, Schedule) else [counted.burst]
    assert [dict(one.resources) for one in bursts if one] == [{"cpu": most, "memory": most}]


def test_pods_that_ask_for_more_than_can_be_promised_end_the_guarantee_and_the_message_says_why() -> None:
    _, memory = decide(beside(CPU_ONLY, [0.0, 0.0]), Memory(), PolicyConfig(), 0.0)
    assert memory.queues["l"].guarantee_class is HARD
    result, memory = decide(beside(CPU_ONLY, [1.0, 60.0], [40.0, 2400.0]), memory, PolicyConfig(), 1.0)
    assert result.classes[1] is ELASTIC  # 2400 x 30 s > 400 x 300 s / 2
    admission = result.decisions[1].admission
    assert admission.reason == "DemandAboveFairShare"
    assert "2.344 KiB that it does not declare" in admission.message
    assert [event.kind for event in result.events if event.queue == "l"] == [EventKind.CLASS_CHANGED]


def test_what_pods_need_is_remembered_between_bursts_and_over_restarts() -> None:
    _, memory = decide(beside(CPU_ONLY, [2.0, 3.0], [40.0, 60.0]), Memory(), PolicyConfig(), 0.0)
    idle = beside(CPU_ONLY, [0.0, 0.0])
    steady, memory = decide(idle, memory, PolicyConfig(), 1.0)
    restarted, _ = decide(idle, saved.load(saved.dump(memory)), PolicyConfig(), 2.0)
    assert steady.level[1].tolist() == restarted.level[1].tolist() == [40.0, 60.0]
    assert not steady.events + restarted.events


@pytest.mark.parametrize(("unit", "memory_level"), [([1.0, 2.5], 100.0), ([1.0, 1.2], 80.0), ([1.0, 0.9], 36.0), ([3.0, 2.0], 28.0)])
def test_pods_of_another_size_count_where_they_need_more_or_much_less(unit: list[float], memory_level: float) -> None:
    _, memory = decide(beside(CPU_ONLY, [1.0, 2.0], [40.0, 80.0]), Memory(), PolicyConfig(), 0.0)
    demand = [40.0, 40.0 / unit[0] * unit[1]]
    result, _ = decide(beside(CPU_ONLY, unit, demand), memory, PolicyConfig(), 1.0)
    assert result.decisions[1].level[1] >= memory_level
    _, memory = decide(beside(CPU_ONLY, unit, demand), memory, PolicyConfig(), 1.0)
    promise = memory.queues["l"].promise
    assert promise.burst is not None
    assert promise.burst.resources["memory"] == memory_level


def test_a_resource_that_the_owner_declares_is_taken_at_his_word() -> None:
    declared = latency("l", 1.0, [40.0, 10.0], 30, Sporadic(300))
    result, memory = decide(beside(declared, [1.0, 8.0], [40.0, 320.0]), Memory(), PolicyConfig(), 0.0)
    assert memory.queues["l"].promise == declared
    assert "does not declare" not in result.decisions[1].admission.message


def test_a_resource_taken_out_of_the_declaration_no_longer_counts_once_pods_run_without_it() -> None:
    declared = latency("l", 1.0, [40.0, 160.0], 30, Sporadic(300))
    _, memory = decide(beside(declared, [1.0, 4.0]), Memory(), PolicyConfig(), 0.0)
    _, memory = decide(beside(CPU_ONLY, [1.0, 1.0]), memory, PolicyConfig(), 1.0)
    promise = memory.queues["l"].promise
    assert promise.burst == Burst({"cpu": 40.0, "memory": 40.0}, 30.0, 30.0)


def test_a_schedule_counts_each_burst_by_itself_and_keeps_its_place() -> None:
    bursts = [ScheduledBurst(100.0 * row, Burst({"cpu": cores}, 30.0, 30.0)) for row, cores in enumerate([10.0, 40.0, 20.0])]
    spec = QueueSpec("l", QueueKind.LATENCY, (1.0, "l"), arrival=Schedule(tuple(bursts)))
    _, memory = decide(beside(spec, [0.0, 0.0]), Memory(), PolicyConfig(), 0.0)
    result, memory = decide(beside(spec, [4.0, 8.0], [40.0, 80.0]), memory, PolicyConfig(), 110.0)
    arrival = memory.queues["l"].promise.arrival
    assert isinstance(arrival, Schedule)
    assert [dict(one.burst.resources) for one in arrival.bursts] == [
        {"cpu": 10.0, "memory": 24.0}, {"cpu": 40.0, "memory": 80.0}, {"cpu": 20.0, "memory": 40.0},
    ]  # fmt: skip
    window = memory.queues["l"].window
    assert window is not None
    assert window.index == 1
    assert result.level[1].tolist() == [40.0, 80.0]


def test_only_a_changed_size_of_the_pods_asks_admission_again() -> None:
    given = beside(CPU_ONLY, [1.0, 2.0], [40.0, 80.0])
    _, memory = decide(given, Memory(), PolicyConfig(), 0.0)
    assert memory.columns is not None
    assert not memory.columns.pod_demand.differs(given.unit)
    assert not memory.columns.pod_demand.differs(given.unit * 0)
    assert not memory.columns.pod_demand.differs(np.array([[9.0, 9.0], [1.0, 1.9]]))
    assert memory.columns.pod_demand.differs(np.array([[1.0, 8.0], [1.0, 2.1]]))
    quiet = dataclasses.replace(given, demand=given.demand * 0, usage=given.usage * 0)
    _, memory = decide(quiet, memory, PolicyConfig(), 310.0)
    larger = dataclasses.replace(quiet, unit=np.array([[1.0, 8.0], [1.0, 3.0]]))
    result, _ = decide(larger, memory, PolicyConfig(), 310.5)
    assert result.level[1].tolist() == [40.0, 120.0]  # armed
