"""Queues that are suspended, or lose their class because capacity falls, and come back: they get no burst more than they declared."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.memory import dump, load
from fairburst.policy.model import (
    Arrival,
    Burst,
    EventKind,
    GuaranteeClass,
    Periodic,
    QueueSpec,
    RoundResult,
    Schedule,
    ScheduledBurst,
    Sporadic,
    WindowState,
)
from tests.support.policy import Pool, latency, throughput
from tests.support.strategies import START

BURST = Burst({"cpu": 8.0}, 10, 20)
ARRIVALS = {
    "sporadic": Sporadic(100),
    "periodic": Periodic(100),
    "dated": Periodic(100, START),
    "dated with jitter": Periodic(100, START, 30),
    "scheduled": Schedule(tuple(ScheduledBurst(START + at, BURST) for at in (0.0, 100.0, 200.0, 300.0))),
}
ACTS = ("suspend", "resume", "fall", "return", "too much", "fitting", "restart", "wait")


def pool_with(arrival: Arrival) -> Pool:
    burst = None if isinstance(arrival, Schedule) else BURST
    return Pool(throughput("t/q"), dataclasses.replace(latency("l/q", 1.0, [8.0], 10, Sporadic(100)), burst=burst, arrival=arrival))


def change(pool: Pool, **fields: object) -> None:
    pool.queues = (pool.queues[0], dataclasses.replace(pool.queues[1], **fields))


def opened_in(result: RoundResult) -> float:
    """Return when the latency queue's window opened; 0 without one."""
    window = result.decisions[1].window
    return 0.0 if window is None or window.opened is None else window.opened


def restart(pool: Pool) -> None:
    """Save the memory and load it, as a new process does."""
    pool.memory = load(dump(pool.memory))


@pytest.mark.parametrize("arrival", [pytest.param(arrival, id=name) for name, arrival in ARRIVALS.items()])
class TestSuspended:
    def test_within_its_window_it_goes_on_with_what_is_left_of_its_budget(self, arrival: Arrival) -> None:
        pool = pool_with(arrival)
        pool.at(0, [99.0, 8.0], [9.0, 1.0])
        opened = opened_in(pool.at(1, [99.0, 8.0], [2.0, 8.0]))
        pool.at(6, [99.0, 8.0], [2.0, 8.0])
        change(pool, suspended=True)
        pool.at(7, [99.0, 0.0], [9.0, 0.0])
        restart(pool)
        change(pool, suspended=False)
        result = pool.at(10, [99.0, 8.0], [9.0, 0.0])
        assert (pool.window(1).state, pool.window(1).opened) == (WindowState.OPEN, opened)
        assert result.decisions[1].consumed == pytest.approx(0.1 + 5 * 0.8 + 0.8)
        assert EventKind.BURST_OPENED not in {event.kind for event in result.events}

    def test_after_its_window_it_waits_for_its_next_burst(self, arrival: Arrival) -> None:
        pool = pool_with(arrival)
        pool.at(0, [99.0, 8.0])
        opened = opened_in(pool.at(1, [99.0, 8.0]))
        change(pool, suspended=True)
        pool.at(2, [99.0, 0.0])
        restart(pool)
        change(pool, suspended=False)
        pool.at(60, [99.0, 8.0])
        earliest = opened + 100 - (60 if arrival == ARRIVALS["dated with jitter"] else 0)
        assert pool.window(1).state in {WindowState.CLOSED, WindowState.ARMED}
        assert pool.window(1).arms_at >= earliest

    def test_before_its_first_burst_it_loses_nothing(self, arrival: Arrival) -> None:
        """Its first burst may come at once, as if it had just been created."""
        pool = pool_with(arrival)
        change(pool, suspended=True)
        pool.at(0, [99.0, 0.0])
        restart(pool)
        change(pool, suspended=False)
        pool.at(1, [99.0, 8.0])
        pool.at(2, [99.0, 8.0])
        assert pool.window(1).index == 0
        assert pool.window(1).arms_at <= START + 1


@given(
    arrival=st.sampled_from(list(ARRIVALS.values())),
    steps=st.lists(st.tuples(st.floats(0.1, 60.0), st.sampled_from(ACTS))),
)
def test_however_often_it_loses_its_class_its_bursts_open_no_more_often_than_declared(
    arrival: Arrival, steps: list[tuple[float, str]]
) -> None:
    """design: a queue bursts at most once in its interarrival time. Jitter moves each of two results."""
    pool = pool_with(arrival)
    declared = pool.queues[1]
    acts: dict[str, Callable[[], None]] = {
        "suspend": lambda: change(pool, suspended=True),
        "resume": lambda: change(pool, suspended=False),
        "fall": lambda: setattr(pool, "capacity", 1.0),
        "return": lambda: setattr(pool, "capacity", 10.0),
        "too much": lambda: change(pool, **_times(declared, 50)),
        "fitting": lambda: change(pool, **_times(declared, 1)),
        "restart": lambda: restart(pool),
        "wait": lambda: None,
    }
    now, results = 0.0, [pool.at(0.0, [99.0, 8.0])]
    for seconds, act in steps:
        now += seconds
        acts[act]()
        results.append(pool.at(now, [99.0, 8.0]))
        now += 0.1
        results.append(pool.at(now, [99.0, 8.0]))
    at = sorted({opened for opened in map(opened_in, results) if opened})
    closest = 40.0 if arrival == ARRIVALS["dated with jitter"] else 100.0
    assert all(later - earlier >= closest - 1e-6 for earlier, later in itertools.pairwise(at))


def _times(declared: QueueSpec, factor: float) -> dict[str, object]:
    if isinstance(declared.arrival, Schedule):
        bursts = tuple(dataclasses.replace(one, burst=_larger(one.burst, factor)) for one in declared.arrival.bursts)
        return {"arrival": dataclasses.replace(declared.arrival, bursts=bursts)}
    assert declared.burst is not None
    return {"burst": _larger(declared.burst, factor)}


def _larger(burst: Burst, factor: float) -> Burst:
    return dataclasses.replace(burst, resources={name: amount * factor for name, amount in burst.resources.items()})


def test_a_burst_goes_on_when_capacity_returns_within_its_window() -> None:
    pool = pool_with(Sporadic(100))
    pool.at(0, [99.0, 8.0], [9.0, 1.0])
    assert pool.at(1, [99.0, 8.0], [2.0, 8.0]).classes[1] is GuaranteeClass.HARD
    pool.capacity = 1.0
    assert pool.at(2, [99.0, 8.0], [2.0, 1.0]).decisions[1].window is None
    pool.capacity = 10.0
    result = pool.at(4, [99.0, 8.0], [9.0, 1.0])
    assert result.classes[1] is GuaranteeClass.HARD
    assert (pool.window(1).state, pool.window(1).opened) == (WindowState.OPEN, START)


def test_a_suspended_queue_is_charged_for_nothing_while_it_uses_nothing() -> None:
    """It is the only latency queue, so that no queue has a window then."""
    pool = pool_with(Sporadic(100))
    pool.at(0, [99.0, 8.0], [2.0, 8.0])
    change(pool, suspended=True)
    before = pool.at(5, [99.0, 0.0], [9.0, 0.0]).decisions[1]
    after = pool.at(9, [99.0, 0.0], [9.0, 0.0]).decisions[1]
    assert (before.ledger, after.ledger) == (pytest.approx(4.0), pytest.approx(4.0))
