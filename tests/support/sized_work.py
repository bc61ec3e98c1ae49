"""Jobs of a size and their pods, on a hand-built cluster."""

from __future__ import annotations

from typing import Any

import msgspec

from fairburst.kube.api.objects import Job, Pod
from fairburst.kube.jobs.job_size import SIZE_LABEL
from fairburst.kube.names import QUEUE_LABEL
from tests.support.objects import pod, pod_spec

ON = "smallJobs: {enabled: true}"
OFF = "smallJobs: {enabled: false}"


def sized_job(namespace: str, name: str, pods: int, size: str | None, queue: str = "", **spec: Any) -> Job:
    """A Job as the API server stores it: with its size in the template. Its pods ask for a queue, if it names one."""
    labels = ({SIZE_LABEL: size} if size else {}) | ({QUEUE_LABEL: queue} if queue else {})
    template = {"metadata": {"labels": labels} if labels else {}, "spec": pod_spec()}
    metadata = {"namespace": namespace, "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    body = {"metadata": metadata, "spec": {"parallelism": pods, "template": template, **spec}}
    return msgspec.convert(body | {"status": {"startTime": "2026-01-01T00:00:00Z"}}, Job)


def sized_pod(namespace: str, number: int, owner: str, size: str, *, running: bool = True, started: int = 0, **metadata: Any) -> Pod:
    """A pod of that Job with the class of its size, or of a lane (`queue-1`); if it runs, since `started` seconds after the beginning."""
    stored = pod(namespace, f"{owner}-{number}", owner=("Job", owner), node=f"node-{number % 2}" if running else "", **metadata)
    stored.spec.priority_class_name = f"fairburst-{size}"
    if running:
        stored.status.phase, stored.status.start_time = "Running", f"2026-01-01T00:00:{started:02d}Z"
    return stored
