"""The resource condition (BoPF §3.3, (3)): do a candidate's ON windows fit beside those of the hard queues?

Three steps, each only if the one before does not fit: (a) the sum of all hard rates; (b) the exact profile of ON windows over the
hyperperiod, up to a configured number of events; (c) an upper bound from the windows that can meet pairwise. A bound that does not
fit means soft, never hard. ON windows are half-open and widened by the jitter on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.drf import inverse_capacity
from fairburst.policy.table import PERIODIC, SCHEDULE, Declared
from fairburst.policy.tolerance import TOLERANCE

# Periods are compared in whole microseconds; a hyperperiod beyond this many can't be enumerated anyway.
_TICKS_PER_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Member:
    """One hard queue or candidate: row `row` of the table `declared`."""

    declared: Declared
    row: int

    @property
    def rate(self) -> FloatArray:
        rate: FloatArray = self.declared.highest_rate[self.row]
        return rate

    @property
    def kind(self) -> int:
        return int(self.declared.kind[self.row])

    @property
    def name(self) -> str:
        return self.declared.queues[self.row].name

    @property
    def phase_known(self) -> bool:
        """Whether its windows can be placed in time; if not (sporadic, floating) they may be anywhere."""
        return self.kind == SCHEDULE or (self.kind == PERIODIC and self.period_ticks is not None)

    @property
    def period_ticks(self) -> int | None:
        """Its period in whole microseconds; None if that would not be exact."""
        ticks = float(self.declared.gap[self.row]) * _TICKS_PER_SECOND
        return round(ticks) if abs(ticks - round(ticks)) < 1e-3 and ticks < 2**62 else None

    @property
    def lead(self) -> float:
        """Where its window may begin, relative to the arrival (minus the jitter)."""
        return -float(self.declared.jitter[self.row])

    @property
    def window_length(self) -> float:
        """Longest span a window may cover, jitter included."""
        if self.kind == SCHEDULE:
            return float(self.scheduled_deadlines.max())
        return float(self.declared.deadline[self.row] + 2 * self.declared.jitter[self.row])

    @property
    def _scheduled(self) -> slice:
        flat = self.declared.schedules
        return slice(int(flat.start[self.row]), int(flat.start[self.row] + flat.count[self.row]))

    @property
    def scheduled_arrivals(self) -> FloatArray:
        return self.declared.schedules.arrival[self._scheduled]

    @property
    def scheduled_deadlines(self) -> FloatArray:
        return self.declared.schedules.deadline[self._scheduled]

    @property
    def scheduled_rates(self) -> FloatArray:
        return self.declared.schedules.rate[self._scheduled]


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether the candidate fits, at the tightest instant and resource: `left` (candidate included) against `right`, by which step."""

    holds: bool
    left: float
    right: float
    resource: int
    queue: str
    step: str


def resource_condition(candidate: Member, hard: Sequence[Member], hard_sum: FloatArray, capacity: FloatArray, max_events: int) -> Fit:
    """Condition (3) for one candidate against the hard queues. `hard_sum`: (K,) sum of the hard queues' highest rates.

    Step (a) is O(K). Step (b) costs O(E log E K) for E window edges, step (c) O(hard queues x K).
    """
    total = hard_sum + candidate.rate
    if within(total, capacity):
        return _fit(total, capacity, candidate, hard, "sum")
    profile = _exact_profile(candidate, hard, capacity, max_events)
    if profile is not None:
        return profile
    together = candidate.rate + sum((other.rate for other in hard if _can_meet(candidate, other)), np.zeros_like(capacity))
    return _fit(together, capacity, candidate, [other for other in hard if _can_meet(candidate, other)], "pairwise bound")


def within(total: FloatArray, capacity: FloatArray) -> bool:
    return bool((total <= capacity + TOLERANCE * np.maximum(total, capacity)).all())


def _fit(total: FloatArray, capacity: FloatArray, candidate: Member, present: Sequence[Member], step: str) -> Fit:
    share = total * inverse_capacity(capacity)
    share[(capacity <= 0) & (total > 0)] = math.inf
    resource = int(np.argmax(share))
    largest = max(present, key=lambda member: (member.rate[resource], member.name), default=candidate)
    return Fit(within(total, capacity), float(total[resource]), float(capacity[resource]), resource, largest.name, step)


