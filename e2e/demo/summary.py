"""The demo's summary: each burst and each queue's average share, without and with fairburst side by side. Pure text."""

from __future__ import annotations

from collections.abc import Sequence

from e2e.demo.phase import WARM_UP_SECONDS, Phase
from e2e.demo.scenario import Scenario
from e2e.demo.table import aligned, percent
from e2e.workload.metrics import (
    BurstRecord,
    WorkloadRecord,
    average_dominant_shares,
    backlogged_fraction,
    bursts_of,
    mean_completion_seconds,
)

IDLE_SHOWN = 0.0005  # of the cluster


def summary(of: Scenario, without: Phase | None, with_fairburst: Phase | None) -> list[str]:
    """Return the lines to print, without a side that was not run."""
    sides = [(name, phase) for name, phase in (("without", without), ("with fairburst", with_fairburst)) if phase is not None]
    names, records = [name for name, _ in sides], [phase.record for _, phase in sides]
    return [
        f"Bursts: time from arrival until all work was done; deadline {of.tempo.burst} s",
        *aligned([("queue", "burst", "arrival", "pods", *names), *_burst_lines(of, records)]),
        "",
        f"Average dominant share from {WARM_UP_SECONDS:g} s to {of.seconds:g} s (what others leave comes on top of a fair share)",
        *aligned([("queue", "weight", "fair share", *names), *_share_lines(of, records)]),
        "",
        *aligned([("", "", *names), *_total_lines(of, records), *_idle_lines([phase for _, phase in sides])]),
    ]


def _burst_lines(of: Scenario, records: Sequence[WorkloadRecord]) -> list[tuple[str, ...]]:
    lines = []
    for queue in of.latency:
        by_side = [bursts_of(record.bursts, queue.name) for record in records]
        for number, at in enumerate(queue.arrivals):
            outcomes = [
                _outcome(bursts[number], record) if number < len(bursts) else "not sent"
                for bursts, record in zip(by_side, records, strict=True)
            ]
            lines.append((queue.name, f"{queue.what} {number + 1}", f"{at:.0f} s", str(queue.pods), *outcomes))
        means = [mean_completion_seconds(bursts) for bursts in by_side]
        met = [sum(burst.met for burst in bursts) for bursts in by_side]
        totals = [
            f"{met[i]} of {len(by_side[i])} met" + ("" if mean is None else f", mean of those done {mean:.1f} s")
            for i, mean in enumerate(means)
        ]
        lines.append((queue.name, "all", "", "", *totals))
    return lines


def _outcome(burst: BurstRecord, record: WorkloadRecord) -> str:
    if burst.completion_seconds is None:
        return f"not done after {record.samples[-1].at - burst.arrival:.0f} s, missed"
    return f"{burst.completion_seconds:.1f} s, {'met' if burst.met else 'missed'}"


def _share_lines(of: Scenario, records: Sequence[WorkloadRecord]) -> list[tuple[str, ...]]:
    shares = [average_dominant_shares(record.samples, of.capacity, WARM_UP_SECONDS, of.seconds) for record in records]
    return [
        (queue, f"{weight:g}", percent(of.shares[queue]), *(percent(side[queue]) for side in shares))
        for queue, weight in of.weights.items()
    ]


def _total_lines(of: Scenario, records: Sequence[WorkloadRecord]) -> list[tuple[str, ...]]:
    shares = [average_dominant_shares(record.samples, of.capacity, WARM_UP_SECONDS, of.seconds) for record in records]
    backlogged = [
        min(backlogged_fraction(record.samples, queue.name, WARM_UP_SECONDS, of.seconds) for queue in of.throughput) for record in records
    ]
    return [
        ("cluster in use", "", *(percent(sum(side.values())) for side in shares)),
        ("throughput queues backlogged (least)", "", *(percent(fraction) for fraction in backlogged)),
        ("tasks of finished stages", "", *(str(sum(record.tasks_done.values())) for record in records)),
        ("failed API requests", "", *(str(record.api_errors) for record in records)),
    ]


def _idle_lines(phases: Sequence[Phase]) -> list[tuple[str, ...]]:
    """Return why the cluster's cpu was idle, as the operator saw it (docs/operations.md)."""
    causes = {cause: None for phase in phases for cause, part in phase.idle.items() if part >= IDLE_SHOWN}
    return [
        (f"cpu idle: {cause}", "", *(percent(phase.idle[cause]) if cause in phase.idle else "" for phase in phases)) for cause in causes
    ]
