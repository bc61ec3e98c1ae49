"""Windows, ledgers and charges, moment by moment."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fairburst.policy.decide import decide
from fairburst.policy.model import (
    Burst,
    EventKind,
    Memory,
    Periodic,
    PolicyConfig,
    QueueDecision,
    QueueKind,
    QueueSpec,
    RoundResult,
    Schedule,
    ScheduledBurst,
    Sporadic,
    WindowState,
)
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START

BATCH = throughput("t/q")


class BurstPool:
    """Ten cores, one backlogged throughput queue, one latency queue under test; each call is a round."""

    def __init__(self, queue: QueueSpec, capacity: float = 10.0) -> None:
        self.queues, self.capacity, self.memory = (BATCH, queue), capacity, Memory()
        self.result: RoundResult | None = None

    def round(self, at: float, wants: float, uses: float = 0.0, batch: float = 100.0, oldest: float | None = None) -> QueueDecision:
        """`oldest`: when the oldest work that is not done was created; None: unknown."""
        given = snapshot(self.queues, [self.capacity], [[batch], [wants]], [[0.0], [uses]])
        given = dataclasses.replace(given, oldest_work={} if oldest is None else {1: START + oldest})
        self.result, self.memory = decide(given, self.memory, PolicyConfig(), START + at)
        return self.result.decisions[1]

    def state(self, at: float, wants: float, uses: float = 0.0) -> WindowState:
        window = self.round(at, wants, uses).window
        assert window is not None
        return window.state

    @property
    def told(self) -> list[EventKind]:
        assert self.result is not None
        return [event.kind for event in self.result.events if event.queue != "t/q"]


def sporadic() -> BurstPool:
    return BurstPool(latency("l/q", 1.0, [8.0], 10, Sporadic(100)))


class TestSporadic:
    def test_is_armed_at_once_and_its_level_is_the_whole_rate(self) -> None:
        pool = sporadic()
        decision = pool.round(0, 0)
        assert decision.window is not None
        assert decision.window.state is WindowState.ARMED
        assert decision.level.tolist() == [8.0]
        assert decision.allocation.tolist() == [0.0]

    def test_opens_with_the_burst_and_serves_its_rate(self) -> None:
        pool = sporadic()
        pool.round(0, 0)
        decision = pool.round(5, 8)
        assert decision.window is not None
        assert (decision.window.state, decision.window.opened, decision.window.deadline) == (WindowState.OPEN, START + 5, START + 15)
        assert decision.guaranteed.tolist() == [8.0]
        assert pool.told == [EventKind.BURST_OPENED]

    def test_a_trickle_does_not_open_it(self) -> None:
        assert sporadic().state(0, 1) is WindowState.ARMED

    def test_rearms_one_interarrival_after_the_opening_and_a_backlog_opens_it_again(self) -> None:
        pool = sporadic()
        assert pool.state(0, 8, 0) is WindowState.OPEN
        assert pool.state(0.001, 8, 8) is WindowState.OPEN
        assert pool.state(10, 0, 0) is WindowState.CLOSED
        assert pool.state(99.9, 8, 0) is WindowState.CLOSED
        decision = pool.round(100, 8)
        assert decision.window is not None
        assert (decision.window.state, decision.window.index) == (WindowState.OPEN, 1)

    def test_a_burst_without_demand_at_the_deadline_is_met_once(self) -> None:
        pool = sporadic()
        pool.round(0, 8)
        pool.round(4, 8, 8)
        pool.round(9, 0)
        assert pool.round(10, 0).window.state is WindowState.CLOSED  # type: ignore[union-attr]
        assert pool.told == [EventKind.BURST_MET]
        pool.round(11, 0)
        memory = pool.memory.queues["l/q"]
        assert (memory.bursts, memory.met, memory.missed) == (1, 1, 0)

    def test_a_late_burst_is_missed_and_keeps_its_claim_until_delivered(self) -> None:
        pool = sporadic()
        pool.round(0, 8)  # nothing runs for five seconds: batch pods hold the cores
        pool.round(5, 8, 8)
        decision = pool.round(10, 8, 8)
        assert pool.told == [EventKind.BURST_MISSED]
        assert decision.window is not None
        assert decision.window.state is WindowState.OVERDUE
        assert decision.guaranteed.tolist() == [8.0]
        assert decision.consumed == pytest.approx(4.0)
        assert pool.result is not None
        assert pool.result.next_boundary == pytest.approx(START + 15)
        assert pool.state(15, 8, 8) is WindowState.CLOSED

    def test_spending_the_budget_ends_the_guarantee_and_counts_as_met(self) -> None:
        pool = sporadic()
        pool.round(0, 8, 8)
        decision = pool.round(10.1, 8, 8)
        assert decision.window is not None
        assert pool.memory.queues["l/q"].met == 1
        assert decision.allocation[0] < 8.0


class TestPeriodic:
    def test_arms_a_jitter_early_and_opens_a_jitter_late_at_the_latest(self) -> None:
        pool = BurstPool(latency("l/q", 1.0, [8.0], 10, Periodic(100, START + 50, 5)))
        assert pool.state(0, 8) is WindowState.CLOSED
        assert pool.result is not None
        assert pool.result.next_boundary == START + 45
        assert pool.state(45, 0) is WindowState.ARMED
        assert pool.result.next_boundary == START + 55
        assert pool.state(55, 0) is WindowState.OPEN

    def test_a_window_without_demand_is_neither_met_nor_missed(self) -> None:
        pool = BurstPool(latency("l/q", 1.0, [8.0], 10, Periodic(100, START)))
        for at in (0, 5, 10, 50, 100, 110):
            pool.round(at, 0)
        memory = pool.memory.queues["l/q"]
        assert (memory.bursts, memory.met, memory.missed) == (0, 0, 0)

    def test_without_a_first_arrival_the_first_burst_fixes_the_phase(self) -> None:
        pool = BurstPool(latency("l/q", 1.0, [8.0], 10, Periodic(100, None, 5)))
        assert pool.state(0, 0) is WindowState.ARMED
        assert pool.state(33, 8) is WindowState.OPEN
        pool.round(43, 0)
        assert pool.state(127, 0) is WindowState.CLOSED
        assert pool.state(128, 0) is WindowState.ARMED
        assert pool.state(138, 0) is WindowState.OPEN

    def test_without_a_first_arrival_a_burst_that_does_not_come_is_waited_for(self) -> None:
        pool = BurstPool(latency("l/q", 1.0, [8.0], 10, Periodic(100)))
        pool.round(0, 8)
        pool.round(10, 0)
        assert pool.state(100, 0) is WindowState.OPEN
        assert pool.state(110, 0) is WindowState.ARMED
        assert pool.state(170, 8) is WindowState.OPEN

    def test_windows_missed_while_nobody_looked_are_skipped(self) -> None:
        pool = BurstPool(latency("l/q", 1.0, [8.0], 10, Periodic(100, START)))
        pool.round(0, 0)
        decision = pool.round(1003, 8)
        assert decision.window is not None
        assert (decision.window.state, decision.window.index, decision.window.deadline) == (WindowState.OPEN, 10, START + 1010)


class TestSchedule:
    def test_each_burst_has_its_own_rate_and_the_last_is_the_last(self) -> None:
        bursts = (ScheduledBurst(START + 10, Burst({"cpu": 2.0}, 5, 5)), ScheduledBurst(START + 50, Burst({"cpu": 6.0}, 5, 10)))
        pool = BurstPool(QueueSpec("l/q", QueueKind.LATENCY, (1.0, "l/q"), 1.0, None, Schedule(bursts)))
        assert pool.state(0, 9) is WindowState.CLOSED
        assert pool.round(10, 9).level.max() >= 2.0
        pool.round(15, 0)
        decision = pool.round(50, 9)
        assert decision.window is not None
        assert (decision.window.index, decision.window.deadline) == (1, START + 60)
        pool.round(60, 0)
        assert pool.state(10_000, 9) is WindowState.CLOSED


class TestCharging:
    def test_spare_is_not_charged_and_the_overrun_is(self) -> None:
        pool = sporadic()
        decision = pool.round(0, 10, 10, batch=0)
        assert decision.spare.tolist() == [2.0]
        assert decision.charge_rate == pytest.approx(0.8)
        assert pool.round(1, 10, 10, batch=100).charge_rate == pytest.approx(1.0)

    def test_a_settled_ledger_is_not_written_anew(self) -> None:
        pool = sporadic()
        pool.round(0, 8, 8)
        before = pool.memory.queues["l/q"]
        pool.round(2, 8, 8)
        assert pool.memory.queues["l/q"] == before
        assert before.ledger(START + 2) == pytest.approx(1.6)

    def test_outside_its_window_a_queue_is_held_to_its_residual_share(self) -> None:
        pool = sporadic()
        pool.round(0, 8)
        pool.round(0.0, 8, 8)
        decision = pool.round(10, 10, 0)  # 8 of its F = 50 share-seconds are used, 90 s are left
        assert decision.fair_share_of_period == pytest.approx(50.0)
        assert decision.ledger == pytest.approx(8.0)
        assert decision.allocation.tolist() == pytest.approx([10 * 42 / 90])


def test_a_hard_window_survives_a_restart_with_its_remaining_budget() -> None:
    pool = sporadic()
    pool.round(0, 8, 8)
    pool.round(4, 8, 8)
    pool.memory = Memory(queues=dict(pool.memory.queues), next_admission_order=pool.memory.next_admission_order)
    pool.queues = tuple(dataclasses.replace(spec) for spec in pool.queues)
    decision = pool.round(6, 8, 8)
    assert decision.consumed == pytest.approx(4.8)
    assert pool.told == []
    assert decision.guaranteed.tolist() == [8.0]


def test_soft_queues_are_served_shortest_remaining_first() -> None:
    """BoPF §3.3: SRPT among soft queues; the one with less left goes first and whole."""
    hard = latency("h/q", 0.0, [6.0], 10, Sporadic(100))
    soft = [latency("s1/q", 1.0, [9.0], 10, Sporadic(100)), latency("s2/q", 2.0, [8.0], 10, Sporadic(100))]
    queues = (hard, *soft)
    result, memory = decide(snapshot(queues, [10.0], [[0], [0], [0]]), Memory(), PolicyConfig(), START)
    result, memory = decide(snapshot(queues, [10.0], [[0], [9], [8]]), memory, PolicyConfig(), START + 1)
    assert result.guaranteed[:, 0].tolist() == [0.0, 2.0, 8.0]


def test_unused_hard_guarantee_goes_to_spare_and_not_to_soft_queues() -> None:
    queues = (latency("h/q", 0.0, [6.0], 10, Sporadic(100)), latency("s/q", 1.0, [9.0], 10, Sporadic(100)))
    _, memory = decide(snapshot(queues, [10.0], [[0], [0]]), Memory(), PolicyConfig(), START)
    _, memory = decide(snapshot(queues, [10.0], [[6], [0]]), memory, PolicyConfig(), START + 1)
    result, _ = decide(snapshot(queues, [10.0], [[3], [9]], [[3], [0]]), memory, PolicyConfig(), START + 2)
    assert result.guaranteed[:, 0].tolist() == [3.0, 4.0]
    assert result.allocation[:, 0].tolist() == [3.0, 7.0]


def test_when_capacity_falls_the_earliest_promises_are_kept_whole() -> None:
    queues = tuple(latency(f"h{n}/q", float(n), [4.0], 10, Sporadic(100)) for n in range(2))
    given = snapshot(queues, [8.0], [[4], [4]])
    _, memory = decide(given, Memory(), PolicyConfig(), START)
    lost = dataclasses.replace(given, live_capacity=np.array([6.0]))
    result, _ = decide(lost, memory, PolicyConfig(), START + 1)
    assert result.allocation[:, 0].tolist() == [4.0, 2.0]


class TestNoProcessLooked:
    """The operator is away over the end of a window, and the next burst's work is there when it comes back."""

    def away(self, back: float, oldest: float | None, wants: float = 8.0) -> BurstPool:
        """A burst comes at 5 s and is due at 15 s; nothing of it runs at the last look. The next window arms at 105 s."""
        pool = sporadic()
        pool.round(0, 0)
        pool.round(5, 8, oldest=5)
        pool.round(back, wants, oldest=oldest)
        return pool

    def counted(self, pool: BurstPool) -> tuple[int, int]:
        memory = pool.memory.queues["l/q"]
        return memory.met, memory.missed

    def test_a_burst_is_not_missed_if_all_work_that_waits_came_later(self) -> None:
        """No waiting work was there at the deadline, and a burst without remaining work counts as met."""
        pool = self.away(back=110, oldest=105)
        assert self.counted(pool) == self.counted(self.away(back=110, oldest=None, wants=0.0)) == (1, 0)
        assert pool.told[-1] is EventKind.BURST_OPENED

    def test_work_that_came_later_takes_over_no_claim(self) -> None:
        """An early next burst waits for its own window: it is not served from what the last one did not use."""
        assert self.away(back=50, oldest=40).state(51, 8) is WindowState.CLOSED

    @pytest.mark.parametrize(
        "oldest",
        [
            pytest.param(5, id="the burst's own work"),
            pytest.param(14, id="work that came in the window"),
            pytest.param(None, id="unknown"),
            pytest.param(200, id="not created yet: the clocks differ"),
        ],
    )
    def test_a_real_miss_is_counted(self, oldest: float | None) -> None:
        assert self.counted(self.away(back=110, oldest=oldest)) == (0, 1)

    def test_at_the_deadline_itself_only_work_of_this_very_moment_is_later(self) -> None:
        assert self.counted(self.away(back=15, oldest=15)) == (1, 0)
        assert self.counted(self.away(back=15, oldest=14.9)) == (0, 1)


