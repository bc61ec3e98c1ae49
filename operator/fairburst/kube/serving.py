"""What the operator serves, in a thread of its own: /metrics, the probes, and the admission webhook if it is enabled.

A round of thousands of queues may take seconds, in which its event loop does nothing else. The API server waits two seconds for a webhook,
and a kubelet one second for a probe. The interpreter changes between threads every few milliseconds, so an answer waits for a few of these
changes instead of a round. What the answers read may change while they do: a few attributes, and queue objects under their store's lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from fairburst.config import Config
from fairburst.kube.admission.server import AdmissionServer, QueuesIn
from fairburst.telemetry.log import event
from fairburst.telemetry.metrics import Metrics
from fairburst.telemetry.web import Probe, WebServer

logger = logging.getLogger(__name__)

T = TypeVar("T")


@contextlib.asynccontextmanager
async def serving(config: Config, metrics: Metrics, *, healthy: Probe, ready: Probe, queues: QueuesIn) -> AsyncIterator[int]:
    """Serve inside the block; yield the port of metrics and probes. All three callables are called in the other thread.

    Raises CertificateError if the webhook is enabled and has no usable certificate.
    """
    web, webhook = WebServer(metrics.registry, healthy=healthy, ready=ready), AdmissionServer(config, metrics, queues)
    async with ServingThread() as thread:
        try:
            port = await thread.run(web.start(config.metrics.host, config.metrics.port))
            if config.webhook.enabled:  # whether or not this process leads
                event(logger, logging.INFO, "webhook started", port=await thread.run(webhook.start()))
            yield port
        finally:
            await thread.run(webhook.stop())
            await thread.run(web.stop())


class ServingThread:
    """A thread with an event loop, from the beginning of an `async with` block to its end. Tasks that are left then are cancelled."""

    def __init__(self) -> None:
        self._running = Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]()
        self._thread = threading.Thread(target=self._work, name="serving", daemon=True)

    async def __aenter__(self) -> Self:
        self._thread.start()
        self._loop, self._stop = await asyncio.wrap_future(self._running)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread; return its result, or raise its error, here."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _work(self) -> None:
        asyncio.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        stop = asyncio.Event()
        self._running.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()
