"""The Kubernetes Job of one stage."""

from __future__ import annotations

import os
from typing import Any

from e2e.workload.stages import Stage

RUN_LABEL = "workload-run"
# The image of a task's container on real kubelets (docs/e2e.md); it has `sleep`. KWOK reads only the annotation `run-seconds`.
WORKLOAD_IMAGE = os.environ.get("WORKLOAD_IMAGE", "busybox:1.37")


def job_object(name: str, run_name: str, stage: Stage, most_parallel: int) -> dict[str, Any]:
    """Return the Job of one stage."""
    requests = {"cpu": f"{round(stage.cpu * 1000)}m", "memory": str(round(stage.memory))}
    container = {
        "name": "task",
        "image": WORKLOAD_IMAGE,
        "command": ["sleep", f"{stage.seconds:g}"],
        "resources": {"requests": requests},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {RUN_LABEL: run_name}},
        "spec": {
            "completions": stage.tasks,
            "parallelism": min(stage.tasks, most_parallel),
            "backoffLimit": 10_000,  # an evicted pod is replaced, however often
            "ttlSecondsAfterFinished": 10,  # keeps the cluster light, and outlives a short watch gap
            "template": {
                "metadata": {"labels": {RUN_LABEL: run_name}, "annotations": {"run-seconds": f"{stage.seconds:.3f}s"}},
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 0,
                    "automountServiceAccountToken": False,
                    "containers": [container],
                },
            },
        },
    }
