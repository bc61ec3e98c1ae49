"""Find queues whose decision has changed enough to look at their namespaces. Pure, apart from the last decision looked at."""

from __future__ import annotations

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.drf import row_any
from fairburst.policy.model import ClusterSnapshot, Memory, RoundResult

ENTITLED_STEP = 1.25  # an entitlement moves with the demand of all other queues; quota_plan.py writes only large differences
WORTH_A_POD = 0.9  # of a queue's largest pod: a quota whose room an armed burst needs is lowered at once by this much


class DecisionChanges:
    """Compares a round's decision, row by row, with that of the last look at each namespace. O(N K) array operations."""

    def __init__(self) -> None:
        self._level: FloatArray | None = None
        self._entitled = np.zeros((0, 0))
        self._more = np.zeros(0, dtype=np.bool_)
        self._held_back = np.zeros(0, dtype=np.bool_)
        self._promised = np.zeros((0, 2))

    def rows(
        self, result: RoundResult, snapshot: ClusterSnapshot, memory: Memory, entitled: FloatArray, more: BoolArray, *, bound_by_burst: bool
    ) -> BoolArray:
        """Return (N,) whether a row differs. `entitled`: (N, K) amounts that quotas may admit, above the level where `more` (N,)."""
        level = result.level
        held_back = np.zeros(len(level), dtype=np.bool_) if result.held_back is None else result.held_back
        columns = memory.columns
        promised = np.zeros((len(level), 2)) if columns is None else np.column_stack([columns.guarantee, columns.index])
        if self._level is None or self._level.shape != level.shape:
            changed: BoolArray = np.ones(len(level), dtype=np.bool_)
            self._entitled = entitled
        else:
            changed = row_any(level != self._level) | (held_back != self._held_back) | (more != self._more)
            changed |= row_any(promised != self._promised)
            before = self._entitled
            differs = (entitled > ENTITLED_STEP * before) | (entitled * ENTITLED_STEP < before)
            if bound_by_burst:
                differs |= before - entitled > WORTH_A_POD * snapshot.unit
            changed |= row_any(differs)
            self._entitled = np.where(changed[:, None], entitled, before)
        self._level, self._held_back, self._more, self._promised = level, held_back, more, promised
        return changed
