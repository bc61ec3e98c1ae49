"""Ledgers: charges, the fair share of an accounting period, and the debt that a period leaves to the next."""

from __future__ import annotations

import pytest

from fairburst.policy.decide import decide
from fairburst.policy.model import GuaranteeClass, Memory, PolicyConfig, RoundResult, Sporadic, WindowState
from tests.support.policy import Pool, bursting, latency, snapshot, throughput
from tests.support.strategies import START

HARD, SOFT, ELASTIC = GuaranteeClass.HARD, GuaranteeClass.SOFT, GuaranteeClass.ELASTIC
CONFIG = PolicyConfig()
BATCH = throughput("t/q")


@pytest.mark.parametrize(
    ("committed", "live", "want"),
    [
        pytest.param(10.0, 20.0, 0.4, id="of what is committed"),
        pytest.param(0.8, 8.0, 5.0, id="also where that is less than one"),
    ],
)
def test_use_is_charged_in_shares_of_committed_capacity(committed: float, live: float, want: float) -> None:
    queues = (throughput("t/q"), latency("l/q", 1.0, [0.1], 10, Sporadic(100)))
    value = snapshot(queues, [live], [[99.0], [4.0]], [[0.0], [4.0]], committed=[committed])
    result, _ = decide(value, Memory(), CONFIG, START)
    assert result.decisions[1].spare.tolist() == [0.0]
    assert result.decisions[1].charge_rate == pytest.approx(want)


def test_use_is_charged_in_shares_of_live_capacity_where_nothing_is_committed() -> None:
    """No burst asks for memory: cores are committed, memory is not."""
    queues = (throughput("t/q"), latency("l/q", 1.0, [1.0], 10, Sporadic(100)))
    value = snapshot(queues, [10.0, 10.0], [[99.0, 99.0], [1.0, 0.0]], [[0.0, 0.0], [1.0, 5.0]], committed=[10.0, 0.0])
    result, _ = decide(value, Memory(), CONFIG, START)
    assert result.decisions[1].charge_rate == pytest.approx(0.5)


def test_a_fair_share_is_exact_where_it_changes_twice_in_a_second() -> None:
    """Half a second of one half, then 99.5 s of a third."""
    queues = (throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100)), throughput("u/q", 2.0))
    _, memory = decide(snapshot(queues[:2], [10.0], [[0.0]] * 2), Memory(), CONFIG, START)
    result, _ = decide(snapshot(queues, [10.0], [[0.0]] * 3), memory, CONFIG, START + 0.5)
    assert result.decisions[1].fair_share_of_period == pytest.approx(0.25 + 99.5 / 3)


class TestResidualShare:
    """8 of 10 cores for 10 s, once in 100 s, beside batch work; F is 50 dominant-share-seconds and the burst is 8 of them."""

    def play(self, rounds: list[tuple[float, float, float]], seconds: float = 10.0, live: float = 10.0) -> list[RoundResult]:
        """One result for each (seconds, wants, uses) of the latency queue."""
        queues = (BATCH, latency("l/q", 1.0, [8.0], seconds, Sporadic(100), 10))
        memory, results = Memory(), []
        for at, wants, uses in rounds:
            value = snapshot(queues, [live], [[99.0], [wants]], [[0.0], [uses]], committed=[10.0])
            result, memory = decide(value, memory, CONFIG, START + at)
            results.append(result)
        return results

    def test_outside_its_window_its_level_follows_a_rise_beyond_the_dead_band_only(self) -> None:
        """42 are left: over 90 s, then 88 (2 % more), then 85 (6 % more)."""
        results = self.play([(0, 8.0, 8.0), (10, 10.0, 0.0), (12, 10.0, 0.0), (15, 10.0, 0.0)])
        assert [one.guaranteed[1, 0] for one in results[1:]] == pytest.approx([10 * 42 / 90, 10 * 42 / 90, 10 * 42 / 85])

    def test_outside_its_window_it_has_nothing_once_its_fair_share_is_used_up(self) -> None:
        results = self.play([(0, 8.0, 10.0), (10, 10.0, 10.0), (60, 10.0, 0.0)])
        assert results[-1].guaranteed[1, 0] == 0.0

    def test_its_level_is_the_same_number_of_cores_when_there_are_more_than_were_committed(self) -> None:
        results = self.play([(0, 8.0, 8.0), (10, 10.0, 0.0)], live=20.0)
        assert results[-1].guaranteed[1, 0] == pytest.approx(10 * 42 / 90)

    def test_its_ledger_is_exact_where_use_changes_twice_in_a_second(self) -> None:
        results = self.play([(0, 8.0, 8.0), (0.5, 8.0, 4.0), (1.0, 8.0, 4.0)])
        assert results[-1].decisions[1].ledger == pytest.approx(0.6)

    @pytest.mark.parametrize(
        ("rounds", "seconds", "want"),
        [
            pytest.param([(0, 0.0, 0.0)], 10.0, 8.0, id="armed: its rate"),
            pytest.param([(0, 0.0, 0.0)], 1.0, 0.8, id="armed for a small burst: its rate"),
            pytest.param([(0, 8.0, 8.0), (5, 1.0, 1.0)], 10.0, 8.0, id="open: its rate, whatever it wants at the moment"),
            pytest.param([(0, 8.0, 8.0), (10, 0.0, 0.0)], 10.0, 0.0, id="closed: what it is given"),
            pytest.param([(0, 8.0, 10.0), (10, 0.0, 10.0), (100, 0.0, 10.0)], 10.0, 0.0, id="armed without a budget: what it is given"),
        ],
    )
    def test_its_quota_follows_its_window(self, rounds: list[tuple[float, float, float]], seconds: float, want: float) -> None:
        assert self.play(rounds, seconds=seconds)[-1].level[1, 0] == pytest.approx(want)


class TestAccountingPeriods:
    def test_a_queue_that_never_bursts_has_periods_too(self) -> None:
        """A trickle below the opening threshold counts in its own period only, and F starts again with each period."""
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100)))
        pool.at(0, [100.0, 1.0], [9.0, 1.0])
        before = pool.at(99, [100.0, 1.0], [9.0, 1.0]).decisions[1]
        after = pool.at(130, [100.0, 1.0], [9.0, 1.0]).decisions[1]
        assert (before.ledger, after.ledger) == (pytest.approx(9.9), pytest.approx(3.0))
        assert after.fair_share_of_period == pytest.approx(50.0)
        assert pool.memory.queues["l/q"].period_started == START + 100

    def test_the_end_of_a_period_is_a_boundary(self) -> None:
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100)))
        assert pool.at(0, [100.0, 0.0]).next_boundary == START + 100

    def test_several_periods_that_nobody_looked_at_leave_nothing_behind(self) -> None:
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100)))
        pool.at(0, [100.0, 1.0], [9.0, 1.0])
        pool.at(450, [100.0, 1.0], [9.0, 1.0])
        memory = pool.memory.queues["l/q"]
        assert (memory.period_started, memory.debt) == (START + 400, 0.0)

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


class TestDebt:
    """F is 50. Use beyond it is carried to the next period, where it takes the slack of 42 before the budget of 8."""

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
