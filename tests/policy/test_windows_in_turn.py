"""Windows one after the other: numbers, times and boundaries, which other queues do not change."""

from __future__ import annotations

import dataclasses
import math

import pytest

from fairburst.policy.model import (
    Burst,
    EventKind,
    GuaranteeClass,
    Periodic,
    QueueKind,
    QueueSpec,
    Schedule,
    ScheduledBurst,
    Sporadic,
    WindowState,
)
from tests.support.policy import Pool, bursting, latency, throughput
from tests.support.strategies import START

HARD, SOFT, ELASTIC = GuaranteeClass.HARD, GuaranteeClass.SOFT, GuaranteeClass.ELASTIC
BATCH = throughput("t/q")


def scheduled(name: str, *bursts: tuple[float, Burst]) -> QueueSpec:
    """Return a queue with bursts at the given seconds after START."""
    arrivals = tuple(ScheduledBurst(START + at, burst) for at, burst in bursts)
    return QueueSpec(name, QueueKind.LATENCY, (1.0, name), 1.0, None, Schedule(arrivals))


class TestPeriodicWindows:
    def test_periodic_windows_are_numbered_and_placed_one_after_the_other(self) -> None:
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Periodic(100, START + 50, 5)))
        pool.at(0)
        for number in range(4):
            opens = 55.0 + 100 * number
            window = pool.at(opens).decisions[1].window
            assert window is not None
            assert (window.state, window.index, window.opened) == (WindowState.OPEN, number, START + opens)
            closed = pool.at(opens + 10).decisions[1].window
            assert closed is not None
            assert (closed.state, closed.arms_at, closed.opens_by) == (WindowState.CLOSED, START + opens + 90, START + opens + 100)

    def test_what_comes_at_the_deadline_comes_too_late_to_count(self) -> None:
        """Windows are half-open."""
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Periodic(100, START)))
        pool.at(0, [100.0, 0.0])
        pool.at(10, [100.0, 8.0])
        assert pool.memory.queues["l/q"].bursts == 0

    def test_a_window_that_may_still_run_because_of_its_jitter_is_not_skipped(self) -> None:
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Periodic(100, START, 5)))
        window = pool.at(12, [100.0, 8.0]).decisions[1].window
        assert window is not None
        assert (window.state, window.index, window.deadline) == (WindowState.OPEN, 0, START + 15)


class TestScheduledBurstsInTurn:
    def test_a_burst_that_adjoins_the_last_has_its_own_rate_and_deadline_from_its_first_round(self) -> None:
        bursts = (10, Burst({"cpu": 2.0}, 10, 10)), (20, Burst({"cpu": 6.0}, 5, 7.5))
        pool = Pool(BATCH, scheduled("l/q", *bursts), throughput("u/q", 2.0), throughput("v/q", 3.0))
        pool.at(10, [0.0, 9.0, 0.0, 0.0])
        result = pool.at(20, [0.0, 9.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0])
        assert (pool.window(1).index, pool.window(1).deadline) == (1, START + 27.5)
        assert result.guaranteed[1, 0] == pytest.approx(4.0)  # more than its fair share of a quarter

    def test_so_has_one_that_ends_the_claim_of_an_overdue_burst(self) -> None:
        pool = Pool(scheduled("l/q", (10, Burst({"cpu": 2.0}, 10, 10)), (25, Burst({"cpu": 6.0}, 5, 7.5))))
        pool.at(10, [9.0])
        pool.at(20, [9.0])
        assert pool.window(0).state is WindowState.OVERDUE
        pool.at(25, [9.0])
        assert (pool.window(0).state, pool.window(0).index, pool.window(0).deadline) == (WindowState.OPEN, 1, START + 32.5)

    def test_its_period_lasts_until_the_next_burst(self) -> None:
        pool = Pool(BATCH, scheduled("l/q", (10, Burst({"cpu": 2.0}, 10, 10)), (60, Burst({"cpu": 2.0}, 10, 10))))
        pool.at(0)
        assert pool.at(10, [0.0, 2.0]).decisions[1].fair_share_of_period == pytest.approx(25.0)

    def test_it_begins_with_the_first_burst_to_come_whatever_another_queue_has_scheduled(self) -> None:
        one = Burst({"cpu": 1.0}, 10, 10)
        pool = Pool(scheduled("a/q", (10, one), (40, one)), scheduled("b/q", (5, one), (25, one)))
        pool.at(30)
        assert [(pool.window(row).index, pool.window(row).arms_at) for row in (0, 1)] == [(1, START + 40), (1, START + 25)]

    def test_two_schedules_in_one_pool_have_windows_of_their_own(self) -> None:
        def scheduled(name: str, order: float, *times: float) -> QueueSpec:
            bursts = tuple(ScheduledBurst(START + at, Burst({"cpu": 2.0}, 10, 10)) for at in times)
            return QueueSpec(name, QueueKind.LATENCY, (order, name), 1.0, None, Schedule(bursts))

        pool = Pool(scheduled("a/q", 0.0, 10, 40, 70), scheduled("b/q", 1.0, 25, 55))
        opened: dict[str, list[float]] = {"a/q": [], "b/q": []}
        for seconds in range(90):
            for event in pool.at(seconds).events:
                if event.kind is EventKind.BURST_OPENED:
                    opened[event.queue].append(seconds)
        assert opened == {"a/q": [10, 40, 70], "b/q": [25, 55]}


