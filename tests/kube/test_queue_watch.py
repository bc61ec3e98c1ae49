"""Kopf and our own lists against a real HTTP server; the store's rules by themselves."""

from __future__ import annotations

import asyncio
import functools
import random
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.api.errors import NotFound
from fairburst.kube.names import PLURALS
from fairburst.kube.queues import edit_limit
from fairburst.kube.queues.queue_store import QueueStore
from fairburst.kube.queues.queue_watch import QueueWatch
from tests.support.fake_api import FakeApi
from tests.support.tasks import until

LATENCY = "/apis/fairburst.dev/v1alpha1/latencyqueues"
THROUGHPUT = "/apis/fairburst.dev/v1alpha1/throughputqueues"


def queue(name: str, namespace: str = "a", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


@asynccontextmanager
async def running(api: FakeApi, **options: Any) -> AsyncIterator[tuple[QueueWatch, list[float]]]:
    resyncs: list[float] = []
    async with api.client() as client:
        watch = QueueWatch(client, None, lambda: resyncs.append(time.monotonic()), **options)
        await watch.start()
        try:
            yield watch, resyncs
        finally:
            await watch.stop()
    assert not any(thread.name == "kopf" for thread in threading.enumerate())


def names(watch: QueueWatch) -> set[tuple[str, str]]:
    return {(kind, name) for kind, _, name in watch.objects}


async def test_both_kinds_are_there_after_start_and_changes_arrive_through_kopf(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeApi(LATENCY, THROUGHPUT) as api:
        api.put(LATENCY, queue("lq"))
        api.put(THROUGHPUT, queue("tq"))
        async with running(api) as (watch, resyncs):
            assert names(watch) == {("LatencyQueue", "lq"), ("ThroughputQueue", "tq")}
            await until(lambda: api.open_watches == 2, "kopf watches")
            woken = len(resyncs)
            api.put(LATENCY, queue("lq", weight=3))
            await until(lambda: watch.objects["LatencyQueue", "a", "lq"]["spec"] == {"weight": 3}, "change seen")
            api.remove(THROUGHPUT, "a", "tq")
            await until(lambda: names(watch) == {("LatencyQueue", "lq")}, "deletion seen")
            assert len(resyncs) > woken
            assert {method for method, _, _ in api.requests} == {"GET"}, "watching writes nothing"
            assert not [record for record in caplog.records if record.levelname == "WARNING"], "an ordinary start warns of nothing"
            assert watch.restarts == 0


def test_managed_fields_are_not_kept() -> None:
    """They are larger than the rest of a queue, and the operator's own status makes most of them."""
    store, obj = QueueStore(), {"metadata": {"name": "lq", "namespace": "a", "resourceVersion": "3", "managedFields": [{"manager": "us"}]}}
    store.offer("LatencyQueue", obj)
    (kept,) = store.objects.values()
    assert kept == {"metadata": {"name": "lq", "namespace": "a", "resourceVersion": "3"}}
    assert "managedFields" in obj["metadata"], "the watch's own object is not changed"


async def test_a_round_is_asked_for_when_an_edit_counts_that_came_too_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit_limit, "EDIT_SECONDS", 3.0)
    key, last = ("LatencyQueue", "a", "lq"), edit_limit.EDITS_AT_ONCE + 3
    async with FakeApi(LATENCY, THROUGHPUT) as api:

        def edit(generation: int) -> None:
            one = queue("lq", weight=generation)
            one["metadata"] |= {"generation": generation, "uid": "one"}
            api.put(LATENCY, one)

        def seen(generation: int) -> bool:
            return bool(watch.objects[key]["spec"]["weight"] == generation)

        edit(0)
        async with running(api) as (watch, resyncs):
            await until(lambda: api.open_watches == 2, "kopf watches")
            for generation in range(1, last + 1):
                edit(generation)
                await until(functools.partial(seen, generation), "an edit seen")
            assert watch.in_force()[key]["spec"]["weight"] < last, "the rounds see a former one"
            woken = len(resyncs)
            await until(lambda: len(resyncs) > woken, "a round asked for without another change")
            await until(lambda: watch.in_force()[key]["spec"]["weight"] == last, "the last edit counts")


async def test_kopf_is_started_again_after_an_error_event_that_ends_it() -> None:
    async with FakeApi(LATENCY, THROUGHPUT) as api:
        api.put(LATENCY, queue("lq"))
        async with running(api) as (watch, _):
            await until(lambda: api.open_watches == 2, "kopf watches")
            api.error_event(LATENCY, 500, "InternalError")
            await until(lambda: watch.restarts == 1, "kopf ended")
            await until(lambda: api.open_watches == 2, "kopf watches again")
            api.put(LATENCY, queue("new"))
            await until(lambda: ("LatencyQueue", "new") in names(watch), "events flow again")


async def test_a_deletion_lost_in_a_watch_gap_is_repaired_without_waiting_for_the_period() -> None:
    async with FakeApi(LATENCY, THROUGHPUT) as api:
        api.put(LATENCY, queue("stays"))
        api.put(LATENCY, queue("goes"))
        async with running(api) as (watch, _):
            await until(lambda: api.open_watches == 2, "kopf watches")
            api.drop_watches()
            api.remove(LATENCY, "a", "goes", silently=True)
            api.compact()
            await until(lambda: names(watch) == {("LatencyQueue", "stays")}, "deletion noticed")


async def test_the_periodic_list_alone_repairs_a_lost_deletion() -> None:
    async with FakeApi(LATENCY, THROUGHPUT) as api:
        api.put(LATENCY, queue("goes"))
        async with running(api, relist_seconds=0.2) as (watch, resyncs):
            await until(lambda: api.open_watches == 2, "kopf watches")
            woken = len(resyncs)
            api.remove(LATENCY, "a", "goes", silently=True)
            await until(lambda: not watch.objects and len(resyncs) > woken, "deletion noticed and told")


async def test_survives_a_restart_of_the_server() -> None:
    async with FakeApi(LATENCY, THROUGHPUT) as api:
        api.put(LATENCY, queue("goes"))
        async with running(api, relist_seconds=0.3) as (watch, _):
            await api.stop()
            api.remove(LATENCY, "a", "goes", silently=True)
            api.put(LATENCY, queue("new"))
            await asyncio.sleep(0.5)
            api.fail(4, 503)
            await api.start()
            await until(lambda: names(watch) == {("LatencyQueue", "new")}, "caught up")
            await until(lambda: api.open_watches == 2, "kopf watches again")


async def test_start_waits_for_a_server_that_is_not_ready_yet() -> None:
    async with FakeApi(LATENCY, THROUGHPUT) as api:
        api.put(LATENCY, queue("lq"))
        api.fail(2, 503)
        async with running(api, restart_backoff_seconds=(0.01, 0.1)) as (watch, _):
            assert names(watch) == {("LatencyQueue", "lq")}
            await until(lambda: api.open_watches == 2, "kopf watches: if stopped before that, it waits five seconds")


async def test_start_says_so_where_the_kinds_are_not_installed() -> None:
    async with FakeApi() as api, api.client() as client:
        with pytest.raises(NotFound, match="latencyqueues"):
            await QueueWatch(client).start()


async def test_older_versions_are_taken_once_etcd_was_restored() -> None:
    """Versions that are known only from events count, too."""
    async with FakeApi(LATENCY, THROUGHPUT) as api:
        api.put(LATENCY, queue("kept", weight=1))
        async with running(api) as (watch, _):
            await until(lambda: api.open_watches == 2, "kopf watches")
            api.put(THROUGHPUT, queue("other"))
            snapshot = api.snapshot()
            for weight in range(2, 9):
                api.put(LATENCY, queue("kept", weight=weight))
            api.put(LATENCY, queue("later"))
            both = {("LatencyQueue", "kept"), ("ThroughputQueue", "other")}
            await until(lambda: names(watch) == both | {("LatencyQueue", "later")}, "the events")
            api.restore(snapshot)
            watch.request_relist()
            await until(lambda: names(watch) == both, "the snapshot")
            assert watch.objects["LatencyQueue", "a", "kept"]["spec"]["weight"] == 1
            api.put(LATENCY, queue("kept", weight=3))
            await until(lambda: watch.objects["LatencyQueue", "a", "kept"]["spec"]["weight"] == 3, "what came after it, through kopf")


def versioned(version: int, name: str = "q") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "a", "resourceVersion": str(version)}}


