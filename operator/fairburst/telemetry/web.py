"""HTTP server for /metrics, /healthz, /readyz and further handlers of a process, all on one port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from fairburst.telemetry.process_metrics import ProcessMetrics

Probe = Callable[[], str | None]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MOST_BYTES = 1024**2


class WebServer:
    """Serves until stopped: the metrics of `registry`, to which it adds those of the process, and probes. A probe returns None if all is
    well, otherwise a sentence that describes the problem. The tasks among the metrics are those of the loop that creates the server."""

    def __init__(self, registry: CollectorRegistry, *, healthy: Probe, ready: Probe, most_bytes: int = MOST_BYTES) -> None:
        self._registry = registry
        self._process, self._loop = ProcessMetrics(registry), asyncio.get_running_loop()
        self._app = web.Application(client_max_size=most_bytes)
        self._probes = {"/healthz": healthy, "/readyz": ready}
        self._runner: web.AppRunner | None = None

    def serve(self, path: str, handler: Handler) -> None:
        """Answer POST requests to `path` with `handler`. Must be called before `start`."""
        self._app.router.add_post(path, handler)

    async def start(self, host: str, port: int) -> int:
        """Start listening; return the actual port (a free one if `port` is 0)."""
        self._app.router.add_get("/metrics", self._metrics)
        for path in self._probes:
            self._app.router.add_get(path, self._probe)
        self._runner = web.AppRunner(self._app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening. Requests that have started are finished."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        self._process.read(self._loop)
        # Encoding thousands of series takes a second; another thread keeps the rest of this event loop from waiting for it.
        body = await asyncio.to_thread(generate_latest, self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _probe(self, request: web.Request) -> web.Response:
        problem = self._probes[request.path]()
        return web.Response(text=problem or "ok", status=503 if problem else 200)
