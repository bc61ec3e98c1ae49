"""A small real HTTP server that keeps objects, lists them in pages, streams watches, and fails on request.

It simulates the parts on which the read path depends: one growing resourceVersion, watches that resume from a version, 410 for
versions that have been compacted, ERROR events, bookmarks, connections that drop or hang, 5xx, plain-text 429s. It has
no admission, quota or validation: those are tested on the real control plane.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Self

from aiohttp import web

from fairburst.kube.api.auth import Credentials
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import DOES_NOT_APPLY
from tests.support.json_copy import json_copy

JsonObject = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def status(code: int, reason: str, message: str = "as the test asked") -> JsonObject:
    """metav1.Status."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason, "message": message}


class FakeApi:
    """Collections by path ("/api/v1/pods"), objects by (namespace, name). Namespaced paths work on the same objects.

    `fail(count, response)` answers the next requests that way, `hold` keeps them waiting; `requests` records (method, path, query).
    """

    def __init__(self, *collections: str) -> None:
        self.version = 100
        self.compacted = 0
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.objects: dict[str, dict[tuple[str, str], JsonObject]] = {path: {} for path in collections}
        self._history: dict[str, list[tuple[int, JsonObject]]] = {path: [] for path in collections}
        self._continued: dict[str, tuple[int, list[JsonObject]]] = {}
        self._failures: list[Callable[[], web.StreamResponse]] = []
        self._refused: list[tuple[str, str, int, str]] = []
        self.held = 0
        self._unheld = asyncio.Event()
        self._slow: str | None = None
        self._changed = asyncio.Event()
        self._watches: dict[asyncio.Task[Any], web.Request] = {}
        self._frozen: set[asyncio.Task[Any]] = set()
        self._runner: web.AppRunner | None = None
        self.port = 0

    def add(self, collection: str) -> None:
        """Serve one more collection."""
        self.objects[collection], self._history[collection] = {}, []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, after a `stop` on the same port."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Refuse connections from now on; objects stay."""
        self.drop_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> ApiClient:
        """A client of this server; the caller closes it."""
        return ApiClient(Credentials(self.url))

    # What the test does to the cluster ----------------------------------------------------------------------------

    def put(self, collection: str, obj: JsonObject) -> JsonObject:
        """Create or replace, with the event that belongs to it."""
        metadata = obj.get("metadata", {})
        key = (metadata.get("namespace", ""), metadata["name"])
        kind = "MODIFIED" if key in self.objects[collection] else "ADDED"
        stored = {**obj, "metadata": {**metadata, "resourceVersion": self._tick(), "uid": metadata.get("uid", "/".join(key))}}
        self.objects[collection][key] = stored
        self._publish(collection, kind, stored)
        return stored

    def remove(self, collection: str, namespace: str, name: str, *, silently: bool = False) -> None:
        """Delete; `silently` without an event, as if it had been lost and compacted away."""
        old = self.objects[collection].pop((namespace, name))
        gone = {**old, "metadata": {**old["metadata"], "resourceVersion": self._tick()}}
        if not silently:
            self._publish(collection, "DELETED", gone)

    def snapshot(self) -> tuple[int, dict[str, dict[tuple[str, str], JsonObject]]]:
        """Return the present contents of etcd, for `restore`."""
        return self.version, json_copy(self.objects)

    def restore(self, snapshot: tuple[int, dict[str, dict[tuple[str, str], JsonObject]]]) -> None:
        """Go back to a snapshot, its versions too, as etcd and the API server do when they are stopped and started with older data."""
        self.version, self.objects = snapshot[0], json_copy(snapshot[1])
        self._history = {path: [] for path in self.objects}
        self._continued.clear()
        self.drop_watches()

    def compact(self) -> None:
        """Forget history: every watch that wants to resume from the past, and every continued list, is refused with 410."""
        self.compacted = self.version
        self._continued.clear()

    def bookmark(self, collection: str) -> None:
        """Tell watchers the current version, in an empty object of the kind as the real server does: its lists are null."""
        empty = {"metadata": {"resourceVersion": str(self.version)}, "spec": {"containers": None}, "status": {}}
        self._publish(collection, "BOOKMARK", empty)

    def error_event(self, collection: str, code: int = 410, reason: str = "Expired") -> None:
        """Send an ERROR event into every open watch."""
        self._publish(collection, "ERROR", status(code, reason))

    def raw_line(self, collection: str, line: bytes) -> None:
        """Send a line as it is into every open watch of the collection."""
        self._history[collection].append((self.version, {"type": "RAW", "object": {}, "line": line}))
        self._changed.set()
        self._changed = asyncio.Event()

    def drop_watches(self) -> None:
        """Cut every watch off without an end of the response."""
        for task, request in list(self._watches.items()):
            if request.transport is not None:
                request.transport.abort()
            task.cancel()
        self._watches.clear()
        self._frozen.clear()

    def freeze_watches(self) -> None:
        """Leave every watch open but send nothing on it any more: a half-open connection."""
        self._frozen.update(self._watches)

    @property
    def open_watches(self) -> int:
        return len(self._watches)

    def fail(self, count: int, code: int, body: JsonObject | str | None = None, headers: dict[str, str] | None = None) -> None:
        """Answer the next `count` requests with `code`."""

        def response() -> web.StreamResponse:
            text = body if isinstance(body, str) else json.dumps(status(code, "Failing") if body is None else body)
            return web.Response(status=code, text=text, headers=headers)

        self._failures.extend([response] * count)

    def refuse(self, method: str, suffix: str, code: int, message: str = "") -> None:
        """Answer every such request whose path ends so with `code`."""
        self._refused.append((method, suffix, code, message))

    def permit_all(self) -> None:
        """End every refusal."""
        self._refused.clear()

    def hold(self, suffix: str) -> None:
        """Answer requests whose path ends so only after `release`; `held` counts those that wait."""
        self._slow = suffix
        self._unheld.clear()

    def release(self) -> None:
        """Answer the held requests, and all later ones."""
        self._slow = None
        self._unheld.set()

    def written(self) -> list[tuple[str, str]]:
        """Return method and path of each request that was not a read."""
        return [(method, path) for method, path, _ in self.requests if method != "GET"]

    # How it answers -----------------------------------------------------------------------------------------------

    def _tick(self) -> str:
        self.version += 1
        return str(self.version)

    def _publish(self, collection: str, kind: str, obj: JsonObject) -> None:
        self._history[collection].append((self.version, {"type": kind, "object": obj}))
        self._changed.set()
        self._changed = asyncio.Event()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.requests.append((request.method, request.path, query))
        if self._slow is not None and request.path.endswith(self._slow):
            self.held += 1
            await self._unheld.wait()
            self.held -= 1
        for method, ending, code, message in self._refused:
            if request.method == method and request.path.endswith(ending):
                refusal = status(code, "Forbidden")
                return web.Response(status=code, text=json.dumps(refusal | {"message": message} if message else refusal))
        if self._failures:
            return self._failures.pop(0)()
        collection, namespace, name = self._locate(request.path)
        if collection is None:
            return self._discovery(request.path)
        if request.method == "GET" and name is None:
            return await (self._watch(request, collection, namespace) if query.get("watch") else self._list(collection, namespace, query))
        return await self._one(request, collection, namespace, name)

    def _locate(self, path: str) -> tuple[str | None, str, str | None]:
        """Collection, namespace ("" for all) and object name (None for the collection) of a path."""
        for collection in self.objects:
            group, _, plural = collection.rpartition("/")
            parts = path.removeprefix(group + "/").split("/") if path.startswith(group + "/") else []
            namespace = ""
            if len(parts) >= 3 and parts[0] == "namespaces":
                namespace, parts = parts[1], parts[2:]
            if parts and parts[0] == plural:
                return collection, namespace, parts[1] if len(parts) > 1 else None
        return None, "", None

    def _discovery(self, path: str) -> web.StreamResponse:
        """Answer the parts of discovery that Kopf requests."""
        groups: dict[str, list[str]] = {}
        for collection in self.objects:
            group, _, plural = collection.rpartition("/")
            groups.setdefault(group, []).append(plural)
        if path == "/api":
            return web.json_response({"versions": ["v1"]})
        if path == "/apis":
            names = [group.split("/")[2:] for group in groups if group.startswith("/apis/")]
            versions = [(name, {"groupVersion": f"{name}/{version}", "version": version}) for name, version in names]
            return web.json_response({"groups": [{"name": n, "versions": [v], "preferredVersion": v} for n, v in versions]})
        if path in groups or path == "/api/v1":
            verbs = ["get", "list", "watch", "patch", "create", "delete"]
            kinds = {"latencyqueues": "LatencyQueue", "throughputqueues": "ThroughputQueue"}
            resources = [
                {"name": plural, "singularName": plural[:-1], "kind": kinds.get(plural, plural), "namespaced": True, "verbs": verbs}
                for plural in [*groups.get(path, []), *(["namespaces"] if path == "/api/v1" else [])]
            ]
            return web.json_response({"resources": resources})
        return web.json_response(status(404, "NotFound", path), status=404)

    async def _list(self, collection: str, namespace: str, query: dict[str, str]) -> web.StreamResponse:
        token = query.get("continue")
        if token is not None and token not in self._continued:
            return web.json_response(status(410, "Expired", "continue token"), status=410)
        if token is not None:
            version, items = self._continued.pop(token)
        else:
            version = self.version
            selector = [one for one in query.get("labelSelector", "").split(",") if one]
            wanted = dict(one.split("=") for one in selector if one[0] != "!").items()
            absent = {one[1:] for one in selector if one[0] == "!"}
            stored = [obj for (space, _), obj in self.objects[collection].items() if namespace in {"", space}]
            labels = [(obj, obj["metadata"].get("labels") or {}) for obj in stored]
            items = [obj for obj, present in labels if wanted <= present.items() and not absent & present.keys()]
        limit = int(query.get("limit", "0")) or len(items)
        page, rest = items[:limit], items[limit:]
        metadata = {"resourceVersion": str(version)}
        if rest:
            metadata["continue"] = f"token-{len(self.requests)}"
            self._continued[metadata["continue"]] = (version, rest)
        return web.json_response({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": page})

    async def _watch(self, request: web.Request, collection: str, namespace: str) -> web.StreamResponse:
        version = int(request.query.get("resourceVersion") or self.version)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        if version < self.compacted:
            await response.prepare(request)
            await response.write(json.dumps({"type": "ERROR", "object": status(410, "Expired", "too old")}).encode() + b"\n")
            return response
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None
        self._watches[task] = request
        history = self._history[collection]
        # Errors and bookmarks go into open watches only and are never replayed.
        position = len(history)
        lines = [event for at, event in history if at > version and event["type"] not in {"ERROR", "BOOKMARK", "RAW"}]
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while True:
                wanted = [event for event in lines if namespace in {"", event["object"].get("metadata", {}).get("namespace", namespace)}]
                if wanted:
                    await response.write(b"".join(event.get("line", json.dumps(event, default=str).encode()) + b"\n" for event in wanted))
                if any(event["type"] == "ERROR" for event in wanted):
                    break
                while position == len(history) or task in self._frozen:
                    await self._changed.wait()
                lines = [event for _, event in history[position:]]
                position = len(history)
        self._watches.pop(task, None)
        return response

    async def _one(self, request: web.Request, collection: str, namespace: str, name: str | None) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else {}
        if request.method == "POST":
            body.setdefault("metadata", {}).setdefault("namespace", namespace)
            key = (body["metadata"]["namespace"], body["metadata"]["name"])
            if key in self.objects[collection]:
                return web.json_response(status(409, "AlreadyExists", key[1]), status=409)
            return web.json_response(self.put(collection, body), status=201)
        assert name is not None
        old = self.objects[collection].get((namespace, name))
        if old is None:
            return web.json_response(status(404, "NotFound", name), status=404)
        if request.method in {"PATCH", "PUT"}:
            return self._changed_to(request, collection, old, body)
        if request.method == "DELETE":
            self.remove(collection, namespace, name)
        return web.json_response(old)

    def _changed_to(self, request: web.Request, collection: str, old: JsonObject, body: JsonObject) -> web.StreamResponse:
        """Patch or replace an object. A replacement is refused if the object has changed since the version that it names."""
        if request.method == "PATCH":
            patch = json_patch if "json-patch" in request.headers.get("Content-Type", "") else merge_patch
            try:
                return web.json_response(self.put(collection, patch(old, body)))
            except (LookupError, ValueError):
                return web.json_response(status(422, "Invalid", DOES_NOT_APPLY), status=422)
        if body["metadata"].get("resourceVersion") not in {None, old["metadata"]["resourceVersion"]}:
            return web.json_response(status(409, "Conflict", old["metadata"]["name"]), status=409)
        return web.json_response(self.put(collection, {**body, "metadata": {**old["metadata"], **body["metadata"]}}))


class Server:
    """A server that answers every request by one handler, over TLS if it is given a context."""

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        self._handler, self._tls = handler, tls

    async def __aenter__(self) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handler)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._runner.addresses[0][1]}"

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()


def merge_patch(target: JsonObject, patch: JsonObject) -> JsonObject:
    """RFC 7386."""
    merged = dict(target)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge_patch(merged.get(key) or {}, value)
        else:
            merged[key] = value
    return merged


def json_patch(target: JsonObject, operations: list[JsonObject]) -> JsonObject:
    """RFC 6902: test, add to a mapping or at the end of a list, remove. Raises where a test fails or a path leads nowhere."""
    patched: JsonObject = json_copy(target)
    for operation in operations:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        place: Any = patched
        for part in parents:
            place = place[int(part) if isinstance(place, list) else part]
        if last == "-":
            place.append(operation["value"])
            continue
        key: Any = int(last) if isinstance(place, list) else last
        match operation["op"]:
            case "test":
                if place[key] != operation["value"]:
                    raise ValueError(f"{operation['path']}: expected {operation['value']!r}, found {place[key]!r}")
            case "add":
                place[key] = operation["value"]
            case "remove":
                del place[key]
            case other:
                raise ValueError(f"{other} is not known here")
    return patched
