"""Gives capacity that no admitted queue can use to queues that are not admitted, in whole pods, lowest dominant share first.

Admission protects promises: a queue that would break one has no share of its own. Nodes need not stay idle for that reason. The allocation
here is spare, and ends as soon as an admitted queue demands the room.
"""

from __future__ import annotations

import heapq

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.drf import (
    by_resource,
    column_sum,
    dominant_share,
    fill,
    put_rows,
    row_any_above,
    row_any_short,
    take_rows,
    within_limit,
)
from fairburst.policy.model import ClusterSnapshot
from fairburst.policy.table import NOT_ADMITTED, Columns
from fairburst.policy.tolerance import SMALLEST, TOLERANCE, slack_of

# A queue takes one pod at a time, or of very many that it could take an eighth of its part among the queues, at least a 64th of all.
PARTS, AT_A_TIME = 8, 64


def give_leftover(columns: Columns, snapshot: ClusterSnapshot, allocation: FloatArray) -> FloatArray:
    """Return the (N, K) allocation with that of queues that are neither admitted nor suspended; `allocation` itself if they get nothing."""
    if columns.guarantee.all():
        return allocation
    waits: BoolArray = (columns.guarantee == NOT_ADMITTED) & ~columns.declared.suspended & row_any_above(snapshot.demand, 0.0)
    rows = np.flatnonzero(waits)
    capacity = snapshot.live_capacity
    idle = capacity - column_sum(np.maximum(allocation, snapshot.usage)[~waits])
    if rows.size == 0 or (idle <= slack_of(capacity)).all():
        return allocation
    idle, weight = np.maximum(idle, 0.0), columns.declared.weight[rows]
    wanted, unit = take_rows(snapshot.demand, rows), take_rows(snapshot.unit, rows)
    if columns.declared.limit is not None:
        wanted = by_resource(within_limit(wanted, columns.declared.limit[rows]))
    given = wanted * fill(wanted, np.full(rows.size, np.inf), weight, capacity, idle)[:, None]
    given = _whole_pods(given, wanted, unit)
    _add_pods(given, wanted, unit, weight, capacity, idle - column_sum(given))
    result = allocation.copy(order="K")
    put_rows(result, rows, given)
    return result


def _whole_pods(amount: FloatArray, wanted: FloatArray, unit: FloatArray) -> FloatArray:
    """(M, K) whole pods inside `amount` if their size is known; `amount` itself if it is the whole demand."""
    known = (unit > SMALLEST) & row_any_short(amount, wanted)[:, None]
    number = np.divide(amount, unit, out=np.full_like(amount, np.inf), where=known).min(axis=1)
    some = np.flatnonzero(np.isfinite(number))
    result = amount.copy(order="K")
    result[some] = np.minimum(np.floor(number[some] + TOLERANCE)[:, None] * unit[some], wanted[some])
    return result


def _add_pods(given: FloatArray, wanted: FloatArray, unit: FloatArray, weight: FloatArray, capacity: FloatArray, left: FloatArray) -> None:
    """Add whole pods to `given`, of the queue with the lowest dominant share per weight first. Skip a queue whose pod does not fit.

    A queue that could take very many pods takes a small part of them at a time, so that the cost does not grow with their number. How many
    it could take depends only on resources that get scarcer by it: one whose whole demand fits is no bound.
    """
    share = dominant_share(given, capacity) / weight
    step = dominant_share(unit, capacity) / weight
    line = [(float(share[row]), row) for row in np.flatnonzero(row_any_above(unit, SMALLEST)).tolist()]
    heapq.heapify(line)
    left = left + slack_of(capacity)
    while line:
        reached, row = heapq.heappop(line)
        missing = wanted[row] - given[row]
        if (unit[row] > left).any() or not (np.minimum(unit[row], missing) > SMALLEST).any():
            continue
        counted = unit[row] > SMALLEST
        scarce = counted & (missing > left)
        could = float(np.min(np.where(scarce, left, np.inf)[counted] / unit[row, counted]))
        could = min(could, float(np.max(missing[counted] / unit[row, counted])))
        pods = max(1.0, could // min(AT_A_TIME, PARTS * (1 + len(line))))
        more = np.minimum(pods * unit[row], missing)
        if (given[row] + more == given[row]).all():
            continue  # the rest of its demand is below the resolution of such amounts
        given[row] += more
        left = left - more
        heapq.heappush(line, (reached + pods * float(step[row]), row))
