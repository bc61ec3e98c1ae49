"""Use of each queue this week against its fair share: sums over time, which its status remembers (`views/week_view.py`).

A week begins on Monday at 00:00 UTC. Four dominant shares are summed: used; fair, the share by weight; wanted, at most the fair share; and
served, the used part of the wanted one. Rates are constant between two looks. A remembered sum grows at its mean rate, so that figures
that do not change need no write. The monotonic clock, which does not step, measures the time between two looks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairburst.kube.queues.accounts import WeekAccount
from fairburst.kube.queues.objects import InvalidQueueError, parse_status
from fairburst.kube.queues.statuses import WeekStatus
from fairburst.kube.times import to_epoch, to_text
from fairburst.policy.arrays import FloatArray
from fairburst.policy.drf import dominant_share
from fairburst.policy.model import ClusterSnapshot

WEEK_SECONDS = 7 * 86_400.0
_FIRST_MONDAY = 4 * 86_400.0  # the epoch is a Thursday
_NOTHING = 1e-6  # dominant-share-seconds below which a ratio says nothing
USED, FAIR, WANTED, SERVED = range(4)
_FIELDS = ("used", "fair", "wanted", "served")
_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Week:
    """The figures of one week, in percent. used: of the fair share. served: of what was wanted up to it; None if nothing was."""

    since: float
    used: float
    served: float | None


@dataclass(frozen=True, slots=True)
class WeekSums:
    """The sums of one queue from `since` to `as_of`, in dominant-share-seconds, in the order USED, FAIR, WANTED, SERVED. last: the week
    before, if it was counted.
    """

    since: float
    as_of: float
    values: tuple[float, ...]
    last: Week | None = None

    def at(self, time: float) -> WeekSums:
        """Return the sums at a later time: at their mean rates in the same week, and nothing yet in a later one."""
        if week_of(time) > week_of(self.as_of):
            return WeekSums(time, time, (0.0,) * len(self.values), self.week)
        elapsed = self.as_of - self.since
        growth = max(1.0, (time - self.since) / elapsed) if elapsed > 0 else 1.0
        return replace(self, as_of=max(time, self.as_of), values=tuple(value * growth for value in self.values))

    @property
    def week(self) -> Week | None:
        """The figures; None before there is a fair share to compare with."""
        used, fair, wanted, served = self.values
        if fair <= _NOTHING:
            return None
        return Week(self.since, 100 * used / fair, None if wanted <= _NOTHING else min(100.0, 100 * served / wanted))


def week_of(time: float) -> float:
    """Return when the week of a time began."""
    return _FIRST_MONDAY + math.floor((time - _FIRST_MONDAY) / WEEK_SECONDS) * WEEK_SECONDS


def sums_of(account: WeekAccount, last: WeekStatus | None = None) -> WeekSums:
    """Invert `sums_to_account`. last: status.lastWeek."""
    return WeekSums(
        to_epoch(account.since),
        to_epoch(account.as_of),
        tuple(getattr(account, f"{name}_milliseconds") / _MILLI for name in _FIELDS),
        None if last is None else Week(to_epoch(last.since), last.used_percent, last.served_percent),
    )


def sums_to_account(sums: WeekSums) -> dict[str, Any]:
    """Return the sums in the form of status.internal.week."""
    times = {"since": to_text(sums.since), "asOf": to_text(sums.as_of)}
    return times | {f"{name}Milliseconds": round(value * _MILLI) for name, value in zip(_FIELDS, sums.values, strict=True)}


def _nothing() -> FloatArray:
    return np.zeros((0, len(_FIELDS)))


@dataclass(slots=True)
class WeeklyUse:
    """The sums of all governing queues; rows as in the round. A new queue starts with the sums in its status."""

    _uids: Sequence[str] = ()
    _rows: dict[str, int] = field(default_factory=dict)
    _since: FloatArray = field(default_factory=lambda: np.zeros(0))
    _values: FloatArray = field(default_factory=_nothing)
    _rates: FloatArray = field(default_factory=_nothing)
    _last: dict[str, Week] = field(default_factory=dict)
    _now: float = -math.inf
    _wall: float = -math.inf

    def lay_out(self, queues: Mapping[str, Mapping[str, Any]], wall: float, now: float) -> None:
        """Use other rows. queues: the objects by uid, in the order of the rows."""
        self._pass(wall, now)
        kept = [self._rows.get(uid) for uid in queues]
        since, values, rates = np.full(len(kept), wall), np.zeros((len(kept), len(_FIELDS))), np.zeros((len(kept), len(_FIELDS)))
        for row, (uid, before) in enumerate(zip(queues, kept, strict=True)):
            if before is not None:
                since[row], values[row], rates[row] = self._since[before], self._values[before], self._rates[before]
            elif (remembered := _remembered(queues[uid], wall)) is not None:
                since[row], values[row] = remembered.since, remembered.values
                if remembered.last is not None:
                    self._last[uid] = remembered.last
        self._since, self._values, self._rates = since, values, rates
        self._rows = {uid: row for row, uid in enumerate(queues)}
        self._uids = list(queues)
        self._last = {uid: week for uid, week in self._last.items() if uid in self._rows}

    def look(self, snapshot: ClusterSnapshot, shares: FloatArray, wall: float, now: float) -> None:
        """Add the time since the last look at its rates, and note the rates from now on. shares: (N,) fair shares by weight."""
        self._pass(wall, now)
        used = dominant_share(snapshot.usage, snapshot.live_capacity)
        wanted = np.minimum(np.maximum(dominant_share(snapshot.demand, snapshot.live_capacity), used), shares)
        self._rates = np.stack([used, shares, wanted, np.minimum(used, wanted)], axis=1)

    def of(self, uid: str) -> WeekSums | None:
        """Return a queue's sums as of the last look, None for a queue that governs no namespace."""
        row = self._rows.get(uid)
        if row is None:
            return None
        return WeekSums(float(self._since[row]), self._wall, tuple(self._values[row].tolist()), self._last.get(uid))

    def _pass(self, wall: float, now: float) -> None:
        """Add the time since the last look to the sums."""
        elapsed = max(0.0, now - self._now) if math.isfinite(self._now) else 0.0
        began = week_of(wall)
        if math.isfinite(self._wall) and began > week_of(self._wall):
            before = min(max(began - self._wall, 0.0), elapsed)
            self._values += self._rates * before
            self._end_week(began)
            elapsed -= before
        self._values += self._rates * elapsed
        self._wall, self._now = wall, now

    def _end_week(self, began: float) -> None:
        for uid, since, values in zip(self._uids, self._since.tolist(), self._values.tolist(), strict=True):
            week = WeekSums(since, began, tuple(values)).week
            if week is not None:
                self._last[uid] = week
            else:
                self._last.pop(uid, None)
        self._values[:], self._since[:] = 0.0, began


def _remembered(obj: Mapping[str, Any], wall: float) -> WeekSums | None:
    try:
        status = parse_status(obj)
    except InvalidQueueError:
        return None
    account = status.internal.week if status.internal is not None else None
    if account is None or to_epoch(account.since) > wall:
        return None
    return sums_of(account, status.last_week).at(wall)
