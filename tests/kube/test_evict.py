"""Sending evictions: one request a pod through the Eviction API, an Event afterwards, refusals reported back. And the memory."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.saved import SAVE_SECONDS
from fairburst.kube.enforce import reclaim_memory
from fairburst.kube.enforce.reclaim import PodEviction, Reclaimer
from fairburst.kube.enforce.reclaim_memory import KEY, SavedReclaim
from fairburst.kube.evict import Evictor
from fairburst.policy.reclaim.memory import dump_reclaim
from fairburst.policy.reclaim.values import Ground, ReclaimMemory, ReclaimRules
from tests.support.fake_api import FakeApi, status
from tests.support.measured import Measured, value
from tests.support.tasks import running, until

EVENTS, MAPS = "/api/v1/events", "/api/v1/configmaps"
MADE_ROOM = {f"w{number}": 5.0 for number in range(4)}


class EvictionApi(FakeApi):
    """Also takes evictions, by pod name; `refusing` has the answers for pods that are not evicted."""

    def __init__(self) -> None:
        super().__init__(EVENTS, MAPS)
        self.evicted: list[tuple[str, Any]] = []
        self.refusing: dict[str, tuple[int, str]] = {}

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/eviction"):
            return await super()._handle(request)
        name = request.path.split("/")[-2]
        self.requests.append((request.method, request.path, dict(request.query)))
        if name in self.refusing:
            code, reason = self.refusing[name]
            return web.json_response(status(code, reason), status=code, headers={"Retry-After": "25"} if code == 429 else None)
        self.evicted.append((name, await request.json()))
        return web.json_response(status(201, "Created"), status=201)


class EvictedPods(Measured):
    """An evictor at work on a fake server."""

    def __init__(self, api: EvictionApi, client: ApiClient) -> None:
        super().__init__()
        self.api = api
        self.reclaimer = Reclaimer(ReclaimRules(), ReclaimMemory(made_room=MADE_ROOM))
        self.evictor = Evictor(client, "default", self.reclaimer, self.metrics, on_failure=self.fail)

    def count(self, result: str) -> float:
        return value(self.metrics, "fairburst_evictions_total", ground="Burst", result=result)

    def events(self) -> list[dict[str, Any]]:
        return list(self.api.objects[EVENTS].values())


@pytest.fixture
async def site() -> AsyncIterator[EvictedPods]:
    async with EvictionApi() as api, api.client() as client:
        made = EvictedPods(api, client)
        async with running(made.evictor.run()):
            yield made


def eviction(number: int, owner: str = "job") -> PodEviction:
    return PodEviction(("batch", f"p{number}"), f"uid-{number}", owner, f"w{number}", Ground.BURST, f"Evicted for {number}.")


async def test_each_goes_by_one_request_that_means_this_pod_and_its_grace_period_holds(site: EvictedPods) -> None:
    site.evictor.send([eviction(0), eviction(1)])
    await until(lambda: site.count("ok") == 2, "both")
    name, body = site.api.evicted[0]
    assert (body["apiVersion"], body["kind"], body["metadata"]) == ("policy/v1", "Eviction", {"name": name, "namespace": "batch"})
    assert body["deleteOptions"] == {"preconditions": {"uid": f"uid-{name[1:]}"}}


async def test_a_pod_of_a_long_grace_period_is_asked_to_end_sooner(site: EvictedPods) -> None:
    site.evictor.send([replace(eviction(0), grace_seconds=30)])
    await until(lambda: site.count("ok") == 1, "it")
    [(_, body)] = site.api.evicted
    assert body["deleteOptions"] == {"preconditions": {"uid": "uid-0"}, "gracePeriodSeconds": 30}


async def test_an_event_on_the_pod_says_for_what_once_all_evictions_are_sent(site: EvictedPods) -> None:
    site.evictor.send([eviction(number) for number in range(40)])
    await until(lambda: len(site.events()) == 40, "the Events")
    told = {one["involvedObject"]["name"]: one for one in site.events()}
    assert (told["p3"]["reason"], told["p3"]["message"], told["p3"]["type"]) == ("Reclaimed", "Evicted for 3.", "Normal")
    assert told["p3"]["involvedObject"] | {"uid": "uid-3", "kind": "Pod", "namespace": "batch"} == told["p3"]["involvedObject"]
    kinds = ["eviction" if path.endswith("eviction") else "event" for _, path, _ in site.api.requests]
    assert kinds.index("event") >= 40 - 16, "only those at work with their last eviction may have told meanwhile"


async def test_one_event_on_the_job_stays_when_its_pods_are_gone(site: EvictedPods) -> None:
    """All evictions are sent before the first Event, so that forty pods of a Job cost one more."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job"}
    site.evictor.send([replace(eviction(number), controller=job) for number in range(40)])
    await until(lambda: len(site.events()) >= 41, "the Events")
    told = [one for one in site.events() if one["involvedObject"]["kind"] == "Job"]
    assert 1 <= len(told) <= 3, "evictions that end after the first Event are told in another one"
    assert {one["reason"] for one in told} == {"Reclaimed"}
    assert told[0]["involvedObject"] == job | {"namespace": "batch"}
    counts = [re.fullmatch(r"Pod p\d+( and (\d+) more)?: Evicted for \d+\.", one["message"]) for one in told]
    assert sum(1 + int(found[2] or 0) for found in counts if found) == 40


