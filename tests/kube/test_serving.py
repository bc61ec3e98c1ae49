"""What the operator serves while its event loop is busy with a round."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.certificates import write_certificates
from fairburst.config import Config, parse_config
from fairburst.kube.admission.server import PATH, AdmissionServer, QueuesIn
from fairburst.kube.api.served_certificate import CertificateError
from fairburst.kube.queues.queue_store import QueueStore
from fairburst.kube.serving import serving
from fairburst.kube.side_thread import SideThread
from fairburst.telemetry.metrics import Metrics
from tests.support.costs import ratios_of

ROUND_SECONDS = 1.0
FEWEST = 5  # answers within a round; a hundred or more come on a machine that does nothing else
METRICS = "metrics: {host: 127.0.0.1, port: 0}"


def config_of(folder: Path) -> Config:
    webhook = {"enabled": True, "host": "127.0.0.1", "port": 0, "certificates": str(folder), "serverName": "localhost"}
    return parse_config(json.dumps({"webhook": webhook, "metrics": {"host": "127.0.0.1", "port": 0}}))


@contextlib.asynccontextmanager
async def served(config: Config, queues: QueuesIn) -> AsyncIterator[int]:
    async with SideThread() as aside, serving(config, Metrics(), aside, healthy=lambda: None, ready=lambda: None, queues=queues) as port:
        yield port


def queue(namespace: str, number: int, priority: int = 1) -> dict[str, Any]:
    metadata = {"namespace": namespace, "name": "queue", "uid": str(number), "resourceVersion": str(number)}
    pod_priority = {"className": "fairburst-elastic", "value": priority, "preemptionPolicy": "Never"}
    return {"metadata": metadata, "spec": {}, "status": {"podPriority": pod_priority}}


def review(namespace: str) -> dict[str, Any]:
    pod = {"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "c"}]}}
    return {"uid": "u", "namespace": namespace, "resource": {"resource": "pods"}, "operation": "CREATE", "object": pod}


def answers_during_a_round(ask: Callable[[], int]) -> list[int]:
    """Keep this thread as busy as a round does, and return the statuses of the answers that came meanwhile."""
    began, over, statuses = threading.Event(), threading.Event(), list[int]()

    def keep_asking() -> None:
        while not over.is_set():
            status = ask()
            if began.is_set() and not over.is_set():
                statuses.append(status)

    asking = threading.Thread(target=keep_asking)
    asking.start()
    began.set()
    end = time.monotonic() + ROUND_SECONDS
    while time.monotonic() < end:
        pass
    over.set()
    asking.join()
    return statuses


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_probes_and_metrics_are_answered_during_a_round(path: str) -> None:
    async with served(parse_config(METRICS), lambda _: None) as port:

        def ask() -> int:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                return answer.status

        statuses = answers_during_a_round(ask)
    assert len(statuses) >= FEWEST
    assert set(statuses) == {200}


async def test_the_api_server_is_answered_during_a_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, start = list[int](), AdmissionServer.start

    async def noted(server: AdmissionServer) -> int:
        started.append(await start(server))
        return started[0]

    monkeypatch.setattr(AdmissionServer, "start", noted)
    config, store = config_of(write_certificates(tmp_path)), QueueStore()
    store.offer("ThroughputQueue", queue("here", 1))
    trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    trusted.verify_flags = ssl.VERIFY_DEFAULT
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": review("here")})
    async with served(config, store.copy_of):
        connection = http.client.HTTPSConnection("localhost", started[0], context=trusted, timeout=60)

        def ask() -> int:
            connection.request("POST", PATH, body)
            answer = connection.getresponse()
            patch = json.loads(answer.read())["response"]["patch"]
            assert "fairburst-elastic" in base64.b64decode(patch).decode()
            return answer.status

        statuses = answers_during_a_round(ask)
        connection.close()
    assert len(statuses) >= FEWEST
    assert set(statuses) == {200}


async def test_a_webhook_without_a_certificate_is_an_error_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match=r"expected tls\.crt and tls\.key"):
        async with served(config_of(tmp_path), lambda _: None):
            pass
    assert all(thread.name != "side" for thread in threading.enumerate())


async def test_results_and_errors_of_the_thread_come_back_and_its_tasks_end_with_it() -> None:
    left = list[str]()

    async def where() -> str:
        return threading.current_thread().name

    async def fail() -> None:
        raise ValueError("there")

    async def begin() -> asyncio.Task[None]:
        return asyncio.create_task(endless())

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.append("ended")

    async with SideThread() as aside:
        assert await aside(where()) == "side"
        with pytest.raises(ValueError, match="there"):
            await aside(fail())
        task = await aside(begin())
        await aside(asyncio.sleep(0))
    assert (task.cancelled(), left) == (True, ["ended"])


def test_what_a_review_costs_does_not_grow_with_other_namespaces() -> None:
    """To look through all queues took 9 ms at 10,000, for each pod that was created."""

    def reviews(namespaces: int) -> Callable[[], None]:
        store = QueueStore()
        for number in range(namespaces):
            store.offer("ThroughputQueue", queue(f"n-{number}", number))
        server = AdmissionServer(Config(), Metrics(), store.copy_of)

        def answer() -> None:
            for _ in range(300):
                assert server.patch_of(review("n-5"))

        return answer

    ratios = ratios_of(reviews(10_000), reviews(10), 2.0)
    assert min(ratios) <= 2.0, ratios
