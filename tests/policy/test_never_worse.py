"""A hard promise is never worse than none: a queue in its window also takes part in the division up to its fair share of the period."""

from __future__ import annotations

import numpy as np
import pytest

from fairburst.policy.bopf import AllocationInput, allocate
from fairburst.policy.decide import decide
from fairburst.policy.model import GuaranteeClass, Memory, Periodic, PolicyConfig, QueueSpec, Sporadic
from fairburst.policy.reclaim.owed import owed
from fairburst.policy.reclaim.values import Ground, ReclaimRules
from fairburst.policy.rounding import units_up
from tests.support.policy import backlog, latency, run_fluid, snapshot, throughput

NONE = np.zeros(0, dtype=np.int64)
START = 1_000.0


def four_queues(cores: float = 12.0) -> tuple[QueueSpec, ...]:
    return (*(throughput(f"t{row}") for row in range(3)), latency("l", 1.0, [cores], 20, Sporadic(100), 100))


def test_a_backlogged_hard_queue_has_in_its_window_what_a_throughput_queue_of_its_weight_has() -> None:
    given = snapshot(four_queues(), [48.0], [48.0] * 4, None, [1.0] * 4)
    result, _ = decide(given, Memory(), PolicyConfig(), 0.0)
    assert result.classes[3] is GuaranteeClass.HARD
    assert result.allocation.ravel().tolist() == [12.0] * 4
    assert result.guaranteed.ravel().tolist() == [12.0] * 4


def test_over_many_periods_it_has_the_same_share() -> None:
    """With the rate alone it had 0.10 of the cluster, where a fourth throughput queue has 0.25."""
    queues = four_queues()
    work = [backlog(spec.name, [48.0], START) for spec in queues]
    history = run_fluid(queues, [48.0], work, START, START + 2_000)
    for spec in queues:
        assert history.total[spec.name] / 2_000 == pytest.approx(0.25, rel=0.01)


def test_what_it_gets_beyond_its_rate_is_charged_and_ends_with_its_fair_share_of_the_period() -> None:
    """One throughput queue beside it: half of the cluster is the fair share, at most that is charged in a period."""
    queues = (throughput("t"), latency("l", 1.0, [12.0], 20, Sporadic(100), 100))
    history = run_fluid(queues, [48.0], [backlog("t", [48.0], START), backlog("l", [48.0], START)], START, START + 100)
    assert history.guaranteed["l"] == pytest.approx(50.0, rel=1e-3)
    assert history.memory.queues["l"].ledger(START + 100) == pytest.approx(50.0, rel=1e-3)


def test_a_short_burst_beyond_the_fair_share_is_served_at_its_rate() -> None:
    queues = (*(throughput(f"t{row}") for row in range(3)), latency("l", 1.0, [40.0], 10, Sporadic(100), 10))
    result, _ = decide(snapshot(queues, [48.0], [48.0] * 4, None, [1.0] * 4), Memory(), PolicyConfig(), 0.0)
    assert result.allocation[3, 0] == 40.0


def test_whole_pods_beyond_the_rate() -> None:
    queues = (*(throughput(f"t{row}") for row in range(3)), latency("l", 1.0, [12.0], 20, Periodic(100, 0.0), 100))
    result, _ = decide(snapshot(queues, [50.0], [50.0] * 4, None, [1.0, 1.0, 1.0, 5.0]), Memory(), PolicyConfig(), 0.0)
    assert result.allocation[3, 0] in {10.0, 15.0}
    assert result.guaranteed[3, 0] == 10.0  # 12.5 is fair, 5 is one pod


def level_by_bisection(case: AllocationInput, promised: np.ndarray, capacity: float) -> np.ndarray:
    """One resource: raise the common level until the cluster is full, each row between its promise and the least of its bounds."""
    most = np.minimum(case.wanted[:, 0], case.level_cap * capacity)
    least = promised[:, 0]

    def at(level: float) -> np.ndarray:
        return np.maximum(least, np.minimum(level * case.weight * capacity, most))

    low, high = 0.0, 1e3
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle).sum() <= capacity else (low, middle)
    return at(low)


def random_case(rng: np.random.Generator, width: int) -> tuple[AllocationInput, np.ndarray]:
    count = int(rng.integers(2, 8))
    capacity = rng.integers(5, 40, width).astype(float)
    wanted = rng.integers(1, 40, (count, width)).astype(float)
    hard = np.flatnonzero(rng.random(count) < 0.5)
    rate = np.zeros((count, width))
    shares = rng.dirichlet(np.ones(max(len(hard), 1))) * rng.random()
    rate[hard] = shares[: len(hard), None] * capacity
    elastic = np.ones(count, dtype=bool)
    elastic[hard] = False
    cap = np.where(rng.random(count) < 0.4, np.inf, rng.random(count))
    unit = np.zeros_like(wanted)
    weight = rng.choice([0.5, 1.0, 2.0], count)
    return AllocationInput(wanted, rate, units_up(rate, unit, hard), unit, weight, hard, NONE, NONE, elastic, cap), capacity


def test_one_resource_agrees_with_a_bisection_of_the_common_level() -> None:
    rng = np.random.default_rng(6)
    rises = 0
    for _ in range(400):
        case, capacity = random_case(rng, 1)
        guaranteed, spare = allocate(case, capacity)
        promised = np.zeros_like(case.wanted)
        promised[case.hard] = np.minimum(case.rate[case.hard], case.wanted[case.hard])
        unused = (case.rate[case.hard] - promised[case.hard]).sum()  # stays committed, and goes to spare
        want = level_by_bisection(case, promised, capacity[0] - unused) if not unused else None
        if want is not None:
            np.testing.assert_allclose(guaranteed[:, 0], want, atol=1e-6 * capacity[0])
            rises += int((guaranteed[case.hard, 0] > promised[case.hard, 0] + 1e-9).any())
        assert (guaranteed + spare).sum() <= capacity[0] * (1 + 1e-9)
    assert rises > 50


def test_in_many_resources_no_one_falls_below_the_promise_or_rises_above_the_cap() -> None:
    rng = np.random.default_rng(7)
    rises = 0
    for _ in range(400):
        case, capacity = random_case(rng, int(rng.integers(2, 5)))
        guaranteed, spare = allocate(case, capacity)
        promised = np.minimum(case.rate, case.wanted)
        assert (guaranteed[case.hard] >= promised[case.hard] * (1 - 1e-9)).all()
        assert ((guaranteed + spare).sum(axis=0) <= capacity * (1 + 1e-9)).all()
        assert (guaranteed + spare <= case.wanted * (1 + 1e-9)).all()
        share, begin = (guaranteed / capacity).max(axis=1), (promised / capacity).max(axis=1)
        more = share > begin + 1e-9
        assert (share[more] <= case.level_cap[more] + 1e-9).all()
        rises += int(more[case.hard].any())
    assert rises > 50


def test_work_is_taken_only_for_the_promised_part() -> None:
    queues = four_queues()
    given = snapshot(queues, [48.0], [48.0] * 4, [16.0, 16.0, 16.0, 0.0], [1.0] * 4)
    result, _ = decide(given, Memory(), PolicyConfig(), 0.0)
    assert result.guaranteed[3, 0] == 12.0
    taken, _, _ = owed(given, result, np.ones(4, dtype=bool), {}, ReclaimRules(), 0.0)
    assert [(one.row, one.ground, one.amount.tolist()) for one in taken] == [(3, Ground.BURST, [3.0])]  # 2.4 cores in whole pods
