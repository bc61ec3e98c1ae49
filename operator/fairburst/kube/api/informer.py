"""A live copy of one collection of the API server, kept by list and watch.

Guarantee: once changes stop, `store` equals the server's state, even if events were lost. A watch resumes from the last resourceVersion.
After a 410 or any ERROR event the collection is listed again and compared with the store, so that objects deleted in the gap are reported
as deleted. Bookmarks show that a silent watch is alive.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from fairburst.kube.api.client import INACTIVITY_TIMEOUT_SECONDS, SILENT, ApiClient
from fairburst.kube.api.decoding import (
    ERROR_DECODER,
    RAW_EVENT_DECODER,
    RAW_LIST_DECODER,
    Bookmark,
    ObjectList,
    WatchEvent,
    event_decoder,
    list_decoder,
)
from fairburst.kube.api.errors import ApiError, NotFound, Unavailable
from fairburst.kube.api.objects import Object

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)
Key = tuple[str, str]

# Decoding 500 pods takes 5 ms, so that no page blocks the event loop for longer than a round may wait.
PAGE_SIZE = 500
# The server ends each watch after this time, at random so that not all of them end at once (client-go: 5 to 10 minutes).
WATCH_SECONDS = (240, 480)
# Least time between two reads of a watch that brings little. To read an event on its own costs as much as to handle it.
APART_SECONDS = 0.02
BACKOFF_SECONDS = (0.5, 10.0)
# A watch that ends sooner than this without an event or a bookmark counts as a failure.
SHORTEST_WATCH_SECONDS = 1.0
KIND_SECONDS = 60.0  # between two look-ups of a kind that is not served
SILENCE_SECONDS = 180.0  # bookmarks arrive every minute, so a watch that is silent for longer is dead
# Statuses after which the watch may resume from the same version. After any other the version itself is in doubt.
_KEEPS_VERSION = frozenset({0, 401, 403, 429, 502, 503})


class Backoff:
    """Delays that double from `first` to `last`, each at random within its upper half."""

    def __init__(self, first: float, last: float, source: random.Random | None = None) -> None:
        self._first, self._last = first, last
        self._next = first
        self._random = source or random.Random()  # noqa: S311 (jitter, not a secret)

    def reset(self) -> None:
        """Start again at the first delay, after a success."""
        self._next = self._first

    def delay(self) -> float:
        """Return the seconds to wait before the next attempt."""
        ceiling = self._next
        self._next = min(self._last, 2 * ceiling)
        return ceiling * self._random.uniform(0.5, 1.0)


class _WatchError(Exception):
    """An ERROR event."""


def _ignore_event(kind: str, old: Object | None, new: Object | None) -> None:
    """The default of `on_event`."""


class Informer(Generic[T]):
    """Keeps `store` equal to the collection at `path`. Run `run()` as a task; cancel it to end.

    Parameters
    ----------
    client, path : the collection, for example "/api/v1/pods" or "/apis/batch/v1/namespaces/x/jobs".
    kind : the struct to decode to.
    on_change : called once per batch of events, after the store has all of them.
    params : selectors, for example {"fieldSelector": "status.phase!=Failed,status.phase!=Succeeded"}.
    optional : whether the API server may lack the kind. The collection is empty then, and the kind is looked up once a minute.
    on_event : called for each change with ("ADDED" | "MODIFIED" | "DELETED", old, new) after the store has changed. If it raises, the new
        object is removed from the store, like one that cannot be decoded.
    on_rewind : called when the server's versions have gone back, as after a restore of etcd.
    on_lost : called when a watch has failed.

    Attributes
    ----------
    store : objects by (namespace, name). No object is ever changed in place.
    synced : set after the first complete list.
    connected : set while the watch has not failed. A watch that follows a failed one begins with a comparison of versions.
    last_contact : `time.monotonic()` of the last list page, event or bookmark; minus infinity before the first.
    lists, undecodable : counters: complete lists so far; objects left out because they violated the schema or because `on_event` raised.
    """

    def __init__(
        self,
        client: ApiClient,
        path: str,
        kind: type[T],
        on_change: Callable[[], None],
        *,
        params: Mapping[str, str] | None = None,
        optional: bool = False,
        on_event: Callable[[str, T | None, T | None], None] = _ignore_event,
        on_rewind: Callable[[], None] = lambda: None,
        on_lost: Callable[[], None] = lambda: None,
        inactivity_seconds: float = INACTIVITY_TIMEOUT_SECONDS,
        backoff_seconds: tuple[float, float] = BACKOFF_SECONDS,
        page_size: int = PAGE_SIZE,
    ) -> None:
        self.store: dict[Key, T] = {}
        self.synced, self.connected = asyncio.Event(), asyncio.Event()
        self.last_contact = float("-inf")
        self.lists = 0
        self.undecodable = 0
        self._client, self.path, self._params = client, path, dict(params or {})
        self._on_change, self._on_event, self._optional = on_change, on_event, optional
        self._on_rewind, self._on_lost = on_rewind, on_lost
        self._inactivity_seconds = inactivity_seconds
        self._page_size = page_size
        self._kind = kind
        self._backoff = Backoff(*backoff_seconds)
        self._lists = list_decoder(kind)
        self._events = event_decoder(kind)
        self._version: str | None = None
        # Versions that `observe` stored ahead of the watch.
        self._ahead: dict[Key, int] = {}

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            level = logging.WARNING
            try:
                if self._version is not None and not self.connected.is_set() and await self._went_back():
                    self._version = None
                if self._version is None:
                    await self._list()
                self.connected.set()
                if await self._watch():
                    self._backoff.reset()
                    continue
                problem = "the watch ended at once"
            except ApiError as error:
                if self._optional and isinstance(error, NotFound):
                    await self._without_kind()
                    continue
                if error.status not in _KEEPS_VERSION:
                    self._version = None
                level = logging.INFO if error.reason == SILENT else level
                problem = str(error)
            except _WatchError as error:
                self._version = None
                problem = str(error)
            self.connected.clear()
            self._on_lost()
            delay = self._backoff.delay()
            logger.log(level, "informer retries", extra={"path": self.path, "problem": problem, "delay_seconds": round(delay, 2)})
            await self._client.answers.pause(delay)

    async def read(self) -> None:
        """List once, for a process that does not watch. Raises ApiError; a kind that is optional and missing is an empty collection."""
        try:
            await self._list()
        except NotFound:
            if not self._optional:
                raise
            self.synced.set()

    def observe(self, new: T) -> None:
        """Store an object from the answer to a write, ahead of the watch. Older events of the watch are then ignored.

        Nothing changes where the watch has been faster: a newer version stays, and an object that is not in the store although the watch
        is past its version was deleted meanwhile. Does not call `on_change`, because the writer already knows the change.
        """
        version, old = _number(new.metadata.resource_version), self.store.get(_key(new))
        seen = _number((self._version or "") if old is None else (old.metadata.resource_version or ""))
        if version is not None and seen is not None and version <= seen:
            return
        if version is not None:
            self._ahead[_key(new)] = version
        self._put(_key(new), new)

    async def _list(self) -> None:
        """Replace the store by the server's list and report only the differences."""
        found: dict[Key, T] = {}
        token = ""
        while True:
            params = {**self._params, "limit": str(self._page_size)} | ({"continue": token} if token else {})
            page = self._page(await self._client.get(self.path, params))
            self.last_contact = time.monotonic()
            found.update((_key(item), item) for item in page.items or ())
            token = page.metadata.continue_token
            if not token:
                break
        self._reconcile(found)
        self._version = page.metadata.resource_version
        self.lists += 1
        self.synced.set()
        self._on_change()

    async def _went_back(self) -> bool:
        """Return whether the server's version is lower than the last known one, as after a restore of etcd. The watch would stay silent."""
        page = self._page(await self._client.get(self.path, {**self._params, "limit": "1"}))
        self.last_contact = time.monotonic()  # a watch in a quiet collection has its next line in a minute
        return self._rewound(page.metadata.resource_version)

    def _rewound(self, version: str) -> bool:
        present, known = _number(version), _number(self._version or "")
        if present is None or known is None or present >= known:
            return False
        logger.warning("versions went back: etcd was restored", extra={"path": self.path, "before": known, "now": present})
        self._on_rewind()
        return True

    async def _without_kind(self) -> None:
        """Empty the store because the server does not have the kind: it is not installed, or was removed. The store counts as synced."""
        self._version, self.last_contact = None, time.monotonic()
        self._reconcile({})
        self.synced.set()
        self.connected.set()
        self._on_change()
        await asyncio.sleep(KIND_SECONDS)

    def _reconcile(self, found: dict[Key, T]) -> None:
        """Turn the differences between the store and a complete list into events."""
        self._ahead.clear()
        for key in [key for key in self.store if key not in found]:
            self._notify("DELETED", self.store.pop(key), None)
        for key, new in found.items():
            self._put(key, new)

    def _put(self, key: Key, new: T) -> bool:
        old = self.store.get(key)
        if old is not None and old.metadata.resource_version == new.metadata.resource_version:
            return False
        if key in self._ahead and self._is_behind(key, new):
            return False
        self.store[key] = new
        if not self._notify("ADDED" if old is None else "MODIFIED", old, new):
            del self.store[key]
        return True

    def _notify(self, kind: str, old: T | None, new: T | None) -> bool:
        """Call `on_event`; return False if it raised. One object's error must not end the watch of all others."""
        try:
            self._on_event(kind, old, new)
        except Exception as error:
            self.undecodable += 1
            found = new or old
            logger.exception(
                "informer leaves an object out",
                extra={"path": self.path, "object": "/".join(_key(found)) if found else "", "error": str(error)[:300]},
            )
            return False
        return True

    def _is_behind(self, key: Key, new: T) -> bool:
        """Return whether an event is older than the version that `observe` stored. Forgets that version once the watch has reached it."""
        version = _number(new.metadata.resource_version)
        if version is not None and version < self._ahead[key]:
            return True
        if version is None or version > self._ahead[key]:
            del self._ahead[key]
        return False

    async def _watch(self) -> bool:
        """Watch the collection from the last version until the server ends the watch; return False if that was too soon."""
        params = {
            **self._params,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version or "",
            "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),  # noqa: S311 (jitter)
        }
        started, before = time.monotonic(), self._version
        stream = self._client.stream_batches(self.path, params, inactivity_seconds=self._inactivity_seconds, apart_seconds=APART_SECONDS)
        async for lines in stream:
            self.last_contact = time.monotonic()
            changed = False
            try:
                for line in lines:
                    changed |= self._apply(line)
            finally:
                # Also if an ERROR event ends the batch: the events before it are in the store.
                if changed:
                    self._on_change()
            self._backoff.reset()
        return self._version != before or time.monotonic() - started >= SHORTEST_WATCH_SECONDS

    def _apply(self, line: bytes) -> bool:
        """Apply one line to the store; return True if it changed.

        Raises
        ------
        _WatchError : an ERROR event, or a line that is not JSON.
        """
        event = self._decode(line)
        if event is None:
            return False
        new = event.object
        if event.type == "BOOKMARK" and self._rewound(new.metadata.resource_version):
            raise _WatchError("expected a bookmark of the present, found one of the past")
        self._version = new.metadata.resource_version or self._version
        if event.type in {"ADDED", "MODIFIED"}:
            return self._put(_key(new), new)
        if event.type == "DELETED":
            self._ahead.pop(_key(new), None)
            old = self.store.pop(_key(new), None)
            if old is not None:
                self._notify("DELETED", old, None)
            return old is not None
        return False

    def _decode(self, line: bytes) -> WatchEvent[T] | None:
        try:
            event = self._events.decode(line)
        except msgspec.ValidationError as error:
            return self._decode_odd(line, error)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _WatchError(f"expected a line of JSON, found {line[:100]!r}: {error}") from error
        if event.type == "ERROR":
            raise _error_event(line)
        return event

    def _decode_odd(self, line: bytes, error: msgspec.ValidationError) -> WatchEvent[T] | None:
        """Decode an event that does not fit the kind. An ERROR's object is a Status, which seldom fits; any other object is skipped.

        Raises
        ------
        _WatchError : an ERROR event, or a line of JSON that is not an event. Its content is lost, so the collection is listed again.
        """
        try:
            raw = RAW_EVENT_DECODER.decode(line)
            if raw.type == "BOOKMARK":  # an empty object of the kind, with null in place of lists
                metadata = msgspec.json.decode(raw.object, type=Bookmark).metadata
                return WatchEvent(raw.type, self._kind(metadata=metadata))
        except (msgspec.DecodeError, UnicodeDecodeError) as broken:
            raise _WatchError(f"expected a watch event, found {line[:100]!r}: {broken}") from broken
        if raw.type == "ERROR":
            raise _error_event(line) from None
        self._skip(raw.object, error)
        return None

    def _page(self, body: bytes) -> ObjectList[T]:
        """Decode one page. Skip objects that violate the schema, so that they do not block all others."""
        try:
            return self._lists.decode(body)
        except msgspec.ValidationError:
            raw = RAW_LIST_DECODER.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unavailable(0, "NotJson", f"GET {self.path}: expected a list in JSON, found {body[:100]!r}") from error
        items: list[T] = []
        for item in raw.items or ():
            try:
                items.append(msgspec.json.decode(item, type=self._kind))
            except msgspec.ValidationError as error:
                self._skip(item, error)
        return ObjectList(raw.metadata, items)

    def _skip(self, item: msgspec.Raw, error: Exception) -> None:
        self.undecodable += 1
        logger.error("informer skips an object", extra={"path": self.path, "error": str(error), "object": bytes(item)[:300]})


def silence(informers: Iterable[Informer[Any]]) -> str | None:
    """Return a sentence that names the informers that were last heard of long before another one; None if there are none.

    All of them fall silent when the API server is away, up to a minute apart. A restart would then only lose the caches.
    """
    watched = list(informers)
    newest = max((informer.last_contact for informer in watched), default=-math.inf)
    silent = [informer.path for informer in watched if newest - informer.last_contact > SILENCE_SECONDS]
    return f"nothing heard for {SILENCE_SECONDS:.0f} s from {', '.join(silent)}" if silent else None


def _error_event(line: bytes) -> _WatchError:
    try:
        status = ERROR_DECODER.decode(line).object
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _WatchError(f"ERROR event without a readable Status: {line[:100]!r}")
    return _WatchError(f"ERROR event: {status.code} {status.reason}: {status.message}")


def _number(version: str) -> int | None:
    return int(version) if version.isdecimal() else None


def _key(item: Object) -> Key:
    return item.metadata.namespace, item.metadata.name
