"""Supervision of a process: the signals that stop it, its caches after an outage, and its tasks, which are restarted one by one.

A task of the operator runs until it is cancelled or finished. One that raises is restarted after a pause that doubles, so that an error in
one task stops no other; the process ends only on request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from fairburst.kube.api.informer import Backoff, Informer
from fairburst.telemetry.log import event
from fairburst.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

PAUSE_SECONDS = (1.0, 60.0)
RECONNECT_SECONDS, EVENTS_SECONDS = 3.0, 0.3  # for caches after an outage: until their watches begin, and for the first events
STEADY_SECONDS = 300.0  # a task that ran this long begins with the shortest pause again


def stopped_by_signal() -> asyncio.Event:
    """Return an event that is set by SIGTERM and SIGINT. Call it on the event loop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def run_until(stop: asyncio.Event, tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait until `stop` is set, then cancel the tasks. A task that ends before has failed: its error is raised once all have ended."""
    ended = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait([ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {ended}:
            task.result()
    finally:
        for task in (ended, *tasks):
            task.cancel()
        await asyncio.gather(ended, *tasks, return_exceptions=True)


async def supervised(
    name: str, run: Callable[[], Awaitable[None]], metrics: Metrics, pause_seconds: tuple[float, float] = PAUSE_SECONDS
) -> None:
    """Run `run` until it returns or is cancelled. An exception is logged, counted under `name`, and followed by another run."""
    pauses = Backoff(*pause_seconds)
    while True:
        began = time.monotonic()
        try:
            await run()
        except Exception as error:
            logger.exception("a task ended unexpectedly")
            problem = f"{type(error).__name__}: {error}"[:300]
        else:
            return
        if time.monotonic() - began > STEADY_SECONDS:
            pauses.reset()
        delay = pauses.delay()
        metrics.task_restarts.labels(name).inc()
        event(logger, logging.ERROR, "task restarts", task=name, problem=problem, delay_seconds=round(delay, 2))
        await asyncio.sleep(delay)


async def reconnected(informers: Iterable[Informer[Any]]) -> None:
    """Wait for caches that have lost their watches in an outage: the first round decides when the work of that time came."""
    behind = [informer.connected for informer in informers if not informer.connected.is_set()]
    if behind:
        with contextlib.suppress(TimeoutError):  # one collection may fail for long
            async with asyncio.timeout(RECONNECT_SECONDS):
                await asyncio.gather(*(connected.wait() for connected in behind))
        await asyncio.sleep(EVENTS_SECONDS)
