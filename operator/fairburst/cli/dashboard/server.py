"""The local web server of the dashboard. It listens on the loopback interface only, answers GET only, and requires a secret.

The page shows everything that the user's kubeconfig may read. To keep other users of the machine and pages of other sites from it, the
first address carries a secret, which becomes a cookie, and the server refuses requests with other host names.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from aiohttp import web

from fairburst.cli.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fairburst.cli.dashboard.live import Live
    from fairburst.cli.dashboard.questions import Questions

HOST = "127.0.0.1"
COOKIE = "fairburst"
HEARTBEAT_SECONDS = 10.0
END_SECONDS = 1.0
ASSETS = {"index.html": "text/html", "style.css": "text/css", "icon.svg": "image/svg+xml"} | {
    f"{name}.js": "text/javascript" for name in ("app", "page", "now", "bursts", "queue", "whatif")
}
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class DashboardServer:
    """Serves the page, its live feed and its questions until stopped."""

    def __init__(self, live: Live, questions: Questions) -> None:
        self._live, self._questions = live, questions
        self._secret = secrets.token_urlsafe(24)
        self._assets = {name: (files("fairburst.cli.dashboard") / "assets" / name).read_bytes() for name in ASSETS}
        self._hosts: frozenset[str] = frozenset()
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/", self._first)
        app.router.add_get("/feed", self._feed)
        app.router.add_get("/ask/queue/{namespace}/{name}", self._queue)
        app.router.add_get("/ask/job/{namespace}/{name}", self._job)
        app.router.add_get("/ask/what-if", self._what_if)
        app.router.add_get("/{asset}", self._asset)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=END_SECONDS)

    async def start(self, port: int) -> str:
        """Listen, and return the address with the secret. Raises OSError if the port is taken."""
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, port).start()
        port = int(self._runner.addresses[0][1])
        self._hosts = frozenset({f"{HOST}:{port}", f"localhost:{port}"})
        return f"http://{HOST}:{port}/?secret={self._secret}"

    async def stop(self) -> None:
        """Stop listening and end the feeds."""
        await self._runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
        """Refuse foreign hosts (DNS rebinding), other sites, and requests without the secret. Return errors as JSON."""
        if request.host not in self._hosts or request.headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
            return web.Response(status=403, text="expected a request by this dashboard's own address", headers=HEADERS)
        given = request.query.get("secret", "") if request.path == "/" else ""
        cookie = request.cookies.get(self._cookie, "")
        if not any(hmac.compare_digest(one.encode(), self._secret.encode()) for one in (given, cookie)):
            text = "Open the address that `fairburst dashboard` has printed: it carries this run's secret."
            return web.Response(status=401, text=text, headers=HEADERS)
        try:
            return await handler(request)
        except CommandError as error:
            return web.json_response({"error": str(error)}, status=400, headers=HEADERS)

    @property
    def _cookie(self) -> str:
        # Cookies are shared by all ports of a host: two dashboards need two names.
        return f"{COOKIE}-{self._runner.addresses[0][1]}"

    async def _first(self, request: web.Request) -> web.StreamResponse:
        if "secret" not in request.query:
            return self._file("index.html")
        answer = web.Response(status=303, headers={**HEADERS, "Location": "/"})
        answer.set_cookie(self._cookie, self._secret, httponly=True, samesite="Strict", path="/")
        return answer

    async def _asset(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["asset"]
        if name not in ASSETS:
            raise web.HTTPNotFound(text=f"expected a page of this dashboard, found /{name}", headers=HEADERS)
        return self._file(name)

    def _file(self, name: str) -> web.Response:
        return web.Response(body=self._assets[name], content_type=ASSETS[name], charset="utf-8", headers=HEADERS)

    async def _feed(self, request: web.Request) -> web.StreamResponse:
        """Send server-sent events: the whole state, then its changes. A comment in idle times detects a dead browser."""
        answer = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        await answer.prepare(request)
        reader = self._live.follow()
        try:
            while True:
                try:
                    message = await asyncio.wait_for(reader.get(), HEARTBEAT_SECONDS)
                except TimeoutError:
                    await answer.write(b": nothing new\n\n")
                    continue
                if message is None:
                    return answer
                await answer.write(b"data: " + message + b"\n\n")
        except (ConnectionError, asyncio.CancelledError):
            return answer
        finally:
            self._live.leave(reader)

    async def _queue(self, request: web.Request) -> web.StreamResponse:
        return _json(await self._questions.queue(request.match_info["namespace"], request.match_info["name"]))

    async def _job(self, request: web.Request) -> web.StreamResponse:
        return _json(await self._questions.job(request.match_info["namespace"], request.match_info["name"]))

    async def _what_if(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        weights = [(queue, weight) for text in query.getall("weight", []) for queue, _, weight in [text.partition("=")]]
        return _json(await self._questions.what_if(query.getall("capacity", []), query.getall("remove", []), weights))


def _json(value: Any) -> web.Response:
    return web.json_response(value, headers=HEADERS)
