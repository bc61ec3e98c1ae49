"""The API client against a real HTTP server, kubeconfigs and service account files included."""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from e2e.certificates import write_certificates
from fairburst.kube.api import auth
from fairburst.kube.api.auth import Credentials, from_kubeconfig, from_service_account
from fairburst.kube.api.client import ApiClient, RateLimiter
from fairburst.kube.api.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    CredentialsError,
    FailedTest,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from fairburst.kube.api.first_answer import first_answer
from tests.support.fake_api import FakeApi, Server, status

PODS = "/api/v1/pods"
IN_A = "/api/v1/namespaces/a/pods"


async def test_objects_are_created_patched_read_and_deleted() -> None:
    async with FakeApi(PODS) as api, api.client() as client:
        created = await client.create(IN_A, {"metadata": {"name": "p", "labels": {"old": "1"}}})
        assert created["metadata"]["namespace"] == "a"
        await client.merge_patch(f"{IN_A}/p", {"metadata": {"labels": {"old": None, "new": "2"}}})
        assert (await client.get_json(f"{IN_A}/p"))["metadata"]["labels"] == {"new": "2"}
        await client.delete(f"{IN_A}/p")
        with pytest.raises(NotFound):
            await client.get(f"{IN_A}/p")


async def test_each_kind_of_patch_says_what_it_is() -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.json_response({"type": request.content_type, "body": await request.text()})

    async with Server(echo) as url, ApiClient(Credentials(url)) as client:
        merge = await client.merge_patch("/x", {"spec": None})
        ops = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
        assert (merge["type"], merge["body"]) == ("application/merge-patch+json", '{"spec":null}')
        assert (await client.json_patch("/x", ops))["type"] == "application/json-patch+json"


@pytest.mark.parametrize(
    ("code", "reason", "want"),
    [
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (500, "InternalError", ApiError),
        (503, "ServiceUnavailable", Unavailable),
    ],
)
async def test_a_refusal_becomes_its_own_error_with_the_servers_words(code: int, reason: str, want: type[ApiError]) -> None:
    async with FakeApi(PODS) as api, api.client() as client:
        api.fail(1, code, status(code, reason, "exceeded quota: q, requested: cpu=1, used: cpu=2, limited: cpu=2"))
        with pytest.raises(ApiError) as caught:
            await client.get(f"{IN_A}/p")
        assert type(caught.value) is want
        assert (caught.value.status, caught.value.reason, caught.value.transient) == (code, reason, code >= 500)
        assert "exceeded quota: q" in str(caught.value)
        assert f"GET {IN_A}/p" in str(caught.value)


async def test_a_json_patch_that_does_not_apply_is_a_conflict_because_the_object_has_changed() -> None:
    async with FakeApi(PODS) as api, api.client() as client:
        api.put(PODS, {"metadata": {"name": "p", "namespace": "a", "uid": "new"}})
        with pytest.raises(FailedTest):
            await client.json_patch(f"{IN_A}/p", [{"op": "test", "path": "/metadata/uid", "value": "old"}])
    assert issubclass(FailedTest, Conflict)


async def test_an_answer_that_is_no_status_object_is_quoted() -> None:
    async with FakeApi(PODS) as api, api.client() as client:
        api.fail(1, 502, "<html>bad gateway</html>")
        with pytest.raises(Unavailable, match="bad gateway"):
            await client.get(PODS)


async def test_no_server_is_unavailable() -> None:
    async with FakeApi(PODS) as api, api.client() as client:
        await api.stop()
        with pytest.raises(Unavailable) as caught:
            await client.get(PODS)
        assert caught.value.status == 0
        assert caught.value.transient


