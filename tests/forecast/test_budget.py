"""A long forecast uses little processor time at once, however the operating system schedules priorities."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.forecast import budget as limits
from fairburst.forecast.budget import Budget, OutOfTimeError


class Machine:
    """Two clocks and one processor, all simulated."""

    def __init__(self) -> None:
        self.processor = self.clock = 100.0

    def work(self, seconds: float) -> None:
        self.processor += seconds
        self.clock += seconds

    def sleep(self, seconds: float) -> None:
        self.clock += seconds

    def budget(self, enough: float, pace: float) -> Budget:
        return Budget(enough, pace, processor=lambda: self.processor, clock=lambda: self.clock, sleep=self.sleep)


@given(steps=st.lists(st.floats(0.001, 0.5), min_size=1, max_size=100), pace=st.floats(0.02, 1.0))
def test_a_forecast_keeps_to_its_pace(steps: list[float], pace: float) -> None:
    machine = Machine()
    budget = machine.budget(1.5, pace)
    for step in steps:
        machine.work(step)
        try:
            budget.check()
        except OutOfTimeError:
            break
        assert budget.spent <= limits.AT_ONCE_SECONDS + pace * (machine.clock - 100.0) + 1e-6
    assert machine.clock - 100.0 <= 2 * limits.MOST_SECONDS


def test_a_short_forecast_is_not_made_late() -> None:
    machine = Machine()
    budget = machine.budget(1.5, 0.05)
    for _ in range(25):
        machine.work(0.12)
        budget.check()
    assert machine.clock - 100.0 == pytest.approx(3.0)


def test_the_most_that_a_forecast_may_take_fits_its_time_at_the_default_pace() -> None:
    machine = Machine()
    budget = machine.budget(1.5, 0.05)
    while budget.spent < limits.MOST_PROCESSOR_SECONDS - 0.01:
        machine.work(0.01)
        budget.check()
    machine.work(0.01)
    with pytest.raises(OutOfTimeError):
        budget.check()
    assert budget.spent == pytest.approx(limits.MOST_PROCESSOR_SECONDS, abs=0.02)


def test_the_process_loads_neither_the_client_nor_the_operators_settings() -> None:
    """The forecaster starts where work waits, so on a busy machine: these modules would add a second to its start."""
    unwanted = "'aiohttp', 'pydantic', 'fairburst.kube.engine'"
    program = f"import sys, fairburst.forecast.__main__; print([name for name in ({unwanted}) if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"
