"""Pods as tasks of jobs, updated event by event: the job of each pod, and the start and end of each task. Decides nothing.

DRESS counts jobs, not pods. A job is a pod group by label, else the pod's controller, else the pod itself. Small and large members of a
group are two jobs, because quotas distinguish them. The cost of an event does not depend on the number of pods. Only pods of followed
namespaces are kept: those whose queue keeps a reserve; of several queues the default queue, whose pods alone the caller passes on. Ended
tasks stay for a while, so that their phase remains visible, and are then dropped.

Times come from our monotonic clock if we observed the event, otherwise from the pod. A step of the wall clock shifts all times together and
changes no duration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, TypeVar

from fairburst.kube.api.objects import Metadata, Pod, controller_of
from fairburst.kube.jobs.job_labels import JobLabels
from fairburst.kube.jobs.job_size import SIZE_LABEL, SMALL
from fairburst.kube.jobs.task_columns import TaskColumns
from fairburst.kube.names import LANE_OF_CLASS, LARGE_CLASS, SIZE_CLASSES, SMALL_CLASS
from fairburst.kube.usage.pod_usage import RequestVector
from fairburst.policy.dress.values import Job, TaskTable

# Labels by which other systems group pods, and ours. The first one on a pod counts.
GROUP_LABELS = ("fairburst.dev/job", "scheduling.x-k8s.io/pod-group", "kueue.x-k8s.io/pod-group-name", "spark-app-selector")
GROUP_LABEL_SET = frozenset(GROUP_LABELS)
Number = TypeVar("Number", int, float)
STEP_SECONDS = 0.5  # a larger move of the wall clock against the monotonic one means that the clock was set


class JobKey(NamedTuple):
    """The job of a pod: the uid of its controller (or its own), or the group's name; and the pods' priority class, "" if none is set."""

    namespace: str
    name: str
    priority_class: str = ""


@dataclass(slots=True)
class JobPods:
    """The present totals of a job's pods.

    number: its number in the task table.
    active, running: pods that have not ended; tasks among them.
    wanted, used: effective requests of both, in thousandths.
    kind, name: of the controller ("Pod" for a bare pod).
    created: creation time of its first pod.
    small: its category. If its pods carry no priority class of ours, the caller sets the category, as it sets the family.
    alone: whether it is a bare pod without a group, which never joins other pods.
    seen: the Job that DRESS reads for such a pod while it waits, once computed.
    """

    key: JobKey
    number: int
    kind: str
    name: str
    created: str
    small: bool
    wanted: list[int]
    used: list[int]
    active: int = 0
    running: int = 0
    rows: int = 0
    family: str = ""
    alone: bool = False
    seen: Job | None = None


@dataclass(slots=True)
class _Known:
    """One pod that has not ended."""

    uid: str
    job: JobPods
    requests: RequestVector
    row: int = -1
    dying: bool = False


class JobIndex:
    """Index of pods as tasks; see the module. `follow` namespaces, `update` with every change of a pod, then read.

    Parameters
    ----------
    resources : the counted resources, the order of every vector. A change of them requires a new index.
    keep_seconds : how long an ended task is kept.
    """

    def __init__(self, resources: Sequence[str], keep_seconds: float) -> None:
        self.resources = tuple(resources)
        self._keep = keep_seconds
        self._followed: frozenset[str] = frozenset()
        self._pods: dict[tuple[str, str], _Known] = {}
        self._jobs: dict[JobKey, JobPods] = {}
        self._by_namespace: dict[str, dict[JobKey, JobPods]] = {}
        self._bare_running: dict[tuple[str, bool], JobPods] = {}  # by namespace and whether they are small
        self._free_numbers: list[int] = []
        self._columns = TaskColumns(len(self.resources))
        self._tasks: list[_Known | _Ended] = []  # by row
        self._ended: deque[_Ended] = deque()
        self._clock = 0.0  # wall minus monotonic
        self._labels = JobLabels()
        self._changed: dict[str, set[str]] = {}

    def with_resources(self, resources: Sequence[str]) -> JobIndex:
        """Return an empty index for other resources, which follows no namespace yet."""
        return JobIndex(resources, self._keep)

    # Changes ---------------------------------------------------------------------------------------------------------

    @property
    def followed(self) -> frozenset[str]:
        """Namespaces whose pods are kept."""
        return self._followed

    def follow(self, namespaces: frozenset[str], pods: Iterable[tuple[Pod, RequestVector]], wall: float, now: float) -> None:
        """Keep the pods of exactly these namespaces. `pods`: existing pods, effective requests; read only if a namespace is new."""
        fresh, gone = namespaces - self._followed, self._followed - namespaces
        self._followed = namespaces
        if gone:
            for key in [key for key in self._pods if key[0] in gone]:
                self._remove(key, now, natural=False)
            for task in [task for task in self._ended if task.job.key.namespace in gone]:
                self._forget(task)
            self._ended = deque(task for task in self._ended if task.row >= 0)
        if fresh:
            for pod, requests in pods:
                if pod.metadata.namespace in fresh:
                    self.update(None, pod, requests, wall, now)

    def update(self, old: Pod | None, new: Pod | None, requests: RequestVector, wall: float, now: float) -> None:
        """Record one change, as the informer reports it. `requests`: the pod's effective requests; `wall`: seconds since the epoch, `now`:
        monotonic.
        """
        pod = new if new is not None else old
        if pod is None or pod.metadata.namespace not in self._followed:
            return
        key = (pod.metadata.namespace, pod.metadata.name)
        known = self._pods.get(key)
        if known is None and (new is None or new.ended or new.unmanaged):
            return
        if known is not None and known.uid != pod.metadata.uid:  # a different pod of this name was created unobserved
            self._remove(key, now, natural=False)
            known = None
        if new is None or new.ended:
            if known is not None:
                self._remove(key, now, natural=not known.dying)
            return
        if known is None:
            known = self._pods[key] = self._add(new, requests)
        if new.metadata.deletion_timestamp is not None:
            known.dying = True
        if known.row < 0 and new.bound and new.status.start_time is not None:
            seen = old is not None and old.status.start_time is None
            self._start(known, now if seen else now - _age(new.status.start_time, wall))

    def _add(self, pod: Pod, requests: RequestVector) -> _Known:
        key = job_key(pod)
        job = self._jobs.get(key)
        if job is None:
            owner = controller_of(pod.metadata)
            kind, name = (owner.kind, owner.name) if owner is not None else ("Pod", pod.metadata.name)
            number = self._free_numbers.pop() if self._free_numbers else len(self._jobs)
            created = pod.metadata.creation_timestamp or ""
            alone = owner is None and not group_of(pod.metadata)
            job = JobPods(key, number, kind, name, created, _is_small(pod), [0] * len(requests), [0] * len(requests), alone=alone)
            self._jobs[key] = self._by_namespace.setdefault(key.namespace, {})[key] = job
            self._labels.set(number, small=job.small, family="")
        elif job.alone and job.active:  # not for a pod that returns, as after a restore of etcd
            self._accompany(job)
        job.active += 1
        add_amounts(job.wanted, requests, +1)
        self._note(job)
        return _Known(pod.metadata.uid, job, requests)

    def _accompany(self, job: JobPods) -> None:
        """Make a job of a bare pod and a second pod that names it as its controller."""
        if job.running:
            self._by_namespace.setdefault(job.key.namespace, {})[job.key] = job
            self._settle(job, tuple(job.used), -1)
        job.alone = False

    def _start(self, known: _Known, started: float) -> None:
        job = known.job
        known.row = self._columns.append(job.number, known.requests, started)
        self._tasks.append(known)
        job.running += 1
        job.rows += 1
        add_amounts(job.used, known.requests, +1)
        self._note(job)
        if job.alone:
            del self._by_namespace[job.key.namespace][job.key]
            self._settle(job, known.requests, +1)

    def _settle(self, job: JobPods, requests: RequestVector, sign: int) -> None:
        """Add a running bare pod to the merged ones (+1), or remove it from them (-1)."""
        at = job.key.namespace, job.small
        total = self._bare_running.get(at)
        if total is None:
            nothing = [0] * len(job.used)
            total = self._bare_running[at] = replace(
                job, number=-1, name="*", wanted=nothing, used=nothing.copy(), active=0, running=0, rows=0
            )
        total.active += sign
        total.running += sign
        add_amounts(total.wanted, requests, sign)
        add_amounts(total.used, requests, sign)
        if not total.active:
            del self._bare_running[at]

    def _remove(self, key: tuple[str, str], now: float, *, natural: bool) -> None:
        """Remove a pod. If it ran to its end it is kept as an ended task; the run time of a deleted pod is not representative."""
        known = self._pods.pop(key)
        job = known.job
        job.active -= 1
        add_amounts(job.wanted, known.requests, -1)
        self._note(job)
        if known.row >= 0:
            if job.alone:
                self._by_namespace.setdefault(job.key.namespace, {})[job.key] = job
                self._settle(job, known.requests, -1)
            job.running -= 1
            add_amounts(job.used, known.requests, -1)
            if natural:
                self._columns.ended[known.row] = now
                self._tasks[known.row] = ended = _Ended(job, known.row, now)
                self._ended.append(ended)
            else:
                self._drop(known.row)
                job.rows -= 1
        self._rest(job)

    def _drop(self, row: int) -> None:
        moved = self._columns.drop(row)
        last = self._tasks.pop()
        if moved != row:
            self._tasks[row] = last
            last.row = row

    def _forget(self, task: _Ended) -> None:
        self._drop(task.row)
        task.row = -1
        task.job.rows -= 1
        self._rest(task.job)

    def _rest(self, job: JobPods) -> None:
        """Drop a job without remaining pods or tasks."""
        if job.active or job.rows:
            return
        self._note(job)
        of_namespace = self._by_namespace[job.key.namespace]
        del self._jobs[job.key], of_namespace[job.key]
        self._labels.set(job.number, small=False, family="")
        if not of_namespace:
            del self._by_namespace[job.key.namespace]
        self._free_numbers.append(job.number)

    def label(self, job: JobPods, *, small: bool, family: str) -> None:
        """Set a job's category and family, which come from its controller."""
        if (job.small, job.family) != (small, family):
            job.small, job.family = small, family
            self._labels.set(job.number, small=small, family=family)

    def expire(self, now: float) -> None:
        """Drop the tasks that ended long ago. Call it before reading."""
        while self._ended and self._ended[0].at <= now - self._keep:
            self._forget(self._ended.popleft())

    def _note(self, job: JobPods) -> None:
        if not job.alone:
            self._changed.setdefault(job.key.namespace, set()).add(job.key.name)

    # Reading ---------------------------------------------------------------------------------------------------------

    def jobs(self, namespace: str) -> Collection[JobPods]:
        """Return the jobs of a namespace that have or recently had pods, except running bare pods, which `bare_running` returns."""
        return self._by_namespace.get(namespace, {}).values()

    def take_changed(self, namespace: str) -> set[str]:
        """Return the names of the namespace's jobs whose pods have changed since the last call, but not of bare pods."""
        return self._changed.pop(namespace, set())

    def bare_running(self, namespace: str) -> Collection[JobPods]:
        """Return the namespace's running bare pods without a group, merged by size: there may be thousands, and none waits."""
        return [total for small in (False, True) if (total := self._bare_running.get((namespace, small))) is not None]

    def job(self, key: JobKey) -> JobPods | None:
        """Return one job's pods, or None if it has none."""
        return self._jobs.get(key)

    def tasks(self, wall: float, now: float) -> TaskTable:
        """Return every task seen and not yet dropped, in no order, with times in seconds since the epoch. O(tasks) in numpy.

        DRESS sorts them at its steps, once in a second; there may be a hundred thousand.
        """
        if abs(wall - now - self._clock) > STEP_SECONDS:
            self._clock = wall - now
        columns, count = self._columns, self._columns.count
        names, family = self._labels.families()
        job = columns.job[:count].copy()
        return TaskTable(
            job=job,
            small=self._labels.small[job],
            request=columns.request[:count] / 1000.0,
            started=columns.started[:count] + self._clock,
            ended=columns.ended[:count] + self._clock,
            family=family[job],
            families=names,
        )

    def __len__(self) -> int:
        """Number of tasks held, ended ones included."""
        return self._columns.count