class TestWindowsThatPassed:
    def test_a_periodic_queue_whose_first_arrival_is_long_past_arms_for_its_next_burst(self) -> None:
        pool = Pool(BATCH, latency("l/q", 1.0, [8.0], 10, Periodic(100, START - 1000, 5)))
        pool.at(50)
        assert (pool.window(1).state, pool.window(1).index, pool.window(1).arms_at) == (WindowState.CLOSED, 11, START + 95)

    def test_a_queue_that_was_armed_when_the_operator_left_opens_at_once_in_a_later_window(self) -> None:
        pool = Pool(BATCH, latency("l/q", 1.0, [8.0], 10, Periodic(100, START + 50, 5)))
        pool.at(46)
        assert pool.window(1).state is WindowState.ARMED
        pool.at(1053, [0.0, 8.0])
        assert (pool.window(1).state, pool.window(1).index) == (WindowState.OPEN, 10)

    def test_a_window_that_ends_now_is_over_and_the_next_is_the_next(self) -> None:
        """Windows are half-open. It never opened, so no period began with it."""
        pool = Pool(BATCH, latency("l/q", 1.0, [8.0], 10, Periodic(100, START + 50)))
        pool.at(0)
        assert pool.at(60).events == ()
        assert (pool.window(1).state, pool.window(1).index, pool.window(1).arms_at) == (WindowState.CLOSED, 1, START + 150)
        assert pool.memory.queues["l/q"].period_started == START

    def test_without_a_first_arrival_the_phase_is_forgotten_with_the_window_and_nothing_is_due(self) -> None:
        pool = Pool(BATCH, latency("l/q", 1.0, [8.0], 10, Periodic(100)))
        pool.at(0, [0.0, 8.0])
        pool.at(10)
        result = pool.at(150)
        assert (pool.window(1).state, pool.window(1).opens_by) == (WindowState.ARMED, math.inf)
        assert result.next_boundary == START + 200


class TestARoundThatComesLate:
    def test_goes_through_everything_that_was_due_at_once(self) -> None:
        """A second decision at the same moment changes nothing: the first window has ended, and so has the period before the next burst."""
        one = Burst({"cpu": 8.0}, 10, 10)
        pool = Pool(BATCH, scheduled("l/q", (0, one), (100, one), (120, one)))
        pool.at(0, [0.0, 8.0], [0.0, 8.0])
        pool.at(30)
        before = dict(pool.memory.queues)
        pool.at(30)
        assert dict(pool.memory.queues) == before


