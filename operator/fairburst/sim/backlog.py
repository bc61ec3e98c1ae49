"""The jobs of all queues in a run: waiting tasks in their order, and the use of the cluster. In millionths of a resource unit.

The engine starts and ends tasks. This module decides nothing and keeps the sums that a round needs.
"""

from __future__ import annotations

import bisect
import itertools
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from fairburst.policy.arrays import BoolArray, IntArray
from fairburst.policy.model import WaitingPods
from fairburst.sim.cluster import MILLIONTHS
from fairburst.sim.dress_jobs import DressJob, DressJobs, DressTasks
from fairburst.sim.sink import JobRecord
from fairburst.sim.workload import DagJob


@dataclass(slots=True, eq=False)
class LiveJob:
    """A job in the cluster. `serial`: its place in its queue. `offered`: stages with tasks to start, in the order they became runnable.
    `whole`: its tasks start together or not at all."""

    spec: DagJob
    queue: int
    serial: int
    record: JobRecord
    demand: list[IntArray]
    pending: list[int]
    unfinished: list[int]
    waits_for: list[int]
    stages_left: int
    offered: list[int] = field(default_factory=list)
    whole: bool = False

    @classmethod
    def submitted(cls, spec: DagJob, queue: int, serial: int, record: JobRecord) -> LiveJob:
        """Return a job of which no task has started. `queue`: its row."""
        tasks = [stage.tasks for stage in spec.stages]
        return cls(
            spec, queue, serial, record,
            demand=[np.round(np.array(stage.demand) * MILLIONTHS).astype(np.int64) for stage in spec.stages],
            pending=list(tasks), unfinished=list(tasks),
            waits_for=[len(stage.parents) for stage in spec.stages], stages_left=len(spec.stages),
        )  # fmt: skip

    def end_stage(self, stage: int) -> list[int]:
        """Note that a stage has ended. Return the stages that now wait for no other."""
        self.stages_left -= 1
        freed = []
        for index, below in enumerate(self.spec.stages):
            if stage in below.parents:
                self.waits_for[index] -= 1
                if self.waits_for[index] == 0:
                    freed.append(index)
        return freed

    @property
    def need(self) -> IntArray:
        """(K,) demand of all its waiting tasks together."""
        need: IntArray = np.sum([count * demand for count, demand in zip(self.pending, self.demand, strict=True)], axis=0)
        return need

    def waiting(self) -> list[tuple[IntArray, int]]:
        """Return the demand of one waiting task and their number, by stage. A job that starts whole waits as one task."""
        return [(self.need, 1)] if self.whole else [(self.demand[stage], self.pending[stage]) for stage in self.offered]


@dataclass(slots=True, eq=False)
class Batch:
    """Tasks of one stage started together on one node."""

    job: LiveJob
    stage: int
    node: int
    count: int
    started: float
    dress_tasks: DressTasks | None = None


