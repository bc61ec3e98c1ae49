"""Weighted dominant-resource fairness: the DRF paper's example, a linear program, and a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from benchmarks.policy import plain_fill
from fairburst.policy.drf import dominant_share, fill, take_in_order

CAPACITY = np.array([9.0, 18.0])
TASK = np.array([[1.0, 4.0], [3.0, 1.0]])


def test_example_of_the_drf_paper() -> None:
    multiple = fill(TASK * 100, np.full(2, np.inf), np.ones(2), CAPACITY, CAPACITY)
    assert multiple * 100 == pytest.approx([3.0, 2.0])
    assert dominant_share(TASK * multiple[:, None] * 100, CAPACITY) == pytest.approx([2 / 3, 2 / 3])


def test_weights_divide_a_single_resource_in_proportion() -> None:
    demand = np.full((3, 1), 100.0)
    weight = np.array([1.0, 2.0, 5.0])
    assert fill(demand, np.full(3, np.inf), weight, np.array([80.0]), np.array([80.0])) * 100 == pytest.approx([10, 20, 50])


def test_a_capped_queue_leaves_the_rest_to_the_others() -> None:
    demand = np.full((2, 1), 100.0)
    multiple = fill(demand, np.array([0.1, np.inf]), np.ones(2), np.array([80.0]), np.array([80.0]))
    assert multiple * 100 == pytest.approx([8.0, 72.0])


def test_a_queue_that_needs_a_resource_of_no_capacity_gets_nothing_and_blocks_nobody() -> None:
    demand = np.array([[10.0, 1.0], [10.0, 0.0]])
    capacity = np.array([8.0, 0.0])
    assert fill(demand, np.full(2, np.inf), np.ones(2), capacity, capacity).tolist() == [0.0, 0.8]


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    count, width = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    cells = draw(st.lists(st.integers(0, 9), min_size=count * width, max_size=count * width))
    weight = draw(st.lists(st.sampled_from([1.0, 2.0, 0.5, 3.0]), min_size=count, max_size=count))
    capacity = draw(st.lists(st.integers(1, 20), min_size=width, max_size=width))
    return np.array(cells, dtype=np.float64).reshape(count, width), np.array(weight), np.array(capacity, dtype=np.float64)


def lexicographic_by_linear_programs(demand: np.ndarray, weight: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Return the max-min of share/weight by one linear program a level, which fixes the queues that cannot rise."""
    share = dominant_share(demand, capacity)
    multiple, fixed = np.zeros(len(share)), share == 0
    while not fixed.all():
        count = len(share)
        rows, bounds = [], []
        for row in range(count):
            bounds.append((multiple[row], multiple[row]) if fixed[row] else (0.0, 1.0))
            if not fixed[row]:
                rows.append([-share[row] / weight[row] if column == row else 0.0 for column in range(count)] + [1.0])
        use = np.hstack([demand.T, np.zeros((len(capacity), 1))])
        found = optimize.linprog(
            [0.0] * count + [-1.0], A_ub=np.vstack([rows, use]), b_ub=[0.0] * len(rows) + capacity.tolist(), bounds=[*bounds, (0, None)]
        )
        level = found.x[-1]
        candidate = np.where(fixed, multiple, np.minimum(level * weight / np.where(share > 0, share, 1), 1.0))
        left = capacity - candidate @ demand
        stuck = ~fixed & ((candidate >= 1 - 1e-9) | ((demand > 0) & (left <= 1e-7)).any(axis=1))
        assert stuck.any()
        multiple[stuck] = candidate[stuck]
        fixed |= stuck
    return multiple


