"""A task that ends unexpectedly is started again with a growing pause, is counted, and ends no other."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from fairburst.kube import supervision
from fairburst.kube.supervision import reconnected, supervised
from fairburst.telemetry.metrics import Metrics
from tests.support.tasks import until

FAST = (0.001, 0.01)


async def test_a_task_that_raises_is_started_again_and_counted() -> None:
    metrics, began = Metrics(), 0

    async def fails_twice() -> None:
        nonlocal began
        began += 1
        if began < 3:
            raise KeyError("a bug")
        await asyncio.Event().wait()

    task = asyncio.create_task(supervised("odd", fails_twice, metrics, FAST))
    await until(lambda: began == 3, "the third start")
    assert metrics.registry.get_sample_value("fairburst_task_restarts_total", {"task": "odd"}) == 2
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled(), "it ends when it is told to"


async def test_a_task_that_has_done_its_work_is_not_started_again() -> None:
    metrics, began = Metrics(), 0

    async def done() -> None:
        nonlocal began
        began += 1

    await supervised("short", done, metrics, FAST)
    assert began == 1
    assert metrics.registry.get_sample_value("fairburst_task_restarts_total", {"task": "short"}) is None


class Cache:
    """Stands in for an informer."""

    def __init__(self, *, connected: bool) -> None:
        self.connected = asyncio.Event()
        if connected:
            self.connected.set()


async def test_a_term_waits_for_caches_that_have_lost_their_watches_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "EVENTS_SECONDS", 0.0)
    caches: list[Any] = [Cache(connected=True), Cache(connected=False)]
    waiting = asyncio.create_task(reconnected(caches))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    caches[1].connected.set()
    await asyncio.wait_for(waiting, 1)
    monkeypatch.setattr(supervision, "RECONNECT_SECONDS", 0.01)
    await asyncio.wait_for(reconnected([*caches, Cache(connected=False)]), 1)  # type: ignore[list-item]


async def test_a_term_with_complete_caches_begins_at_once() -> None:
    started = asyncio.get_running_loop().time()
    await reconnected([Cache(connected=True)])  # type: ignore[list-item]
    assert asyncio.get_running_loop().time() - started < supervision.EVENTS_SECONDS
