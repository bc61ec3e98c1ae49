"""Queues that are not admitted have what no admitted queue can use, and nothing else."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fairburst.policy import leftover
from fairburst.policy.decide import decide
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, Memory, PolicyConfig, QueueSpec, Sporadic
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START

QUEUES = (latency("l", 0.0, [50.0], 100, Sporadic(100)), *(throughput(f"t{row}", 1.0 + row) for row in range(4)))
ADMITTED = (GuaranteeClass.HARD, GuaranteeClass.ELASTIC, None, None, None)


def allocation(
    demand: list[float], usage: list[float] | None = None, unit: float = 1.0, queues: tuple[QueueSpec, ...] = QUEUES
) -> list[float]:
    given = snapshot(queues, [100.0], demand, usage, [unit] * len(queues))
    result, _ = decide(given, Memory(), PolicyConfig(), 0.0)
    assert result.classes == ADMITTED[: len(queues)]
    assert not result.guaranteed[2:].any()
    rows: list[float] = result.allocation[:, 0].tolist()
    return rows


def test_idle_capacity_is_shared_among_queues_that_are_not_admitted() -> None:
    assert allocation([0, 0, 100, 100, 100], unit=1.0) == [0, 0, 34, 33, 33]
    assert allocation([0, 40, 100, 100, 10]) == [0, 40, 25, 25, 10]


def test_whole_pods_only() -> None:
    assert allocation([0, 0, 96, 96, 96], unit=8.0) == [0, 0, 32, 32, 32]
    assert allocation([0, 85, 96, 96, 0], unit=8.0) == [0, 85, 8, 0, 0]


def test_what_admitted_queues_want_or_use_is_not_idle() -> None:
    assert allocation([0, 200, 100, 0, 0]) == [0, 100, 0, 0, 0]
    assert allocation([50, 50, 100, 0, 0]) == [50, 50, 0, 0, 0]
    assert allocation([0, 10, 100, 0, 0], usage=[0, 30, 0, 0, 0]) == [0, 10, 70, 0, 0]


def test_what_they_use_themselves_is_no_bar() -> None:
    assert allocation([0, 60, 100, 0, 0], usage=[0, 60, 40, 0, 0]) == [0, 60, 40, 0, 0]


def test_a_suspended_queue_has_nothing() -> None:
    held = (*QUEUES[:2], throughput("t1", 2.0, suspended=True))
    assert allocation([0, 10, 100], queues=held) == [0, 10, 0]


def test_a_limit_holds_for_it() -> None:
    limited = (*QUEUES[:2], throughput("t1", 2.0, cpu=7.0))
    assert allocation([0, 10, 100], queues=limited) == pytest.approx([0, 10, 7])


def test_a_limit_scales_the_mix_down_as_a_whole() -> None:
    queues = (latency("l", 0.0, [50.0], 100, Sporadic(100)), throughput("t0", 1.0), throughput("t1", 2.0, cpu=8.0))
    result, _ = decide(snapshot(queues, [100.0, 400.0], [[0, 0], [10, 10], [40, 80]]), Memory(), PolicyConfig(), 0.0)
    assert result.classes[2] is None
    assert result.allocation[2].tolist() == [8.0, 16.0]


def test_the_words_say_that_it_is_spare() -> None:
    given = snapshot(QUEUES, [100.0], [0, 0, 30, 0, 0])
    result, _ = decide(given, Memory(), PolicyConfig(), 0.0)
    decision = result.decisions[2]
    assert (decision.reason, decision.allocation.tolist(), decision.spare.tolist()) == ("NotAdmitted", [30.0], [30.0])
    assert decision.message == "The queue is not admitted: it has what no admitted queue wants, 30 cores; its admission says why."


@pytest.mark.parametrize("width", [1, 3])
def test_random_rounds_stay_within_capacity_and_leave_no_pod_that_fits(width: int) -> None:
    rng = np.random.default_rng(9)
    gave = 0
    for _ in range(300):
        capacity = rng.integers(10, 80, width).astype(float)
        queues = (latency("l", 0.0, (capacity / 2).tolist(), 100, Sporadic(100)), *(throughput(f"t{row}", 1.0 + row) for row in range(4)))
        unit = rng.integers(1, 6, (5, width)).astype(float)
        demand = unit * rng.integers(0, 12, (5, 1))
        given = snapshot(queues, capacity.tolist(), demand, None, unit)
        result, _ = decide(given, Memory(), PolicyConfig(), 0.0)
        assert result.classes == ADMITTED
        left = capacity - result.allocation.sum(axis=0)
        assert (left >= -1e-9 * capacity).all()
        for row in range(2, 5):
            short = (result.allocation[row] < demand[row] - 1e-9).any()
            assert not (short and (unit[row] <= left - 1e-9 * capacity).all())
        assert (result.allocation[2:] <= demand[2:]).all()
        without, _ = decide(_admitted(given), Memory(), PolicyConfig(), 0.0)
        assert result.allocation[:2].tobytes() == without.allocation.tobytes()
        gave += int(result.allocation[2:].any())
    assert gave > 100


def _admitted(given: ClusterSnapshot) -> ClusterSnapshot:
    return ClusterSnapshot(
        given.resources, given.live_capacity, given.committed_capacity, given.queues[:2], given.demand[:2], given.usage[:2], given.unit[:2]
    )


def test_a_rejected_queue_gets_only_what_no_admitted_one_wants() -> None:
    queues = (latency("a/q", 0.0, [10.0], 40, Sporadic(100)), throughput("b/q", 1.0), throughput("c/q", 2.0))
    result, _ = decide(snapshot(queues, [10.0], [[0.0], [2.0], [2.0]]), Memory(), PolicyConfig(), START)
    assert (result.allocation[:, 0].tolist(), result.guaranteed[:, 0].tolist()) == ([0.0, 2.0, 2.0], [0.0, 2.0, 0.0])
    result, _ = decide(snapshot(queues, [10.0], [[0.0], [10.0], [2.0]]), Memory(), PolicyConfig(), START)
    assert result.allocation[:, 0].tolist() == [0.0, 10.0, 0.0]


def test_its_cost_does_not_grow_with_the_number_of_pods() -> None:
    """A round took days where a queue that is not admitted had pods of one byte, and others of its pods were known to be larger."""
    given = snapshot(QUEUES, [1e18], [0, 0, 1e18, 1e18, 1e18], unit=[1.0] * len(QUEUES))
    result, _ = decide(given, Memory(), PolicyConfig(), 0.0)
    assert result.allocation[2:, 0].sum() == pytest.approx(1e18)
    columns, wanted, unit = result.allocation[2:, :1] * 0, np.full((3, 1), 1e18), np.ones((3, 1))
    leftover._add_pods(columns, wanted, unit, np.ones(3), np.array([1e18]), np.array([1e17]))
    assert columns.sum() == pytest.approx(1e17)
    assert columns.max() - columns.min() <= 1e17 / leftover.AT_A_TIME


@pytest.mark.parametrize("pods", [1e5, 1e18])
def test_its_cost_does_not_grow_with_the_number_of_pods_of_another_mix(pods: float) -> None:
    """Found by fuzzed objects: 2,000 bytes were the whole demand for memory and given, a next pod of 2 GB could fit once, and so 2^60 pods
    of little cpu were added one by one."""
    given, wanted, unit = np.array([[0.0, 2000.0]]), np.array([[0.1 * pods, 2000.0]]), np.array([[0.1, 2e9]])
    left = np.array([0.2 * pods, 2.3e9])
    steps = _steps(given, wanted, unit, left)
    assert given[0, 0] == pytest.approx(0.1 * pods)
    assert steps < 5000


def test_a_rest_below_the_resolution_of_its_amount_ends_the_turn() -> None:
    """2^60 and 1 are the same float64: a queue short of so little would have its turn for ever."""
    given, wanted, unit = np.array([[2.0**60 - 256]]), np.array([[2.0**60]]), np.array([[1.0]])
    assert _steps(given, wanted, unit, np.array([2.0**62])) < 1000


def _steps(given: np.ndarray, wanted: np.ndarray, unit: np.ndarray, left: np.ndarray) -> int:
    """Add pods, and return in how many turns; more than 100,000 are an error."""
    turns = itertools.count()

    class Counted(np.ndarray):
        def __getitem__(self, key):  # type: ignore[no-untyped-def]
            assert next(turns) < 100_000
            return super().__getitem__(key)

    leftover._add_pods(given, wanted.view(Counted), unit, np.ones(len(given)), left * 2, left)
    return next(turns)
