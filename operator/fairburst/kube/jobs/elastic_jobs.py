"""The Jobs that share the slots of elastic queues, with their bounds, sizes and curves. Pure; decides no slots.

Every unfinished Job of an elastic queue takes part, because it has a fair share. A Job without a usable curve keeps that share and is not
resized. A malformed annotation becomes a problem of its own Job only. A Job's own curve comes first, then the one learned for its family,
then the queue's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fairburst.bounds import MOST_PARALLELISM
from fairburst.kube.api.objects import Job
from fairburst.kube.jobs.job_size import SIZE_LABEL
from fairburst.kube.queues.curve_text import MalformedCurveError, read_curve
from fairburst.kube.queues.job_annotations import (
    Declaration,
    MalformedAnnotationError,
    family_of,
    foreign_manager,
    original_parallelism,
    parallelism_of,
    read_declaration,
    read_mark,
)
from fairburst.kube.queues.specs import Elasticity
from fairburst.kube.usage.pod_defaults import NO_DEFAULTS, PodDefaults
from fairburst.kube.usage.pod_usage import OwnerUsage
from fairburst.kube.workloads.job import completions_left
from fairburst.policy.paf.curves import Curve, problem
from fairburst.policy.paf.jobs import ElasticJob


@dataclass(frozen=True, slots=True)
class JobProblem:
    """Why a Job stays at its fair share or unchanged: a CamelCase reason and a sentence with the expected and the found value."""

    namespace: str
    name: str
    uid: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One Job of an elastic queue.

    value: the Job as the core sees it.
    left: completions that it still has to reach, perhaps infinite.
    desired: pods that it demands at most.
    alone_seconds: its completion time alone at its full size, if known.
    """

    job: Job
    value: ElasticJob
    left: float
    desired: int
    alone_seconds: float | None
    problem: JobProblem | None
    queues_curve: bool = False  # whether the curve comes from the queue's spec

    @property
    def elastic(self) -> bool:
        """Whether the Job may be resized, because its curve is known."""
        return self.value.curve is not None


@dataclass(frozen=True, slots=True)
class LearnedCurve:
    """A curve learned from earlier runs of a family. `alone_seconds`: the shortest completion time that the curve predicts."""

    curve: Curve
    alone_seconds: float


@dataclass(frozen=True, slots=True)
class QueueCurve:
    """The curve of a queue's spec, for Jobs without any other. `problem`: why a declared curve is unusable."""

    curve: Curve | None = None
    alone_seconds: float | None = None
    problem: str | None = None


class DeclarationReader:
    """Reads the declarations of Jobs and queues, and parses each version once: a round cannot afford to parse a thousand curves."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[str, Declaration, JobProblem | None]] = {}
        self._read_of_queues: dict[str, tuple[Elasticity, QueueCurve]] = {}

    def read(self, job: Job) -> tuple[Declaration, JobProblem | None]:
        """Return the Job's declaration. If it is malformed or another controller sizes the Job, return an empty one and the reason."""
        uid, version = job.metadata.uid, job.metadata.resource_version
        known = self._read.get(uid)
        if known is None or known[0] != version or not version:
            known = self._read[uid] = (version, *_declared(job))
        return known[1:]

    def queue_curve(self, queue: str, elasticity: Elasticity) -> QueueCurve:
        """Return the curve that the queue's spec declares."""
        known = self._read_of_queues.get(queue)
        if known is None or known[0] != elasticity:
            known = self._read_of_queues[queue] = (elasticity, _queue_curve(elasticity))
        return known[1]

    def keep(self, uids: Iterable[str], queues: Iterable[str]) -> None:
        """Forget all other Jobs and queues."""
        self._read = {uid: self._read[uid] for uid in uids if uid in self._read}
        self._read_of_queues = {name: self._read_of_queues[name] for name in queues if name in self._read_of_queues}


