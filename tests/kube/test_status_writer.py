"""Statuses and Events written concurrently with the rounds: one write an object at a time, the latest status wins, Events follow it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fairburst.kube import status_writer
from fairburst.kube.api.client import ApiClient
from fairburst.kube.jobs.elasticity import ElasticPlan, JobEvent
from fairburst.kube.queues.queue_watch import QueueWatch
from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.status_writer import CONCURRENT_WRITES, MOST_EVENTS, StatusWriter
from fairburst.kube.supervision import supervised
from tests.support.fake_api import FakeApi, status
from tests.support.measured import Measured
from tests.support.objects import World, job, latency_spec
from tests.support.tasks import running, until

EVENTS, LATENCY, THROUGHPUT = (
    "/api/v1/events",
    "/apis/fairburst.dev/v1alpha1/latencyqueues",
    "/apis/fairburst.dev/v1alpha1/throughputqueues",
)
PATHS = {"LatencyQueue": LATENCY, "ThroughputQueue": THROUGHPUT}


class PublishedStatuses(Measured):
    """A fake server that holds the queues of a world, and a StatusWriter at work."""

    def __init__(self, api: FakeApi, client: ApiClient, queues: int = 0) -> None:
        super().__init__()
        self.api, self.world = api, World("smallJobs: {enabled: false}")
        self.world.now = time.monotonic()  # as the status_writer notes when it writes
        self.queues = QueueWatch(client)
        self.world.queue("LatencyQueue", "burst", spec=latency_spec())
        for name in ("batch", *(f"batch-{number}" for number in range(queues))):
            self.world.queue("ThroughputQueue", name)
        for (kind, _, _), obj in self.world.queues.items():
            self.queues.observe(api.put(PATHS[kind], obj))
        self.status_writer = StatusWriter(client, "default", self.metrics, self.world.engine, self.queues, on_failure=self.fail)

    def plan(self) -> RoundPlan:
        """Run a round over the queues as they are stored now, two seconds after the last."""
        self.world.queues = {key: obj for key in self.world.queues if (obj := self.queues.stored(key)) is not None}
        self.world.after(2.0)
        return self.world.plan()

    async def told(self, plan: RoundPlan) -> bool:
        async with asyncio.timeout(60):
            answer = await self.status_writer.write(plan)
            await self.status_writer.flush()
        return answer

    def status(self, kind: str, namespace: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.objects[PATHS[kind]][namespace, "queue"].get("status", {})
        return found

    def events(self, namespace: str) -> list[str]:
        return [event["reason"] for (where, _), event in self.api.objects[EVENTS].items() if where == namespace]

    def patches(self, namespace: str) -> int:
        return sum(method == "PATCH" and f"/namespaces/{namespace}/" in path for method, path in self.api.written())


@pytest.fixture
async def site() -> AsyncIterator[PublishedStatuses]:
    async with FakeApi(EVENTS, LATENCY, THROUGHPUT) as api, api.client() as client:
        made = PublishedStatuses(api, client)
        async with running(made.status_writer.run()):
            yield made
            api.release()


async def test_statuses_are_on_the_server_and_in_the_cache_and_events_come_after_them(site: PublishedStatuses) -> None:
    assert await site.told(site.plan())
    assert site.status("LatencyQueue", "burst")["class"] == "Hard"
    assert site.queues.stored(("LatencyQueue", "burst", "queue")) == site.api.objects[LATENCY]["burst", "queue"]
    assert (site.events("burst"), site.events("batch")) == (["Admitted"], ["Admitted"])
    order = [method for method, path, _ in site.api.requests if "/namespaces/burst/" in path]
    assert order == ["PATCH", "POST"]
    assert (site.writes("status", "ok"), site.writes("event", "ok")) == (2.0, 2.0)


async def test_a_round_waits_for_a_status_that_admission_goes_by_and_for_no_other(site: PublishedStatuses) -> None:
    site.api.hold("/status")
    first = asyncio.create_task(site.status_writer.write(site.plan()))
    await until(lambda: site.api.held == 2, "both statuses to be on their way")
    assert not first.done(), "the priority is how the API server admits pods"
    site.api.release()
    assert await asyncio.wait_for(first, 60)
    await site.status_writer.flush()
    site.api.hold("/status")
    plan = changed(site)
    assert [write.is_awaited for write in plan.statuses] == [False]
    assert await asyncio.wait_for(site.status_writer.write(plan), 60)
    await until(lambda: site.api.held == 1, "it to be on its way")
    assert site.status("ThroughputQueue", "batch").get("demand", {}).get("cpu") != "4"


def changed(site: PublishedStatuses) -> RoundPlan:
    """Return the plan after a new Job that changes only figures, once these may be written again."""
    site.world.controller("Job", None, job("batch", f"work-{site.world.now:g}", 4))
    site.world.after(20.0)
    plan = site.plan()
    plan.statuses = [write for write in plan.statuses if write.entry.namespace == "batch"]
    return plan


async def test_while_a_write_is_under_way_only_the_latest_status_waits_and_it_is_compared_with_the_answer(site: PublishedStatuses) -> None:
    await site.told(site.plan())
    site.api.hold("/status")
    before = site.patches("batch")
    for _ in range(3):
        await site.status_writer.write(changed(site))
        await until(lambda: site.api.held == 1, "the first one to be on its way")
    assert site.patches("batch") == before + 1
    site.api.release()
    await site.status_writer.flush()
    assert site.patches("batch") == before + 2, "of three the first and the last"
    assert site.status("ThroughputQueue", "batch")["demand"]["cpu"] == "12"
    again = changed(site)
    await site.told(again)
    written = site.patches("batch")
    await site.told(again)
    assert site.patches("batch") == written, "what is there is not written again"


async def test_a_status_that_fails_is_counted_asks_for_a_round_and_is_planned_again(site: PublishedStatuses) -> None:
    plan = site.plan()
    site.api.fail(2, 403, status(403, "Forbidden"))
    assert not await site.told(plan)
    assert site.writes("status", "error") == 2.0
    assert site.failures == 2
    assert len(site.plan().statuses) == 2
    assert site.events("burst") == ["Admitted"], "an event is told all the same"


async def test_a_queue_that_is_gone_or_another_by_now_is_not_written_to(site: PublishedStatuses) -> None:
    plan = site.plan()
    plan.events = []
    site.queues._store.delete("LatencyQueue", site.api.objects[LATENCY]["burst", "queue"])
    other = site.api.objects[THROUGHPUT]["batch", "queue"]
    site.queues.observe(site.api.put(THROUGHPUT, {**other, "metadata": {**other["metadata"], "uid": "other"}}))
    await site.told(plan)
    assert (site.patches("burst"), site.patches("batch")) == (0, 0)


async def test_a_queue_of_the_same_name_does_not_get_the_promise_of_the_one_before(site: PublishedStatuses) -> None:
    """The watch has not told of it yet when the status is sent."""
    plan = site.plan()
    plan.events = []
    former = site.api.objects[THROUGHPUT]["batch", "queue"]
    site.api.objects[THROUGHPUT]["batch", "queue"] = {**former, "metadata": {**former["metadata"], "uid": "another"}}
    assert not await site.told(plan)
    assert (site.status("ThroughputQueue", "batch"), site.status("LatencyQueue", "burst")["class"]) == ({}, "Hard")
    assert site.writes("status", "overtaken") == 1.0


async def test_a_job_is_told_what_was_decided_about_it(site: PublishedStatuses) -> None:
    plan = site.plan()
    plan.statuses, plan.events = [], []
    plan.elastic = ElasticPlan([], [JobEvent("batch", "work", "uid-1", "ParallelismChanged", "parallelism 4 -> 2.", warning=False)])
    assert await site.told(plan)
    [told] = site.api.objects[EVENTS].values()
    assert (told["reason"], told["involvedObject"]["uid"], told["type"]) == ("ParallelismChanged", "uid-1", "Normal")


async def test_of_an_object_that_is_told_too_much_the_oldest_events_are_dropped(site: PublishedStatuses) -> None:
    plan = site.plan()
    plan.statuses, plan.events = [], []
    plan.elastic = ElasticPlan([], [JobEvent("batch", "work", "uid-1", f"R{n}", "", warning=False) for n in range(MOST_EVENTS + 5)])
    await site.told(plan)
    assert site.events("batch") == [f"R{n}" for n in range(5, MOST_EVENTS + 5)]


async def test_no_more_writes_are_under_way_at_a_time_than_there_are_workers() -> None:
    async with FakeApi(EVENTS, LATENCY, THROUGHPUT) as api, api.client() as client:
        site = PublishedStatuses(api, client, queues=2 * CONCURRENT_WRITES)
        task = asyncio.create_task(site.status_writer.run())
        api.hold("/status")
        writing = asyncio.create_task(site.status_writer.write(site.plan()))
        await until(lambda: api.held >= CONCURRENT_WRITES, "every worker to be at work")
        await asyncio.sleep(0.2)
        assert api.held == CONCURRENT_WRITES
        api.release()
        assert await asyncio.wait_for(writing, 60)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_an_error_in_one_status_leaves_no_round_waiting_and_no_object_without_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeApi(EVENTS, LATENCY, THROUGHPUT) as api, api.client() as client:
        made = PublishedStatuses(api, client)
        whole, failed = status_writer.merge_difference, list[str]()

        def once_wrong(stored: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
            if not failed:
                failed.append("burst")
                raise ValueError("not found yet")
            return whole(stored, wanted)

        monkeypatch.setattr(status_writer, "merge_difference", once_wrong)
        async with running(supervised("status_writer", made.status_writer.run, made.metrics, (0.01, 0.01))):
            assert not await asyncio.wait_for(made.status_writer.write(made.plan()), 10)
            made.world.after(60.0)
            assert await made.told(made.plan())
        assert made.status("LatencyQueue", "burst")["class"] == "Hard"
        assert made.status("ThroughputQueue", "batch")["class"] == "Elastic"
        assert (made.events("burst"), made.events("batch")) == (["Admitted"], ["Admitted"])
