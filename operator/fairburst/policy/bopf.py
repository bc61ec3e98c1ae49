"""Allocation of one round (BoPF §3.3, Algorithm 1 ALLOCATE): hard, soft, elastic, spare, in real numbers.

It decides amounts, given each queue's state (window, budget, order). rounding.py makes whole units, except that a hard queue's guarantee
is rounded up here, because the promise comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.drf import (
    add_to_rows,
    by_resource,
    column_sum,
    dominant_share,
    fill,
    put_rows,
    row_any,
    take_in_order,
    take_rows,
    weighted_sum,
)
from fairburst.policy.rounding import units_up
from fairburst.policy.tolerance import SMALLEST, TOLERANCE, slack_of


@dataclass(frozen=True, slots=True)
class AllocationInput:
    """State of the queues in this round. N queues, K resources; row sets are ascending unless said otherwise.

    wanted: (N, K) demand after limits, zero for queues that get nothing. rate: (N, K) guaranteed rates.
    whole_rate: the rates of the rows `hard`, rounded up to whole units.
    hard: rows in an ON window with budget left, in admission order. overdue: hard rows past their deadline, earliest deadline first.
    soft: rows in an ON window with budget left, shortest remaining demand first (SRPT); then those past their deadline, earliest first.
    elastic: (N,) mask of the rest. level_cap: (N,) dominant share at which a row is capped in the fill (infinite: only by demand). Rows of
        `hard`, `overdue` and `soft` rise in it from their promise, if their cap is higher.
    """

    wanted: FloatArray
    rate: FloatArray
    whole_rate: FloatArray
    unit: FloatArray
    weight: FloatArray
    hard: IntArray
    overdue: IntArray
    soft: IntArray
    elastic: BoolArray
    level_cap: FloatArray


def allocate(inputs: AllocationInput, capacity: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Divide live capacity. Returns (guaranteed, spare), each (N, K), resource units; their sum stays within `capacity` and `wanted`.

    If capacity is below the sum of hard rates, hard queues are served in admission order: the earliest promises are kept whole, the first
    that doesn't fit gets the remaining capacity, and later ones the rest.
    """
    slack = slack_of(capacity)
    left = capacity.copy()
    served: list[tuple[IntArray, FloatArray]] = []
    if inputs.hard.size:
        granted, left = _serve_hard(inputs, capacity)
        served.append((inputs.hard, granted))
    if inputs.overdue.size:
        rows = inputs.overdue
        claim = np.minimum(units_up(inputs.rate, inputs.unit, rows), take_rows(inputs.wanted, rows))
        granted, left = _serve_in_order(claim, left, slack)
        served.append((rows, granted))
    if inputs.soft.size:
        granted, left = _serve_in_order(take_rows(inputs.wanted, inputs.soft), left, slack)
        served.append((inputs.soft, granted))
    guaranteed = _serve_elastic(inputs, capacity, left, _Risers.of(inputs, served, capacity))
    for rows, granted in served:
        add_to_rows(guaranteed, rows, granted)
    return guaranteed, _serve_spare(inputs, guaranteed, capacity)


