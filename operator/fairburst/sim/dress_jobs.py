"""A run's jobs and tasks in the form that DRESS needs: builds a JobsPart from the tasks that the engine starts and ends."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray, IntArray
from fairburst.policy.dress.category import category_of
from fairburst.policy.dress.values import DemandCategory, DressConfig, Job, JobsPart, TaskTable, keep_seconds
from fairburst.sim.cluster import MILLIONTHS
from fairburst.sim.workload import DagJob


@dataclass(slots=True, eq=False)
class DressTasks:
    """`count` tasks of one stage of one job that started together. Times on the core's clock."""

    serial: int
    small: bool
    request: FloatArray
    family: str
    count: int
    started: float
    ended: float = math.nan


@dataclass(slots=True, eq=False)
class DressJob:
    """One job. request: its total peak request. held, offered: amounts of running and of startable tasks, in millionths."""

    serial: int
    queue: str
    spec: DagJob
    submitted: float
    request: FloatArray
    category: DemandCategory
    held: IntArray
    offered: IntArray
    started: bool = False

    @property
    def name(self) -> str:
        """The job's name, unique in the run."""
        return f"{self.serial}"


class DressJobs:
    """Open jobs and recent tasks of one run."""

    def __init__(self, config: DressConfig, small_work_seconds: float | None = None) -> None:
        self.config = config
        self._small_work_seconds = small_work_seconds
        self.jobs: dict[int, DressJob] = {}
        self.tasks: list[DressTasks] = []
        self.held: dict[tuple[str, DemandCategory], IntArray] = {}

    def submit(self, serial: int, queue: str, spec: DagJob, pool: FloatArray, now: float) -> DressJob:
        """Add a job and fix its category."""
        request = np.array(spec.peak, dtype=np.float64)
        size = request
        if self._small_work_seconds is not None:
            work = np.array([[stage.tasks * stage.seconds * amount for amount in stage.demand] for stage in spec.stages]).sum(axis=0)
            size = work / self._small_work_seconds
        category = category_of(size, pool, self.config.size_threshold)
        nothing = np.zeros(len(pool), dtype=np.int64)
        job = DressJob(serial, queue, spec, now, request, category, nothing.copy(), nothing.copy())
        self.jobs[serial] = job
        self.held.setdefault((queue, category), nothing.copy())
        return job

    def start(self, serial: int, stage: int, demand: IntArray, count: int, now: float) -> DressTasks:
        """Record that `count` tasks start."""
        job = self.jobs[serial]
        job.started = True
        job.held += demand * count
        self.held[job.queue, job.category] += demand * count
        small = job.category is DemandCategory.SMALL
        tasks = DressTasks(serial, small, demand / MILLIONTHS, _family(job.spec, stage), count, now)
        self.tasks.append(tasks)
        return tasks

    def end(self, tasks: DressTasks, demand: IntArray, count: int, now: float) -> None:
        """Record that `count` of the tasks end: all of them, unless some are lost."""
        if count == tasks.count:
            tasks.ended = now
        tasks.count = count if count == tasks.count else tasks.count - count
        job = self.jobs[tasks.serial]
        job.held -= demand * count
        self.held[job.queue, job.category] -= demand * count

    def leave(self, serial: int) -> None:
        """Remove a job that has ended."""
        del self.jobs[serial]

    def part(self, width: int, now: float) -> JobsPart:
        """Return the input of DRESS at `now`."""
        oldest = now - keep_seconds(self.config)
        self.tasks = [tasks for tasks in self.tasks if tasks.serial in self.jobs or not tasks.ended < oldest]
        listed: tuple[list[Job], list[Job]] = ([], [])
        for job in self.jobs.values():
            held = job.held / MILLIONTHS
            wanted = held + job.offered / MILLIONTHS if job.started else job.request
            family = _family(job.spec, 0)
            listed[job.started].append(Job(job.name, job.queue, job.submitted, job.request, job.category, wanted, held, family))
        return JobsPart(*listed, _table(self.tasks, width))


def _family(spec: DagJob, stage: int) -> str:
    """Return the name of a recurring job's stage. The text after "~" distinguishes variants, which cannot be known beforehand."""
    return f"{spec.name}/{spec.stages[stage].name.partition('~')[0]}"


def _table(tasks: list[DressTasks], width: int) -> TaskTable:
    tasks = sorted(tasks, key=lambda one: (one.serial, one.started))
    families = tuple(sorted({one.family for one in tasks}))
    place = {name: at for at, name in enumerate(families)}
    count = np.array([one.count for one in tasks], dtype=np.int64)
    return TaskTable(
        job=np.repeat(np.array([one.serial for one in tasks], dtype=np.int64), count),
        small=np.repeat(np.array([one.small for one in tasks], dtype=np.bool_), count),
        request=np.repeat(np.array([one.request for one in tasks], dtype=np.float64).reshape(len(tasks), width), count, axis=0),
        started=np.repeat(np.array([one.started for one in tasks], dtype=np.float64), count),
        ended=np.repeat(np.array([one.ended for one in tasks], dtype=np.float64), count),
        family=np.repeat(np.array([place[one.family] for one in tasks], dtype=np.int64), count),
        families=families,
        by_start=True,
    )
