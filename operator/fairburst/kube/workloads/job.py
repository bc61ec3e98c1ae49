"""Jobs: how many pods they want at once, and which of them are held. Pure.

CronJobs and Spark need no kind of their own: they create Jobs and pods like any other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from fairburst.bounds import bounded_count
from fairburst.kube.api.objects import Job, JobSpec, UncountedPods
from fairburst.kube.names import HELD_ANNOTATION
from fairburst.kube.workloads.kind import Controllers, CountedPods, Suspendable, WorkloadKind

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def is_held(job: Suspendable) -> bool:
    """Return whether the object is suspended until fairburst starts it, and not by its user."""
    return bool(job.spec.suspend) and HELD_ANNOTATION in (job.metadata.annotations or {})


def completions_left(job: Job, pods: CountedPods) -> float:
    """Return how many pods of the Job have still to succeed. If it declares no number: infinity before the first success, and then its
    present pods, since the Job controller creates no more.

    The Job controller counts ended pods late: by a second, or by minutes where it is behind. Until then they are taken as succeeded: if one
    has failed, its successor is wanted, and created, when it has been counted. While the status has more pods as active than there are, the
    controller has not looked since the others ended. New pods that are not in the index yet look the same, so only ends that it has seen
    count. Indexes that have failed for good (`backoffLimitPerIndex`) get no successors.
    """
    succeeded, failed = _counted(job)
    if job.spec.completions is None:
        return pods.active - pods.terminating if succeeded else math.inf
    uncounted = max(0, min(max(pods.lately, _active_and_gone(job, pods)), pods.ended - succeeded - failed))
    return max(0, job.spec.completions - succeeded - uncounted - _indexes(job.status.failed_indexes))


def earlier_ends(job: Job, pods: CountedPods) -> tuple[int, int]:
    """Return how many pods of the Job have ended by its status, and how many more must have ended: it has them as active, and they are not
    there. `pods`: as listed at the start of this process, which has seen none of these end.
    """
    return sum(_counted(job)), max(0, _active_and_gone(job, pods))


def _counted(job: Job) -> tuple[int, int]:
    """Return how many pods have succeeded and failed by the Job's status."""
    counting = job.status.uncounted_terminated_pods or UncountedPods()
    return job.status.succeeded + len(counting.succeeded or ()), job.status.failed + len(counting.failed or ())


def _active_and_gone(job: Job, pods: CountedPods) -> int:
    """Return how many more pods the Job's status has as active than there are; negative if some are newer than the status."""
    return job.status.active - (pods.active - pods.terminating)


def _indexes(text: str | None) -> int:
    """Return how many indexes a text such as "1,3-5" names."""
    return sum(int(last or first) - int(first) + 1 for first, last in _RANGE.findall(text or ""))


def pods_at_once(spec: JobSpec) -> int:
    """Return how many pods a Job wants to run at once, whether or not it is suspended now."""
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    return parallelism if spec.completions is None else min(parallelism, spec.completions)


def _creating_pods(controllers: Controllers) -> Iterable[Job]:
    """Return Kubernetes' own Jobs that may still get pods: none that has ended, is being deleted or is suspended by its user."""
    return (
        job
        for job in controllers.of("Job")
        if not job.managed_elsewhere
        and job.metadata.deletion_timestamp is None
        and (not job.spec.suspend or is_held(job))
        and not job.finished
    )


def pods_wanted(job: Job, pods: CountedPods) -> int:
    """Return how many pods a Job still wants at once, its present ones among them."""
    return bounded_count(int(min(pods_at_once(job.spec), completions_left(job, pods))))


def new_pods(job: Job, pods: CountedPods) -> int:
    """Return how many pods the Job lacks that have never existed. The others that it lacks replace pods that have ended, whether or not the
    Job controller has counted these.
    """
    ended = max(sum(_counted(job)), pods.ended)
    return max(0, bounded_count(pods_at_once(job.spec)) - (pods.active - pods.terminating) - ended)


def is_reached(job: Job) -> bool:
    """Return whether the Job controller has processed the Job. It notes the start as it does, whether or not a quota refused its pods."""
    return job.status.start_time is not None


def is_due(job: Job, pods: CountedPods) -> bool:
    """Return whether the Job controller has still to look at the Job, because pods of it have ended: its status has more as active."""
    return _active_and_gone(job, pods) > 0


KIND = WorkloadKind(
    "Job", "batch", "v1", "jobs", Job,
    suspends=True, creates_pods=True, wanting=_creating_pods, wanted=pods_wanted, reached=is_reached, due=is_due,
    new=new_pods,
)  # fmt: skip
