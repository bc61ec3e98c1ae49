"""The remembered shortfall of batch queues (docs/decisions/0112-batch-queues-that-were-short-catch-up.md)."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.arrays import FloatArray
from fairburst.policy.decide import decide
from fairburst.policy.model import GuaranteeClass, Memory, PolicyConfig, QueueMemory
from tests.support.pod_runs import PodRun, Pods
from tests.support.policy import snapshot, throughput
from tests.support.strategies import START, WEIGHTS

CONFIG = PolicyConfig()
OFF = dataclasses.replace(CONFIG, batch_memory_seconds=0.0)
WINDOW = CONFIG.batch_memory_seconds


def late_comer(config: PolicyConfig, seconds: float) -> FloatArray:
    """Unit-seconds that each of two equal teams has had on 10 units: the second comes when the first has just filled them for 10 min."""
    queues = (throughput("a/q", 0.0), throughput("b/q", 1.0))
    pods = [[Pods(np.array([1.0]), 600.0, 10.0), Pods(np.array([1.0]), 30.0)], [Pods(np.array([1.0]), 30.0, since=1.0)]]
    received: FloatArray = PodRun(queues, np.array([10.0]), pods, config).run(START, seconds).received[:, 0]
    return received


class TestALateComer:
    """It waits for 10 minutes while pods that it can't stop end, and lacks 5 units for as long: 3,000 unit-seconds."""

    def test_it_gets_nearly_half_of_it_back_within_a_window(self) -> None:
        """The other half is forgotten, as the half-life says."""
        first, second = late_comer(CONFIG, 600.0 + WINDOW)
        assert first - second <= 0.55 * 6000

    def test_without_memory_it_gets_nothing_back(self) -> None:
        first, second = late_comer(OFF, 600.0 + WINDOW)
        assert first - second > 0.9 * 6000

    def test_in_the_end_both_have_equal_parts_again(self) -> None:
        before, after = late_comer(CONFIG, 600.0 + 6 * WINDOW), late_comer(CONFIG, 600.0 + 8 * WINDOW)
        had = after - before
        assert abs(had[0] - had[1]) <= 0.1 * had.sum()


@st.composite
def remembered(draw: st.DrawFn) -> tuple[Memory, list[float]]:
    """Admitted throughput queues with weights, and any memory of them."""
    queues = {}
    weights = draw(st.lists(WEIGHTS, min_size=2, max_size=6))
    for row, weight in enumerate(weights):
        spec = throughput(f"q{row}", float(row), weight)
        lately = draw(st.floats(-1e5, 1e5, allow_nan=False))
        queues[spec.name] = QueueMemory(spec, GuaranteeClass.ELASTIC, row, balance_as_of=START, recent_value=lately)
    return Memory(queues, len(weights)), weights


def divided(memory: Memory, weights: list[float], config: PolicyConfig) -> FloatArray:
    """Return the cores of 100 that backlogged queues of divisible work get."""
    queues = tuple(throughput(f"q{row}", float(row), weight) for row, weight in enumerate(weights))
    result, _ = decide(snapshot(queues, [100.0], [[1000.0]] * len(weights)), memory, config, START)
    allocation: FloatArray = result.allocation[:, 0]
    return allocation


class TestBounds:
    """However much is remembered, no queue starves and nothing is left over."""

    @given(remembered())
    def test_no_queue_falls_below_a_quarter_of_its_share(self, drawn: tuple[Memory, list[float]]) -> None:
        memory, weights = drawn
        fair = 100 * np.array(weights) / sum(weights)
        got = divided(memory, weights, CONFIG)
        assert (got >= fair / 4 - 1e-6).all()
        assert abs(got.sum() - 100) < 1e-6

    @given(remembered())
    def test_switched_off_every_queue_has_its_share(self, drawn: tuple[Memory, list[float]]) -> None:
        memory, weights = drawn
        assert np.allclose(divided(memory, weights, OFF), 100 * np.array(weights) / sum(weights))

    @given(remembered())
    def test_a_queue_that_lacks_more_never_gets_less_per_weight(self, drawn: tuple[Memory, list[float]]) -> None:
        memory, weights = drawn
        got = divided(memory, weights, CONFIG) / weights
        lacks = np.array([memory.queues[f"q{row}"].recent_value for row in range(len(weights))]) / weights
        order = np.argsort(lacks)
        assert (np.diff(got[order]) >= -1e-6).all()
