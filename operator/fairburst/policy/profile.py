"""The resource condition (BoPF §3.3, (3)): do the ON windows of the hard queues fit into the capacity together?

A set of queues fits if (a) the sum of their rates does, or (b) the exact profile of their ON windows does, over one hyperperiod and all
schedules, if that has at most a configured number of window edges. Else (c): a queue whose rate fits together with the rates of all queues
that its windows ever meet may be set aside, because no instant with that queue on can be too full; the set fits if the rest does. Each of
the three holds for every subset of a set for which it holds, in any order of its queues. So promises that fitted together continue to fit,
one by one and after a restart, until capacity or a promise changes.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.declared import Declared
from fairburst.policy.drf import inverse_capacity
from fairburst.policy.hard_queue import HardQueue
from fairburst.policy.pairs import Pairs
from fairburst.policy.phases import LATEST, Windows, periodic_windows
from fairburst.policy.steps import Steps
from fairburst.policy.tolerance import TOLERANCE

_KEPT = 8  # profiles of different lengths that are kept while candidates are tested


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether the candidate fits, at the tightest instant and resource: `left` (candidate included) against `right`, and the deciding step.

    queue: the queue other than the candidate that takes most of that resource at that instant; the candidate if it is alone.
    """

    holds: bool
    left: float
    right: float
    resource: int
    queue: str
    step: str


@dataclass(frozen=True, slots=True)
class _Span:
    """The stretch of time that a profile covers."""

    origin: int
    finish: int


def within(total: FloatArray, capacity: FloatArray) -> bool:
    return bool((total <= capacity + TOLERANCE * np.maximum(total, capacity)).all())


