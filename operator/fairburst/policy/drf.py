"""Dominant shares and weighted dominant-resource fairness (Ghodsi et al., NSDI 2011), divisible and task by task.

Divides an amount among queues of equal rank; bopf.py ranks them.

Arrays are (queues, resources) and lie in memory resource by resource (`by_resource`): with few resources and many queues every pass over
such an array is then a handful of long vector loops instead of one short loop for each queue. All functions give the same values for any
layout.
"""

from __future__ import annotations

import math

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.tolerance import SLOWEST, SMALLEST, TOLERANCE, slack_of


def inverse_capacity(capacity: FloatArray) -> FloatArray:
    """(K,) 1/C, zero where C is zero, so that a missing resource adds nothing to a dominant share."""
    return np.divide(1.0, capacity, out=np.zeros_like(capacity), where=capacity > SMALLEST)


def dominant_share(amount: FloatArray, capacity: FloatArray) -> FloatArray:
    """(N,) max_k amount_k / C_k of each row of `amount` (N, K); resources without capacity do not count."""
    return largest_share(amount, inverse_capacity(capacity))


def largest_share(amount: FloatArray, inverse: FloatArray) -> FloatArray:
    """(N,) max_k amount_k x inverse_k of each row of `amount` (N, K), without an intermediate matrix."""
    result: FloatArray = amount[:, 0] * inverse[0]
    share = np.empty_like(result)  # one buffer that stays in the processor's cache, instead of new memory for each column
    for column in range(1, amount.shape[1]):
        np.multiply(amount[:, column], inverse[column], out=share)
        np.maximum(result, share, out=result)
    return result


def row_any_short(given: FloatArray, wanted: FloatArray) -> BoolArray:
    """(N,) whether `given` is below `wanted` in any column, beyond the tolerance."""
    result = np.zeros(len(given), dtype=bool)
    nearly = np.empty(len(given))
    for column in range(given.shape[1]):
        np.multiply(wanted[:, column], 1.0 - TOLERANCE, out=nearly)
        result |= given[:, column] < nearly
    return result


def row_any_above(amount: FloatArray, least: float) -> BoolArray:
    """(N,) whether `amount` is above `least` in any column. Often the first column suffices for every row."""
    result: BoolArray = amount[:, 0] > least
    for column in range(1, amount.shape[1]):
        if result.all():
            break
        result |= amount[:, column] > least
    return result


def by_resource(matrix: FloatArray) -> FloatArray:
    """The same (N, K) values with each resource's column contiguous; `matrix` itself if they are."""
    return np.asfortranarray(matrix, dtype=np.float64)


def take_rows(matrix: FloatArray, rows: IntArray) -> FloatArray:
    """`matrix[rows]`, by resource again (indexing would turn the layout)."""
    taken: FloatArray = matrix.T.take(rows, axis=1).T
    return taken


def put_rows(matrix: FloatArray, rows: IntArray, values: FloatArray) -> None:
    """`matrix[rows] = values`, column by column."""
    for column in range(matrix.shape[1]):
        matrix[:, column][rows] = values[:, column]


def add_to_rows(matrix: FloatArray, rows: IntArray, values: FloatArray) -> None:
    """`matrix[rows] += values` for distinct rows, column by column."""
    for column in range(matrix.shape[1]):
        matrix[:, column][rows] += values[:, column]


def row_maximum(matrix: FloatArray) -> FloatArray:
    """(N,) maximum of each row."""
    result = matrix[:, 0].copy()
    for column in range(1, matrix.shape[1]):
        np.maximum(result, matrix[:, column], out=result)
    return result


def row_any(mask: BoolArray) -> BoolArray:
    """(N,) whether any column of the row is true."""
    result = np.zeros(len(mask), dtype=bool)
    for column in range(mask.shape[1]):
        result |= mask[:, column]
    return result


def row_minimum(matrix: FloatArray) -> FloatArray:
    """(N,) minimum of each row."""
    result = matrix[:, 0].copy()
    for column in range(1, matrix.shape[1]):
        np.minimum(result, matrix[:, column], out=result)
    return result


