"""Build the jobs of DRESS from the workloads and pods of a namespace: their requests, demand and usage.

Pure, except that the category of a Job without a label is fixed when the Job is first seen. A job's category follows its pods' priority
class, because quotas count by it. Before the job has pods, its label decides, and without a label the same rule in the operator's
arithmetic (job_size.py). Long-running controllers are large.
"""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fairburst.bounds import MOST_AMOUNT
from fairburst.kube.api.objects import Job as KubeJob
from fairburst.kube.jobs.job_index import JobIndex, JobKey, JobPods, add_amounts, group_of
from fairburst.kube.jobs.job_size import SIZE_LABEL, SMALL, size_of
from fairburst.kube.names import SIZE_CLASSES, SMALL_CLASS
from fairburst.kube.queues.job_annotations import family_of
from fairburst.kube.times import epoch
from fairburst.kube.usage.demand import DesiredPods, NamespaceDemand
from fairburst.kube.workloads.job import pods_at_once
from fairburst.kube.workloads.registry import ANNOUNCED_KINDS
from fairburst.policy.arrays import FloatArray
from fairburst.policy.dress.values import DemandCategory, Job


@dataclass(frozen=True, slots=True)
class NamespaceJobs:
    """The jobs of one namespace: pending ones, running ones, and running bare pods, merged by size.

    small_count, large_count: the number of small and of large jobs. small_owners: uids of the controllers whose pods are small.
    small_unit, large_unit: the largest pod that either kind of controller creates, in resource units. small_pods, large_pods: how many
    pods they have or want.
    """

    pending: tuple[Job, ...] = ()
    running: tuple[Job, ...] = ()
    bare_running: tuple[Job, ...] = ()
    small_owners: frozenset[str] = frozenset()
    small_unit: Mapping[str, float] = field(default_factory=dict)
    large_unit: Mapping[str, float] = field(default_factory=dict)
    small_pods: int = 0
    large_pods: int = 0
    small_count: int = 0
    large_count: int = 0

    @property
    def has_both_sizes(self) -> bool:
        """Whether there are small and large jobs."""
        return bool(self.small_count and self.large_count)


@dataclass(slots=True)
class _Draft:
    """A job while its parts are added up; a group consists of several Jobs. Amounts in resource units: lists, because adding arrays of two
    numbers takes several times as long."""

    name: str
    small: bool
    submitted: float
    request: list[float]
    wanted: list[float]
    used: list[float]
    running: int = 0
    family: str = ""


@dataclass(frozen=True, slots=True)
class _OfController:
    """The jobs of one controller outside of a group: one, or two if its pods have classes of both sizes. small: its own category."""

    desired: DesiredPods
    small: bool
    pending: tuple[Job, ...]
    running: tuple[Job, ...]


