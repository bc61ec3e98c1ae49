"""A step function of time: the amount of each resource that hard queues may hold at each moment.

Decides nothing. A value: adding windows makes a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray, IntArray
from fairburst.policy.phases import Windows

_BEFORE_ALL = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Steps:
    """`level[i]` (K,) holds from `time[i]` to `time[i + 1]`; the first time is before all others. True from `origin` to `finish`."""

    origin: int
    finish: int
    time: IntArray
    level: FloatArray

    @classmethod
    def of(cls, windows: Sequence[Windows], base: FloatArray, origin: int, finish: int) -> Steps:
        """Return `base` plus the sum of `windows`. O(E log E + E K) for E window edges."""
        begin = np.concatenate([np.zeros(0, dtype=np.int64), *[one.begin for one in windows]])
        end = np.concatenate([np.zeros(0, dtype=np.int64), *[one.end for one in windows]])
        rate = np.concatenate([np.zeros((0, len(base))), *[one.rate for one in windows]])
        time, where = np.unique(np.concatenate([begin, end]), return_inverse=True)
        change = np.zeros((len(time) + 1, len(base)))
        change[0] = base
        signed = np.concatenate([rate, -rate])
        where = where.reshape(-1) + 1
        for column in range(len(base)):
            change[:, column] += np.bincount(where, weights=signed[:, column], minlength=len(time) + 1)
        return cls(origin, finish, np.concatenate([[_BEFORE_ALL], time]), np.cumsum(change, axis=0))

    def covers(self, origin: int, finish: int) -> bool:
        """Return whether the function holds throughout [origin, finish]."""
        return self.origin <= origin and finish <= self.finish

    def plus(self, windows: Windows, sign: float = 1.0) -> Steps:
        """Return the function with one more queue's windows, or with `sign` -1 without them."""
        time = np.union1d(self.time, np.concatenate([windows.begin, windows.end]))
        level = self.level[np.searchsorted(self.time, time, side="right") - 1]
        change = np.zeros_like(level)
        np.add.at(change, np.searchsorted(time, windows.begin), sign * windows.rate)
        np.subtract.at(change, np.searchsorted(time, windows.end), sign * windows.rate)
        return Steps(self.origin, self.finish, time, level + np.cumsum(change, axis=0))

    def raised(self, base: FloatArray) -> Steps:
        """Return the function raised by `base` at all times."""
        return Steps(self.origin, self.finish, self.time, self.level + base)

    def within(self, windows: Windows) -> tuple[IntArray, IntArray]:
        """(W,) first and one after the last step that each window touches."""
        first = np.searchsorted(self.time, windows.begin, side="right") - 1
        return first, np.searchsorted(self.time, windows.end, side="left")

    def highest(self, windows: Windows) -> FloatArray:
        """(W, K) the highest level of each resource while each window is on."""
        first, after = self.within(windows)
        padded = np.concatenate([self.level, self.level[-1:]])
        bounds = np.stack([first, after], axis=1).reshape(-1)
        highest: FloatArray = np.maximum.reduceat(padded, bounds, axis=0)[::2]
        return highest
