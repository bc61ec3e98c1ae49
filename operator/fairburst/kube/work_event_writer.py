"""Creates Events on work that waits, concurrently with the rounds and the other writes. `rounds/work_events.py` decides which."""

from __future__ import annotations

import asyncio
import time

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.events import create_event
from fairburst.kube.api.outcome import succeeded
from fairburst.kube.engine import Engine
from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.rounds.work_events import WorkEvents
from fairburst.telemetry.metrics import Metrics

LOOK_SECONDS = 2.0


class WorkEventWriter:
    """One for each term of leadership. An Event that cannot be created is lost: the queue's status says the same."""

    def __init__(self, client: ApiClient, pool: str, metrics: Metrics, engine: Engine) -> None:
        self._client, self._pool, self._metrics, self._engine = client, pool, metrics, engine
        self._events = WorkEvents()
        self._plan: RoundPlan | None = None
        self._is_new = False
        self._forecasts = 0

    def note(self, plan: RoundPlan) -> None:
        """Store the plan of the last round."""
        self._plan, self._is_new = plan, True

    async def run(self) -> None:
        """Look every few seconds until cancelled. One Event is in flight at a time."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            forecasts = self._engine.forecasts
            if self._plan is None or not (self._is_new or self._events.pending or forecasts.changes != self._forecasts):
                continue
            self._is_new, self._forecasts = False, forecasts.changes
            gated, obstacles = self._engine.gates.gated.of, self._engine.managed.obstacles
            for what in self._events.due(
                self._plan, self._engine.demands, gated, time.monotonic(), forecasts.starts, time.time(), obstacles
            ):
                creation = create_event(self._client, what.involved, what.reason, what.message, self._pool, warning=what.warning)
                await succeeded("event", creation, self._metrics)
