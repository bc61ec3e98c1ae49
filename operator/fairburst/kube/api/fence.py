"""The right of a process to write, and the time that a write has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

TRAVEL_SECONDS = 2.0  # of a request and its answer, and of a connection for them


class Fence(Protocol):
    """Decides whether this process may write. server_seconds: how long the server may work on a request that has reached it."""

    server_seconds: float

    def seconds_left(self) -> float:
        """Return how long this process may still write; zero or less if it may not."""
        ...


@asynccontextmanager
async def while_it_may_write(fence: Fence) -> AsyncIterator[None]:
    """End what is inside with a TimeoutError once this process may no longer write, or if it takes much longer than the server may.

    A renewal meanwhile gives it more time: on a slow server the rest of the former right would be too short for most writes.
    """
    loop = asyncio.get_running_loop()
    latest = loop.time() + fence.server_seconds + TRAVEL_SECONDS
    timer: asyncio.Handle
    async with asyncio.timeout(None) as limit:

        def look() -> None:
            nonlocal timer
            ends = min(latest, loop.time() + fence.seconds_left())
            if ends > loop.time():
                timer = loop.call_at(ends, look)
            else:
                limit.reschedule(ends)

        timer = loop.call_soon(look)
        try:
            yield
        finally:
            timer.cancel()
