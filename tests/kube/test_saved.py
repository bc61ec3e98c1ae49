"""Text in a ConfigMap is written again where another client has deleted or changed it, as long as a process knows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairburst.kube.api.saved import SavedText, stored_texts
from tests.support.fake_api import FakeApi

MAPS = "/api/v1/configmaps"
WHERE = NAMESPACE, NAME = "fairburst-system", "fairburst-memory-default"


def deleted(maps: dict[Any, Any]) -> None:
    del maps[WHERE]


def emptied(maps: dict[Any, Any]) -> None:
    maps[WHERE] = {**maps[WHERE], "data": {}}


def overwritten(maps: dict[Any, Any]) -> None:
    maps[WHERE] = {**maps[WHERE], "data": {"key": "garbage"}}


@pytest.mark.parametrize("damage", [deleted, emptied, overwritten])
@pytest.mark.parametrize("known", ["read", "written"])
async def test_damaged_text_is_restored(known: str, damage: Callable[[dict[Any, Any]], None]) -> None:
    async with FakeApi(MAPS) as api, api.client() as client:
        text = SavedText(client, NAMESPACE, NAME, "key")
        await text.write("value")
        if known == "read":
            text = SavedText(client, NAMESPACE, NAME, "key")
            await text.read()
        damage(api.objects[MAPS])
        await text.restore(await stored_texts(client, NAMESPACE, NAME))
        assert await stored_texts(client, NAMESPACE, NAME) == {"key": "value"}


async def test_whole_text_is_not_written_again() -> None:
    async with FakeApi(MAPS) as api, api.client() as client:
        text = SavedText(client, NAMESPACE, NAME, "key")
        await text.write("value")
        before = len(api.requests)
        await text.restore(await stored_texts(client, NAMESPACE, NAME))
        assert [method for method, _, _ in api.requests[before:]] == ["GET"]


async def test_text_of_an_earlier_term_is_not_restored_where_nothing_is_saved_now() -> None:
    async with FakeApi(MAPS) as api, api.client() as client:
        text = SavedText(client, NAMESPACE, NAME, "key")
        await text.write("value")
        emptied(api.objects[MAPS])
        assert await text.read() is None
        await text.restore({})
        assert await stored_texts(client, NAMESPACE, NAME) == {}
