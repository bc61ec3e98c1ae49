"""Bursts in a history of work: their begin, length and demand.

A history is pieces of work (pods) with their times and sizes. Their sum is the load over time. The load under the bursts, such as a
service that always runs, is the base. A burst is a period in which the load is clearly above the base. Short gaps inside a burst, between
its waves of pods or its stages, do not end it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray

BASE_QUANTILE = 0.1  # of time: load that is present nine tenths of it belongs to no burst
CLEARLY_ABOVE = 0.1  # of the usual height of the load above the base, by work
SEPARATION = 3.0  # least ratio of the gaps between bursts to those inside them
LONGEST_PAUSE = 5.0  # seconds: a gap inside a burst is at most this, or as long as the work usually runs without a gap
SMALLEST = 0.1  # of the median demand: work with less demand is no burst of this queue


@dataclass(frozen=True, slots=True, eq=False)
class WorkHistory:
    """n pieces of work in [since, until). begin, end: (n,) seconds. amounts: (n, K) resource units. Those still running end at `until`."""

    begin: FloatArray
    end: FloatArray
    amounts: FloatArray
    since: float
    until: float


@dataclass(frozen=True, slots=True, eq=False)
class SeenBursts:
    """m bursts in ascending order, the whole ones of a history. begin, length: (m,) seconds. demand: (m, K) resource-seconds."""

    begin: FloatArray
    length: FloatArray
    demand: FloatArray

    def __len__(self) -> int:
        return len(self.begin)


@dataclass(frozen=True, slots=True, eq=False)
class _Load:
    """Steps of the load: level[i] (K,) holds from time[i] to time[i + 1]; share: (m,) its dominant share."""

    time: FloatArray
    level: FloatArray
    share: FloatArray

    @property
    def seconds(self) -> FloatArray:
        return np.diff(self.time)


def bursts_of(history: WorkHistory, capacity: FloatArray) -> SeenBursts:
    """Find the bursts. capacity: (K,), by which resources are compared. A burst that runs at `since` or at `until` is left out."""
    load = _load(history, capacity)
    if load is None:
        return _none(len(capacity))
    seconds, share = load.seconds, load.share
    base = _quantile(share, seconds, BASE_QUANTILE)
    above = np.maximum(share - base, 0.0)
    usual = _quantile(above, above * seconds, 0.5)
    if usual <= 0:
        return _none(len(capacity))
    spans = _merged(_spans(load.time, above > CLEARLY_ABOVE * usual))
    lowest = load.level[share <= base * (1 + 1e-9) + 1e-12]
    under = np.average(lowest, axis=0, weights=seconds[share <= base * (1 + 1e-9) + 1e-12])
    whole = [(begin, end) for begin, end in spans if begin > history.since and end < history.until]
    if not whole:
        return _none(len(capacity))
    begin, end = np.array(whole).T
    demand = np.array([_work(load, under, one, other) for one, other in whole])
    size = (demand / capacity).max(axis=1)
    kept = size >= SMALLEST * np.median(size)
    return SeenBursts(begin[kept], (end - begin)[kept], demand[kept])


def _none(width: int) -> SeenBursts:
    return SeenBursts(np.zeros(0), np.zeros(0), np.zeros((0, width)))


def _load(history: WorkHistory, capacity: FloatArray) -> _Load | None:
    """Return the sum of all pieces over time; None without any."""
    begin, end = np.maximum(history.begin, history.since), np.minimum(history.end, history.until)
    there = end > begin
    if not there.any():
        return None
    amounts = history.amounts[there]
    time, index = np.unique(np.concatenate([begin[there], end[there], [history.since, history.until]]), return_inverse=True)
    steps = np.zeros((len(time), amounts.shape[1]))
    count = int(there.sum())
    np.add.at(steps, index[:count], amounts)
    np.add.at(steps, index[count : 2 * count], -amounts)
    level = np.maximum(np.cumsum(steps, axis=0)[:-1], 0.0)
    share = np.divide(level, capacity, out=np.zeros_like(level), where=capacity > 0).max(axis=1)
    return _Load(time, level, share)


def _quantile(values: FloatArray, weights: FloatArray, part: float) -> float:
    """Return the smallest value that at least `part` of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order[int(np.searchsorted(reached, part * reached[-1] * (1 - 1e-12)))]]) if reached[-1] > 0 else 0.0


def _spans(time: FloatArray, active: np.ndarray) -> list[tuple[float, float]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], active, [False]]).astype(np.int8)))
    return [(float(time[one]), float(time[other])) for one, other in zip(edges[::2], edges[1::2], strict=True)]


def _merged(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the spans joined across the gaps inside bursts, which are short, and much shorter than the gaps between bursts."""
    gaps = np.array([after[0] - one[1] for one, after in itertools.pairwise(spans)])
    if len(gaps) < 2:
        return spans
    ordered = np.sort(gaps)
    ratio = ordered[1:] / np.maximum(ordered[:-1], 1e-9)
    cut = int(np.argmax(ratio))
    longest_inside = ordered[cut]
    usual = float(np.median([end - begin for begin, end in spans]))
    if ratio[cut] < SEPARATION or longest_inside > max(usual, LONGEST_PAUSE):
        return spans
    merged = [spans[0]]
    for gap, span in zip(gaps, spans[1:], strict=True):
        if gap <= longest_inside:
            merged[-1] = (merged[-1][0], span[1])
        else:
            merged.append(span)
    return merged


def _work(load: _Load, under: FloatArray, begin: float, end: float) -> FloatArray:
    """Return (K,) resource-seconds above the base between two times of the load."""
    first, last = np.searchsorted(load.time, [begin, end])
    above = np.maximum(load.level[first:last] - under, 0.0)
    work: FloatArray = (above * load.seconds[first:last, None]).sum(axis=0)
    return work