@pytest.mark.parametrize(
    ("rate", "wanted", "state"),
    [
        pytest.param([8.0, 8.0], [1.0, 0.0], WindowState.ARMED, id="all it gets of one resource and nothing of another"),
        pytest.param([0.5], [0.5], WindowState.OPEN, id="half a core"),
        # and no more than the fair share (docs/decisions/0010-a-burst-that-fits-its-fair-share.md)
        pytest.param([8.0], [4.0], WindowState.OPEN, id="exactly half the guaranteed rate"),
    ],
)
def test_a_window_opens_for_demand_that_is_a_burst(rate: list[float], wanted: list[float], state: WindowState) -> None:
    queues = (throughput("t/q"), latency("l/q", 1.0, rate, 10, Sporadic(100)))
    given = snapshot(queues, [10.0] * len(rate), [[99.0] * len(rate), wanted])
    window = decide(given, Memory(), PolicyConfig(), START)[0].decisions[1].window
    assert window is not None
    assert window.state is state


class TestWorkOfAMissedBurst:
    """It still waits when the next window opens (docs/decisions/0273-work-of-missed-bursts-runs-first.md)."""

    def missed(self, *, ran: float = 0.0) -> BurstPool:
        """A burst of 80 core-seconds that was missed, of which a part ran until the next window opens at 100."""
        pool = sporadic()
        pool.round(0, 8)
        pool.round(10, 8, ran / 90.0)
        pool.round(100, 16, 0)
        assert self.counts(pool) == (0, 1)
        return pool

    def counts(self, pool: BurstPool) -> tuple[int, int]:
        entry = pool.memory.queues["l/q"]
        return entry.met, entry.missed

    def test_it_may_run_first_so_that_a_burst_is_met_only_once_the_demand_of_both_is_delivered(self) -> None:
        pool = self.missed()
        pool.round(101, 16, 24)
        pool.round(107, 16, 24)  # 144 of 160
        assert self.counts(pool) == (0, 1)
        pool.round(108, 16, 24)
        assert self.counts(pool) == (1, 1)

    def test_a_burst_of_which_only_that_much_was_delivered_is_missed(self) -> None:
        pool = self.missed()
        pool.round(101, 16, 10)
        decision = pool.round(110, 8, 8)
        assert self.counts(pool) == (0, 2)
        assert decision.window is not None
        assert pool.result.events[-1].message.endswith("12 % of the declared demand had been delivered after the work of earlier bursts.")

    def test_only_the_part_that_has_not_run_counts(self) -> None:
        pool = self.missed(ran=60.0)
        pool.round(101, 16, 24)
        pool.round(105.5, 16, 24)  # 108 of 100
        assert self.counts(pool) == (1, 1)

    def test_without_work_at_the_end_the_burst_is_met(self) -> None:
        pool = self.missed()
        pool.round(101, 16, 10)
        pool.round(110, 0, 0)
        assert self.counts(pool) == (1, 1)

    def test_work_that_was_given_up_before_the_next_burst_is_forgotten(self) -> None:
        pool = sporadic()
        pool.round(0, 8)
        pool.round(10, 8)
        pool.round(50, 0)
        pool.round(100, 8, 0)
        pool.round(101, 8, 16)
        pool.round(106, 8, 16)
        assert self.counts(pool) == (1, 1)

    def test_more_work_than_declared_is_no_work_of_a_missed_burst(self) -> None:
        pool = sporadic()
        pool.round(0, 8)
        pool.round(1, 30, 10)
        pool.round(10, 30, 10)
        pool.round(100, 30, 10)
        pool.round(108.5, 30, 10)
        assert self.counts(pool) == (2, 0)


