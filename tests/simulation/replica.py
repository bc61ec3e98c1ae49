"""One replica of the operator: the real `Operator` in a simulated process that can be killed, stopped, cut off and started again.

Kopf watches queues in a separate thread, which cannot run in virtual time. `StreamedQueueWatch` keeps the rest of the real watch: its
store, its lists and its repair. The client's own watches deliver the events that Kopf would.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from fairburst.config import Config
from fairburst.kube import process
from fairburst.kube.api.auth import Credentials
from fairburst.kube.api.client import ApiClient, RateLimiter
from fairburst.kube.api.errors import ApiError
from fairburst.kube.election import election_of
from fairburst.kube.names import GROUP, PLURALS, VERSION
from fairburst.kube.queues.queue_watch import QueueWatch
from tests.simulation.api_server import ApiServer
from tests.simulation.connection import Link, Session
from tests.simulation.virtual_time import WallClock, wall_clock

PROBE_SECONDS, PROBE_FAILURES = 10.0, 3
FOLLOW_PAUSE_SECONDS = 1.0


class StreamedQueueWatch(QueueWatch):
    """The queue watch with the client's own watches instead of Kopf: a list, object by object, then events."""

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self.refresh()
        self._ready.set()
        self._relisting = asyncio.create_task(self._relist_forever(), name="queue-relist")
        self._followers = [asyncio.create_task(self._follow(kind), name=f"follow {kind}") for kind in PLURALS]

    async def stop(self) -> None:
        followers = [] if self._relisting is None else [self._relisting, *self._followers]
        for task in followers:
            task.cancel()
        await asyncio.gather(*followers, return_exceptions=True)

    async def _follow(self, kind: str) -> None:
        path = f"/apis/{GROUP}/{VERSION}/{PLURALS[kind]}"
        while True:
            try:
                items, version = await self._list(path)
                for item in items:
                    self._take(kind, None, {"kind": kind, **item})
                params = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": str(version), "timeoutSeconds": "290"}
                async for lines in self._client.stream_batches(path, params):
                    for line in lines:
                        event = msgspec.json.decode(line)
                        if event["type"] == "ERROR":
                            raise _Expired
                        if event["type"] != "BOOKMARK":
                            self._take(kind, event["type"], event["object"])
            except (ApiError, _Expired, msgspec.DecodeError):
                await asyncio.sleep(FOLLOW_PAUSE_SECONDS)


class _Expired(Exception):  # noqa: N818
    """An ERROR event: list again."""


@asynccontextmanager
async def serving_nothing(*_: Any, **__: Any) -> AsyncIterator[int]:
    """Open no port and start no thread: the simulated kubelet asks the operator itself."""
    yield 0


STAND_INS = {"caches:QueueWatch": StreamedQueueWatch, "process:serving": serving_nothing}


class Replica:
    """One pod of the Deployment. `starts` counts its processes; `exits` lists those that ended by themselves, with the reason."""

    def __init__(self, name: str, config: Config, server: ApiServer, source: random.Random) -> None:
        self.name, self._config, self._server, self._source = name, config, server, source
        self.clock = WallClock()
        self.starts = 0
        self.exits: list[str] = []
        self.probe_kills: list[str] = []
        self.operator: process.Operator | None = None
        self.on_start: Callable[[Replica, process.Operator], None] = lambda replica, operator: None
        self.link = Link(server, "", source)
        self._running: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._failed_probes = 0

    @property
    def identity(self) -> str:
        """The name of the current process in the Lease."""
        return f"{self.name}.{self.starts}"

    @property
    def running(self) -> bool:
        """True while a process runs."""
        return self._running is not None and not self._running.done()

    def start(self) -> None:
        """Start a process. The link's faults belong to the machine and stay."""
        faults = self.link.faults
        self.starts += 1
        self.link = Link(self._server, self.identity, self._source)
        self.link.faults = faults
        self._stop = asyncio.Event()
        self._failed_probes = 0
        context = contextvars.copy_context()
        context.run(wall_clock.set, self.clock)
        self._running = asyncio.get_running_loop().create_task(self._run(self.link, self._stop), name=self.identity, context=context)

    def kill(self) -> None:
        """Kill the process as `kill -9` does: it sends nothing more, and requests that have arrived are processed."""
        if self._running is not None:
            self.link.alive = False
            self.link.reset_streams()
            self._running.cancel()
            self._running = None

    async def stop(self) -> None:
        """Stop the process as SIGTERM does, with SIGKILL after half a minute."""
        self._stop.set()
        if self._running is not None:
            await asyncio.wait([self._running], timeout=30)
            self.kill()

    def probe(self) -> str | None:
        """Probe liveness as the kubelet does. Return the reason for a restart once too many probes in a row have failed."""
        if not self.running or self.operator is None:
            return None
        problem = self.operator.unhealthy()
        self._failed_probes = self._failed_probes + 1 if problem else 0
        if self._failed_probes < PROBE_FAILURES:
            return None
        self.probe_kills.append(f"{self.identity}: {problem}")
        return problem

    async def _run(self, link: Link, stop: asyncio.Event) -> None:
        config = self._config
        credentials = Credentials("http://simulation")
        rates = RateLimiter(config.writes.per_second, config.writes.burst)
        client = ApiClient(credentials, rates, session=Session(link))
        lease_client = ApiClient(credentials, session=Session(link))
        election = client.fence = election_of(config, lease_client, self.identity)
        self.operator = operator = process.Operator(config, client, election)
        self.on_start(self, operator)
        try:
            await operator.run(stop)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.exits.append(f"{self.identity}: {error!r}")
            raise
        if not stop.is_set():
            self.exits.append(f"{self.identity}: it returned")
