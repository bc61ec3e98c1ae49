"""Evicts pods through the Eviction API, one request per pod, concurrently with the rounds. Decides nothing.

The API server applies disruption budgets and grace periods: a refused pod stays, and the next round chooses others. Each evicted pod gets
an Event once no eviction waits. Its controller, such as a Job, gets one Event for several evictions, because it still exists when the pods
are gone.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError, Conflict, NotFound, NotLeading, TooManyRequests
from fairburst.kube.api.events import create_event
from fairburst.kube.api.outcome import succeeded
from fairburst.kube.enforce.reclaim import PodEviction, Reclaimer
from fairburst.telemetry.log import event
from fairburst.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

CONCURRENT_EVICTIONS = 16  # half as many as a round may write at a time, because rounds continue meanwhile
REASON = "Reclaimed"


class _Step(enum.IntEnum):
    """Next step of an eviction; earlier steps come first."""

    EVICT = 0
    WRITE_POD_EVENT = 1
    WRITE_CONTROLLER_EVENT = 2


@dataclass(order=True, slots=True)
class _Task:
    """One step of one eviction."""

    step: _Step
    number: int
    eviction: PodEviction = field(compare=False)


class Evictor:
    """Sends the reclaimer's choice. `on_failure` asks for a round."""

    def __init__(self, client: ApiClient, pool: str, reclaimer: Reclaimer, metrics: Metrics, *, on_failure: Callable[[], None]) -> None:
        self._client = client
        self._pool = pool
        self._reclaimer = reclaimer
        self._metrics = metrics
        self._on_failure = on_failure
        self._queue: asyncio.PriorityQueue[_Task] = asyncio.PriorityQueue()
        self._numbers = itertools.count()
        self._unreported: Counter[str] = Counter()  # by controller, the evicted pods that no Event on it has named yet

    def send(self, evictions: Sequence[PodEviction]) -> None:
        """Queue these evictions; return at once."""
        self._reclaimer.sent(evictions)
        for one in evictions:
            self._put(one, _Step.EVICT)

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(CONCURRENT_EVICTIONS):
                workers.create_task(self._work())

    def _put(self, eviction: PodEviction, step: _Step) -> None:
        self._queue.put_nowait(_Task(step, next(self._numbers), eviction))

    async def _work(self) -> None:
        while True:
            task = await self._queue.get()
            if task.step is _Step.WRITE_POD_EVENT:
                await succeeded("event", self._write_pod_event(task.eviction), self._metrics)
                continue
            if task.step is _Step.WRITE_CONTROLLER_EVENT:
                await succeeded("event", self._write_controller_event(task.eviction), self._metrics)
                continue
            result = await self._evict(task.eviction)
            self._metrics.evictions.labels(task.eviction.ground.value, result).inc()
            if result == "ok":
                self._put(task.eviction, _Step.WRITE_POD_EVENT)
                if task.eviction.controller is not None:
                    self._unreported[task.eviction.owner] += 1
                    if self._unreported[task.eviction.owner] == 1:
                        self._put(task.eviction, _Step.WRITE_CONTROLLER_EVENT)
            elif result != "gone":
                self._on_failure()

    async def _evict(self, one: PodEviction) -> str:
        """Send one request and return its outcome."""
        namespace, name = one.key
        options: dict[str, Any] = {"preconditions": {"uid": one.uid}}
        if one.grace_seconds is not None:
            options["gracePeriodSeconds"] = one.grace_seconds
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        try:
            await self._client.create(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)
        except TooManyRequests as error:  # a disruption budget, or an overloaded API server
            self._reclaimer.refused(one, error.retry_after, time.monotonic())
            return "refused"
        except NotFound:
            return "gone"
        except (Conflict, NotLeading) as error:  # it has changed meanwhile, another pod has its name, or another replica leads
            event(logger, logging.DEBUG, "write overtaken", kind="eviction", problem=str(error))
            self._reclaimer.not_done([one])
            return "overtaken"
        except ApiError:
            self._reclaimer.refused(one, 0.0, time.monotonic())
            return "error"
        return "ok"

    async def _write_pod_event(self, one: PodEviction) -> None:
        namespace, name = one.key
        involved = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": one.uid}
        await create_event(self._client, involved, REASON, one.message, self._pool, warning=False)

    async def _write_controller_event(self, one: PodEviction) -> None:
        assert one.controller is not None  # noqa: S101  it was queued for it
        others = self._unreported.pop(one.owner, 1) - 1
        which = f"Pod {one.key[1]}" if not others else f"Pod {one.key[1]} and {others} more"
        involved = {"namespace": one.key[0], **one.controller}
        await create_event(self._client, involved, REASON, f"{which}: {one.message}", self._pool, warning=False)
