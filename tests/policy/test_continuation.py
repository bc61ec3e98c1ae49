"""The next part of a calendar: class, promise and window stay, and no other queue loses a promise made meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fairburst.policy.decide import decide
from fairburst.policy.memory import dump, load
from fairburst.policy.model import (
    Burst,
    EventKind,
    GuaranteeClass,
    Memory,
    PolicyConfig,
    QueueKind,
    QueueSpec,
    Schedule,
    ScheduledBurst,
    WindowState,
)  # fmt: skip
from tests.support.policy import snapshot, throughput

HARD, SOFT = GuaranteeClass.HARD, GuaranteeClass.SOFT
BURST = Burst({"cpu": 60.0}, 30.0, 30.0)


def calendar(
    arrivals: Sequence[float], since: float, name: str = "c/q", order: float = 1.0, burst: Burst = BURST, rule: str = "hourly"
) -> QueueSpec:
    listed = Schedule(tuple(ScheduledBurst(at, burst) for at in arrivals), rule, since)
    return QueueSpec(name, QueueKind.LATENCY, (order, name), arrival=listed)


BATCH = throughput("batch/q")


def decided(specs: tuple[QueueSpec, ...], memory: Memory, now: float, demand: float = 0.0) -> tuple[Memory, list[EventKind]]:
    wanted = [[0.0], *([demand] for _ in specs[1:])]
    result, memory = decide(snapshot(specs, [100.0], wanted), memory, PolicyConfig(), now)
    return memory, [event.kind for event in result.events]


def test_a_calendar_that_goes_on_keeps_its_class_and_waits_for_the_same_arrival() -> None:
    memory, _ = decided((BATCH, calendar([1000, 2000, 3000], 0.0)), Memory(), 500.0)
    memory, _ = decided((BATCH, calendar([1000, 2000, 3000], 0.0)), memory, 1100.0)
    memory, events = decided((BATCH, calendar([2000, 3000, 4000, 5000], 1500.0)), memory, 1600.0)
    entry = memory.queues["c/q"]
    assert events == []
    assert entry.guarantee_class is HARD
    assert entry.window is not None
    assert (entry.window.state, entry.window.index, entry.window.arms_at) == (WindowState.CLOSED, 0, 2000.0)
    assert isinstance(entry.promise.arrival, Schedule)
    assert entry.promise.arrival.since == 1500.0


def test_an_open_window_stays_open_with_its_deadline_and_ledger() -> None:
    memory, _ = decided((BATCH, calendar([1000, 2000], 0.0)), Memory(), 900.0)
    memory, _ = decided((BATCH, calendar([1000, 2000], 0.0)), memory, 1001.0, demand=60.0)
    before = memory.queues["c/q"]
    memory, events = decided((BATCH, calendar([1000, 2000, 3000], 1005.0)), memory, 1005.0, demand=60.0)
    after = memory.queues["c/q"]
    assert EventKind.BURST_OPENED not in events
    assert before.window is not None
    assert before.window.state is WindowState.OPEN
    assert after.window == before.window
    assert after.period_started == before.period_started


def test_after_the_last_listed_arrival_the_window_waits_for_the_first_new_one() -> None:
    memory, _ = decided((BATCH, calendar([1000, 2000], 0.0)), Memory(), 1500.0)
    memory, _ = decided((BATCH, calendar([1000, 2000], 0.0)), memory, 2000.0)
    memory, _ = decided((BATCH, calendar([1000, 2000], 0.0)), memory, 2100.0)
    memory, _ = decided((BATCH, calendar([2000, 4000, 5000], 1900.0)), memory, 2200.0)
    window = memory.queues["c/q"].window
    assert window is not None
    assert (window.state, window.index, window.arms_at) == (WindowState.CLOSED, 1, 4000.0)


def test_what_is_saved_in_between_goes_on_as_well() -> None:
    memory, _ = decided((BATCH, calendar([1000, 2000, 3000], 0.0)), Memory(), 1100.0)
    restarted = load(dump(memory))
    assert restarted.queues["c/q"] == memory.queues["c/q"]
    memory, events = decided((BATCH, calendar([2000, 3000, 4000], 1500.0)), restarted, 1600.0)
    assert events == []
    window = memory.queues["c/q"].window
    assert window is not None
    assert (window.index, window.arms_at) == (0, 2000.0)


def test_a_refused_change_leaves_the_old_demand_and_the_calendar_goes_on() -> None:
    before = calendar([1000, 2000], 0.0)
    memory, _ = decided((BATCH, before), Memory(), 500.0)
    unknown = Burst({"cpu": 60.0, "nvidia.com/gpu": 1.0}, 30.0, 30.0)  # no such resource here: refused
    memory, events = decided((BATCH, calendar([1000, 2000], 0.0, burst=unknown)), memory, 600.0)
    assert events == [EventKind.PROMISE_CHANGE_REJECTED]
    memory, events = decided((BATCH, calendar([2000, 3000], 1500.0, burst=unknown)), memory, 1600.0)
    assert events == []
    kept = memory.queues["c/q"].promise.arrival
    assert isinstance(kept, Schedule)
    assert [(one.arrival, one.burst) for one in kept.bursts] == [(2000.0, BURST), (3000.0, BURST)]


@pytest.mark.parametrize("rule", ["", "daily"])
def test_other_arrivals_are_a_changed_promise(rule: str) -> None:
    memory, _ = decided((BATCH, calendar([1000, 2000], 0.0)), Memory(), 500.0)
    _, events = decided((BATCH, calendar([1500, 2500], 400.0, rule=rule)), memory, 600.0)
    assert events == [EventKind.PROMISE_CHANGED]


def test_later_arrivals_never_cost_another_queue_what_it_was_promised_meanwhile() -> None:
    """The calendar was first; its later list meets a window that was promised to a newer queue."""
    newer = calendar([5000.0], 0.0, "d/q", order=2.0, rule="other")
    memory, _ = decided((BATCH, calendar([1000, 2000], 0.0), newer), Memory(), 500.0)
    assert memory.queues["d/q"].guarantee_class is HARD
    memory, events = decided((BATCH, calendar([2000, 5000], 1500.0), newer), memory, 1600.0)
    assert memory.queues["d/q"].guarantee_class is HARD
    assert memory.queues["c/q"].guarantee_class is SOFT
    assert events == [EventKind.CLASS_CHANGED]


def test_a_rejected_calendar_is_not_refused_loudly_again_when_it_goes_on() -> None:
    specs = replace(calendar([1000.0], 0.0), weight=1.0), replace(calendar([2000.0], 1500.0), weight=1.0)
    burst = Burst({"nvidia.com/gpu": 1.0}, 30.0, 30.0)
    first, second = (replace(one, arrival=_with(one, burst)) for one in specs)
    memory, events = decided((BATCH, first), Memory(), 500.0)
    assert EventKind.REJECTED in events
    _, events = decided((BATCH, second), memory, 1600.0)
    assert events == []


def _with(spec: QueueSpec, burst: Burst) -> Schedule:
    assert isinstance(spec.arrival, Schedule)
    return replace(spec.arrival, bursts=tuple(replace(one, burst=burst) for one in spec.arrival.bursts))
