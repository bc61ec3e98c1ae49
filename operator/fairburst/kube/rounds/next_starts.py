"""Input of the core: the needs of the next starts of queues whose work starts whole, updated by namespace. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fairburst.kube.enforce.gate import UngatePlanner
from fairburst.kube.enforce.next_start import next_start, whole_work
from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.kube.rounds.view import ClusterView
from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.policy.arrays import FloatArray
from fairburst.policy.tolerance import TOLERANCE


class NextStarts:
    """`need` and `begun` by row, as `next_start` and `starting` of ClusterSnapshot.

    Remembers by space the level at which work was permitted to start. Up to that use, the pods that started Jobs lack belong to starts that
    have begun; when a user raises a Job's parallelism further, the additional pods are another start.
    """

    def __init__(self, gates: UngatePlanner, largest_turn: float) -> None:
        self._gates = gates
        self._largest_turn = largest_turn  # part of the pool
        self.need: dict[int, FloatArray] = {}
        self.begun: frozenset[int] = frozenset()
        self._granted: dict[str, FloatArray] = {}  # (K,) of `_resources`
        self._resources: tuple[str, ...] = ()

    def begin(self, *, rows_moved: bool) -> None:
        """Prepare for the changes of a round, because snapshots of earlier rounds may still be read."""
        self.need = {} if rows_moved else dict(self.need)
        self.begun = frozenset() if rows_moved else self.begun

    def read(
        self, view: ClusterView, entry: QueueEntry, row: int, demand: NamespaceDemand, wanted: FloatArray, usage: FloatArray,
        capacity: FloatArray, limits: Mapping[str, float],
    ) -> None:  # fmt: skip
        """Read the next start of one queue again. `wanted`, `usage`, `capacity` (of the pool): (K,) resource units."""
        self.need.pop(row, None)
        self.begun -= {row}
        pods, space = view.pods, entry.space
        work = whole_work(entry.mode.holds, space, demand, self._gates, pods)
        if work is None:
            return
        if pods.resources != self._resources:
            self._realign(pods.resources)
        need, begun = next_start(work, wanted, usage, self._granted.get(space), self._largest_turn * capacity, limits, pods.resources)
        if need is not None:
            self.need[row] = need
            self.begun |= {row} if begun else set()

    def _realign(self, resources: tuple[str, ...]) -> None:
        """Count the starts that have begun in other resources. One that was not counted bounds none of them."""
        known = {space: dict(zip(self._resources, granted.tolist(), strict=True)) for space, granted in self._granted.items()}
        self._granted = {space: np.array([amounts.get(name, np.inf) for name in resources]) for space, amounts in known.items()}
        self._resources = resources

    def note_granted(self, governing: Sequence[QueueEntry], usage: FloatArray, level: FloatArray) -> None:
        """Remember which starts may begin now, and those that have begun. `usage`, `level`: (N, K) of this round."""
        kept = dict[str, FloatArray]()
        for row in self.begun:
            if (granted := self._granted.get(space := governing[row].space)) is not None:
                kept[space] = np.maximum(granted, level[row])
        rows = np.array(sorted(self.need.keys() - self.begun), dtype=np.int64)
        if rows.size:
            target = usage[rows] + np.array([self.need[row] for row in rows.tolist()])
            may_begin = np.flatnonzero((level[rows] >= target * (1.0 - TOLERANCE)).all(axis=1)).tolist()
            kept |= {governing[rows[position]].space: np.maximum(target[position], level[rows[position]]) for position in may_begin}
        self._granted = kept