class HardQueues:
    """A set of queues that fits, and the test of one more.

    A candidate costs O(K) if the sum fits, else O(log E) and the window edges inside its own windows; adding it costs O(E K), and the
    first with another hyperperiod O(E log E).
    """

    def __init__(self, capacity: FloatArray, max_edges: int) -> None:
        self.capacity, self.max_edges = capacity, max_edges
        self.members: dict[str, HardQueue] = {}
        self.total = np.zeros_like(capacity)
        self._anywhere = np.zeros_like(capacity)
        self._periods: Counter[int] = Counter()
        self._schedules: dict[str, Windows] = {}
        self._profiles: list[Steps] = []
        self._pairs: Pairs | None = None
        self._largest: dict[int, list[str]] = {}

    @classmethod
    def of(cls, members: Iterable[HardQueue], capacity: FloatArray, max_edges: int) -> HardQueues:
        """Return the set of `members`, whether it fits or not."""
        result = cls(capacity, max_edges)
        result.add_all(list(members))
        return result

    def copy(self) -> HardQueues:
        """Return a copy that can be changed independently."""
        result = HardQueues(self.capacity, self.max_edges)
        result.members, result._schedules = self.members.copy(), self._schedules.copy()
        result.total, result._anywhere = self.total, self._anywhere
        result._periods, result._profiles, result._pairs = self._periods.copy(), self._profiles.copy(), self._pairs
        return result

    def add(self, member: HardQueue) -> None:
        self.members[member.name] = member
        self._enter(member, 1)

    def add_all(self, members: Sequence[HardQueue]) -> None:
        """Add several queues. The sums are exactly those of adding one after the other."""
        if self._profiles:
            for member in members:
                self.add(member)
            return
        self.members |= {member.name: member for member in members}
        self._pairs, self._largest = None, {}
        self.total = _added_up(self.total, [member.rate for member in members])
        self._anywhere = _added_up(self._anywhere, [one.rate for one in members if not (one.scheduled or one.periodic)])
        self._schedules |= {member.name: member.schedule for member in members if member.scheduled}
        self._periods.update(member.phase[1] for member in members if member.periodic)

    def remove(self, name: str) -> None:
        if name in self.members:
            self._enter(self.members.pop(name), -1)

    def _enter(self, member: HardQueue, sign: int) -> None:
        self.total = self.total + sign * member.rate
        self._pairs = None
        self._largest = {}
        if member.scheduled:
            self._profiles = []
            if sign > 0:
                self._schedules[member.name] = member.schedule
            else:
                del self._schedules[member.name]
        elif member.periodic:
            period = member.phase[1]
            self._periods[period] += sign
            if not self._periods[period]:
                del self._periods[period]
            short = [one for one in self._profiles if (one.finish - one.origin) // period <= self.max_edges]
            self._profiles = [one.plus(member.windows(one.origin, one.finish), sign) for one in short]
        else:
            self._anywhere = self._anywhere + sign * member.rate
            self._profiles = [one.raised(sign * member.rate) for one in self._profiles]

    def holds(self) -> bool:
        """Return whether the set fits, by one test of all queues."""
        if within(self.total, self.capacity):
            return True
        span = self._span(None)
        if span is not None and within(self._profile(span).level.max(axis=0), self.capacity):
            return True
        return self._pairs_of().fit()[0]

    def fits(self, candidate: HardQueue) -> bool:
        """Return whether this set, which fits, still fits with one more queue."""
        if within(self.total + candidate.rate, self.capacity):
            return True
        span = self._span(candidate)
        if span is not None:
            highest, _ = self._while_on(candidate, span)
            return within(highest.max(axis=0), self.capacity) if len(highest) else True
        pairs = self._pairs_of()
        meets = pairs.meets(candidate)
        return within(pairs.together(candidate, meets), self.capacity) or pairs.fit_with(candidate, meets)

    def fit(self, candidate: HardQueue) -> Fit:
        """Return the result of this test with its numbers, for one more queue or one of the set."""
        inside = candidate.name in self.members
        own = candidate.rate * (not inside)
        if within(self.total + own, self.capacity):
            return self._fit(self.total + own, candidate, None, "sum")
        others = [name for name in self.members if name != candidate.name]
        span = self._span(None if inside else candidate)
        if span is not None:
            highest, steps = self._while_on(candidate, span)
            share = _shares(highest, self.capacity)
            window, resource = np.unravel_index(int(np.argmax(share)), share.shape)
            instant = self._instant(candidate, span, steps, int(window), int(resource))
            present = [name for name in others if self._on(self.members[name], instant)]
            return self._fit(highest[window], candidate, present, "profile")
        pairs = self._pairs_of()
        meets = pairs.meets(candidate)
        near = [name for name, met in zip(pairs.names, meets.tolist(), strict=True) if met and name != candidate.name]
        together = pairs.together(candidate, meets)
        if inside and not within(together, self.capacity):
            together = pairs.fit(candidate)[1]
        return self._fit(together, candidate, near, "pairwise bound")

    def _fit(self, total: FloatArray, candidate: HardQueue, present: Sequence[str] | None, step: str) -> Fit:
        """Return the Fit of `total`. `present`: the other queues that are on at the tightest instant; None: all of the set."""
        share = _shares(total[None, :], self.capacity)[0]
        resource = int(np.argmax(share))
        if present is None:
            present = [name for name in self._two_largest(resource) if name != candidate.name]
        largest = max(((self.members[name].rate[resource], name) for name in present), default=(0.0, candidate.name))
        return Fit(within(total, self.capacity), float(total[resource]), float(self.capacity[resource]), resource, largest[1], step)

    def _two_largest(self, resource: int) -> Sequence[str]:
        """Return the queues with the two highest rates of a resource, cached for a set: at least one is not the candidate."""
        if resource not in self._largest:
            ranked = heapq.nlargest(2, ((member.rate[resource], name) for name, member in self.members.items()))
            self._largest[resource] = [name for _, name in ranked]
        return self._largest[resource]

    def _span(self, candidate: HardQueue | None) -> _Span | None:
        """Return the time that the exact profile of the set and the candidate covers; None if that holds too many windows."""
        periods = self._periods.copy()
        schedules = list(self._schedules.values())
        if candidate is not None and candidate.scheduled:
            schedules.append(candidate.schedule)
        elif candidate is not None and candidate.periodic:
            periods[candidate.phase[1]] += 1
        hyperperiod = math.lcm(*periods) if periods else 0
        origin = min((int(one.begin[0]) for one in schedules), default=0)
        finish = max(max((int(one.end[-1]) for one in schedules), default=origin), origin + hyperperiod)
        if finish >= LATEST:
            return None
        edges = sum(count * ((finish - origin) // period + 2) for period, count in periods.items()) + sum(
            len(one.begin) for one in schedules
        )
        return None if edges > self.max_edges else _Span(origin, finish)

    def _profile(self, span: _Span) -> Steps:
        for steps in self._profiles:
            if steps.covers(span.origin, span.finish):
                return steps
        rows_of: dict[int, tuple[Declared, list[int]]] = {}
        for member in self.members.values():
            rows_of.setdefault(id(member.declared), (member.declared, []))[1].append(member.row)
        windows = list(self._schedules.values())
        for declared, rows in rows_of.values():
            placed = np.array(rows)[declared.phases.placed[rows]]
            windows.append(periodic_windows(declared.phases, placed, declared.highest_rate, span.origin, span.finish))
        steps = Steps.of(windows, self._anywhere, span.origin, span.finish)
        self._profiles = [steps, *self._profiles[: _KEPT - 1]]
        return steps

    def _while_on(self, candidate: HardQueue, span: _Span) -> tuple[FloatArray, Steps]:
        """(W, K) the highest total in each of the candidate's windows, itself included; one row if they may be anywhere."""
        steps = self._profile(span)
        own = candidate.rate * (candidate.name not in self.members)
        if not (candidate.scheduled or candidate.periodic):
            return steps.level.max(axis=0)[None, :] + own, steps
        windows = candidate.windows(span.origin, span.finish)
        extra = windows.rate * (candidate.name not in self.members)
        return steps.highest(windows) + extra, steps

    def _instant(self, candidate: HardQueue, span: _Span, steps: Steps, window: int, resource: int) -> int:
        """Return a moment at which the level is highest in one window of the candidate."""
        first, after = 0, len(steps.level)
        if candidate.scheduled or candidate.periodic:
            windows = candidate.windows(span.origin, span.finish)
            first, after = (int(side[window]) for side in steps.within(windows))
            return max(int(steps.time[first + int(np.argmax(steps.level[first:after, resource]))]), int(windows.begin[window]))
        return int(steps.time[first + int(np.argmax(steps.level[first:after, resource]))])

    def _on(self, member: HardQueue, instant: int) -> bool:
        if member.scheduled:
            windows = member.schedule
            return bool(((windows.begin <= instant) & (instant < windows.end)).any())
        if not member.periodic:
            return True
        start, period, length = member.phase
        return (instant - start) % period < length

    def _pairs_of(self) -> Pairs:
        if self._pairs is None:
            self._pairs = Pairs(list(self.members.values()), self.capacity, self._peak_of)
        return self._pairs

    def _peak_of(self, members: Sequence[HardQueue]) -> FloatArray | None:
        some = HardQueues.of(members, self.capacity, self.max_edges)
        span = some._span(None)
        return None if span is None else some._profile(span).level.max(axis=0)


def _added_up(total: FloatArray, rates: Sequence[FloatArray]) -> FloatArray:
    """(K,) `total` and then each of `rates` added to it, in this order: sums of floats depend on it."""
    added: FloatArray = np.cumsum(np.array([total, *rates]), axis=0)[-1]
    return added


def _shares(total: FloatArray, capacity: FloatArray) -> FloatArray:
    """(M, K) fraction of the capacity; infinite for demand of a resource without capacity."""
    share = total * inverse_capacity(capacity)
    none = capacity <= 0
    share[:, none] = np.where(total[:, none] > TOLERANCE, math.inf, 0.0)
    return share
