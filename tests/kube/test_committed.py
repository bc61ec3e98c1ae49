"""The committed capacity survives a restart, and nothing unreadable stops one."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest

from fairburst.kube.usage.committed import KEY, CommittedCapacity
from tests.support.fake_api import FakeApi

MAPS = "/api/v1/configmaps"
WHERE = ("fairburst-system", "fairburst-memory-default")
BOTH = ("cpu", "memory")


async def saved(api: FakeApi) -> Any:
    async with api.client() as client:
        return await CommittedCapacity(client, "fairburst-system", "default").load()


async def test_what_was_saved_is_loaded_with_its_age() -> None:
    async with FakeApi(MAPS) as api, api.client() as client:
        await CommittedCapacity(client, "fairburst-system", "default").save(BOTH, np.array([640.0, 2.0**40]))
        resources, amounts, as_of = await saved(api)
    assert (resources, amounts.tolist()) == (BOTH, [640.0, 2.0**40])
    assert 0.0 <= time.monotonic() - as_of < 5.0


async def test_an_unchanged_mark_is_written_once() -> None:
    async with FakeApi(MAPS) as api, api.client() as client:
        committed = CommittedCapacity(client, "fairburst-system", "default")
        for amount in (640.0, 640.0, 320.0, 320.0):
            await committed.save(("cpu",), np.array([amount]))
        writes = [method for method, _, _ in api.requests if method != "GET"]
        assert writes == ["PATCH", "POST", "PATCH"], "absent, so created; then changed once"
        assert json.loads(api.objects[MAPS][WHERE]["data"][KEY])["committed"] == {"cpu": 320.0}


async def test_a_first_start_finds_nothing() -> None:
    async with FakeApi(MAPS) as api:
        assert await saved(api) is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"version": 2, "asOf": 0, "committed": {}}',
        '{"version": 1, "asOf": 0, "committed": []}',
        '{"version": 1, "asOf": 0, "committed": {"cpu": "x"}}',
        '{"version": 1, "asOf": 0, "committed": {"cpu": NaN}}',
        '{"version": 1, "asOf": 0, "committed": {"cpu": -4}}',
        '{"version": 1, "asOf": null, "committed": {"cpu": 1}}',
        '{"version": 1, "asOf": Infinity, "committed": {"cpu": 1}}',
        pytest.param('{"version": 1, "asOf": 1%s, "committed": {"cpu": 1}}' % ("0" * 400), id="a number that no float holds"),
        pytest.param("[" * 100_000, id="nested too deeply to be read"),
    ],
)
async def test_what_cannot_be_read_starts_anew_with_a_warning(content: str, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeApi(MAPS) as api:
        api.put(MAPS, {"metadata": {"namespace": WHERE[0], "name": WHERE[1]}, "data": {KEY: content}})
        assert await saved(api) is None
    assert "committed capacity not readable" in caplog.text


async def test_a_server_that_fails_for_a_moment_is_asked_again() -> None:
    async with FakeApi(MAPS) as api, api.client() as client:
        await CommittedCapacity(client, "fairburst-system", "default").save(("cpu",), np.array([640.0]))
        api.fail(1, 429)
        assert await saved(api) is not None


async def test_a_failed_save_is_tried_again_later_and_not_at_once() -> None:
    async with FakeApi(MAPS) as api, api.client() as client:
        committed = CommittedCapacity(client, "fairburst-system", "default")
        api.fail(1, 403)
        for _ in range(3):
            await committed.save(("cpu",), np.array([640.0]))
        assert [method for method, _, _ in api.requests] == ["PATCH"]
