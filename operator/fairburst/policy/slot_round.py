"""PAF in a round: divides each queue's allocation, less the usage of its other pods, among its elastic jobs; adapts the levels.

It runs before DRESS divides the levels, so that the parts for small and large jobs add up to the adapted levels.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import ClusterSnapshot
from fairburst.policy.paf.divide import SlotRules, divide_slots
from fairburst.policy.paf.jobs import SlotDivision


def slot_round(
    snapshot: ClusterSnapshot, row_of: Mapping[str, int], allocation: FloatArray, level: FloatArray
) -> tuple[SlotDivision, FloatArray]:
    """Divide the slots of the snapshot's elastic jobs.

    Parameters
    ----------
    snapshot : a snapshot with elastic jobs
    row_of : row of each queue, by name
    allocation, level : (N, K) resource units, of this round

    Returns
    -------
    The division, and the (N, K) levels after the moves between queues. Without moves it is the same array. The sum does not change.

    Raises
    ------
    InvalidSnapshotError, InvalidConfigError : as `divide_slots`.
    """
    held: dict[str, FloatArray] = {}
    for job in snapshot.elastic_jobs:
        if job.queue in row_of:
            held[job.queue] = held.get(job.queue, 0.0) + job.slots * np.asarray(job.request, dtype=np.float64)
    available = {}
    for queue, amount in held.items():
        row = row_of[queue]
        others = np.maximum(snapshot.usage[row] - amount, 0.0)
        available[queue] = np.maximum(allocation[row] - others, 0.0)
    division = divide_slots(snapshot.elastic_jobs, available, snapshot.elastic_rules or SlotRules())
    if not division.moved:
        return division, level
    moved_level = level.copy(order="K")
    for queue, amount in division.moved.items():
        moved_level[row_of[queue]] = np.maximum(moved_level[row_of[queue]] + amount, 0.0)
    return division, moved_level
