"""The reserve ratio and learned durations survive a restart, as the committed capacity does; unreadable data stops none."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairburst.kube.api.saved import SAVE_SECONDS
from fairburst.kube.jobs import reserve_memory
from fairburst.kube.jobs.reserve_memory import KEY, ReserveMemory
from fairburst.kube.usage.committed import CommittedCapacity
from fairburst.policy.dress.learned import FamilyDurations
from fairburst.policy.dress.memory import DressMemory
from tests.support.fake_api import FakeApi

MAPS = "/api/v1/configmaps"
WHERE = ("fairburst-system", "fairburst-memory-default")
LEARNED = DressMemory(0.25, 100.0, 98.0, FamilyDurations.of({"batch/nightly": [10.0, 12.0]}, {"batch/nightly": 97.0}))


def store(client: Any) -> ReserveMemory:
    return ReserveMemory(client, "fairburst-system", "default")


def writes(api: FakeApi) -> list[str]:
    return [method for method, _, _ in api.requests if method != "GET"]


async def test_what_was_saved_is_loaded_and_the_committed_capacity_beside_it_stays() -> None:
    async with FakeApi(MAPS) as api, api.client() as client:
        await store(client).save(LEARNED)
        await CommittedCapacity(client, "fairburst-system", "default").save(("cpu",), np.array([640.0]))
        await store(client).save(replace(LEARNED, reserve_ratio=0.5))
        assert await store(client).load() == replace(LEARNED, reserve_ratio=0.5)
        assert await CommittedCapacity(client, "fairburst-system", "default").load() is not None


async def test_only_news_is_written_and_not_more_often_than_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(reserve_memory.time, "monotonic", lambda: now)
    async with FakeApi(MAPS) as api, api.client() as client:
        saved = store(client)
        await saved.save(LEARNED)
        assert writes(api) == ["PATCH", "POST"], "absent, so created"
        await saved.save(replace(LEARNED, reserve_ratio=0.5))
        assert len(writes(api)) == 2, "too soon"
        now += SAVE_SECONDS
        await saved.save(replace(LEARNED, adjusted_at=500.0, learned_until=498.0))
        assert len(writes(api)) == 2, "times alone are no news"
        await saved.save(replace(LEARNED, reserve_ratio=0.5))
        assert len(writes(api)) == 3


async def test_without_a_reserve_nothing_is_written() -> None:
    async with FakeApi(MAPS) as api, api.client() as client:
        await store(client).save(None)
        assert api.requests == []


async def test_a_first_start_finds_nothing() -> None:
    async with FakeApi(MAPS) as api, api.client() as client:
        assert await store(client).load() is None
        await CommittedCapacity(client, "fairburst-system", "default").save(("cpu",), np.array([640.0]))
        assert await store(client).load() is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"version": 99}', '{"version": 1, "reserve_ratio": 2}', '{"version": 1}'])
async def test_what_cannot_be_read_starts_anew_with_a_warning(content: str, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeApi(MAPS) as api, api.client() as client:
        api.put(MAPS, {"metadata": {"namespace": WHERE[0], "name": WHERE[1]}, "data": {KEY: content}})
        assert await store(client).load() is None
    assert "memory of small jobs not readable" in caplog.text


async def test_a_server_that_fails_for_a_moment_is_asked_again() -> None:
    async with FakeApi(MAPS) as api, api.client() as client:
        await store(client).save(LEARNED)
        api.fail(1, 503)
        assert await store(client).load() == LEARNED


async def test_a_failed_save_is_tried_again_later_and_not_at_once() -> None:
    async with FakeApi(MAPS) as api, api.client() as client:
        saved = store(client)
        api.fail(1, 403)
        for _ in range(3):
            await saved.save(LEARNED)
        assert writes(api) == ["PATCH"]
