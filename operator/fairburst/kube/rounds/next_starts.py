"""What the queues whose work starts whole need for their next start, as the core reads it, updated by namespace. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairburst.kube.enforce.next_start import next_start, whole_work
from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.kube.rounds.view import ClusterView
from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.kube.usage.gated_pods import GatedPods
from fairburst.policy.arrays import FloatArray


class NextStarts:
    """`need` and `begun` by row, as `next_start` and `starting` of ClusterSnapshot.

    Remembers by space the use up to which the core granted the next start: a start that has begun is that part of what its queue lacks, and
    what a started Job asks for later is another start.
    """

    def __init__(self, gated: GatedPods, largest_turn: float) -> None:
        self._gated = gated
        self._largest_turn = largest_turn  # part of the pool
        self.need: dict[int, FloatArray] = {}
        self.begun: frozenset[int] = frozenset()
        self._granted: dict[str, FloatArray] = {}

    def begin(self, *, rows_moved: bool) -> None:
        """Prepare for the changes of a round: snapshots of earlier rounds may still be read."""
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
        work = whole_work(entry.mode.holds, space, demand, self._gated, pods)
        if work is None:
            self._granted.pop(space, None)
            return
        granted = self._granted.get(space)
        need, begun = next_start(work, wanted, usage, granted, self._largest_turn * capacity, limits, pods.resources)
        if need is not None:
            self.need[row] = need
        if begun:
            self.begun |= {row}
        else:
            self._granted.pop(space, None)

    def retain(self, namespaces: frozenset[str]) -> None:
        """Forget every other namespace."""
        for namespace in self._granted.keys() - namespaces:
            del self._granted[namespace]

    def note_granted(self, governing: Sequence[QueueEntry], usage: FloatArray, level: FloatArray) -> None:
        """Remember which starts that have not begun may do so now. `usage`, `level`: (N, K) of this round."""
        for row in self.need.keys() - self.begun:
            target = usage[row] + self.need[row]
            if (level[row] >= target * (1.0 - 1e-6)).all():
                self._granted[governing[row].space] = target
            else:
                self._granted.pop(governing[row].space, None)
