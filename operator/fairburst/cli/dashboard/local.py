"""The way in on one's own machine: the secret of this run, which the printed address carries and a cookie then keeps.

The page shows everything that the user's kubeconfig may read. The secret and the check of the host name keep other users of the machine and
pages of other sites from it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from fairburst.cli.dashboard.pages import HEADERS, require_same_site

if TYPE_CHECKING:
    from fairburst.cli.dashboard.questions import Questions

HOST = "127.0.0.1"
COOKIE = "fairburst"


@dataclass(frozen=True, slots=True)
class Owner:
    """The person who has started the dashboard. The API server has already decided what the watches deliver."""

    questions: Questions
    name: None = None

    async def readable(self, queues: Collection[str]) -> set[str]:
        """Return all of them."""
        return set(queues)

    async def sees_nodes(self) -> bool:
        """Return True."""
        return True


class LocalEntrance:
    """Lets in requests with this run's secret, by this machine's own names."""

    def __init__(self, questions: Questions) -> None:
        self._owner = Owner(questions)
        self._secret = secrets.token_urlsafe(24)
        self._port = 0

    def address(self, port: int) -> str:
        """Return the address with the secret, for a server that listens on `port`."""
        self._port = port
        return f"http://{HOST}:{port}/?secret={self._secret}"

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Add nothing: every path needs the secret."""

    async def enter(self, request: web.Request) -> Owner:
        """Refuse foreign hosts (DNS rebinding), other sites, and requests without the secret. Keep a given secret in a cookie."""
        if request.host not in {f"{HOST}:{self._port}", f"localhost:{self._port}"}:
            raise web.HTTPForbidden(text="expected a request by this dashboard's own address", headers=HEADERS)
        require_same_site(request)
        given = request.query.get("secret", "") if request.path == "/" else ""
        if not (self._is_secret(given) or self._is_secret(request.cookies.get(self._cookie, ""))):
            text = "Open the address that `fairburst dashboard` has printed: it carries this run's secret."
            raise web.HTTPUnauthorized(text=text, headers=HEADERS)
        if given:
            answer = web.HTTPSeeOther("/", headers=HEADERS)
            answer.set_cookie(self._cookie, self._secret, httponly=True, samesite="Strict", path="/")
            raise answer
        return self._owner

    def _is_secret(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self._secret.encode())

    @property
    def _cookie(self) -> str:
        # Cookies are shared by all ports of a host: two dashboards need two names.
        return f"{COOKIE}-{self._port}"
