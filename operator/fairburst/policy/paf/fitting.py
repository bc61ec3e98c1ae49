"""Taking whole steps in order while they fit: what does not fit is passed over, and with it all later steps of the same job."""

from __future__ import annotations

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.drf import row_any


def take_that_fit(cost: FloatArray, owner: IntArray, left: FloatArray) -> BoolArray:
    """Which steps are taken, strictly in row order.

    cost: (M, K) resource units of each step. owner: (M,) job of each step; a job's steps build on each other, so one that does not fit
    ends them. left: (K,) resource units. Returns (M,) mask; the cost of its rows stays within `left`.

    Each pass takes the longest prefix that fits and then drops all steps that can't fit any more; a job loses its steps once, so there
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
    """How many of the first rows fit together."""
    count = len(cost)
    for column in range(cost.shape[1]):
        count = min(count, int(np.searchsorted(np.cumsum(cost[:count, column]), left[column], side="right")))
    return count


def _still_possible(cost: FloatArray, owner: IntArray, left: FloatArray) -> BoolArray:
    """(M,) steps that fit by themselves, and so do all earlier ones of their job."""
    misfit = row_any(cost > left)
    if misfit.all() or not misfit.any():
        return ~misfit
    ends = np.full(int(owner.max()) + 1, len(cost))
    backwards = np.flatnonzero(misfit)[::-1]
    ends[owner[backwards]] = backwards  # the first one of each: where an index is repeated, the last assignment stands
    return np.asarray(np.arange(len(cost)) < ends[owner])
