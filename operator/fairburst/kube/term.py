"""The parts of one term of leadership: an engine without memory, the saved memory, the loop and the writers. Each term has new ones."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Sequence
from typing import Any

from fairburst.config import Config
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.objects import Pod
from fairburst.kube.apply import Applier
from fairburst.kube.caches import Caches
from fairburst.kube.evict import Evictor
from fairburst.kube.forecasts.forecaster import Forecaster
from fairburst.kube.loop import SchedulingLoop
from fairburst.kube.memories import Memories
from fairburst.kube.round_metrics import show_round
from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.shadow import ObservingEngine
from fairburst.kube.status_writer import StatusWriter
from fairburst.kube.supervision import reconnected, supervised
from fairburst.kube.ungate import Ungater
from fairburst.kube.work_event_writer import WorkEventWriter
from fairburst.policy.baselines import Policy
from fairburst.policy.model import QueueKind
from fairburst.telemetry.metrics import Metrics


class Term:
    """Decides and writes while `run` runs. Before that, in a standby, it only follows the changes of pods and controllers.

    policy: the decision core, or what records its rounds. forecaster: the command of the forecaster.
    """

    def __init__(
        self, config: Config, client: ApiClient, caches: Caches, applier: Applier, metrics: Metrics, *, policy: Policy,
        forecaster: Sequence[str],
    ) -> None:  # fmt: skip
        pool = config.pool.name
        self._caches, self._applier, self._metrics = caches, applier, metrics
        engine = self.engine = ObservingEngine(config, config.namespace, policy)
        engine.absence.begin(caches.recent)
        for pod in caches.pods.store.values():
            engine.gates.pod_changed(None, pod)
        self.loop = SchedulingLoop(engine, caches.view, self._send, config.rounds, metrics)
        self.loop.after_round = self._after_round
        self._ungater = Ungater(client, engine.gates, metrics, pod_seen=caches.pod_answered, on_failure=self.loop.mark)
        self._status_writer = StatusWriter(client, pool, metrics, engine, caches.queues, on_failure=self.loop.retry)
        self._work_events = WorkEventWriter(client, pool, metrics, engine)
        self._forecaster = Forecaster(forecaster, client, config, engine, caches.view, metrics)
        self._evictor = Evictor(client, pool, engine.reclaim, metrics, on_failure=self.loop.mark)
        self._memories = Memories(client, config)

    async def run(self, vacant_since: float) -> None:
        """Read the memory, which the former leader may have written until just now; then run rounds until cancelled.

        vacant_since: monotonic time since which no process has led.
        """
        self.engine.absence.since, caches = vacant_since, self._caches
        await asyncio.gather(reconnected(caches.informers()), caches.queues.refresh(), self._memories.recall(self.engine))
        async with asyncio.TaskGroup() as tasks:
            for name, run in (
                ("rounds", self.loop.run),
                ("ungater", self._ungater.run),
                ("statuses", self._status_writer.run),
                ("memories", functools.partial(self._memories.run, self.engine)),
                ("evictions", self._evictor.run),
                ("work events", self._work_events.run),
                ("forecaster", self._forecaster.run),
            ):
                tasks.create_task(supervised(name, run, self._metrics), name=name)

    async def finish(self) -> None:
        """Finish the current round, and write its statuses and memory."""
        await self.loop.finish()
        await asyncio.gather(self._applier.ended(), self._status_writer.flush(), self._memories.flush())

    def pod_changed(self, old: Pod | None, new: Pod | None, space: str, now: float) -> None:
        """Note one change of a pod, which the caches have."""
        caches, engine = self._caches, self.engine
        if old is None and new is not None and engine.queues.kind_of(new.metadata.namespace) is QueueKind.LATENCY:
            self._applier.hurry()
        engine.gates.pod_changed(old, new, now)
        if old is not None and not old.ended and (new is None or new.ended):
            engine.pod_ended(space, now)
        engine.pod_changed(old, new, caches.view.pods, time.time(), now)
        self._forecaster.pod_changed(old, new)
        engine.slots.pod_changed(old, new, now, watched=caches.pods.synced.is_set())
        if caches.pods.synced.is_set():  # the first list shows no rate of creation
            caches.view.pace.observe(old, new, now, elastic=engine.queues.kind_of(space) is QueueKind.THROUGHPUT)

    def pods_changed(self, namespaces: set[str]) -> None:
        """Release pods that the last round's levels permit at once, without another round."""
        self._ungater.send(self.engine.gates.between_rounds(namespaces, self._caches.view.pods), time.monotonic())
        self.loop.mark(urgent=self.engine.gates.next_has_arrived())

    def controller_changed(self, kind: str, old: Any, new: Any) -> None:
        """Note one change of an object that creates pods, which the caches have."""
        if self.engine.queues.kind_of((new or old).metadata.namespace) is QueueKind.LATENCY:
            self._applier.hurry()
        if kind == "Job":
            self.engine.slots.job_changed(old, new, time.time(), time.monotonic())

    def try_again(self) -> None:
        """Send at once the writes that waited because the API server failed."""
        self.engine.resyncs.pardon(time.monotonic())
        self.loop.mark()

    def _after_round(self, plan: RoundPlan) -> None:
        """Show a round that has ended, and let the tasks beside the rounds know it."""
        show_round(self._metrics, plan, self.engine, self._caches, job_runs_unreadable=self._memories.job_runs_unreadable)
        self._memories.note(plan)
        self._work_events.note(plan)
        self._forecaster.note(plan)

    async def _send(self, plan: RoundPlan) -> bool:
        self._ungater.send(plan.ungates, plan.since)
        evictions = plan.reclaim.evictions
        if evictions and await self._memories.before_evictions(self.engine):
            self._evictor.send(evictions)
        else:
            self.engine.reclaim.not_done(evictions)
        applied = await self._applier.apply(plan, self.engine.quota_written, self.engine.resyncs.planner.not_resynced)
        return await self._status_writer.write(plan) and applied
