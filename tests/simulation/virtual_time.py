"""Virtual time: an event loop that jumps to its next timer, and stand-ins for the clocks and the chance that operator modules read.

The operator's modules read the standard library by module name (`time.monotonic()`, `random.random()`). `stand_ins` replaces those
names in the modules under `fairburst` for the length of a run, so that the operator's code runs unchanged. Wall clocks belong to
replicas: a context variable says whose code is running.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import random
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

EPOCH = 1_780_000_000.0  # seconds; when every run begins
TURN_SECONDS = 1e-6  # what a turn of the event loop takes at least
DECISION_SECONDS = 1e-3  # what a round's decision takes


class WallClock:
    """What one machine's wall clock is ahead of the truth, in seconds."""

    def __init__(self) -> None:
        self.ahead = 0.0


_TRUE_CLOCK = WallClock()
wall_clock: contextvars.ContextVar[WallClock] = contextvars.ContextVar("wall_clock", default=_TRUE_CLOCK)


class _Selector:
    """Waits by setting the clock forward. Without a timer nothing could ever happen again, which is an error."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("expected a timer or a callback, found none: the simulation waits for ever")
        self._loop.now += max(TURN_SECONDS, timeout)
        return []

    def close(self) -> None:
        """Nothing is open."""


class VirtualLoop(asyncio.BaseEventLoop):
    """No sockets, no threads. `now` is monotonic seconds; callables for other threads run at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._clock_resolution = 1e-9
        self._selector = _Selector(self)

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        done = self.create_future()
        done.set_result(func(*args))
        return done

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none: nothing is read from outside."""

    def _write_to_self(self) -> None:
        """There is no other thread to wake the loop from."""


class _Clock:
    """Stands in for the module `time`."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.now

    def perf_counter(self) -> float:
        """The engine times its decision by two calls, each of which lets half of the decision's time pass."""
        self._loop.now += DECISION_SECONDS / 2
        return self._loop.now

    def time(self) -> float:
        return EPOCH + self._loop.now + wall_clock.get().ahead


class _Chance:
    """Stands in for the module `random`: all of it from one seed."""

    def __init__(self, seed: str) -> None:
        self._source = random.Random(seed)
        self.random, self.randint, self.uniform = self._source.random, self._source.randint, self._source.uniform

    def Random(self, *seed: Any) -> random.Random:  # noqa: N802 (the name of the class it stands in for)
        return random.Random(*seed) if seed else random.Random(self._source.getrandbits(64))


class _Names:
    """Stands in for the module `uuid`."""

    def __init__(self, seed: str) -> None:
        self._source = random.Random(seed)

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self._source.getrandbits(128), version=4)


class _NoCollector:
    """Stands in for the module `gc`: a process that freezes what it caches would keep it through all runs."""

    def freeze(self) -> None:
        """Do nothing."""


@contextlib.contextmanager
def stand_ins(loop: VirtualLoop, seed: str, **replaced: Any) -> Iterator[None]:
    """Replace what the operator's modules know the clock, chance and `replaced` (modules or classes by name) by.

    `replaced` maps "module:name" within `fairburst.kube` to the object to use there.
    """
    standing_in = {time: _Clock(loop), random: _Chance(f"chance {seed}"), uuid: _Names(f"names {seed}"), gc: _NoCollector()}
    changed: list[tuple[Any, str, Any]] = []

    def put(module: Any, name: str, value: Any) -> None:
        changed.append((module, name, getattr(module, name)))
        setattr(module, name, value)

    for module in [found for name, found in sorted(sys.modules.items()) if name.startswith("fairburst.")]:
        for original, stand_in in standing_in.items():
            if module.__dict__.get(original.__name__) is original:
                put(module, original.__name__, stand_in)
        if module.__dict__.get("CLOCK") is time.time:
            put(module, "CLOCK", standing_in[time].time)
    for path, value in replaced.items():
        name, _, attribute = path.partition(":")
        put(sys.modules[f"fairburst.kube.{name}"], attribute, value)
    try:
        yield
    finally:
        for module, name, value in reversed(changed):
            setattr(module, name, value)