@dataclass(slots=True)
class JobPartBuilder:
    """Remembers by namespace and controller's uid the categories that were fixed by arithmetic, and the jobs, as long as the controller
    wants or has pods. A namespace may have thousands, and few change between two rounds."""

    _fixed: dict[str, dict[str, bool]] = field(default_factory=dict)
    _known: dict[str, tuple[str, dict[str, _OfController]]] = field(default_factory=dict)  # with the queue's name

    def jobs_of(
        self, namespace: str, queue: str, demand: NamespaceDemand, index: JobIndex, threshold: Mapping[str, float]
    ) -> NamespaceJobs:
        """Return every job of a namespace that demands or holds pods. `threshold` in resource units by resource."""
        drafts = dict[tuple[str, bool], _Draft]()
        fixed, (former_queue, known) = self._fixed.pop(namespace, {}), self._known.pop(namespace, ("", {}))
        kept, found, changed = dict[str, bool](), dict[str, _OfController](), index.take_changed(namespace)
        of_pods = defaultdict[str, list[JobPods]](list)
        for pods in index.jobs(namespace):
            of_pods[pods.key.name].append(pods)
        small_owners, sizes, count = set(), {True: list[Mapping[str, float]](), False: list[Mapping[str, float]]()}, {True: 0, False: 0}
        for desired in demand.desired_pods:
            owner = desired.owner
            former = known.get(owner.uid) if former_queue == queue and owner.uid not in changed else None
            if former is not None and former.desired is desired:
                small, found[owner.uid] = former.small, former
                if owner.uid in fixed:
                    kept[owner.uid] = small
            else:
                small = self._is_small(desired, index, threshold, fixed, kept)
                if group_of(desired.controller.spec.template.metadata):
                    _add_desired(drafts, desired, small, index.resources)
                else:
                    found[owner.uid] = _of_controller(desired, small, of_pods.get(owner.uid, ()), index, queue)
            of_pods.pop(owner.uid, None)
            count[small] += max(owner.wanted, owner.existing)
            if small:
                small_owners.add(owner.uid)
            if not sizes[small] or sizes[small][-1] is not owner.requests:
                sizes[small].append(owner.requests)
        if kept:
            self._fixed[namespace] = kept
        if found:
            self._known[namespace] = queue, found
        others = list(itertools.chain.from_iterable(of_pods.values()))
        _add_all_pods(drafts, others, index)
        pending, running = _jobs(drafts, queue)
        alone = [_job_of_one(pods, queue) for pods in others if pods.alone and any(pods.wanted)]
        pending = (*pending, *(job for one in found.values() for job in one.pending), *alone)
        running = (*running, *(job for one in found.values() for job in one.running))
        bare_running = tuple([_job_of_bare_pods(pods, queue) for pods in index.bare_running(namespace)])
        jobs = [*pending, *running, *bare_running]
        small_count = sum([job.count for job in jobs if job.category is DemandCategory.SMALL])
        return NamespaceJobs(
            pending=pending,
            running=running,
            bare_running=bare_running,
            small_owners=frozenset(small_owners),
            small_unit=_largest(sizes[True]),
            large_unit=_largest(sizes[False]),
            small_pods=count[True],
            large_pods=count[False],
            small_count=small_count,
            large_count=sum([job.count for job in jobs]) - small_count,
        )

    def forget(self, namespace: str) -> None:
        """Drop the remembered state of the namespace."""
        self._fixed.pop(namespace, None)
        self._known.pop(namespace, None)

    def _is_small(
        self, desired: DesiredPods, index: JobIndex, threshold: Mapping[str, float], fixed: Mapping[str, bool], kept: dict[str, bool]
    ) -> bool:
        controller = desired.controller
        if not isinstance(controller, KubeJob):
            return False
        metadata, template = controller.metadata, controller.spec.template.metadata
        group = group_of(template)
        name = group or metadata.uid
        for priority_class in () if group else SIZE_CLASSES:
            if index.job(JobKey(metadata.namespace, name, priority_class)) is not None:
                return priority_class == SMALL_CLASS
        label = (template.labels or {}).get(SIZE_LABEL)
        if label is not None:
            return label == SMALL
        small = fixed[metadata.uid] if metadata.uid in fixed else size_of(controller, threshold) == SMALL
        kept[metadata.uid] = small
        without_class = index.job(JobKey(metadata.namespace, name))
        if without_class is not None:
            index.label(without_class, small=small, family=without_class.family)
        return small


