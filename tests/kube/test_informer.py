"""The informer against a real HTTP server that fails in every way the API server is known to."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairburst.kube.api.informer import Backoff, Informer, silence
from fairburst.kube.api.objects import Pod
from tests.support.fake_api import FakeApi
from tests.support.informers import PODS, names, pod, running, watching
from tests.support.tasks import until


async def test_lists_in_pages_and_follows_the_watch() -> None:
    async with FakeApi(PODS) as api:
        for number in range(7):
            api.put(PODS, pod(f"p{number}"))
        async with running(api, page_size=3) as (informer, mirror, _):
            assert names(informer) == {f"p{number}" for number in range(7)}
            await watching(api)
            api.put(PODS, pod("p0", phase="Running"))
            api.put(PODS, pod("new"))
            api.remove(PODS, "a", "p6")
            await until(lambda: "new" in names(informer) and "p6" not in names(informer), "events applied")
            assert informer.store["a", "p0"].status.phase == "Running"
            assert mirror.events[-3:] == [("MODIFIED", "p0"), ("ADDED", "new"), ("DELETED", "p6")]
            assert informer.lists == 1


async def test_a_burst_of_events_wakes_the_engine_far_less_often_than_once_an_event() -> None:
    async with FakeApi(PODS) as api, running(api) as (informer, _, sizes):
        await watching(api)
        for number in range(500):
            api.put(PODS, pod(f"p{number}"))
        await until(lambda: len(informer.store) == 500, "all pods seen")
        assert len(sizes) < 50
        assert sizes[-1] == 500


async def test_resumes_from_the_last_version_without_listing_again() -> None:
    async with FakeApi(PODS) as api, running(api) as (informer, _, _):
        await watching(api)
        api.put(PODS, pod("before"))
        await until(lambda: "before" in names(informer), "event seen")
        api.drop_watches()
        api.put(PODS, pod("meanwhile"))
        await until(lambda: "meanwhile" in names(informer), "event in the gap seen")
        assert informer.lists == 1


async def test_a_deletion_lost_in_a_gap_is_reported_after_the_relist() -> None:
    async with FakeApi(PODS) as api:
        api.put(PODS, pod("stays"))
        api.put(PODS, pod("goes"))
        async with running(api) as (informer, mirror, _):
            await watching(api)
            api.drop_watches()
            api.remove(PODS, "a", "goes", silently=True)
            api.compact()
            await until(lambda: names(informer) == {"stays"}, "deletion noticed")
            assert mirror.events[-1] == ("DELETED", "goes")
            # Unchanged objects are not reported again.
            assert mirror.events.count(("MODIFIED", "stays")) == 0


@pytest.mark.parametrize(("code", "reason"), [(410, "Expired"), (500, "InternalError")])
async def test_any_error_event_leads_to_a_relist(code: int, reason: str) -> None:
    async with FakeApi(PODS) as api:
        api.put(PODS, pod("goes"))
        async with running(api) as (informer, _, _):
            await watching(api)
            api.remove(PODS, "a", "goes", silently=True)
            api.error_event(PODS, code, reason)
            await until(lambda: not informer.store, "relisted")
            assert informer.lists == 2


@pytest.mark.parametrize(("code", "want_lists"), [(410, 2), (504, 2), (503, 1), (429, 1)])
async def test_a_refused_watch_relists_unless_the_version_is_beyond_doubt(code: int, want_lists: int) -> None:
    async with FakeApi(PODS) as api, running(api) as (informer, _, _):
        await watching(api)
        api.fail(1, code)
        api.drop_watches()
        await watching(api)
        assert informer.lists == want_lists


async def test_survives_a_restart_of_the_server_and_5xx_after_it() -> None:
    async with FakeApi(PODS) as api, running(api) as (informer, _, _):
        await watching(api)
        await api.stop()
        await asyncio.sleep(0.1)
        api.put(PODS, pod("meanwhile"))
        api.fail(3, 503)
        api.fail(2, 500)
        await api.start()
        await until(lambda: "meanwhile" in names(informer), "caught up")


async def test_a_first_list_that_fails_is_retried() -> None:
    async with FakeApi(PODS) as api:
        api.put(PODS, pod("there"))
        api.fail(4, 500)
        async with running(api) as (informer, _, _):
            assert names(informer) == {"there"}


async def test_a_continue_token_that_expires_starts_the_list_again() -> None:
    async with FakeApi(PODS) as api:
        for number in range(5):
            api.put(PODS, pod(f"p{number}"))
        original = api._list
        expired: list[str] = []

        async def expire_once(collection: str, namespace: str, query: dict[str, str]) -> Any:
            if "continue" in query and not expired:
                expired.append(query["continue"])
                api.compact()
            return await original(collection, namespace, query)

        api._list = expire_once  # type: ignore[method-assign]
        async with running(api, page_size=2) as (informer, _, _):
            assert expired
            assert len(informer.store) == 5


async def test_a_half_open_connection_is_given_up_and_replaced(caplog: pytest.LogCaptureFixture) -> None:
    """It may as well be that nothing has happened: a watch without a newer version gets no bookmark, which is nothing to warn of."""
    caplog.set_level(logging.INFO)
    async with FakeApi(PODS) as api, running(api, inactivity_seconds=0.2) as (informer, _, _):
        await watching(api)
        api.freeze_watches()
        api.put(PODS, pod("unseen"))
        await until(lambda: "unseen" in names(informer), "new watch")
        assert informer.lists == 1
    assert {record.levelname for record in caplog.records if record.message == "informer retries"} == {"INFO"}


async def test_bookmarks_move_the_version_and_count_as_contact_but_wake_nobody() -> None:
    async with FakeApi(PODS, "/api/v1/nodes") as api, running(api) as (informer, _, sizes):
        await watching(api)
        api.put("/api/v1/nodes", {"metadata": {"name": "elsewhere"}})
        contact, resyncs = informer.last_contact, len(sizes)
        api.bookmark(PODS)
        await until(lambda: informer.last_contact > contact, "bookmark seen")
        assert len(sizes) == resyncs
        assert informer.undecodable == 0
        api.compact()
        api.drop_watches()
        await watching(api)
        assert informer.lists == 1, "a bookmark at the compacted version makes the resume legal"
        assert api.requests[-1][2]["resourceVersion"] == str(api.version)


async def test_a_watch_that_always_fails_is_retried_ever_more_slowly() -> None:
    async with FakeApi(PODS) as api, running(api, backoff_seconds=(0.02, 0.32)) as (_, _, _):
        api.fail(1000, 503)
        api.drop_watches()
        await asyncio.sleep(1.0)
        assert 3 <= len(api.requests) - 2 <= 12
        api._failures.clear()


def test_back_off_doubles_to_its_ceiling_with_jitter_and_starts_over() -> None:
    backoff = Backoff(0.5, 30.0)
    for ceiling in (0.5, 1, 2, 4, 8, 16, 30, 30):
        assert ceiling / 2 <= backoff.delay() <= ceiling
    backoff.reset()
    assert backoff.delay() <= 0.5


steps = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 5)),
    st.tuples(st.just("remove"), st.integers(0, 5)),
    st.tuples(st.just("lose"), st.integers(0, 5)),
    st.tuples(st.sampled_from(["drop", "compact", "error", "bookmark", "fail", "restart", "breathe"]), st.integers(1, 3)),
)


class TestConvergence:
    """After any events, disconnects, 410s, errors and lost deletions the store settles at the server's truth."""

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(steps, max_size=25), st.integers(1, 4))
    def test_store_equals_the_servers_truth(self, script: list[tuple[str, int]], page_size: int) -> None:
        asyncio.run(asyncio.wait_for(self.play(script, page_size), 30))

    async def play(self, script: list[tuple[str, int]], page_size: int) -> None:
        async with FakeApi(PODS) as api, running(api, page_size=page_size) as (informer, _, _):
            for step, number in script:
                await self.act(api, step, number)
            api._failures.clear()

            def settled() -> bool:
                truth = {key: obj["metadata"]["resourceVersion"] for key, obj in api.objects[PODS].items()}
                return {key: item.metadata.resource_version for key, item in informer.store.items()} == truth

            await until(settled, f"store equals truth after {script}")

    async def act(self, api: FakeApi, step: str, number: int) -> None:
        name = f"p{number}"
        present = ("a", name) in api.objects[PODS]
        match step:
            case "put":
                api.put(PODS, pod(name))
            case "remove" if present:
                api.remove(PODS, "a", name)
            case "lose" if present:
                api.drop_watches()
                api.remove(PODS, "a", name, silently=True)
                api.compact()
            case "drop":
                api.drop_watches()
            case "compact":
                api.compact()
            case "error":
                api.error_event(PODS)
            case "bookmark":
                api.bookmark(PODS)
            case "fail":
                api.fail(number, 500 + number - 1)
            case "restart":
                await api.stop()
                await api.start()
            case _:
                await asyncio.sleep(0.005 * number)


