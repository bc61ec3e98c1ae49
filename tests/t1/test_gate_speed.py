"""How fast gates are removed, compared with a bare loop of the same patches: the figures of docs/benchmarks.md, as claims."""

from __future__ import annotations

import pytest

from benchmarks.gate import gate_path

pytestmark = pytest.mark.long


@pytest.mark.timeout(900)
def test_gates_come_off_at_the_pace_of_the_api_server_and_soon_after_the_pods_event() -> None:
    """1,000 pods at once and 100 a second. Figures in milliseconds need an otherwise idle machine."""
    found = list(gate_path(1_000, 1_000, 100.0))
    for measurement in found:
        print(measurement)
    assert [measurement.name for measurement in found if not measurement.ok] == []
