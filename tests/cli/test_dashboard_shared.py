"""The dashboard that many people share: who comes in, and what each of them sees. tests/t1/test_dashboard.py has the real API server."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from typing_extensions import override

from e2e.certificates import write_certificates
from fairburst.cli.cluster import Cluster
from fairburst.cli.dashboard import live as live_module
from fairburst.cli.dashboard import server as server_module
from fairburst.cli.dashboard.live import Live
from fairburst.cli.dashboard.local import HOST
from fairburst.cli.dashboard.pages import ASSETS
from fairburst.cli.dashboard.server import DashboardServer
from fairburst.cli.dashboard.shared import MOST_SESSIONS, SharedEntrance
from fairburst.cli.dashboard.visitors import ACCESS_REVIEWS, ALLOWED_SECONDS, REFUSED_SECONDS, TOKEN_REVIEWS, Visitors
from fairburst.config import Config
from tests.cli.test_ask import CORE, LEASES, LQ, TQ, WORK, kubeconfig
from tests.cli.test_dashboard import message
from tests.support.fake_api import FakeApi
from tests.support.objects import latency_spec, stored_queue

SERVING, BATCH = "LatencyQueue/serving/lq", "ThroughputQueue/batch/tq"
QUEUES = ("latencyqueues", "throughputqueues")


class ReviewingApi(FakeApi):
    """Reviews tokens and rights. users: by token. rights: (user, verb, resource, namespace), "" for all namespaces."""

    def __init__(self, *collections: str) -> None:
        super().__init__(*collections)
        self.users: dict[str, str] = {}
        self.rights: set[tuple[str, str, str, str]] = set()
        self.reviews: list[dict[str, Any]] = []
        self.authorized: set[str] = set()

    @override
    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.authorized.add(request.headers.get("Authorization", ""))
        if request.method != "POST" or request.path not in {TOKEN_REVIEWS, ACCESS_REVIEWS} or self._refused:
            return await super()._handle(request)
        spec = (await request.json())["spec"]
        self.reviews.append(spec)
        if request.path == TOKEN_REVIEWS:
            user = self.users.get(spec["token"])
            found = {"authenticated": True, "user": {"username": user, "groups": ["g"]}} if user else {"authenticated": False}
            return web.json_response({"status": found}, status=201)
        asked = spec["resourceAttributes"]
        allowed = {(spec["user"], asked["verb"], asked["resource"], where) for where in ("", asked["namespace"])} & self.rights
        return web.json_response({"status": {"allowed": bool(allowed)}}, status=201)


class Time:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Site:
    """A running dashboard, and sessions of browsers."""

    def __init__(self, api: ReviewingApi, live: Live, time: Time, root: str, folder: Path) -> None:
        self.api, self.live, self.time, self.root = api, live, time, root
        self.trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))

    @asynccontextmanager
    async def browser(self, token: str | None = None) -> AsyncIterator[aiohttp.ClientSession]:
        """Open a browser that trusts the certificate's authority; with `token` it has logged in."""
        connector = aiohttp.TCPConnector(ssl=self.trust)
        async with aiohttp.ClientSession(self.root, connector=connector, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            if token is not None:
                async with session.post("/login", data={"token": token}, allow_redirects=False) as answer:
                    assert answer.status == 303, await answer.text()
            yield session

    async def first(self, session: aiohttp.ClientSession) -> dict[str, Any]:
        """Return the first message of the feed."""
        async with session.get("/feed") as answer:
            assert answer.status == 200, await answer.text()
            return await message(answer.content)


async def status_of(session: aiohttp.ClientSession, path: str, **headers: str) -> int:
    async with session.get(path, headers=headers, allow_redirects=False) as answer:
        return answer.status


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, certificates: Path) -> AsyncIterator[Site]:
    """An admin who may read everything, a tenant of `batch`, and a stranger who may read nothing."""
    monkeypatch.setattr(live_module, "SECONDS_BETWEEN", 0.02)
    monkeypatch.setattr(server_module, "END_SECONDS", 0.05)  # feeds that a test has left, whose next message never comes
    async with ReviewingApi(LQ, TQ, LEASES, *CORE, *WORK) as api:
        status = {"allocatable": {"cpu": "32", "memory": "64Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}
        api.put("/api/v1/nodes", {"metadata": {"name": "node", "namespace": ""}, "status": status})
        api.put(LQ, stored_queue("LatencyQueue", "serving", "lq", latency_spec("40")))
        api.put(TQ, stored_queue("ThroughputQueue", "batch", "tq"))
        api.users = {f"{name}-token": name for name in ("admin", "tenant", "stranger")}
        api.rights = {("admin", "list", "nodes", ""), *(("admin", "get", one, "") for one in QUEUES)}
        api.rights |= {("tenant", "get", one, "batch") for one in QUEUES}
        folder, time = certificates, Time()
        certificate = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificate.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        async with api.client() as client:
            live = Live(client, Config())
            await live.start()
            visitors = Visitors(client, Cluster(kubeconfig(tmp_path, api.url)), time)
            server = DashboardServer(live, SharedEntrance(visitors, live.problem, time))
            port = await server.start(HOST, 0, certificate)
            running = asyncio.create_task(live.run())
            yield Site(api, live, time, f"https://localhost:{port}", folder)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await server.stop()


class TestAccess:
    async def test_without_a_token_there_is_the_form_and_nothing_else(self, site: Site) -> None:
        async with site.browser() as session:
            async with session.get("/") as answer:
                assert (answer.url.path, answer.status) == ("/login", 200)
                assert 'name="token"' in await answer.text()
            closed = {*(f"/{name}" for name in ASSETS), "/feed", "/viewer", "/ask/queue/batch/tq", "/ask/what-if"} - {
                "/style.css",
                "/icon.svg",
                "/login.js",
            }
            assert {await status_of(session, path) for path in closed} == {401}
            assert await status_of(session, "/healthz") == 200
        assert site.api.reviews == [], "no review was sent"

    @pytest.mark.parametrize(
        ("token", "want"),
        [
            pytest.param("wrong", "does not know this token", id="unknown"),
            pytest.param("", "Expected a token", id="empty"),
            pytest.param("two words", "Expected a token", id="two words"),
            pytest.param("t\u00f6ken", "Expected a token", id="not ASCII"),
            pytest.param("t" * 20_000, "Expected a token", id="too long"),
        ],
    )
    async def test_a_token_that_is_none_is_refused_in_a_sentence(self, site: Site, token: str, want: str) -> None:
        async with site.browser() as session:
            async with session.post("/login", data={"token": token}) as answer:
                assert answer.status == 401
                assert want in await answer.text()
                assert not answer.cookies
            assert await status_of(session, "/feed") == 401

    async def test_a_session_is_a_cookie_that_scripts_and_other_sites_cannot_use(self, site: Site) -> None:
        async with site.browser() as session, session.post("/login", data={"token": " admin-token\n"}, allow_redirects=False) as answer:
            (cookie,) = answer.cookies.values()
            assert cookie.key.startswith("__Host-")
            assert "admin-token" not in cookie.value
            assert (cookie["httponly"], cookie["secure"], cookie["samesite"], cookie["path"]) == (True, True, "Lax", "/")
            assert await status_of(session, "/feed", **{"Sec-Fetch-Site": "cross-site"}) == 403
            async with session.post("/login", data={"token": "tenant-token"}, headers={"Sec-Fetch-Site": "cross-site"}) as foreign:
                assert foreign.status == 403
            async with session.get("/viewer") as viewer:
                assert await viewer.json() == {"name": "admin"}

    async def test_a_link_on_another_site_leads_to_the_page_and_to_no_data(self, site: Site) -> None:
        clicked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        async with site.browser() as session:
            assert await status_of(session, "/login", **clicked) == 200
            assert await status_of(session, "/", **clicked) == 303
        async with site.browser("admin-token") as session:
            assert await status_of(session, "/", **clicked) == 200
            for path in ("/feed", "/viewer", "/ask/queue/batch/tq", "/app.js"):
                assert await status_of(session, path, **clicked) == 403

    async def test_a_header_is_as_good_as_a_session(self, site: Site) -> None:
        async with site.browser() as session:
            assert await status_of(session, "/viewer", Authorization="Bearer admin-token") == 200
            assert await status_of(session, "/viewer", Authorization="Bearer wrong") == 401
            assert await status_of(session, "/viewer", Authorization="Basic admin-token") == 401

    async def test_who_logs_out_is_out(self, site: Site) -> None:
        async with site.browser("admin-token") as session:
            (cookie,) = session.cookie_jar
            stolen = f"{cookie.key}={cookie.value}"
            async with session.post("/logout", allow_redirects=False) as answer:
                assert (answer.status, answer.headers["Location"]) == (303, "/login")
        async with site.browser() as thief:
            assert await status_of(thief, "/viewer", Cookie=stolen) == 401

    async def test_a_token_that_is_withdrawn_ends_its_session(self, site: Site) -> None:
        async with site.browser("admin-token") as session:
            del site.api.users["admin-token"]
            site.time.now += ALLOWED_SECONDS + 1
            assert await status_of(session, "/viewer") == 401
            async with session.get("/") as answer:
                assert answer.url.path == "/login"

    async def test_a_person_who_logs_in_again_and_again_has_few_sessions(self, site: Site) -> None:
        async with site.browser("tenant-token") as other, site.browser("admin-token") as oldest:
            for _ in range(MOST_SESSIONS):
                async with site.browser("admin-token") as newest:
                    assert await status_of(newest, "/viewer") == 200
            assert await status_of(oldest, "/viewer") == 401
            assert await status_of(other, "/viewer") == 200

    async def test_the_log_names_who_logs_in_and_counts_refusals_without_their_tokens(
        self, site: Site, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "fairburst")
        async with site.browser("admin-token") as session:
            for second in (0.0, 0.5, 0.75, 1.25):
                site.time.now = 2000.0 + second
                async with session.post("/login", data={"token": "guessed-token"}) as answer:
                    assert answer.status == 401
        lines = [(record.message, record.fields) for record in caplog.records]  # type: ignore[attr-defined]
        assert lines == [
            ("login", {"user": "admin", "address": "127.0.0.1"}),
            ("login refused", {"address": "127.0.0.1", "refused": 1}),
            ("login refused", {"address": "127.0.0.1", "refused": 3}),
        ]
        assert "guessed-token" not in caplog.text

    async def test_while_the_api_server_is_away_nobody_comes_in(self, site: Site) -> None:
        async with site.browser() as session:
            site.api.refuse("POST", "tokenreviews", 503)
            async with session.post("/login", data={"token": "admin-token"}) as answer:
                assert answer.status == 503
                assert "The API server has not said who you are" in await answer.text()
            assert await status_of(session, "/viewer", Authorization="Bearer admin-token") == 503


class TestRights:
    async def test_an_admin_sees_everything(self, site: Site) -> None:
        async with site.browser("admin-token") as session:
            first = await site.first(session)
            assert set(first["queues"]) == {SERVING, BATCH}
            assert first["pool"]["capacity"]["cpu"] == 32

    async def test_a_tenant_sees_what_it_may_get_and_no_nodes(self, site: Site) -> None:
        async with site.browser("tenant-token") as session:
            first = await site.first(session)
            assert set(first["queues"]) == {BATCH}
            assert first["pool"]["capacity"] == {}
            assert "your rights" in first["pool"]["problem"]

    async def test_a_stranger_sees_no_queue(self, site: Site) -> None:
        async with site.browser("stranger-token") as session:
            assert (await site.first(session))["queues"] == {}

    async def test_the_review_names_the_user_with_its_groups(self, site: Site) -> None:
        async with site.browser("tenant-token") as session:
            await site.first(session)
        asked = [one for one in site.api.reviews if one.get("resourceAttributes", {}).get("namespace") == "serving"]
        assert [(one["user"], one["groups"], one["resourceAttributes"]["name"]) for one in asked] == [("tenant", ["g"], "lq")]

    async def test_changes_and_ends_of_others_queues_are_not_told(self, site: Site) -> None:
        async with site.browser("tenant-token") as session, session.get("/feed") as answer:
            await message(answer.content)
            site.api.put(TQ, stored_queue("ThroughputQueue", "secret", "tq"))
            assert (await message(answer.content))["queues"] == {}
            site.api.remove(LQ, "serving", "lq")
            assert (await message(answer.content))["queues"] == {}
            site.api.remove(TQ, "batch", "tq")
            assert (await message(answer.content))["queues"] == {BATCH: None}

    async def test_a_right_that_is_given_or_taken_away_changes_an_open_page(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server_module, "REVIEW_SECONDS", 0.0)
        async with site.browser("tenant-token") as session, session.get("/feed") as answer:
            assert set((await message(answer.content))["queues"]) == {BATCH}
            site.api.rights |= {("tenant", "get", one, "serving") for one in QUEUES}
            await self._later(site, REFUSED_SECONDS)
            assert set((await self._replaced(site, answer.content))["queues"]) == {BATCH, SERVING}
            site.api.rights = {one for one in site.api.rights if one[3] != "batch"}
            await self._later(site, ALLOWED_SECONDS)
            assert set((await self._replaced(site, answer.content))["queues"]) == {SERVING}

    async def test_the_feed_of_a_withdrawn_token_ends(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server_module, "REVIEW_SECONDS", 0.0)
        async with site.browser("admin-token") as session, session.get("/feed") as answer:
            await message(answer.content)
            del site.api.users["admin-token"]
            await self._later(site, ALLOWED_SECONDS)
            site.api.put(TQ, stored_queue("ThroughputQueue", "late", "tq"))
            async with asyncio.timeout(20):
                assert b"late/again" not in await answer.content.read()

    async def test_a_question_is_asked_with_the_persons_own_token(self, site: Site) -> None:
        async with site.browser("tenant-token") as session, session.get("/ask/queue/batch/tq") as answer:
            assert answer.status == 200, await answer.text()
            assert json.loads(await answer.text())["headline"].startswith("ThroughputQueue batch/tq: ")
        assert "Bearer tenant-token" in site.api.authorized

    async def _later(self, site: Site, seconds: float) -> None:
        site.time.now += seconds + 1

    async def _replaced(self, site: Site, feed: aiohttp.StreamReader) -> dict[str, Any]:
        """Return the next whole state; a change of a node makes the feed look again."""
        for number in range(50):
            status = {"allocatable": {"cpu": "32", "memory": "64Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}
            site.api.put("/api/v1/nodes", {"metadata": {"name": f"node-{number}", "namespace": ""}, "status": status})
            found = await message(feed)
            if found["replace"]:
                return found
        raise AssertionError("expected the whole state again, found changes only")
