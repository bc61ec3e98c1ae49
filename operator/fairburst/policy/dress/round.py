"""The DRESS part of one round: from jobs, tasks and queue levels to δ, its reasons, and the small part of each level."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.dress.category import size_limit
from fairburst.policy.dress.divide import divide_by_category
from fairburst.policy.dress.learned import Outlook, learn
from fairburst.policy.dress.memory import DressMemory
from fairburst.policy.dress.phases import find_phases
from fairburst.policy.dress.release import by_families, by_phases
from fairburst.policy.dress.reserve import Adjustment, Balance, adjust_reserve, cap_for_waiting, split_free
from fairburst.policy.dress.score import compare, learned_is_better, predict
from fairburst.policy.dress.values import SETTLE_SECONDS, DressConfig, DressResult, JobsPart, StartMode
from fairburst.policy.dress.waiting import Levels, Work, sort_out
from fairburst.policy.drf import put_rows, take_rows
from fairburst.policy.errors import InvalidConfigError, InvalidSnapshotError
from fairburst.policy.tolerance import slack_of


def dress_round(
    levels: Levels, jobs: JobsPart, memory: DressMemory | None, config: DressConfig, now: float
) -> tuple[DressResult, DressMemory]:
    """Adjust δ and divide the levels.

    Parameters
    ----------
    levels : the queues and their levels
    jobs : pending and running jobs and the tasks seen
    memory : the memory that the last round returned; None in the first round
    config : settings
    now : seconds since the epoch

    Returns
    -------
    The outcome and the next memory. The same inputs give the same bytes. A second round at the same time changes nothing.

    Raises
    ------
    InvalidSnapshotError, InvalidConfigError : shapes disagree or a setting is out of range.

    Notes
    -----
    DRESS Algorithms 1 to 3. δ moves at most once in `step_seconds`: each run of Algorithm 3 takes F(t + 1) off the reserve, so more
    frequent runs would count the same release several times. Tasks are read only then. They are in the table for `keep_seconds`, so none
    is missed in between.
    """
    check(levels, jobs, config)
    memory = _kept(memory, config, now)
    work = sort_out(levels, jobs, config)
    estimate = None
    if now >= memory.adjusted_at + config.step_seconds:
        estimate, memory = _estimate(jobs, _learned(memory, jobs, levels.pool, now), config, now)
    free = np.maximum(levels.pool - levels.usage[levels.taking_part].sum(axis=0), 0.0)
    adjustment = _adjustment(levels, work, free, estimate, memory.reserve_ratio, config, now)
    ratio = adjustment.reserve_ratio
    memory = replace(memory, reserve_ratio=ratio, adjusted_at=memory.adjusted_at if estimate is None else now)
    small_free, large_free = split_free(ratio, levels.pool, free, work.small_used)
    startable = _startable(levels, work, small_free, large_free) if config.start_mode is StartMode.WHOLE_JOBS else ()
    result = DressResult(
        reserve_ratio=ratio, small_level=_small_level(levels, work, ratio, config, work.has_waited(config, now)),
        size_limit=size_limit(levels.pool, config.size_threshold), pool=levels.pool, free=free, small_free=small_free,
        large_free=large_free, small_pending=work.small.total, large_pending=work.large.total,
        small_jobs=work.counts[0], large_jobs=work.counts[1], waiting_since=work.waiting_since,
        reason=adjustment.reason, message=adjustment.message, startable=startable, never_fits=work.never_fits,
        estimator="learned" if learned_is_better(memory) else "phases",
        phases_score=memory.phases_score, learned_score=memory.learned_score,
        odd_tasks=0 if estimate is None else estimate.odd_tasks, next_boundary=_next_boundary(work, memory, config, now),
    )  # fmt: skip
    return result, memory


@dataclass(frozen=True, slots=True, eq=False)
class _Estimate:
    """F_1 and F_2 over the next step, by the better estimator."""

    small: FloatArray
    large: FloatArray
    odd_tasks: int


def _estimate(jobs: JobsPart, memory: DressMemory, config: DressConfig, now: float) -> tuple[_Estimate, DressMemory]:
    phases = find_phases(jobs.tasks, config, now)
    outlook = Outlook.of(memory.families, jobs.tasks, now)
    if memory.prediction is None:
        small, large = by_phases(phases, now, config.horizon_seconds)
        learned_small, learned_large = by_families(outlook, config.horizon_seconds)
        memory = predict(memory, small + large, learned_small + learned_large, now, config.horizon_seconds)
    if learned_is_better(memory):
        return _Estimate(*by_families(outlook, config.step_seconds), phases.odd), memory
    return _Estimate(*by_phases(phases, now, config.step_seconds), phases.odd), memory


def _adjustment(
    levels: Levels, work: Work, free: FloatArray, estimate: _Estimate | None, ratio: float, config: DressConfig, now: float
) -> Adjustment:  # fmt: skip
    """Run Algorithm 3 if it is due and so has an `estimate`, and apply the bound on the oldest large job's wait, which always holds."""
    adjustment = Adjustment(ratio, "Unchanged", f"The reserve ratio stays at {ratio:.1%} until the next step.")
    if estimate is not None:
        small_free, large_free = split_free(ratio, levels.pool, free, work.small_used)
        balance = Balance(
            levels.pool, small_free, large_free, estimate.small, estimate.large, work.small.total, work.large.total,
            lambda: (work.small.requests, work.large.requests),
        )  # fmt: skip
        adjustment = adjust_reserve(ratio, balance, config.min_reserve)
    if not work.has_waited(config, now) or not (levels.pool > 0).any():
        return adjustment
    job, request = work.oldest_large
    ratio = cap_for_waiting(adjustment.reserve_ratio, request, levels.pool)
    message = f"Job {job.name} has waited {now - job.submitted:.0f} s: the reserve ratio is at most {ratio:.1%} until it starts."
    return Adjustment(ratio, "LargeWaited", message)


