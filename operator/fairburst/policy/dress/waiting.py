"""The jobs of one round of DRESS, sorted: small or large, waiting and for how much, too large to run. This module decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.dress.category import is_small
from fairburst.policy.dress.job_columns import JobColumns, QueueNumbers, joined
from fairburst.policy.dress.values import DressConfig, Job, JobsPart, NeverFits, StartMode
from fairburst.policy.drf import row_any
from fairburst.policy.tolerance import slack_of


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """The result of fair sharing for N queues.

    row_of: queue name to row.
    demand, usage, level: (N, K).
    taking_part: (N,) queues whose level is divided.
    resources: K names.
    live_capacity, pool: (K,). The pool is Tot_R, the capacity left to the participating queues.
    """

    row_of: Mapping[str, int]
    resources: tuple[str, ...]
    demand: FloatArray
    usage: FloatArray
    level: FloatArray
    taking_part: BoolArray
    live_capacity: FloatArray
    pool: FloatArray


@dataclass(frozen=True, eq=False)
class Waiting:
    """Jobs of one category that have tasks to start.

    listed: all n jobs of the round. places: the waiting ones among them, in any order. missing: (n, K) amounts to start.
    Their order of service is that of submission, then of names. size: (n,) dominant shares; then the smallest job is first.
    """

    listed: JobColumns
    places: IntArray
    missing: FloatArray
    size: FloatArray | None

    @property
    def total(self) -> FloatArray:
        """(K,) the sum of their missing amounts."""
        total: FloatArray = self.missing[self.places].sum(axis=0)
        return total

    @cached_property
    def order(self) -> list[int]:
        """Their places in order of service. Few rounds read it: sorting ten thousand jobs takes longer than the rest of a round."""
        jobs, submitted = self.listed.jobs, self.listed.submitted.tolist()
        order = sorted(self.places.tolist(), key=lambda at: (submitted[at], jobs[at].name))
        return order if self.size is None else sorted(order, key=self.size.__getitem__)

    @property
    def jobs(self) -> list[Job]:
        """The jobs in order of service."""
        return [self.listed.jobs[at] for at in self.order]

    @property
    def requests(self) -> FloatArray:
        """Their missing amounts in order of service, one row for each."""
        return self.missing[self.order]


@dataclass(frozen=True, eq=False)
class Work:
    """The sorted jobs of a round.

    small_demand: (N, K) total demand of small jobs.
    unstarted: the places of large jobs without running tasks.
    small_used: (K,).
    counts: numbers of small and large jobs.
    """

    small_demand: FloatArray
    small: Waiting
    large: Waiting
    unstarted: IntArray
    never_fits: tuple[NeverFits, ...]
    counts: tuple[int, int]
    small_used: FloatArray

    @cached_property
    def waiting_since(self) -> float | None:
        """When the oldest large job without running tasks was submitted."""
        return float(self.large.listed.submitted[self.unstarted].min()) if self.unstarted.size else None

    @property
    def oldest_large(self) -> tuple[Job, FloatArray]:
        """That job, the first by name of several, and its missing amounts. Thousands may come in one second.

        Raises ValueError if there is none.
        """
        listed = self.large.listed
        first = self.unstarted[listed.submitted[self.unstarted] == self.waiting_since]
        at = int(first[listed.name[first].argmin()])
        return listed[at], self.large.missing[at]

    def has_waited(self, config: DressConfig, now: float) -> bool:
        """Return whether the oldest large job has reached its maximum wait."""
        since = self.waiting_since
        return since is not None and now - since >= config.max_wait_seconds


def sort_out(levels: Levels, jobs: JobsPart, config: DressConfig) -> Work:
    """Sort the jobs of participating queues. Jobs of other queues, or of queues that no longer exist, are ignored.

    A whole job waits until it runs. Task by task, a running job waits for the rest of its tasks, and no job waits for more than the pool.
    Raises InvalidSnapshotError if a job's amounts are not K finite numbers >= 0.
    """
    listed, rows, is_running = _participating(levels, jobs)
    request, wanted = listed.request, listed.wanted
    held = _held(listed, is_running)
    small = listed.small
    if not listed.fixed.all():
        small = np.where(listed.fixed, small, is_small(request, levels.pool, config.size_threshold))
    whole = config.start_mode is StartMode.WHOLE_JOBS
    too_large = ~is_running & row_any(request > levels.live_capacity + slack_of(levels.live_capacity))
    missing = np.maximum(wanted - held, 0.0)
    waits = row_any(missing > 0)
    if whole:
        waits &= ~is_running & ~too_large
    else:
        missing = np.minimum(missing, levels.pool)
    size = _sizes(request, levels.pool) if config.smallest_first else None
    never = sorted((_never_fits(listed[at], levels) for at in np.flatnonzero(too_large).tolist()), key=lambda item: (item.queue, item.job))
    return Work(
        np.minimum(_sum_by_row(rows[small], np.maximum(wanted, held)[small], len(levels.level)), levels.demand),
        Waiting(listed, np.flatnonzero(waits & small), missing, size),
        Waiting(listed, np.flatnonzero(waits & ~small), missing, size),
        np.flatnonzero(waits & ~small & ~is_running),
        tuple(never),
        (int(listed.stands_for[small].sum()), int(listed.stands_for[~small].sum())),
        held[small].sum(axis=0),
    )


def _held(listed: JobColumns, is_running: BoolArray) -> FloatArray:
    """Return (n, K) what each job has: all that it wants if it runs and does not say what it uses."""
    if listed.reports.all():
        return listed.used
    held: FloatArray = np.where(listed.reports[:, None], listed.used, np.where(is_running[:, None], listed.wanted, 0.0))
    return held


def _sum_by_row(rows: IntArray, amounts: FloatArray, count: int) -> FloatArray:
    """Return (N, K) the sums of (n, K) amounts by their row, zero for rows without any. N is `count`."""
    columns = [np.bincount(rows, weights=amounts[:, column], minlength=count) for column in range(amounts.shape[1])]
    return np.array(columns, dtype=np.float64).T


def _participating(levels: Levels, jobs: JobsPart) -> tuple[JobColumns, IntArray, BoolArray]:
    """Return the n jobs of participating queues, running ones first; (n,) their queues' rows, and (n,) whether they run."""
    width = len(levels.pool)
    numbers = next((part.numbers for part in (jobs.running, jobs.pending) if isinstance(part, JobColumns)), QueueNumbers())
    running, pending = JobColumns.of(jobs.running, width, numbers), JobColumns.of(jobs.pending, width, numbers)
    listed = joined(running, pending)
    rows = numbers.rows(levels.row_of)[listed.queue]
    is_running = np.arange(len(listed)) < len(running)
    part = np.append(levels.taking_part, False)[rows]  # a queue that no longer exists takes no part
    return (listed, rows, is_running) if part.all() else (listed.where(part), rows[part], is_running[part])


def _sizes(request: FloatArray, pool: FloatArray) -> FloatArray:
    """Return (n,) dominant shares of the pool."""
    share: FloatArray = np.divide(request, pool, out=np.zeros_like(request), where=pool > 0).max(axis=1, initial=0.0)
    return share


def _never_fits(job: Job, levels: Levels) -> NeverFits:
    at = int(np.argmax(job.request - levels.live_capacity))
    return NeverFits(
        job.name, job.queue, "NeverFits",
        f"Job {job.name} requests {job.request[at]:g} {levels.resources[at]} in all and the pool has {levels.live_capacity[at]:g}: "
        "it can never run whole at one time.",
    )  # fmt: skip
