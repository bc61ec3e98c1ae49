"""The jobs of one round of DRESS, sorted: small or large, waiting and for how much, too large to run. This module decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.dress.category import is_small
from fairburst.policy.dress.values import DemandCategory, DressConfig, Job, JobsPart, NeverFits, StartMode
from fairburst.policy.errors import InvalidSnapshotError
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


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """Jobs of one category that have tasks to start, in order of service (submitted, name), and the missing amounts (n, K)."""

    jobs: Sequence[Job]
    requests: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """The sorted jobs of a round.

    small_demand: (N, K) total demand of small jobs.
    oldest_large: the first large job without running tasks, and its request.
    small_used: (K,).
    counts: numbers of small and large jobs.
    """

    small_demand: FloatArray
    small: Waiting
    large: Waiting
    oldest_large: tuple[Job, FloatArray] | None
    never_fits: tuple[NeverFits, ...]
    counts: tuple[int, int]
    small_used: FloatArray

    @property
    def waiting_since(self) -> float | None:
        """When the oldest large job without running tasks was submitted."""
        return None if self.oldest_large is None else self.oldest_large[0].submitted

    def has_waited(self, config: DressConfig, now: float) -> bool:
        """Return whether the oldest large job has reached its maximum wait."""
        since = self.waiting_since
        return since is not None and now - since >= config.max_wait_seconds


def sort_out(levels: Levels, jobs: JobsPart, config: DressConfig) -> Work:
    """Sort the jobs of participating queues. Jobs of other queues, or of queues that no longer exist, are ignored.

    A whole job waits until it runs. Task by task, a running job waits for the rest of its tasks, and no job waits for more than the pool.
    Raises InvalidSnapshotError if a job's amounts are not K finite numbers >= 0.
    """
    row_of, takes_part = levels.row_of, [*levels.taking_part.tolist(), False]
    running = [job for job in jobs.running if takes_part[row_of.get(job.queue, -1)]]
    listed = running + [job for job in jobs.pending if takes_part[row_of.get(job.queue, -1)]]
    width = len(levels.pool)
    is_running = np.arange(len(listed)) < len(running)
    request = _stacked(listed, [job.request for job in listed], width)
    wanted = _stacked(listed, [job.request if job.wanted is None else job.wanted for job in listed], width)
    reported = np.array([job.used is not None for job in listed], dtype=np.bool_)
    held = _stacked(listed, [job.request if job.used is None else job.used for job in listed], width)
    held = np.where(reported[:, None], held, np.where(is_running[:, None], wanted, 0.0))
    small = _fixed_or_now(listed, is_small(request, levels.pool, config.size_threshold))
    whole = config.start_mode is StartMode.WHOLE_JOBS
    too_large = ~is_running & (request > levels.live_capacity + slack_of(levels.live_capacity)).any(axis=1)
    missing = np.maximum(wanted - held, 0.0)
    waits = (missing > 0).any(axis=1)
    if whole:
        waits &= ~is_running & ~too_large
    else:
        missing = np.minimum(missing, levels.pool)
    rows = np.array([row_of[job.queue] for job in listed], dtype=np.int64)
    small_demand = np.zeros_like(levels.level)
    np.add.at(small_demand, rows[small], np.maximum(wanted, held)[small])
    size = _sizes(request, levels.pool) if config.smallest_first else np.zeros(len(listed))
    large = _waiting(listed, missing, waits & ~small, size)
    under_way = {id(job) for job in running}
    whole_jobs = [entry for entry in zip(large.jobs, large.requests, strict=True) if id(entry[0]) not in under_way]
    oldest = min(whole_jobs, key=lambda entry: (entry[0].submitted, entry[0].name), default=None)
    never = sorted((_never_fits(listed[at], levels) for at in np.flatnonzero(too_large)), key=lambda item: (item.queue, item.job))
    counts = np.array([job.count for job in listed], dtype=np.int64)
    return Work(
        np.minimum(small_demand, levels.demand), _waiting(listed, missing, waits & small, size), large, oldest, tuple(never),
        (int(counts[small].sum()), int(counts[~small].sum())), held[small].sum(axis=0),
    )  # fmt: skip


def _stacked(jobs: Sequence[Job], amounts: Sequence[FloatArray], width: int) -> FloatArray:
    """Stack n vectors into (n, K)."""
    if {amount.shape for amount in amounts} - {(width,)}:
        job, found = next((job.name, amount) for job, amount in zip(jobs, amounts, strict=True) if amount.shape != (width,))
        raise InvalidSnapshotError(f"job {job}: expected {width} amounts, found {found}")
    result: FloatArray = np.concatenate([np.zeros(0), *amounts]).reshape(len(amounts), width)
    odd = np.flatnonzero(~((result >= 0) & (result < np.inf)).all(axis=1))
    if odd.size:
        raise InvalidSnapshotError(f"job {jobs[odd[0]].name}: expected finite amounts >= 0, found {result[odd[0]]}")
    return result


def _fixed_or_now(jobs: Sequence[Job], small_now: BoolArray) -> BoolArray:
    """Return (n,) whether jobs are small: by the category fixed at submission, otherwise by this round's pool."""
    known = np.array([job.category is not None for job in jobs], dtype=np.bool_)
    fixed = np.array([job.category is DemandCategory.SMALL for job in jobs], dtype=np.bool_)
    result: BoolArray = np.where(known, fixed, small_now)
    return result


def _sizes(request: FloatArray, pool: FloatArray) -> FloatArray:
    """Return (n,) dominant shares of the pool."""
    share: FloatArray = np.divide(request, pool, out=np.zeros_like(request), where=pool > 0).max(axis=1, initial=0.0)
    return share


def _waiting(jobs: Sequence[Job], missing: FloatArray, which: BoolArray, size: FloatArray) -> Waiting:
    places, sizes = np.flatnonzero(which).tolist(), size[which].tolist()
    keys = sorted((share, jobs[at].submitted, jobs[at].name, at) for share, at in zip(sizes, places, strict=True))
    order = [key[-1] for key in keys]
    return Waiting([jobs[at] for at in order], missing[order])


def _never_fits(job: Job, levels: Levels) -> NeverFits:
    at = int(np.argmax(job.request - levels.live_capacity))
    return NeverFits(
        job.name, job.queue, "NeverFits",
        f"Job {job.name} requests {job.request[at]:g} {levels.resources[at]} in all and the pool has {levels.live_capacity[at]:g}: "
        "it can never run whole at one time.",
    )  # fmt: skip
