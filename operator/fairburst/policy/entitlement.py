"""The standing entitlement: the allocation that an idle or under-using queue would get if it became backlogged now.

A ResourceQuota refuses pods and does not queue them. So the quota of a queue with little demand admits what its next Job will get anyway,
and that Job waits for no write of ours. Decides no allocation: levels and ledgers follow use, and a backlogged queue is held to its level.
"""

from __future__ import annotations

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.declared import Declared
from fairburst.policy.drf import by_resource, column_sum, inverse_capacity, put_rows, row_any, row_any_short, row_maximum, take_rows
from fairburst.policy.model import ClusterSnapshot, Memory, RoundResult
from fairburst.policy.table import ELASTIC, NOT_ADMITTED
from fairburst.policy.tolerance import SMALLEST, TOLERANCE

OVERSUBSCRIBED = 1.0  # work beyond the free room that may wait in the scheduler's queue, in capacities
_STEPS = 100


def entitlements(result: RoundResult, snapshot: ClusterSnapshot, memory: Memory) -> tuple[FloatArray, bool]:
    """Return the amounts that each queue's quota may admit, its level included. `memory`: the one that the round returned.

    Returns
    -------
    (N, K) float array, resource units, at least `result.level`, more only in rows of throughput queues whose demand is met and that are not
    held back; and whether the sum is bound by room that an armed burst relies on (a quota above it must then be lowered at once).

    Notes
    -----
    Beyond their allocations, queues may together start at most `free - kept` at one moment: `free` is the capacity that neither allocation
    nor use takes, `kept` the excess of hard queues' levels over their allocations (armed bursts, whole units). Nothing is kept while no pod
    of such a burst fits into the free room: it can lose nothing then, and its pods outrank all others'. Entitlements then exceed
    allocations by at most the free room and `OVERSUBSCRIBED` capacities together: the excess over the room waits in the scheduler's queue,
    about as long as a task takes. Beyond the bound all are scaled down equally.
    O(M log M + M K) for M queues with a demand; idle queues of one weight share one solution.
    Checked in tests/properties/test_entitlement.py.
    """
    capacity, columns = snapshot.live_capacity, memory.columns
    if columns is None:
        return result.level, False
    declared = columns.declared
    level, allocation, demand = by_resource(result.level), by_resource(result.allocation), by_resource(snapshot.demand)
    elastic = (columns.guarantee == ELASTIC) & ~declared.latency & ~declared.suspended
    met = elastic & ~row_any_short(allocation, _limited(demand, declared))
    if result.held_back is not None:
        met &= ~result.held_back
    if not met.any():
        return level, False
    others = np.flatnonzero(~elastic)
    first_served = np.flatnonzero(~elastic & (columns.guarantee != NOT_ADMITTED))
    left = np.maximum(capacity - column_sum(take_rows(allocation, first_served)), 0.0)
    sharing, rows = np.flatnonzero(elastic), np.flatnonzero(met)
    wanted = take_rows(np.maximum(demand, allocation), sharing)
    share = _share_if_backlogged(wanted, declared.weight[sharing], left, capacity, met[sharing])
    entitled = level.copy(order="K")
    put_rows(entitled, rows, share[:, None] * capacity)
    entitled = np.maximum(_limited(entitled, declared), level)
    excess = entitled - level
    free = np.maximum(capacity - column_sum(np.maximum(allocation, by_resource(snapshot.usage))), 0.0)
    kept = column_sum(np.maximum(take_rows(level, others) - take_rows(allocation, others), 0.0))
    keeps = _some_pod_fits(level, allocation, elastic, snapshot.unit, free)
    budget = np.maximum(free - kept, 0.0) if keeps else free + OVERSUBSCRIBED * capacity
    total = column_sum(excess)
    scale = float(np.min(np.divide(budget, total, out=np.ones_like(total), where=total > budget), initial=1.0))
    return level + scale * excess, keeps


def _share_if_backlogged(demand: FloatArray, weight: FloatArray, left: FloatArray, capacity: FloatArray, asked: BoolArray) -> FloatArray:
    """Return the dominant share that each row of `asked` would reach by weighted DRF if it alone demanded all of every resource.

    With common level x the others use F_k(x) = sum_j min(d_j, w_j x) v_jk of resource k (d: dominant share wanted; v: a row's use of k for
    each unit of dominant share), the row itself w_i x instead of its term. Its level is where the first resource is exhausted: each side is
    concave, increasing and piecewise linear, so Newton's method from below ends in a few steps, for all rows at once. The result is a lower
    bound, because queues that are stopped by a resource that the row does not need would leave it more.
    """
    part = demand * inverse_capacity(capacity)
    wanted = row_maximum(part)
    mix = np.divide(part, wanted[:, None], out=np.zeros_like(part), where=wanted[:, None] > SMALLEST)
    full_at = wanted / weight
    order = np.argsort(full_at, kind="stable")
    steps = full_at[order]
    zero = np.zeros((1, part.shape[1]))
    satisfied = np.concatenate([zero, np.cumsum(take_rows(part, order), axis=0)])
    speed = np.concatenate([np.cumsum(take_rows(weight[:, None] * mix, order)[::-1], axis=0)[::-1], zero])
    limit = left * inverse_capacity(capacity)
    asked_rows = np.ascontiguousarray(np.column_stack([part[asked], weight[asked]]))
    # equal rows are equal bytes, which compare several times faster than number by number
    _, first, back = np.unique(asked_rows.view(f"V{asked_rows.shape[1] * 8}").ravel(), return_index=True, return_inverse=True)
    kinds = asked_rows[first]
    own, own_weight = kinds[:, :-1], kinds[:, -1]
    own_wanted = row_maximum(own)
    own_full = own_wanted / own_weight
    own_speed = np.divide(own, own_full[:, None], out=np.zeros_like(own), where=own_full[:, None] > SMALLEST)
    counted = capacity > SMALLEST
    if not counted.any():
        return np.zeros(int(asked.sum()))
    level = np.zeros(len(kinds))
    for _ in range(_STEPS):
        at = np.searchsorted(steps, level, side="right")
        below = (level < own_full)[:, None]
        used = satisfied[at] + level[:, None] * speed[at] - np.where(below, level[:, None] * own_speed, own) + (own_weight * level)[:, None]
        slope = speed[at] - np.where(below, own_speed, 0.0) + own_weight[:, None]
        step = np.min(((limit - used) / np.maximum(slope, SMALLEST))[:, counted], axis=1, initial=np.inf)
        if not (step > TOLERANCE * np.maximum(level, SMALLEST)).any():
            break
        level = level + np.maximum(step, 0.0)
    found: FloatArray = np.minimum(own_weight * level, 1.0)[back.reshape(-1)]
    return found


def _some_pod_fits(level: FloatArray, allocation: FloatArray, elastic: BoolArray, unit: FloatArray, free: FloatArray) -> bool:
    """Return whether the free room holds one more pod of a burst that is not allocated yet; any part of it if its size is unknown."""
    armed = ~elastic & row_any(level > allocation * (1 + TOLERANCE) + SMALLEST)
    if not armed.any():
        return False
    needed = np.where(unit[armed].any(axis=1, keepdims=True), unit[armed], TOLERANCE * (level - allocation)[armed])
    return bool(((needed <= free) | (needed <= 0)).all(axis=1).any())


def _limited(amount: FloatArray, declared: Declared) -> FloatArray:
    """Return `amount` (N, K), at most the queues' limits."""
    return amount if declared.limit is None else np.minimum(amount, declared.limit)
