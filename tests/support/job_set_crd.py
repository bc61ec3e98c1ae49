"""The JobSet kind for tests, written by hand: the module with the real one cannot be downloaded everywhere.

Faithful in what fairburst reads and writes, after api/jobset/v1alpha2 of kubernetes-sigs/jobset: group, version, scope, the fields that
are mentioned here and the status subresource. All other fields of a spec pass unchecked, where the real kind has schemas and webhooks.
There is no controller: tests make a JobSet's Jobs as it would.
"""

from __future__ import annotations

import json
from typing import Any

from e2e.cluster import Cluster, ClusterError
from e2e.waiting import PATIENCE_SECONDS, until

JsonObject = dict[str, Any]

_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_PART = {
    "type": "object",
    "required": ["name", "template"],
    "properties": {"name": {"type": "string"}, "replicas": {"type": "integer", "default": 1}, "template": _OPEN},
}
_SPEC = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {"suspend": {"type": "boolean"}, "replicatedJobs": {"type": "array", "items": _PART}},
}
CRD: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "jobsets.jobset.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/jobset"},
    },
    "spec": {
        "group": "jobset.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "JobSet", "listKind": "JobSetList", "plural": "jobsets", "singular": "jobset"},
        "versions": [
            {
                "name": "v1alpha2",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC, "status": _OPEN}}},
            }
        ],
    },
}


def install(cluster: Cluster, where: str = "default") -> None:
    """Add the kind, and wait until JobSets can be created in the namespace: the condition Established comes a moment
    too early, and admission policies that match the kind notice it later still."""
    cluster.kubectl("apply", "-f", "-", input=json.dumps(CRD))
    probe = job_set(where, "probe", {"restartPolicy": "Never", "containers": [{"name": "c", "image": "work"}]}, 1, 1)
    until(lambda: _can_be_created(cluster, probe), PATIENCE_SECONDS, "JobSets to be known")


def _can_be_created(cluster: Cluster, body: JsonObject) -> bool:
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(body))
    except ClusterError:
        return False
    return True


def job_set(namespace: str, name: str, pod_spec: JsonObject, jobs: int, pods: int) -> JsonObject:
    """One part of so many Jobs with so many pods each."""
    template = {"spec": {"parallelism": pods, "completions": pods, "template": {"spec": pod_spec}}}
    part = {"name": "workers", "replicas": jobs, "template": template}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": {"replicatedJobs": [part]}}


def jobs_of(job_set: JsonObject) -> list[JsonObject]:
    """The Jobs that its controller would make, suspended as the JobSet is."""
    metadata = job_set["metadata"]
    owner = {"apiVersion": job_set["apiVersion"], "kind": "JobSet", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    made = []
    for part in job_set["spec"]["replicatedJobs"]:
        for number in range(part["replicas"]):
            labels = {"jobset.sigs.k8s.io/jobset-name": metadata["name"], "jobset.sigs.k8s.io/replicatedjob-name": part["name"]}
            own = {"name": f"{metadata['name']}-{part['name']}-{number}", "namespace": metadata["namespace"], "labels": labels}
            spec = part["template"]["spec"] | {"suspend": job_set["spec"].get("suspend", False)}
            made.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": own | {"ownerReferences": [owner]}, "spec": spec})
    return made
