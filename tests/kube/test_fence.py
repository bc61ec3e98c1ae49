"""How long a write may take: as long as this process may write, and not much longer than the server may work on it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairburst.kube.api import fence as fences
from fairburst.kube.api.fence import while_it_may_write


class Right:
    """A right to write for some seconds, which may be renewed."""

    def __init__(self, seconds: float) -> None:
        self.server_seconds = 60.0
        self.renewals = 0
        self.renew(seconds)

    def renew(self, seconds: float) -> None:
        self._until = asyncio.get_running_loop().time() + seconds
        self.renewals += 1

    def seconds_left(self) -> float:
        return self._until - asyncio.get_running_loop().time()


async def write(right: Right, answer: asyncio.Future[Any]) -> Any:
    async with while_it_may_write(right):
        return await answer


async def test_a_write_goes_on_if_the_right_is_renewed_meanwhile() -> None:
    """Two thirds of a lease's cycle would have too little time left for a server that takes two seconds to answer."""
    right, answer = Right(0.3), asyncio.get_running_loop().create_future()
    task = asyncio.create_task(write(right, answer))
    for _ in range(4):
        await asyncio.sleep(0.1)
        right.renew(30.0)
    assert not task.done()
    answer.set_result("stored")
    assert await task == "stored"


async def test_it_ends_if_the_right_is_lost_meanwhile() -> None:
    right, answer = Right(0.2), asyncio.get_running_loop().create_future()
    task = asyncio.create_task(write(right, answer))
    await asyncio.sleep(0)
    right.renew(-1.0)
    with pytest.raises(TimeoutError):
        await task
    assert answer.cancelled()


async def test_it_ends_when_the_server_must_have_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fences, "TRAVEL_SECONDS", 0.1)
    right, answer = Right(60.0), asyncio.get_running_loop().create_future()
    right.server_seconds = 0.1
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(write(right, answer), 30.0)
    assert right.seconds_left() > 0


async def test_without_the_right_it_ends_at_once() -> None:
    right, answer = Right(0.0), asyncio.get_running_loop().create_future()
    with pytest.raises(TimeoutError):
        await write(right, answer)


async def test_a_cancelled_write_leaves_no_timer() -> None:
    right, answer = Right(0.05), asyncio.get_running_loop().create_future()
    task = asyncio.create_task(write(right, answer))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.1)
    assert answer.cancelled()
