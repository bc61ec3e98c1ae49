"""With every replica gone, the API server alone ends an open window's rate two minutes after its deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.kube.enforce.expiry import WINDOW_SECONDS
from fairburst.kube.names import EXPIRES_ANNOTATION, QUOTA_NAME
from tests.support.live_cluster import LiveCluster, refusal
from tests.support.objects import latency_spec
from tests.support.queues import queue
from tests.support.work import job, namespace, pod, pod_spec

pytestmark = [pytest.mark.long, pytest.mark.timeout(420)]  # most of it absence

RATE, RUNNING = 16, 12  # cpu: promised in a window, and used by the burst; a fair share of 32 among four is 8
ONE_GI = pod_spec(memory="1Gi")


def test_an_open_windows_guarantee_ends_without_an_operator(fresh_cluster: Callable[..., Cluster]) -> None:
    cluster = LiveCluster(fresh_cluster(nodes=4, node_cpu="8", node_memory="64Gi"))

    def expires() -> str:
        annotations = cluster.get("resourcequota", QUOTA_NAME, "burst").get("metadata", {}).get("annotations") or {}
        return str(annotations.get(EXPIRES_ANNOTATION, ""))

    def refused() -> str:
        return refusal(lambda: cluster.stored(pod("burst", "more", ONE_GI)))

    batch = [f"batch-{number}" for number in range(3)]
    with OperatorProcess(cluster.cluster, {}, "dead-man") as operator:
        cluster.create(*map(namespace, ("burst", *batch)))
        cluster.create(queue("LatencyQueue", latency_spec(str(RATE), 20, 600), "burst"))
        cluster.create(*(queue("ThroughputQueue", {}, where) for where in batch))
        until(lambda: cluster.enforced_cpu("burst") >= RATE, PATIENCE_SECONDS, "the rate in the quota")
        cluster.create(job("burst", "burst", RUNNING, ONE_GI, seconds=900))
        until(expires, PATIENCE_SECONDS, "the quota to say when its window's rate ends")
        operator.kill()
        opened_at_the_latest = time.time()
        ends = datetime.fromisoformat(expires()).timestamp()
        assert ends <= opened_at_the_latest + 20 + WINDOW_SECONDS
        assert refused() == "", f"{RUNNING} of {RATE} cpu are in use"
        until(lambda: time.time() > ends + 1.0, 300.0, "the window's rate to end")
        assert "no operator has renewed it" in refused()
        assert cluster.enforced_cpu("burst") >= RATE, "the quota has not been written"
