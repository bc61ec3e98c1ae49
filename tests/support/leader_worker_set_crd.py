"""The LeaderWorkerSet kind for tests, written by hand: the module with the real one cannot be downloaded everywhere.

Faithful in the fields that fairburst reads, after api/leaderworkerset/v1 of kubernetes-sigs/lws. There is no controller: tests create the
StatefulSets as it would.
"""

from __future__ import annotations

import json
from typing import Any

from e2e.cluster import Cluster

JsonObject = dict[str, Any]
NAME_LABEL = "leaderworkerset.sigs.k8s.io/name"
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEMPLATE = {
    "type": "object",
    "required": ["workerTemplate"],
    "properties": {"leaderTemplate": _OPEN, "workerTemplate": _OPEN, "size": {"type": "integer", "default": 1}},
}
_SPEC = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {"replicas": {"type": "integer", "default": 1}, "leaderWorkerTemplate": _TEMPLATE},
}
CRD: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "leaderworkersets.leaderworkerset.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/lws"},
    },
    "spec": {
        "group": "leaderworkerset.x-k8s.io",
        "scope": "Namespaced",
        "names": {
            "kind": "LeaderWorkerSet",
            "listKind": "LeaderWorkerSetList",
            "plural": "leaderworkersets",
            "singular": "leaderworkerset",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC, "status": _OPEN}}},
            }
        ],
    },
}


def install(cluster: Cluster) -> None:
    """Add the kind."""
    cluster.kubectl("apply", "-f", "-", input=json.dumps(CRD))
    cluster.kubectl("wait", "--for=condition=Established", "crd/leaderworkersets.leaderworkerset.x-k8s.io", "--timeout=60s", timeout=70)


def leader_worker_set(namespace: str, name: str, pod_spec: JsonObject, groups: int, size: int) -> JsonObject:
    """Return so many groups of `size` equal pods each, the leader included."""
    template = {"size": size, "workerTemplate": {"spec": pod_spec}}
    metadata = {"name": name, "namespace": namespace}
    spec = {"replicas": groups, "leaderWorkerTemplate": template}
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": metadata, "spec": spec}


def stateful_sets_of(groups: JsonObject, leaders: int | None = None) -> list[JsonObject]:
    """Return the StatefulSets that the controller creates once so many leaders exist: one of leaders, and one of workers for each."""
    metadata, spec = groups["metadata"], groups["spec"]
    template = spec["leaderWorkerTemplate"]
    made = [_stateful_set(metadata, metadata["name"], spec["replicas"], template.get("leaderTemplate", template["workerTemplate"]))]
    for number in range(spec["replicas"] if leaders is None else leaders):
        made.append(_stateful_set(metadata, f"{metadata['name']}-{number}", template["size"] - 1, template["workerTemplate"]))
    return made


def _stateful_set(of: JsonObject, name: str, replicas: int, template: JsonObject) -> JsonObject:
    labels = {NAME_LABEL: of["name"], "part": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": of["namespace"], "labels": labels},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"part": name}},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }
