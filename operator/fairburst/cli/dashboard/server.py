"""The web server of the dashboard: the page, its live feed and its questions. It only reads. An entrance decides on each request."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from aiohttp import web

from fairburst.cli.dashboard.pages import HEADERS, as_json, asset
from fairburst.cli.errors import CommandError
from fairburst.kube.api.errors import ApiError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from fairburst.cli.dashboard.entrance import Entrance, Viewer
    from fairburst.cli.dashboard.live import Live, Message
    from fairburst.telemetry.web import Handler

    Page = Callable[[web.Request, Viewer], Awaitable[web.StreamResponse]]

HEARTBEAT_SECONDS = 10.0
REVIEW_SECONDS = 30.0  # between two looks at what the viewer of a feed may read
END_SECONDS = 1.0
MOST_BYTES = 64 * 1024


class DashboardServer:
    """Serves the page, its live feed and its questions until stopped."""

    def __init__(self, live: Live, entrance: Entrance) -> None:
        self._live, self._entrance = live, entrance
        app = web.Application(client_max_size=MOST_BYTES)
        entrance.add_routes(app.router)
        pages: dict[str, Page] = {
            "/": self._first,
            "/feed": self._feed,
            "/viewer": self._viewer,
            "/ask/queue/{namespace}/{name}": self._queue,
            "/ask/job/{namespace}/{name}": self._job,
            "/ask/what-if": self._what_if,
            "/{asset}": self._asset,
        }
        for path, page in pages.items():
            app.router.add_get(path, self._entered(page))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=END_SECONDS)

    async def start(self, host: str, port: int, context: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port. Raises OSError if it is taken."""
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, ssl_context=context).start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening and end the feeds."""
        await self._runner.cleanup()

    def _entered(self, page: Page) -> Handler:
        """Return a handler that lets the entrance decide before the page answers. Errors are JSON."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return await page(request, await self._entrance.enter(request))
            except CommandError as error:
                return as_json({"error": str(error)}, 400)
            except ApiError as error:
                return as_json({"error": f"the API server has not said what you may see: {error.message}; try again"}, 503)

        return handle

    async def _first(self, _: web.Request, __: Viewer) -> web.StreamResponse:
        return asset("index.html")

    async def _asset(self, request: web.Request, _: Viewer) -> web.StreamResponse:
        return asset(request.match_info["asset"])

    async def _viewer(self, _: web.Request, viewer: Viewer) -> web.StreamResponse:
        return as_json({"name": viewer.name})

    async def _feed(self, request: web.Request, viewer: Viewer) -> web.StreamResponse:
        """Send server-sent events: the whole state, then its changes. A comment in idle times detects a dead browser."""
        answer = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        await answer.prepare(request)
        reader, shown = self._live.follow(), Shown(viewer)
        reviewed = time.monotonic()
        try:
            while True:
                if time.monotonic() - reviewed > REVIEW_SECONDS:
                    shown.viewer, reviewed = await self._entrance.enter(request), time.monotonic()
                    if await shown.is_outdated(self._live.everything()):
                        await _send(answer, await shown.part(self._live.everything()))
                try:
                    message = await asyncio.wait_for(reader.get(), HEARTBEAT_SECONDS)
                except TimeoutError:
                    await answer.write(b": nothing new\n\n")
                    continue
                if message is None:
                    return answer
                await _send(answer, await shown.part(message))
        except (ApiError, ConnectionError, asyncio.CancelledError, web.HTTPException):
            return answer  # the browser connects again, and the entrance decides again
        finally:
            self._live.leave(reader)

    async def _queue(self, request: web.Request, viewer: Viewer) -> web.StreamResponse:
        return as_json(await viewer.questions.queue(request.match_info["namespace"], request.match_info["name"]))

    async def _job(self, request: web.Request, viewer: Viewer) -> web.StreamResponse:
        return as_json(await viewer.questions.job(request.match_info["namespace"], request.match_info["name"]))

    async def _what_if(self, request: web.Request, viewer: Viewer) -> web.StreamResponse:
        query = request.query
        weights = [(queue, weight) for text in query.getall("weight", []) for queue, _, weight in [text.partition("=")]]
        return as_json(await viewer.questions.what_if(query.getall("capacity", []), query.getall("remove", []), weights))


class Shown:
    """The part of the state that one browser has been sent: what its viewer may read."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer
        self._queues: set[str] = set()

    async def part(self, message: Message) -> Message:
        """Return what may be sent of a message. A queue that is gone is named only if it has been shown."""
        there = {key for key, queue in message.queues.items() if queue is not None}
        sent = await self.viewer.readable(there) | (self._queues & (message.queues.keys() - there))
        self._queues = (sent if message.replace else self._queues | sent) & (there | (self._queues - message.queues.keys()))
        sees_nodes = await self.viewer.sees_nodes()
        return message if sees_nodes and len(sent) == len(message.queues) else message.part(sent, with_nodes=sees_nodes)

    async def is_outdated(self, everything: Message) -> bool:
        """Return whether the viewer may read other queues now than have been shown."""
        return await self.viewer.readable(everything.queues.keys()) != self._queues


async def _send(answer: web.StreamResponse, message: Message) -> None:
    await answer.write(b"data: " + message.text + b"\n\n")
