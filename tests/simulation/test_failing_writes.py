"""An API server that answers every write with 500: the operator sends few writes, logs few lines, and recovers soon after."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from tests.simulation.connection import Session
from tests.simulation.run import simulate
from tests.simulation.scenario import Scenario

BEGINS = 20.0
MOST_WRITES_PER_SECOND, MOST_LINES_PER_SECOND = 10, 1


class Watched:
    """Counts writes (except those of leases) and log lines from INFO on, by minute since the failures began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writes: Counter[int] = Counter()
        self.lines: Counter[int] = Counter()
        exchange = Session._exchange

        async def counted(session: Any, method: str, path: str, *rest: Any) -> Any:
            if method != "GET" and "/leases" not in path:
                self.writes[_minute()] += 1
            return await exchange(session, method, path, *rest)

        monkeypatch.setattr(Session, "_exchange", counted)
        self._handler = logging.Handler()
        self._handler.emit = self._line  # type: ignore[method-assign]

    def __enter__(self) -> Watched:
        logger = logging.getLogger("fairburst")
        self._level = logger.level
        logger.setLevel(logging.INFO)
        logger.addHandler(self._handler)
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger("fairburst")
        logger.removeHandler(self._handler)
        logger.setLevel(self._level)

    def _line(self, _: logging.LogRecord) -> None:
        self.lines[_minute()] += 1


def _minute() -> int:
    return int((asyncio.get_running_loop().time() - BEGINS) // 60)


def batch_queues(number: int) -> Any:
    """Return a `shape` with so many throughput queues in Quota mode, with little work each."""

    def shape(scenario: Scenario) -> None:
        scenario.nodes, scenario.node_cpu = 50, 64
        scenario.tenants = [scenario._throughput(f"batch-{one}", 3200) for one in range(number)]
        for tenant in scenario.tenants:
            tenant.spec["enforcement"], tenant.every = "Quota", (200, 400)

    return shape


@pytest.mark.parametrize(
    ("queues", "minutes"),
    [
        pytest.param(60, 2, id="60 queues, 2 minutes"),
        pytest.param(1000, 30, id="1,000 queues, 30 minutes", marks=[pytest.mark.long, pytest.mark.timeout(7200)]),
    ],
)
def test_after_a_minute_of_500s_writes_and_log_lines_are_few(monkeypatch: pytest.MonkeyPatch, queues: int, minutes: int) -> None:
    with Watched(monkeypatch) as seen:
        result = simulate(1, chosen=lambda plan: [plan.failing_writes(BEGINS, 60.0 * minutes)], shape=batch_queues(queues))
    figures = f"writes by minute {dict(seen.writes)}, lines {dict(seen.lines)}"
    print(figures)
    assert not result.broken, figures
    assert seen.writes[0] > 0, "there was something to write"
    for minute in range(1, minutes):
        assert seen.writes[minute] <= 60 * MOST_WRITES_PER_SECOND, figures
        assert seen.lines[minute] <= 60 * MOST_LINES_PER_SECOND, figures
