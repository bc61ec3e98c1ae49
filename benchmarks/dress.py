"""Speed of DRESS: both release estimators, Algorithm 3 and the division of levels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.measure import Measurement, benchmark, timed
from fairburst.policy.dress.learned import DURATIONS, FamilyDurations
from fairburst.policy.dress.memory import DressMemory
from fairburst.policy.dress.round import dress_round
from fairburst.policy.dress.values import DressConfig, EstimatorScore, Job, JobsPart, TaskTable
from fairburst.policy.dress.waiting import Levels

NOW = 1_800_000_000.0
CONFIG = DressConfig()


def make_jobs(jobs: int, tasks: int, queues: int, seed: int = 1) -> tuple[Levels, JobsPart, DressMemory]:
    """Return an input in which half the jobs run and half wait.

    Running jobs have phases of ten to a hundred tasks, half of them ended. Every job has a known family.
    """
    rng = np.random.default_rng(seed)
    width, running = 2, jobs // 2
    job = np.sort(rng.integers(0, running, tasks))
    started = NOW - 600.0 + 40.0 * rng.integers(0, 12, tasks) + 5.0 * rng.random(tasks)
    order = np.lexsort((started, job))
    started = started[order]
    ended = np.where(rng.random(tasks) < 0.5, started + 60.0 + 5.0 * rng.random(tasks), np.nan)
    ended = np.where(ended > NOW, np.nan, ended)
    request = rng.integers(1, 4, (tasks, width)).astype(np.float64)
    families = tuple(f"family-{number}" for number in range(running))
    table = TaskTable(job, job % 2 == 0, request, started, ended, job % running, families, by_start=True)
    requests = rng.integers(1, 200, (jobs, width)).astype(np.float64)
    listed = [Job(f"job-{number}", f"queue-{number % queues}", NOW - number, requests[number]) for number in range(jobs)]
    level = np.full((queues, width), float(tasks))
    pool = level.sum(axis=0)
    usage = np.full((queues, width), request.sum() / queues / width)
    row_of = {f"queue-{number}": number for number in range(queues)}
    levels = Levels(row_of, ("cpu", "memory"), 2.0 * level, usage, level, np.ones(queues, dtype=np.bool_), pool, pool)
    durations = {name: (60.0 + 5.0 * rng.random(DURATIONS)).tolist() for name in families}
    score = EstimatorScore(0.01, 0.0, 10)
    memory = DressMemory(
        0.1, families=FamilyDurations.of(durations, dict.fromkeys(families, NOW)), learned_until=NOW,
        phases_score=EstimatorScore(0.1, 0.0, 10), learned_score=score,
    )  # fmt: skip
    return levels, JobsPart(listed[running:], listed[:running], table), memory


@benchmark
def dress() -> Iterator[Measurement]:
    """Measure one round of DRESS for 1,000 jobs and 50,000 tasks: both estimators, Algorithm 3, the division among 100 queues."""
    yield from round_of_jobs(1_000, 50_000, 10.0)


def round_of_jobs(jobs: int, tasks: int, target: float | None) -> Iterator[Measurement]:
    levels, part, memory = make_jobs(jobs, tasks, 100)
    what = f"DRESS, {jobs} jobs and {tasks} tasks"
    yield timed(what, lambda: dress_round(levels, part, memory, CONFIG, NOW), target=target)
