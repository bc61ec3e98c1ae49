"""Manifests of work for a real control plane whose nodes KWOK simulates, and their creation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from e2e.cluster import Cluster
from e2e.objects import objects_of
from fairburst.kube.queues.job_annotations import FAMILY

JsonObject = dict[str, Any]


def namespace(name: str, **labels: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def pod_spec(cpu: int | str = 1, memory: str = "128Mi", *, grace_seconds: int = 0, **more: Any) -> JsonObject:
    """The spec of a pod with one container. Without grace seconds a deleted pod is gone at once."""
    container = {"name": "work", "image": "work", "resources": {"requests": {"cpu": str(cpu), "memory": memory}}}
    return {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": grace_seconds, **more}


def pod(where: str, name: str, spec: JsonObject | None = None, **metadata: Any) -> JsonObject:
    """A pod of one cpu by default, which runs until it is deleted."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**_named(where, name), **metadata}, "spec": spec or pod_spec()}


def job(
    where: str, name: str, pods: int, spec: JsonObject | None = None, *, seconds: float | None = None, completions: int | None = None,
    pod_metadata: JsonObject | None = None, metadata: JsonObject | None = None, **more: Any,
) -> JsonObject:  # fmt: skip
    """A Job of pods of one cpu by default, which run for `seconds`, or until they are deleted. `more` goes into the Job's spec."""
    template = {"metadata": dict(pod_metadata or {}), "spec": spec or pod_spec()}
    if seconds is not None:
        template["metadata"]["annotations"] = {"run-seconds": f"{seconds:g}s", **template["metadata"].get("annotations", {})}
    body = {"parallelism": pods, "completions": completions or pods, "template": template, **more}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {**_named(where, name), **(metadata or {})}, "spec": body}


def task_job(
    where: str, name: str, parallelism: int, completions: int, *, run_seconds: str | None = None, family: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> JsonObject:  # fmt: skip
    """`run_seconds`: how long each pod runs ("27s,33s": in turn, by the pod's index); by default until it is deleted. `family`: a label."""
    metadata: JsonObject = {"annotations": dict(annotations or {})}
    if family is not None:
        metadata["labels"] = {FAMILY: family}
    pods = {"annotations": {} if run_seconds is None else {"run-seconds": run_seconds}}
    spec = pod_spec(memory="1Gi", grace_seconds=30)
    made = job(where, name, parallelism, spec, completions=completions, pod_metadata=pods, metadata=metadata)
    if run_seconds is not None and "," in run_seconds:
        made["spec"]["completionMode"] = "Indexed"
    return made


def deployment(where: str, name: str, replicas: int, spec: JsonObject | None = None, **pod_metadata: JsonObject) -> JsonObject:
    labels = {"app": name}
    template = {"metadata": {"labels": labels, **pod_metadata}, "spec": (spec or pod_spec()) | {"restartPolicy": "Always"}}
    body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _named(where, name), "spec": body}


def _named(where: str, name: str) -> JsonObject:
    """Without `where` the namespace is that of the request."""
    return {"name": name, "namespace": where} if where else {"name": name}


def create(cluster: Cluster, *objects: JsonObject) -> None:
    for one in objects:
        objects_of(cluster.kubeconfig).create(one)
