"""Metrics of the process itself: its memory, processor time and open files under the usual names, and the tasks of its event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector
from prometheus_client.metrics_core import Metric


class ProcessMetrics:
    """Metrics that every process serves beside its own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.usage = ProcessCollector(registry=registry)
        self.tasks = Gauge(
            "fairburst_asyncio_tasks", "Tasks of the process's event loop. Their number grows only if some never end.", registry=registry
        )

    def read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Count the tasks of a loop, which may be another thread's. The other metrics are read when they are served."""
        self.tasks.set(len(asyncio.all_tasks(loop)))

    def describe(self) -> Iterator[Metric]:
        """Yield every metric. Those of memory and time are there only on Linux."""
        yield from self.usage.collect()
        yield from self.tasks.describe()
