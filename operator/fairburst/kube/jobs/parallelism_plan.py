"""Plan which Jobs receive a new spec.parallelism now, and which get theirs back. Pure; a Job's own annotations record its last change.

A Job changes at most once per interval, only if the change is large enough, and never loses a pod that is about to complete. The Job
controller deletes the newest pods first, so a lower bound on the pods that stay is sufficient.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fairburst.kube.api.objects import Job
from fairburst.kube.jobs.elastic_jobs import Candidate
from fairburst.kube.queues.job_annotations import Mark, mark_annotations, original_parallelism, parallelism_of, read_mark
from fairburst.policy.paf.curves import progress_with
from fairburst.policy.paf.jobs import SlotDecision


@dataclass(frozen=True, slots=True)
class ParallelismWrite:
    """A new spec.parallelism, valid for `resource_version` only. `mark` None removes our annotations and returns the Job to its owner."""

    namespace: str
    name: str
    resource_version: str
    present: int
    parallelism: int
    mark: Mark | None

    @property
    def shrinks(self) -> bool:
        """Whether the change frees slots, for which other Jobs wait."""
        return self.parallelism < self.present

    def patch(self) -> dict[str, Any]:
        """Return the merge patch for the change."""
        metadata = {"annotations": mark_annotations(self.mark), "resourceVersion": self.resource_version}
        return {"metadata": metadata, "spec": {"parallelism": self.parallelism}}


@dataclass(frozen=True, slots=True)
class Sizing:
    """A Job that receives a size: the candidate, the decision, and α of its queue."""

    candidate: Candidate
    decision: SlotDecision
    fairness_knob: float


@dataclass(frozen=True, slots=True)
class ResizeDamping:
    """Damping of resizes: seconds between two changes of a Job, and the least change as a fraction of its size."""

    interval_seconds: float
    hysteresis: float


def plan_parallelism(
    sizings: Iterable[Sizing], completing: Callable[[Job], int], damping: ResizeDamping, wall: float
) -> tuple[list[ParallelismWrite], float]:
    """Return the changes due now, and the seconds until the next deferred change falls due (infinite: none).

    `completing` returns how many of a Job's pods are about to complete. `wall` is in seconds since the epoch.
    """
    writes, wait = [], math.inf
    changes = [_change(sizing, completing, damping) for sizing in sizings]
    excess = _excess_slots(changes)
    for change in changes:
        sizing, present, wanted = change.sizing, change.present, change.wanted
        job = sizing.candidate.job
        mark = read_mark(job.metadata.annotations)
        if not change.worth_it:
            gain = min(present - wanted, excess[sizing.decision.queue])
            if gain <= 0:
                continue
            excess[sizing.decision.queue] -= gain
        # After the clock was set back, a recorded time may lie far in the future. It must not block all changes.
        since = abs(wall - mark.changed_at) if mark is not None else math.inf
        if since < damping.interval_seconds:
            wait = min(wait, damping.interval_seconds - since)
            continue
        writes.append(_write(job, present, wanted, Mark(original_parallelism(job), wanted, wall)))
    return writes, wait


@dataclass(frozen=True, slots=True)
class _Change:
    """A Job's present and wanted size.

    worth_it: whether the change is as large as the hysteresis, or raises a Job that has less than α of its fair progress.
    """

    sizing: Sizing
    present: int
    wanted: int
    worth_it: bool


def _change(sizing: Sizing, completing: Callable[[Job], int], damping: ResizeDamping) -> _Change:
    job = sizing.candidate.job
    present, wanted = parallelism_of(job), size_for(sizing.candidate, sizing.decision.given, completing(job))
    large = wanted != present and abs(wanted - present) >= damping.hysteresis * present
    return _Change(sizing, present, wanted, large or (wanted > present and _below_its_due(sizing, present)))


def _excess_slots(changes: Iterable[_Change]) -> Counter[str]:
    """Return by queue how many slots its Jobs together would have beyond those given, if only changes that are worth it were made.

    As long as there are any, smaller reductions are made as well: a slot that one Job keeps is missing for another.
    """
    excess: Counter[str] = Counter()
    for change in changes:
        queue = change.sizing.decision.queue
        excess[queue] += (change.wanted if change.worth_it else change.present) - change.wanted
    return excess


def size_for(candidate: Candidate, given: int, completing: int) -> int:
    """Return the parallelism that gives the Job its slots without losing a pod that is about to complete."""
    value, left = candidate.value, candidate.left
    present = parallelism_of(candidate.job)
    wanted = min(max(given, value.minimum, 1), max(value.maximum, 1))
    if wanted >= left and present >= left:
        return present  # either value exceeds what it can use
    if wanted < present and left <= value.slots:
        return present  # all remaining work runs already
    return max(wanted, min(completing, present)) if wanted < present else wanted


def _below_its_due(sizing: Sizing, present: int) -> bool:
    """Return whether the Job's present size gives it less than α of its fair progress. Then the smallest change is large enough."""
    value, due = sizing.candidate.value, sizing.decision.predicted_fair
    if value.curve is None or due is None:
        return False
    return progress_with(value.curve, min(present, value.maximum)) < sizing.fairness_knob * due


def plan_restores(jobs: Iterable[Job]) -> list[ParallelismWrite]:
    """Return the writes that undo our changes of these Jobs. A Job that another client has resized since only loses our annotations."""
    return [
        _write(job, parallelism_of(job), original_parallelism(job), None)
        for job in jobs
        if read_mark(job.metadata.annotations) is not None and not job.finished and job.metadata.deletion_timestamp is None
    ]


def _write(job: Job, present: int, parallelism: int, mark: Mark | None) -> ParallelismWrite:
    metadata = job.metadata
    return ParallelismWrite(metadata.namespace, metadata.name, metadata.resource_version, present, parallelism, mark)
