"""Figures of one run, from the lives of its pods. Pure: no clock, no cluster. Places are counted, because every pod of a run has one size.

Burst times count from the reception of the burst's first Job to the answer of its last pod's binding, or to its last pod's end.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.peers.audit import JobLife, PodLife


@dataclass(frozen=True, slots=True)
class SentBurst:
    """A burst as it was sent: its Jobs, its pods, and the seconds within which all of it should be done."""

    queue: str
    jobs: tuple[str, ...]
    pods: int
    deadline: float


@dataclass(frozen=True, slots=True)
class BurstTimes:
    """The times of one burst, in seconds from its arrival; infinite if the run ended before."""

    queue: str
    bound: float
    done: float
    met: bool
    pod_waits: tuple[float, ...] = ()


def burst_times(burst: SentBurst, jobs: Mapping[tuple[str, str], JobLife]) -> BurstTimes:
    """Return the times of a burst. A killed pod counts as never bound; its successor counts."""
    lives = [jobs[burst.queue, name] for name in burst.jobs if (burst.queue, name) in jobs]
    if not lives:
        return BurstTimes(burst.queue, math.inf, math.inf, False)
    arrival = min(job.created for job in lives)
    kept = [pod for job in lives for pod in job.pods if pod.killed is None]
    waits = sorted(pod.bound - arrival for pod in kept if pod.bound is not None)
    ends = [pod.ended - arrival for pod in kept if pod.ended is not None]
    bound = waits[-1] if len(waits) >= burst.pods else math.inf
    done = max(ends) if len(ends) >= burst.pods else math.inf
    return BurstTimes(burst.queue, bound, done, done <= burst.deadline, tuple(waits))


def place_seconds(pods: Iterable[PodLife], start: float, end: float) -> dict[str, float]:
    """Return, by queue, the place-seconds held in [start, end)."""
    held: dict[str, float] = {}
    for pod in pods:
        if pod.bound is not None:
            until = end if pod.released is None else min(pod.released, end)
            held[pod.queue] = held.get(pod.queue, 0.0) + max(0.0, until - max(pod.bound, start))
    return held


def lost_seconds(pods: Iterable[PodLife]) -> float:
    """Return the place-seconds that killed pods had run."""
    return sum(pod.killed - pod.bound for pod in pods if pod.killed is not None and pod.bound is not None)


def fairness_errors(
    held: Mapping[str, float], weights: Mapping[str, float], backlogged: Iterable[str], capacity: float
) -> dict[str, float]:
    """Return, by backlogged queue, |held − entitled| as a fraction of `capacity`.

    held, capacity: place-seconds of the same interval. A backlogged queue is entitled to its weight's part of what all backlogged queues
    held together: a queue that demands less than its share leaves the rest to the others. Unused places are not part of this figure
    (`use` shows them).
    """
    chosen = sorted(backlogged)
    total = sum(held.get(queue, 0.0) for queue in chosen)
    weight = sum(weights[queue] for queue in chosen)
    return {queue: abs(held.get(queue, 0.0) - total * weights[queue] / weight) / capacity for queue in chosen}


def excess_over_fair(held: float, weight: float, weights: Iterable[float], capacity: float) -> float:
    """Return how far one queue's part of `capacity` is above w / sum of w; negative below."""
    return held / capacity - weight / sum(weights)


def bound_per_second(jobs: Iterable[JobLife]) -> float:
    """Return pods bound a second, from the first Job received to the last binding; 0 without any."""
    known = [job for job in jobs if job.pods]
    if not known:
        return 0.0
    times = [pod.bound for job in known for pod in job.pods if pod.bound is not None]
    return len(times) / (max(times) - min(job.created for job in known))


def last_end(jobs: Iterable[JobLife]) -> float:
    """Return the seconds from the first Job received to the last pod's end; infinite if a bound pod has not ended."""
    known = list(jobs)
    ends = [math.inf if pod.ended is None else pod.ended for job in known for pod in job.pods if pod.killed is None]
    return max(ends) - min(job.created for job in known) if ends else math.inf


def mean_job_seconds(jobs: Iterable[JobLife], pods: int) -> float:
    """Return the mean time from a Job's creation to the end of its last pod, over the Jobs of `pods` pods that are done."""
    times = [max(pod.ended or 0.0 for pod in job.pods) - job.created for job in jobs if job.ended == pods]
    return statistics.fmean(times) if times else math.nan


def percentile(values: Sequence[float], part: float) -> float:
    """Return the nearest-rank percentile (`part` in 0 to 1); nan for none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)] if ordered else math.nan