def _exact_profile(candidate: Member, hard: Sequence[Member], capacity: FloatArray, max_events: int) -> Fit | None:
    """Step (b): sweep over every ON window of one hyperperiod (and of all schedules); None if there are too many."""
    placed = [member for member in hard if member.phase_known]
    anywhere = [member for member in hard if not member.phase_known]
    base = sum((member.rate for member in anywhere), np.zeros_like(capacity))
    everyone = [*placed, candidate] if candidate.phase_known else placed
    if not candidate.phase_known:
        base = base + candidate.rate
    if not everyone:
        return _fit(base, capacity, candidate, anywhere, "profile")
    windows = _windows(everyone, max_events)
    if windows is None:
        return None
    begin, end, rate, owner = windows
    time = np.concatenate([end, begin])
    order = np.lexsort((np.arange(len(time)) >= len(end), time))
    change = np.concatenate([-rate, rate])[order]
    mine = np.concatenate([-(owner == len(placed)).astype(np.int64), (owner == len(placed)).astype(np.int64)])[order]
    level = base + np.cumsum(change, axis=0)
    relevant = np.cumsum(mine) > 0 if candidate.phase_known else np.ones(len(time), dtype=bool)
    share = level * inverse_capacity(capacity)
    share[:, capacity <= 0] = np.where(level[:, capacity <= 0] > TOLERANCE, math.inf, 0.0)
    share[~relevant] = -1.0
    at = int(np.argmax(share.max(axis=1)))
    instant = time[order][at]
    on = (begin <= instant) & (instant < end)
    present = anywhere + [member for position, member in enumerate(placed) if (on & (owner == position)).any()]
    return _fit(np.maximum(level[at], base), capacity, candidate, present, "profile")


def _windows(members: Sequence[Member], max_events: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
    """Begin, end, rate and owner of every ON window that matters: one hyperperiod, and the whole of every schedule."""
    periodic = [member for member in members if member.kind == PERIODIC]
    scheduled = [member for member in members if member.kind == SCHEDULE]
    hyperperiod = math.lcm(*[member.period_ticks or 1 for member in periodic]) / _TICKS_PER_SECOND if periodic else 0.0
    origin = min((float(member.scheduled_arrivals[0]) for member in scheduled), default=0.0)
    finish = max((float((member.scheduled_arrivals + member.scheduled_deadlines).max()) for member in scheduled), default=0.0)
    finish = max(finish, origin + hyperperiod)
    events = sum((finish - origin) / float(member.declared.gap[member.row]) + 2 for member in periodic)
    if events + sum(len(member.scheduled_arrivals) for member in scheduled) > max_events:
        return None
    width = len(members[0].rate)
    begins: list[FloatArray] = [np.zeros(0)]
    ends: list[FloatArray] = [np.zeros(0)]
    rates: list[FloatArray] = [np.zeros((0, width))]
    owners: list[FloatArray] = [np.zeros(0)]
    for position, member in enumerate(members):
        if member.kind == SCHEDULE:
            arrival, length, rate = member.scheduled_arrivals, member.scheduled_deadlines, member.scheduled_rates
        else:
            period, length_one = float(member.declared.gap[member.row]), member.window_length
            first = float(member.declared.first_arrival[member.row]) + member.lead
            lowest = math.ceil((origin - length_one - first) / period)
            arrival = first + period * np.arange(lowest, math.floor((finish - first) / period) + 1, dtype=np.float64)
            length = np.full(len(arrival), length_one)
            rate = np.tile(member.rate, (len(arrival), 1))
        begins.append(arrival)
        ends.append(arrival + length)
        rates.append(rate)
        owners.append(np.full(len(arrival), float(position)))
    return np.concatenate(begins), np.concatenate(ends), np.concatenate(rates), np.concatenate(owners)


def _can_meet(one: Member, other: Member) -> bool:
    """Whether some window of one can overlap some window of the other (gcd rule; unknown phases always can)."""
    if not (one.phase_known and other.phase_known):
        return True
    if one.kind == PERIODIC and other.kind == PERIODIC:
        return _periodic_meet(one, other)
    if one.kind == SCHEDULE and other.kind == SCHEDULE:
        begin, end = other.scheduled_arrivals, other.scheduled_arrivals + other.scheduled_deadlines
        mine = one.scheduled_arrivals
        ends_after = np.searchsorted(end, mine, side="right")
        begins_before = np.searchsorted(begin, mine + one.scheduled_deadlines, side="left")
        return bool((begins_before > ends_after).any())
    schedule, periodic = (one, other) if one.kind == SCHEDULE else (other, one)
    period, length = float(periodic.declared.gap[periodic.row]), periodic.window_length
    first = float(periodic.declared.first_arrival[periodic.row]) + periodic.lead
    offset = np.mod(schedule.scheduled_arrivals - first, period)
    return bool(((offset < length) | (period - offset < schedule.scheduled_deadlines)).any())


def _periodic_meet(one: Member, other: Member) -> bool:
    """Windows of periods p, q overlap for some pair iff their phases come closer than a window modulo gcd(p, q)."""
    common = math.gcd(one.period_ticks or 1, other.period_ticks or 1) / _TICKS_PER_SECOND
    first_one = float(one.declared.first_arrival[one.row]) + one.lead
    first_other = float(other.declared.first_arrival[other.row]) + other.lead
    offset = math.fmod(first_other - first_one, common)
    offset = offset + common if offset < 0 else offset
    return offset < one.window_length or common - offset < other.window_length
