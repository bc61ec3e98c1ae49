"""The state of the page, kept current by watches of queues and nodes, and its changes, at most one message a second.

It watches no pods, because a queue's status holds everything about it. So the cost grows with the queues that change, not with the cluster.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from fairburst.cli.dashboard.entries import entry, pool_of
from fairburst.cli.status import leader
from fairburst.kube.api.errors import ApiError, Forbidden
from fairburst.kube.api.informer import Informer, silence
from fairburst.kube.api.objects import Node, Object
from fairburst.kube.names import GROUP, PLURALS, VERSION

if TYPE_CHECKING:
    from fairburst.config import Config
    from fairburst.kube.api.client import ApiClient

SECONDS_BETWEEN = 1.0
LEADER_SECONDS = 5.0
MOST_BEHIND = 30  # a browser that lags behind by more messages is disconnected; it connects again and gets everything
JSON = msgspec.json.Encoder()
NO_NODES: Mapping[str, Any] = {"nodes": 0, "capacity": {}, "shapes": []}
Reader = asyncio.Queue["Message | None"]


@dataclass(frozen=True)
class Message:
    """A change of the page, or with `replace` its whole state. queues: entries by KIND/NAMESPACE/NAME, None for a queue that is gone."""

    at: float
    pool: Mapping[str, Any]
    operator: Mapping[str, Any]
    replace: bool
    queues: Mapping[str, Mapping[str, Any] | None]

    @cached_property
    def text(self) -> bytes:
        """The message as JSON, made once for all who get the same."""
        return JSON.encode({field.name: getattr(self, field.name) for field in dataclasses.fields(self)})

    def part(self, queues: Collection[str], *, with_nodes: bool) -> Message:
        """Return the message with these queues only, and without the nodes if they may not be seen."""
        hidden = {"name": self.pool["name"], **NO_NODES, "problem": "Unknown: your rights do not include listing nodes."}
        pool = self.pool if with_nodes else hidden
        return Message(self.at, pool, self.operator, self.replace, {key: one for key, one in self.queues.items() if key in queues})


class QueueObject(Object):
    """A queue, with spec and status as they are stored."""

    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


class Live:
    """The queues of all namespaces, or of one, and the pool. `start`, then `run` until cancelled."""

    def __init__(self, client: ApiClient, config: Config, namespace: str | None = None) -> None:
        self._client, self._config = client, config
        self._entries: dict[str, dict[str, Any]] = {}
        self._changed: set[str] = set()
        self._pool: dict[str, Any] = dict(NO_NODES)
        self._leader: dict[str, Any] = {}
        self._may_read_nodes = True
        self._pool_changed = asyncio.Event()
        self._readers: set[Reader] = set()
        within = "" if namespace is None else f"/namespaces/{namespace}"
        self._queues = [
            Informer(client, f"/apis/{GROUP}/{VERSION}{within}/{plural}", QueueObject, _ignored, on_event=self._seen(kind))
            for kind, plural in PLURALS.items()
        ]
        self._nodes = Informer(client, "/api/v1/nodes", Node, self._pool_changed.set)

    async def start(self) -> None:
        """Read everything once. Raises ApiError without the right to read queues; without that to nodes, capacity stays unknown."""
        await asyncio.gather(*(informer.read() for informer in self._queues))
        try:
            await self._nodes.read()
        except Forbidden as error:
            self._may_read_nodes, self._pool["problem"] = False, f"Capacity is unknown: {error.message}"
        self._count_nodes()
        self._leader = await leader(self._client, self._config)
        self._changed.clear()

    async def run(self) -> None:
        """Watch, and send the changes to the readers."""
        nodes = [self._nodes.run()] if self._may_read_nodes else []
        await asyncio.gather(*(informer.run() for informer in self._queues), *nodes, self._look_at_leader(), self._publish())

    def follow(self) -> Reader:
        """Return a queue of messages, which begins with the whole state; None ends it. Pass it to `leave` at the end."""
        reader: Reader = asyncio.Queue(MOST_BEHIND)
        reader.put_nowait(self.everything())
        self._readers.add(reader)
        return reader

    def everything(self) -> Message:
        """Return the whole state."""
        return self._message(dict(self._entries), replace=True)

    def problem(self) -> str | None:
        """Return a sentence if a watch has fallen silent, or None."""
        return silence([*self._queues, self._nodes] if self._may_read_nodes else self._queues)

    def leave(self, reader: Reader) -> None:
        """Stop sending to this reader."""
        self._readers.discard(reader)

    def _seen(self, kind: str) -> Any:
        def changed(_: str, old: QueueObject | None, new: QueueObject | None) -> None:
            metadata = (new or old or QueueObject()).metadata
            key = f"{kind}/{metadata.namespace}/{metadata.name}"
            self._changed.add(key)
            if new is None:
                self._entries.pop(key, None)
            else:
                stored = {"spec": new.spec or {}, "status": new.status or {}}
                self._entries[key] = entry(kind, metadata.namespace, metadata.name, stored)

        return changed

    async def _look_at_leader(self) -> None:
        while True:
            await asyncio.sleep(LEADER_SECONDS)
            try:
                self._leader = await leader(self._client, self._config)
            except ApiError as error:
                self._leader = {"problem": f"the API server does not answer: {error.message}"}
            self._pool_changed.set()

    async def _publish(self) -> None:
        while True:
            await asyncio.sleep(SECONDS_BETWEEN)
            if not self._changed and not self._pool_changed.is_set():
                continue
            if self._pool_changed.is_set():
                self._count_nodes()
                self._pool_changed.clear()
            changed, self._changed = self._changed, set()
            message = self._message({key: self._entries.get(key) for key in changed}, replace=False)
            for reader in list(self._readers):
                self._send(reader, message)

    def _send(self, reader: Reader, message: Message) -> None:
        if reader.full():
            self._readers.discard(reader)
            while not reader.empty():
                reader.get_nowait()
            reader.put_nowait(None)
        else:
            reader.put_nowait(message)

    def _count_nodes(self) -> None:
        if self._may_read_nodes:
            pool = self._config.pool
            self._pool = pool_of(self._nodes.store.values(), pool.counted_resources, pool.node_selector)

    def _message(self, entries: Mapping[str, Any], *, replace: bool) -> Message:
        return Message(time.time(), {"name": self._config.pool.name, **self._pool}, self._leader, replace, entries)


def _ignored() -> None:
    """Do nothing: `on_event` reports the changes."""
