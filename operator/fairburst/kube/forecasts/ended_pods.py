"""Runs of pods that have ended: from the pods that a cluster still lists, and from those that end while the operator watches."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError
from fairburst.kube.api.objects import Job, Pod, controller_of
from fairburst.kube.times import epoch
from fairburst.kube.usage.controller_index import ControllerIndex

KEPT = 2_000  # runs that wait for the next question
LISTED = 200  # ended pods that are listed at the beginning: a few milliseconds


class Run(NamedTuple):
    """A pod's run. `job`: name of the Job that owns it, "" for others; `owner`: uid of its controller, or its own."""

    namespace: str
    job: str
    owner: str
    tasks: int
    started: float
    ended: float
    priority_class: str = ""


class EndedPods:
    """The runs of pods that have ended since the last `take`. At most `KEPT` are stored: the oldest are dropped first."""

    def __init__(self, controllers: ControllerIndex) -> None:
        self._controllers = controllers
        self._runs: deque[Run] = deque(maxlen=KEPT)

    def pod_changed(self, old: Pod | None, new: Pod | None, wall: float) -> None:
        """Note a change that was seen at `wall`. A pod that is deleted did not end by itself."""
        if old is None or not old.bound or old.metadata.deletion_timestamp is not None:
            return
        if new is not None and (not new.ended or new.metadata.deletion_timestamp is not None):
            return
        metadata, owner = old.metadata, controller_of(old.metadata)
        job = owner.name if owner is not None and owner.kind == "Job" else ""
        uid = metadata.uid if owner is None else owner.uid
        tasks = self._tasks(metadata.namespace, job)
        self._runs.append(Run(metadata.namespace, job, uid, tasks, started_of(old), wall, old.spec.priority_class_name))

    def take(self) -> list[Run]:
        """Return the runs, and forget them."""
        runs, self._runs = list(self._runs), deque(maxlen=KEPT)
        return runs

    async def read(self, client: ApiClient) -> None:
        """Add pods that ended before this process watched. Adds none if the API server does not list them."""
        try:
            found = await client.get_json("/api/v1/pods", {"fieldSelector": "status.phase=Succeeded", "limit": str(LISTED)})
        except ApiError:
            return
        for pod in found.get("items") or []:
            run = run_of(pod)
            if run is not None:
                self._runs.appendleft(run._replace(tasks=self._tasks(run.namespace, run.job)))

    def _tasks(self, namespace: str, job: str) -> int:
        found = self._controllers.job(namespace, job) if job else None
        return 1 if found is None else pods_of(found)


def pods_of(job: Job) -> int:
    """Return how many pods a Job has to complete; its parallelism if it names no number."""
    spec = job.spec
    return max(1, spec.completions if spec.completions is not None else 1 if spec.parallelism is None else spec.parallelism)


def started_of(pod: Pod) -> float:
    """Return when the kubelet accepted a bound pod, else when the pod was bound or created, in seconds since the epoch."""
    if pod.status.start_time:
        return epoch(pod.status.start_time)
    bound = next((one.last_transition_time for one in pod.status.conditions or () if one.type == "PodScheduled"), None)
    return epoch(bound or pod.metadata.creation_timestamp)


def run_of(pod: Mapping[str, Any]) -> Run | None:
    """Return the run of an ended pod, given as JSON, as if its Job had one pod; None if its times are missing."""
    metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
    owner: Mapping[str, Any] = next((one for one in metadata.get("ownerReferences") or [] if one.get("controller")), {})
    job = owner.get("name", "") if owner.get("kind") == "Job" else ""
    ends = [((one.get("state") or {}).get("terminated") or {}).get("finishedAt") for one in status.get("containerStatuses") or []]
    finished = max((epoch(end) for end in ends if end), default=None)
    if finished is None or not status.get("startTime"):
        return None
    started = epoch(status["startTime"])
    uid = owner.get("uid") or metadata.get("uid", "")
    priority_class = (pod.get("spec") or {}).get("priorityClassName", "")
    return Run(metadata.get("namespace", ""), job, uid, 1, started, max(started, finished), priority_class)
