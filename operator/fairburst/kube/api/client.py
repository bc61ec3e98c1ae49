"""A thin asynchronous Kubernetes API client: bytes in, bytes or plain dictionaries out, errors translated, writes rate-limited.

The client does not know kinds: callers pass paths ("/api/v1/pods"). It uses one aiohttp session and belongs to the event loop in which it
was created.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self

import aiohttp
import msgspec

from fairburst.kube.api.answers import Answers
from fairburst.kube.api.auth import Credentials, TokenCache, load_credentials
from fairburst.kube.api.errors import ApiError, NotLeading, Unavailable, api_error
from fairburst.kube.api.fence import Fence, while_it_may_write
from fairburst.kube.api.retry import LONGEST_RETRY_AFTER_SECONDS, WriteRetries

REQUEST_TIMEOUT_SECONDS = 30.0
CONNECT_TIMEOUT_SECONDS = 10.0
# Bookmarks arrive about once a minute, so a watch that is silent for longer may have lost its connection. Or nothing has happened: the API
# server sends no bookmark that is no newer than the beginning of the watch (`process` in cache_watcher.go).
INACTIVITY_TIMEOUT_SECONDS = 70.0
SILENT = "Silent"  # reason of the error of a watch on which nothing arrived for so long
CONNECTIONS = 64
MUCH_BYTES = 16 * 1024  # read from a watch at once: then its events come so fast that none is read on its own

JsonObject = dict[str, Any]
Params = Mapping[str, str]


class RateLimiter:
    """Token bucket with `rate` tokens a second and at most `burst` saved tokens. Waiters are served in order of arrival."""

    def __init__(self, rate: float, burst: int) -> None:
        self._interval = 1.0 / rate
        self._tolerance = self._interval * (burst - 1)
        # Time at which the bucket would be full again. This number is the whole state (generic cell rate algorithm).
        self._full_at = 0.0

    async def acquire(self) -> None:
        """Take one token; wait until there is one."""
        now = time.monotonic()
        self._full_at = max(self._full_at, now) + self._interval
        wait = self._full_at - self._interval - self._tolerance - now
        if wait > 0:
            await asyncio.sleep(wait)

    def pause(self, seconds: float) -> None:
        """Grant no token for `seconds`, as the server asked (Retry-After)."""
        self._full_at = max(self._full_at, time.monotonic() + seconds + self._tolerance)


class ApiClient:
    """The client described in the module's docstring. Use `async with await ApiClient.connect(...) as client`, or call `close`.

    `fence`, if set, is checked before every write, and no write outlasts it. `retries`, if set, refuses writes that have failed until they
    may be sent again. `answers` notes whether the API server answers. `agent` identifies the client in the server's logs. `session`
    replaces the HTTP connections, for example by a simulated network.
    """

    def __init__(
        self,
        credentials: Credentials,
        writes: RateLimiter | None = None,
        agent: str = "fairburst",
        *,
        session: aiohttp.ClientSession | None = None,
    ) -> None:
        self.credentials = credentials
        self.writes = writes or RateLimiter(300.0, 1000)
        self.fence: Fence | None = None
        self.retries: WriteRetries | None = None
        self.answers = Answers()
        self._all_answered = asyncio.Event()
        self._all_answered.set()
        self._writing = 0
        self._token = TokenCache(credentials.read_token)
        self._ssl = credentials.ssl_context()
        self._session = session or aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=CONNECTIONS, ssl=self._ssl if self._ssl is not None else False, socket_factory=_abrupt_socket
            ),
            headers={"User-Agent": agent},
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_SECONDS, sock_connect=CONNECT_TIMEOUT_SECONDS),
            read_bufsize=1 << 20,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | None,
        context: str | None = None,
        *,
        write_rate: float = 300.0,
        write_burst: int = 1000,
        agent: str = "fairburst",
    ) -> Self:
        """Return a client for a kubeconfig's cluster, or for the pod's own cluster if `kubeconfig` is None. Sends no request.

        Raises
        ------
        CredentialsError : no usable credentials.
        """
        credentials = await asyncio.to_thread(load_credentials, kubeconfig, context)
        return cls(credentials, RateLimiter(write_rate, write_burst), agent)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, which ends all requests and watches."""
        await self._session.close()

    async def get(self, path: str, params: Params | None = None, *, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> bytes:
        """GET; return the body."""
        return await self._send("GET", path, params, timeout_seconds=timeout_seconds)

    async def get_json(self, path: str, params: Params | None = None) -> JsonObject:
        """GET; return the object."""
        return _object(await self.get(path, params))

    async def create(self, path: str, obj: object, params: Params | None = None) -> JsonObject:
        """POST to a collection or subresource; return the stored object."""
        return await self._write("POST", path, obj, "application/json", params)

    async def replace(self, path: str, obj: object, params: Params | None = None) -> JsonObject:
        """PUT; with a resourceVersion in the object it is a compare-and-swap (Leases)."""
        return await self._write("PUT", path, obj, "application/json", params)

    async def merge_patch(self, path: str, obj: object, params: Params | None = None) -> JsonObject:
        """PATCH by RFC 7386: null deletes a key, and lists are replaced as a whole."""
        return await self._write("PATCH", path, obj, "application/merge-patch+json", params)

    async def json_patch(self, path: str, ops: list[JsonObject], params: Params | None = None) -> JsonObject:
        """PATCH by RFC 6902; FailedTest if it does not apply."""
        return await self._write("PATCH", path, ops, "application/json-patch+json", params)

    async def delete(self, path: str, params: Params | None = None, options: JsonObject | None = None) -> JsonObject:
        """DELETE, with DeleteOptions in the body if given."""
        return await self._write("DELETE", path, options, "application/json", params)

    async def stream(
        self, path: str, params: Params | None = None, *, inactivity_seconds: float = INACTIVITY_TIMEOUT_SECONDS
    ) -> AsyncIterator[bytes]:
        """Yield the lines of a watch as they arrive. See `stream_batches`."""
        async for lines in self.stream_batches(path, params, inactivity_seconds=inactivity_seconds):
            for line in lines:
                yield line

    async def stream_batches(
        self,
        path: str,
        params: Params | None = None,
        *,
        inactivity_seconds: float = INACTIVITY_TIMEOUT_SECONDS,
        apart_seconds: float = 0.0,
    ) -> AsyncIterator[list[bytes]]:
        """Yield the lines of a watch, in lists of all lines that are buffered at each wake-up, at least `apart_seconds` apart unless much
        comes.

        An incomplete line is kept until its end arrives, at any length. The iteration ends when the server ends the response normally.

        Raises
        ------
        Unavailable : the connection was lost, or nothing arrived for `inactivity_seconds`.
        ApiError : the server refused the watch.
        """
        # The watch may be the first request for minutes, and a fresh token keeps it alive for longer.
        if self._token.stale(1.0):
            await asyncio.to_thread(self._token.refresh)
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=inactivity_seconds)
        async with self._response("GET", path, params, headers={"Accept-Encoding": "identity"}, limits=limits) as response:
            pending: list[bytes] = []
            with _translated("GET", path, late=(SILENT, f"nothing heard for {inactivity_seconds:g} s")):
                async for chunk in response.content.iter_any():
                    read_at = time.monotonic()
                    head, newline, tail = chunk.rpartition(b"\n")
                    if not newline:
                        pending.append(chunk)
                        continue
                    lines = [line for line in b"".join([*pending, head]).split(b"\n") if line]
                    pending = [tail] if tail else []
                    yield lines
                    if len(chunk) < MUCH_BYTES:
                        await _gather(response, read_at + apart_seconds - time.monotonic())

    async def _write(self, method: str, path: str, obj: object, content_type: str, params: Params | None) -> JsonObject:
        if self.retries is None:
            return await self._write_once(method, path, obj, content_type, params)
        self.retries.admit(path)
        try:
            answer = await self._write_once(method, path, obj, content_type, params)
        except ApiError as error:
            self.retries.failed(method, path, error)
            raise
        self.retries.succeeded(path)
        return answer

    async def _write_once(self, method: str, path: str, obj: object, content_type: str, params: Params | None) -> JsonObject:
        await self.writes.acquire()
        body = None if obj is None else msgspec.json.encode(obj)
        headers = {"Content-Type": content_type}
        if self.fence is None:
            return _object(await self._send(method, path, params, body=body, headers=headers))
        if self.fence.seconds_left() <= 0:
            raise NotLeading(f"{method} {path}: not sent, another replica may hold the lease")
        # The server must give up in time too: a request may wait there, in a queue or behind a webhook, for longer than the client waits.
        limited = {**(params or {}), "timeout": f"{self.fence.server_seconds:g}s"}
        with self._under_way(), _translated(method, path):
            async with while_it_may_write(self.fence):
                return _object(await self._send(method, path, limited, body=body, headers=headers))

    async def writes_ended(self) -> None:
        """Wait until no write that passed the fence is under way."""
        await self._all_answered.wait()

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        self._writing += 1
        self._all_answered.clear()
        try:
            yield
        finally:
            self._writing -= 1
            if not self._writing:
                self._all_answered.set()

    async def _send(
        self,
        method: str,
        path: str,
        params: Params | None,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
    ) -> bytes:
        limits = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=CONNECT_TIMEOUT_SECONDS)
        async with self._response(method, path, params, body=body, headers=headers or {}, limits=limits) as response:
            with _translated(method, path):
                return await response.read()

    @asynccontextmanager
    async def _response(
        self,
        method: str,
        path: str,
        params: Params | None,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str],
        limits: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield a successful response. Retries a 401 once with new credentials."""
        if self._token.stale():
            await asyncio.to_thread(self._token.refresh)
        try:
            for last_attempt in (False, True):
                with _translated(method, path):
                    response = await self._session.request(
                        method,
                        self.credentials.server + path,
                        params=params,
                        data=body,
                        headers={**headers, **self._authorization()},
                        timeout=limits,
                        server_hostname=self.credentials.tls_server_name,
                        proxy=self.credentials.proxy,
                    )
                async with response:
                    if response.status == 401 and not last_attempt:
                        await asyncio.to_thread(self._token.refresh, True)
                        continue
                    if response.status >= 400:
                        await self._refuse(method, path, response)
                    self.answers.heard()
                    yield response
                    return
        except ApiError as error:
            self.answers.failed(error)
            raise

    def _authorization(self) -> dict[str, str]:
        token = self._token.token
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    async def _refuse(self, method: str, path: str, response: aiohttp.ClientResponse) -> None:
        """Raise the error for this response."""
        with _translated(method, path):
            body = await response.read()
        status = _status(body)
        retry_after = _seconds(response.headers.get("Retry-After"))
        if response.status == 429 and status is None:
            # Priority and fairness answers in plain text and concerns all of this client's writes. A Status object (an eviction that a
            # disruption budget forbids) concerns this request only.
            self.writes.pause(1.0 if retry_after is None else retry_after)
        reason = (status.reason if status else "") or response.reason or "Unknown"
        message = status.message if status else body[:500].decode("utf-8", "replace").strip()
        raise api_error(response.status, reason, f"{method} {path}: {message}", retry_after)


async def _gather(response: aiohttp.ClientResponse, seconds: float) -> None:
    """Leave what arrives within the next `seconds` unread, so that it is decrypted, parsed and handled together afterwards."""
    transport = None if response.connection is None else response.connection.transport
    if transport is None or seconds <= 0:
        return
    transport.pause_reading()
    try:
        await asyncio.sleep(seconds)
    finally:
        transport.resume_reading()


def _abrupt_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket that discards unsent data on close, so that a write that timed out cannot arrive when the network is back."""
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return made


