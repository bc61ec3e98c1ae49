"""The read path on a real control plane: nothing is lost over an API server restart, and a relist repairs the rest."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import apply_manifests
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.informer import Informer
from fairburst.kube.api.objects import Pod
from fairburst.kube.install.crd import all_crds
from fairburst.kube.queues.queue_watch import QueueWatch
from fairburst.kube.usage.pod_index import PodIndex
from tests.support import work
from tests.support.tasks import until

PODS = "/api/v1/pods"
LATENCY_SPEC = {
    "burst": {"resources": {"cpu": "4"}, "durationSeconds": 10},
    "arrival": {"sporadic": {"minInterarrivalSeconds": 60}},
}


@pytest.fixture(scope="module")
def own_cluster(fresh_cluster: Callable[..., Cluster]) -> Cluster:
    """A control plane of this module, which restarts it."""
    cluster = fresh_cluster(nodes=2)
    apply_manifests(cluster, all_crds().values())
    work.create(cluster, work.namespace("work"))
    return cluster


@asynccontextmanager
async def informer_of(client: ApiClient) -> AsyncIterator[tuple[Informer[Pod], PodIndex, list[tuple[str, str]]]]:
    """A synced informer of the namespace's pods, the index fed by it, and all events it reported."""
    index, events = PodIndex(("cpu", "memory")), list[tuple[str, str]]()

    def take(kind: str, old: Pod | None, new: Pod | None) -> None:
        subject = new if new is not None else old
        assert subject is not None
        events.append((kind, subject.metadata.name))
        index.update(old, new)

    informer: Informer[Pod] = Informer(client, "/api/v1/namespaces/work/pods", Pod, lambda: None, on_event=take)
    task = asyncio.create_task(informer.run())
    try:
        await asyncio.wait_for(informer.synced.wait(), 20)
        yield informer, index, events
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def pod(name: str) -> dict[str, Any]:
    """A pod that stays pending: no scheduler answers to its name."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "missing", "terminationGracePeriodSeconds": 0, "containers": [container]},
    }


async def restart(cluster: Cluster, while_down: Callable[[], None] = lambda: None) -> None:
    """Kill the API server and start it again. `while_down` is called once no connection is left."""
    await asyncio.to_thread(cluster.stop, "kube-apiserver", kill=True)
    await asyncio.sleep(1.0)
    while_down()
    await asyncio.to_thread(cluster.start_component, "kube-apiserver")


async def test_pods_survive_an_api_server_restart_without_a_lost_event(own_cluster: Cluster) -> None:
    pods = "/api/v1/namespaces/work/pods"
    async with await ApiClient.connect(str(own_cluster.kubeconfig)) as client, informer_of(client) as (informer, index, events):
        for number in range(10):
            await client.create(pods, pod(f"before-{number}"))
        await until(lambda: len(informer.store) == 10, "all pods seen")
        assert index.namespace("work").stored == {"cpu": 2.5, "memory": 640.0 * 2**20}
        await restart(own_cluster)
        # Deleted and created at once, while the informer is still in its back-off.
        for number in range(5):
            await client.delete(f"{pods}/before-{number}")
        await client.create(pods, pod("after"))
        want = {f"before-{number}" for number in range(5, 10)} | {"after"}
        await until(lambda: {name for _, name in informer.store} == want, "the gap's events seen")
        assert {name for kind, name in events if kind == "DELETED"} == {f"before-{number}" for number in range(5)}
        assert index.namespace("work") == PodIndex.rebuilt(index.resources, informer.store.values()).namespace("work")
        lists = informer.lists  # before the restart, since the informer may reconnect before this test does

        def forget_the_version() -> None:
            informer._version = "1"  # long compacted away, as after hours without a connection

        await restart(own_cluster, forget_the_version)
        await client.delete(f"{pods}/after")
        await until(lambda: informer.lists > lists and len(informer.store) == 5, "relisted after 410")
        await asyncio.gather(*(client.delete(f"{pods}/before-{number}") for number in range(5, 10)))
        await until(lambda: not informer.store, "all deletions seen")


async def test_queues_survive_an_api_server_restart_and_deletions_in_it_are_noticed(own_cluster: Cluster) -> None:
    resyncs: list[float] = []
    queues = "/apis/fairburst.dev/v1alpha1/namespaces/work/latencyqueues"

    def queue(name: str) -> dict[str, Any]:
        return {"apiVersion": "fairburst.dev/v1alpha1", "kind": "LatencyQueue", "metadata": {"name": name}, "spec": LATENCY_SPEC}

    async with await ApiClient.connect(str(own_cluster.kubeconfig)) as client:
        await client.create(queues, queue("stays"))
        await client.create(queues, queue("goes"))
        watch = QueueWatch(client, None, lambda: resyncs.append(time.monotonic()), relist_seconds=20.0)
        await watch.start()
        try:

            def names() -> set[str]:
                return {name for kind, namespace, name in watch.objects if (kind, namespace) == ("LatencyQueue", "work")}

            assert names() == {"stays", "goes"}
            created = time.monotonic()
            await client.create(queues, queue("live"))
            await until(lambda: "live" in names(), "an event through kopf, not a list", seconds=10)
            assert time.monotonic() - created < 10
            await restart(own_cluster)
            await client.delete(f"{queues}/goes")
            await client.merge_patch(f"{queues}/stays", {"spec": {"suspended": True}})
            await until(lambda: names() == {"stays", "live"}, "deletion noticed")
            await until(lambda: watch.objects["LatencyQueue", "work", "stays"]["spec"].get("suspended"), "change noticed")
            stored = json.loads(own_cluster.kubectl("get", "latq", "-n", "work", "stays", "-o", "json"))
            assert "annotations" not in stored["metadata"]
            assert "finalizers" not in stored["metadata"]
        finally:
            await watch.stop()
            await asyncio.gather(*(client.delete(f"{queues}/{name}") for name in ("stays", "live")))
