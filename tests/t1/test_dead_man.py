"""With every replica gone, an open window's rate ends two minutes after its deadline: the API server alone sees to it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster, ClusterError
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.kube.enforce.expiry import WINDOW_SECONDS
from fairburst.kube.names import EXPIRES_ANNOTATION, QUOTA_NAME
from fairburst.quantity import parse_quantity

pytestmark = [pytest.mark.long, pytest.mark.timeout(420)]  # most of it absence

RATE, RUNNING = 16, 12  # cpu: promised in a window, and used by the burst; a fair share of 32 among four is 8


def queue(kind: str, where: str, spec: dict[str, Any]) -> list[dict[str, Any]]:
    made = {"apiVersion": "fairburst.dev/v1alpha1", "kind": kind, "metadata": {"name": "queue", "namespace": where}, "spec": spec}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}}, made]


def pod_spec() -> dict[str, Any]:
    container = {"name": "work", "image": "work", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {"restartPolicy": "Never", "containers": [container]}


def burst_job() -> dict[str, Any]:
    template = {"metadata": {"annotations": {"run-seconds": "900s"}}, "spec": pod_spec()}
    spec = {"parallelism": RUNNING, "completions": RUNNING, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "burst", "namespace": "burst"}, "spec": spec}


def test_an_open_windows_guarantee_ends_without_an_operator(fresh_cluster: Callable[..., Cluster]) -> None:
    cluster = fresh_cluster(nodes=4, node_cpu="8", node_memory="64Gi")

    def quota() -> dict[str, Any]:
        found = cluster.kubectl("get", "resourcequota", QUOTA_NAME, "-n", "burst", "-o", "json", "--ignore-not-found")
        return dict(json.loads(found)) if found else {}

    def refusal() -> str:
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "more-"}, "spec": pod_spec()}
        try:
            cluster.kubectl("create", "-n", "burst", "--dry-run=server", "-f", "-", input=json.dumps(body))
        except ClusterError as error:
            return str(error)
        return ""

    demand = {"resources": {"cpu": str(RATE), "memory": f"{RATE}Gi"}, "durationSeconds": 20}
    objects = queue("LatencyQueue", "burst", {"burst": demand, "arrival": {"sporadic": {"minInterarrivalSeconds": 600}}})
    for number in range(3):
        objects += queue("ThroughputQueue", f"batch-{number}", {})
    with OperatorProcess(cluster, {}, "dead-man") as operator:
        cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all(objects))

        until(lambda: parse_quantity(_hard(quota()).get("requests.cpu", "0")) >= RATE, PATIENCE_SECONDS, "the rate in the quota")
        cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(burst_job()))
        until(lambda: EXPIRES_ANNOTATION in _notes(quota()), PATIENCE_SECONDS, "the quota to say when its window's rate ends")
        operator.kill()
        opened_at_the_latest = time.time()
        expires = datetime.fromisoformat(_notes(quota())[EXPIRES_ANNOTATION]).timestamp()
        assert expires <= opened_at_the_latest + 20 + WINDOW_SECONDS
        assert refusal() == "", f"{RUNNING} of {RATE} cpu are in use"
        until(lambda: time.time() > expires + 1.0, 300.0, "the window's rate to end")
        refused = refusal()
        assert "no operator has renewed it" in refused
        assert parse_quantity(_hard(quota())["requests.cpu"]) >= RATE, "nobody has written the quota"


def _hard(quota: dict[str, Any]) -> dict[str, str]:
    return dict(quota.get("status", {}).get("hard") or {})


def _notes(quota: dict[str, Any]) -> dict[str, str]:
    return dict(quota.get("metadata", {}).get("annotations") or {})
