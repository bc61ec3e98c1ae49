"""The level-triggered scheduling loop: events mark namespaces as changed, a round decides on the current state and writes the difference.

A round starts a debounce time after the first event, so that many events make one round, and after a pause that is proportional to the
length of the last round. After an urgent event it starts at once, or after a pause as long as the last round took to plan. Without events
it starts at the next known boundary, and at least every few seconds. It runs on one event loop, so the view cannot change during a round.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from fairburst.config import RoundConfig
from fairburst.kube.engine import Engine
from fairburst.kube.rounds.view import ClusterView, RoundPlan
from fairburst.policy.arrays import FloatArray
from fairburst.policy.drf import row_any_short
from fairburst.telemetry.log import event
from fairburst.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0  # after a round with a failed write
QUIET_SECONDS = 10.0  # after a failed write a round plans the same again, which is not logged
UNREADY_AFTER = 3  # failed rounds in a row
PAUSE_RATIO = 9.0  # pause after a round, as a multiple of its length: rounds take a tenth of a core at most
CALM_PAUSE_RATIO = 19.0  # the same after a round without writes in which every queue is given what it wants: they take a twentieth
LONGEST_PAUSE_SECONDS = 0.25  # bounds these pauses after a long round, so that events do not wait longer
LONGEST_CALM_PAUSE_SECONDS = 0.5  # bounds the longer one
CLOCK = time.time


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage inside. Most of what a round makes stays, and collections would walk through it again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class Sender(Protocol):
    """Sends a plan's writes; returns whether all succeeded."""

    async def __call__(self, plan: RoundPlan) -> bool:
        """Send."""
        ...


