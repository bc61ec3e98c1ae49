"""What is seen of the runs of Jobs from their pods: how many run, how long they take, how fast the Job gets on, and the finished run.

Times are of our own monotonic clock, so a step of the wall clock does no harm. Only a run that was watched from its first pod to its last
becomes a `Run`, and only if it had about the same number of pods for most of it: half a run, or one of changing size, would teach a
wrong curve. Bounded: one number a running pod, and a few a Job.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from fairburst.curves.runs import Run
from fairburst.kube.api.objects import Job, Pod, controller_of
from fairburst.kube.queues.job_annotations import parallelism_of

STEADY_FRACTION = 0.6  # of a run's time that must have been spent at about one size, for it to count as a run of that size
SIZE_TOLERANCE = 0.1  # sizes that differ by less are about one; a pod that has ended is replaced only after a second
NEARLY_DONE = 0.5  # of the mean duration of the Job's pods: a pod that has run for longer is about to complete
PROGRESS_SECONDS = 300.0  # over which progress is measured
FEWEST_SAMPLES = 3


@dataclass(slots=True)
class _JobRun:
    """One Job under way. `started`: running pods by uid. `held`: seconds by number of running pods. `whole`: watched from its start."""

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
    """Fed with every change of pods and Jobs; O(1) a change. A pod of another namespace is none of a Job's, whatever it says."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], _JobRun] = {}  # by namespace and uid

    def pod_changed(self, old: Pod | None, new: Pod | None, now: float, *, watched: bool) -> None:
        """Take in one change of a pod. `watched`: it was seen as it happened, and not in a first list."""
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
        """Take in the present state of a Job that has not finished."""
        run = self._runs.get(_key(job))
        if run is None:
            return
        if run.size is None and job.status.succeeded > run.ended:
            run.whole = False  # pods of it completed before we looked
        if run.size != parallelism_of(job):  # progress is that of one size
            run.size = parallelism_of(job)
            run.done.clear()
        if not run.done or run.done[-1][1] != job.status.succeeded:
            run.done.append((now, job.status.succeeded))
        while len(run.done) > 1 and run.done[0][0] < now - PROGRESS_SECONDS:
            run.done.popleft()

    def finished(self, job: Job, now: float) -> Run | None:
        """Forget a Job that is complete; its run, if it teaches something."""
        run = self._runs.pop(_key(job), None)
        if run is None or not run.whole or run.first is None:
            return None
        run.step(now)
        seconds = (now if run.started else run.last_end) - run.first  # its last pods' ends may be on their way to us
        size = max(run.held, key=lambda count: (run.held[count] if count else -1.0, count))
        near = sum(held for count, held in run.held.items() if abs(count - size) <= SIZE_TOLERANCE * size)
        found = Run(size, seconds)
        return found if found.plausible and near >= STEADY_FRACTION * seconds else None

    def forget(self, job: Job) -> None:
        """Drop a Job that has failed or has been deleted."""
        self._runs.pop(_key(job), None)

    def completing(self, job: Job, now: float) -> int:
        """How many of the Job's pods are about to complete: they have run for more than half as long as its pods take."""
        run = self._runs.get(_key(job))
        if run is None or not run.ended:
            return 0
        limit = NEARLY_DONE * run.ended_seconds / run.ended
        return sum(now - started > limit for started in run.started.values())

    def progress(self, job: Job, alone_seconds: float | None, now: float) -> float | None:
        """Progress rate of the Job at its present size: the part of its work done lately, in units of what it does alone.

        None where it is not known how long the Job takes alone or how much work it has, or too little was seen.
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
            run.whole = False  # it ran before we looked
            return
        run.step(now)
        run.last_end = now
        began = run.started.pop(pod.metadata.uid)
        if pod.metadata.deletion_timestamp is None:  # a pod that was deleted has not completed
            run.ended += 1
            run.ended_seconds += now - began


def _key(job: Job) -> tuple[str, str]:
    return job.metadata.namespace, job.metadata.uid
