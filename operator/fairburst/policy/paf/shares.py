"""Fair slots of the jobs of one queue (PAF Algorithm 1, line 2): weighted dominant-resource fairness in whole slots."""

from __future__ import annotations

import numpy as np

from fairburst.policy.arrays import FloatArray, IntArray
from fairburst.policy.drf import fill
from fairburst.policy.paf.fitting import take_that_fit
from fairburst.policy.tolerance import TOLERANCE, slack_of


def fair_slots(weight: FloatArray, minimum: IntArray, maximum: IntArray, request: FloatArray, available: FloatArray) -> IntArray:
    """Divide slots by weighted max-min fairness of dominant shares, within the jobs' bounds.

    Parameters
    ----------
    weight : (N,) > 0
    minimum, maximum : (N,) slots, 0 <= minimum <= maximum
    request : (N, K) resource units of one slot of each job
    available : (K,) resource units that the jobs share

    Returns
    -------
    (N,) int array, slots; their resources stay within `available`.

    Notes
    -----
    A job whose share is below its minimum is held at the minimum, and the rest is divided again. If the minima do not fit together, they
    are ignored: some jobs are then below their minimum. Fractions of slots are collected and given as whole slots, largest fractions
    first; ties go to the lower row.
    """
    minimal = (minimum[:, None] * request).sum(axis=0)
    held = np.zeros(len(weight), dtype=bool)
    hold = bool((minimal <= available + slack_of(available)).all())
    while True:
        rest = np.maximum(available - (minimum[held, None] * request[held]).sum(axis=0), 0.0)
        exact = np.where(held, minimum, 0.0)
        exact[~held] = maximum[~held] * fill(
            maximum[~held, None] * request[~held], np.full(int((~held).sum()), np.inf), weight[~held], available, rest
        )
        below = ~held & (exact < minimum - TOLERANCE * np.maximum(minimum, 1))
        if not hold or not below.any():
            return _whole(exact, maximum, request, available)
        held |= below


def _whole(exact: FloatArray, maximum: IntArray, request: FloatArray, available: FloatArray) -> IntArray:
    slots = np.floor(exact * (1 + TOLERANCE) + TOLERANCE).astype(np.int64)
    part = np.where(slots < maximum, exact - slots, 0.0)
    order = np.argsort(-np.round(part, 9), kind="stable")
    order = order[part[order] > TOLERANCE]
    left = available + slack_of(available) - (slots[:, None] * request).sum(axis=0)
    slots[order[take_that_fit(request[order], order, left)]] += 1
    return slots