class TestUnseenWork:
    """Work that came while no process looked: its windows open when it came (also tests/kube/test_absence.py)."""

    def after(self, pool: BurstPool, at: float, *came: float, wants: float = 8.0, oldest: float | None = None) -> QueueDecision:
        given = snapshot(pool.queues, [pool.capacity], [[100.0], [wants]])
        given = dataclasses.replace(
            given, unseen_work={1: tuple(START + time for time in came)}, oldest_work={1: START + (came[0] if oldest is None else oldest)}
        )
        pool.result, pool.memory = decide(given, pool.memory, PolicyConfig(), START + at)
        return pool.result.decisions[1]

    def counts(self, pool: BurstPool) -> tuple[int, int, int]:
        entry = pool.memory.queues["l/q"]
        return entry.bursts, entry.met, entry.missed

    def test_a_window_that_still_runs_has_its_remaining_time(self) -> None:
        pool = sporadic()
        pool.round(0, 0)
        window = self.after(pool, 9, 3).window
        assert window is not None
        assert (window.state, window.opened, window.deadline) == (WindowState.OPEN, START + 3, START + 13)
        assert pool.told == [EventKind.BURST_OPENED]

    def test_one_that_is_over_is_missed_and_owed(self) -> None:
        pool = sporadic()
        pool.round(0, 0)
        decision = self.after(pool, 60, 3)
        assert decision.window is not None
        assert decision.window.state is WindowState.OVERDUE
        assert decision.guaranteed.tolist() == [8.0]
        assert pool.told == [EventKind.BURST_OPENED, EventKind.BURST_MISSED]
        assert self.counts(pool) == (1, 0, 1)

    def test_twenty_bursts_of_a_long_outage_are_twenty_misses(self) -> None:
        pool = sporadic()
        pool.round(0, 0)
        self.after(pool, 2050, *range(3, 2003, 100))
        assert self.counts(pool) == (20, 0, 20)
        assert pool.told.count(EventKind.BURST_MISSED) == 20

    def test_the_arrivals_of_a_schedule_have_their_own_deadlines(self) -> None:
        bursts = tuple(ScheduledBurst(START + at, Burst({"cpu": 4.0}, 10, deadline)) for at, deadline in ((10, 10), (50, 60), (200, 10)))
        pool = BurstPool(latency("l/q", 1.0, [4.0], 10, Schedule(bursts)))
        pool.round(0, 0)
        decision = self.after(pool, 105, 10, 50)
        assert decision.window is not None
        assert (decision.window.state, decision.window.opened, decision.window.index) == (WindowState.OPEN, START + 50, 1)
        assert self.counts(pool) == (1, 0, 1)

    def test_a_listed_arrival_without_work_is_passed_over(self) -> None:
        bursts = tuple(ScheduledBurst(START + at, Burst({"cpu": 4.0}, 10, 10)) for at in (10, 50, 100))
        pool = BurstPool(latency("l/q", 1.0, [4.0], 10, Schedule(bursts)))
        pool.round(0, 0)
        self.after(pool, 90, 50)
        assert self.counts(pool) == (1, 0, 1)

    def test_work_after_a_schedule_is_over_opens_none(self) -> None:
        pool = BurstPool(latency("l/q", 1.0, [4.0], 10, Schedule((ScheduledBurst(START + 10, Burst({"cpu": 4.0}, 10, 10)),))))
        pool.round(0, 0)
        decision = self.after(pool, 90, 50)
        assert decision.window is None or decision.window.state is WindowState.CLOSED
        assert self.counts(pool) == (0, 0, 0)

    def test_what_was_delivered_meanwhile_makes_no_burst_met_whose_work_waits(self) -> None:
        pool = sporadic()
        pool.round(0, 8)
        pool.round(1, 8, 8)  # the last known rate
        self.after(pool, 160, 105, oldest=105)
        assert self.counts(pool) == (2, 1, 1)

    @pytest.mark.parametrize(
        ("wants", "counts"), [pytest.param(16.0, (3, 0, 3), id="work waits at the end"), pytest.param(0.0, (3, 1, 2), id="nothing waits")]
    )
    def test_work_of_missed_bursts_that_runs_first_in_a_window_serves_no_burst(self, wants: float, counts: tuple[int, int, int]) -> None:
        pool = sporadic()
        pool.round(0, 0)
        self.after(pool, 205, 3, 103, 203)
        assert self.counts(pool) == (2, 0, 2)
        pool.round(206, 16, 16)
        pool.round(212, 16, 16)  # by now the demand of one burst has run
        assert self.counts(pool) == (2, 0, 2)
        pool.round(213, wants, wants)
        assert self.counts(pool) == counts

    def test_a_window_counts_as_met_when_the_work_of_missed_bursts_and_its_own_has_run(self) -> None:
        pool = sporadic()
        pool.round(0, 0)
        self.after(pool, 105, 3, 103)
        pool.round(105.5, 24, 24)
        pool.round(112.5, 24, 24)
        assert self.counts(pool) == (2, 1, 1)

    def test_batch_queues_are_not_concerned(self) -> None:
        pool = sporadic()
        given = dataclasses.replace(snapshot(pool.queues, [10.0], [[100.0], [0.0]]), unseen_work={0: (START - 50,)})
        assert (
            decide(given, Memory(), PolicyConfig(), START)[0].events
            == decide(dataclasses.replace(given, unseen_work={}), Memory(), PolicyConfig(), START)[0].events
        )
