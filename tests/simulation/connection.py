"""A stand-in for aiohttp's session between a replica and the API server, with latency, lost connections and refusals by seed.

A request travels, is processed, and its answer travels back. A request that is cancelled before it arrives leaves no trace; one that has
arrived is processed even if its sender has gone. `Faults` are the faults at the moment.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from fairburst.kube.api.client import CONNECT_TIMEOUT_SECONDS
from tests.simulation.api_server import Answer, ApiServer, Watch
from tests.simulation.resources import refusal

_PLAIN_429 = b"Too many requests, please try again later."
ORDINARY_SECONDS = (0.0005, 0.004)
RESEND_SECONDS = 0.5
STUCK_SECONDS = (2.0, 40.0)


@dataclass
class Faults:
    """Faults on the way from a replica to the API server. Chances are in [0, 1], for each request."""

    latency: tuple[float, float] = ORDINARY_SECONDS
    processing: tuple[float, float] = (0.0, 0.0)
    cut: bool = False  # packets vanish: requests hang, watches are silent
    refused: bool = False  # connections are refused
    lost_before: float = 0.0
    lost_after: float = 0.0
    conflict: float = 0.0
    busy: float = 0.0
    retry_after: float = 1.0
    errors: float = 0.0
    codes: tuple[int, ...] = (500, 502, 503, 504)
    torn: float = 0.0  # for each line of a watch
    doubled: float = 0.0
    stuck: float = 0.0  # the request stays at the server much longer, in a queue or behind a webhook
    lease_errors: float = 0.0
    write_errors: float = 0.0  # of all writes except those of leases


class Link:
    """The way from a replica to the API server. `alive` is False once its process has been killed."""

    def __init__(self, server: ApiServer, identity: str, source: random.Random) -> None:
        self.server, self.identity, self.source = server, identity, source
        self.faults = Faults()
        self.alive = True
        self.streams: dict[Stream, None] = {}  # in order of arrival, so that a seed repeats itself

    @property
    def passes_writes(self) -> bool:
        """Whether a write may come through, and be stored."""
        faults = self.faults
        return self.alive and not (faults.cut or faults.refused) and max(faults.errors, faults.write_errors, faults.lease_errors) < 1.0

    def delay(self) -> float:
        """Return the latency of one way in seconds."""
        return self.source.uniform(*self.faults.latency)

    def reset_streams(self) -> None:
        """Break every watch."""
        for stream in list(self.streams):
            stream.fail(aiohttp.ClientPayloadError("connection reset"))

    def stall_streams(self) -> None:
        """Leave the open watches open, and deliver nothing on them."""
        for stream in list(self.streams):
            stream.stalled = True


class Session:
    """The part of `aiohttp.ClientSession` that `ApiClient` uses."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def close(self) -> None:
        """Close the session, which holds nothing."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        params: Any = None,
        data: bytes | None = None,
        headers: Any = None,
        timeout: Any = None,  # noqa: ASYNC109 (aiohttp's name)
        **_: Any,
    ) -> _Response:
        """Send a request and return the response once its head has arrived."""
        path = url.removeprefix("http://simulation")
        content_type = (headers or {}).get("Content-Type", "")
        limit = timeout.total if timeout.total is not None else timeout.sock_read
        async with asyncio.timeout(limit):
            return await self._exchange(method, path, dict(params or {}), content_type, data, timeout.sock_read)

    async def _exchange(
        self, method: str, path: str, params: dict[str, str], content_type: str, data: bytes | None, silence: float | None
    ) -> _Response:
        link, faults = self._link, self._link.faults
        if link.alive:
            await asyncio.sleep(link.delay())
        if faults.refused or not link.alive:
            raise aiohttp.ClientOSError("connection refused")
        if faults.cut:
            await self._connected()
        if link.source.random() < faults.lost_before:
            raise aiohttp.ServerDisconnectedError
        answer = self._refused_by_chance(method, path) or await self._processed(method, path, params, content_type, data)
        try:
            await self._passable()
            if link.source.random() < faults.lost_after:
                raise aiohttp.ServerDisconnectedError
            await asyncio.sleep(link.delay())
        except BaseException:
            if answer.watch is not None:
                answer.watch.close()
            raise
        return _Response(answer, None if answer.watch is None else Stream(link, answer.watch, silence))

    async def _connected(self) -> None:
        """Wait for the network to come back, as long as a connection attempt waits."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                await self._passable()
        except TimeoutError:
            raise aiohttp.ConnectionTimeoutError("connection timed out") from None

    async def _passable(self) -> None:
        """Send again until the network passes a packet, or the caller times out."""
        while self._link.faults.cut:  # noqa: ASYNC110 (a network resends)
            await asyncio.sleep(RESEND_SECONDS)

    def _refused_by_chance(self, method: str, path: str) -> Answer | None:
        faults, chance = self._link.faults, self._link.source.random
        if chance() < faults.errors or (faults.lease_errors and "/leases" in path and chance() < faults.lease_errors):
            code = faults.codes[int(chance() * len(faults.codes))]
            return Answer(code, refusal(code, "InternalError", "as the seed wants it"))
        if faults.write_errors and method != "GET" and "/leases" not in path and chance() < faults.write_errors:
            return Answer(faults.codes[0], refusal(faults.codes[0], "InternalError", "as the test wants it"))
        if chance() < faults.busy:
            return Answer(429, _PLAIN_429, {"Retry-After": f"{faults.retry_after:g}"})
        if method in {"PUT", "PATCH"} and chance() < faults.conflict:
            return Answer(409, refusal(409, "Conflict", "the object has been modified; please apply your changes to the latest version"))
        return None

    async def _processed(self, method: str, path: str, params: dict[str, str], content_type: str, data: bytes | None) -> Answer:
        link = self._link
        patience = float((params.get("timeout") or "60s").removesuffix("s"))
        seconds = link.source.uniform(*link.faults.processing)
        if link.faults.stuck and "/leases" not in path and link.source.random() < link.faults.stuck:
            seconds += link.source.uniform(*STUCK_SECONDS)
        body = msgspec.json.decode(data) if data else None

        def process() -> Answer:
            return link.server.handle(method, path, params, content_type, body, link.identity)

        if not seconds:
            return process()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Answer] = loop.create_future()

        def finish() -> None:
            answer = process() if seconds <= patience else Answer(504, refusal(504, "Timeout", "request did not complete in time"))
            if not done.done():
                done.set_result(answer)

        loop.call_later(min(seconds, patience), finish)
        return await done


