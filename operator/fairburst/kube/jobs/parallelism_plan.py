"""Which Jobs get another spec.parallelism now, and which get theirs back. Pure; what was changed and when is noted on the Job itself.

A change is made at most once an interval, only if it is worth it, and never takes a pod that is about to complete: the Job controller
deletes the newest pods first, so a lower bound on how many stay is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fairburst.kube.api.objects import Job
from fairburst.kube.jobs.elastic_jobs import Candidate
from fairburst.kube.queues.job_annotations import Mark, mark_annotations, original_parallelism, parallelism_of, read_mark
from fairburst.policy.paf.curves import progress_rates
from fairburst.policy.paf.jobs import SlotDecision


@dataclass(frozen=True, slots=True)
class ParallelismWrite:
    """A new spec.parallelism. `mark` None takes our notes off: the Job is its owner's again. Valid for `resource_version` only."""

    namespace: str
    name: str
    resource_version: str
    present: int
    parallelism: int
    mark: Mark | None

    @property
    def shrinks(self) -> bool:
        """Whether it frees slots, which others wait for."""
        return self.parallelism < self.present

    def patch(self) -> dict[str, Any]:
        """The merge patch that does it."""
        metadata = {"annotations": mark_annotations(self.mark), "resourceVersion": self.resource_version}
        return {"metadata": metadata, "spec": {"parallelism": self.parallelism}}


@dataclass(frozen=True, slots=True)
class Sizing:
    """A Job that is given a size: what it is, what was decided, and α of its queue."""

    candidate: Candidate
    decision: SlotDecision
    fairness_knob: float


@dataclass(frozen=True, slots=True)
class Calmness:
    """How rarely Jobs are resized: seconds between two changes of one, and the least change as a fraction of its size."""

    interval_seconds: float
    hysteresis: float


def plan_parallelism(
    sizings: Iterable[Sizing], completing: Callable[[Job], int], calmness: Calmness, wall: float
) -> tuple[list[ParallelismWrite], float]:
    """Changes due now, and in how many seconds one that has to wait falls due (infinite: none waits).

    `completing` answers how many of a Job's pods are about to complete. `wall` is seconds since the epoch.
    """
    writes, wait = [], math.inf
    for sizing in sizings:
        job = sizing.candidate.job
        present, mark = parallelism_of(job), read_mark(job.metadata.annotations)
        wanted = size_for(sizing.candidate, sizing.decision.given, completing(job))
        worth_it = abs(wanted - present) >= max(1, math.ceil(calmness.hysteresis * present))
        if not worth_it and not (wanted > present and _below_its_due(sizing, present)):
            continue
        # A clock that was set back must not stop all changes: a time far in the future is nobody's last change.
        since = abs(wall - mark.changed_at) if mark is not None else math.inf
        if since < calmness.interval_seconds:
            wait = min(wait, calmness.interval_seconds - since)
            continue
        writes.append(_write(job, present, wanted, Mark(original_parallelism(job), wanted, wall)))
    return writes, wait


def size_for(candidate: Candidate, given: int, completing: int) -> int:
    """Parallelism that gives the Job its slots without taking a pod that is about to complete."""
    value, left = candidate.value, candidate.left
    present = parallelism_of(candidate.job)
    wanted = min(max(given, value.minimum, 1), max(value.maximum, 1))
    if wanted >= left and present >= left:
        return present  # either is more than it can use
    if wanted < present and left <= value.slots:
        return present  # all that is left to do runs already
    return max(wanted, min(completing, present)) if wanted < present else wanted


def _below_its_due(sizing: Sizing, present: int) -> bool:
    """Whether its present size gives a Job less than α of its fair progress: then the smallest change is worth it."""
    value, due = sizing.candidate.value, sizing.decision.predicted_fair
    if value.curve is None or due is None:
        return False
    return bool(progress_rates(value.curve, value.maximum)[min(present, value.maximum)] < sizing.fairness_knob * due)


def plan_restores(jobs: Iterable[Job]) -> list[ParallelismWrite]:
    """What undoes our changes of these Jobs. One that somebody else has resized since only loses our notes."""
    return [
        _write(job, parallelism_of(job), original_parallelism(job), None)
        for job in jobs
        if read_mark(job.metadata.annotations) is not None and not job.finished and job.metadata.deletion_timestamp is None
    ]


def _write(job: Job, present: int, parallelism: int, mark: Mark | None) -> ParallelismWrite:
    metadata = job.metadata
    return ParallelismWrite(metadata.namespace, metadata.name, metadata.resource_version, present, parallelism, mark)
