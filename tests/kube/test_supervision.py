"""A task that ends unexpectedly is started again with a growing pause, is counted, and ends no other."""

from __future__ import annotations

import asyncio
import contextlib

from fairburst.kube.supervision import supervised
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
