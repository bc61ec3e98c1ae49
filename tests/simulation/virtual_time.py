"""Virtual time: an event loop that jumps to its next timer, and stand-ins for the clocks and random numbers that the operator reads.

The operator's modules read the standard library by module name (`time.monotonic()`, `random.random()`). `stand_ins` replaces those
names in the modules under `fairburst` for the length of a run, so that the operator's code runs unchanged. Each
replica has its own wall clock; a context variable holds the clock of the replica whose code runs.
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
TURN_SECONDS = 1e-6  # the least duration of a turn of the event loop
DECISION_SECONDS = 1e-3  # the duration of a round's decision


class WallClock:
    """The wall clock of one machine. `ahead`: by how many seconds it is ahead of the truth."""

    def __init__(self) -> None:
        self.ahead = 0.0


_TRUE_CLOCK = WallClock()
wall_clock: contextvars.ContextVar[WallClock] = contextvars.ContextVar("wall_clock", default=_TRUE_CLOCK)


class _Selector:
    """Waits by setting the clock forward. Waiting without a timer would last forever and is an error."""

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
    """A loop without sockets and threads. `now`: monotonic seconds. Callables for other threads run at once."""

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
        """Process nothing: the loop has no sockets."""

    def _write_to_self(self) -> None:
        """Do nothing: no other thread wakes the loop."""


class _Clock:
    """Stands in for the module `time`."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.now

    def perf_counter(self) -> float:
        """Advance by half of a decision's duration: the engine times its decision by two calls."""
        self._loop.now += DECISION_SECONDS / 2
        return self._loop.now

    def time(self) -> float:
        return EPOCH + self._loop.now + wall_clock.get().ahead


class _Chance:
    """Stands in for the module `random`, with one seed."""

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
    """Stands in for the module `gc`: frozen caches would outlive their run."""

    isenabled, enable, disable = staticmethod(gc.isenabled), staticmethod(gc.enable), staticmethod(gc.disable)

    def freeze(self) -> None:
        """Do nothing."""


@contextlib.contextmanager
def stand_ins(loop: VirtualLoop, seed: str, **replaced: Any) -> Iterator[None]:
    """Replace the clocks, random numbers and `replaced` (modules or classes by name) in the operator's modules.

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
