"""Patches for new pods and Jobs: the policies of kube/install/mutating_policies.py in Python. Pure functions.

Like the policies, this module decides nothing. It copies the pod priority, the size threshold and the held kind from the status of the
namespace's queue; the policies read priority and held kind from the namespace's labels. tests/t1/test_webhook.py applies both to one
table of objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fairburst.config import Config
from fairburst.kube.api.objects import DISRUPTION, OWN_CONTROLLERS, Job
from fairburst.kube.enforce.pod_priority import lowest_pod_priority
from fairburst.kube.jobs.job_size import SIZE_LABEL, SMALL, size_of
from fairburst.kube.names import GATE, HELD_ANNOTATION, LANE_OF_CLASS
from fairburst.kube.queues.lanes import asks_for
from fairburst.kube.queues.queue_set import ObjectKey, pool_name
from fairburst.quantity import parse_quantity

Object = Mapping[str, Any]
Patch = list[dict[str, Any]]


def governing(queues: Mapping[ObjectKey, Object], namespace: str, pool: str) -> tuple[str, Object] | None:
    """Return kind and status of the namespace's governing queue in this pool, or None. Of several queues it is the default one."""
    for (kind, where, _), queue in sorted(queues.items()):
        status = queue.get("status") or {}
        if where == namespace and "podPriority" in status and pool_name(queue) == pool and not _has_lane(status):
            return kind, status
    return None


def asked_queue(queues: Mapping[ObjectKey, Object], pod: Object, namespace: str, pool: str) -> tuple[str, Object] | None:
    """Return kind and status of the further queue that a pod or template asks for by its label; without one those of the default queue."""
    queue = queues.get(("ThroughputQueue", namespace, asks_for((pod.get("metadata") or {}).get("labels"))))
    status = (queue or {}).get("status") or {}
    if queue is not None and pool_name(queue) == pool and _has_lane(status):
        return "ThroughputQueue", status
    return governing(queues, namespace, pool)


def first_template(job: Object) -> Object:
    """Return the pod template of a Job, or of the first part of a JobSet; empty if it has none."""
    parts = job["spec"].get("replicatedJobs")
    of_job: Object = job["spec"] if parts is None else parts[0]["template"]["spec"] if parts else {}
    return of_job.get("template") or {}


def _has_lane(status: Object) -> bool:
    return (status.get("podPriority") or {}).get("className") in LANE_OF_CLASS


def another_pools(queues: Mapping[ObjectKey, Object], namespace: str, pool: str) -> bool:
    """Return whether only queues of other pools govern in the namespace: their operator's webhook patches its pods."""
    pools = {
        pool_name(queue) for (_, where, _), queue in queues.items() if where == namespace and "podPriority" in (queue.get("status") or {})
    }
    return bool(pools) and pool not in pools


def pod_patch(pod: Object, queue: tuple[str, Object] | None, config: Config) -> Patch:
    """Return the JSON patch for a new pod in a managed namespace. queue: kind and status of the governing queue."""
    spec = pod["spec"]
    if spec.get("priorityClassName", "").startswith("system-") or _owned_by(pod, "DaemonSet"):
        return []
    if queue is None:
        return _prioritized(lowest_pod_priority(config))
    kind, status = queue
    small = kind == "ThroughputQueue" and config.small_jobs.enabled and "smallPodPriority" in status and _of_a_small_job(pod)
    return [
        *_prioritized(status["smallPodPriority" if small else "podPriority"]),
        *_placed(spec, config.pool.node_selector),
        *_gated(spec, status),
    ]


def job_patch(
    job: Object, before: Object | None, queue: tuple[str, Object] | None, config: Config, asked: tuple[str, Object] | None = None
) -> Patch:
    """Return the JSON patch for a Job in a managed namespace.

    before: the Job before an update, None for a new Job. queue: the governing queue. asked: the queue that its pods ask for, if another.
    """
    return [*_sized(job, before, queue, config), *([*held_patch(job, asked or queue), *_forgiving(job)] if before is None else [])]


def _prioritized(priority: Object) -> Patch:
    """Set priority class, value and preemption policy together: the API server refuses a pod in which they disagree."""
    fields = {"priority": priority["value"], "preemptionPolicy": priority["preemptionPolicy"], "priorityClassName": priority["className"]}
    return [_add(f"/spec/{name}", value) for name, value in fields.items()]