class Stream:
    """A watch on its way to a replica. Lines arrive after a delay and in order; faults tear or repeat them."""

    def __init__(self, link: Link, watch: Watch, silence: float | None) -> None:
        self._link, self._watch, self._silence = link, watch, silence
        self._loop = asyncio.get_running_loop()
        self._arrived = bytearray()
        self._news = asyncio.Event()
        self._error: BaseException | None = None
        self._ended = self._scheduled = False
        self._last_arrival = 0.0
        self.stalled = False
        link.streams[self] = None
        watch.on_lines = self._on_lines
        if watch.lines or watch.ended:
            self._on_lines()

    def fail(self, error: BaseException) -> None:
        """Break the stream."""
        self._error = error
        self._news.set()

    def close(self) -> None:
        """End the watch, whose reader has closed its connection."""
        self._link.streams.pop(self, None)
        self._watch.close()

    def _on_lines(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._last_arrival = max(self._loop.time() + self._link.delay(), self._last_arrival)
            self._loop.call_at(self._last_arrival, self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        if self.stalled:
            return
        if self._link.faults.cut:  # resent until the network is back
            self._last_arrival = self._loop.time() + RESEND_SECONDS
            self._scheduled = True
            self._loop.call_at(self._last_arrival, self._deliver)
            return
        faults, chance = self._link.faults, self._link.source.random
        for line in self._watch.take():
            self._arrived += line
            if faults.doubled and chance() < faults.doubled:
                self._arrived += line
            if faults.torn and chance() < faults.torn:
                del self._arrived[-max(1, len(line) // 2) :]
                self.fail(aiohttp.ClientPayloadError("connection lost in the middle of a line"))
                break
        self._ended |= self._watch.ended
        self._news.set()

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Yield chunks as they arrive."""
        while True:
            if not self._news.is_set():
                try:
                    async with asyncio.timeout(self._silence):
                        await self._news.wait()
                except TimeoutError:
                    raise aiohttp.SocketTimeoutError("nothing came for too long") from None
            self._news.clear()
            if self._arrived:
                chunk = bytes(self._arrived)
                self._arrived.clear()
                yield chunk
            if self._error is not None:
                raise self._error
            if self._ended and not self._watch.lines:
                return


class _Connection:
    """The part of `aiohttp.connector.Connection` that `ApiClient` uses. What is left unread waits in the `Stream`."""

    def __init__(self) -> None:
        self.transport = self

    def pause_reading(self) -> None:
        """Nothing to do: only `iter_any` reads."""

    def resume_reading(self) -> None:
        """Nothing to do."""


@dataclass
class _Response:
    """The part of `aiohttp.ClientResponse` that `ApiClient` uses."""

    answer: Answer
    content: Stream | None
    reason: str = "as simulated"
    headers: dict[str, str] = field(default_factory=dict)
    connection: _Connection = field(default_factory=_Connection)

    def __post_init__(self) -> None:
        self.status = self.answer.status
        self.headers = self.answer.headers

    async def read(self) -> bytes:
        return self.answer.bytes()

    async def __aenter__(self) -> _Response:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.content is not None:
            self.content.close()
