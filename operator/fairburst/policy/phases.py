"""Possible times of the ON windows of latency queues, in whole microseconds, and which windows can overlap.

Decides nothing. An ON window is half-open and reaches from the earliest to the latest moment at which a burst may be on: the deadline, and
the jitter on both sides. A queue is in one window at a time, so where its own windows touch they are one, and its rate counts once.
Whole microseconds make comparisons exact: two windows that touch do not overlap by a rounding error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray

TICKS_PER_SECOND = 1_000_000
EXACT = 1e-3  # of a tick: a period further than this from a whole number of ticks has no exact hyperperiod
LATEST = 2**62  # ticks; beyond this sums of two times leave 64 bits


@dataclass(frozen=True, slots=True)
class Phases:
    """Periodic ON windows of N queues, (N,) each, ticks: from start + n x period for `length`, with 0 <= start < period.

    placed: whether the windows repeat at known times; for other queues (sporadic, floating, scheduled) the other arrays have no meaning.
    """

    placed: BoolArray
    start: IntArray
    period: IntArray
    length: IntArray

    @classmethod
    def of(cls, periodic: BoolArray, first_arrival: FloatArray, gap: FloatArray, jitter: FloatArray, deadline: FloatArray) -> Phases:
        """Return the phases in ticks, from seconds. `periodic`: rows with a known first arrival."""
        seconds = np.where(periodic, gap, 1.0)
        exact = seconds * TICKS_PER_SECOND
        placed = periodic & (np.abs(exact - np.rint(exact)) < EXACT) & (exact < LATEST)
        period = to_ticks(np.where(placed, seconds, 1.0))
        margin = to_ticks(np.where(placed, jitter, 0.0))
        start = np.mod(to_ticks(np.where(placed, first_arrival, 0.0)) - margin, period)
        length = np.minimum(to_ticks(np.where(placed, deadline, 0.0)) + 2 * margin, period)
        return cls(placed, start, period, length)


@dataclass(frozen=True, slots=True)
class Windows:
    """ON windows, those of each queue in ascending order and apart. begin, end: (W,) ticks; rate: (W, K) resource units."""

    begin: IntArray
    end: IntArray
    rate: FloatArray


def to_ticks(seconds: FloatArray) -> IntArray:
    """Return the nearest whole microseconds."""
    ticks: IntArray = np.rint(seconds * TICKS_PER_SECOND).astype(np.int64)
    return ticks


def periodic_windows(phases: Phases, rows: IntArray, rate: FloatArray, origin: int, finish: int) -> Windows:
    """Return the windows of `rows` that meet [origin, finish], one queue after the other. rate: (N, K), of which those of `rows` count."""
    start, period, length = phases.start[rows], phases.period[rows], phases.length[rows]
    lowest = -((start + length - origin) // period)
    count = (finish - start) // period + 1 - lowest
    number = np.arange(int(count.sum()), dtype=np.int64) - np.repeat(np.cumsum(count) - count - lowest, count)
    begin = np.repeat(start, count) + np.repeat(period, count) * number
    return Windows(begin, begin + np.repeat(length, count), np.repeat(rate[rows], count, axis=0))


def periodic_meet(start: int, period: int, length: int, starts: IntArray, periods: IntArray, lengths: IntArray) -> BoolArray:
    """Return whether a queue's windows ever overlap those of others: iff their phases are closer than a window modulo gcd(p, q)."""
    common = np.gcd(period, periods)
    offset = np.mod(starts - start, common)
    meet: BoolArray = (offset < length) | (common - offset < lengths)
    return meet


def windows_meet(windows: Windows, start: int, period: int, length: int) -> bool:
    """Return whether any of `windows` overlaps a periodic one."""
    offset = np.mod(windows.begin - start, period)
    return bool(((offset < length) | (period - offset < windows.end - windows.begin)).any())


def any_overlap(one: Windows, other: Windows) -> bool:
    """Return whether any of `one` overlaps any of `other`."""
    ends_after = np.searchsorted(other.end, one.begin, side="right")
    begins_before = np.searchsorted(other.begin, one.end, side="left")
    return bool((begins_before > ends_after).any())