@pytest.mark.parametrize(
    ("answer", "result"),
    [((429, "TooManyRequests"), "refused"), ((500, "InternalError"), "error")],
)
async def test_who_is_refused_stays_and_others_may_be_asked_for_the_same_pod(
    site: EvictedPods, answer: tuple[int, str], result: str
) -> None:
    site.api.refusing["p1"] = answer
    site.evictor.send([eviction(0), eviction(1)])
    await until(lambda: site.count(result) == 1 and site.count("ok") == 1, "both answers")
    assert site.failures == 1
    assert set(site.reclaimer.memory.made_room) == {"w0", "w2", "w3"}


async def test_who_has_gone_already_is_no_failure_and_his_place_is_used(site: EvictedPods) -> None:
    site.api.refusing["p1"] = (404, "NotFound")
    site.evictor.send([eviction(1)])
    await until(lambda: site.count("gone") == 1, "the answer")
    assert site.failures == 0
    assert set(site.reclaimer.memory.made_room) == set(MADE_ROOM)


async def test_who_has_changed_meanwhile_may_be_chosen_again_at_once(site: EvictedPods) -> None:
    site.api.refusing["p1"] = (409, "Conflict")
    site.evictor.send([eviction(1)])
    await until(lambda: site.count("overtaken") == 1, "the answer")
    assert site.failures == 1
    assert set(site.reclaimer.memory.made_room) == {"w0", "w2", "w3"}


class ExpiredFence:
    server_seconds = 1.0

    def seconds_left(self) -> float:
        return 0.0


async def test_who_does_not_lead_evicts_nobody(site: EvictedPods) -> None:
    site.evictor._client.fence = ExpiredFence()
    site.evictor.send([eviction(0)])
    await until(lambda: site.count("overtaken") == 1, "the end")
    assert site.api.evicted == []


# Memory -----------------------------------------------------------------------------------------------------------------

MEMORY = ReclaimMemory({"a/queue": 1.0}, MADE_ROOM, 3.0, 4.0)


async def test_what_was_done_is_read_back_after_a_restart() -> None:
    async with FakeApi(MAPS) as api, api.client() as client:
        assert await SavedReclaim(client, "fairburst-system", "default").load() == ReclaimMemory()
        assert await SavedReclaim(client, "fairburst-system", "default").save(lambda: MEMORY, ahead=True)
        assert await SavedReclaim(client, "fairburst-system", "default").load() == MEMORY


async def test_evictions_wait_for_no_interval_and_nothing_is_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(reclaim_memory.time, "monotonic", lambda: now)
    async with FakeApi(MAPS) as api, api.client() as client:
        saved = SavedReclaim(client, "fairburst-system", "default")
        assert await saved.save(ReclaimMemory, ahead=True)
        assert api.requests == [], "nothing to remember"
        assert await saved.save(lambda: MEMORY)
        assert await saved.save(lambda: ReclaimMemory(MEMORY.short_since, MEMORY.made_room, 9.0, 9.0), ahead=True)
        count = len(api.requests)
        other = ReclaimMemory({}, {"w9": 9.0})
        assert not await saved.save(lambda: other), "too soon"
        assert len(api.requests) == count
        assert await saved.save(lambda: other, ahead=True)
        now += SAVE_SECONDS
        assert await saved.save(lambda: MEMORY)
        assert len(api.requests) == count + 2


async def test_what_is_not_saved_is_said_so_and_what_is_damaged_starts_anew(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeApi(MAPS) as api, api.client() as client:
        api.fail(1, 403)
        saved = SavedReclaim(client, "fairburst-system", "default")
        assert not await saved.save(lambda: MEMORY, ahead=True)
        assert await saved.save(lambda: MEMORY, ahead=True)
        api.put(MAPS, {"metadata": {"namespace": "fairburst-system", "name": "fairburst-memory-default"}, "data": {KEY: "{"}})
        assert await SavedReclaim(client, "fairburst-system", "default").load() == ReclaimMemory()
    assert "memory of reclaim not readable" in caplog.text


@pytest.mark.parametrize("refused", [1, 0], ids=["not read", "damaged"])
async def test_what_is_unknown_or_damaged_is_replaced_although_nothing_has_happened(refused: int) -> None:
    """A take-over during an outage read nothing; the next leader would find an old memory, or a damaged one."""
    stored = {"metadata": {"namespace": "fairburst-system", "name": "fairburst-memory-default"}, "data": {KEY: "[]"}}
    async with FakeApi(MAPS) as api, api.client() as client:
        api.put(MAPS, stored)
        api.fail(refused, 403)
        saved = SavedReclaim(client, "fairburst-system", "default")
        assert await saved.load() == ReclaimMemory()
        assert await saved.save(ReclaimMemory)
        assert api.objects[MAPS]["fairburst-system", "fairburst-memory-default"]["data"] == {KEY: dump_reclaim(ReclaimMemory())}
