"""Jobs of one-cpu pods for a real control plane whose nodes are played by KWOK, and their creation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from e2e.cluster import Cluster
from fairburst.kube.queues.job_annotations import FAMILY


def task_job(
    namespace: str, name: str, parallelism: int, completions: int, *, run_seconds: str | None = None, family: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """`run_seconds`: how long each pod runs ("27s,33s": in turn, by the pod's index), else until somebody says so. `family`: its label."""
    container = {"name": "task", "image": "task", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "annotations": dict(annotations or {})}
    if family is not None:
        metadata["labels"] = {FAMILY: family}
    spec: dict[str, Any] = {
        "parallelism": parallelism,
        "completions": completions,
        "template": {
            "metadata": {"annotations": {} if run_seconds is None else {"run-seconds": run_seconds}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        },
    }
    if run_seconds is not None and "," in run_seconds:
        spec["completionMode"] = "Indexed"
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def create(cluster: Cluster, *objects: dict[str, Any]) -> None:
    """All at once, by kubectl."""
    cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all(objects))
