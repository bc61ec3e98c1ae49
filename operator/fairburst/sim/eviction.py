"""The choice of running tasks to evict for queues with a guarantee, in preemptive scenarios. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from fairburst.policy.arrays import IntArray
from fairburst.sim.backlog import Batch


def short_of(owed_rows: IntArray, allocation: IntArray, demand: IntArray, usage: IntArray, free: IntArray) -> IntArray:
    """Return (K,) the amounts owed to the rows minus the free room; negative if the room suffices."""
    owed = np.clip(np.minimum(allocation[owed_rows], demand[owed_rows]) - usage[owed_rows], 0, None).sum(axis=0)
    short: IntArray = owed - free
    return short


def victims(
    short: IntArray, allocation: IntArray, usage: IntArray, total: IntArray, running: Mapping[int, list[Batch]]
) -> Iterator[tuple[Batch, int]]:
    """Yield tasks of queues above their allocation, youngest first, until nothing is short. `usage` is read again after each yield."""
    if not (short > 0).any():
        return
    for row in np.argsort(-((usage - allocation) / np.maximum(total, 1)).max(axis=1), kind="stable"):
        for batch in sorted(running.get(int(row), []), key=lambda one: -one.started):
            demand = batch.job.demand[batch.stage]
            over = int(np.min(((usage[row] - allocation[row])[demand > 0]) // demand[demand > 0])) if demand.any() else 0
            useful = (short > 0) & (demand > 0)
            if over <= 0 or not useful.any():
                continue
            count = min(batch.count, over, int(np.max(-(-short[useful] // demand[useful]))))
            yield batch, count
            short = short - demand * count
