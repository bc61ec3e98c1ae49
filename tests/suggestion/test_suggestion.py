"""Suggested declarations: they find the known periods and demands of generated bursts, and fit real traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.model import Periodic, Sporadic
from fairburst.sim.trace import read_trace
from fairburst.sim.workload import DagJob
from fairburst.suggestion.bursts import WorkHistory, bursts_of
from fairburst.suggestion.suggest import Suggestion, suggest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data folder is not beside the checkout")
RESOURCES = ("cpu", "memory")
CAPACITY = np.array([1000.0, 4000.0])
START = 1_000_000.0


def made(
    seed: int, *, period: float = 300.0, jitter: float = 8.0, pods: int = 40, cpu: float = 1.0, seconds: float = 35.0, count: int = 30,
    missing: float = 0.0, spread: float = 0.0, stagger: float = 0.0, base: float = 0.0,
) -> WorkHistory:  # fmt: skip
    """Bursts of `pods` pods a period; jitter and stagger in seconds, spread: relative deviation of the pods' number."""
    draw = np.random.default_rng(seed)
    begin, end, amounts = [], [], []
    for number in range(count):
        if number not in {0, count - 1} and draw.random() < missing:
            continue
        at = START + 50 + number * period + draw.uniform(-jitter, jitter) / 2
        size = max(1, round(pods * (1 + spread * draw.standard_normal())))
        late = draw.uniform(0, stagger, size)
        begin += (at + late).tolist()
        end += (at + late + seconds).tolist()
        amounts += [(cpu, 2 * cpu)] * size
    until = START + count * period + 100
    if base:
        begin, end, amounts = [*begin, START], [*end, until], [*amounts, (base, base)]
    return WorkHistory(np.array(begin), np.array(end), np.array(amounts), START, until)


def suggested(history: WorkHistory) -> Suggestion:
    found = suggest(bursts_of(history, CAPACITY), RESOURCES)
    assert isinstance(found, Suggestion), found
    return found


def test_bursts_of_forty_cpu_for_35_s_every_300_s_are_told_as_such() -> None:
    found = suggested(made(1))
    assert found.typical == pytest.approx({"cpu": 40.0, "memory": 80.0}, rel=0.02)
    assert (found.burst.duration_seconds, found.burst.deadline_seconds) == (35.0, 35.0)
    assert isinstance(found.arrival, Periodic)
    assert found.arrival.period_seconds == pytest.approx(300, abs=3)
    assert found.arrival.jitter_seconds <= 9
    assert found.every == pytest.approx(300, abs=3)


@given(
    seed=st.integers(0, 10**6),
    period=st.sampled_from([60.0, 300.0, 3600.0, 86400.0]),
    jitter=st.floats(0, 0.1),
    duty=st.floats(0.02, 0.3),
    pods=st.integers(5, 400),
    missing=st.floats(0, 0.2),
    spread=st.floats(0, 0.1),
    stagger=st.floats(0, 0.1),
    base=st.sampled_from([0.0, 1.0, 50.0]),
)
def test_the_period_is_found_within_5_and_the_demand_within_10_percent(
    seed: int, period: float, jitter: float, duty: float, pods: int, missing: float, spread: float, stagger: float, base: float
) -> None:
    seconds = max(2.0, duty * period)
    history = made(
        seed, period=period, jitter=jitter * period, pods=pods, seconds=seconds, missing=missing, spread=spread, stagger=stagger * seconds,
        base=base,
    )  # fmt: skip
    found = suggested(history)
    assert isinstance(found.arrival, Periodic)
    assert found.arrival.period_seconds == pytest.approx(period, rel=0.05)
    demand = found.typical["cpu"] * found.burst.duration_seconds
    assert demand == pytest.approx(pods * seconds, rel=0.1)
    assert found.burst.resources["cpu"] >= 0.99 * found.typical["cpu"]


