"""Idle queues' quotas on a real API server: the next Job is admitted with no write of ours, and an armed burst's room stays.

The operator is killed before work comes, so only its last quotas admit the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from fairburst.kube.api.client import ApiClient
from fairburst.quantity import parse_quantity
from tests.support import work
from tests.support.audit import audited
from tests.support.objects import latency_spec
from tests.support.queues import queue
from tests.support.tasks import in_groups

NODES, BURST, QUEUES = 5, 75, 5
POOL = NODES * 32
QUEUE_PATH = "/apis/fairburst.dev/v1alpha1/namespaces/{0}/{1}"


@pytest.fixture(scope="module")
def cluster(fresh_cluster: Callable[..., Cluster]) -> Cluster:
    return fresh_cluster(nodes=NODES, node_cpu="32", node_memory="64Gi", audit=True)


def job(pods: int) -> dict[str, Any]:
    return work.job("", "work", pods, work.pod_spec(memory="1Gi"), seconds=3600)


async def declare(client: ApiClient, name: str, kind: str, spec: dict[str, Any]) -> None:
    await client.create("/api/v1/namespaces", work.namespace(name))
    await client.create(QUEUE_PATH.format(name, f"{kind.lower()}s"), queue(kind, spec, name))


async def quotas(client: ApiClient) -> dict[str, float]:
    """Return the cores that each namespace's quota admits."""
    items = (await client.get_json("/api/v1/resourcequotas"))["items"]
    return {one["metadata"]["namespace"]: parse_quantity(one["status"].get("hard", {}).get("requests.cpu", "-1")) for one in items}


async def bound(client: ApiClient, prefix: str) -> int:
    items = (await client.get_json("/api/v1/pods"))["items"]
    return sum(bool(one["spec"].get("nodeName")) and one["metadata"]["namespace"].startswith(prefix) for one in items)


async def until(ready: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not await ready():  # noqa: ASYNC110 (the API server is what is waited for)
                await asyncio.sleep(0.5)
    except TimeoutError:
        raise AssertionError(f"after {seconds:g} s not yet: {what}") from None


def refused(cluster: Cluster, namespace: str) -> int:
    """Count the creations of pods that a quota refused."""
    return sum(
        one["verb"] == "create"
        and one["objectRef"].get("resource") == "pods"
        and one["objectRef"].get("namespace", "").startswith(namespace)
        and one["responseStatus"]["code"] == 403
        for one in audited(cluster)
    )


async def test_what_idle_queues_start_all_at_once_leaves_an_armed_bursts_room(cluster: Cluster) -> None:
    names = [f"batch-{number}" for number in range(QUEUES)]
    async with await ApiClient.connect(str(cluster.kubeconfig)) as client:
        with OperatorProcess(cluster, {}, "entitled") as operator:
            await declare(client, "burst", "LatencyQueue", latency_spec(str(BURST), 60, 3600, weight=QUEUES))
            for name in names:
                await declare(client, name, "ThroughputQueue", {"enforcement": "Quota"})

            async def standing() -> bool:
                found = await quotas(client)
                return all(found.get(name, 0) >= 10 for name in names) and found.get("burst", 0) >= BURST

            await until(standing, "an entitlement for each idle queue, and the burst's rate")
            await asyncio.sleep(3.0)
            admitted = await quotas(client)
            assert sum(admitted[name] for name in names) <= POOL - BURST
            operator.kill()
            await client.create("/apis/batch/v1/namespaces/batch-0/jobs", job(5))

            async def five() -> bool:
                return await bound(client, "batch-0") == 5

            await until(five, "the first queue's Job, which is within its entitlement, to run")
            assert refused(cluster, "batch-0") == 0
            await in_groups([client.create(f"/apis/batch/v1/namespaces/{name}/jobs", job(POOL)) for name in names[1:]])

            async def full() -> bool:
                return await bound(client, "batch-") >= 0.9 * sum(admitted[name] for name in names[1:])

            await until(full, "the others' Jobs to fill their entitlements")
            await client.create("/apis/batch/v1/namespaces/burst/jobs", job(BURST))

            async def all_of_it() -> bool:
                return await bound(client, "burst") == BURST

            await until(all_of_it, "the whole burst to run in the room that was left to it")
