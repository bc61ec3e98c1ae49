"""The operator as a whole against a server without admission, quota or controllers: it starts, decides, says how it is, and ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest

from fairburst.config import parse_config
from fairburst.kube.api.objects import Pod
from fairburst.kube.names import GATE
from fairburst.kube.process import Operator
from fairburst.telemetry.web import WebServer
from tests.support.fake_api import FakeApi
from tests.support.measured import value
from tests.support.objects import latency_spec, stored_queue
from tests.support.operators import LATENCY, NAMESPACES, PODS, QUOTAS, THROUGHPUT, Running, fake_cluster, kopf_watches, rounds, under_way
from tests.support.tasks import until

CONFIG = parse_config("metrics: {host: 127.0.0.1, port: 0}\nrounds: {intervalSeconds: 1}")


@asynccontextmanager
async def running(api: FakeApi) -> AsyncIterator[Running]:
    async with api.client() as client, under_way(Operator(CONFIG, client)) as made:
        yield made


async def begun(api: FakeApi, made: Running) -> None:
    await until(lambda: rounds(made.operator) and kopf_watches(api), "the first round, and Kopf's watch", 40.0)


async def test_it_answers_a_queue_with_a_quota_and_a_status_and_then_writes_nothing_more() -> None:
    async with fake_cluster() as api, running(api) as made:
        await begun(api, made)
        api.put(THROUGHPUT, stored_queue("ThroughputQueue", "batch", "queue"))
        await until(lambda: "status" in api.objects[THROUGHPUT]["batch", "queue"], "a status")
        await until(lambda: ("batch", "fairburst") in api.objects[QUOTAS], "a quota")
        assert api.objects[THROUGHPUT]["batch", "queue"]["status"]["class"] == "Elastic"
        quiet_since, writes = rounds(made.operator), 0

        def quiet() -> bool:
            nonlocal quiet_since, writes
            now = len([method for method, _, _ in api.requests if method != "GET"])
            if now != writes:
                quiet_since, writes = rounds(made.operator), now
            return rounds(made.operator) > quiet_since + 3

        await until(quiet, "four rounds without a write", 60.0)
        assert made.operator.unhealthy() is None
        await made.end()


async def test_it_ends_when_told_to_even_before_the_api_server_has_answered() -> None:
    api = fake_cluster()
    async with api:
        pass  # its port is known, and no process listens there
    async with running(api) as made:
        await asyncio.sleep(0.2)
        assert not made.task.done()
        await made.end(5.0)


async def test_it_ends_with_the_reason_when_it_may_not_list_queues() -> None:
    async with fake_cluster() as api:
        del api.objects[LATENCY], api.objects[THROUGHPUT]  # the CRDs are not installed
        async with running(api) as made:
            with pytest.raises(Exception, match="latencyqueues"):
                await asyncio.wait_for(asyncio.shield(made.task), 15.0)


async def test_it_is_ready_once_its_caches_are_complete_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    ports: list[int] = []
    start = WebServer.start

    async def listening(self: WebServer, host: str, port: int) -> int:
        ports.append(await start(self, host, port))
        return ports[-1]

    monkeypatch.setattr(WebServer, "start", listening)

    async def ready() -> int:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{ports[0]}/readyz") as answer:
            return answer.status

    api = fake_cluster()
    async with api:
        pass
    async with running(api) as made:
        await until(lambda: ports, "the port")
        assert await ready() == 503
        async with api:
            await begun(api, made)
            assert await ready() == 200
            await made.end()


def bare_pod(namespace: str, name: str) -> dict[str, Any]:
    container = {"name": "work", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {"metadata": {"namespace": namespace, "name": name}, "spec": {"containers": [container]}, "status": {}}


@pytest.mark.parametrize(
    ("comes_to", "soon"),
    [
        pytest.param("bursts", True, id="of a latency queue"),
        pytest.param("nightly", False, id="of a throughput queue"),
    ],
)
async def test_a_bare_pod_may_be_a_burst_and_waits_for_no_write_of_the_round_before(
    comes_to: str, monkeypatch: pytest.MonkeyPatch, *, soon: bool
) -> None:
    monkeypatch.setattr("fairburst.kube.apply.CALM_WAIT_SECONDS", 60.0)
    async with fake_cluster() as api, running(api) as made:
        await begun(api, made)
        for namespace in ("bursts", "nightly"):
            api.put(NAMESPACES, {"metadata": {"name": namespace}, "status": {"phase": "Active"}})
        api.put(THROUGHPUT, stored_queue("ThroughputQueue", "nightly", "queue"))
        api.put(LATENCY, stored_queue("LatencyQueue", "bursts", "queue", latency_spec()))
        queues = [(LATENCY, "bursts"), (THROUGHPUT, "nightly")]
        await until(lambda: all("status" in api.objects[path][namespace, "queue"] for path, namespace in queues), "the statuses", 30.0)
        api.hold("/batch/resourcequotas")
        api.put(THROUGHPUT, stored_queue("ThroughputQueue", "batch", "queue"))
        await until(lambda: bool(api.held), "a write that gets no answer", 30.0)
        before = rounds(made.operator)
        await asyncio.sleep(2.0)
        assert rounds(made.operator) == before, "it waits for the write"
        api.put(PODS, bare_pod(comes_to, "work"))
        if soon:
            await until(lambda: rounds(made.operator) > before, "the next round", 30.0)
            assert value(made.operator.metrics, "fairburst_writes_total", kind="quota", result="error") == 0, "the write was given up"
        else:
            await asyncio.sleep(2.0)
            assert rounds(made.operator) == before
        api.release()
        await made.end()


def gated_pod(name: str) -> dict[str, Any]:
    pod = bare_pod("batch", name)
    pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    pod["spec"]["schedulingGates"] = [{"name": "others.example/hold"}, {"name": GATE}]
    return pod


async def test_gated_pods_are_let_go_as_their_events_come_and_no_more_than_fit() -> None:
    def left() -> list[str]:
        return [name for (_, name), pod in api.objects[PODS].items() if len(pod["spec"]["schedulingGates"]) == 2]

    async with fake_cluster() as api, running(api) as made:
        await begun(api, made)
        api.put(THROUGHPUT, stored_queue("ThroughputQueue", "batch", "queue", {"enforcement": "Gate"}))
        await until(lambda: api.objects[THROUGHPUT]["batch", "queue"].get("status", {}).get("holds") == "Pods", "the status")
        for number in range(40):
            api.put(PODS, gated_pod(f"p{number:02}"))
        await until(lambda: len(left()) == 8, "32 of 40 to be released")
        before = rounds(made.operator)
        await until(lambda: rounds(made.operator) > before + 2, "more rounds")
        assert left() == [f"p{number}" for number in range(32, 40)]
        api.remove(PODS, "batch", "p00")
        await until(lambda: len(left()) == 7, "the next one")
        assert value(made.operator.metrics, "fairburst_queue_ungate_seconds_count") == 33
        await made.end()


async def test_what_a_patch_was_answered_with_brings_no_deleted_pod_back() -> None:
    """The answer may be read after the event of the deletion, which is not sent again."""
    async with fake_cluster() as api, running(api) as made:
        await begun(api, made)
        answer = msgspec.convert(api.put(PODS, gated_pod("gone")), Pod)
        await until(lambda: ("batch", "gone") in made.operator.caches.pods.store, "its event")
        api.remove(PODS, "batch", "gone")
        await until(lambda: ("batch", "gone") not in made.operator.caches.pods.store, "the event of its end")
        made.operator.caches.pod_answered(answer)
        assert ("batch", "gone") not in made.operator.caches.pods.store
        await made.end()


async def test_what_was_decided_is_told_before_it_ends() -> None:
    """A slow API server: the status, for which the round did not wait, is answered before the process is gone."""
    async with fake_cluster() as api, running(api) as made:
        await begun(api, made)
        api.hold("/status")
        api.put(THROUGHPUT, stored_queue("ThroughputQueue", "batch", "queue"))
        await until(lambda: api.held, "the status to be on its way", 60.0)
        ending = asyncio.create_task(made.end(60.0))
        await asyncio.sleep(0.2)
        assert not ending.done()
        api.release()
        await ending
        assert api.objects[THROUGHPUT]["batch", "queue"]["status"]["class"] == "Elastic"
        events = [event["reason"] for event in api.objects["/api/v1/events"].values()]
        assert events == ["Admitted"]


async def test_an_error_in_one_task_restarts_that_task_and_rounds_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = 0

    async def fails_once(self: Any) -> None:
        nonlocal failed
        failed += 1
        if failed == 1:
            raise RuntimeError("a bug")
        await asyncio.Event().wait()

    monkeypatch.setattr("fairburst.kube.evict.Evictor.run", fails_once)
    async with fake_cluster() as api, running(api) as made:
        await until(lambda: failed == 2, "the restart", 20.0)
        before = rounds(made.operator)
        api.put(THROUGHPUT, stored_queue("ThroughputQueue", "batch", "queue"))
        await until(lambda: ("batch", "fairburst") in api.objects[QUOTAS], "a quota")
        await until(lambda: rounds(made.operator) > before, "the end of the round that wrote it")
        assert value(made.operator.metrics, "fairburst_task_restarts_total", task="evictions") == 1
        await made.end()


async def test_it_stays_healthy_while_the_api_server_is_away_however_long() -> None:
    """An hour without any answer: a restart would only lose the caches. The same silence of one watch alone is a reason."""
    async with fake_cluster() as api, running(api) as made:
        await begun(api, made)
        informers = made.operator.caches.informers()
        for informer in informers:
            informer.last_contact -= 3600.0
        assert made.operator.unhealthy() is None
        informers[0].last_contact += 3600.0
        assert "nothing heard for 180 s from" in str(made.operator.unhealthy())
        await made.end()


async def test_it_is_healthy_while_writes_are_answered_however_slowly_and_not_when_nothing_is() -> None:
    async with fake_cluster() as api, running(api) as made:
        await begun(api, made)
        operator = made.operator
        operator._term_began -= 3600.0
        operator.term.loop.last_progress -= 3600.0
        assert "no round ended and no write was answered" in str(operator.unhealthy())
        operator._progressed()
        assert operator.unhealthy() is None
        await made.end()


async def test_failed_rounds_make_it_unready() -> None:
    async with fake_cluster() as api, running(api) as made:
        await begun(api, made)
        made.operator.term.loop.failed_in_a_row = 3
        assert "the last 3 rounds failed" in str(made.operator.unready())
        await made.end()
