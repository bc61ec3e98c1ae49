"""Windows, ledgers and boundaries where one moment or one queue decides; found by mutation testing (docs/mutation.md)."""

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
from tests.support.policy import Pool, latency, throughput
from tests.support.strategies import START

HARD, SOFT, ELASTIC = GuaranteeClass.HARD, GuaranteeClass.SOFT, GuaranteeClass.ELASTIC
BATCH = throughput("t/q")


def scheduled(name: str, *bursts: tuple[float, Burst]) -> QueueSpec:
    """A queue whose bursts come at the given seconds after START."""
    arrivals = tuple(ScheduledBurst(START + at, burst) for at, burst in bursts)
    return QueueSpec(name, QueueKind.LATENCY, (1.0, name), 1.0, None, Schedule(arrivals))


def bursting(name: str = "l/q", order: float = 1.0) -> QueueSpec:
    """8 of 10 cores for 10 s, once in 100 s."""
    return latency(name, order, [8.0], 10, Sporadic(100))


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
        """Only a changed arrival begins anew."""
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


class TestWhatCountsAsDelivered:
    def test_what_comes_after_the_deadline_does_not_although_nobody_looked_at_it(self) -> None:
        """4 of 8 cores for the 10 s of the window; by the time of the next round, 84 core-seconds."""
        pool = Pool(BATCH, bursting())
        pool.at(0, [0.0, 8.0], [0.0, 4.0])
        kinds = [event.kind for event in pool.at(21, [0.0, 8.0], [0.0, 4.0]).events]
        assert EventKind.BURST_MISSED in kinds
        assert EventKind.BURST_MET not in kinds

    def test_what_ran_before_the_window_opened_does_not(self) -> None:
        pool = Pool(BATCH, latency("l/q", 1.0, [8.0], 10, Periodic(100, START), 15))
        pool.at(-5, [0.0, 8.0], [0.0, 8.0])
        for seconds, want in ((0, []), (9.5, []), (10, [EventKind.BURST_MET])):
            kinds = [event.kind for event in pool.at(seconds, [0.0, 8.0], [0.0, 8.0]).events]
            assert [kind for kind in kinds if kind is EventKind.BURST_MET] == want

    def test_every_verdict_names_its_queue_and_its_burst(self) -> None:
        pool = Pool(BATCH, bursting())
        told = []
        for seconds, uses in ((0, 4.0), (10, 0.0), (100, 4.0), (110, 0.0), (200, 8.0), (210.5, 8.0)):
            told += [(event.queue, event.kind, event.message) for event in pool.at(seconds, [0.0, 8.0], [0.0, uses]).events]
        missed = "Burst {} was not served by its deadline: 50 % of the declared demand had been delivered."
        assert [one for one in told if one[1] in {EventKind.BURST_MET, EventKind.BURST_MISSED}] == [
            ("l/q", EventKind.BURST_MISSED, missed.format(0)),
            ("l/q", EventKind.BURST_MISSED, missed.format(1)),
            ("l/q", EventKind.BURST_MET, "Burst 2 was served within its deadline."),
        ]
        assert ("l/q", EventKind.BURST_OPENED, "Burst 0 opened.") in told
        memory = pool.memory.queues["l/q"]
        assert (memory.bursts, memory.met, memory.missed) == (3, 1, 2)

    def test_a_budget_that_is_nearly_spent_at_the_deadline_leaves_a_claim(self) -> None:
        """7.905 of 8 dominant-share-seconds, the last of them at a rate that changed half a second before."""
        pool = Pool(BATCH, bursting())
        pool.at(0, [0.0, 8.0], [0.0, 7.9])
        pool.at(9.5, [0.0, 8.0], [0.0, 8.0])
        pool.at(10, [0.0, 8.0], [0.0, 8.0])
        assert pool.window(1).state is WindowState.OVERDUE


class TestDebt:
    """F is 50; what a period uses beyond it is carried, and eats the slack of 42 before the budget of 8."""

    def overrun(self, uses: float) -> Pool:
        pool = Pool(BATCH, bursting())
        pool.at(0, [99.0, 8.0], [0.0, uses])
        pool.at(10, [99.0, 0.0], [0.0, uses])
        return pool

    def test_within_the_slack_it_takes_nothing_from_the_next_burst(self) -> None:
        pool = self.overrun(7.0)
        decision = pool.at(100, [99.0, 8.0]).decisions[1]
        assert (decision.debt, decision.budget, decision.consumed) == (pytest.approx(20.0), pytest.approx(8.0), pytest.approx(0.0))
        assert decision.guaranteed.tolist() == [8.0]
        pool.at(110, [99.0, 8.0])
        assert pool.window(1).state is WindowState.OVERDUE  # the whole budget is still owed

    def test_of_a_whole_period_it_leaves_no_budget_at_all(self) -> None:
        decision = self.overrun(10.0).at(100, [99.0, 8.0]).decisions[1]
        assert (decision.debt, decision.budget) == (pytest.approx(50.0), 0.0)
        assert decision.guaranteed.tolist() == [0.0]

    def test_is_exact_where_use_and_share_changed_just_before_the_period_ended(self) -> None:
        """Used: 99.5 s of 0.7 and 0.5 s of 0.6. Owed: 99.5 s of a half and 0.5 s of a third."""
        pool = self.overrun(7.0)
        pool.queues = (*pool.queues, throughput("u/q", 2.0))
        pool.at(99.5, [99.0, 0.0, 99.0], [0.0, 6.0, 0.0])
        decision = pool.at(100, [99.0, 8.0, 99.0], [0.0, 6.0, 0.0]).decisions[1]
        assert decision.debt == pytest.approx(69.95 - (49.75 + 0.5 / 3))


class TestPeriods:
    def test_begin_at_admission_with_a_whole_fair_share(self) -> None:
        pool = Pool(BATCH, bursting())
        decision = pool.at(37).decisions[1]
        assert pool.memory.queues["l/q"].period_started == START + 37
        assert decision.fair_share_of_period == pytest.approx(50.0)

    @pytest.mark.parametrize(
        ("seconds", "want"), [pytest.param(100, 100, id="to the moment"), pytest.param(250, 200, id="one slept through")]
    )
    def test_end_without_a_burst(self, seconds: float, want: float) -> None:
        pool = Pool(BATCH, bursting())
        pool.at(0, [99.0, 1.0], [9.0, 1.0])
        decision = pool.at(seconds, [99.0, 1.0], [9.0, 1.0]).decisions[1]
        assert pool.memory.queues["l/q"].period_started == START + want
        assert decision.ledger == pytest.approx(0.1 * (seconds - want))


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
