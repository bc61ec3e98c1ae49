"""The rest that one class leaves to the next, in amounts that a person can check, where a resource is just exhausted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from fairburst.policy.bopf import AllocationInput, allocate
from fairburst.policy.drf import inverse_capacity, row_any_short
from fairburst.policy.rounding import units_up

NO_QUEUE: tuple[int, ...] = ()


def inputs(
    wanted: Sequence[Sequence[float]], rate: Sequence[Sequence[float]], unit: float = 0.0, hard: Sequence[int] = NO_QUEUE,
    overdue: Sequence[int] = NO_QUEUE, soft: Sequence[int] = NO_QUEUE,
) -> AllocationInput:  # fmt: skip
    """Queues that are in none of the row sets are elastic, with weight 1 and no cap; the others get no more than they are promised."""
    rows = [np.array(some, dtype=np.int64) for some in (hard, overdue, soft)]
    elastic = np.ones(len(wanted), dtype=bool)
    elastic[np.concatenate(rows)] = False
    rates, units = np.asfortranarray(rate, dtype=np.float64), np.full((len(wanted), len(wanted[0])), unit, order="F")
    return AllocationInput(
        wanted=np.asfortranarray(wanted, dtype=np.float64), rate=rates, whole_rate=units_up(rates, units, rows[0]), unit=units,
        weight=np.ones(len(wanted)), hard=rows[0], overdue=rows[1], soft=rows[2], elastic=elastic,
        level_cap=np.where(elastic, math.inf, 0.0),
    )  # fmt: skip


def test_spare_goes_to_a_queue_that_has_all_it_wants_of_what_is_exhausted() -> None:
    """Pareto efficiency (BoPF §3.4): 8 cores are left, no memory, and the queue wants 3 cores more but no more memory."""
    guaranteed, spare = allocate(inputs([[5.0, 5.0]], [[2.0, 5.0]], hard=[0]), np.array([10.0, 5.0]))
    assert guaranteed.tolist() == [[2.0, 5.0]]
    assert spare.tolist() == [[3.0, 0.0]]


@pytest.mark.parametrize("claim", ["hard", "overdue", "soft"])
def test_elastic_queues_get_nothing_of_what_a_stronger_claim_exhausts(claim: str) -> None:
    guaranteed, spare = allocate(inputs([[10.0], [5.0]], [[10.0], [0.0]], **{claim: [0]}), np.array([10.0]))
    assert guaranteed.tolist() == [[10.0], [0.0]]
    assert not spare.any()


def test_a_rate_is_rounded_up_where_that_takes_exactly_what_is_left() -> None:
    """1.5 and 1 of two resources; rates (0.5, 1) and (0.5, 0). One of the two halves can be made whole, and the first is, although
    nothing at all is left of the second resource, of which it needs no more."""
    guaranteed, _ = allocate(inputs([[1.0, 1.0], [1.0, 0.0]], [[0.5, 1.0], [0.5, 0.0]], unit=1.0, hard=[0, 1]), np.array([1.5, 1.0]))
    assert guaranteed.tolist() == [[1.0, 1.0], [0.5, 0.0]]


def test_rates_that_fit_whole_are_whole_whatever_the_last_bit_says() -> None:
    """In float64, 2 - (0.1 + 0.2) is too little for 0.9 and then 0.8."""
    guaranteed, _ = allocate(inputs([[1.0], [1.0]], [[0.1], [0.2]], unit=1.0, hard=[0, 1]), np.array([2.0]))
    assert guaranteed.tolist() == [[1.0], [1.0]]


def test_a_rate_is_rounded_up_beside_a_resource_that_rates_exhaust_exactly() -> None:
    wanted, rate = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0.5, 0.0], [0.5, 0.0], [0.0, 0.5]]
    guaranteed, _ = allocate(inputs(wanted, rate, unit=1.0, hard=[0, 1, 2]), np.array([1.0, 10.0]))
    assert guaranteed.tolist() == [[0.5, 0.0], [0.5, 0.0], [0.0, 1.0]]


def test_spare_goes_to_those_who_do_not_need_the_exhausted_resource() -> None:
    """The hard queue is promised all memory and uses 1; the first resource is exhausted by another. The unused
    part of the promise is not lost: the third queue wants memory alone."""
    wanted = [[0.0, 1.0], [20.0, 0.0], [0.0, 5.0], [5.0, 5.0]]
    guaranteed, spare = allocate(inputs(wanted, [[0.0, 10.0], *[[0.0, 0.0]] * 3], hard=[0]), np.array([10.0, 10.0]))
    assert guaranteed.tolist() == [[0.0, 1.0], [10.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert spare.tolist() == [[0.0, 0.0], [0.0, 0.0], [0.0, 5.0], [0.0, 0.0]]


def test_a_resource_that_is_not_there_counts_nothing_in_a_share() -> None:
    capacity = np.array([2.0, 0.0, 4.0])
    poison = np.full(3, math.nan)  # what was in the memory before shows where nothing is written
    del poison
    assert inverse_capacity(capacity).tolist() == [0.5, 0.0, 0.25]


def test_a_queue_is_short_if_it_is_short_of_any_resource() -> None:
    wanted = np.array([[2.0, 2.0], [2.0, 2.0], [2.0, 2.0]])
    given = np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 2.0]])
    assert row_any_short(given, wanted).tolist() == [True, True, False]


def test_a_queue_is_not_short_of_what_it_does_not_want() -> None:
    assert row_any_short(np.array([[2.0, 0.0]]), np.array([[2.0, 0.0]])).tolist() == [False]
