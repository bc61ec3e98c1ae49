"""Figures computed from the record of a run."""

from __future__ import annotations

import pytest

from e2e.workload.metrics import (
    Amounts,
    BurstRecord,
    Sample,
    average_dominant_shares,
    backlogged_fraction,
    bursts_of,
    fair_shares,
    largest_total_share,
    mean_completion_seconds,
)

CAPACITY = Amounts(cpu=100, memory=1000)


def sample(at: float, a: Amounts, b: Amounts, wanted_a: Amounts | None = None) -> Sample:
    return Sample(at, {"a": a, "b": b}, {"a": wanted_a or a, "b": b})


def test_dominant_share_is_that_of_the_scarcer_resource():
    assert Amounts(cpu=10, memory=300).dominant_share(CAPACITY) == 0.3
    assert (Amounts(1, 2) + Amounts(3, 4)).times(2) == Amounts(8, 12)


def test_fair_shares_divide_by_weight():
    assert fair_shares({"a": 1, "b": 3}) == {"a": 0.25, "b": 0.75}


def test_average_share_weights_each_sample_by_the_time_until_the_next():
    samples = [sample(0, Amounts(100, 0), Amounts()), sample(4, Amounts(50, 0), Amounts(0, 500)), sample(8, Amounts(), Amounts(0, 1000))]
    # From 2 to 10: a holds everything for 2 s, half for 4 s, nothing for 2 s.
    assert average_dominant_shares(samples, CAPACITY, 2, 10) == pytest.approx({"a": (2 * 1 + 4 * 0.5) / 8, "b": (4 * 0.5 + 2 * 1) / 8})


@pytest.mark.parametrize(("start", "end"), [pytest.param(-1, 5, id="before the first sample"), pytest.param(5, 5, id="empty interval")])
def test_average_share_refuses_an_interval_it_knows_nothing_of(start, end):
    with pytest.raises(ValueError, match=r"expected samples from .* found samples from 0 to 0 s"):
        average_dominant_shares([sample(0, Amounts(), Amounts())], CAPACITY, start, end)
    with pytest.raises(ValueError, match="found no samples"):
        average_dominant_shares([], CAPACITY, 0, 1)


def test_backlogged_fraction_counts_the_time_in_which_more_was_wanted_than_held():
    samples = [sample(0, Amounts(10, 0), Amounts(), wanted_a=Amounts(20, 0)), sample(3, Amounts(10, 0), Amounts())]
    assert backlogged_fraction(samples, "a", 0, 4) == 0.75
    assert backlogged_fraction(samples, "b", 0, 4) == 0


def test_largest_total_share_sums_the_queues_before_taking_the_dominant_resource():
    samples = [sample(0, Amounts(40, 0), Amounts(0, 500)), sample(1, Amounts(30, 300), Amounts(30, 300))]
    assert largest_total_share(samples, CAPACITY) == 0.6
    assert largest_total_share([], CAPACITY) == 0


@pytest.mark.parametrize(
    ("completed_at", "now", "want_met", "want_missed"),
    [
        pytest.param(130.0, 131.0, True, False, id="on the deadline"),
        pytest.param(130.5, 131.0, False, True, id="late"),
        pytest.param(None, 129.0, False, False, id="still has time"),
        pytest.param(None, 131.0, False, True, id="not done and out of time"),
    ],
)
def test_burst_is_met_if_its_work_was_done_by_the_deadline(completed_at, now, want_met, want_missed):
    burst = BurstRecord("q", 0, arrival=100.0, pods=3, deadline_seconds=30.0, bound_at=110.0, completed_at=completed_at)
    assert (burst.met, burst.missed(now)) == (want_met, want_missed)
    assert burst.binding_seconds == 10.0


def test_bursts_are_listed_by_queue_and_averaged_over_those_that_completed():
    bursts = [
        BurstRecord("q", 1, 60, 1, 30, 62, 80),
        BurstRecord("r", 0, 0, 1, 30, 1, 2),
        BurstRecord("q", 0, 0, 1, 30, 1, 10),
        BurstRecord("q", 2, 120, 1, 30),
    ]
    own = bursts_of(bursts, "q")
    assert [burst.number for burst in own] == [0, 1, 2]
    assert mean_completion_seconds(own) == 15.0
    assert mean_completion_seconds(own[2:]) is None
