"""Jobs that start whole: the allocation that a queue needs for the next one if its share is smaller. Decides nothing.

Such a queue can't use a share that is smaller than its next job. So rounding offers it the rest of that job as one unit, and it takes turns
like a queue of large pods (docs/decisions/0256).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.drf import put_rows, row_any_above, row_any_short, take_rows
from fairburst.policy.model import ClusterSnapshot
from fairburst.policy.tolerance import slack_of


@dataclass(frozen=True, slots=True)
class Starts:
    """The next starts of queues. rows: (M,) ascending. target: (M, K) the allocation that each needs. unit: (N, K) units of the round; in
    these rows the need of the start beyond usage. begun: (M,) whether the start has begun and lacks pods."""

    rows: IntArray
    target: FloatArray
    unit: FloatArray
    begun: BoolArray

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, wanted: FloatArray, elastic: BoolArray, largest: float) -> Starts | None:
        """Return the starts of `elastic` (N,) queues that fit the demand `wanted` (N, K) and the part `largest` of the pool; None if there
        are none."""
        rows = np.array(sorted(row for row in snapshot.next_start if elastic[row]), dtype=np.int64)
        if rows.size == 0:
            return None
        need = np.stack([snapshot.next_start[row] for row in rows.tolist()])
        target = take_rows(snapshot.usage, rows) + need
        possible = need.any(axis=1)
        for most in (take_rows(wanted, rows), np.broadcast_to(largest * snapshot.live_capacity, target.shape)):
            possible &= (target <= most + slack_of(most)).all(axis=1)
        if not possible.any():
            return None
        unit = snapshot.unit.copy(order="K")
        put_rows(unit, rows[possible], need[possible])
        begun = np.array([row in snapshot.starting for row in rows.tolist()], dtype=bool)
        return cls(rows[possible], target[possible], unit, begun[possible])

    def making_room(self, allocation: FloatArray, shares: FloatArray, usage: FloatArray, yields: BoolArray) -> BoolArray | None:
        """Return the mask (N,) of yielding queues that have nothing of their `shares` (N, K), or use more than their allocation, while a
        start has more than its queue's share; None if no start has."""
        given, least = take_rows(allocation, self.rows), self.target - slack_of(self.target)
        has_turn = (given >= least).all(axis=1) & (take_rows(shares, self.rows) < least).any(axis=1)
        if not has_turn.any():
            return None
        too_much = row_any_short(allocation, usage) | (~row_any_above(allocation, 0.0) & row_any_above(shares, 0.0))
        result: BoolArray = yields & too_much
        return result
