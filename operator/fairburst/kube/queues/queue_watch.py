"""The queue objects, live: Kopf watches them in its own thread, and our own lists repair its gaps.

Kopf is used for low-level events only and writes nothing: no annotations, no finalizers, no events. It ends on ERROR events other than 410
and is then restarted. It sends no DELETED for objects that vanished while its watch was down. Both kinds are therefore listed every few
minutes and after each list of Kopf's own. Objects are the API's JSON, not yet validated.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from fairburst.kube.api.auth import Credentials
from fairburst.kube.api.client import ApiClient, JsonObject
from fairburst.kube.api.errors import ApiError
from fairburst.kube.api.informer import Backoff
from fairburst.kube.names import GROUP, PLURALS, VERSION
from fairburst.kube.queues.kopf_alone import kopf
from fairburst.kube.queues.queue_set import ObjectKey
from fairburst.kube.queues.queue_store import QueueStore, version_of

logger = logging.getLogger(__name__)

RELIST_SECONDS = 300.0
# Kopf announces its own relist object by object. Our list waits until they are through.
RELIST_DELAY_SECONDS = 1.0
RESTART_BACKOFF_SECONDS = (0.5, 10.0)
START_TIMEOUT_SECONDS = 60.0


class EndlessBackoffs:
    """Endless delays for Kopf's retries, so that hours of 5xx do not end it."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((0.2, 0.5, 1.0, 2.0), itertools.repeat(5.0))


