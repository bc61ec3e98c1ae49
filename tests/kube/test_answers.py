"""Pauses of repeated requests end once the API server answers again."""

from __future__ import annotations

import asyncio

import pytest

from fairburst.kube.api import answers
from fairburst.kube.api.answers import OUTAGE_SECONDS, Answers
from fairburst.kube.api.errors import ApiError, NotFound, NotLeading, TooManyRequests, Unavailable
from tests.support.clocks import Clock
from tests.support.fake_api import FakeApi
from tests.support.informers import PODS, names, pod, running, watching
from tests.support.tasks import until

AWAY = Unavailable(0, "Unavailable", "connection refused")
BROKEN = ApiError(500, "InternalError", "etcd is away")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(answers, "time", made)
    return made


async def paused(noted: Answers) -> asyncio.Task[None]:
    task = asyncio.create_task(noted.pause(60.0))
    await asyncio.sleep(0)
    return task


async def ended(task: asyncio.Task[None]) -> bool:
    for _ in range(5):
        await asyncio.sleep(0)
    return task.done() or not task.cancel()


@pytest.mark.parametrize("error", [AWAY, BROKEN])
@pytest.mark.parametrize("answer", [None, NotFound(404, "NotFound", "no such kind")], ids=["success", "refusal"])
async def test_the_first_answer_after_an_outage_ends_all_pauses(clock: Clock, error: ApiError, answer: ApiError | None) -> None:
    noted, returns = Answers(), list[float]()
    noted.on_return = lambda: returns.append(clock.now)
    noted.failed(error)
    pauses = [await paused(noted) for _ in range(3)]
    clock.now += OUTAGE_SECONDS
    noted.failed(error)
    noted.heard() if answer is None else noted.failed(answer)
    assert [await ended(one) for one in pauses] == [True, True, True]
    assert returns == [clock.now]


async def test_an_api_server_that_fails_some_requests_ends_no_pause_of_others(clock: Clock) -> None:
    noted = Answers()
    task = await paused(noted)
    for _ in range(10):
        noted.failed(BROKEN)
        clock.now += OUTAGE_SECONDS / 2
        noted.heard()
    assert not await ended(task)


@pytest.mark.parametrize("error", [NotLeading("not sent"), TooManyRequests(429, "TooManyRequests", "later")])
async def test_writes_that_were_not_sent_and_an_overloaded_server_are_no_outage(clock: Clock, error: ApiError) -> None:
    noted = Answers()
    task = await paused(noted)
    noted.failed(error)
    clock.now += 2 * OUTAGE_SECONDS
    noted.heard()
    assert not await ended(task)


async def test_a_pause_ends_by_itself() -> None:
    await asyncio.wait_for(Answers().pause(0.01), 5)


async def test_an_informer_in_a_long_pause_follows_again_with_the_first_answer_to_another_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "OUTAGE_SECONDS", 0.05)
    async with FakeApi(PODS) as api, running(api, backoff_seconds=(3600.0, 3600.0)) as (informer, _, _):
        await watching(api)
        assert informer.connected.is_set()
        api.error_event(PODS, 500, "InternalError")
        await until(lambda: not informer.connected.is_set(), "the watch lost")
        api.put(PODS, pod("meanwhile"))
        informer._client.answers.failed(AWAY)
        await asyncio.sleep(0.1)
        await informer._client.get(PODS)
        await until(lambda: names(informer) == {"meanwhile"}, "followed again")
        assert informer.connected.is_set()
