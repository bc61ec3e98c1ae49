"""Removes gates: one patch per pod, the most urgent queue's first, concurrently with the rounds. Decides nothing.

A refused pod goes back to the planner, and the next round decides on the pod's current state.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError, BackedOff, Conflict, NotFound, NotLeading
from fairburst.kube.api.objects import Pod
from fairburst.kube.enforce.gate import UngatePlanner, ungate_patch
from fairburst.kube.times import to_epoch
from fairburst.kube.usage.gated_pods import GatedPod
from fairburst.telemetry.log import event
from fairburst.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

CONCURRENT_PATCHES = 32


@dataclass(slots=True)
class _Batch:
    """Pods chosen at one time. `since`: monotonic time since which the first of them could be released; `left`: not answered yet."""

    since: float
    left: int


class Ungater:
    """Sends the choice of the `UngatePlanner`. `pod_seen` takes the pods that the server answers with; `on_failure` asks for a round."""

    def __init__(
        self,
        client: ApiClient,
        gates: UngatePlanner,
        metrics: Metrics,
        *,
        pod_seen: Callable[[Pod], None],
        on_failure: Callable[[], None],
    ) -> None:
        self._client = client
        self._gates = gates
        self._metrics = metrics
        self._pod_seen = pod_seen
        self._on_failure = on_failure
        self._queue: asyncio.PriorityQueue[tuple[tuple[int, int, str], int, GatedPod, _Batch]] = asyncio.PriorityQueue()
        self._numbers = itertools.count()

    def send(self, pods: Sequence[GatedPod], since: float) -> None:
        """Queue these pods; return at once. `since`: monotonic time of the first event that may have released them. A pod that came later
        has waited since then."""
        if not pods:
            return
        batch = _Batch(min(max(since, pod.since) for pod in pods), len(pods))
        event(logger, logging.DEBUG, "pods released", pods=len(pods), decided_ms=(time.monotonic() - batch.since) * 1e3)
        self._gates.sent(pods)
        for pod in pods:
            self._queue.put_nowait((self._gates.urgency(pod.space), next(self._numbers), pod, batch))

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(CONCURRENT_PATCHES):
                workers.create_task(self._work())

    async def _work(self) -> None:
        while True:
            _, _, pod, batch = await self._queue.get()
            self._metrics.queue_patch_seconds.observe(time.monotonic() - max(batch.since, pod.since))
            result = await self._ungate(pod)
            self._metrics.writes.labels("ungate", result).inc()
            batch.left -= 1
            if not batch.left:
                self._metrics.queue_reaction_seconds.observe(time.monotonic() - batch.since)
            if result != "ok":
                self._gates.failed(pod, time.monotonic())
                self._on_failure()

    async def _ungate(self, pod: GatedPod) -> str:
        """Send one patch; return its outcome."""
        namespace, name = pod.key
        try:
            answer = await self._client.json_patch(f"/api/v1/namespaces/{namespace}/pods/{name}", ungate_patch(pod))
        except (NotFound, Conflict, NotLeading) as error:  # overtaken by a change whose event has not arrived yet
            event(logger, logging.DEBUG, "write overtaken", kind="ungate", problem=str(error))
            return "overtaken"
        except BackedOff:
            return "postponed"
        except ApiError:
            return "error"
        if pod.created:
            self._metrics.queue_ungate_seconds.observe(max(0.0, time.time() - to_epoch(datetime.fromisoformat(pod.created))))
        self._pod_seen(msgspec.convert(answer, Pod))
        return "ok"
