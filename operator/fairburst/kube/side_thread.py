"""A thread with an event loop, for what must not wait for a round: answers to others, and the Lease.

A round of thousands of queues may take seconds, in which its event loop does nothing else. The interpreter changes between threads every
few milliseconds, so work in this thread waits for a few of these changes instead of a round.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, Self, TypeVar

T = TypeVar("T")


class Runner(Protocol):
    """Runs a coroutine, here or elsewhere; returns its result, or raises its error, here."""

    async def __call__(self, work: Coroutine[Any, Any, T], /) -> T:
        """Run."""
        ...


async def here(work: Coroutine[Any, Any, T], /) -> T:
    """Run a coroutine in the present event loop."""
    return await work


class SideThread:
    """The thread, from the beginning of an `async with` block to its end. It is a `Runner`. Tasks that are left then are cancelled."""

    def __init__(self) -> None:
        self._running = Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]()
        self._thread = threading.Thread(target=self._work, name="side", daemon=True)

    async def __aenter__(self) -> Self:
        self._thread.start()
        self._loop, self._stop = await asyncio.wrap_future(self._running)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join)

    async def __call__(self, work: Coroutine[Any, Any, T], /) -> T:
        """Run a coroutine in the thread."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _work(self) -> None:
        asyncio.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        stop = asyncio.Event()
        self._running.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()
