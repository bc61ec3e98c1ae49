"""Quota mode: an armed burst is admitted by the API server itself, with nothing of ours between. From the audit log."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.kube.api.client import ApiClient
from fairburst.quantity import parse_quantity
from tests.t1.test_operator_absent import job, queue

pytestmark = pytest.mark.slow

PODS, QUIET_SECONDS = 20, 6.0
WRITES = {"create", "update", "patch", "delete"}


def pod(number: int) -> dict[str, Any]:
    container = {"name": "work", "image": "work", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {"metadata": {"name": f"p{number:02}"}, "spec": {"containers": [container]}}


def entries(log: Path | None, user: str) -> list[dict[str, Any]]:
    """Finished writes of a user."""
    assert log is not None
    lines = log.read_text().splitlines()
    parsed = (json.loads(line) for line in lines if line.endswith("}"))  # the last one may still be under way
    return [one for one in parsed if one["user"]["username"] == user and one["verb"] in WRITES and one["stage"] == "ResponseComplete"]


def at(entry: dict[str, Any], field: str) -> float:
    return datetime.fromisoformat(entry[field]).timestamp()


def test_a_bursts_first_pod_is_admitted_with_no_write_of_ours_between(fresh_cluster: Callable[..., Cluster]) -> None:
    """On a cluster full of batch work. The operator reacts a second late, so that what it writes next is told apart from what is needed."""
    cluster = fresh_cluster(nodes=4, node_cpu="16", node_memory="64Gi", audit=True)
    burst = {"resources": {"cpu": str(PODS), "memory": f"{PODS}Gi"}, "durationSeconds": 20}
    with OperatorProcess(cluster, {"rounds": {"debounceMilliseconds": 1000}}, "first-pod"):
        for where in ("burst", "batch"):
            cluster.kubectl("create", "namespace", where)
        sporadic = {"sporadic": {"minInterarrivalSeconds": 600}}
        queues = [queue("LatencyQueue", "burst", {"burst": burst, "arrival": sporadic}), queue("ThroughputQueue", "batch", {})]
        cluster.kubectl("apply", "-f", "-", input="\n---\n".join(map(json.dumps, queues)))
        until(lambda: permitted(cluster, "burst") >= PODS, PATIENCE_SECONDS, "the burst to be armed")
        cluster.kubectl("create", "-f", "-", input=json.dumps(job("batch", "work", 128)))
        until(lambda: permitted(cluster, "batch") >= 60, PATIENCE_SECONDS, "batch to have the pool, of which nobody else wants anything")
        until(lambda: quiet(cluster), 2 * PATIENCE_SECONDS, "the operator to have nothing to write")
        asyncio.run(create(cluster))
        until(lambda: permitted(cluster, "batch") < 60, PATIENCE_SECONDS, "batch to be shrunk for the burst")
    created = [one for one in entries(cluster.audit_log, "admin") if one["verb"] == "create" and one["requestURI"].endswith("/burst/pods")]
    assert [one["responseStatus"]["code"] for one in created] == [201] * PODS, "all at the first attempt"
    first = min(created, key=lambda one: at(one, "requestReceivedTimestamp"))
    ours = [one for one in entries(cluster.audit_log, "fairburst") if at(one, "stageTimestamp") > at(first, "requestReceivedTimestamp")]
    assert ours, "the operator goes on: it shrinks the others"
    early = [one for one in ours if at(one, "requestReceivedTimestamp") < at(first, "stageTimestamp")]
    assert [(one["verb"], one["requestURI"]) for one in early] == []


async def create(cluster: Cluster) -> None:
    """The whole burst at once."""
    async with await ApiClient.connect(str(cluster.kubeconfig)) as client:
        await asyncio.gather(*(client.create("/api/v1/namespaces/burst/pods", pod(number)) for number in range(PODS)))


def permitted(cluster: Cluster, where: str) -> float:
    """What admission permits, cpu; 0 where there is no quota yet."""
    found = cluster.kubectl("get", "resourcequota", "fairburst", "-n", where, "-o", "json", "--ignore-not-found")
    return parse_quantity(json.loads(found).get("status", {}).get("hard", {}).get("requests.cpu", "0")) if found else 0.0


def quiet(cluster: Cluster) -> bool:
    newest = max((at(one, "stageTimestamp") for one in entries(cluster.audit_log, "fairburst")), default=0.0)
    return time.time() - newest > QUIET_SECONDS
