"""Pods that cannot be stopped and run past their window: the cost of overstaying, which brings no gain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.model import Arrival, GuaranteeClass, Periodic, Sporadic, WindowState
from tests.support.pods import PodHistory, PodQueue, run_pods
from tests.support.policy import latency, throughput
from tests.support.profiles import horizons
from tests.support.strategies import START

CAPACITY = 10.0
HORIZON = 240.0


def run(rate: int, duration: float, pod_seconds: float, arrival: Arrival, weight: float, every: float) -> PodHistory:
    """A hungry latency queue, whose pods run for `pod_seconds`, beside a throughput queue that always has more short pods to run."""
    spec = latency("l/q", 1.0, [float(rate)], duration, arrival, weight=weight)
    hungry = PodQueue(spec, np.array([1.0]), pod_seconds, np.arange(START, START + HORIZON, every), rate)
    steady = PodQueue(throughput("t/q"), np.array([1.0]), 5.0, np.arange(START, START + HORIZON, 5.0), 12)
    return run_pods([steady, hungry], [CAPACITY], START, START + HORIZON)


class TestOverstayingDoesNotPay:
    """Design §4: overruns are carried as debt, so a queue's share in the long run is the same however long its pods stay."""

    @horizons()
    @given(
        st.integers(2, 9), st.sampled_from([4.0, 10.0]), st.sampled_from([1.0, 3.0, 10.0, 25.0]), st.sampled_from([1.0, 2.0, 0.5]),
        st.sampled_from([Sporadic(40.0), Periodic(40.0, START), Periodic(40.0)]),
    )  # fmt: skip
    def test_use_stays_within_the_share_and_one_overrun(
        self, rate: int, duration: float, times: float, weight: float, arrival: Arrival
    ) -> None:
        """Use over T is at most share x T + 2 F + the overrun of the pods of one window, whatever T."""
        history = run(rate, duration, duration * times, arrival, weight, 10.0)
        share = weight / (1 + weight)
        fair_share_of_period, overrun = share * 40.0, rate / CAPACITY * (duration * times - duration)
        assert history.used["l/q"] <= share * HORIZON + 2 * fair_share_of_period + overrun + 1e-6

    @pytest.mark.parametrize("pod_seconds", [20.0, 80.0, 200.0])
    def test_longer_pods_get_no_more_than_honest_ones_and_one_overrun(self, pod_seconds: float) -> None:
        honest, longer = (run(8, 10.0, seconds, Sporadic(40.0), 1.0, 10.0) for seconds in (10.0, pod_seconds))
        assert honest.used["l/q"] == pytest.approx(HORIZON / 2, rel=0.05)
        assert longer.used["l/q"] <= honest.used["l/q"] + 0.8 * (pod_seconds - 10.0)

    def test_after_an_overrun_the_next_window_waits_until_the_debt_is_below_a_period(self) -> None:
        """8 of 10 for 160 s instead of 10 s are 128 dominant-share-seconds. At 0.5 a second less than F = 20 is left of them from 216 s
        on; until then windows open, but without a budget, and no pod of the second burst starts.
        """
        spec = latency("l/q", 1.0, [8.0], 10.0, Sporadic(40.0))
        twice = PodQueue(spec, np.array([1.0]), 160.0, [START, START + 165.0], 8)
        steady = PodQueue(throughput("t/q"), np.array([1.0]), 5.0, np.arange(START, START + 300, 5.0), 12)
        history = run_pods([steady, twice], [CAPACITY], START, START + 300)
        again = [result.now - START for result in history.rounds if result.now > START + 160 and result.charge_rate[1] > 0]
        assert 216 <= min(again) <= 216 + 40


class TestBurstGuaranteeWithDebt:
    """BoPF Table 1, BG: with debt <= F - d the burst is whole: min(rate, demand) all through its window, until d is consumed."""

    @horizons()
    @given(st.integers(1, 9), st.sampled_from([4.0, 8.0]), st.sampled_from([1.0, 1.5, 2.5, 4.0]), st.sampled_from([10.0, 40.0]))
    def test_small_debts_are_paid_from_the_slack(self, rate: int, duration: float, times: float, every: float) -> None:
        history = run(rate, duration, duration * times, Periodic(40.0, START), 1.0, every)
        burst, seen = rate / CAPACITY * duration, 0
        for result, wanted in zip(history.rounds, history.wanted, strict=True):
            decision = result.decisions[1]
            assert decision.guarantee_class is GuaranteeClass.HARD
            assert decision.window is not None
            slack = decision.fair_share_of_period - burst
            if decision.window.state is not WindowState.OPEN or decision.debt > slack:
                continue
            assert decision.budget == pytest.approx(burst)
            if decision.consumed < burst * (1 - 1e-6):
                seen += 1
                assert decision.allocation[0] >= min(rate, wanted[1, 0]) - 1e-6
        assert seen
