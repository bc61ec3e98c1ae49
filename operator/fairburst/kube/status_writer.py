"""Writes statuses and events concurrently with the rounds. Decides nothing.

Each object has at most one write in flight. A newer status replaces one that waits, and a status is compared with the object again just
before it is sent; events follow the status of the same decision. A round waits only for promises and for the fields that admission reads:
docs/decisions/0068-users-are-told-beside-the-rounds.md.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.events import create_event
from fairburst.kube.api.outcome import succeeded
from fairburst.kube.engine import Engine
from fairburst.kube.names import API_VERSION, GROUP, PLURALS, VERSION
from fairburst.kube.queues.queue_set import ObjectKey
from fairburst.kube.queues.queue_watch import QueueWatch
from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.views.status_plan import StatusWrite, merge_difference
from fairburst.telemetry.metrics import Metrics

CONCURRENT_WRITES = 16
MOST_EVENTS = 20  # of one object that wait: the oldest are dropped if the API server is that far behind


@dataclass(frozen=True, slots=True)
class _Event:
    """An Event to create. `involved`: its object, as an Event names it."""

    involved: Mapping[str, str]
    reason: str
    message: str
    warning: bool


@dataclass(slots=True)
class _Unpublished:
    """The unpublished status and events of one object. `answers`: futures that wait for the status, which is the latest one by then."""

    status: StatusWrite | None = None
    answers: list[asyncio.Future[bool]] = field(default_factory=list)
    events: deque[_Event] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))


class StatusWriter:
    """Sends statuses and events of one term of leadership. `on_failure` asks for a round, which looks at the failed writes again."""

    def __init__(
        self, client: ApiClient, pool: str, metrics: Metrics, engine: Engine, queues: QueueWatch, *, on_failure: Callable[[], None]
    ) -> None:
        self._client = client
        self._pool = pool
        self._metrics = metrics
        self._engine = engine
        self._queues = queues
        self._on_failure = on_failure
        self._unpublished: dict[ObjectKey, _Unpublished] = {}
        self._turns: asyncio.Queue[ObjectKey] = asyncio.Queue()  # each object with something unpublished is here, or in a worker's hands
        self._all_written = asyncio.Event()
        self._all_written.set()

    async def write(self, plan: RoundPlan) -> bool:
        """Queue a plan's statuses and events. Return once the awaited ones have been answered: True if all succeeded."""
        awaited = []
        for write in plan.statuses:
            unpublished = self._of(write.entry.key)
            unpublished.status = write
            self._engine.status_sent(write, time.monotonic())
            if write.is_awaited:
                unpublished.answers.append(asyncio.get_running_loop().create_future())
                awaited.append(unpublished.answers[-1])
        for entry, what in plan.events:
            kind, namespace, name = entry.key
            involved = {"apiVersion": API_VERSION, "kind": kind, "namespace": namespace, "name": name, "uid": entry.uid}
            self._of(entry.key).events.append(_Event(involved, what.kind.value, what.message, what.warning))
        for job in plan.elastic.events:
            involved = {"apiVersion": "batch/v1", "kind": "Job", "namespace": job.namespace, "name": job.name, "uid": job.uid}
            self._of(("Job", job.namespace, job.name)).events.append(_Event(involved, job.reason, job.message, job.warning))
        return all(await asyncio.gather(*awaited))

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(CONCURRENT_WRITES):
                workers.create_task(self._work())

    async def flush(self) -> None:
        """Return once everything has been published."""
        await self._all_written.wait()

    def _of(self, key: ObjectKey) -> _Unpublished:
        if key not in self._unpublished:
            self._unpublished[key] = _Unpublished()
            self._turns.put_nowait(key)
            self._all_written.clear()
        return self._unpublished[key]

    async def _work(self) -> None:
        while True:
            key = await self._turns.get()
            try:
                await self._next(self._unpublished[key])
            finally:  # after an error too: the workers of the next run go on
                self._end_turn(key)

    def _end_turn(self, key: ObjectKey) -> None:
        unpublished = self._unpublished[key]
        if unpublished.status is not None or unpublished.events:
            self._turns.put_nowait(key)
            return
        del self._unpublished[key]
        if not self._unpublished:
            self._all_written.set()

    async def _next(self, unpublished: _Unpublished) -> None:
        """Send one write."""
        write, answers = unpublished.status, unpublished.answers
        if write is None:
            what = unpublished.events.popleft()
            creation = create_event(self._client, what.involved, what.reason, what.message, self._pool, warning=what.warning)
            try:
                await succeeded("event", creation, self._metrics)
            except asyncio.CancelledError:  # of another worker's error; one of its own would return for ever
                unpublished.events.appendleft(what)
                raise
            return
        unpublished.status, unpublished.answers = None, []
        well, started = False, time.monotonic()
        try:
            patch = self._difference(write)
            well = not patch or await succeeded("status", self._status(write), self._metrics)
        finally:
            now = time.monotonic()
            self._engine.status_written(write, now, now - started, self._stored(write) if well else None)
            for answer in answers:
                if not answer.done():  # the waiting task has been cancelled
                    answer.set_result(well)
            if not well:
                self._on_failure()

    def _stored(self, write: StatusWrite) -> dict[str, Any] | None:
        """Return the queue, if it is known to have that status."""
        return None if self._difference(write) else self._queues.stored(write.entry.key)

    def _difference(self, write: StatusWrite) -> dict[str, Any]:
        """Return the rest to write: earlier writes may have published a part, and the queue may have been deleted."""
        stored = self._queues.stored(write.entry.key)
        if stored is None or stored["metadata"].get("uid", "") != write.entry.uid:
            return {}
        return merge_difference(stored.get("status") or {}, write.status)

    async def _status(self, write: StatusWrite) -> None:
        """Replace the status, unless the queue was replaced by one of the same name: that one must not get the promise of the former."""
        kind, namespace, name = write.entry.key
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURALS[kind]}/{name}/status"
        same = {"op": "test", "path": "/metadata/uid", "value": write.entry.uid}
        self._queues.observe(await self._client.json_patch(path, [same, {"op": "add", "path": "/status", "value": write.status}]))
