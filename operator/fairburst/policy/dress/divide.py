"""Division of each elastic queue's level between its small and its large jobs (design: "DRESS inside E").

Fair sharing has fixed the queues' totals before. This module moves no capacity between queues.
"""

from __future__ import annotations

import numpy as np

from fairburst.policy.arrays import FloatArray


def divide_by_category(
    totals: FloatArray,
    small_demand: FloatArray,
    large_demand: FloatArray,
    pool: FloatArray,
    reserve_ratio: float,
    *,
    lend_to_small: bool = True,
    lend_to_large: bool = True,
) -> tuple[FloatArray, FloatArray]:
    """Divide each queue's total between small and large jobs.

    Parameters
    ----------
    totals : (N, K) resource units, the queues' levels
    small_demand, large_demand : (N, K) resource units, total demand of small and large jobs, running ones included
    pool : (K,) resource units, Tot_R
    reserve_ratio : δ
    lend_to_small : small jobs may use what large ones leave; False while the oldest large job has waited too long, or for whole jobs
    lend_to_large : large jobs may use what small ones leave; False for whole jobs

    Returns
    -------
    (small, large), (N, K) resource units each, small + large <= totals. Over all queues, small jobs get at least min(δ x pool, what totals
    and small demand allow) of each resource. Queues receive it in proportion to their totals, up to their demand. If both categories lend,
    a total has nothing left while either category of its queue demands more.

    Notes
    -----
    DRESS §IV-C has one queue: δ x Tot_R for small jobs, (1 - δ) x Tot_R for large ones. Each resource is divided independently, as are the
    quotas that enforce the division. O(N log N) a resource. Checked in tests/properties/test_divide_by_category.py.
    """
    most_small = np.minimum(totals, small_demand)
    small = np.empty_like(totals)
    for column in range(totals.shape[1]):
        small[:, column] = _in_proportion(totals[:, column], most_small[:, column], reserve_ratio * pool[column])
    rest = totals - small
    large = np.minimum(rest, large_demand)
    if not lend_to_large:
        # The part of the reserve that small jobs do not demand stays reserved.
        kept = np.maximum(reserve_ratio * pool - small.sum(axis=0), 0.0)
        for column in range(totals.shape[1]):
            room = max(float(totals[:, column].sum() - small[:, column].sum() - kept[column]), 0.0)
            large[:, column] = _in_proportion(totals[:, column], large[:, column], room)
    if lend_to_small:
        small = small + np.minimum(rest - large, most_small - small)
    return small, large


def _in_proportion(weight: FloatArray, most: FloatArray, amount: float) -> FloatArray:
    """Return (N,) min(level x weight, most). The level makes the sum `amount`; if `most` sums to less, the result is `most`."""
    if amount <= 0:
        return np.zeros_like(most)
    if float(most.sum()) <= amount:
        return most.copy()
    rows = np.flatnonzero(most > 0)
    at = most[rows] / weight[rows]  # the level at which a row reaches its maximum; weight >= most > 0
    order = np.argsort(at, kind="stable")
    rows, at = rows[order], at[order]
    filled = np.concatenate(([0.0], np.cumsum(most[rows])[:-1]))
    heavy = weight[rows][::-1].cumsum()[::-1]
    level = (amount - filled) / heavy
    # The result is the first level at which no further row would be full. Up to rounding, the last level always qualifies.
    enough = np.flatnonzero(level <= at)
    first = int(enough[0]) if enough.size else -1
    result: FloatArray = np.minimum(level[first] * weight, most)
    return result