def check(levels: Levels, jobs: JobsPart, config: DressConfig) -> None:
    """Raise an error if shapes disagree or a setting is out of range."""
    width = len(levels.pool)
    count = len(jobs.tasks.job)
    for name, want in (("request", (count, width)), ("started", (count,)), ("ended", (count,)), ("small", (count,)), ("family", (count,))):
        shape = getattr(jobs.tasks, name).shape
        if shape != want:
            raise InvalidSnapshotError(f"tasks, {name}: expected shape {want}, found {shape}")
    fractions = {"size_threshold": config.size_threshold, "initial_reserve": config.initial_reserve, "min_reserve": config.min_reserve}
    for name, value in fractions.items():
        if not 0 <= value <= 1:
            raise InvalidConfigError(f"{name}: expected a fraction between 0 and 1, found {value}")
    seconds = {
        "phase_window_seconds": config.phase_window_seconds, "step_seconds": config.step_seconds,
        "horizon_seconds": config.horizon_seconds, "max_wait_seconds": config.max_wait_seconds,
    }  # fmt: skip
    for name, value in seconds.items():
        if not value > 0:
            raise InvalidConfigError(f"{name}: expected more than 0 seconds, found {value}")
    if min(config.start_threshold, config.end_threshold) < 0:
        raise InvalidConfigError(f"expected thresholds >= 0 tasks, found {config.start_threshold} and {config.end_threshold}")


def _kept(memory: DressMemory | None, config: DressConfig, now: float) -> DressMemory:
    """Return the memory to continue from. After a clock stepped back, adjustments must not stop until it has caught up."""
    if memory is None:
        return DressMemory(max(config.initial_reserve, config.min_reserve))
    if now < memory.adjusted_at:
        return replace(memory, adjusted_at=-math.inf, learned_until=min(memory.learned_until, now - SETTLE_SECONDS))
    return memory


def _learned(memory: DressMemory, jobs: JobsPart, pool: FloatArray, now: float) -> DressMemory:
    """Score the due prediction and add the durations of tasks that have ended since."""
    memory = compare(memory, jobs.tasks, pool, now)
    until = now - SETTLE_SECONDS
    if until <= memory.learned_until:
        return memory
    families = learn(memory.families, jobs.tasks, memory.learned_until, until)
    return replace(memory, families=families, learned_until=until)


def _small_level(levels: Levels, work: Work, ratio: float, config: DressConfig, waited: bool) -> FloatArray:
    """Return (N, K) the small part of each level. Levels of armed queues can exceed the pool; those of participating queues cannot."""
    part = levels.taking_part
    small = np.zeros_like(levels.level)
    if not part.any():
        return small
    rows = np.flatnonzero(part)
    totals, small_demand = take_rows(levels.level, rows), take_rows(work.small_demand, rows)
    large_demand = np.maximum(take_rows(levels.demand, rows) - small_demand, 0.0)
    lend = config.start_mode is StartMode.TASK_BY_TASK
    given, large = divide_by_category(
        totals, small_demand, large_demand, levels.pool, ratio, lend_to_small=lend and not waited, lend_to_large=lend
    )
    # What neither demands is kept for small jobs, as far as the reserve goes: they can then start before they are decided on.
    put_rows(small, rows, np.maximum(given, np.minimum(ratio * totals, totals - large)))
    return small


def _startable(
    levels: Levels, work: Work, small_free: FloatArray, large_free: FloatArray
) -> tuple[str, ...]:  # fmt: skip
    """Return the pending jobs whose full demand fits their category's part and their queue's level, in order within each category.

    The first job that does not fit blocks the rest of its category, but not the other category.
    """
    names: list[str] = []
    slack = slack_of(levels.live_capacity)
    room = levels.level - levels.usage
    for waiting, free in ((work.small, small_free), (work.large, large_free)):
        left = free.copy()
        for job, request in zip(waiting.jobs, waiting.requests, strict=True):
            row = levels.row_of[job.queue]
            if (request > left + slack).any() or (request > room[row] + slack).any():
                break
            left = left - request
            room[row] -= request
            names.append(job.name)
    return tuple(names)


def _next_boundary(work: Work, memory: DressMemory, config: DressConfig, now: float) -> float:
    """Return when δ may move again while a job waits, or when the oldest large job reaches its maximum wait.

    At its floor δ does not move before a small job waits: line 7 of Algorithm 3 can only lower it.
    """
    boundary = math.inf
    if work.small.places.size or (work.large.places.size and memory.reserve_ratio > config.min_reserve):
        boundary = memory.adjusted_at + config.step_seconds
    since = work.waiting_since
    if since is not None and since + config.max_wait_seconds > now:
        boundary = min(boundary, since + config.max_wait_seconds)
    return boundary
