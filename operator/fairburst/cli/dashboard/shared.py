"""The way in of a dashboard that many people share: a token of the cluster, in a form once or in the header Authorization of each request.

A cookie that scripts cannot read names the session. The tokens of sessions are in memory only, so a restart logs everyone out.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from aiohttp import web

from fairburst.cli.dashboard.pages import HEADERS, LOGIN, asset, content, require_same_site
from fairburst.cli.dashboard.visitors import Clock, NotAuthenticatedError, Visitor, Visitors
from fairburst.kube.api.errors import ApiError
from fairburst.telemetry.log import event

if TYPE_CHECKING:
    from fairburst.telemetry.web import Probe

COOKIE = "__Host-fairburst"  # the prefix makes browsers refuse it without TLS, or from another host
SESSION_SECONDS = 8 * 3600.0
MOST_SESSIONS = 10  # of one person; the oldest ends
REFUSED_EVERY_SECONDS = 1.0  # shortest time between two lines on refused logins, so that guesses of tokens do not fill the log
PROBLEM = b"<!-- problem -->"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Session:
    """A browser in which a person has logged in."""

    name: str
    token: str
    until: float


class SharedEntrance:
    """Lets in people whose token the API server knows. `healthy` answers the kubelet's probe."""

    def __init__(self, visitors: Visitors, healthy: Probe, clock: Clock = time.monotonic) -> None:
        self._visitors, self._healthy, self._clock = visitors, healthy, clock
        self._sessions: dict[str, Session] = {}
        self._refused, self._refused_logged = 0, -math.inf

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Add the form, its files and the probe, which need no viewer."""
        router.add_get("/login", self._form)
        router.add_post("/login", self._log_in)
        router.add_post("/logout", self._log_out)
        router.add_get("/healthz", self._probe)
        for name in ("style.css", "icon.svg", "login.js"):
            router.add_get(f"/{name}", self._file)

    async def enter(self, request: web.Request) -> Visitor:
        """Return the person whose token the request or its session has. Links on other sites may lead to the page, which has no data."""
        if request.path != "/":
            require_same_site(request)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            session = self._sessions.get(request.cookies.get(_cookie(request), ""))
            token = session.token if session is not None and self._clock() < session.until else ""
        try:
            if token:
                return await self._visitors.of(token)
            problem = "Log in with a token of the cluster first: at /login, or by the header Authorization: Bearer TOKEN."
        except NotAuthenticatedError as error:
            problem = str(error)
        if request.path == "/":
            raise web.HTTPSeeOther("/login", headers=HEADERS)
        raise web.HTTPUnauthorized(text=problem, headers=HEADERS)

    async def _file(self, request: web.Request) -> web.Response:
        return asset(request.path[1:])

    async def _form(self, _: web.Request) -> web.Response:
        return _login_page()

    async def _log_in(self, request: web.Request) -> web.Response:
        require_same_site(request)
        token = str((await request.post()).get("token", "")).strip()
        try:
            name = (await self._visitors.of(token)).name
        except NotAuthenticatedError as error:
            self._log_refused(request)
            return _login_page(str(error), 401)
        except ApiError as error:
            return _login_page(f"The API server has not said who you are: {error.message}; try again.", 503)
        event(_log, logging.INFO, "login", user=name, address=request.remote)
        answer = web.Response(status=303, headers={**HEADERS, "Location": "/"})
        answer.set_cookie(_cookie(request), self._new_session(name, token), httponly=True, secure=True, samesite="Lax", path="/")
        return answer

    async def _log_out(self, request: web.Request) -> web.Response:
        require_same_site(request)
        self._sessions.pop(request.cookies.get(_cookie(request), ""), None)
        answer = web.Response(status=303, headers={**HEADERS, "Location": "/login"})
        answer.del_cookie(_cookie(request), secure=True, httponly=True, samesite="Lax", path="/")
        return answer

    def _log_refused(self, request: web.Request) -> None:
        """Log how many logins were refused since the last line."""
        self._refused += 1
        if self._clock() >= self._refused_logged + REFUSED_EVERY_SECONDS:
            event(_log, logging.WARNING, "login refused", address=request.remote, refused=self._refused)
            self._refused, self._refused_logged = 0, self._clock()

    def _new_session(self, name: str, token: str) -> str:
        now = self._clock()
        self._sessions = {key: one for key, one in self._sessions.items() if now < one.until}
        of_person = [key for key, one in self._sessions.items() if one.name == name]
        for key in of_person[: len(of_person) + 1 - MOST_SESSIONS]:
            del self._sessions[key]
        secret = secrets.token_urlsafe(24)
        self._sessions[secret] = Session(name, token, now + SESSION_SECONDS)
        return secret

    async def _probe(self, _: web.Request) -> web.Response:
        problem = self._healthy()
        return web.Response(text=problem or "ok", status=503 if problem else 200, headers=HEADERS)


def _cookie(request: web.Request) -> str:
    # Cookies are shared by all ports of a host: the dashboards of two clusters, forwarded to two ports, need two names.
    return f"{COOKIE}-{request.url.port or 443}"


def _login_page(problem: str = "", status: int = 200) -> web.Response:
    shown = f'<p class="bad" role="alert">{escape(problem)}</p>' if problem else ""
    body = content(LOGIN).replace(PROBLEM, shown.encode())
    return web.Response(body=body, content_type="text/html", charset="utf-8", status=status, headers=HEADERS)