class Backlog:
    """Work of N queues over K resources. A class because its lifetime is the run's.

    usage, pending, demand: (N, K) of running tasks, of those that may start, and of both as far as the cluster could hold them.
    unit: (N, K) of the first waiting task. offering: by queue, the jobs with tasks to start, in the order of submission. next_tasks: by
    queue, the waiting tasks as the core sees them. stale: rows to compute again before the next round. dress_jobs: the jobs for DRESS.
    """

    def __init__(self, queues: int, resources: int, dress_jobs: DressJobs | None) -> None:
        self.usage, self.pending, self.unit, self.demand = (np.zeros((queues, resources), dtype=np.int64) for _ in range(4))
        self.next_tasks: list[list[tuple[IntArray, int]]] = [[] for _ in range(queues)]
        self.offering: list[list[tuple[int, LiveJob]]] = [[] for _ in range(queues)]
        self._unfinished: list[dict[int, LiveJob]] = [{} for _ in range(queues)]  # by serial, oldest first; may hold ended jobs
        self.stale = set(range(queues))
        self.dress_jobs = dress_jobs

    def offer(self, job: LiveJob, stages: list[int]) -> None:
        """Let these stages of the job start."""
        if not stages:
            return
        self._unfinished[job.queue][job.serial] = job
        self._oldest_job(job.queue)
        if not job.offered:
            bisect.insort(self.offering[job.queue], (job.serial, job), key=lambda item: item[0])
        for stage in stages:
            job.offered.append(stage)
            self.more_pending(job, stage, job.pending[stage])
        self.stale.add(job.queue)

    def more_pending(self, job: LiveJob, stage: int, count: int) -> None:
        """Add `count` tasks of the stage, which may be negative, to the waiting ones."""
        self.pending[job.queue] += job.demand[stage] * count
        dress_job = self.dress_job(job)
        if dress_job is not None:
            dress_job.offered += job.demand[stage] * count

    def oldest_jobs(self, queues: BoolArray) -> Iterator[tuple[int, float]]:
        """Yield, for each of the `queues` with unfinished jobs, its row and the arrival of the oldest one."""
        for row in np.flatnonzero(queues).tolist():
            if (job := self._oldest_job(row)) is not None:
                yield row, job.record.arrival

    def _oldest_job(self, row: int) -> LiveJob | None:
        """Return the first unfinished job, and forget the jobs before it."""
        jobs = self._unfinished[row]
        while jobs:
            serial, job = next(iter(jobs.items()))
            if job.stages_left:
                return job
            del jobs[serial]
        return None

    def dress_job(self, job: LiveJob) -> DressJob | None:
        """Return DRESS's record of the job; None for jobs of latency queues, and without DRESS."""
        return None if self.dress_jobs is None else self.dress_jobs.jobs.get(job.serial)

    def start(self, job: LiveJob, stage: int, count: int) -> None:
        """Start `count` tasks of an offered stage."""
        self.usage[job.queue] += job.demand[stage] * count
        self.more_pending(job, stage, -count)
        job.pending[stage] -= count
        self.stale.add(job.queue)
        if job.pending[stage] == 0:
            job.offered.remove(stage)

    def leave(self, job: LiveJob, stage: int, count: int) -> None:
        """Remove `count` tasks of a stage from the usage."""
        self.usage[job.queue] -= job.demand[stage] * count
        self.stale.add(job.queue)

    def put_back(self, job: LiveJob, stage: int, count: int) -> None:
        """Let lost tasks wait again, before those of their stage that never ran."""
        if job.pending[stage] == 0:
            if not job.offered:
                bisect.insort(self.offering[job.queue], (job.serial, job), key=lambda item: item[0])
            job.offered.insert(0, stage)
        job.pending[stage] += count
        self.more_pending(job, stage, count)

    def refresh(self, total: IntArray) -> None:
        """Compute the stale rows again. `total`: (K,) of the cluster."""
        for row in self.stale:
            self._refresh(row, total)
        self.stale.clear()

    def waiting_pods(self) -> WaitingPods:
        """Return the waiting tasks for the core. A queue starts its first job first, and a task that doesn't fit holds up the rest."""
        lines = [(row, *line) for row, waiting in enumerate(self.next_tasks) for line in waiting]
        row, request, count = zip(*lines, strict=True) if lines else ((), (), ())
        width = self.usage.shape[1]
        return WaitingPods(
            np.array(row, dtype=np.int64), np.array(request, dtype=np.float64).reshape(-1, width) / MILLIONTHS,
            np.array(count, dtype=np.float64), in_order=True,
        )  # fmt: skip

    def _refresh(self, row: int, total: IntArray) -> None:
        """Compute a queue's demand: its running tasks, and its waiting ones in order, as far as the whole cluster could hold them."""
        wanted, most, lines = self.usage[row].tolist(), total.tolist(), []  # plain numbers: few resources, many lines
        for demand, count in itertools.chain.from_iterable(job.waiting() for _, job in self.offering[row]):
            wanted = [amount + count * need for amount, need in zip(wanted, demand.tolist(), strict=True)]
            lines.append((demand, count))
            if any(map(operator.ge, wanted, most)):
                break
        self.demand[row], self.next_tasks[row] = wanted, lines
        if self.offering[row]:
            first = self.offering[row][0][1]
            self.unit[row] = first.demand[first.offered[0]]
        elif not self.usage[row].any():
            self.unit[row] = 0


def permitted(allocation: list[int], usage: list[int], demand: list[int], most: int) -> int:
    """Return how many more tasks may start: as long as use is below the allocation in all their resources. The last may exceed it."""
    count = most
    for allowed, used, need in zip(allocation, usage, demand, strict=True):
        if need > 0:
            room = allowed - used
            # a remainder smaller than a thousandth of a task is a rounding error, not room
            count = min(count, 0 if room * 1000 <= need else -(-room // need))
    return max(count, 0)
