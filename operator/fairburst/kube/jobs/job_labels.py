"""The category and the family of each job, in arrays by the job's number: O(1) a change, whatever the number of jobs."""

from __future__ import annotations

from collections import Counter

import numpy as np

from fairburst.policy.arrays import BoolArray, IntArray

_FIRST = 64


class JobLabels:
    """By job number: whether the job is small (`small`), and the name of its family, if it has one."""

    def __init__(self) -> None:
        self.small: BoolArray = np.zeros(_FIRST, dtype=np.bool_)
        self._place: IntArray = np.full(_FIRST, -1, dtype=np.int64)  # of its family in `_names`
        self._names: list[str] = []
        self._free: list[int] = []
        self._places: dict[str, int] = {}
        self._jobs = Counter[str]()
        self._sorted: tuple[tuple[str, ...], IntArray] | None = None

    def set(self, number: int, *, small: bool, family: str) -> None:
        """Set the labels of a job; those of one that is gone are no category and no family."""
        if number >= len(self.small):
            self.small = np.concatenate([self.small, np.zeros(number + 1, dtype=np.bool_)])
            self._place = np.concatenate([self._place, np.full(number + 1, -1, dtype=np.int64)])
        self.small[number] = small
        before = int(self._place[number])
        former = self._names[before] if before >= 0 else ""
        if former != family:
            self._place[number] = self._taken(family) if family else -1
            if former:
                self._leave(former)

    def families(self) -> tuple[tuple[str, ...], IntArray]:
        """Return the names of the jobs' families in order, and by job number the index of its family, -1 for none."""
        if self._sorted is None:
            names = tuple(sorted(self._places))
            order = np.full(len(self._names) + 1, -1, dtype=np.int64)
            order[[self._places[name] for name in names]] = np.arange(len(names))
            self._sorted = names, order
        names, order = self._sorted
        return names, order[self._place]

    def _taken(self, family: str) -> int:
        """Count one more job of the family; return its place."""
        self._jobs[family] += 1
        if family not in self._places:
            place = self._free.pop() if self._free else len(self._names)
            self._names[place : place + 1] = [family]
            self._places[family], self._sorted = place, None
        return self._places[family]

    def _leave(self, family: str) -> None:
        """Count one job less of the family."""
        self._jobs[family] -= 1
        if not self._jobs[family]:
            del self._jobs[family]
            self._free.append(self._places.pop(family))
            self._sorted = None