@dataclass(slots=True)
class _Ended:
    """A task that has ended and is still in the table."""

    job: JobPods
    row: int
    at: float


def job_key(pod: Pod) -> JobKey:
    """Return the job that a pod belongs to."""
    owner = controller_of(pod.metadata)
    own = owner.uid if owner is not None else pod.metadata.uid
    return JobKey(pod.metadata.namespace, group_of(pod.metadata) or own, _size_class(pod))


def _is_small(pod: Pod) -> bool:
    """Return whether the pod is small: by its priority class, which quotas count, or by its label if it has no such class."""
    size_class = _size_class(pod)
    return size_class == SMALL_CLASS if size_class else (pod.metadata.labels or {}).get(SIZE_LABEL) == SMALL


def _size_class(pod: Pod) -> str:
    """Return the class of the size that a pod counts as, "" if its class says none. Pods of a deleted further queue are large: the quota of
    small jobs does not count their class."""
    name = pod.spec.priority_class_name
    return LARGE_CLASS if name in LANE_OF_CLASS else name if name in SIZE_CLASSES else ""


def group_of(metadata: Metadata) -> str:
    """Return the pod group that the object names, "" for none. The label's name is part of it."""
    labels = metadata.labels
    if labels is None or GROUP_LABEL_SET.isdisjoint(labels):
        return ""
    return next((f"{label}={labels[label]}" for label in GROUP_LABELS if labels.get(label)), "")


def add_amounts(total: list[Number], amounts: Sequence[Number], times: int = 1) -> None:
    """Add some amounts to a total in place, so many times; -1 removes them."""
    for at, amount in enumerate(amounts):
        total[at] += times * amount


def _age(start_time: str, wall: float) -> float:
    """Return the seconds since a time that the API server sent; a time in the future counts as now."""
    return max(0.0, wall - datetime.fromisoformat(start_time).timestamp())