def candidates(
    queue: str,
    elasticity: Elasticity,
    jobs: Iterable[Job],
    owner_usage: Callable[[str], OwnerUsage],
    resources: tuple[str, ...],
    learned: Mapping[str, LearnedCurve],
    reader: DeclarationReader,
    defaults: PodDefaults = NO_DEFAULTS,
) -> list[Candidate]:
    """Return the queue's Jobs that demand pods, in order of their names.

    `owner_usage` takes the uid of a pod's controller, `learned` is keyed by family. `defaults`: what the API server adds to the pods.
    """
    wanting = sorted((job for job in jobs if _may_want_pods(job)), key=lambda job: job.metadata.name)
    default = reader.queue_curve(queue, elasticity)
    every = (
        _candidate(queue, elasticity, job, reader.read(job), owner_usage(job.metadata.uid), resources, learned, default, defaults)
        for job in wanting
    )
    return [candidate for candidate in every if candidate.left > 0]


def _candidate(
    queue: str, elasticity: Elasticity, job: Job, read: tuple[Declaration, JobProblem | None], pods: OwnerUsage,
    resources: tuple[str, ...], learned: Mapping[str, LearnedCurve], default: QueueCurve, defaults: PodDefaults,
) -> Candidate:  # fmt: skip
    metadata, original = job.metadata, original_parallelism(job)
    declared, trouble = read
    original = min(original, MOST_PARALLELISM)  # the API accepts up to two billion
    most = declared.maximum or elasticity.maximum_parallelism or original
    curve, alone = declared.curve, declared.alone_seconds
    if curve is None and trouble is None:
        curve, alone = _learned(job, most, learned)
    queues_curve = curve is None and trouble is None and default.curve is not None
    if queues_curve:
        curve, alone = default.curve, default.alone_seconds
    if curve is None or elasticity.mode == "Quota":
        most = original
    left = completions_left(job, pods)
    desired = int(min(most, left))
    requests = pods.newest_requests or defaults.requests_of(job.spec.template.spec)
    value = ElasticJob(
        name=f"{metadata.namespace}/{metadata.name}",
        queue=queue,
        weight=declared.weight,
        minimum=min(declared.minimum or elasticity.minimum_parallelism or 1, desired),
        maximum=desired,
        slots=pods.bound,
        request=np.array([requests.get(resource, 0.0) for resource in resources]),
        curve=curve,
        category=(metadata.labels or {}).get(SIZE_LABEL),
    )
    return Candidate(job, value, left, desired, alone, trouble, queues_curve)


def _declared(job: Job) -> tuple[Declaration, JobProblem | None]:
    metadata = job.metadata
    try:
        declared = read_declaration(metadata.annotations)
    except MalformedAnnotationError as error:
        return Declaration(), JobProblem(metadata.namespace, metadata.name, metadata.uid, "MalformedAnnotation", str(error))
    manager = foreign_manager(job)
    if manager is None:
        return declared, None
    message = (
        f"expected spec.parallelism to be the operator's to change, found it managed by {manager}; the Job stays as it is. Leave "
        f"parallelism out of what is applied, or declare no curve."
    )
    return Declaration(weight=declared.weight), JobProblem(metadata.namespace, metadata.name, metadata.uid, "ForeignManager", message)


def _queue_curve(elasticity: Elasticity) -> QueueCurve:
    if elasticity.curve is None:
        return QueueCurve()
    try:
        return QueueCurve(*read_curve(elasticity.curve, elasticity.maximum_parallelism))
    except MalformedCurveError as error:
        return QueueCurve(problem=str(error))


def _learned(job: Job, most: int, learned: Mapping[str, LearnedCurve]) -> tuple[Curve | None, float | None]:
    family = family_of(job)
    found = learned.get(family) if family is not None else None
    if found is None or problem(found.curve, most) is not None:
        return None, None
    return found.curve, found.alone_seconds


def _may_want_pods(job: Job) -> bool:
    """Return whether the Job may run now, if it has work left."""
    if job.metadata.deletion_timestamp is not None or job.spec.suspend or job.finished:
        return False
    return parallelism_of(job) > 0 or read_mark(job.metadata.annotations) is not None
