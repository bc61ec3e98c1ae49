"""A cluster with fairburst does as much work as one without: the same Jobs, on one new control plane after the other.

Small, so that it can be run anywhere; the figures for more sizes come from `python -m benchmarks.scale`.
"""

from __future__ import annotations

import pytest

from benchmarks.scale.run import run
from benchmarks.scale.scenarios import work
from tests.t1.conftest import unique_name

QUEUES, TASK_SECONDS, SECONDS = 5, 10.0, 80.0
# Two runs without fairburst differ by up to a percent, on a shared machine by more.
LEAST = {"Quota": 0.95, "Gate": 0.95, "Suspend": 0.85}

pytestmark = [pytest.mark.measure, pytest.mark.timeout(900)]


def test_as_much_work_is_done_in_every_mode() -> None:
    bare = run(unique_name("bare"), work(QUEUES, TASK_SECONDS), None, SECONDS)
    found = {mode: run(unique_name(mode.lower()), work(QUEUES, TASK_SECONDS), mode, SECONDS).used / bare.used for mode in LEAST}
    print({mode: round(ratio, 3) for mode, ratio in found.items()})
    assert bare.used > 0.9, "the Jobs keep the cluster busy"
    assert {mode: ratio >= LEAST[mode] for mode, ratio in found.items()} == dict.fromkeys(LEAST, True)
