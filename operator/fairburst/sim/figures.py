"""Results computed from a record: a summary of each queue, and the charts that explain a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.policy.model import QueueKind
from fairburst.sim.charts import Chart, ChartKind, Series, Span
from fairburst.sim.sink import JobRecord, Record


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """One queue of one run. Times in seconds, NaN if no job ended. share: mean dominant share. fair_share: weight / sum of weights."""

    policy: str
    queue: str
    kind: str
    guarantee: str
    jobs: int
    ended: int
    mean_completion: float
    median_completion: float
    p95_completion: float
    mean_runtime: float
    deadlines_met: float
    share: float
    fair_share: float


def summaries(record: Record) -> list[QueueSummary]:
    """Return one summary for each queue, in order."""
    weight = math.fsum(spec.weight for spec in record.queues)
    result = []
    for row, spec in enumerate(record.queues):
        jobs, ended = record.of(spec.name), record.ended(spec.name)
        completion = [job.completion for job in ended]
        granted = record.classes.get(spec.name)
        result.append(
            QueueSummary(
                policy=record.policy,
                queue=spec.name,
                kind=spec.kind.value,
                guarantee="-" if granted is None else granted.value,
                jobs=len(jobs),
                ended=len(ended),
                mean_completion=mean(completion),
                median_completion=float(np.median(completion)) if completion else math.nan,
                p95_completion=float(np.quantile(completion, 0.95)) if completion else math.nan,
                mean_runtime=mean([job.runtime for job in ended]),
                deadlines_met=met_fraction(jobs, record.end) if spec.kind is QueueKind.LATENCY else math.nan,
                share=float(record.dominant_seconds[row] / record.end) if record.end > 0 else 0.0,
                fair_share=spec.weight / weight,
            )
        )
    return result


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean, NaN for no values."""
    return math.fsum(values) / len(values) if values else math.nan


def met_fraction(jobs: Sequence[JobRecord], end: float) -> float:
    """Return the fraction of jobs with a deadline before `end` that met it, NaN if there are none."""
    due = [job for job in jobs if job.deadline <= end]
    return sum(job.met for job in due) / len(due) if due else math.nan


def run_charts(record: Record) -> list[Chart]:
    """Return charts of one run: use over time (stacked, with windows and deadlines), completion CDFs, long-term shares.

    The first of these needs a record with use over time.
    """
    title = record.policy
    charts = []
    if record.times:
        times, use = _thinned(record)
        capacity = np.maximum(record.capacity_seconds / max(record.end, 1e-12), 1e-12)
        spans = [Span(opened, deadline, queue) for queue, opened, deadline in record.windows[:60]]
        for column, resource in enumerate(record.resources):
            series = [Series(spec.name, times, (use[:, row, column] / capacity[column]).tolist()) for row, spec in enumerate(record.queues)]
            name = f"use-{record.policy}-{resource}"
            charts.append(Chart(name, f"Use of {resource}, {title}", ChartKind.STACK, "seconds", "part of capacity", series, spans))
    ended = [(spec.name, [job.completion for job in record.ended(spec.name)]) for spec in record.queues]
    cdf = [Series(name, (), values) for name, values in ended if values]
    if cdf:
        charts.append(Chart(f"cdf-{record.policy}", f"Completion times, {title}", ChartKind.CDF, "seconds", "part of jobs", cdf))
    rows = summaries(record)
    names = [row.queue for row in rows]
    shares = [Series("average share", names, [row.share for row in rows]), Series("fair share", names, [row.fair_share for row in rows])]
    charts.append(Chart(f"share-{record.policy}", f"Long-term share, {title}", ChartKind.BARS, "queue", "dominant share", shares))
    return charts


def comparison_charts(records: Mapping[str, Record]) -> list[Chart]:
    """Return charts that compare policies: mean completion of each queue, deadlines met."""
    table = {policy: summaries(record) for policy, record in records.items()}
    names = [row.queue for row in next(iter(table.values()))]
    completion = [Series(policy, names, [_zero(row.mean_completion) for row in rows]) for policy, rows in table.items()]
    charts = [Chart("completion", "Mean completion", ChartKind.BARS, "queue", "seconds", completion)]
    latency = [row.queue for row in next(iter(table.values())) if row.kind == "Latency"]
    if latency:
        met = [
            Series(policy, latency, [_zero(row.deadlines_met) for row in rows if row.queue in latency]) for policy, rows in table.items()
        ]
        charts.append(Chart("deadlines", "Bursts that met their deadline", ChartKind.BARS, "queue", "part of bursts", met))
    return charts


def _zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _thinned(record: Record, most: int = 400) -> tuple[list[float], np.ndarray]:
    """Return at most `most` points, each the time-weighted mean of its interval."""
    times, use = np.array(record.times), np.array(record.use)
    if len(times) <= most:
        return times.tolist(), use
    length = np.diff(np.append(times, record.end))
    edges = np.linspace(times[0], record.end, most + 1)
    begin = np.unique(np.clip(np.searchsorted(times, edges[:-1]), 0, len(times) - 1))
    total = np.add.reduceat(use * length[:, None, None], begin, axis=0)
    span = np.maximum(np.add.reduceat(length, begin), 1e-12)
    return times[begin].tolist(), total / span[:, None, None]