def _largest(sizes: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the largest of these requests, by resource."""
    largest = dict[str, float]()
    for requests in sizes:
        for resource, amount in requests.items():
            largest[resource] = min(max(largest.get(resource, 0.0), amount), MOST_AMOUNT)
    return largest


def _of_controller(desired: DesiredPods, small: bool, pods: Sequence[JobPods], index: JobIndex, queue: str) -> _OfController:
    drafts = dict[tuple[str, bool], _Draft]()
    _add_desired(drafts, desired, small, index.resources)
    _add_all_pods(drafts, pods, index)
    return _OfController(desired, small, *_jobs(drafts, queue))


def _jobs(drafts: Mapping[tuple[str, bool], _Draft], queue: str) -> tuple[tuple[Job, ...], tuple[Job, ...]]:
    """Return the jobs that wait and those that run, without those that want nothing."""
    some = [draft for draft in drafts.values() if any(draft.wanted) or any(draft.used)]
    pending, running = ([draft for draft in some if (draft.running > 0) == runs] for runs in (False, True))
    return tuple(_job(draft, queue) for draft in pending), tuple(_job(draft, queue) for draft in running)


def _add_all_pods(drafts: dict[tuple[str, bool], _Draft], jobs: Iterable[JobPods], index: JobIndex) -> None:
    """Add the pods of these jobs, and give the jobs of known controllers their family."""
    for pods in jobs:
        draft = None if pods.alone else _add_pods(drafts, pods, len(index.resources))
        if draft is not None and pods.kind in ANNOUNCED_KINDS:
            index.label(pods, small=pods.small, family=draft.family)


def _add_desired(drafts: dict[tuple[str, bool], _Draft], desired: DesiredPods, small: bool, resources: tuple[str, ...]) -> None:
    owner, controller = desired.owner, desired.controller
    metadata, template = controller.metadata, controller.spec.template.metadata
    group = group_of(template)
    requests = [owner.requests.get(resource, 0.0) for resource in resources]
    whole = pods_at_once(controller.spec) if isinstance(controller, KubeJob) else owner.wanted
    draft = _draft(
        drafts,
        group or metadata.uid,
        small,
        f"{owner.kind} {metadata.namespace}/{metadata.name}",
        metadata.creation_timestamp,
        len(requests),
    )
    add_amounts(draft.request, requests, max(whole, owner.existing))
    add_amounts(draft.wanted, requests, max(owner.wanted, owner.existing))
    if isinstance(controller, KubeJob):
        draft.family = draft.family or family_of(controller) or ""


def _add_pods(drafts: dict[tuple[str, bool], _Draft], pods: JobPods, width: int) -> _Draft | None:
    """Add the usage of the job's pods and, for a job without a workload object, their demand. Return the draft that has them, if any."""
    if not pods.active:
        return None
    at = (pods.key.name, pods.small)
    announced = pods.kind in ANNOUNCED_KINDS
    if announced and at not in drafts:
        return None  # its controller has ended or is being deleted: its pods have no further demand
    draft = _draft(drafts, *at, f"{pods.kind} {pods.key.namespace}/{pods.name}", pods.created, width)
    add_amounts(draft.used, [amount / 1000 for amount in pods.used])
    draft.running += pods.running
    if not announced:
        wanted = [amount / 1000 for amount in pods.wanted]
        add_amounts(draft.request, wanted)
        add_amounts(draft.wanted, wanted)
    return draft


def _job_of_one(pods: JobPods, queue: str) -> Job:
    """Return the job for a waiting bare pod. The result is cached, so a round computes new pods only, not thousands."""
    if pods.seen is None or pods.seen.queue != queue:
        pods.seen = _job_of(pods, queue)
    return pods.seen


def _job_of_bare_pods(pods: JobPods, queue: str) -> Job:
    """Return running bare pods as one job: none waits, so their usage describes them fully."""
    return replace(_job_of(pods, queue), count=pods.running)


def _job_of(pods: JobPods, queue: str) -> Job:
    """Return the job of bare pods. Thousands may wait, most of them alike: equal amounts are one array."""
    return Job(
        name=f"{pods.kind} {pods.key.namespace}/{pods.name}",
        queue=queue,
        submitted=epoch(pods.created),
        request=_amounts(tuple(pods.wanted)),
        category=DemandCategory.SMALL if pods.small else DemandCategory.LARGE,
        wanted=_amounts(tuple(map(max, pods.wanted, pods.used))),
        used=_amounts(tuple(pods.used)),
    )


@functools.lru_cache(maxsize=4096)
def _amounts(thousandths: tuple[int, ...]) -> FloatArray:
    """Return (K,) resource units. The array is shared, and refuses changes."""
    found = np.array(thousandths, dtype=float) / 1000
    found.flags.writeable = False
    return found


def _draft(drafts: dict[tuple[str, bool], _Draft], key: str, small: bool, name: str, created: str | None, width: int) -> _Draft:
    submitted = epoch(created)
    found = drafts.get((key, small))
    if found is None:
        found = drafts[key, small] = _Draft(name, small, submitted, [0.0] * width, [0.0] * width, [0.0] * width)
    found.submitted = min(found.submitted, submitted)
    return found


def _job(draft: _Draft, queue: str) -> Job:
    return Job(
        name=draft.name,
        queue=queue,
        submitted=draft.submitted,
        request=np.array(draft.request),
        category=DemandCategory.SMALL if draft.small else DemandCategory.LARGE,
        wanted=np.array(list(map(max, draft.wanted, draft.used))),
        used=np.array(draft.used),
        family=draft.family,
    )


def too_large(jobs: Sequence[Job], resources: tuple[str, ...], capacity: FloatArray) -> list[str]:
    """Return a sentence for each job whose request exceeds the whole pool, in order of name. `capacity` (K,) resource units."""
    if not jobs:
        return []
    over = np.array([job.request for job in jobs]) > capacity * (1 + 1e-9)
    found = []
    for name, row in sorted((jobs[row].name, row) for row in np.flatnonzero(over.any(axis=1)).tolist()):
        at = int(np.argmax(over[row]))
        found.append(f"{name} asks for {jobs[row].request[at]:g} {resources[at]} at once, the pool has {capacity[at]:g}.")
    return found