@given(seed=st.integers(0, 10**6), mean=st.sampled_from([120.0, 1200.0]))
def test_bursts_at_random_times_are_sporadic(seed: int, mean: float) -> None:
    draw = np.random.default_rng(seed)
    at = START + 10 + np.cumsum(draw.exponential(mean, 60) + 30)
    history = WorkHistory(np.repeat(at, 10), np.repeat(at + 20, 10), np.ones((600, 2)), START, float(at[-1]) + 100)
    found = suggested(history)
    assert isinstance(found.arrival, Sporadic)
    assert 20 <= found.arrival.min_interarrival_seconds <= float(np.median(np.diff(at)))
    assert found.typical["cpu"] == pytest.approx(10, rel=0.1)


def test_two_stages_with_a_pause_are_one_burst() -> None:
    at = START + 10 + 600 * np.arange(8)
    begin = np.concatenate([at, at + 25])
    history = WorkHistory(begin, begin + 20, np.full((16, 2), 10.0), START, float(at[-1]) + 500)
    found = bursts_of(history, CAPACITY)
    assert len(found) == 8
    assert found.length == pytest.approx(np.full(8, 45.0))
    assert found.demand[:, 0] == pytest.approx(np.full(8, 400.0))


def test_a_burst_that_was_not_seen_whole_does_not_count() -> None:
    at = START - 10 + 100 * np.arange(8)
    history = WorkHistory(at, at + 20, np.full((8, 2), 10.0), START, float(at[-1]) + 5)
    assert bursts_of(history, CAPACITY).begin == pytest.approx(at[1:-1])


@pytest.mark.parametrize(
    ("history", "want"),
    [
        pytest.param(WorkHistory(np.zeros(0), np.zeros(0), np.zeros((0, 2)), 0.0, 100.0), "0 whole bursts", id="no work"),
        pytest.param(made(1, count=3), "3 whole bursts were seen; 5 are needed", id="too few"),
        pytest.param(
            WorkHistory(np.array([START]), np.array([START + 1000]), np.ones((1, 2)), START, START + 1000), "0 whole bursts", id="steady"
        ),
    ],
)
def test_without_enough_bursts_it_is_said_why(history: WorkHistory, want: str) -> None:
    found = suggest(bursts_of(history, CAPACITY), RESOURCES)
    assert isinstance(found, str)
    assert want in found


def history_of(jobs: list[DagJob]) -> WorkHistory:
    """Each job alone on an endless cluster: its stages one after the other."""
    begin, end, amounts = [], [], []
    for job in jobs:
        at = START + 1 + (job.arrival or 0.0)
        for stage in job.stages:
            begin.append(at)
            end.append(at + stage.seconds)
            amounts.append(np.array(stage.demand[:2]) * stage.tasks)
            at += stage.seconds
    return WorkHistory(np.array(begin), np.array(end), np.array(amounts), START, max(end) + 1)


@needs_data
@pytest.mark.parametrize(
    ("file", "trace_format", "part"),
    [
        ("azure-*-inference/*_code.csv", "azure", 600),
        ("azure-*-inference/*_conv.csv", "azure", 2000),
        ("swim/FB-2009_samples_24_times_1hr_0.tsv", "swim", 400),
        ("swim/FB-2010_samples_24_times_1hr_0.tsv", "swim", 400),
    ],
)
def test_what_is_suggested_for_real_work_fits_the_bursts_that_were_seen(file: str, trace_format: str, part: int) -> None:
    """Work of real services and batch clusters has no period. If it has bursts, 90 % of them fit the declaration."""
    jobs = list(read_trace(next(DATA.glob(file)), trace_format).jobs)[:part]
    seen = bursts_of(history_of(jobs), CAPACITY)
    found = suggest(seen, RESOURCES)
    print(file, found)  # shown by pytest -s
    if isinstance(found, str):
        assert "bursts were seen" in found or "ThroughputQueue" in found
        return
    assert isinstance(found.arrival, Sporadic)
    demand = np.array([found.burst.resources[name] for name in RESOURCES]) * found.burst.duration_seconds
    assert (seen.demand <= demand * (1 + 1e-9)).all(axis=1).mean() >= 0.9
    assert (seen.length <= found.burst.deadline_seconds + 0.5).mean() >= 0.9
