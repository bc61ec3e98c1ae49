"""Batch work as DAG jobs of stages, in pods: the simulator's traces with absolute requests, and a seeded generator.

A stage is a number of identical tasks, one pod each. It may start when all its parents have completed. This module is independent of any
cluster. Times are in seconds, amounts in cores and bytes.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairburst.sim import stage_list, workload
from fairburst.sim.errors import TraceError
from fairburst.sim.trace import read_tpch_profiles
from fairburst.sim.workload import topological_order

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine to which the fractions in a trace refer."""

    cpu: float = 32.0
    memory: float = 64.0 * GIB


@dataclass(frozen=True, slots=True)
class Stage:
    """`tasks` identical tasks of `seconds` each, every one requesting `cpu` cores and `memory` bytes.

    `parents` are indices into the job's stages: this stage starts when all of them have completed.
    """

    name: str
    tasks: int
    seconds: float
    cpu: float
    memory: float
    parents: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DagJob:
    """Stages in any order whose `parents` form a DAG. `arrival` (seconds from the start) and `queue` if the trace states them."""

    name: str
    stages: tuple[Stage, ...]
    arrival: float | None = None
    queue: str | None = None

    @property
    def tasks(self) -> int:
        return sum(stage.tasks for stage in self.stages)

    def critical_path_seconds(self) -> float:
        """Return the length of the job with unlimited slots."""
        finish: dict[int, float] = {}
        for index in topological_order(self.stages):
            stage = self.stages[index]
            finish[index] = stage.seconds + max((finish[parent] for parent in stage.parents), default=0.0)
        return max(finish.values())


def reshaped(
    job: DagJob,
    *,
    time_factor: float = 1.0,
    task_factor: float = 1.0,
    shortest: float = 0.0,
    longest: float = math.inf,
    widest: int | None = None,
    cpu: float | None = None,
    memory: float | None = None,
) -> DagJob:
    """Compress a job to fit a small cluster and a short run.

    Durations x time_factor are limited to [shortest, longest], task counts x task_factor to at least 1 and at most `widest`. `cpu` and
    `memory`, if given, apply to every task.
    """

    def reshape(stage: Stage) -> Stage:
        tasks = max(1, round(stage.tasks * task_factor))
        return dataclasses.replace(
            stage,
            tasks=tasks if widest is None else min(tasks, widest),
            seconds=min(max(stage.seconds * time_factor, shortest), longest),
            cpu=stage.cpu if cpu is None else cpu,
            memory=stage.memory if memory is None else memory,
        )

    return dataclasses.replace(job, stages=tuple(reshape(stage) for stage in job.stages))


