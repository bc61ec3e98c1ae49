"""Quota mode on a separate control plane: the rate at which a burst shrinks all other quotas, relative to a bare loop of the same writes.

A hard burst of half the pool arrives while every throughput queue runs twice its remaining level. A separate watch measures from outside: a
quota is shrunk once its `status.hard`, which admission enforces, has the new value. The bare loop patches as many quotas in unmanaged
namespaces, spec and then status, as many at a time as the operator.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import msgspec

from benchmarks.gate import IN_FLIGHT, Site, queue
from benchmarks.measure import Measurement, as_found, benchmark, figure
from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from fairburst.kube.api.client import ApiClient
from fairburst.kube.names import QUOTA_NAME
from fairburst.quantity import parse_quantity

NODES = 20
BURST_POD_CPU = 5
BEFORE, AFTER = 3.0, 2.0  # cpu in a throughput queue's quota: two pods, then one, and always room for one more pod


class _Metadata(msgspec.Struct, rename="camel"):
    namespace: str = ""
    resource_version: str = ""


class _Status(msgspec.Struct):
    hard: dict[str, str] = {}


class _Quota(msgspec.Struct):
    metadata: _Metadata
    status: _Status


class _Event(msgspec.Struct):
    object: _Quota


class _List(msgspec.Struct):
    items: list[_Quota]


def job(name: str, pods: int, cpu: int) -> dict[str, Any]:
    container = {"name": "work", "image": "work", "resources": {"requests": {"cpu": str(cpu), "memory": f"{cpu}Mi"}}}
    template = {"metadata": {"annotations": {"run-seconds": "3600s"}}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"metadata": {"name": name}, "spec": {"parallelism": pods, "completions": pods, "template": template}}


async def each(names: list[str], act: Callable[[str], Awaitable[object]]) -> None:
    """Run `act` for every namespace, a limited number at a time."""
    limit = asyncio.Semaphore(IN_FLIGHT)

    async def one(name: str) -> None:
        async with limit:
            await act(name)

    await asyncio.gather(*map(one, names))


def hard(cpu: float) -> dict[str, str]:
    return {"requests.cpu": f"{cpu:g}", "requests.memory": f"{cpu:g}Mi"}


async def shrunk(site: Site, names: list[str], act: Callable[[], Awaitable[None]]) -> float:
    """Return quotas a second, from the first to the last of `names` whose new value is enforced after `act`."""
    path, decoder, seen = "/api/v1/resourcequotas", msgspec.json.Decoder(_Event), dict[str, float]()
    version = (await site.client.get_json(path))["metadata"]["resourceVersion"]

    async def follow(version: str) -> None:
        while True:  # the server ends a watch that falls behind; a new one resumes from the last version
            async for line in site.client.stream(path, {"watch": "true", "resourceVersion": version}):
                quota, now = decoder.decode(line).object, time.monotonic()
                version = quota.metadata.resource_version
                if quota.status.hard and parse_quantity(quota.status.hard.get("requests.cpu", "0")) <= AFTER:
                    seen.setdefault(quota.metadata.namespace, now)

    task = asyncio.create_task(follow(version))
    await asyncio.sleep(0.3)
    await act()

    async def done() -> bool:
        if task.done():
            task.result()
        return all(name in seen for name in names)

    await site.until(done, f"{len(names)} quotas to be shrunk")
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    times = sorted(seen[name] for name in names)
    return (len(times) - 1) / (times[-1] - times[0])


async def by_the_operator(site: Site, queues: int) -> float:
    """Return the rate at which a burst's arrival shrinks the quotas of throughput queues, each of which runs two pods."""
    names = [f"batch-{number}" for number in range(queues)]

    async def declare(name: str) -> None:
        await site.client.create("/api/v1/namespaces", {"metadata": {"name": name}})
        tq = queue("ThroughputQueue", name, enforcement="Quota", reserve="Off")
        await site.client.create(f"/apis/fairburst.dev/v1alpha1/namespaces/{name}/throughputqueues", tq)

    await each(names, declare)
    await site.until(lambda: settled(site, names, 0.0), "a quota for each queue")
    await each(names, lambda name: site.client.create(f"/apis/batch/v1/namespaces/{name}/jobs", job("work", 2, 1)))
    await site.until(lambda: settled(site, names, BEFORE), "each quota to permit two pods and one more")
    await site.client.create("/api/v1/namespaces", {"metadata": {"name": "burst"}})
    needed = {"resources": {"cpu": str(queues), "memory": f"{queues}Mi"}, "durationSeconds": 120}
    sporadic = {"sporadic": {"minInterarrivalSeconds": 600}}
    lq = queue("LatencyQueue", "burst", enforcement="Quota", weight=queues, burst=needed, arrival=sporadic)
    await site.client.create("/apis/fairburst.dev/v1alpha1/namespaces/burst/latencyqueues", lq)
    await site.until(lambda: site.permits("burst", queues), "the burst's quota")
    await asyncio.sleep(2.0)  # a quota is written at most once a second

    async def arrive() -> None:
        await site.client.create("/apis/batch/v1/namespaces/burst/jobs", job("burst", queues // BURST_POD_CPU, BURST_POD_CPU))

    return await shrunk(site, names, arrive)


async def settled(site: Site, names: list[str], cpu: float) -> bool:
    """Return whether every one of these namespaces has a quota of at least `cpu`."""
    quotas = msgspec.json.decode(await site.client.get("/api/v1/resourcequotas"), type=_List).items
    enforced = {one.metadata.namespace: parse_quantity(one.status.hard.get("requests.cpu", "-1")) for one in quotas}
    return all(enforced.get(name, -1.0) >= cpu for name in names)


async def by_a_bare_loop(site: Site, queues: int, prefix: str) -> float:
    """Return the rate of the same writes on quotas of unmanaged namespaces, without any decisions."""
    names = [f"{prefix}-{number}" for number in range(queues)]

    async def declare(name: str) -> None:
        await site.client.create("/api/v1/namespaces", {"metadata": {"name": name}})
        body = {"metadata": {"name": QUOTA_NAME}, "spec": {"hard": hard(BEFORE)}}
        await site.client.create(f"/api/v1/namespaces/{name}/resourcequotas", body)

    await each(names, declare)
    await site.until(lambda: settled(site, names, BEFORE), "the bare quotas to be enforced")

    async def shrink(name: str) -> None:
        path = f"/api/v1/namespaces/{name}/resourcequotas/{QUOTA_NAME}"
        await site.client.merge_patch(path, {"metadata": {"labels": {"bare": "loop"}}, "spec": {"hard": hard(AFTER)}})
        await site.client.merge_patch(f"{path}/status", {"status": {"hard": hard(AFTER)}})

    return await shrunk(site, names, lambda: each(names, shrink))


async def _measured(cluster: Cluster, operator: OperatorProcess, queues: int) -> AsyncIterator[Measurement]:
    async with await ApiClient.connect(str(cluster.kubeconfig), write_rate=100_000.0, write_burst=100_000) as client:
        site = Site(client, cluster, operator)
        bare = [await by_a_bare_loop(site, queues, "before")]
        ours = await by_the_operator(site, queues)
        bare.append(await by_a_bare_loop(site, queues, "after"))
    yield Measurement(f"quota: {queues} shrunk, bare loop", statistics.mean(bare), "/s", None, len(bare), min(bare), max(bare))
    yield figure(f"quota: {queues} shrunk by a burst, operator", ours, "/s")
    yield figure(f"quota: {queues} queues, operator's rate to the bare loop's", ours / statistics.mean(bare), "ratio", 0.8, at_least=True)


def quota_path(queues: int) -> Iterator[Measurement]:
    """Measure on a separate cluster, just large enough for two pods of each queue."""
    name = f"bench-quota-{time.time_ns() % 10**8:08}"
    config = {"pool": {"headRoomPercent": 0}, "enforcement": {"floors": {"cpu": "1", "memory": "1Mi"}}}
    with (
        Cluster.start(name, nodes=NODES, node_cpu=str(2 * queues // NODES), node_memory="64Gi") as cluster,
        OperatorProcess(cluster, config, "quota-speed") as operator,
    ):
        yield from as_found(_measured(cluster, operator, queues))


@benchmark
def quota() -> Iterator[Measurement]:
    """Measure Quota mode: a burst shrinks 50 and 500 quotas, on separate control planes (two minutes)."""
    for queues in (50, 500):
        yield from quota_path(queues)