def _serve_in_order(claim: FloatArray, left: FloatArray, slack: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(granted, left) of `claim` (M, K), row after row."""
    granted = claim * take_in_order(claim, left, slack)[:, None]
    return granted, np.maximum(left - column_sum(granted), 0.0)


def _serve_hard(inputs: AllocationInput, capacity: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return min(rate, demand), the rate rounded up to whole units if all of them fit, and the *uncommitted* capacity.

    The unused part of a hard queue's rate stays committed here and goes to spare, not to soft queues.
    """
    rows, slack = inputs.hard, slack_of(capacity)
    rate, wanted = take_rows(inputs.rate, rows), take_rows(inputs.wanted, rows)
    whole = np.minimum(inputs.whole_rate, wanted)
    if (column_sum(whole) <= capacity + slack).all():
        granted = whole
    else:
        exact = np.minimum(rate, wanted)
        if (column_sum(exact) <= capacity + slack).all():
            granted = exact + _extras_that_fit(whole - exact, capacity - column_sum(exact))
        else:
            granted = exact * take_in_order(exact, capacity, slack)[:, None]
    return granted, np.maximum(capacity - column_sum(np.maximum(granted, rate)), 0.0)


def _extras_that_fit(extra: FloatArray, left: FloatArray) -> FloatArray:
    """Return the rows of `extra` that fit whole, taken in order; zero rows for the others."""
    result = np.zeros_like(extra)
    for row in np.flatnonzero(row_any(extra > 0)):
        if (extra[row] <= left).all():
            result[row] = extra[row]
            left = left - extra[row]
    return result


@dataclass(frozen=True, slots=True)
class _Risers:
    """Rows in their windows that may get more than their promise. (M,) each: `begin` the promised dominant share, `height` that of the
    demand beyond it. speed: (M, K) amounts of a unit of dominant share beyond it."""

    rows: IntArray
    begin: FloatArray
    height: FloatArray
    speed: FloatArray

    @classmethod
    def of(cls, inputs: AllocationInput, served: Sequence[tuple[IntArray, FloatArray]], capacity: FloatArray) -> _Risers | None:
        """Return the risers among the rows that are `served` with their promises; None if there are none."""
        parts = []
        for rows, granted in served:
            begin = dominant_share(granted, capacity)
            some = np.flatnonzero(inputs.level_cap[rows] > begin * (1.0 + TOLERANCE) + TOLERANCE)
            if some.size:
                parts.append((rows[some], begin[some], _unmet(take_rows(inputs.wanted, rows[some]), take_rows(granted, some))))
        if not parts:
            return None
        rows, begin, unmet = (np.concatenate(column) for column in zip(*parts, strict=True))
        height = dominant_share(unmet, capacity)
        some = np.flatnonzero(height > TOLERANCE)
        return cls(rows[some], begin[some], height[some], unmet[some] / height[some, None]) if some.size else None

    def without(self, leaving: BoolArray) -> _Risers:
        """Return the risers without the `leaving` ones."""
        stay = ~leaving
        return _Risers(self.rows[stay], self.begin[stay], self.height[stay], self.speed[stay])


def _serve_elastic(inputs: AllocationInput, capacity: FloatArray, left: FloatArray, risers: _Risers | None) -> FloatArray:
    """(N, K) by weighted DRF: elastic queues, latency queues outside their windows up to their residual share, and `risers` beyond their
    promises.

    A riser's use as a function of the common level begins at its promised share, which `fill` can't express. So it is filled from zero,
    and the divided amount is raised by its use below that share. A riser whose level is lower than its promise is removed, which can only
    lower the levels of the others. The loop ends with the largest set of risers in which each gets at least its promise.
    """
    if risers is None:
        return _serve_without_windows(inputs, capacity, left)
    elastic = np.flatnonzero(inputs.elastic)
    while True:
        rows = np.concatenate([elastic, risers.rows])
        direction = take_rows(inputs.wanted, rows)
        direction[elastic.size :] = risers.speed * (risers.begin + risers.height)[:, None]
        below = weighted_sum(risers.begin, risers.speed)
        multiple = fill(direction, inputs.level_cap[rows], inputs.weight[rows], capacity, left + below)
        reached = multiple[elastic.size :] * (risers.begin + risers.height) - risers.begin
        if (reached >= 0).all():
            break
        risers = risers.without(reached < 0)
    share = np.zeros(len(inputs.elastic))
    share[elastic] = multiple[: elastic.size]
    result: FloatArray = inputs.wanted * share[:, None]
    more = by_resource(risers.speed * reached[:, None])
    put_rows(result, risers.rows, _whole_pods(more, take_rows(inputs.unit, risers.rows), reached >= risers.height * (1.0 - TOLERANCE)))
    return result


def _whole_pods(amount: FloatArray, unit: FloatArray, all_met: BoolArray) -> FloatArray:
    """Return `amount` (M, K) rounded down to known whole units, as hard queues have whole units; unchanged in rows with all demand met."""
    known = (unit > SMALLEST) & ~all_met[:, None]
    number = np.divide(amount, unit, out=np.zeros_like(amount), where=known)
    return np.where(known, np.floor(number + TOLERANCE * np.maximum(number, 1.0)) * unit, amount)


def _serve_without_windows(inputs: AllocationInput, capacity: FloatArray, left: FloatArray) -> FloatArray:
    if inputs.elastic.all():
        multiple = fill(inputs.wanted, inputs.level_cap, inputs.weight, capacity, left)
    else:
        rows = np.flatnonzero(inputs.elastic)
        multiple = np.zeros(len(inputs.elastic))
        multiple[rows] = fill(take_rows(inputs.wanted, rows), inputs.level_cap[rows], inputs.weight[rows], capacity, left)
    result: FloatArray = inputs.wanted * multiple[:, None]
    return result


def _serve_spare(inputs: AllocationInput, guaranteed: FloatArray, capacity: FloatArray) -> FloatArray:
    """Divide the rest among unmet demand by weighted DRF (Pareto efficiency)."""
    left = np.maximum(capacity - column_sum(guaranteed), 0.0)
    if (left <= slack_of(capacity)).all():
        return np.zeros_like(guaranteed)
    unmet = _unmet(inputs.wanted, guaranteed)
    unmet *= fill(unmet, np.full(len(unmet), np.inf), inputs.weight, capacity, left)[:, None]
    return unmet


def _unmet(wanted: FloatArray, guaranteed: FloatArray) -> FloatArray:
    """(N, K) demand beyond the guarantees; zero if that is within the tolerance."""
    result = np.empty_like(wanted)
    within = np.empty(len(wanted))
    for column in range(wanted.shape[1]):
        more = result[:, column]
        np.subtract(wanted[:, column], guaranteed[:, column], out=more)
        np.multiply(wanted[:, column], TOLERANCE, out=within)
        more *= more > within
    return result
