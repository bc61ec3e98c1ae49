"""A quota at the queue's level costs no throughput: ended pods are replaced as fast as if nothing were limited.

The same 12 s pods run twice in one cluster: in plain namespaces, where each Job's own parallelism is the limit, and in managed
ones, where the Jobs want far more than their queue's level. Refusals, the Job controller's retries and kube-controller-manager's
late release of ended pods are all included.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from fairburst.kube.api.client import ApiClient
from tests.support.queues import queue
from tests.support.tasks import in_groups
from tests.support.work import job, namespace, pod_spec

POD_SECONDS = 12
POOL_CPU = 10 * 32
WARM_UP_SECONDS, MEASURED_SECONDS = 13.0, 24.0  # more than one and exactly two lives of a pod
LEAST_RATIO = 0.95

pytestmark = pytest.mark.measure


class _Counted(msgspec.Struct):
    class Metadata(msgspec.Struct):
        namespace: str

    metadata: Metadata


class _List(msgspec.Struct):
    items: list[_Counted]


@pytest.fixture(scope="module")
def cluster(fresh_cluster: Callable[..., Cluster]) -> Cluster:
    started = fresh_cluster(nodes=0)
    for pool in ("plain", "managed"):
        started.add_nodes(10, cpu="32", memory="64Gi", labels={"pool": pool}, name_prefix=pool)
    return started


def endless_job(where: str, pool: str, *, cpu: int, parallelism: int) -> dict[str, Any]:
    spec = pod_spec(cpu, f"{cpu}Gi", nodeSelector={"pool": pool})
    return job(where, "work", parallelism, spec, seconds=POD_SECONDS, completions=100_000)


async def start_work(client: ApiClient, prefix: str, queues: int, *, cpu: int, parallelism: int, managed: bool) -> None:
    names = [f"{prefix}-{number}" for number in range(queues)]
    await in_groups([client.create("/api/v1/namespaces", namespace(name)) for name in names])
    if managed:
        await in_groups([client.create(_queues(name), queue("ThroughputQueue", {}, name)) for name in names])
        await quotas_stand(client, set(names))
    pool = "managed" if managed else "plain"
    jobs = [client.create(_jobs(name), endless_job(name, pool, cpu=cpu, parallelism=parallelism)) for name in names]
    await in_groups(jobs)


async def quotas_stand(client: ApiClient, namespaces: set[str]) -> None:
    """Wait until each namespace has had its quota for a while, so that it applies to the first pod."""
    async with asyncio.timeout(120):
        while True:
            quotas = msgspec.json.decode(await client.get("/api/v1/resourcequotas"), type=_List).items
            if namespaces <= {quota.metadata.namespace for quota in quotas}:
                break
            await asyncio.sleep(0.5)
    await asyncio.sleep(3.0)


async def stop_work(client: ApiClient, prefix: str, queues: int) -> None:
    gone = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
    await in_groups([client.delete(f"{_jobs(f'{prefix}-{number}')}/work", None, gone) for number in range(queues)])
    async with asyncio.timeout(120):
        while await running(client, prefix):  # noqa: ASYNC110 (the API server is what is waited for)
            await asyncio.sleep(0.5)


async def running(client: ApiClient, prefix: str) -> int:
    body = await client.get("/api/v1/pods", {"fieldSelector": "status.phase=Running"})
    return sum(item.metadata.namespace.startswith(prefix) for item in msgspec.json.decode(body, type=_List).items)


async def mean_running(client: ApiClient, prefixes: list[str]) -> list[float]:
    """Mean number of running pods of each prefix over the measured time, after the warm-up."""
    await asyncio.sleep(WARM_UP_SECONDS)
    samples: list[list[int]] = []
    end = time.monotonic() + MEASURED_SECONDS
    while time.monotonic() < end:
        samples.append([await running(client, prefix) for prefix in prefixes])
        await asyncio.sleep(1.0)
    return [sum(column) / len(samples) for column in zip(*samples, strict=True)]


def _jobs(where: str) -> str:
    return f"/apis/batch/v1/namespaces/{where}/jobs"


def _queues(where: str) -> str:
    return f"/apis/fairburst.dev/v1alpha1/namespaces/{where}/throughputqueues"


def config() -> dict[str, Any]:
    return {"pool": {"name": "default", "nodeSelector": {"pool": "managed"}}, "log": {"level": "INFO"}}


async def test_five_queues_reach_the_use_of_unlimited_namespaces(cluster: Cluster) -> None:
    """Side by side on two halves of one cluster."""
    cpu, queues = 4, 5
    level = POOL_CPU // cpu // queues
    with OperatorProcess(cluster, config(), "five"):
        async with await ApiClient.connect(str(cluster.kubeconfig)) as client:
            await start_work(client, "five-plain", queues, cpu=cpu, parallelism=level, managed=False)
            await start_work(client, "five-managed", queues, cpu=cpu, parallelism=8 * level, managed=True)
            plain, managed = await mean_running(client, ["five-plain", "five-managed"])
            await asyncio.gather(stop_work(client, "five-plain", queues), stop_work(client, "five-managed", queues))
    print(f"\n5 queues: plain {plain:.1f} pods, managed {managed:.1f}, ratio {managed / plain:.3f}")
    assert plain > 0.8 * queues * level
    assert managed >= LEAST_RATIO * plain


async def test_three_hundred_queues_reach_the_use_of_unlimited_namespaces(cluster: Cluster) -> None:
    """One after the other: 25 pods a second are about what two cores can start, so the halves would starve each other."""
    cpu, queues = 1, 300
    async with await ApiClient.connect(str(cluster.kubeconfig)) as client:
        await start_work(client, "many-plain", queues, cpu=cpu, parallelism=1, managed=False)
        (plain,) = await mean_running(client, ["many-plain"])
        await stop_work(client, "many-plain", queues)
        with OperatorProcess(cluster, config(), "many"):
            await start_work(client, "many-managed", queues, cpu=cpu, parallelism=8, managed=True)
            (managed,) = await mean_running(client, ["many-managed"])
    print(f"\n300 queues: plain {plain:.1f} pods, managed {managed:.1f}, ratio {managed / plain:.3f}")
    assert managed >= LEAST_RATIO * plain