async def test_a_kind_that_is_not_served_is_known_to_be_empty_and_found_once_somebody_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairburst.kube.api.informer.KIND_SECONDS", 0.05)
    async with FakeApi() as api, running(api, optional=True) as (informer, _, sizes):
        assert (names(informer), sizes[0]) == (set(), 0)
        api.add(PODS)
        api.put(PODS, pod("one"))
        await until(lambda: names(informer) == {"one"}, "the kind to be found", 60.0)


async def test_a_watch_that_is_taken_up_again_is_contact_although_nothing_happens() -> None:
    """Quiet collections send nothing for up to a minute after an outage, and the process would look stuck."""
    async with FakeApi(PODS) as api:
        api.put(PODS, pod("a"))
        async with running(api) as (informer, _, _):
            await watching(api)
            informer.last_contact -= 3600.0
            contact = informer.last_contact
            api.drop_watches()
            await until(lambda: informer.last_contact > contact, "contact")
            assert informer.lists == 1


def test_informers_that_fell_silent_together_are_no_reason_to_restart() -> None:
    """Quiet collections get a bookmark a minute, so in an outage of three minutes they are silent for too long before the others are."""
    informers = [Informer(None, f"/{number}", Pod, lambda: None) for number in range(3)]  # type: ignore[arg-type]
    now = time.monotonic()
    for informer, ago in zip(informers, (600.0, 640.0, 665.0), strict=True):
        informer.last_contact = now - ago
    assert silence(informers) is None
    informers[0].last_contact = now
    assert "/1" in (silence(informers) or "")
