"""The operator's memory outside of the queues' statuses: loaded before a process leads, saved concurrently with the rounds.

Changes made during a save are coalesced into the next one. What is saved is looked at every few seconds, and written again if another
client has damaged it. Decides nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time

from fairburst.config import Config
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError
from fairburst.kube.api.saved import LOOK_SECONDS, stored_texts
from fairburst.kube.enforce.reclaim_memory import SavedReclaim
from fairburst.kube.engine import Engine
from fairburst.kube.jobs.learned_curves import RunStore
from fairburst.kube.jobs.reserve_memory import ReserveMemory
from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.usage.committed import CommittedCapacity
from fairburst.telemetry.log import event

logger = logging.getLogger(__name__)


class Memories:
    """The committed capacity, the memories of DRESS and reclaim, and the runs of job families; each has its own module."""

    def __init__(self, client: ApiClient, config: Config) -> None:
        self._client, self._namespace = client, config.namespace
        self._learn = config.elasticity.learn
        self._committed = CommittedCapacity(client, config.namespace, config.pool.name)
        self._reserve = ReserveMemory(client, config.namespace, config.pool.name)
        self._job_runs = RunStore(client, config.namespace, config.pool.name)
        self._reclaim = SavedReclaim(client, config.namespace, config.pool.name)
        self._look_at = 0.0
        self._noted, self._saved = asyncio.Event(), asyncio.Event()
        self._saved.set()

    @property
    def job_runs_unreadable(self) -> bool:
        """Return whether the saved runs of job families cannot be used."""
        return self._job_runs.unreadable is not None

    async def recall(self, engine: Engine) -> None:
        """Load everything into an engine that has run no round yet."""
        engine.reclaim.memory, *_ = await asyncio.gather(
            self._reclaim.load(), self._recall_committed(engine), self._recall_reserve(engine), self._recall_job_runs(engine)
        )

    def note(self, plan: RoundPlan) -> None:
        """Note the end of a round: save its changes."""
        self._committed_now = plan.snapshot.resources, plan.snapshot.committed_capacity
        self._noted.set()
        self._saved.clear()

    async def run(self, engine: Engine) -> None:
        """Save noted changes until cancelled."""
        while True:
            await self._noted.wait()
            self._noted.clear()
            await self._save(engine)
            if time.monotonic() >= self._look_at:
                self._look_at = time.monotonic() + LOOK_SECONDS
                await self._restore()
            if not self._noted.is_set():
                self._saved.set()

    async def flush(self) -> None:
        """Return once everything noted has been saved, or is due later."""
        await self._saved.wait()

    async def _save(self, engine: Engine) -> None:
        await self._committed.save(*self._committed_now)
        if self._learn:
            if (late := await self._job_runs.load_late()) is not None:
                engine.slots.learned.remember(late)
            await self._job_runs.save(engine.slots.learned.observations)
        await self._reserve.save(engine.memory.dress)
        await self._reclaim.save(lambda: engine.reclaim.memory)

    async def _restore(self) -> None:
        """Write again what another client has deleted or changed: this process may be the only one that still knows it."""
        texts = [self._committed.text, self._reserve.text, self._reclaim.text, *([self._job_runs.text] if self._learn else [])]
        try:
            stored = {name: await stored_texts(self._client, self._namespace, name) for name in sorted({text.name for text in texts})}
            for text in texts:
                await text.restore(stored[text.name])
        except ApiError as error:
            event(logger, logging.DEBUG, "memory not looked at", problem=str(error))

    async def before_evictions(self, engine: Engine) -> bool:
        """Save the pods for which room is about to be made; return False if that failed: then no pod may be evicted."""
        return await self._reclaim.save(lambda: engine.reclaim.memory, ahead=True)

    async def _recall_committed(self, engine: Engine) -> None:
        saved = await self._committed.load()
        if saved is not None:
            engine.remember_committed(*saved)

    async def _recall_reserve(self, engine: Engine) -> None:
        learned = await self._reserve.load() if engine.reserve is not None else None
        if learned is not None:
            engine.remember_reserve(learned)

    async def _recall_job_runs(self, engine: Engine) -> None:
        if self._learn:
            engine.slots.learned.remember(await self._job_runs.load())
