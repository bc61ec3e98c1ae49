"""/metrics, /healthz and /readyz."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from e2e.harness import samples_by_name
from fairburst.telemetry.metrics import Metrics
from fairburst.telemetry.web import WebServer


async def ask(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


async def test_probes_answer_what_is_wrong_and_metrics_are_prometheus_text() -> None:
    problems: dict[str, str | None] = {"health": None, "ready": "caches are not complete yet"}
    metrics = Metrics()
    metrics.rounds.inc()
    server = WebServer(metrics.registry, healthy=lambda: problems["health"], ready=lambda: problems["ready"])
    port = await server.start("127.0.0.1", 0)
    try:
        assert await ask(port, "/healthz") == (200, "ok")
        assert await ask(port, "/readyz") == (503, "caches are not complete yet")
        problems |= {"health": "no round ended for 31 s", "ready": None}
        assert await ask(port, "/healthz") == (503, "no round ended for 31 s")
        assert await ask(port, "/readyz") == (200, "ok")
        status, text = await ask(port, "/metrics")
        assert (status, "fairburst_rounds_total 1.0" in text) == (200, True)
        assert (await ask(port, "/else"))[0] == 404
    finally:
        await server.stop()


async def test_metrics_tell_what_the_process_uses() -> None:
    """Prometheus shows the operator's memory, and tasks that never end, without further tools."""
    server = WebServer(Metrics().registry, healthy=lambda: None, ready=lambda: None)
    port, hung = await server.start("127.0.0.1", 0), list[asyncio.Task[bool]]()
    try:
        before = samples_by_name((await ask(port, "/metrics"))[1])
        hung = [asyncio.create_task(asyncio.Event().wait()) for _ in range(50)]
        after = samples_by_name((await ask(port, "/metrics"))[1])
        assert before["process_resident_memory_bytes"] > 1e6
        assert after["fairburst_asyncio_tasks"] - before["fairburst_asyncio_tasks"] == pytest.approx(50, abs=5)
    finally:
        for task in hung:
            task.cancel()
        await server.stop()


async def test_a_server_that_was_never_started_stops_as_well() -> None:
    await WebServer(Metrics().registry, healthy=lambda: None, ready=lambda: None).stop()
