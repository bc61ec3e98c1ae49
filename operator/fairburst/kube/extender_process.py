"""`fairburst extender`: live copies of nodes, pods and queues, the table made of them, and the server; ended cleanly on SIGTERM.

It is a separate process, so that a round of the operator never delays kube-scheduler. It writes nothing and needs no Lease: any number may
run.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from fairburst.config import Config
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError, CredentialsError
from fairburst.kube.api.first_answer import first_answer
from fairburst.kube.api.informer import Informer, silence
from fairburst.kube.api.objects import LIVE_PODS, Node, Pod
from fairburst.kube.extender.node_table import NodeTable
from fairburst.kube.extender.queue_objects import PATHS, Queue, classes, expected_bursts, spaces_of
from fairburst.kube.extender.server import ExtenderServer
from fairburst.kube.garbage import short_collections
from fairburst.kube.process import NO_CLUSTER
from fairburst.kube.supervision import run_until, stopped_by_signal
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.usage.shared_parts import sharing
from fairburst.telemetry.log import event, set_up
from fairburst.telemetry.metrics import ExtenderMetrics

logger = logging.getLogger(__name__)

CHOOSE_SECONDS = 1.0  # between two choices of kept nodes while room is held: work ends, nodes come and go


def run(config: Config) -> int:
    """Run the extender until SIGTERM or SIGINT; return the exit code."""
    set_up(config.log.level, config.log.json_lines)
    try:
        with short_collections():
            asyncio.run(_main(config))
    except (ApiError, CredentialsError) as error:
        event(logger, logging.ERROR, "cannot run", problem=str(error))
        return NO_CLUSTER
    return 0


async def _main(config: Config) -> None:
    stop = stopped_by_signal()
    async with await ApiClient.connect(config.kubeconfig, config.context, agent="fairburst extender") as client:
        await first_answer(client, stop)
        await Extender(config, client).run(stop)
    event(logger, logging.INFO, "stopped")


class Extender:
    """One extender process: its caches, its table and its server."""

    def __init__(self, config: Config, client: ApiClient) -> None:
        self._pool = config.pool.name
        self.metrics = ExtenderMetrics()
        self._pods = PodIndex(config.pool.counted_resources)
        self.table = NodeTable(config.pool.counted_resources, config.pool.node_selector, self._pods.on_node)
        self._changed_nodes: set[str] = set()
        self._nodes_changed = False
        nodes = Informer(client, "/api/v1/nodes", Node, self._take_nodes, on_event=self._on_node)
        pods = Informer(client, "/api/v1/pods", Pod, self._take_pods, params=LIVE_PODS, on_event=sharing(self._on_pod))
        self._nodes = nodes.store
        self._queues = [Informer(client, path, Queue, self._take_queues) for path in PATHS]
        self._informers: list[Informer[Any]] = [nodes, pods, *self._queues]
        self._ready = False
        self._server = ExtenderServer(config.extender, self.table, self.metrics, ready=self.unready, healthy=self.unhealthy)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""
        event(logger, logging.INFO, "extender started", port=await self._server.start())
        tasks = [asyncio.create_task(informer.run(), name=informer.path) for informer in self._informers]
        tasks.append(asyncio.create_task(self._keep_choosing(), name="kept nodes"))
        try:
            await run_until(stop, tasks)
        finally:
            await self._server.stop()

    def unready(self) -> str | None:
        """Return why no request is answered yet, or None."""
        return None if self._ready else "caches are not complete yet"

    def unhealthy(self) -> str | None:
        """Return the problem, or None."""
        return silence(self._informers) if self._ready else None

    async def _keep_choosing(self) -> None:
        for informer in self._informers:
            await informer.synced.wait()
        self._ready = True
        event(logger, logging.INFO, "ready", nodes=len(self._nodes))
        while True:
            self._choose()
            await asyncio.sleep(CHOOSE_SECONDS)

    def _choose(self) -> None:
        bursts = expected_bursts(self._all_queues(), self._pool)
        if bursts or self.table.kept_by:
            self.table.keep(bursts)
        self.metrics.kept_nodes.set(len(self.table.kept_by))

    def _all_queues(self) -> list[Queue]:
        return [queue for informer in self._queues for queue in informer.store.values()]

    # Changes ---------------------------------------------------------------------------------------------------------

    def _on_node(self, _: str, old: Node | None, new: Node | None) -> None:
        self._nodes_changed |= self.table.concerns(old, new)

    def _take_nodes(self) -> None:
        if self._nodes_changed:
            self._nodes_changed = False
            self.table.set_nodes(self._nodes.values())

    def _on_pod(self, _: str, old: Pod | None, new: Pod | None) -> None:
        self._pods.update(old, new)
        self._changed_nodes |= {pod.spec.node_name for pod in (old, new) if pod is not None and pod.spec.node_name}

    def _take_pods(self) -> None:
        self.table.refresh(self._changed_nodes)
        self._changed_nodes.clear()
        self._pods.expire(time.time())  # it would keep the ends of pods for ever

    def _take_queues(self) -> None:
        found = classes(self._all_queues(), self._pool)
        spaces = spaces_of(found)
        if spaces != self._pods.spaces:
            self._pods.divide(spaces)
        self.table.set_classes(found)
        if self._ready:
            self._choose()