async def test_a_server_that_does_not_answer_is_unavailable_after_the_timeout() -> None:
    async def hang(_: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        return web.Response()

    async with Server(hang) as url, ApiClient(Credentials(url)) as client:
        with pytest.raises(Unavailable, match="no answer in time"):
            await client.get("/x", timeout_seconds=0.1)


async def test_overload_pauses_all_writes_but_a_refused_eviction_only_itself() -> None:
    async with FakeApi(PODS) as api, api.client() as client:
        api.fail(1, 429, status(429, "TooManyRequests", "disruption budget"), {"Retry-After": "10"})
        with pytest.raises(TooManyRequests) as caught:
            await client.create(f"{IN_A}/p/eviction", {})
        assert caught.value.retry_after == 10.0
        started = time.monotonic()
        await client.create(IN_A, {"metadata": {"name": "one"}})
        assert time.monotonic() - started < 0.5
        api.fail(1, 429, "Too many requests, please try again later.\n", {"Retry-After": "0.3"})
        with pytest.raises(TooManyRequests):
            await client.create(IN_A, {"metadata": {"name": "two"}})
        started = time.monotonic()
        await client.create(IN_A, {"metadata": {"name": "two"}})
        assert 0.25 < time.monotonic() - started < 2.0


async def test_writes_keep_to_their_rate_after_the_burst_and_reads_do_not_wait() -> None:
    limiter = RateLimiter(rate=100.0, burst=5)
    started = time.monotonic()
    await asyncio.gather(*(limiter.acquire() for _ in range(5)))
    assert time.monotonic() - started < 0.05
    await asyncio.gather(*(limiter.acquire() for _ in range(20)))
    assert 0.18 < time.monotonic() - started < 1.0


async def test_a_refused_token_is_read_anew_once() -> None:
    async def check(request: web.Request) -> web.Response:
        ok = request.headers.get("Authorization") == "Bearer good"
        return web.json_response({} if ok else status(401, "Unauthorized"), status=200 if ok else 401)

    forced: list[bool] = []

    def read(force: bool) -> str:
        forced.append(force)
        return "good" if force else "expired"

    async with Server(check) as url:
        async with ApiClient(Credentials(url, read)) as client:
            await client.get("/x")
            await client.get("/x")
            assert forced == [False, True]
        async with ApiClient(Credentials(url, lambda force: "bad")) as client:
            with pytest.raises(Unauthorized):
                await client.get("/x")


async def test_a_rotated_service_account_token_is_used_by_the_next_watch(tmp_path: Path, monkeypatch: Any) -> None:
    seen: list[str | None] = []

    async def record(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.Response(text='{"a":1}\n')

    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    token = tmp_path / "token"
    token.write_text("first\n")
    credentials = from_service_account(tmp_path)
    assert credentials.server == "https://127.0.0.1:443"
    async with Server(record) as url:
        credentials.server = url
        async with ApiClient(credentials) as client:
            await client.get("/x")
            token.write_text("second\n")
            monkeypatch.setattr(client._token, "_read_at", time.monotonic() - 2)
            assert [line async for line in client.stream("/x")] == [b'{"a":1}']
    assert seen == ["Bearer first", "Bearer second"]


def test_a_missing_service_account_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="expected to run in a pod"):
        from_service_account(tmp_path)


def kubeconfig(tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> str:
    path = tmp_path / "kubeconfig"
    contexts = [{"name": name, "context": {"cluster": "c", "user": name}} for name in ("one", "two")]
    users = [{"name": "one", "user": user}, {"name": "two", "user": {"token": "other"}}]
    clusters = [{"name": "c", "cluster": {"server": "https://example.test:6443", **(cluster or {})}}]
    content = {"apiVersion": "v1", "kind": "Config", "current-context": "one", "contexts": contexts, "users": users, "clusters": clusters}
    path.write_text(yaml.safe_dump(content))
    return str(path)


def test_a_kubeconfig_gives_server_token_and_context(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"token": "mine"}, {"insecure-skip-tls-verify": True, "tls-server-name": "inner"})
    credentials = from_kubeconfig(path)
    assert (credentials.server, credentials.insecure, credentials.tls_server_name) == ("https://example.test:6443", True, "inner")
    assert credentials.read_token(False) == "mine"
    assert credentials.read_token(True) == "mine"
    assert from_kubeconfig(path, "two").read_token(False) == "other"


def test_an_exec_plug_in_is_asked_again_when_its_token_is_refused(tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.write_text("")
    script = tmp_path / "plugin.sh"
    answer = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"token-%d"}}'
    script.write_text(f"#!/bin/sh\nprintf x >> {count}\nprintf '{answer}' $(wc -c < {count})\n")
    script.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script), "interactiveMode": "Never"}}
    credentials = from_kubeconfig(kubeconfig(tmp_path, user, {"insecure-skip-tls-verify": True}))
    first = credentials.read_token(False)
    assert first == "token-1"
    assert credentials.read_token(False) == first
    assert credentials.read_token(True) == "token-2"


@pytest.mark.parametrize(("context", "content"), [("missing", None), (None, "not: [a kubeconfig"), (None, ""), (None, "[1]")])
def test_an_unusable_kubeconfig_names_the_file(tmp_path: Path, context: str | None, content: str | None) -> None:
    path = kubeconfig(tmp_path, {"token": "mine"})
    if content is not None:
        Path(path).write_text(content)
    with pytest.raises(CredentialsError, match="expected a kubeconfig"):
        from_kubeconfig(path, context)


