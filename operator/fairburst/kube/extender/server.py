"""HTTP server of the extender: kube-scheduler's two requests, metrics and probes on one port. An answer never waits for anything.

A request that cannot be answered gets an HTTP error, and kube-scheduler continues without the extender (`ignorable: true`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from aiohttp import web

from fairburst.config import ExtenderConfig
from fairburst.kube.extender.answers import Answer, NotUnderstoodError, filtered, prioritized
from fairburst.kube.extender.node_table import NodeTable
from fairburst.telemetry.log import event
from fairburst.telemetry.metrics import ExtenderMetrics
from fairburst.telemetry.web import Handler, Probe, WebServer

logger = logging.getLogger(__name__)

MOST_BYTES = 16 * 1024**2  # a pod of at most 3 MiB, and twice 5,000 names of at most 253 characters
Answers = Callable[[bytes, NodeTable], tuple[bytes, Answer]]
VERBS: dict[str, Answers] = {"filter": filtered, "prioritize": prioritized}


class ExtenderServer:
    """Serves until stopped. `ready` returns None once all objects are known, otherwise a sentence; until then requests get error 503."""

    def __init__(self, config: ExtenderConfig, table: NodeTable, metrics: ExtenderMetrics, *, ready: Probe, healthy: Probe) -> None:
        self._config, self._table, self._metrics, self._ready = config, table, metrics, ready
        self._web = WebServer(metrics.registry, healthy=healthy, ready=ready, most_bytes=MOST_BYTES)
        for verb, answers in VERBS.items():
            self._web.serve(f"/{verb}", self._handler(verb, answers))

    async def start(self) -> int:
        """Start listening; return the actual port."""
        return await self._web.start(self._config.host, self._config.port)

    async def stop(self) -> None:
        """Stop listening. Requests that have started are finished."""
        await self._web.stop()

    def _handler(self, verb: str, answers: Answers) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            body = await request.read()
            started = time.perf_counter()
            problem = self._ready()
            if problem is not None:
                self._metrics.requests.labels(verb, "not ready").inc()
                raise web.HTTPServiceUnavailable(text=problem)
            try:
                text, answer = answers(body, self._table)
            except NotUnderstoodError as error:
                event(logger, logging.WARNING, "question not understood", verb=verb, problem=str(error))
                self._metrics.requests.labels(verb, "error").inc()
                raise web.HTTPBadRequest(text=str(error)) from error
            self._metrics.requests.labels(verb, answer.value).inc()
            self._metrics.seconds.labels(verb).observe(time.perf_counter() - started)
            return web.Response(body=text, content_type="application/json")

        return handle
