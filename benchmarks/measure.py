"""Measurements and their output. A benchmark is a function that yields Measurements, registered by name."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

REGISTRY: dict[str, Callable[[], Iterator[Measurement]]] = {}


@dataclass(frozen=True)
class Measurement:
    """One figure. `value`: the median of `repeats`; `target`: None without a target. Lower is better unless `at_least`."""

    name: str
    value: float
    unit: str
    target: float | None
    repeats: int
    min: float
    max: float
    at_least: bool = False

    @property
    def ok(self) -> bool:
        if self.target is None:
            return True
        return self.value >= self.target if self.at_least else self.value <= self.target

    def as_json(self) -> dict[str, object]:
        value = asdict(self)
        value["ok"] = self.ok
        del value["at_least"]
        return value


def benchmark(function: Callable[[], Iterator[Measurement]]) -> Callable[[], Iterator[Measurement]]:
    """Register the function under its name."""
    REGISTRY[function.__name__] = function
    return function


def timed(name: str, run: Callable[[], object], *, unit: str = "ms", target: float | None = None, repeats: int = 20) -> Measurement:
    """Return the median processor time of `run` after a warm-up, without the garbage collector. Other processes do not count."""
    scale = {"s": 1.0, "ms": 1e3, "us": 1e6}[unit]
    run()
    samples = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeats):
            begin = time.process_time()
            run()
            samples.append((time.process_time() - begin) * scale)
    finally:
        gc.enable()
    return Measurement(name, statistics.median(samples), unit, target, repeats, min(samples), max(samples))


def timed_once(name: str, run: Callable[[], object]) -> Measurement:
    """Return the processor time of a single run in milliseconds, for slow actions and for those that happen only once."""
    begin = time.process_time()
    run()
    value = (time.process_time() - begin) * 1e3
    return Measurement(name, value, "ms", None, 1, value, value)


def figure(name: str, value: float, unit: str, target: float | None = None, *, at_least: bool = False) -> Measurement:
    """Return a single figure other than a time: a ratio, a size."""
    return Measurement(name, value, unit, target, 1, value, value, at_least)


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def as_found(found: AsyncIterator[Measurement]) -> Iterator[Measurement]:
    """Yield the figures of an asynchronous benchmark, each as soon as it is available."""

    async def following() -> Measurement:
        return await anext(found)

    with asyncio.Runner() as runner, contextlib.suppress(StopAsyncIteration):
        while True:
            yield runner.run(following())