class QueueWatch:
    """Live queue objects; see the module. `await start()`, read `objects` from the loop that started it, `await stop()`.

    Parameters
    ----------
    client : of the loop that calls `start`; Kopf uses its credentials, not its connections.
    namespace : only this one; None for all.
    on_change : called in that loop, once for any number of changes that arrived together.

    Attributes
    ----------
    restarts : how often Kopf has ended and been restarted.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str | None = None,
        on_change: Callable[[], None] = lambda: None,
        *,
        relist_seconds: float = RELIST_SECONDS,
        restart_backoff_seconds: tuple[float, float] = RESTART_BACKOFF_SECONDS,
    ) -> None:
        self.restarts = 0
        self._client, self._namespace, self._on_change = client, namespace, on_change
        self._relist_seconds = relist_seconds
        self._backoff = Backoff(*restart_backoff_seconds)
        self._store = QueueStore()
        self._listed: dict[str, int] = {}  # version of the last list of each kind
        self._loop: asyncio.AbstractEventLoop | None = None
        self._relist_wanted = asyncio.Event()
        self._relisting: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._stop, self._kopf_stop, self._ready = threading.Event(), threading.Event(), threading.Event()
        self._wake_pending = False
        self._edit_due = -math.inf  # when `on_change` is called for an edit that waits

    @property
    def objects(self) -> dict[ObjectKey, JsonObject]:
        """The objects by (kind, namespace, name): a copy, because Kopf's thread writes at any time."""
        return self._store.copy()

    def objects_in(self, namespace: str) -> dict[ObjectKey, JsonObject]:
        """Return the objects in one namespace. Callable from any thread."""
        return self._store.copy_of(namespace)

    def in_force(self) -> dict[ObjectKey, JsonObject]:
        """Return a copy of the objects as the rounds should see them: an edit of a queue that is edited too often waits."""
        now = time.monotonic()
        objects, due = self._store.in_force(now)
        if due < math.inf and not now < self._edit_due <= due and self._loop is not None:
            self._edit_due = due
            self._loop.call_later(due - now, self._on_change)
        return objects

    def stored(self, key: ObjectKey) -> JsonObject | None:
        """Return the known version of one object, or None if there is none."""
        return self._store.objects.get(key)

    async def start(self) -> None:
        """Return once both kinds are listed and Kopf runs. Retries while the API server does not answer.

        Raises
        ------
        ApiError : the API server refuses the list permanently (the CRDs are not installed, RBAC).
        """
        self._loop = asyncio.get_running_loop()
        await self.refresh()
        self._thread = threading.Thread(target=self._run_thread, name="kopf", daemon=True)
        self._thread.start()
        self._relisting = asyncio.create_task(self._relist_forever(), name="queue-relist")
        if not await asyncio.to_thread(self._ready.wait, START_TIMEOUT_SECONDS):
            logger.warning("kopf is slow to start; queues come from lists until it does")

    async def stop(self) -> None:
        """End Kopf's thread and the relisting."""
        self._stop.set()
        self._kopf_stop.set()
        if self._relisting is not None:
            self._relisting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._relisting
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 10.0)

    async def refresh(self) -> None:
        """Return once `objects` are at least as new as this call. Retries while the API server does not answer; raises as `start`."""
        while True:
            try:
                await self.seed()
                return self._backoff.reset()
            except ApiError as error:
                if not error.transient:
                    raise
                logger.warning("queues cannot be listed yet", extra={"error": str(error)})
                await self._client.answers.pause(self._backoff.delay())

    async def seed(self) -> None:
        """List both kinds and apply the differences.

        Lists come from etcd itself: unless etcd was restored, a list has no lower version than anything that was known when it began.
        """
        newest = self._store.newest()
        for kind, plural in PLURALS.items():
            scope = f"/namespaces/{self._namespace}" if self._namespace else ""
            path = f"/apis/{GROUP}/{VERSION}{scope}/{plural}"
            before = max(self._listed.get(kind, -1), newest)
            items, version = await self._list(path)
            restored = version is not None and version < before
            if restored:
                logger.warning("versions went back: etcd was restored", extra={"kind": kind, "before": before, "now": version})
                self._kopf_stop.set()  # restarts Kopf, which watches from a version of the future and would stay silent
            if version is not None:
                self._listed[kind] = version if restored else max(version, self._listed.get(kind, -1))
            if self._store.reset(kind, items) if restored else self._store.replace(kind, items, version):
                self._on_change()

    def observe(self, obj: JsonObject) -> None:
        """Store the object that the API server returned for our write, ahead of the watch. Does not call `on_change`, because the writer
        knows.
        """
        self._store.offer(obj["kind"], obj)

    def request_relist(self) -> None:
        """Request a list soon, for example because another watch has just lost its connection. Callable from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._relist_wanted.set)

    async def _list(self, path: str) -> tuple[list[JsonObject], int | None]:
        """Return all pages and the version of the list."""
        items: list[JsonObject] = []
        token = ""
        while True:
            page = await self._client.get_json(path, {"limit": "500"} | ({"continue": token} if token else {}))
            items.extend(page.get("items") or ())
            token = page.get("metadata", {}).get("continue") or ""
            if not token:
                return items, version_of(page)

    async def _relist_forever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._relist_seconds):
                    await self._relist_wanted.wait()
                await asyncio.sleep(min(RELIST_DELAY_SECONDS, self._relist_seconds))
            self._relist_wanted.clear()
            try:
                await self.seed()
            except ApiError as error:
                logger.warning("queues cannot be listed", extra={"error": str(error)})
                await self._client.answers.pause(self._backoff.delay())
                self._relist_wanted.set()
            else:
                self._backoff.reset()

    # Kopf's thread ---------------------------------------------------------------------------------------------------

    def _run_thread(self) -> None:
        """Run Kopf, and restart it until told to stop."""
        backoff = Backoff(*RESTART_BACKOFF_SECONDS)
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                asyncio.run(self._run_kopf())
                problem = "it returned"
            except Exception as error:
                problem = repr(error)
            if self._stop.is_set():
                return
            if time.monotonic() - started > RESTART_BACKOFF_SECONDS[1]:
                backoff.reset()
            self.restarts += 1
            delay = backoff.delay()
            logger.error("kopf ended and is started again", extra={"problem": problem, "delay_seconds": delay})
            self._stop.wait(delay)
            self.request_relist()

    async def _run_kopf(self) -> None:
        # One flag per run: Kopf waits for it in a pool thread, which would keep the loop from closing until the flag is set.
        flag = self._kopf_stop = threading.Event()
        if self._stop.is_set():
            return
        try:
            await kopf.operator(
                registry=self._registry(),
                settings=_settings(),
                standalone=True,
                clusterwide=self._namespace is None,
                namespaces=() if self._namespace is None else (self._namespace,),
                stop_flag=flag,
                ready_flag=self._ready,
            )
        finally:
            flag.set()

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        credentials = self._client.credentials

        @kopf.on.login(registry=registry, id="fairburst-login")
        def login(**_: Any) -> kopf.ConnectionInfo:
            return connection_info(credentials)

        for kind, plural in PLURALS.items():

            @kopf.on.event(GROUP, VERSION, plural, registry=registry, id=f"fairburst-{plural}", param=kind)
            async def take(*, event: kopf.RawEvent, param: Any = None, **_: Any) -> None:  # async, so that it needs no thread pool
                self._take(param, event["type"], dict(event["object"]))

        return registry

    def _take(self, kind: str, event_type: str | None, obj: JsonObject) -> None:
        """Process one event, in Kopf's thread."""
        news = self._store.delete(kind, obj) if event_type == "DELETED" else self._store.offer(kind, obj)
        if event_type is None:
            # Part of a list that Kopf made after a gap. Objects deleted in the gap are not in it.
            self.request_relist()
        if news and not self._wake_pending and self._loop is not None:
            self._wake_pending = True
            with contextlib.suppress(RuntimeError):  # the loop closed during the stop
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._wake_pending = False
        self._on_change()


def connection_info(credentials: Credentials) -> kopf.ConnectionInfo:
    """Return our credentials in Kopf's form with a fresh token. Kopf calls it again when the API server refuses the old one."""
    return kopf.ConnectionInfo(
        server=credentials.server,
        ca_path=credentials.ca_path,
        insecure=credentials.insecure,
        scheme="Bearer",
        token=credentials.read_token(True),
        certificate_path=credentials.certificate_path,
        private_key_path=credentials.key_path,
        proxy_url=credentials.proxy,
    )


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    # Workers that wait for more events of an object delay the end of a run by this much.
    settings.queueing.idle_timeout = 0.5
    settings.queueing.exit_timeout = 0.5
    # Bookmarks arrive about once a minute; the server closes each watch a little before five.
    settings.watching.inactivity_timeout = 70
    settings.watching.server_timeout = 290
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = 500
    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = EndlessBackoffs()
    return settings
