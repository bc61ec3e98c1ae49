"""Selection of whole steps that fit, in order. A step that does not fit is skipped, with all later steps of the same job."""

from __future__ import annotations

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.drf import row_any


def take_that_fit(cost: FloatArray, owner: IntArray, left: FloatArray) -> BoolArray:
    """(M,) mask of the steps that are taken, strictly in row order; their total cost stays within `left`.

    cost: (M, K) resource units of each step. owner: (M,) job of each step. A job's steps build on each other, so a step that does not fit
    ends the job's steps. left: (K,) resource units.

    Each pass takes the longest prefix that fits and then drops all steps that can no longer fit. A job loses its steps only once, so there
    are at most as many passes as jobs.
    """
    taken = np.zeros(len(cost), dtype=bool)
    left = left.copy()
    rows = np.arange(len(cost))
    while rows.size:
        count = _prefix(cost[rows], left)
        taken[rows[:count]] = True
        left = np.maximum(left - cost[rows[:count]].sum(axis=0), 0.0)
        rows = rows[count:]
        rows = rows[_still_possible(cost[rows], owner[rows], left)]
    return taken


def _prefix(cost: FloatArray, left: FloatArray) -> int:
    """Return the number of first rows that fit together."""
    count = len(cost)
    for column in range(cost.shape[1]):
        count = min(count, int(np.searchsorted(np.cumsum(cost[:count, column]), left[column], side="right")))
    return count


def _still_possible(cost: FloatArray, owner: IntArray, left: FloatArray) -> BoolArray:
    """(M,) mask of the steps that fit by themselves, as do all earlier steps of their job."""
    misfit = row_any(cost > left)
    if misfit.all() or not misfit.any():
        return ~misfit
    ends = np.full(int(owner.max()) + 1, len(cost))
    backwards = np.flatnonzero(misfit)[::-1]
    ends[owner[backwards]] = backwards  # the first misfit of each owner: the last assignment to a repeated index stands
    return np.asarray(np.arange(len(cost)) < ends[owner])