def within_limit(wanted: FloatArray, limit: FloatArray) -> FloatArray:
    """`wanted` (N, K) with each row scaled down as a whole to its `limit` (N, K)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        multiple = row_minimum(np.where(wanted > limit, limit / wanted, 1.0))
    return wanted * multiple[:, None]


def column_sum(matrix: FloatArray) -> FloatArray:
    """(K,) sum over the rows."""
    total: FloatArray = matrix.sum(axis=0)
    return total


def weighted_sum(weight: FloatArray, matrix: FloatArray) -> FloatArray:
    """(K,) sum of weight_i x row i. Not `@`: BLAS sums in an order that depends on its threads, and the same inputs give the same bytes."""
    total: FloatArray = np.einsum("i,ij->j", weight, matrix)
    return total


def fill(direction: FloatArray, level_cap: FloatArray, weight: FloatArray, capacity: FloatArray, left: FloatArray) -> FloatArray:
    """Weighted progressive filling: raise every queue's dominant share per weight together until something stops it.

    Parameters
    ----------
    direction : (N, K) float array, resource units
        Total demand of each queue; it receives a multiple in [0, 1] of this row (Leontief demand).
    level_cap : (N,) float array, dominant share
        Upper bound of each queue's dominant share; infinite if only its demand stops it.
    weight : (N,) float array, > 0
    capacity : (K,) float array, resource units
        The denominator of dominant shares.
    left : (K,) float array, resource units
        The amount to divide.

    Returns
    -------
    (N,) float array in [0, 1], the multiple of `direction` that each queue receives.

    Notes
    -----
    Ghodsi et al., NSDI 2011, section 4; weights and caps as in section 4.3. Use of a resource as a function of the common level is
    concave, increasing and piecewise linear, so Newton's method from below finds the level where the first resource is exhausted
    exactly, in a few matrix-vector products; queues using that resource stop, the others continue: at most K rounds.
    Checked in tests/policy/test_drf.py against linear programs and a plain loop.
    """
    share = dominant_share(direction, capacity)
    multiple = np.zeros(len(share))
    blocked = (left <= slack_of(capacity)) | (capacity <= SMALLEST)
    active = share > 0
    if blocked.any():
        active &= ~row_any(direction[:, blocked] > 0)
    negligible = active & (share <= TOLERANCE * SMALLEST)
    if negligible.any():
        multiple[negligible] = 1.0
        active &= ~negligible
    rows = np.flatnonzero(active)
    if rows.size == 0:
        return multiple
    everything = rows.size == len(share)
    share_of = share if everything else share[rows]
    wanted = direction if everything else take_rows(direction, rows)
    slope = (weight if everything else weight[rows]) / share_of
    cap = np.minimum(share_of, level_cap if everything else level_cap[rows]) / share_of / slope
    reached = _levels(wanted * slope[:, None], cap, left, capacity) * slope
    if everything:
        return np.minimum(reached, 1.0)
    multiple[rows] = reached
    return np.minimum(multiple, 1.0)


def _levels(velocity: FloatArray, cap: FloatArray, left: FloatArray, capacity: FloatArray) -> FloatArray:
    """(M,) level at which each row stops; use of resource k is sum_i level_i * velocity_ik, and stays within `left`."""
    level = cap.copy()
    if (weighted_sum(cap, velocity) <= left).all():
        return level
    active = np.ones(len(cap), dtype=bool)
    frozen_use = np.zeros_like(left)
    start = 0.0
    rows = np.arange(len(cap))
    for _ in range(len(left)):
        some_velocity, some_cap = (velocity, cap) if active.all() else (take_rows(velocity, rows), cap[rows])
        remaining = left - frozen_use
        start, exhausted = _common_level(some_velocity, some_cap, remaining, slack_of(capacity), start)
        if exhausted is None:
            break
        stops = active & row_any(velocity[:, exhausted] > 0)
        level = np.minimum(level, np.where(stops, start, math.inf))
        active &= ~stops
        rows = np.flatnonzero(active)
        if rows.size == 0:
            break
        stopped = np.flatnonzero(stops)
        frozen_use += weighted_sum(level[stopped], take_rows(velocity, stopped))
    return level


def _common_level(
    velocity: FloatArray, cap: FloatArray, remaining: FloatArray, slack: FloatArray, start: float
) -> tuple[float, BoolArray | None]:
    """Return the level at which the first resources are exhausted, and their mask; None if caps stop all queues before."""
    level = start
    total = weighted_sum(np.minimum(cap, level), velocity) if level > 0 else np.zeros_like(remaining)
    for _ in range(10_000):
        speed = weighted_sum((cap > level).astype(np.float64), velocity)
        can = speed > SLOWEST
        exhausted = can & (total >= remaining - slack)
        if exhausted.any():
            return level, exhausted
        if not can.any():
            return level, None
        step = float(np.min((remaining[can] - total[can]) / speed[can]))
        beyond = min(level + max(step, 0.0), float(cap.max()))
        if beyond <= level:
            tightest = can & ((remaining - total) <= np.min((remaining - total)[can]))
            return level, tightest
        level = beyond
        total = weighted_sum(np.minimum(cap, level), velocity)
    raise AssertionError("progressive filling did not settle; the level rises in every step, so this can't happen")


def take_in_order(claim: FloatArray, left: FloatArray, slack: FloatArray) -> FloatArray:
    """Serve claims one after the other, each as far as possible (the whole row scaled down), strictly in row order.

    claim: (M, K). left: (K,). slack: (K,) remainder that counts as exhausted. Returns (M,) multiples in [0, 1].
    Each pass serves a whole prefix and exhausts at least one resource, so there are at most K + 1 passes.
    """
    multiple = np.zeros(claim.shape[0])
    left = left.copy()
    rows: IntArray = np.flatnonzero(row_any(claim > 0))
    while rows.size:
        blocked = left <= slack
        if blocked.any():
            rows = rows[~row_any(claim[np.ix_(rows, blocked)] > 0)]
            if rows.size == 0:
                break
        running = np.cumsum(claim[rows], axis=0)
        misfit = row_any(running > left + slack)
        first = int(np.argmax(misfit)) if misfit.any() else rows.size
        multiple[rows[:first]] = 1.0
        if first:
            left = np.maximum(left - running[first - 1], 0.0)
        if first == rows.size:
            break
        row = claim[rows[first]]
        part = float(np.min(left[row > 0] / row[row > 0]))
        multiple[rows[first]] = min(part, 1.0)
        left = np.maximum(left - row * part, 0.0)
        left[(row > 0) & (left <= slack * 2)] = 0.0
        rows = rows[first + 1 :]
    return multiple
