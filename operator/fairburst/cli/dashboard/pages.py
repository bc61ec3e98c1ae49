"""The files of the page, and the headers of every answer."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from aiohttp import web

ASSETS = {"index.html": "text/html", "style.css": "text/css", "icon.svg": "image/svg+xml"} | {
    f"{name}.js": "text/javascript" for name in ("app", "page", "now", "bursts", "queue", "whatif", "login")
}
LOGIN = "login.html"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@cache
def content(name: str) -> bytes:
    """Return a file of the page."""
    return (files("fairburst.cli.dashboard") / "assets" / name).read_bytes()


def asset(name: str) -> web.Response:
    """Answer with a file of the page. Raises HTTPNotFound."""
    if name not in ASSETS:
        raise web.HTTPNotFound(text=f"expected a page of this dashboard, found /{name}", headers=HEADERS)
    return web.Response(body=content(name), content_type=ASSETS[name], charset="utf-8", headers=HEADERS)


def as_json(value: Any, status: int = 200) -> web.Response:
    """Answer with a value."""
    return web.json_response(value, status=status, headers=HEADERS)


def require_same_site(request: web.Request) -> None:
    """Raise HTTPForbidden for a request that a page of another site has made."""
    if request.headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
        raise web.HTTPForbidden(text="expected a request by this dashboard's own address", headers=HEADERS)