class TestOneQueueAtATime:
    def test_a_queue_that_loses_its_guarantee_loses_its_window_and_no_other_does(self) -> None:
        small, large = latency("a/q", 0.0, [1.0], 10, Sporadic(100)), latency("l/q", 1.0, [9.0], 50, Sporadic(100))
        pool = Pool(small, large)
        assert pool.at(0, [1.0, 0.0]).classes == (HARD, HARD)
        pool.capacity = 8.0
        result = pool.at(1, [1.0, 0.0])
        assert result.classes == (HARD, ELASTIC)
        assert (pool.window(0).state, pool.window(0).opened) == (WindowState.OPEN, START)
        assert result.decisions[1].window is None

    def test_a_latency_queue_that_is_only_elastic_has_no_window(self) -> None:
        pool = Pool(BATCH, latency("l/q", 1.0, [10.0], 60, Sporadic(100)))
        result = pool.at(0, [99.0, 99.0])
        assert result.classes == (ELASTIC, ELASTIC)
        assert result.decisions[1].window is None
        assert result.allocation[:, 0].tolist() == [5.0, 5.0]

    def test_a_changed_arrival_leaves_the_windows_of_others_alone(self) -> None:
        pool = Pool(latency("a/q", 0.0, [1.0], 10, Sporadic(100)), latency("l/q", 1.0, [8.0], 10, Sporadic(100)))
        pool.at(0, [1.0, 0.0])
        pool.queues = (pool.queues[0], dataclasses.replace(pool.queues[1], arrival=Sporadic(200)))
        pool.at(5, [1.0, 0.0])
        assert (pool.window(0).state, pool.window(0).opened) == (WindowState.OPEN, START)

    def test_before_its_first_burst_a_changed_arrival_holds_at_once(self) -> None:
        """There is no earlier burst from which a further one would have to keep its distance."""
        pool = Pool(BATCH, bursting())
        pool.at(0)
        pool.queues = (BATCH, dataclasses.replace(pool.queues[1], arrival=Sporadic(200)))
        pool.at(5)
        assert (pool.window(1).state, pool.window(1).arms_at) == (WindowState.ARMED, START + 5)

    def test_a_changed_burst_leaves_the_open_window_open(self) -> None:
        """Only a changed arrival starts a new window."""
        pool = Pool(BATCH, bursting())
        pool.at(0, [0.0, 8.0])
        pool.queues = (BATCH, dataclasses.replace(pool.queues[1], burst=Burst({"cpu": 9.0}, 10, 10)))
        pool.at(5, [0.0, 8.0])
        assert (pool.window(1).state, pool.window(1).opened) == (WindowState.OPEN, START)

    def test_a_suspended_queue_leaves_the_windows_of_others_alone_and_has_none(self) -> None:
        pool = Pool(latency("a/q", 0.0, [1.0], 10, Sporadic(100)), bursting())
        pool.at(0, [1.0, 0.0])
        pool.queues = (pool.queues[0], dataclasses.replace(pool.queues[1], suspended=True))
        result = pool.at(5, [1.0, 0.0])
        assert result.classes == (HARD, None)
        assert (pool.window(0).state, pool.window(0).opened) == (WindowState.OPEN, START)
        assert result.decisions[1].window is None
        assert pool.memory.queues["a/q"].admission_order == 0


class TestBoundaries:
    def test_an_overdue_claim_ends_where_the_next_window_arms(self) -> None:
        """The jitter before the nominal arrival, sooner than the period's end: it began with a late opening."""
        pool = Pool(latency("l/q", 1.0, [8.0], 10, Periodic(100, START + 5, 5)))
        pool.at(0)
        pool.at(5, [8.0])
        result = pool.at(15, [8.0])
        assert pool.window(0).state is WindowState.OVERDUE
        assert result.next_boundary == START + 100

    def test_the_next_round_is_a_millisecond_away_at_least(self) -> None:
        """The budget runs out in a tenth of that."""
        pool = Pool(BATCH, bursting())
        pool.at(0, [0.0, 8.0], [0.0, 8.0])
        assert pool.at(9.9999, [0.0, 8.0], [0.0, 8.0]).next_boundary >= START + 9.9999 + 0.001 - 1e-9


class TestChangedArrivals:
    def test_a_changed_arrival_buys_no_extra_burst(self) -> None:
        """The next window is no sooner than the former interarrival time after the last opening."""
        spec = latency("l/q", 1.0, [4.0], 10, Sporadic(100))
        pool = Pool(throughput("t/q"), spec)
        pool.at(0, [0.0, 4.0], [0.0, 4.0])
        pool.at(10, [0.0, 0.0])
        pool.queues = (pool.queues[0], dataclasses.replace(spec, arrival=Sporadic(50)))
        window = pool.at(20).decisions[1].window
        assert window is not None
        assert (window.state, window.arms_at) == (WindowState.CLOSED, START + 100)
        later = pool.at(100).decisions[1].window
        assert later is not None
        assert later.state is WindowState.ARMED
