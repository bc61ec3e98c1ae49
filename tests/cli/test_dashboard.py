"""The dashboard's server and feed, against a fake API server. test_dashboard_browser.py tests the pages in a browser."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fairburst.cli.cluster import Cluster
from fairburst.cli.dashboard import live as live_module
from fairburst.cli.dashboard.entries import entry, pool_of
from fairburst.cli.dashboard.live import MOST_BEHIND, Live
from fairburst.cli.dashboard.local import HOST, LocalEntrance
from fairburst.cli.dashboard.pages import ASSETS
from fairburst.cli.dashboard.questions import Questions
from fairburst.cli.dashboard.server import DashboardServer
from fairburst.cli.errors import CommandError
from fairburst.config import Config
from fairburst.kube.api.objects import Condition, Node, NodeStatus
from tests.cli.test_ask import CORE, LEASES, LQ, TQ, WORK, Served, kubeconfig, served
from tests.support.fake_api import FakeApi
from tests.support.objects import latency_spec, stored_queue

__all__ = ["served"]

KEY = "LatencyQueue/serving/lq"


class Page:
    """A browser's side of a running dashboard: its address, and a session that has the cookie after `open`."""

    def __init__(self, address: str, session: aiohttp.ClientSession) -> None:
        self.address, self.session = address, session
        self.root = address.partition("?")[0]

    async def open(self) -> int:
        async with self.session.get(self.address) as answer:
            return answer.status

    async def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        async with self.session.request(method, self.root + path, headers=headers) as answer:
            return answer.status, await answer.text()

    @asynccontextmanager
    async def feed(self) -> AsyncIterator[aiohttp.StreamReader]:
        async with self.session.get(self.root + "feed") as answer:
            yield answer.content


async def message(feed: aiohttp.StreamReader) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while True:
            line = await feed.readline()
            if line.startswith(b"data: "):
                found: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
                return found


@asynccontextmanager
async def dashboard(api: FakeApi, folder: Path, namespace: str | None = None) -> AsyncIterator[tuple[Page, Live]]:
    async with api.client() as client:
        live = Live(client, Config(), namespace)
        await live.start()
        entrance = LocalEntrance(Questions(Cluster(kubeconfig(folder, api.url))))
        server = DashboardServer(live, entrance)
        address = entrance.address(await server.start(HOST, 0))
        running = asyncio.create_task(live.run())
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            yield Page(address, session), live
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await server.stop()