@given(problems())
def test_filling_agrees_with_linear_programs(problem: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    demand, weight, capacity = problem
    ours = fill(demand, np.full(len(demand), np.inf), weight, capacity, capacity)
    assert ours == pytest.approx(lexicographic_by_linear_programs(demand, weight, capacity), abs=1e-6)


def test_filling_of_many_users_agrees_with_a_plain_loop() -> None:
    rng = np.random.default_rng(5)
    demand = rng.integers(1, 30, (300, 5)).astype(np.float64)
    weight = rng.integers(1, 5, 300).astype(np.float64)
    capacity = demand.sum(axis=0) * 0.4
    ours = fill(demand, np.full(300, np.inf), weight, capacity, capacity)
    assert ours == pytest.approx(plain_fill(demand.tolist(), weight.tolist(), capacity.tolist(), capacity.tolist()), abs=1e-9)


@given(problems())
def test_weighted_envy_freeness(problem: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Ghodsi et al., NSDI 2011, Theorem 2: no queue could run more tasks with another's allocation scaled to its own weight."""
    demand, weight, capacity = problem
    ours = fill(demand, np.full(len(demand), np.inf), weight, capacity, capacity)
    given_rows = demand * ours[:, None]
    for one in range(len(demand)):
        for other in range(len(demand)):
            needs = demand[one] > 0
            if one != other and needs.any():
                bundle = given_rows[other] * weight[one] / weight[other]
                assert np.min(bundle[needs] / demand[one][needs]) <= ours[one] + 1e-7 or ours[one] >= 1 - 1e-9


@given(problems(), st.data())
def test_population_monotonicity_with_strictly_positive_demands(
    problem: tuple[np.ndarray, np.ndarray, np.ndarray], data: st.DataObject
) -> None:
    """BoPF Table 1: if a queue leaves, no other's allocation shrinks (DRF, strictly positive demands)."""
    demand, weight, capacity = problem
    demand = demand + 1.0
    row = data.draw(st.integers(0, len(demand) - 1))
    rest = [other for other in range(len(demand)) if other != row]
    before = fill(demand, np.full(len(demand), np.inf), weight, capacity, capacity)[rest]
    after = fill(demand[rest], np.full(len(rest), np.inf), weight[rest], capacity, capacity)
    assert (after >= before - 1e-9).all()


def test_population_monotonicity_fails_where_demands_have_zeros() -> None:
    """A known counterexample, kept: the one who leaves held back a third queue, which now takes more of what the second needs."""
    capacity = np.array([10.0, 10.0])
    demand = np.array([[10.0, 0.0], [10.0, 10.0], [0.0, 10.0]]) * 10
    uncapped = np.full(3, np.inf)
    weight = np.array([4.0, 1.0, 1.0])
    with_all = fill(demand, uncapped, weight, capacity, capacity)
    without_first = fill(demand[1:], uncapped[1:], weight[1:], capacity, capacity)
    assert without_first[1] < with_all[2]


@given(problems())
def test_in_order_serving_agrees_with_one_after_the_other(problem: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    claim, _, capacity = problem
    left, want = capacity.copy(), []
    for row in claim:
        needs = row > 0
        part = min(1.0, float(np.min(left[needs] / row[needs]))) if needs.any() else 0.0
        want.append(max(part, 0.0))
        left = np.maximum(left - row * want[-1], 0.0)
    assert take_in_order(claim, capacity, capacity * 1e-9) == pytest.approx(want, abs=1e-6)


@given(problems(), st.permutations(range(7)))
def test_order_of_queues_does_not_matter(problem: tuple[np.ndarray, np.ndarray, np.ndarray], shuffle: list[int]) -> None:
    demand, weight, capacity = problem
    order = [row for row in shuffle if row < len(demand)]
    ours = fill(demand, np.full(len(demand), np.inf), weight, capacity, capacity)
    shuffled = fill(demand[order], np.full(len(demand), np.inf), weight[order], capacity, capacity)
    assert shuffled == pytest.approx(ours[order], abs=1e-9)


def test_a_demand_that_is_almost_nothing_of_one_resource_takes_no_part_in_what_exhausts_it() -> None:
    """Found by fuzzing: dividing by a sum of 5e-324 overflowed."""
    demand = np.array([[5e-324, 1.0], [0.0, 1.0]])
    with np.errstate(all="raise"):
        assert fill(demand, np.full(2, np.inf), np.ones(2), np.ones(2), np.ones(2)).tolist() == [0.5, 0.5]


def test_who_comes_after_a_claim_that_does_not_fit_gets_its_own_and_who_came_before_is_not_served_again() -> None:
    """The second claim exhausts the first resource; the first claim keeps its 4 of the other, and the last gets the 6 left of it."""
    claim, left = np.array([[0.0, 4.0], [20.0, 0.0], [0.0, 6.0]]), np.array([10.0, 10.0])
    assert take_in_order(claim, left, left * 1e-9).tolist() == [1.0, 0.5, 1.0]


def test_a_pool_smaller_than_one_of_its_units_is_divided_like_any_other() -> None:
    """Half a core, of which two queues want one each."""
    half = np.array([0.5])
    assert fill(np.ones((2, 1)), np.full(2, np.inf), np.ones(2), half, half) == pytest.approx([0.25, 0.25])


def test_a_demand_too_small_to_have_a_share_is_met() -> None:
    capacity = np.array([1e12])
    assert fill(np.array([[1e-9]]), np.full(1, np.inf), np.ones(1), capacity, capacity).tolist() == [1.0]


def test_resources_that_run_out_one_after_the_other_are_all_accounted_for() -> None:
    """Capacities 1, 2 and 6: the first queue stops at 1, the second at 2; both reduce the last resource for the third queue."""
    wanted = np.array([[100.0, 0.0, 100.0], [0.0, 100.0, 100.0], [0.0, 0.0, 100.0]])
    multiple = fill(wanted, np.full(3, np.inf), np.ones(3), np.full(3, 10.0), np.array([1.0, 2.0, 6.0]))
    assert multiple == pytest.approx([0.01, 0.02, 0.03])
