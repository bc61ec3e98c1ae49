"""Observed runs of Jobs: running pods, their durations, the Job's progress, and the finished run.

Times are of our monotonic clock, so a step of the wall clock does no harm. A `Run` needs a Job that was watched from its first pod to its
last and had about the same number of pods for most of the time: a partial run, or one of changing size, would teach a wrong curve. Memory
is bounded: one number per running pod, and a few per Job.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from fairburst.curves.runs import Run
from fairburst.kube.api.objects import Job, Pod, controller_of
from fairburst.kube.queues.job_annotations import parallelism_of

STEADY_FRACTION = 0.6  # least part of a run's time at about one size for it to count as a run of that size
SIZE_TOLERANCE = 0.1  # relative; smaller differences count as one size, because an ended pod is replaced only after a second
NEARLY_DONE = 0.5  # fraction of the mean duration of the Job's pods: a pod that has run for longer is about to complete
PROGRESS_SECONDS = 300.0  # time over which progress is measured
FEWEST_SAMPLES = 3


@dataclass(slots=True)
class _JobRun:
    """One running Job. `started`: running pods by uid. `held`: seconds by number of running pods. `whole`: watched from its start."""

    whole: bool = True
    started: dict[str, float] = field(default_factory=dict)
    first: float | None = None
    last: float = 0.0
    last_end: float = 0.0
    held: dict[int, float] = field(default_factory=dict)
    ended: int = 0
    ended_seconds: float = 0.0
    size: int | None = None
    done: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=64))

    def step(self, now: float) -> None:
        """Count the time up to now for the present number of pods."""
        if self.first is not None:
            count = len(self.started)
            self.held[count] = self.held.get(count, 0.0) + max(0.0, now - self.last)
        self.last = now


class JobRuns:
    """Updated with every change of pods and Jobs, O(1) a change. A pod counts only for a Job of its own namespace."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], _JobRun] = {}  # by namespace and uid

    def pod_changed(self, old: Pod | None, new: Pod | None, now: float, *, watched: bool) -> None:
        """Record one change of a pod. `watched`: the change was observed as it happened, not in an initial list."""
        pod = new if new is not None else old
        owner = controller_of(pod.metadata) if pod is not None else None
        if pod is None or owner is None or owner.kind != "Job":
            return
        ran, runs = old is not None and old.status.phase == "Running", new is not None and new.status.phase == "Running"
        uid, key = pod.metadata.uid, (pod.metadata.namespace, owner.uid)
        if runs and (not ran or not watched):
            run = self._runs.setdefault(key, _JobRun())
            run.whole &= watched and old is not None
            self._start(run, uid, now)
        elif ran and not runs and key in self._runs:
            self._end(self._runs[key], pod, now)

    def job_changed(self, job: Job, now: float) -> None:
        """Record the present state of a Job that has not finished."""
        run = self._runs.get(_key(job))
        if run is None:
            return
        if run.size is None and job.status.succeeded > run.ended:
            run.whole = False  # pods of it completed before the operator watched
        if run.size != parallelism_of(job):  # progress is measured at one size
            run.size = parallelism_of(job)
            run.done.clear()
        if not run.done or run.done[-1][1] != job.status.succeeded:
            run.done.append((now, job.status.succeeded))
        while len(run.done) > 1 and run.done[0][0] < now - PROGRESS_SECONDS:
            run.done.popleft()

    def finished(self, job: Job, now: float) -> Run | None:
        """Forget a complete Job. Return its run if a curve can learn from it."""
        run = self._runs.pop(_key(job), None)
        if run is None or not run.whole or run.first is None:
            return None
        run.step(now)
        seconds = (now if run.started else run.last_end) - run.first  # the ends of its last pods may not have arrived yet
        size = max(run.held, key=lambda count: (run.held[count] if count else -1.0, count))
        near = sum(held for count, held in run.held.items() if abs(count - size) <= SIZE_TOLERANCE * size)
        found = Run(size, seconds)
        return found if found.plausible and near >= STEADY_FRACTION * seconds else None

    def forget(self, job: Job) -> None:
        """Drop a Job that has failed or has been deleted."""
        self._runs.pop(_key(job), None)

    def completing(self, job: Job, now: float) -> int:
        """Return how many of the Job's pods are about to complete: they have run for more than half of the pods' mean duration."""
        run = self._runs.get(_key(job))
        if run is None or not run.ended:
            return 0
        limit = NEARLY_DONE * run.ended_seconds / run.ended
        return sum(now - started > limit for started in run.started.values())

    def progress(self, job: Job, alone_seconds: float | None, now: float) -> float | None:
        """Return the progress rate of the Job at its present size: its recent rate of completions relative to its rate when alone.

        None if the Job's time alone or its amount of work is unknown, or too little was observed.
        """
        run, completions = self._runs.get(_key(job)), job.spec.completions
        if run is None or alone_seconds is None or not completions or len(run.done) < FEWEST_SAMPLES:
            return None
        (since, before), (_, done) = run.done[0], run.done[-1]
        return alone_seconds * (done - before) / completions / (now - since) if now > since and done > before else None

    def _start(self, run: _JobRun, uid: str, now: float) -> None:
        if uid in run.started:
            return
        run.step(now)
        if run.first is None:
            run.first = now
        run.started[uid] = now

    def _end(self, run: _JobRun, pod: Pod, now: float) -> None:
        if pod.metadata.uid not in run.started:
            run.whole = False  # it ran before the operator watched
            return
        run.step(now)
        run.last_end = now
        began = run.started.pop(pod.metadata.uid)
        if pod.metadata.deletion_timestamp is None:  # a deleted pod has not completed
            run.ended += 1
            run.ended_seconds += now - began


def _key(job: Job) -> tuple[str, str]:
    return job.metadata.namespace, job.metadata.uid
