"""Condition (3) from pairs of queues alone, by the windows that ever overlap. For sets whose exact profile is too long.

The order in which queues are tried does not matter: setting one aside only leaves the others more room, so the queues that may be set aside
are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.hard_queue import HardQueue
from fairburst.policy.phases import Windows, any_overlap, periodic_meet, windows_meet
from fairburst.policy.tolerance import TOLERANCE


class Pairs:
    """N hard queues, and which of them can be on together. The matrix of all pairs, O(N^2 K), is built when it is first needed."""

    def __init__(
        self, members: Sequence[HardQueue], capacity: FloatArray, peak: Callable[[Sequence[HardQueue]], FloatArray | None]
    ) -> None:
        """`peak` returns (K,) the most that members take at any time, by their exact profile, or None if that is too long."""
        self.members, self.names = members, [member.name for member in members]
        self._row_of = {name: row for row, name in enumerate(self.names)}
        self._limit, self._peak = capacity + TOLERANCE * capacity, peak
        self._rate = np.array([member.rate for member in members]).reshape(-1, len(capacity))
        self._periodic = np.array([row for row, member in enumerate(members) if member.periodic], dtype=np.int64)
        phases = np.array([members[row].phase for row in self._periodic], dtype=np.int64).reshape(-1, 3)
        self._start, self._period, self._length = phases.T
        self._schedules = {row: member.schedule for row, member in enumerate(members) if member.scheduled}
        self._meets: BoolArray | None = None

    def meets(self, one: HardQueue) -> BoolArray:
        """(N,) whether some window of `one` can overlap some window of each member; windows that may be anywhere always can."""
        met = np.ones(len(self.members), dtype=bool)
        if one.periodic:
            start, period, length = one.phase
            met[self._periodic] = periodic_meet(start, period, length, self._start, self._period, self._length)
            for row, windows in self._schedules.items():
                met[row] = windows_meet(windows, start, period, length)
        elif one.scheduled:
            own = one.schedule
            met[self._periodic] = self._meet_schedule(own)
            for row, windows in self._schedules.items():
                met[row] = any_overlap(own, windows)
        return met

    def _meet_schedule(self, own: Windows) -> BoolArray:
        phases = zip(self._start.tolist(), self._period.tolist(), self._length.tolist(), strict=True)
        return np.array([windows_meet(own, *phase) for phase in phases], dtype=bool)

    def together(self, one: HardQueue, met: BoolArray) -> FloatArray:
        """(K,) sum of the rates of `one` and of all members that it meets; `one` counts once even if it is a member."""
        others = met.copy()
        if one.name in self._row_of:
            others[self._row_of[one.name]] = False
        total: FloatArray = self._rate[others].sum(axis=0) + one.rate
        return total

    def fit(self, about: HardQueue | None = None) -> tuple[bool, FloatArray]:
        """Return whether all members fit, and (K,) the most that they take while `about`, one of them, is on."""
        return self._set_aside(self._matrix(), self._rate, self.members, about)

    def fit_with(self, one: HardQueue, met: BoolArray) -> bool:
        """Return whether all members fit together with one more, which can meet those in `met`."""
        meets = np.block([[self._matrix(), met[:, None]], [met[None, :], np.ones((1, 1), dtype=bool)]])
        return self._set_aside(meets, np.vstack([self._rate, one.rate]), [*self.members, one], None)[0]

    def _matrix(self) -> BoolArray:
        if self._meets is None:
            count = len(self.members)
            self._meets = np.array([self.meets(member) for member in self.members], dtype=bool).reshape(count, count)
        return self._meets

    def _set_aside(
        self, meets: BoolArray, rate: FloatArray, members: Sequence[HardQueue], about: HardQueue | None
    ) -> tuple[bool, FloatArray]:
        """Set queues aside until the rest fits by its sum or its profile, or no other can be set aside."""
        position = -1 if about is None else next(row for row, member in enumerate(members) if member.name == about.name)
        most = np.zeros(rate.shape[1])
        left = np.ones(len(members), dtype=bool)
        total = np.einsum("ij,jk->ik", meets.astype(np.float64), rate)
        while left.any():
            everything = rate[left].sum(axis=0)
            if (everything <= self._limit).all():
                return True, np.maximum(most, everything) if position < 0 or left[position] else most
            aside = left & (total <= self._limit).all(axis=1)
            if not aside.any():
                peak = self._peak([member for member, one in zip(members, left.tolist(), strict=True) if one])
                return peak is not None and bool((peak <= self._limit).all()), most if peak is None else np.maximum(most, peak)
            if position >= 0 and left[position]:
                most = np.maximum(most, total[aside & meets[position]].max(axis=0, initial=0.0))
            left &= ~aside
            total -= np.einsum("ij,jk->ik", meets[:, aside].astype(np.float64), rate[aside])
        return True, most
