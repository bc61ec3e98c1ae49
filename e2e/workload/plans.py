"""The planned work of a run, queue by queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from e2e.workload.stages import DagJob


@dataclass(frozen=True, slots=True)
class PlannedBurst:
    """`job` starts `at` seconds after the start and should complete within `deadline_seconds`."""

    at: float
    job: DagJob
    deadline_seconds: float


@dataclass(frozen=True, slots=True)
class LatencyPlan:
    """Bursts of one latency queue; queue and namespace have the same name."""

    namespace: str
    bursts: Sequence[PlannedBurst]


@dataclass(frozen=True, slots=True)
class ThroughputPlan:
    """Work of one throughput queue.

    `jobs` are started in order while fewer than `backlog_tasks` runnable tasks are unfinished, at most `active_jobs` at a time.
    """

    namespace: str
    jobs: Iterable[DagJob]
    active_jobs: int = 8
    backlog_tasks: int = 200