class SchedulingLoop:
    """Runs rounds until cancelled. `mark` may be called from callbacks of the same event loop."""

    def __init__(self, engine: Engine, view: ClusterView, send: Sender, config: RoundConfig, metrics: Metrics) -> None:
        self._engine = engine
        self._view = view
        self._send = send
        self._config = config
        self._metrics = metrics
        self._dirty, self._urgent = asyncio.Event(), asyncio.Event()
        self._first_event = math.inf
        self.last_progress = self._rest_until = self._paused_until = -math.inf
        self.failed_in_a_row = 0
        self._failure = ""
        self._finishing = False
        self._refused = 0
        self._quiet_until = -math.inf
        self._retry: asyncio.TimerHandle | None = None
        self._resting = asyncio.Event()
        self._resting.set()
        self.after_round: Callable[[RoundPlan], None] | None = None

    def mark(self, *, urgent: bool = False) -> None:
        """Note a change: run a round soon. `urgent`: work waits for the decision."""
        if urgent:
            self._urgent.set()
        if self._first_event == math.inf:
            self._first_event = time.monotonic()
        self._dirty.set()

    def retry(self) -> None:
        """Note a failed write of a worker: run a round after a pause."""
        self._quiet_until = time.monotonic() + QUIET_SECONDS
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._retry = None
        self.mark()

    async def run(self) -> None:
        """Run rounds until `finish`. An unexpected error in one is logged and counted; the next starts from the current view."""
        due = 0.0
        self.progressed()  # the health check measures from here how long the first round takes
        while True:
            await self._wait(due)
            if self._finishing:
                return
            self._resting.clear()
            try:
                due = await self._round()
                self.failed_in_a_row = 0
            except Exception as error:
                due = time.monotonic() + self._failed(error)
            finally:
                self._resting.set()
            self._metrics.rounds_failed_in_a_row.set(self.failed_in_a_row)
            self.progressed()

    def progressed(self) -> None:
        """Note progress: a round has ended, or one of its writes has been answered."""
        self.last_progress = time.monotonic()

    def unready(self) -> str | None:
        """Return why rounds make no progress, or None."""
        if self.failed_in_a_row < UNREADY_AFTER:
            return None
        return f"the last {self.failed_in_a_row} rounds failed: {self._failure}"

    def _failed(self, error: Exception) -> float:
        """Note a failed round; return the seconds until the next one if no event comes first, which grow with each failure.

        Each cause is logged once with its traceback.
        """
        self.failed_in_a_row += 1
        self._metrics.round_failures.inc()
        failure = f"{type(error).__name__}: {error}"[:300]
        if failure != self._failure or self.failed_in_a_row == 1:
            logger.exception("round failed", exc_info=error)
        self._failure = failure
        return min(RETRY_SECONDS * 2.0 ** min(self.failed_in_a_row - 1, 10), self._config.interval_seconds)

    async def finish(self) -> None:
        """Start no more rounds; return once the current one has ended."""
        self._finishing = True
        await self._resting.wait()

    async def _wait(self, due: float) -> None:
        """Wait for an event and the end of the debounce time, or until `due`."""
        longest = time.monotonic() + self._config.interval_seconds
        timeout = max(0.0, min(due, longest) - time.monotonic())
        try:
            async with asyncio.timeout(timeout):  # not wait_for, which may swallow a cancellation before Python 3.12
                await self._dirty.wait()
        except TimeoutError:
            return
        debounce = self._config.debounce_milliseconds / 1000
        drained = max(self._first_event + debounce, self._paused_until) - time.monotonic()
        if drained > 0:
            try:
                await asyncio.wait_for(self._urgent.wait(), drained)
            except TimeoutError:
                pass
            else:  # urgent events may follow each other without a pause: let other tasks of this process run between rounds
                await asyncio.sleep(max(0.0, self._rest_until - time.monotonic()))
        self._metrics.reaction_seconds.observe(time.monotonic() - self._first_event)

    async def _round(self) -> float:
        """Run one round; return the monotonic time of the next one if no event comes first."""
        self._dirty.clear()
        self._urgent.clear()
        started = time.monotonic()
        since, self._first_event = min(self._first_event, started), math.inf
        ratio, longest = PAUSE_RATIO, LONGEST_PAUSE_SECONDS
        try:
            with uncollected():
                plan = self._engine.round(self._view, CLOCK(), started)
            if not plan.writes() and _all_given(plan):
                ratio, longest = CALM_PAUSE_RATIO, LONGEST_CALM_PAUSE_SECONDS
        finally:  # a failed round has blocked the event loop as well
            planned = time.monotonic()
            self._rest_until = planned + min(planned - started, LONGEST_PAUSE_SECONDS)
            self._paused_until = planned + min(ratio * (planned - started), longest)
        plan.since, plan.started = since, started
        ok = await self._send(plan)
        self._observe(plan, started, planned, ok=ok)
        if self.after_round is not None:
            self.after_round(plan)
        return plan.due if ok else min(plan.due, time.monotonic() + RETRY_SECONDS)

    def _observe(self, plan: RoundPlan, started: float, planned: float, *, ok: bool) -> None:
        metrics, snapshot = self._metrics, plan.snapshot
        metrics.rounds.inc()
        metrics.decide_seconds.observe(plan.decide_seconds)
        metrics.quotas_out_of_sync.set(plan.quotas_out_of_sync)
        metrics.refused.inc(plan.refused - self._refused)
        self._refused = plan.refused
        metrics.unprocessed_jobs.set(plan.unprocessed)
        metrics.show_capacity(snapshot.resources, snapshot.live_capacity, snapshot.committed_capacity)
        metrics.show_idle(snapshot.resources, {cause.value: parts for cause, parts in plan.idle.items()}, planned)
        if not ok:
            self._quiet_until = started + QUIET_SECONDS
        changed = len(plan.quota_writes) + len(plan.statuses) + len(plan.events)
        event(
            logger,
            logging.INFO if changed and started >= self._quiet_until else logging.DEBUG,
            "round",
            queues=len(snapshot.queues),
            demand=_dominant(snapshot.demand.sum(axis=0), snapshot.live_capacity),
            allocated=_dominant(plan.result.allocation.sum(axis=0), snapshot.live_capacity),
            used=_dominant(snapshot.usage.sum(axis=0), snapshot.live_capacity),
            quotas=len(plan.quota_writes),
            resyncs=len(plan.resyncs),
            ungates=len(plan.ungates),
            statuses=len(plan.statuses),
            events=len(plan.events),
            decide_ms=plan.decide_seconds * 1e3,
            plan_ms=(planned - started) * 1e3,
            total_ms=(time.monotonic() - started) * 1e3,
        )
        for entry, what in plan.events:
            event(logger, logging.INFO, "decision", queue=entry.qualified_name, kind=what.kind.value, message=what.message)


def _all_given(plan: RoundPlan) -> bool:
    """Return whether the decision gives every queue what it wants: no one waits for the next."""
    return not row_any_short(plan.result.allocation, plan.snapshot.demand).any()


def _dominant(amount: FloatArray, capacity: FloatArray) -> float:
    counted = capacity > 0
    return float(np.max(amount[counted] / capacity[counted], initial=0.0))