def _placed(spec: Object, selector: Mapping[str, str]) -> Patch:
    return _merged("/spec/nodeSelector", spec.get("nodeSelector"), selector)


def _gated(spec: Object, status: Object) -> Patch:
    """Add fairburst's gate once, next to the gates of others. A pod with a node name cannot have a gate."""
    gates = spec.get("schedulingGates") or []
    if status.get("holds") != "Pods" or spec.get("nodeName") or any(gate["name"] == GATE for gate in gates):
        return []
    gate = {"name": GATE}
    return [_add("/spec/schedulingGates/-", gate)] if gates else [_add("/spec/schedulingGates", [gate])]


def _sized(job: Object, before: Object | None, queue: tuple[str, Object] | None, config: Config) -> Patch:
    """Set the size label of a new Job if its queue has a threshold, and remove it otherwise. Later changes of the label are reverted."""
    sizing = queue is not None and queue[0] == "ThroughputQueue"
    if not config.small_jobs.enabled or (before is not None and not sizing):
        return []
    if before is not None:
        wanted = [_size(metadata) for metadata in _metadata(before)]
    else:
        threshold = {name: parse_quantity(text) for name, text in (queue[1].get("sizeThreshold") or {}).items()} if queue and sizing else {}
        wanted = [size_of(msgspec.convert(job, Job), threshold) if threshold else None] * 2
    patch = []
    for path, metadata, size in zip(("/metadata", "/spec/template/metadata"), _metadata(job), wanted, strict=True):
        if size is None and _size(metadata) is not None:
            patch.append({"op": "remove", "path": f"{path}/labels/{_escaped(SIZE_LABEL)}"})
        elif size is not None and _size(metadata) != size:
            patch += _merged(f"{path}/labels", metadata.get("labels"), {SIZE_LABEL: size})
    return patch


def held_patch(job: Object, queue: tuple[str, Object] | None) -> Patch:
    """Return the JSON patch for a new Job or JobSet: suspend it and annotate it if its queue holds Jobs.

    A Job that Kueue or another controller starts or manages is left alone. A CronJob only creates Jobs, so its Jobs are held.
    """
    controlled = any(owner.get("controller") and owner["kind"] != "CronJob" for owner in job["metadata"].get("ownerReferences") or ())
    by_kueue = "kueue.x-k8s.io/queue-name" in (job["metadata"].get("labels") or {})
    if queue is None or queue[1].get("holds") != "Jobs" or controlled or by_kueue or _managed_elsewhere(job):
        return []
    note = _merged("/metadata/annotations", job["metadata"].get("annotations"), {HELD_ANNOTATION: "true"})
    return [_add("/spec/suspend", True), *note]


def _forgiving(job: Object) -> Patch:
    """Keep evictions from counting as failures, for a Job with restartPolicy Never that declares no podFailurePolicy.

    Another controller than Kubernetes' own need not know these fields.
    """
    spec = job["spec"]
    if _managed_elsewhere(job) or spec.get("podFailurePolicy") or spec["template"]["spec"].get("restartPolicy") != "Never":
        return []
    rule = {"action": "Ignore", "onPodConditions": [{"type": DISRUPTION, "status": "True"}]}
    return [_add("/spec/podReplacementPolicy", "Failed"), _add("/spec/podFailurePolicy", {"rules": [rule]})]


def _managed_elsewhere(job: Object) -> bool:
    return job["spec"].get("managedBy") not in {None, *OWN_CONTROLLERS}


def _metadata(job: Object) -> tuple[Object, Object]:
    """Return the Job's metadata and its template's."""
    return job["metadata"], job["spec"]["template"].get("metadata") or {}


def _size(metadata: Object) -> str | None:
    size: str | None = (metadata.get("labels") or {}).get(SIZE_LABEL)
    return size


def _of_a_small_job(pod: Object) -> bool:
    return _size(pod["metadata"]) == SMALL and _owned_by(pod, "Job")


def _owned_by(body: Object, kind: str) -> bool:
    owners: Iterable[Object] = body["metadata"].get("ownerReferences") or ()
    return any(owner["kind"] == kind and owner.get("controller", False) for owner in owners)


def _merged(path: str, present: Object | None, more: Mapping[str, str]) -> Patch:
    """Return the patch that adds entries to a map. `present` is None if the map does not exist yet."""
    if not more:
        return []
    if present is None:
        return [_add(path, dict(more))]
    return [_add(f"{path}/{_escaped(key)}", value) for key, value in sorted(more.items())]


def _add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
