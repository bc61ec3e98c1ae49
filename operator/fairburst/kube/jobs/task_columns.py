"""The columns of the table of tasks: arrays to which rows are added and from which they are dropped in constant time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fairburst.policy.arrays import FloatArray, IntArray


class TaskColumns:
    """The task table's columns, grown by doubling. The last row replaces a dropped one."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self.job: IntArray = np.zeros(256, dtype=np.int64)
        self.request: FloatArray = np.zeros((256, width))
        self.started: FloatArray = np.zeros(256)
        self.ended: FloatArray = np.zeros(256)

    def _grow(self) -> None:
        self.job = np.concatenate((self.job, np.zeros_like(self.job)))
        self.request = np.concatenate((self.request, np.zeros_like(self.request)))
        self.started = np.concatenate((self.started, np.zeros_like(self.started)))
        self.ended = np.concatenate((self.ended, np.zeros_like(self.ended)))

    def append(self, job: int, request: Sequence[int], started: float) -> int:
        """Add a running task, and return its row."""
        row = self.count
        if row == len(self.job):
            self._grow()
        self.job[row], self.started[row], self.ended[row] = job, started, math.nan
        self.request[row] = request
        self.count = row + 1
        return row

    def drop(self, row: int) -> int:
        """Drop a row. Return the former number of the row that moved into its place (the dropped row's own if it was the last)."""
        last = self.count - 1
        if row != last:
            for column in (self.job, self.request, self.started, self.ended):
                column[row] = column[last]
        self.count = last
        return last
