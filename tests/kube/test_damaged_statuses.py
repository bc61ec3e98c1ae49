"""A status that another client has damaged is repaired, so that the next leader can read it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairburst.kube.usage.weekly_use import WeekSums
from fairburst.kube.views.status_memory import memory_of
from fairburst.kube.views.status_plan import StatusPlanner
from tests.support.fake_api import merge_patch
from tests.support.objects import WALL, stored_queue
from tests.support.status_inputs import RESOURCES, latency_memory, status_input


def _out_of_range(value: Any) -> Any:
    """Return the value with times that the CRD admits and no clock shows."""
    if isinstance(value, dict):
        return {key: _out_of_range(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_out_of_range(inner) for inner in value]
    return "9999-12-31T23:59:59Z" if isinstance(value, str) and value.startswith("20") else value


@pytest.mark.parametrize("part", ["conditions", "week", "internal"])
def test_nothing_is_kept_of_a_status_that_another_client_made_unreadable(part: str) -> None:
    planner, memory = StatusPlanner(5.0), latency_memory()
    item = replace(status_input(memory), week=WeekSums(WALL - 600, WALL, (1.0, 2.0, 1.0, 1.0), None))
    ((write,), _) = planner.plan([item], RESOURCES, WALL, 100.0)
    planner.written(write, 100.0)
    stored = dict(write.patch)
    item.entry.obj["status"] = stored | {part: _out_of_range(stored[part])}  # type: ignore[index]
    ((write,), _) = planner.plan([item], RESOURCES, WALL, 105.0)
    assert memory_of(stored_queue("LatencyQueue", "burst", "queue", status=merge_patch(item.entry.obj["status"], write.patch))) == memory
