"""The operator as a whole, in the test's own process, against a server without admission, quota or controllers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fairburst.kube.process import Operator
from tests.support.fake_api import FakeApi
from tests.support.measured import value

NAMESPACES, NODES, QUOTAS, PODS = "/api/v1/namespaces", "/api/v1/nodes", "/api/v1/resourcequotas", "/api/v1/pods"
LATENCY, THROUGHPUT = "/apis/fairburst.dev/v1alpha1/latencyqueues", "/apis/fairburst.dev/v1alpha1/throughputqueues"
CORE = [NAMESPACES, NODES, QUOTAS, *(f"/api/v1/{kind}" for kind in ("pods", "limitranges", "events", "configmaps"))]
APPS = [f"/apis/apps/v1/{kind}" for kind in ("deployments", "replicasets", "statefulsets")]


def fake_cluster() -> FakeApi:
    """One node of 32 cpu and a namespace."""
    api = FakeApi(*CORE, *APPS, "/apis/batch/v1/jobs", LATENCY, THROUGHPUT)
    node = {"allocatable": {"cpu": "32", "memory": "64Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}
    api.put(NODES, {"metadata": {"name": "node"}, "status": node})
    api.put(NAMESPACES, {"metadata": {"name": "batch"}, "status": {"phase": "Active"}})
    return api


@dataclass
class Running:
    """An operator under way."""

    operator: Operator
    task: asyncio.Task[None]
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def end(self, seconds: float = 15.0) -> None:
        """Ask it to stop, as SIGTERM does."""
        self.stop.set()
        await asyncio.wait_for(asyncio.shield(self.task), seconds)


@asynccontextmanager
async def under_way(operator: Operator) -> AsyncIterator[Running]:
    stop = asyncio.Event()
    made = Running(operator, asyncio.create_task(operator.run(stop)), stop)
    try:
        yield made
    finally:
        made.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await made.task


def kopf_watches(api: FakeApi, since: int = 0) -> bool:
    """Return whether Kopf has begun to watch after the first `since` requests. If stopped earlier, Kopf waits five seconds for its own
    requests, which it gave up."""
    return any(path == THROUGHPUT and "watch" in query for _, path, query in api.requests[since:])


def rounds(operator: Operator) -> float:
    return value(operator.metrics, "fairburst_rounds_total")
