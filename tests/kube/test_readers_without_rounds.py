"""Processes that follow all pods and run no rounds, a standby operator and the extender, keep nothing of pods that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from fairburst.config import parse_config
from fairburst.kube.api.objects import JOB_TRACKING
from fairburst.kube.election import elected
from fairburst.kube.extender_process import Extender
from fairburst.kube.process import Operator
from fairburst.kube.side_thread import here
from fairburst.kube.usage import owner_sums
from fairburst.kube.usage.pod_index import PodIndex
from tests.support.fake_api import FakeApi, JsonObject
from tests.support.objects import owned_by, pod_spec, requesting
from tests.support.operators import fake_cluster, under_way
from tests.support.tasks import until

LEASES, PODS = "/apis/coordination.k8s.io/v1/leases", "/api/v1/pods"
CONFIG = parse_config("metrics: {host: 127.0.0.1, port: 0}\nextender: {host: 127.0.0.1, port: 0}")


@asynccontextmanager
async def standby(api: FakeApi) -> AsyncIterator[PodIndex]:
    api.put(LEASES, {"metadata": {"namespace": "fairburst-system", "name": "fairburst-default"}, "spec": {"holderIdentity": "another"}})
    async with (
        api.client() as client,
        elected(CONFIG, client, "us", here) as election,
        under_way(Operator(CONFIG, client, election)) as made,
    ):
        await until(lambda: made.operator.unready() is None, "it to be ready", 60.0)
        yield made.operator.caches.view.pods


@asynccontextmanager
async def extender(api: FakeApi) -> AsyncIterator[PodIndex]:
    async with api.client() as client:
        made, stop = Extender(CONFIG, client), asyncio.Event()
        task = asyncio.create_task(made.run(stop))
        await until(lambda: made.unready() is None, "it to be ready", 60.0)
        yield made._pods
        stop.set()
        await asyncio.wait_for(task, 15.0)


def running(name: str) -> JsonObject:
    metadata = {"namespace": "batch", "name": name, "uid": name, "finalizers": [JOB_TRACKING], **owned_by("Job", "job")}
    return {"metadata": metadata, "spec": pod_spec(requesting()) | {"nodeName": "node"}, "status": {"phase": "Running"}}


@pytest.mark.parametrize("process", [standby, extender])
async def test_the_ends_of_pods_are_not_kept(
    process: Callable[[FakeApi], AbstractAsyncContextManager[PodIndex]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby or an extender kept a note of every pod of a Job that had ended: at ten Jobs a second some hundred megabytes a day."""
    monkeypatch.setattr(owner_sums, "COUNTED_SECONDS", 0.0)
    api = fake_cluster()
    api.add(LEASES)
    async with api, process(api) as index:
        for number in range(30):
            api.put(PODS, running(f"p{number}"))
            await until(lambda: index.on_node("node").by_namespace, "the pod")
            api.remove(PODS, "batch", f"p{number}")
            await until(lambda: not index.on_node("node").by_namespace, "its end")
        api.put(PODS, running("last"))
        await until(lambda: index.on_node("node").by_namespace, "the last pod")
        assert index.kept <= 1
