"""Use, entitlement, lent and borrowed amounts of each queue over recorded rounds, and its bursts. Nothing is decided again.

A queue is entitled to its weight's part of the capacity. Its unused part is lent as far as other queues use more than theirs at that
moment; the rest is idle. Amounts are dominant shares of the live capacity times seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import EventKind
from fairburst.recording.lines import Outcome, RecordedRound

LONGEST_GAP_SECONDS = 3600.0  # rounds come at least every ten seconds: no operator ran in a longer gap, and its use is unknown


@dataclass(slots=True)
class QueueUsage:
    """One queue while it existed: share-seconds, and counts of bursts. seconds: the length of that time."""

    queue: str
    seconds: float = 0.0
    used: float = 0.0
    entitled: float = 0.0
    lent: float = 0.0
    borrowed: float = 0.0
    wanted: float = 0.0
    met: int = 0
    missed: int = 0


@dataclass(slots=True)
class UsageReport:
    """All queues from `started` to `ended`, seconds since the epoch. unknown_seconds: gaps without rounds."""

    started: float = float("inf")
    ended: float = float("-inf")
    unknown_seconds: float = 0.0
    queues: dict[str, QueueUsage] = field(default_factory=dict)


def usage_report(rounds: Iterable[RecordedRound], since: float = float("-inf")) -> UsageReport:
    """Sum recorded rounds, which are in order of time, from `since` on. A round holds until the next one."""
    report = UsageReport()
    before: RecordedRound | None = None
    for recorded in rounds:
        if recorded.now < since:
            before = recorded
            continue
        if before is not None:
            seconds = recorded.now - max(before.now, since)
            if 0 < seconds <= LONGEST_GAP_SECONDS:
                _add(report, before, seconds)
            elif seconds > LONGEST_GAP_SECONDS:
                report.unknown_seconds += seconds
        report.started, report.ended = min(report.started, recorded.now), max(report.ended, recorded.now)
        _count_bursts(report, recorded)
        before = recorded
    return report


def _of(report: UsageReport, name: str) -> QueueUsage:
    return report.queues.setdefault(name, QueueUsage(name))


def _count_bursts(report: UsageReport, recorded: RecordedRound) -> None:
    for spec in recorded.snapshot.queues:
        _of(report, spec.name)
    if not isinstance(recorded.outcome, Outcome):
        return
    for queue, kind, _ in recorded.outcome.events:
        if kind == EventKind.BURST_MET.value:
            _of(report, queue).met += 1
        elif kind == EventKind.BURST_MISSED.value:
            _of(report, queue).missed += 1


def _add(report: UsageReport, recorded: RecordedRound, seconds: float) -> None:
    snapshot, outcome = recorded.snapshot, recorded.outcome
    used, wanted = _dominant(snapshot.usage, snapshot.live_capacity), _dominant(snapshot.demand, snapshot.live_capacity)
    classes = outcome.classes if isinstance(outcome, Outcome) else (None,) * len(snapshot.queues)
    weight = np.array([spec.weight if granted is not None else 0.0 for spec, granted in zip(snapshot.queues, classes, strict=True)])
    entitled = weight / weight.sum() if weight.sum() > 0 else weight
    borrowed, unused = np.maximum(used - entitled, 0.0), np.maximum(entitled - used, 0.0)
    lent = unused * (min(1.0, borrowed.sum() / unused.sum()) if unused.sum() > 0 else 0.0)
    for row, spec in enumerate(snapshot.queues):
        one = _of(report, spec.name)
        one.seconds += seconds
        one.used += float(used[row]) * seconds
        one.wanted += float(wanted[row]) * seconds
        one.entitled += float(entitled[row]) * seconds
        one.lent += float(lent[row]) * seconds
        one.borrowed += float(borrowed[row]) * seconds


def _dominant(amounts: FloatArray, capacity: FloatArray) -> FloatArray:
    """Return (N,) the largest fraction of any resource that the pool has."""
    counted = capacity > 0
    if not counted.any() or not len(amounts):
        return np.zeros(len(amounts))
    share: FloatArray = (amounts[:, counted] / capacity[counted]).max(axis=1)
    return share