def data_folder() -> Path:
    """Return the folder of the public traces: $FAIRBURST_DATA, or ../shared/data next to the repository."""
    named = os.environ.get("FAIRBURST_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"
    if not folder.is_dir():
        raise TraceError(f"expected a folder of traces at {folder}, found none; set FAIRBURST_DATA to where they are")
    return folder


def tpch_jobs(folder: Path, *, scale: str = "50g", max_cores: int = 50, cpu: float = 1.0, memory: float = 2.0 * GIB) -> list[DagJob]:
    """Return the 22 TPC-H queries measured on Spark (`fairburst.sim.trace`), every task requesting `cpu` and `memory`.

    Raises TraceError if a file is missing or the two files disagree.
    """
    trace = read_tpch_profiles(folder, scale, max_cores)
    return [_asking_for(job, lambda _: (cpu, memory)) for job in trace.jobs]


def read_stage_list(path: Path, machine: Machine | None = None) -> list[DagJob]:
    """Read a stage list (`fairburst.sim.stage_list`), whose demands are fractions of one `machine`. The four further resources are ignored.

    Raises TraceError with file, line, what was expected and what was found.
    """
    whole = machine or Machine()
    jobs = stage_list.read_stage_list(path)
    return [_asking_for(job, lambda stage: (stage.demand[0] * whole.cpu, stage.demand[1] * whole.memory)) for job in jobs]


def _asking_for(job: workload.DagJob, request: Callable[[workload.Stage], tuple[float, float]]) -> DagJob:
    """Return the simulator's job with absolute requests."""
    stages = tuple(Stage(stage.name, stage.tasks, stage.seconds, *request(stage), stage.parents) for stage in job.stages)
    return DagJob(job.name, stages, job.arrival, job.queue)


# --- a generator shaped like TPC-H --------------------------------------------------------------------------------------------

# Quantiles of the TPC-H workload that the BoPF authors replayed (399 jobs). Values between two points are interpolated on a logarithmic
# scale, because all of these are skewed to the right.
STAGES_PER_JOB = ((0.0, 2), (0.5, 8), (0.9, 12), (1.0, 14))
TASKS_PER_JOB = ((0.0, 69), (0.5, 194), (0.9, 449), (1.0, 600))
TASK_SECONDS = ((0.0, 1), (0.1, 6), (0.25, 13), (0.5, 29), (0.75, 52), (0.9, 86), (0.95, 101), (0.99, 138), (1.0, 335))
CPU_FRACTION = ((0.0, 0.145), (1.0, 0.29))  # mean .21
MEMORY_FRACTION = ((0.0, 0.125), (1.0, 0.26))  # mean .185
SHORTEST_CRITICAL_PATH_SECONDS = 41.0
# Correlation of task times within a job: independent times give critical paths that vary too little from job to job.
CORRELATION_WITHIN_JOB = 0.4


def generated_tpch_jobs(seed: int, machine: Machine | None = None) -> Iterator[DagJob]:
    """Yield endless jobs whose stage counts, task counts, task times, demands and critical paths are distributed like TPC-H.

    The same seed gives the same stream. The graph is a join tree: scans feed joins, which feed one aggregation. Most tasks are in a few
    scans, as in TPC-H.
    """
    machine = machine or Machine()
    rng = np.random.default_rng(seed)
    number = 0
    while True:
        number += 1
        yield _generated_job(rng, f"tpch-like-{number}", machine)


def _generated_job(rng: np.random.Generator, name: str, machine: Machine) -> DagJob:
    count = round(_at(STAGES_PER_JOB, rng.random()))
    tasks = _split(rng, round(_at(TASKS_PER_JOB, rng.random())), count)
    parents = _join_tree(rng, count)
    demands = [(_at(CPU_FRACTION, rng.random()) * machine.cpu, _at(MEMORY_FRACTION, rng.random()) * machine.memory) for _ in range(count)]
    while True:
        seconds = _task_seconds(rng, count)
        stages = tuple(Stage(f"stage-{index}", tasks[index], seconds[index], *demands[index], parents[index]) for index in range(count))
        job = DagJob(name, stages)
        if job.critical_path_seconds() >= SHORTEST_CRITICAL_PATH_SECONDS:
            return job


def _task_seconds(rng: np.random.Generator, count: int) -> list[float]:
    """Return the task time of each stage: marginals from the table, correlated within the job (a Gaussian copula, one factor per job)."""
    of_job = rng.standard_normal() * math.sqrt(CORRELATION_WITHIN_JOB)
    of_stage = rng.standard_normal(count) * math.sqrt(1 - CORRELATION_WITHIN_JOB)
    return [_at(TASK_SECONDS, 0.5 * (1 + math.erf((of_job + own) / math.sqrt(2)))) for own in of_stage]


def _at(quantiles: Sequence[tuple[float, float]], level: float) -> float:
    """Return the table's quantile at `level`. With a uniform level it is a draw from the distribution."""
    levels, values = zip(*quantiles, strict=True)
    return float(np.exp(np.interp(level, levels, np.log(values))))


def _split(rng: np.random.Generator, total: int, parts: int) -> list[int]:
    """Split `total` into `parts` positive whole numbers, with most of it in a few of them."""
    weights = rng.dirichlet(np.full(parts, 0.5))
    shares = np.floor(weights * (total - parts)).astype(int) + 1
    shares[np.argmax(shares)] += total - shares.sum()
    return [int(share) for share in shares]


def _join_tree(rng: np.random.Generator, count: int) -> list[tuple[int, ...]]:
    """Return the parents of each stage. The first three fifths are scans; each later one joins up to three unjoined stages, the last joins
    all.
    """
    scans = min(count - 1, math.ceil(count * 0.6))
    unjoined = list(range(scans))
    parents: list[tuple[int, ...]] = [()] * scans
    for index in range(scans, count):
        joins_left = count - index
        take = len(unjoined) if joins_left == 1 else min(len(unjoined), int(rng.integers(1, 4)))
        parents.append(tuple(sorted(unjoined.pop(0) for _ in range(take))))
        unjoined.append(index)
    return parents
