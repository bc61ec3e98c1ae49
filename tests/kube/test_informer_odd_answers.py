"""The informer against a server whose answers cannot be right: odd objects and lines, and versions from the past or the future."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest

from fairburst.kube.api.informer import Informer
from fairburst.kube.api.objects import Pod
from tests.support.fake_api import FakeApi
from tests.support.informers import FAST, PODS, names, pod, running, watching
from tests.support.tasks import until


async def test_an_object_that_breaks_our_schema_is_skipped_and_counted_not_fatal() -> None:
    broken = {"metadata": {"name": "broken", "namespace": "a"}, "spec": {"containers": "none"}}
    async with FakeApi(PODS) as api:
        api.put(PODS, broken)
        api.put(PODS, pod("good"))
        async with running(api) as (informer, _, _):
            assert names(informer) == {"good"}
            await watching(api)
            api.put(PODS, broken)
            api.put(PODS, pod("better"))
            await until(lambda: "better" in names(informer), "later events still seen")
            assert informer.undecodable == 2


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"unexpected": true}', id="an object that is no event"),
        pytest.param(b"[1, 2]", id="a list"),
        pytest.param(b'"text"', id="a text"),
        pytest.param(b"null", id="nothing"),
        pytest.param(b'{"type": 7, "object": {}}', id="a type that is a number"),
        pytest.param(b'{"type": "ERROR", "object": {"code": "many", "reason": 4}}', id="an ERROR with odd fields"),
        pytest.param(b'{"type": "ERROR", "object": "gone"}', id="an ERROR without a Status"),
        pytest.param(b'{"type": "ERROR"}', id="an ERROR without an object"),
        pytest.param(b'{"type": "BOOKMARK", "object": {"metadata": 3}}', id="a bookmark without metadata"),
        pytest.param(b"\xff\xfe{}", id="bytes that are no text"),
    ],
)
async def test_a_line_that_is_no_event_leads_to_a_relist_and_ends_nothing(line: bytes) -> None:
    async with FakeApi(PODS) as api:
        api.put(PODS, pod("one"))
        async with running(api) as (informer, mirror, _):
            await until(lambda: api.open_watches, "the watch")
            before = informer.lists
            api.raw_line(PODS, line)
            await until(lambda: informer.lists > before, "another list")
            api.put(PODS, pod("two"))
            await until(lambda: ("a", "two") in mirror.objects, "the next event")


async def test_an_object_whose_hook_raises_is_left_out_and_the_others_are_watched_on() -> None:
    seen: list[str] = []

    def hook(kind: str, old: Pod | None, new: Pod | None) -> None:
        found = new or old
        assert found is not None
        if found.metadata.name == "poison":
            raise ValueError("what a pod")
        seen.append(f"{kind} {found.metadata.name}")

    async with FakeApi(PODS) as api, api.client() as client:
        api.put(PODS, pod("poison"))
        api.put(PODS, pod("one"))
        informer: Informer[Pod] = Informer(client, PODS, Pod, lambda: None, on_event=hook, backoff_seconds=FAST)
        task = asyncio.create_task(informer.run())
        await asyncio.wait_for(informer.synced.wait(), 5)
        api.put(PODS, pod("poison", phase="Running"))
        api.put(PODS, pod("two"))
        await until(lambda: "ADDED two" in seen, "the event after the poison")
        assert seen == ["ADDED one", "ADDED two"]
        assert sorted(name for _, name in informer.store) == ["one", "two"]
        assert informer.undecodable == 2
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_restored_etcd_is_noticed_although_a_watch_from_the_future_would_stay_silent() -> None:
    async with FakeApi(PODS) as api:
        api.put(PODS, pod("kept"))
        snapshot, rewinds = api.snapshot(), list[int]()
        for number in range(20):
            api.put(PODS, pod(f"later-{number}"))
        async with running(api, on_rewind=lambda: rewinds.append(1)) as (informer, _, _):
            await watching(api)
            api.restore(snapshot)
            await until(lambda: names(informer) == {"kept"}, "the snapshot")
            api.put(PODS, pod("new"))
            await until(lambda: names(informer) == {"kept", "new"}, "what came after it")
        assert rewinds == [1]


async def test_a_bookmark_of_the_past_tells_of_a_restored_etcd_on_an_open_watch() -> None:
    async with FakeApi(PODS) as api:
        api.put(PODS, pod("kept"))
        async with running(api) as (informer, _, _):
            await watching(api)
            api.version -= 50
            api.bookmark(PODS)
            await until(lambda: informer.lists == 2, "a new list")


@asynccontextmanager
async def answered() -> AsyncIterator[tuple[FakeApi, Informer[Pod], Pod]]:
    """A pod, an informer that watches it, and an answer with the pod as it is now."""
    async with FakeApi(PODS) as api, api.client() as client:
        api.put(PODS, pod("a"))
        answer = msgspec.convert(await client.get_json("/api/v1/namespaces/a/pods/a"), Pod)
        async with running(api) as (informer, _, _):
            await watching(api)
            yield api, informer, answer


async def test_the_answer_to_a_write_does_not_bring_back_what_was_deleted_meanwhile() -> None:
    async with answered() as (api, informer, answer):
        api.remove(PODS, "a", "a")
        await until(lambda: not informer.store, "the deletion")
        informer.observe(answer)
        assert not informer.store


async def test_the_answer_to_a_write_that_comes_after_a_newer_event_changes_nothing() -> None:
    """A pod was bound before the operator read the answer that its gate was gone, and seemed to wait for ever."""
    async with answered() as (api, informer, answer):
        api.put(PODS, pod("a", phase="Running"))
        await until(lambda: informer.store["a", "a"].status.phase == "Running", "the newer event")
        informer.observe(answer)
        assert informer.store["a", "a"].status.phase == "Running"
