"""Tasks on a test's event loop, and waits for their effects."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, Any]) -> AsyncIterator[asyncio.Task[Any]]:
    """Run the coroutine as a task while the block runs, and then cancel it. Its error is raised at the end."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(check: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    """Return once `check` is true. `what` completes "waited for ..."."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        await asyncio.sleep(0.01)


async def in_groups(actions: Sequence[Awaitable[Any]], size: int = 16) -> None:
    """Await the actions concurrently, `size` at a time."""
    for start in range(0, len(actions), size):
        await asyncio.gather(*actions[start : start + size])
