"""Resources of the simulated API: collections by path, field selectors, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Object = dict[str, Any]
Key = tuple[str, str]  # namespace, name

PODS, NODES, NAMESPACES = "/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces"
QUOTAS, LIMIT_RANGES, CONFIG_MAPS, EVENTS = (f"/api/v1/{kind}" for kind in ("resourcequotas", "limitranges", "configmaps", "events"))
JOBS, LEASES = "/apis/batch/v1/jobs", "/apis/coordination.k8s.io/v1/leases"
DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS = (f"/apis/apps/v1/{kind}" for kind in ("deployments", "replicasets", "statefulsets"))
LATENCY_QUEUES, THROUGHPUT_QUEUES = (f"/apis/fairburst.dev/v1alpha1/{kind}" for kind in ("latencyqueues", "throughputqueues"))
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
LEADER_WORKER_SETS = "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets"
QUEUES = {LATENCY_QUEUES: "LatencyQueue", THROUGHPUT_QUEUES: "ThroughputQueue"}
KINDS = {
    PODS: "Pod",
    NODES: "Node",
    NAMESPACES: "Namespace",
    QUOTAS: "ResourceQuota",
    LIMIT_RANGES: "LimitRange",
    CONFIG_MAPS: "ConfigMap",
    EVENTS: "Event",
    JOBS: "Job",
    LEASES: "Lease",
    DEPLOYMENTS: "Deployment",
    REPLICA_SETS: "ReplicaSet",
    STATEFUL_SETS: "StatefulSet",
    JOB_SETS: "JobSet",
    LEADER_WORKER_SETS: "LeaderWorkerSet",
    **QUEUES,
}


def refusal(code: int, reason: str, message: str) -> Object:
    """Return a failure as a metav1.Status."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason, "message": message}


class Refused(Exception):  # noqa: N818
    """The request fails with this Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


def place_of(path: str) -> tuple[str, str, str, str]:
    """Return the collection, namespace, name and subresource in a path; an empty text for a part that it lacks."""
    group, parts = path.split("/")[1:], []
    depth = 2 if group[0] == "api" else 3
    parts = group[depth:]
    prefix = "/" + "/".join(group[:depth])
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    return f"{prefix}/{parts[0]}", namespace, parts[1] if len(parts) > 1 else "", parts[2] if len(parts) > 2 else ""


def selector(text: str) -> Callable[[Object], bool]:
    """Return a field selector, with equalities and inequalities, as a function."""
    if not text:
        return lambda _: True
    terms = []
    for term in text.split(","):
        negated = "!=" in term
        field_path, _, value = term.partition("!=" if negated else "=")
        terms.append((field_path.split("."), value, negated))

    def selects(obj: Object) -> bool:
        for path, value, negated in terms:
            found: Any = obj
            for part in path:
                found = found.get(part, {}) if isinstance(found, dict) else {}
            if (found == value) is negated:
                return False
        return True

    return selects