KEY = ("LatencyQueue", "a", "q")


def test_kopf_is_loaded_without_the_client_library_which_can_still_be_loaded_afterwards() -> None:
    loads = "import sys, fairburst.kube.process; print('kopf' in sys.modules, 'kubernetes' in sys.modules); import kubernetes.config"
    assert subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=True).stdout.split() == ["True", "False"]


def test_an_older_event_does_not_overwrite_a_newer_object() -> None:
    store = QueueStore()
    assert store.offer("LatencyQueue", versioned(10))
    assert not store.offer("LatencyQueue", versioned(9))
    assert not store.delete("LatencyQueue", versioned(9))
    assert store.objects[KEY] == versioned(10)
    assert store.delete("LatencyQueue", versioned(11))
    assert not store.offer("LatencyQueue", versioned(10)), "a late event must not raise the dead"
    assert store.offer("LatencyQueue", versioned(12))


def test_a_list_made_before_a_deletion_does_not_bring_the_object_back() -> None:
    store = QueueStore()
    store.offer("LatencyQueue", versioned(10))
    store.delete("LatencyQueue", versioned(20))
    assert not store.replace("LatencyQueue", [versioned(10)], 15)
    assert not store.objects


def test_a_list_made_before_a_creation_does_not_remove_the_object() -> None:
    store = QueueStore()
    store.offer("LatencyQueue", versioned(20))
    assert not store.replace("LatencyQueue", [], 15)
    assert KEY in store.objects
    assert store.replace("LatencyQueue", [], 25)
    assert KEY not in store.objects


def test_a_list_of_one_kind_leaves_the_other_alone() -> None:
    store = QueueStore()
    store.offer("ThroughputQueue", versioned(5))
    store.replace("LatencyQueue", [], 10)
    assert ("ThroughputQueue", "a", "q") in store.objects


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_whatever_the_order_of_events_the_newest_state_remains(creations: list[bool], source: Any) -> None:
    """History: at version n the object is written (True) or deleted (False). Delivered in any order, the last one counts."""
    history = list(enumerate(creations, 1))
    source.shuffle(history)
    store = QueueStore()
    for version, exists in history:
        (store.offer if exists else store.delete)("LatencyQueue", versioned(version))
    assert store.objects.get(KEY) == (versioned(len(creations)) if creations[-1] else None)
    assert store.copy_of("a") == store.objects


def test_the_objects_of_a_namespace_are_those_that_a_look_at_all_finds_there() -> None:
    source, store = random.Random(1), QueueStore()
    for version in range(1, 2_000):
        kind, where = source.choice(tuple(PLURALS)), source.choice("abc")
        obj = {"metadata": {"name": source.choice("xyz"), "namespace": where, "resourceVersion": str(version)}}
        match source.randrange(6):
            case 0:
                store.delete(kind, obj)
            case 1:
                store.replace(kind, [obj], version)
            case 2:
                store.reset(kind, [obj])
            case _:
                store.offer(kind, obj)
        for each in "abcd":
            assert store.copy_of(each) == {key: found for key, found in store.objects.items() if key[1] == each}
