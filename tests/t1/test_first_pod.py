"""Quota mode: the API server itself admits an armed burst, without a write of ours in between, as the audit log shows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from tests.support.audit import at, writes_of
from tests.support.live_cluster import LiveCluster, burst_at_once
from tests.support.objects import latency_spec
from tests.support.queues import queue
from tests.support.work import job, namespace, pod, pod_spec

pytestmark = pytest.mark.slow

PODS, QUIET_SECONDS = 20, 6.0
ONE_GI = pod_spec(memory="1Gi")


def test_a_bursts_first_pod_is_admitted_with_no_write_of_ours_between(fresh_cluster: Callable[..., Cluster]) -> None:
    """On a cluster full of batch work. The operator reacts a second late, so that its next writes cannot be mistaken for necessary ones."""
    site = LiveCluster(fresh_cluster(nodes=4, node_cpu="16", node_memory="64Gi", audit=True))
    cluster = site.cluster
    with OperatorProcess(cluster, {"rounds": {"debounceMilliseconds": 1000}}, "first-pod"):
        site.create(namespace("burst"), namespace("batch"))
        site.create(queue("LatencyQueue", latency_spec(str(PODS), 20, 600), "burst"), queue("ThroughputQueue", {}, "batch"))
        until(lambda: site.enforced_cpu("burst") >= PODS, PATIENCE_SECONDS, "the burst to be armed")
        site.create(job("batch", "work", 128, ONE_GI, seconds=600))
        until(lambda: site.enforced_cpu("batch") >= 60, PATIENCE_SECONDS, "batch to have the pool, of which no other queue wants anything")
        until(lambda: quiet(cluster), 2 * PATIENCE_SECONDS, "the operator to have nothing to write")
        asyncio.run(burst_at_once(cluster, "burst", [pod("burst", f"p{number:02}", ONE_GI) for number in range(PODS)]))
        until(lambda: site.enforced_cpu("batch") < 60, PATIENCE_SECONDS, "batch to be shrunk for the burst")
    created = [one for one in writes_of(cluster, "admin") if one["verb"] == "create" and one["requestURI"].endswith("/burst/pods")]
    assert [one["responseStatus"]["code"] for one in created] == [201] * PODS, "all at the first attempt"
    first = min(created, key=lambda one: at(one, "requestReceivedTimestamp"))
    ours = [one for one in writes_of(cluster, "fairburst") if at(one, "stageTimestamp") > at(first, "requestReceivedTimestamp")]
    assert ours, "the operator goes on: it shrinks the others"
    early = [one for one in ours if at(one, "requestReceivedTimestamp") < at(first, "stageTimestamp")]
    assert [(one["verb"], one["requestURI"]) for one in early] == []


def quiet(cluster: Cluster) -> bool:
    newest = max((at(one, "stageTimestamp") for one in writes_of(cluster, "fairburst")), default=0.0)
    return time.time() - newest > QUIET_SECONDS
