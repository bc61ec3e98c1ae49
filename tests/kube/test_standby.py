"""Two operators on one server without admission, quota or controllers: one writes, the other is warm and takes over with its memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fairburst.config import parse_config
from fairburst.kube.api.answers import OUTAGE_SECONDS
from fairburst.kube.api.errors import Unavailable
from fairburst.kube.election import elected
from fairburst.kube.process import Operator
from fairburst.kube.side_thread import SideThread
from tests.support.fake_api import FakeApi
from tests.support.measured import value
from tests.support.objects import latency_spec, stored_queue
from tests.support.operators import LATENCY, NAMESPACES, QUOTAS, THROUGHPUT, Running, fake_cluster, rounds, under_way
from tests.support.tasks import running, until

LEASES = "/apis/coordination.k8s.io/v1/leases"
# Long enough for a machine that is busy with something else: the Lease is never lost by accident here.
CONFIG = parse_config(
    "metrics: {host: 127.0.0.1, port: 0}\nrounds: {intervalSeconds: 1}\nleaderElection: {leaseSeconds: 60, renewDeadlineSeconds: 50}"
)


def cluster_with_leases() -> FakeApi:
    api = fake_cluster()
    api.add(LEASES)
    return api


@asynccontextmanager
async def replica(api: FakeApi, identity: str) -> AsyncIterator[Running]:
    async with (
        api.client() as client,
        SideThread() as aside,
        elected(CONFIG, client, identity, aside) as election,
        under_way(Operator(CONFIG, client, election, aside=aside)) as made,
    ):
        yield made


def leads(made: Running) -> bool:
    return value(made.operator.metrics, "fairburst_leader") == 1.0


def series(made: Running) -> set[str]:
    """Return the names of the metrics about a queue."""
    found = made.operator.metrics.registry.collect()
    return {sample.name for family in found for sample in family.samples if "queue" in sample.labels}


def status_of(api: FakeApi) -> dict[str, Any]:
    found: dict[str, Any] = api.objects[LATENCY]["batch", "bursts"]["status"]
    return found


async def test_one_writes_the_other_is_ready_and_takes_over_with_what_was_promised_and_without_a_list_of_pods() -> None:
    async with cluster_with_leases() as api, replica(api, "first") as first:
        await until(lambda: leads(first), "the first to lead", 60.0)
        api.put(LATENCY, stored_queue("LatencyQueue", "batch", "bursts", latency_spec(cpu="8")))
        await until(lambda: "status" in api.objects[LATENCY]["batch", "bursts"], "a status", 60.0)
        await until(lambda: ("batch", "fairburst") in api.objects[QUOTAS], "a quota", 60.0)
        async with replica(api, "second") as second:
            await until(lambda: second.operator.unready() is None, "the second to be ready", 60.0)
            assert not leads(second)
            assert (rounds(second.operator), series(second)) == (0.0, set())
            assert second.operator.unhealthy() is None
            promised = status_of(api)["promise"]
            lists = len([1 for method, path, query in api.requests if path == "/api/v1/pods" and "watch" not in query])
            await first.end(30.0)
            assert not leads(first)
            await until(lambda: leads(second) and rounds(second.operator), "the second to lead", 30.0)
            api.put(NAMESPACES, {"metadata": {"name": "other"}, "status": {"phase": "Active"}})
            api.put(THROUGHPUT, stored_queue("ThroughputQueue", "other", "late"))
            await until(lambda: "status" in api.objects[THROUGHPUT]["other", "late"], "it to write", 60.0)
            assert status_of(api)["promise"] == promised
            assert lists == len([1 for method, path, query in api.requests if path == "/api/v1/pods" and "watch" not in query])
            assert series(second)


async def test_whoever_loses_the_lease_stops_and_begins_anew_from_what_is_on_the_cluster() -> None:
    """Its earlier decisions count for nothing: another replica has led since, and here another has granted a class."""
    async with cluster_with_leases() as api, replica(api, "first") as first:
        api.put(LATENCY, stored_queue("LatencyQueue", "batch", "bursts", latency_spec(cpu="8")))
        await until(lambda: "status" in api.objects[LATENCY]["batch", "bursts"], "a status", 60.0)
        lease = api.objects[LEASES]["fairburst-system", "fairburst-default"]
        api.put(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "another"}})
        await until(lambda: not leads(first), "it to notice", 60.0)
        assert first.operator.unready() is None
        before = rounds(first.operator)
        queue = api.objects[LATENCY]["batch", "bursts"]
        history = {**queue["status"]["history"], "met": 41}
        api.put(LATENCY, {**queue, "status": {**queue["status"], "history": history}})
        await asyncio.sleep(1.5)  # more than an interval of rounds
        assert rounds(first.operator) == before
        lease = api.objects[LEASES]["fairburst-system", "fairburst-default"]
        api.put(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": ""}})
        await until(lambda: leads(first) and rounds(first.operator) > before, "it to lead again", 60.0)
        assert status_of(api)["history"]["met"] == 41
        labels = {"namespace": "batch", "queue": "bursts", "kind": "Latency", "outcome": "met"}
        registry = first.operator.metrics.registry
        await until(lambda: registry.get_sample_value("fairburst_queue_bursts_total", labels) == 41.0, "it to count on from there", 60.0)


async def test_the_lease_is_renewed_during_a_round_that_lasts_longer_than_the_right_to_write() -> None:
    config, api = parse_config("leaderElection: {leaseSeconds: 3, renewDeadlineSeconds: 2, retrySeconds: 1}"), FakeApi(LEASES)
    async with SideThread() as elsewhere, SideThread() as aside:
        await elsewhere(api.start())
        async with api.client() as client, elected(config, client, "first", aside) as election:
            assert election is not None
            async with running(aside(election.run())):
                await until(election.leading.is_set, "it to lead")
                end = time.monotonic() + 1.5 * config.leader_election.renew_deadline_seconds
                while time.monotonic() < end:
                    pass
                assert election.seconds_left() > 0
        await elsewhere(api.stop())


async def test_an_outage_that_the_lease_saw_ends_for_the_whole_process_when_the_lease_is_answered() -> None:
    async with (
        cluster_with_leases() as api,
        SideThread() as aside,
        api.client() as client,
        elected(CONFIG, client, "first", aside) as election,
    ):
        assert election is not None
        election.share(client.answers)
        returned = asyncio.Event()
        client.answers.on_return = returned.set
        async with running(aside(election.run())):
            await until(election.leading.is_set, "it to lead")
            await api.stop()
            began = time.monotonic()
            await until(lambda: time.monotonic() - began > OUTAGE_SECONDS, "an outage")
            client.answers.failed(Unavailable(0, "Unavailable", "connection refused"))
            await until(lambda: time.monotonic() - began > 3 * OUTAGE_SECONDS, "a longer one")
            assert not returned.is_set()
            await api.start()
            await until(returned.is_set, "the first answer to be noted", 60.0)
