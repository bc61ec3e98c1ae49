"""Allocation of one round (BoPF §3.3, Algorithm 1 ALLOCATE): hard, soft, elastic, spare, in real numbers.

Decides amounts; which queue stands where (window open, budget left, order) comes in. Whole units are rounding.py's business, except
that a hard queue's guarantee is rounded up here, because the promise comes first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairburst.policy.drf import column_sum, fill, put_rows, row_any, row_maximum, take_in_order, take_rows
from fairburst.policy.model import BoolArray, FloatArray, IntArray
from fairburst.policy.rounding import units_up
from fairburst.policy.tolerance import TOLERANCE, slack_of


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the queues stand in this round. N queues, K resources; row sets are ascending unless said otherwise.

    wanted: (N, K) demand after limits, zero for queues that get nothing. rate: (N, K) guaranteed rates.
    whole_rate: the rates of the rows `hard`, rounded up to whole units.
    hard: rows in an ON window with budget left, in admission order. overdue: hard rows past their deadline, earliest deadline first.
    soft: rows in an ON window with budget left, shortest remaining demand first (SRPT).
    elastic: (N,) mask of the rest. level_cap: (N,) dominant share at which a row of `elastic` is capped (infinite: only by demand).
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


def allocate(standing: Standing, capacity: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Divide live capacity. Returns (guaranteed, spare), each (N, K), resource units; their sum stays within `capacity` and `wanted`.

    If capacity fell below the sum of hard rates, hard queues are served in admission order: the earliest promises are kept whole, the
    first that doesn't fit gets what there is, and later ones get what it leaves.
    """
    wanted = standing.wanted
    guaranteed = np.zeros_like(wanted)
    slack = slack_of(capacity)
    left = capacity.copy()
    if standing.hard.size:
        left = _serve_hard(standing, guaranteed, capacity)
    if standing.overdue.size:
        rows = standing.overdue
        claim = np.minimum(units_up(standing.rate, standing.unit, rows), take_rows(wanted, rows))
        left = _serve_in_order(rows, claim, guaranteed, left, slack)
    if standing.soft.size:
        left = _serve_in_order(standing.soft, take_rows(wanted, standing.soft), guaranteed, left, slack)
    _serve_elastic(standing, guaranteed, capacity, left)
    return guaranteed, _serve_spare(standing, guaranteed, capacity)


def _serve_in_order(rows: IntArray, claim: FloatArray, guaranteed: FloatArray, left: FloatArray, slack: FloatArray) -> FloatArray:
    granted = claim * take_in_order(claim, left, slack)[:, None]
    put_rows(guaranteed, rows, granted)
    rest: FloatArray = np.maximum(left - column_sum(granted), 0.0)
    return rest


def _serve_hard(standing: Standing, guaranteed: FloatArray, capacity: FloatArray) -> FloatArray:
    """min(rate, demand), the rate rounded up to whole units where all hold. Returns what hard queues leave *uncommitted*.

    What a hard queue leaves unused of its rate stays committed here and goes to spare, not to soft queues.
    """
    rows, slack = standing.hard, slack_of(capacity)
    rate, wanted = take_rows(standing.rate, rows), take_rows(standing.wanted, rows)
    exact = np.minimum(rate, wanted)
    whole = np.minimum(standing.whole_rate, wanted)
    if (column_sum(whole) <= capacity + slack).all():
        granted = whole
    elif (column_sum(exact) <= capacity + slack).all():
        granted = exact + _extras_that_fit(whole - exact, capacity - column_sum(exact))
    else:
        granted = exact * take_in_order(exact, capacity, slack)[:, None]
    put_rows(guaranteed, rows, granted)
    uncommitted: FloatArray = np.maximum(capacity - column_sum(np.maximum(granted, rate)), 0.0)
    return uncommitted


def _extras_that_fit(extra: FloatArray, left: FloatArray) -> FloatArray:
    """The rows of `extra` that fit whole, taken in order; zero rows for the others."""
    result = np.zeros_like(extra)
    for row in np.flatnonzero(row_any(extra > 0)):
        if (extra[row] <= left).all():
            result[row] = extra[row]
            left = left - extra[row]
    return result


def _serve_elastic(standing: Standing, guaranteed: FloatArray, capacity: FloatArray, left: FloatArray) -> None:
    """Elastic queues, and latency queues outside their windows up to their residual share, by weighted DRF."""
    if standing.elastic.all():
        multiple = fill(standing.wanted, standing.level_cap, standing.weight, capacity, left)
        np.multiply(standing.wanted, multiple[:, None], out=guaranteed)
        return
    rows = np.flatnonzero(standing.elastic)
    if rows.size == 0:
        return
    direction = take_rows(standing.wanted, rows)
    multiple = fill(direction, standing.level_cap[rows], standing.weight[rows], capacity, left)
    put_rows(guaranteed, rows, direction * multiple[:, None])


def _serve_spare(standing: Standing, guaranteed: FloatArray, capacity: FloatArray) -> FloatArray:
    """What is left goes to unmet demand by weighted DRF (Pareto efficiency)."""
    left = np.maximum(capacity - column_sum(guaranteed), 0.0)
    if (left <= slack_of(capacity)).all():
        return np.zeros_like(guaranteed)
    blocked = left <= slack_of(capacity)
    rows = np.flatnonzero(~row_any(standing.wanted[:, blocked] > 0))
    unmet = _unmet(standing.wanted, guaranteed, rows)
    short = np.flatnonzero(row_maximum(unmet) > 0)
    spare = np.zeros_like(guaranteed)
    if short.size:
        rows, unmet = rows[short], unmet if short.size == rows.size else take_rows(unmet, short)
        multiple = fill(unmet, np.full(rows.size, np.inf), standing.weight[rows], capacity, left)
        put_rows(spare, rows, unmet * multiple[:, None])
    return spare


def _unmet(wanted: FloatArray, guaranteed: FloatArray, rows: IntArray) -> FloatArray:
    """(M, K) what `rows` want beyond what they are guaranteed; zero where that is within the tolerance."""
    result = np.empty((rows.size, wanted.shape[1]), order="F")
    for column in range(wanted.shape[1]):
        some = wanted[:, column][rows]
        more = some - guaranteed[:, column][rows]
        np.multiply(more, more > TOLERANCE * some, out=result[:, column])
    return result
