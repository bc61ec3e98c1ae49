"""Fairness over whole periods (BoPF Table 1 and §2.2): the average grant of each queue when all are backlogged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairburst.policy.model import Arrival, GuaranteeClass, Periodic, QueueKind, QueueSpec, Sporadic
from tests.support.policy import RESOURCES, History, backlog, latency, run_fluid, throughput
from tests.support.profiles import horizons
from tests.support.strategies import START, WEIGHTS

PERIOD = 60.0
HORIZON = 240.0  # whole periods of all queues below


@st.composite
def arrivals_at_the_start(draw: st.DrawFn, period: float) -> Arrival:
    """Windows that begin at START and every `period` after it, since work is always there."""
    return draw(st.sampled_from([Periodic(period, START), Periodic(period), Sporadic(period)]))


@st.composite
def mixed_periods(draw: st.DrawFn) -> tuple[QueueSpec, ...]:
    queues = [throughput(f"t{number}/q", float(number), draw(WEIGHTS)) for number in range(draw(st.integers(1, 2)))]
    for number in range(draw(st.integers(1, 3))):
        period = float(draw(st.sampled_from([20, 30, 60])))
        duration = float(draw(st.integers(1, 8)))
        deadline = duration + draw(st.sampled_from([0, 4]))
        arrival = draw(arrivals_at_the_start(period))
        queues.append(latency(f"l{number}/q", 10.0 + number, [float(draw(st.integers(1, 10)))], duration, arrival, deadline, draw(WEIGHTS)))
    return tuple(queues)


@st.composite
def bursts_above_the_fair_rate(draw: st.DrawFn) -> tuple[QueueSpec, ...]:
    """One period for all, at most three hard queues whose rates fit together, each above its share of the pool and with d <= F."""
    queues = [throughput(f"t{number}/q", float(number), draw(WEIGHTS)) for number in range(draw(st.integers(1, 2)))]
    weights = [draw(WEIGHTS) for _ in range(draw(st.integers(1, 3)))]
    total = sum(spec.weight for spec in queues) + sum(weights)
    deadline = float(draw(st.integers(1, 8)))
    for number, weight in enumerate(weights):
        rate = 10.0 * weight / total * draw(st.sampled_from([1.0, 1.1, 1.25, 1.5]))
        arrival = draw(arrivals_at_the_start(PERIOD))
        queues.append(latency(f"l{number}/q", 10.0 + number, [rate], deadline, arrival, deadline, weight))
    return tuple(queues)


def run_backlogged(queues: tuple[QueueSpec, ...], capacity: list[float], wanted: dict[str, list[float]] | None = None) -> History:
    work = [backlog(spec.name, [100 * amount for amount in (wanted or {}).get(spec.name, capacity)]) for spec in queues]
    return run_fluid(queues, capacity, work, START, START + HORIZON)


def per_share(queues: tuple[QueueSpec, ...], history: History) -> dict[str, float]:
    """Average guaranteed dominant share of each admitted queue, as a multiple of w / sum of admitted w."""
    classes = dict(zip([spec.name for spec in queues], history.results[-1].classes, strict=True))
    admitted = [spec for spec in queues if classes[spec.name] is not None]
    total = sum(spec.weight for spec in admitted)
    return {spec.name: history.guaranteed[spec.name] / HORIZON / (spec.weight / total) for spec in admitted}


class TestSingleResourceFairness:
    """BoPF Table 1: with one resource the averages are those of fair sharing, w / sum of w, for any bursts."""

    @horizons()
    @given(bursts_above_the_fair_rate())
    def test_everybody_averages_its_share_where_bursts_need_it(self, queues: tuple[QueueSpec, ...]) -> None:
        history = run_backlogged(queues, [10.0])
        assume(all(granted is not GuaranteeClass.SOFT for granted in history.results[-1].classes))
        for name, multiple in per_share(queues, history).items():
            assert multiple == pytest.approx(1.0, abs=1e-6), name

    @horizons()
    @given(mixed_periods())
    def test_no_latency_queue_averages_more_and_no_throughput_queue_less(self, queues: tuple[QueueSpec, ...]) -> None:
        history = run_backlogged(queues, [10.0])
        classes = dict(zip([spec.name for spec in queues], history.results[-1].classes, strict=True))
        for name, multiple in per_share(queues, history).items():
            if classes[name] in {GuaranteeClass.HARD, GuaranteeClass.SOFT}:
                assert multiple <= 1 + 1e-6, name
            if name.startswith("t"):
                assert multiple >= 1 - 1e-6, name

    def test_a_burst_slower_than_the_fair_rate_costs_nothing(self) -> None:
        """In its window a queue gets at least what it would get outside: 5 of 10, although it declares a burst of 1."""
        queues = (throughput("t/q"), latency("l/q", 1.0, [1.0], 5.0, Periodic(PERIOD, START)))
        assert per_share(queues, run_backlogged(queues, [10.0])) == pytest.approx({"t/q": 1.0, "l/q": 1.0})


class TestBottleneckFairness:
    """BoPF Table 1: a resource that is dominant for every queue is shared as if it were the only one."""

    @horizons()
    @given(bursts_above_the_fair_rate(), st.data())
    def test_the_bottleneck_is_shared_like_a_single_resource(self, queues: tuple[QueueSpec, ...], data: st.DataObject) -> None:
        wanted = {spec.name: [10.0, data.draw(st.sampled_from([0.0, 2.0, 9.0]))] for spec in queues}
        two = tuple(_with_second_resource(spec, wanted[spec.name][1] / 10.0) for spec in queues)
        alone, both = run_backlogged(queues, [10.0]), run_backlogged(two, [10.0, 10.0], wanted)
        assert [result.classes for result in both.results[-1:]] == [result.classes for result in alone.results[-1:]]
        for spec in queues:
            assert both.guaranteed[spec.name] == pytest.approx(alone.guaranteed[spec.name], abs=1e-6)


def _with_second_resource(spec: QueueSpec, ratio: float) -> QueueSpec:
    if spec.burst is None:
        return spec
    first = spec.burst.resources[RESOURCES[0]]
    return latency(
        spec.name, spec.order[0], [first, first * ratio], spec.burst.duration_seconds, spec.arrival or Sporadic(PERIOD),
        spec.burst.deadline_seconds, spec.weight,
    )  # fmt: skip


class TestSharingIncentive:
    """BoPF §2.2: a backlogged throughput queue gets at least its static part of the cluster, under any bursts."""

    @horizons()
    @given(mixed_periods(), st.integers(1, 10), st.integers(1, 10), st.data())
    def test_throughput_queues_run_at_least_what_a_static_partition_runs(
        self, queues: tuple[QueueSpec, ...], first: int, second: int, data: st.DataObject
    ) -> None:
        ratio = data.draw(st.sampled_from([0.0, 0.5, 1.0]))
        two = tuple(_with_second_resource(spec, ratio) for spec in queues)
        wanted = {spec.name: [10.0, 10.0 * ratio] if spec.burst else [float(first), float(second)] for spec in queues}
        history = run_backlogged(two, [10.0, 10.0], wanted)
        for name, multiple in per_share(two, history).items():
            if name.startswith("t"):
                assert multiple >= 1 - 1e-6, name


class TestLongTermFairnessOverAnyInterval:
    """Design §4 after BoPF §3.4: guaranteed use is at most share x T + 2 F over *any* interval of length T."""

    @horizons()
    @given(mixed_periods(), st.sampled_from([0.0, 7.0, 23.0]))
    def test_bound_holds_between_any_two_rounds(self, queues: tuple[QueueSpec, ...], late: float) -> None:
        work = [backlog(spec.name, [1000.0], START + (late if spec.kind is QueueKind.LATENCY else 0)) for spec in queues]
        history = run_fluid(queues, [10.0], work, START, START + HORIZON)
        times = np.array([result.now for result in history.results])
        for row, decision in enumerate(history.results[-1].decisions):
            if decision.window is None:
                continue
            rate = np.array([(result.guaranteed[row] / 10.0).max() for result in history.results])
            excess = np.concatenate([[0.0], np.cumsum((rate[:-1] - decision.share) * np.diff(times))])
            highest_rise = float((excess - np.minimum.accumulate(excess)).max())
            assert highest_rise <= 2 * decision.fair_share_of_period * (1 + 1e-6), decision.queue
