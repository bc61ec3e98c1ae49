"""One HTTP request to a server on this machine, with the standard library."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request


def fetch(
    address: str, method: str = "GET", headers: dict[str, str] | None = None, body: bytes | None = None, tls: ssl.SSLContext | None = None
) -> str:
    """Return the body of a loopback server's answer, without the environment's proxies. Raises OSError on connection and HTTP errors."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
    request = urllib.request.Request(address, body, headers or {}, method=method)  # noqa: S310 - our own loopback address
    try:
        with opener.open(request, timeout=10) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as refused:
        with refused:
            raise OSError(f"{method} {address}: {refused.code} {refused.read().decode(errors='replace')[:500]}") from None
