"""Weighted dominant shares against linear programs: random, badly scaled and adversarial cases, with caps and capacity in use.

1,000 cases in CI; FAIRBURST_ORACLE_CASES sets another number (100,000 for a night).
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import optimize

from fairburst.policy.arrays import FloatArray
from fairburst.policy.drf import dominant_share, fill

CASES = int(os.environ.get("FAIRBURST_ORACLE_CASES", "1000"))
CHUNK = 100
AGREE = 1e-6


@dataclass(frozen=True)
class Case:
    """One call of `fill`."""

    demand: FloatArray
    cap: FloatArray
    weight: FloatArray
    capacity: FloatArray
    left: FloatArray


def random_case(seed: int) -> Case:
    """Up to 9 queues and 6 resources; every third case is adversarial."""
    rng = np.random.default_rng(seed)
    count, width = int(rng.integers(1, 10)), int(rng.integers(1, 7))
    demand = rng.integers(0, 10, (count, width)).astype(np.float64)
    capacity = rng.integers(1, 30, width).astype(np.float64)
    weight = rng.choice([0.5, 1.0, 2.0, 3.0], count)
    cap = np.where(rng.random(count) < 0.3, rng.random(count), np.inf)
    left = capacity * rng.choice([1.0, 1.0, 0.5, 0.1], width)
    match seed % 9:
        case 0:  # equal queues: every one stops at once
            demand[:] = demand[0]
            weight[:] = 1.0
        case 3:  # amounts and weights of very different sizes
            scale = 10.0 ** rng.integers(-3, 13, width)
            demand, capacity, left, weight = demand * scale, capacity * scale, left * scale, weight * 10.0 ** rng.integers(-2, 3, count)
        case 6:  # each resource is wanted by one queue only, and one queue wants them all
            demand[:] = 0.0
            demand[np.arange(count), np.arange(count) % width] = 9.0
            demand[0] = 9.0
    return Case(demand, cap, weight, capacity, left)


def by_linear_programs(case: Case) -> FloatArray:
    """Multiples of max-min fair weighted dominant shares: one linear program a level, then one a queue that says whether it could rise."""
    share = dominant_share(case.demand, case.capacity)
    most = np.minimum(1.0, np.divide(case.cap, share, out=np.ones_like(share), where=share > 0))
    slope = np.divide(case.weight, share, out=np.zeros_like(share), where=share > 0)
    use, left = (case.demand / case.capacity).T, case.left / case.capacity
    multiple, fixed = np.zeros(len(share)), share == 0
    while not fixed.all():
        level = _highest_level(use, left, most, slope, multiple, fixed)
        multiple = np.where(fixed, multiple, np.minimum(level * slope, most))
        free = left - use @ multiple
        blocked = ((use > 0) & (free <= 1e-9)[:, None]).any(axis=0)
        stops = ~fixed & (blocked | (multiple >= most * (1 - 1e-9)))
        assert stops.any(), "a level stops at least one queue"
        fixed |= stops
    return multiple


def _highest_level(
    use: FloatArray, left: FloatArray, most: FloatArray, slope: FloatArray, multiple: FloatArray, fixed: FloatArray
) -> float:
    """The highest common level at which no queue that still rises is below min(level x slope, most). Variables: multiples and the level.

    A queue that reaches its most before the level does is told apart by trying: the program with it bounded there.
    """
    bounded = np.zeros(len(slope), dtype=bool)
    while True:
        rising = ~fixed & ~bounded
        if not rising.any():
            return float(np.max(most[~fixed] / slope[~fixed]))
        count = len(slope)
        equal = np.zeros((int(rising.sum()), count + 1))
        rows = np.flatnonzero(rising)
        equal[np.arange(rows.size), rows] = 1.0
        equal[:, -1] = -slope[rows] / slope[rows].max()
        bounds = [
            (multiple[row], multiple[row]) if fixed[row] else ((most[row], most[row]) if bounded[row] else (0.0, None))
            for row in range(count)
        ]
        found = optimize.linprog(
            [0.0] * count + [-1.0], A_ub=np.hstack([use, np.zeros((len(left), 1))]), b_ub=left, A_eq=equal, b_eq=np.zeros(rows.size),
            bounds=[*bounds, (0.0, float(np.max(most[rows] / slope[rows])) * slope[rows].max())],
        )  # fmt: skip
        if not found.success:
            raise AssertionError(found.message)
        level = float(found.x[-1]) / slope[rows].max()
        over = rising & (level * slope > most * (1 + 1e-12))
        if not over.any():
            return level
        first = np.where(over, most / np.where(slope > 0, slope, 1.0), np.inf)
        bounded |= first <= first.min() * (1 + 1e-12)


@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_filling_agrees_with_linear_programs(first: int) -> None:
    for seed in range(first, min(first + CHUNK, CASES)):
        case = random_case(seed)
        ours = fill(case.demand, case.cap, case.weight, case.capacity, case.left)
        theirs = by_linear_programs(case)
        assert np.abs(ours - theirs).max(initial=0.0) <= AGREE, (seed, ours, theirs)
        assert (case.demand.T @ ours <= case.left * (1 + 1e-9) + 1e-9 * case.capacity).all(), seed