class _Status(msgspec.Struct):
    kind: str = ""
    reason: str = ""
    message: str = ""


_status_decoder = msgspec.json.Decoder(_Status)


def _status(body: bytes) -> _Status | None:
    """Return the API's error object, or None if the body is something else (a proxy's page, plain text)."""
    try:
        status = _status_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return status if status.kind == "Status" else None


def _seconds(header: str | None) -> float | None:
    """Return Retry-After in seconds, bounded. Its date form, which the API server never sends, counts as absent."""
    try:
        return None if header is None else min(max(0.0, float(header)), LONGEST_RETRY_AFTER_SECONDS)
    except ValueError:
        return None


def _object(body: bytes) -> JsonObject:
    decoded = msgspec.json.decode(body) if body else {}
    return decoded if isinstance(decoded, dict) else {"value": decoded}


class _translated:  # noqa: N801 (reads as a statement)
    """Translates aiohttp's errors into Unavailable and keeps the cause. late: reason and words for what did not come in time."""

    def __init__(self, method: str, path: str, late: tuple[str, str] = ("Timeout", "no answer in time")) -> None:
        self._what = f"{method} {path}"
        self._late = late

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TimeoutError):
            reason, words = self._late
            raise Unavailable(0, reason, f"{self._what}: {words}") from error
        if isinstance(error, aiohttp.ClientError | ConnectionError | OSError):
            raise Unavailable(0, "Unavailable", f"{self._what}: {error or type(error).__name__}") from error
