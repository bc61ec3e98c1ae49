"""The memory moves with a step of the clock: no duration changes, and dated arrivals keep their dates."""

from __future__ import annotations

import functools
import math

import pytest

from fairburst.policy.clock_step import shifted, shifted_reclaim
from fairburst.policy.decide import decide
from fairburst.policy.dress.memory import DressMemory, Prediction
from fairburst.policy.lead_time_record import LeadTimeRecord
from fairburst.policy.model import (
    Burst,
    EventKind,
    Memory,
    Periodic,
    PolicyConfig,
    QueueKind,
    QueueSpec,
    RoundResult,
    Schedule,
    ScheduledBurst,
    Sporadic,
    WindowState,
)
from fairburst.policy.reclaim.values import ReclaimMemory
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START

HOUR = 3600.0
SPORADIC = latency("sporadic/q", 1.0, [4.0], 10, Sporadic(60))
FLOATING = latency("floating/q", 2.0, [2.0], 10, Periodic(60))
BATCH = throughput("batch/q")


@functools.cache
def undisturbed() -> tuple[list[RoundResult], Memory]:
    """The run in which the clock never steps, which every other run is compared with."""
    return run((SPORADIC, FLOATING, BATCH), {})


def run(queues: tuple[QueueSpec, ...], steps: dict[int, float], rounds: int = 200) -> tuple[list[RoundResult], Memory]:
    """Rounds a second apart; before round n the clock steps by steps[n]. Work comes every 70 s and takes 8 s."""
    memory, ahead, results = Memory(), 0.0, []
    for number in range(rounds):
        step = steps.get(number, 0.0)
        if step:
            memory, ahead = shifted(memory, step), ahead + step
        bursting = number % 70 < 8
        wants = [10.0 if spec.kind is QueueKind.THROUGHPUT else 4.0 * bursting for spec in queues]
        uses = [4.0 if spec.kind is QueueKind.THROUGHPUT else 2.0 * bursting for spec in queues]
        result, memory = decide(snapshot(queues, [10.0], wants, uses), memory, PolicyConfig(), START + number + ahead)
        results.append(result)
    return results, memory


@pytest.mark.parametrize("step", [-HOUR, HOUR, -5.0])
@pytest.mark.parametrize("at", [3, 9, 40, 72])
def test_a_step_changes_no_decision_where_no_arrival_is_dated(step: float, at: int) -> None:
    straight, known = undisturbed()
    stepped, memory = run((SPORADIC, FLOATING, BATCH), {at: step})
    for number, (left, right) in enumerate(zip(straight, stepped, strict=True)):
        assert left.level == pytest.approx(right.level, abs=1e-5), number
        assert [one.kind for one in left.events] == [one.kind for one in right.events], number
    for name in known.queues:
        before, after = known.entry(name), memory.entry(name)
        assert (before.bursts, before.met, before.missed) == (after.bursts, after.met, after.missed)
        assert before.ledger(START + 200) == pytest.approx(after.ledger(START + 200 + step), abs=1e-5)
        assert before.balance_value == pytest.approx(after.balance_value, abs=1e-5)


def test_there_and_back_changes_nothing() -> None:
    memory = undisturbed()[1]
    there_and_back = shifted(shifted(memory, -HOUR), HOUR)
    assert there_and_back == Memory(memory.queues, memory.next_admission_order)


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_a_window_that_waits_for_a_dated_arrival_waits_for_its_date(step: float) -> None:
    first = START + 2 * HOUR
    dated = latency("dated/q", 1.0, [4.0], 10, Periodic(120, first))
    arrivals = (ScheduledBurst(first, Burst({"cpu": 4.0}, 10, 10)),)
    listed = QueueSpec("listed/q", QueueKind.LATENCY, (2.0, "listed/q"), 1.0, None, Schedule(arrivals))
    _, memory = run((dated, listed, BATCH), {40: step}, rounds=50)
    for name in ("dated/q", "listed/q"):
        window = memory.entry(name).window
        assert window is not None
        assert (window.state, window.arms_at) == (WindowState.CLOSED, first)


def test_an_open_dated_window_ends_after_its_time() -> None:
    dated = latency("dated/q", 1.0, [4.0], 10, Periodic(120, START + 5))
    results, memory = run((dated, BATCH), {9: -HOUR}, rounds=20)
    assert results[10].decisions[0].window is not None
    window = memory.entry("dated/q").window
    assert window is not None
    assert window.state is not WindowState.OPEN, "it opened at 5 s and had 10 s"
    assert memory.entry("dated/q").ledger(START + 20 - HOUR) > 0


def test_dress_and_reclaim_move_along() -> None:
    dress = DressMemory(0.3, START, 77.0, prediction=Prediction(START, START + 9, (), ()), lead_times={"q": LeadTimeRecord(as_of=START)})
    moved = shifted(Memory({}, dress=dress), HOUR).dress
    assert moved is not None
    assert moved.prediction is not None
    assert (moved.adjusted_at, moved.learned_until) == (START + HOUR, 77.0)
    assert (moved.prediction.made_at, moved.prediction.due, moved.lead_times["q"].as_of) == (START + HOUR, START + HOUR + 9, START + HOUR)
    never = shifted(Memory({}, dress=DressMemory(0.3)), HOUR).dress
    assert never is not None
    assert never.adjusted_at == -math.inf
    reclaim = shifted_reclaim(ReclaimMemory({"q": 1.0}, {"u": 2.0}, 3.0, 4.0, {"p": 5.0}), 10.0)
    assert reclaim == ReclaimMemory({"q": 11.0}, {"u": 12.0}, 3.0, 14.0, {"p": 15.0})


@pytest.mark.parametrize("glitch", [(8, 15), (30, 50), (3, 70)])
def test_a_clock_that_is_ahead_for_a_moment_uses_up_no_dated_arrival(glitch: tuple[int, int]) -> None:
    """A clock that is an hour ahead must not skip the arrivals of that hour."""
    begins, ends = glitch
    arrivals = tuple(ScheduledBurst(START + at, Burst({"cpu": 2.0}, 10, 10)) for at in (90.0, 150.0, 210.0))
    listed = QueueSpec("listed/q", QueueKind.LATENCY, (2.0, "listed/q"), 1.0, None, Schedule(arrivals))
    dated = latency("dated/q", 1.0, [4.0], 10, Periodic(60, START + 20))
    results, _ = run((dated, listed, BATCH), {begins: HOUR, ends: -HOUR}, rounds=260)
    opened = {
        name: [
            number
            for number, result in enumerate(results)
            for one in result.events
            if one.queue == name and one.kind is EventKind.BURST_OPENED
        ]
        for name in ("dated/q", "listed/q")
    }
    assert [at for at in opened["dated/q"] if at >= ends + 30] == [at for at in (80, 140, 200) if at >= ends + 30]
    assert opened["listed/q"] == [90, 150, 210]