@pytest.mark.parametrize("broken", ["certificate-authority-data", "client-certificate-data"])
def test_an_unreadable_certificate_names_the_cluster(tmp_path: Path, broken: str) -> None:
    text = base64.b64encode(b"no certificate").decode()
    user = {broken: text, "client-key-data": text} if broken.startswith("client") else {}
    cluster = {} if user else {broken: text}
    with pytest.raises(CredentialsError, match=r"expected certificates and keys in PEM for https://.*, found: "):
        from_kubeconfig(kubeconfig(tmp_path, user, cluster), None).ssl_context()


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty home directory, outside of any pod."""
    monkeypatch.setattr(auth, "SERVICE_ACCOUNT", tmp_path / "none")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_no_kubeconfig_at_all_says_what_was_expected(outside: Path) -> None:
    with pytest.raises(CredentialsError, match=r"expected a kubeconfig in --kubeconfig, \$KUBECONFIG or ~/.kube/config, found none"):
        auth.load_credentials(None)


def test_the_kubeconfig_of_the_home_directory_is_found(outside: Path) -> None:
    (outside / ".kube").mkdir()
    Path(kubeconfig(outside, {"token": "home"}, {"insecure-skip-tls-verify": True})).rename(outside / ".kube" / "config")
    assert auth.load_credentials(None).read_token(False) == "home"


def test_a_pod_uses_its_service_account_and_not_a_kubeconfig_of_the_home_directory(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (outside / ".kube").mkdir()
    Path(kubeconfig(outside, {"token": "home"})).rename(outside / ".kube" / "config")
    (outside / "account").mkdir()
    (outside / "account" / "token").write_text("pod")
    monkeypatch.setattr(auth, "SERVICE_ACCOUNT", outside / "account")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = auth.load_credentials(None)
    assert (found.in_pod, found.read_token(False)) == (True, "pod")


@pytest.mark.parametrize("written", ["~/kubeconfig", "/nowhere/config:~/kubeconfig"])
def test_the_variable_kubeconfig_and_the_tilde_are_respected(outside: Path, monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    kubeconfig(outside, {"token": "variable"}, {"insecure-skip-tls-verify": True})
    monkeypatch.setenv("KUBECONFIG", written)
    assert auth.load_credentials(None).read_token(False) == "variable"
    monkeypatch.delenv("KUBECONFIG")
    assert auth.load_credentials("~/kubeconfig", "two").read_token(False) == "other"


async def test_a_process_in_a_pod_waits_for_its_api_server_and_says_so_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([Unavailable(0, "Unavailable", "refused"), Unavailable(0, "Unavailable", "refused"), None])

    async def get(self: ApiClient, path: str) -> bytes:
        answer = next(answers)
        if answer is not None:
            raise answer
        return b"{}"

    async def at_once(awaited: Any, _: float) -> None:
        awaited.close()
        raise TimeoutError

    monkeypatch.setattr(ApiClient, "get", get)
    monkeypatch.setattr(asyncio, "wait_for", at_once)
    async with ApiClient(Credentials("http://127.0.0.1:9", in_pod=True)) as client:
        await first_answer(client, asyncio.Event())
    assert [record.message for record in caplog.records] == ["waiting for the API server"]


async def test_outside_of_a_pod_an_api_server_that_does_not_answer_ends_the_process() -> None:
    async with ApiClient(Credentials("http://127.0.0.1:9")) as client:
        with pytest.raises(Unavailable):
            await first_answer(client, asyncio.Event())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=40).map(lambda each: each.replace(b"\n", b"x")), max_size=8), st.data())
def test_lines_of_a_stream_are_the_same_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    body = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=5)))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]

    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            if piece:
                await response.write(piece)
                await asyncio.sleep(0.001)
        return response

    async def play() -> list[bytes]:
        async with Server(cut) as url, ApiClient(Credentials(url)) as client:
            return [line async for line in client.stream("/x")]

    assert asyncio.run(play()) == lines


@pytest.mark.parametrize("encrypted", [False, True])
async def test_lines_that_follow_each_other_closely_are_read_together_and_the_first_one_at_once(encrypted: bool, tmp_path: Path) -> None:
    tls = None
    if encrypted:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(write_certificates(tmp_path) / "tls.crt", tmp_path / "tls.key")

    first = asyncio.Event()

    async def send(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"0\n")
        await first.wait()
        for line in (b"1\n", b"2\n", b"3\n"):
            await response.write(line)
            await asyncio.sleep(0.02)
        return response

    lists = []
    async with Server(send, tls) as url, ApiClient(Credentials(url, insecure=True)) as client:
        async for lines in client.stream_batches("/x", apart_seconds=1.0):
            lists.append(lines)
            first.set()
    assert lists == [[b"0"], [b"1", b"2", b"3"]]


async def test_where_very_much_comes_nothing_waits_to_be_read_together() -> None:
    body = b"".join(b"%08d" % number + b"x" * 4000 + b"\n" for number in range(1000))

    async def send(_: web.Request) -> web.Response:
        return web.Response(body=body)

    begun = time.monotonic()
    async with Server(send) as url, ApiClient(Credentials(url)) as client:
        found = [line async for lines in client.stream_batches("/x", apart_seconds=2.0) for line in lines]
    assert b"".join(line + b"\n" for line in found) == body
    assert time.monotonic() - begun < 10.0, "with a pause after each of its parts, of 64 to 256 KiB, it would take more than 30 s"


async def test_a_line_of_several_megabytes_arrives_whole() -> None:
    line = b'{"x":"' + b"y" * 5_000_000 + b'"}'

    async def send(_: web.Request) -> web.Response:
        return web.Response(body=line + b"\n")

    async with Server(send) as url, ApiClient(Credentials(url)) as client:
        assert [each async for each in client.stream("/x")] == [line]


async def test_a_silent_stream_is_unavailable_after_the_inactivity_timeout() -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{}\n")
        await asyncio.sleep(3600)
        return response

    async with Server(silent) as url, ApiClient(Credentials(url)) as client:
        stream = client.stream("/x", inactivity_seconds=0.1)
        assert await anext(stream) == b"{}"
        with pytest.raises(Unavailable):
            await anext(stream)