@pytest.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApi]:
    """Two nodes of 32 cpu and a latency queue."""
    monkeypatch.setattr(live_module, "SECONDS_BETWEEN", 0.02)
    async with FakeApi(LQ, TQ, LEASES, *CORE, *WORK) as found:
        status = {"allocatable": {"cpu": "32", "memory": "64Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}
        for number in range(2):
            found.put("/api/v1/nodes", {"metadata": {"name": f"node-{number}", "namespace": ""}, "status": status})
        found.put(LQ, stored_queue("LatencyQueue", "serving", "lq", latency_spec("40")))
        yield found


class TestAccess:
    async def test_a_request_without_the_secret_learns_nothing(self, api: FakeApi, tmp_path: Path) -> None:
        async with dashboard(api, tmp_path) as (page, _):
            for path in ("", "feed", "app.js", "ask/queue/serving/lq", "?secret=wrong"):
                status, text = await page.get(path)
                assert status == 401
                assert "serving" not in text

    async def test_the_printed_address_leaves_its_secret_in_a_cookie_that_scripts_cannot_read(self, api: FakeApi, tmp_path: Path) -> None:
        async with dashboard(api, tmp_path) as (page, _):
            async with page.session.get(page.address, allow_redirects=False) as answer:
                assert (answer.status, answer.headers["Location"]) == (303, "/")
                (cookie,) = answer.cookies.values()
                assert cookie["httponly"]
                assert cookie["samesite"] == "Strict"
            status, text = await page.get("")
            assert status == 200
            assert "secret" not in text

    @pytest.mark.parametrize(
        "headers", [{"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}], ids=str
    )
    async def test_another_site_is_refused_with_the_cookie_too(self, api: FakeApi, tmp_path: Path, headers: dict[str, str]) -> None:
        async with dashboard(api, tmp_path) as (page, _):
            assert await page.open() == 200
            status, text = await page.get("feed", **headers)
            assert status == 403
            assert "serving" not in text

    @pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
    async def test_it_only_reads(self, api: FakeApi, tmp_path: Path, method: str) -> None:
        async with dashboard(api, tmp_path) as (page, _):
            await page.open()
            assert (await page.get("ask/queue/serving/lq", method))[0] == 405

    async def test_every_answer_forbids_foreign_scripts_and_frames(self, api: FakeApi, tmp_path: Path) -> None:
        async with dashboard(api, tmp_path) as (page, _):
            await page.open()
            for path in ("", *ASSETS, "nothing-here", "ask/queue/a/b"):
                async with page.session.get(page.root + path) as answer:
                    policy = answer.headers["Content-Security-Policy"]
                    assert "default-src 'self'" in policy
                    assert "frame-ancestors 'none'" in policy
                    assert answer.headers["X-Content-Type-Options"] == "nosniff"


class TestFeed:
    async def test_it_begins_with_everything_and_goes_on_with_what_changes(self, api: FakeApi, tmp_path: Path) -> None:
        async with dashboard(api, tmp_path) as (page, _):
            await page.open()
            async with page.feed() as feed:
                first = await message(feed)
                assert first["replace"]
                assert list(first["queues"]) == [KEY]
                assert first["pool"]["nodes"] == 2
                assert first["pool"]["capacity"]["cpu"] == 64
                assert "no operator leads, and none has" in first["operator"]["problem"]
                api.put(TQ, stored_queue("ThroughputQueue", "batch", "tq"))
                second = await message(feed)
                assert not second["replace"]
                assert list(second["queues"]) == ["ThroughputQueue/batch/tq"]
                api.remove(LQ, "serving", "lq")
                assert (await message(feed))["queues"] == {KEY: None}
                api.remove("/api/v1/nodes", "", "node-0")
                assert (await message(feed))["pool"]["nodes"] == 1

    async def test_one_namespace_shows_only_its_queues(self, api: FakeApi, tmp_path: Path) -> None:
        api.put(TQ, stored_queue("ThroughputQueue", "batch", "tq"))
        async with dashboard(api, tmp_path, "serving") as (page, _):
            await page.open()
            async with page.feed() as feed:
                assert list((await message(feed))["queues"]) == [KEY]

    async def test_a_viewer_without_the_right_to_nodes_sees_the_queues(self, api: FakeApi, tmp_path: Path) -> None:
        api.refuse("GET", "/api/v1/nodes", 403)
        async with dashboard(api, tmp_path) as (page, _):
            await page.open()
            async with page.feed() as feed:
                first = await message(feed)
                assert first["pool"]["problem"].startswith("Capacity is unknown")
                assert KEY in first["queues"]
                api.put(TQ, stored_queue("ThroughputQueue", "batch", "tq"))
                assert "ThroughputQueue/batch/tq" in (await message(feed))["queues"]

    async def test_a_reader_that_lags_is_cut_off_and_the_others_go_on(self, api: FakeApi, tmp_path: Path) -> None:
        async with dashboard(api, tmp_path) as (_, live):
            slow, quick = live.follow(), live.follow()
            await quick.get()  # everything, at first
            async with asyncio.timeout(30):
                for number in range(MOST_BEHIND):
                    api.put(TQ, stored_queue("ThroughputQueue", "batch", f"tq-{number}"))
                    assert await quick.get() is not None
            last = None
            while not slow.empty():
                last = slow.get_nowait()
            assert last is None


class TestQuestions:
    async def test_a_queue_is_explained(self, api: FakeApi, tmp_path: Path) -> None:
        async with dashboard(api, tmp_path) as (page, _):
            await page.open()
            status, text = await page.get("ask/queue/serving/lq")
            assert status == 200
            assert json.loads(text)["headline"].startswith("LatencyQueue serving/lq: ")

    async def test_what_if_decides_again_with_the_change(self, api: FakeApi, tmp_path: Path) -> None:
        async with dashboard(api, tmp_path) as (page, _):
            await page.open()
            status, text = await page.get("ask/what-if?capacity=-75%25")
            assert status == 200
            (change,) = json.loads(text)
            assert change["queue"] == "serving/lq"
            assert change["change"] != "same"

    @pytest.mark.parametrize(
        ("path", "want"),
        [
            ("ask/queue/serving/none", "none"),
            ("ask/job/serving/none", "none"),
            ("ask/what-if", "expected a change to try"),
            ("ask/what-if?capacity=lots", "lots"),
            ("ask/what-if?weight=serving/lq=heavy", "heavy"),
            ("ask/what-if?remove=serving/none", "none"),
        ],
    )
    async def test_what_cannot_be_asked_is_said_in_a_sentence(self, api: FakeApi, tmp_path: Path, path: str, want: str) -> None:
        async with dashboard(api, tmp_path) as (page, _):
            await page.open()
            status, text = await page.get(path)
            assert status == 400
            assert want in json.loads(text)["error"]

    def test_a_cluster_that_does_not_answer_is_one_line(self, served: Served) -> None:
        served.api.refuse("GET", "latencyqueues", 500)
        questions = Questions(Cluster(served.kubeconfig))
        with pytest.raises(CommandError):
            asyncio.run(questions.queue("serving", "lq"))


def test_an_entry_has_amounts_in_units_and_times_in_seconds() -> None:
    status: Mapping[str, Any] = {
        "usage": {"cpu": "1500m", "memory": "1Gi", "odd": "no amount"},
        "share": "12.5%",
        "window": {"state": "Armed", "armsAt": "1970-01-01T00:01:00Z", "opensBy": ""},
        "history": {"met": 3, "missed": 1},
    }
    found = entry("LatencyQueue", "serving", "lq", {"spec": {"weight": 2}, "status": status})
    assert found["usage"] == {"cpu": 1.5, "memory": 2**30}
    assert found["share"] == 0.125
    assert found["window"] == {"state": "Armed", "armsAt": 60.0}
    assert (found["weight"], found["met"], found["missed"]) == (2, 3, 1)


def test_an_object_without_status_has_an_entry() -> None:
    found = entry("ThroughputQueue", "batch", "tq", {"spec": None, "status": None})
    assert (found["usage"], found["share"], found["window"]) == ({}, None, None)


def test_the_pool_counts_nodes_by_shape() -> None:
    def node(cpu: str) -> Node:
        return Node(status=NodeStatus(allocatable={"cpu": cpu, "memory": "8Gi"}, conditions=[Condition(type="Ready", status="True")]))

    found = pool_of([node("4"), node("8"), node("8")], ("cpu", "memory"), {})
    assert found["nodes"] == 3
    assert found["capacity"] == {"cpu": 20, "memory": 3 * 2**33}
    assert [(one["nodes"], one["offers"]["cpu"]) for one in found["shapes"]] == [(2, 8), (1, 4)]
