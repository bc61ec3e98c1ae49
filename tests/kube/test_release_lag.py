"""The allowance for charges that the controller manager has not released yet."""

from __future__ import annotations

import math

import pytest

from fairburst.kube.enforce.release_lag import ReleaseLag
from fairburst.kube.names import QUOTA_NAME
from tests.support.objects import pod, requesting

BATCH = ("batch", QUOTA_NAME)


def lagging(pods: int = 3, hold: float = 30.0) -> ReleaseLag:
    """Three one-cpu pods ended at 100 s whose charge is still in the quota's status."""
    lag = ReleaseLag(hold)
    for number in range(pods):
        lag.ended(BATCH, pod("batch", f"p{number}"), 100.0)
    lag.observe(BATCH, {"cpu": 10.0}, {"cpu": 10.0 - pods}, 100.0)
    return lag


def test_the_allowance_is_what_ended_and_is_still_charged() -> None:
    assert lagging().allowance(BATCH, "cpu", unit=1.0, cap=20.0) == 3.0
    assert lagging().allowance(BATCH, "memory", unit=1.0, cap=20.0) == 0.0
    assert lagging().allowance(("other", QUOTA_NAME), "cpu", unit=1.0, cap=20.0) == 0.0


def test_the_allowance_never_exceeds_the_level() -> None:
    assert lagging().allowance(BATCH, "cpu", unit=1.0, cap=2.0) == 2.0


@pytest.mark.parametrize(
    ("largest", "unit", "want"),
    [(0.7, 0.5, 1.0), (1.0, 0.5, 1.0), (1.1, 0.1, 1.1), (0.3, 0.1, 0.3), (0.2, 0.0, 0.2)],
)
def test_the_allowance_is_whole_pods(largest: float, unit: float, want: float) -> None:
    lag = ReleaseLag()
    lag.ended(BATCH, pod("batch", "p", requesting("4")), 0.0)
    lag.observe(BATCH, {"cpu": largest}, {}, 0.0)
    assert lag.allowance(BATCH, "cpu", unit=unit, cap=100.0) == pytest.approx(want)


def test_a_charge_ahead_of_the_cache_is_no_lag() -> None:
    lag = ReleaseLag()
    lag.observe(BATCH, {"cpu": 10.0}, {"cpu": 7.0}, 100.0)
    assert lag.allowance(BATCH, "cpu", 1.0, 20.0) == 0.0


def test_a_charge_ahead_of_the_cache_is_no_lag_long_after_the_last_pod_ended() -> None:
    lag = lagging()
    lag.observe(BATCH, {"cpu": 10.0}, {"cpu": 7.0}, 1000.0)
    assert lag.allowance(BATCH, "cpu", 1.0, 20.0) == 0.0


def test_the_lag_is_raised_at_once_and_lowered_late() -> None:
    lag = lagging()
    lag.observe(BATCH, {"cpu": 7.0}, {"cpu": 7.0}, 101.0)
    assert lag.allowance(BATCH, "cpu", 1.0, 20.0) == 3.0
    lag.observe(BATCH, {"cpu": 7.0}, {"cpu": 7.0}, 130.5)
    assert lag.allowance(BATCH, "cpu", 1.0, 20.0) == 0.0


def test_the_time_at_which_an_allowance_shrinks_lies_ahead_whether_or_not_anybody_observes() -> None:
    lag = lagging()
    assert lag.next_expiry(100.0) == 130.0
    assert lag.next_expiry(131.0) == math.inf, "a time in the past would make the loop turn without end"
    assert lag.allowance(BATCH, "cpu", 1.0, 20.0) == 0.0


def test_a_namespace_that_is_no_longer_managed_leaves_nothing_behind() -> None:
    lag = lagging()
    lag.retain({"other"})
    assert lag.allowance(BATCH, "cpu", 1.0, 20.0) == 0.0
    assert lag.next_expiry(100.0) == math.inf
    lag.observe(BATCH, {"cpu": 10.0}, {"cpu": 7.0}, 100.0)
    assert lag.allowance(BATCH, "cpu", 1.0, 20.0) == 0.0, "its ended pods are forgotten as well"
