"""Algorithms 1 and 2 of DRESS and equation 9, on small jobs that a person can check; and on all of them at once against one at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.dress.phases import Phases, find_phases
from fairburst.policy.dress.release import phase_release, released_fraction
from fairburst.policy.dress.values import DemandCategory, DressConfig, TaskTable
from tests.support.dress import Task, task_table

CONFIG = DressConfig(phase_window_seconds=10.0, start_threshold=5, end_threshold=5)


def task(job: str, number: int, started: float, ended: float | None, amount: float = 1.0) -> Task:
    return Task(f"{job}-{number}", job, DemandCategory.LARGE, np.array([amount]), started, ended)


def table(times: Sequence[tuple[float, float | None]], job: str = "j") -> TaskTable:
    return task_table([task(job, number, *pair) for number, pair in enumerate(times)], 1)


def one_per_second(count: int, seconds: float, until: float) -> list[tuple[float, float | None]]:
    """`count` tasks started a second apart from 0 on, each `seconds` long, as seen at `until`."""
    ends = [start + seconds for start in range(count)]
    return [(float(start), end if end <= until else None) for start, end in enumerate(ends)]


def test_start_variation_is_the_time_between_the_first_and_the_last_start() -> None:
    phases = find_phases(table(one_per_second(8, 100.0, 20.0)), CONFIG, 20.0)
    assert phases.variation.tolist() == [7.0]
    assert phases.occupied.tolist() == [[8.0]]
    assert math.isnan(phases.first_finish[0])


def test_nothing_is_expected_before_the_first_tasks_have_ended() -> None:
    phases = find_phases(table(one_per_second(8, 100.0, 20.0)), CONFIG, 20.0)
    assert phase_release(phases, 20.0, 1000.0).tolist() == [[0.0]]


def test_release_follows_the_starts_once_more_than_the_threshold_have_ended() -> None:
    """20 tasks, a second apart, 100 s each: six have ended at 105 s, so γ = 100 and Δps = 19, hence 20/19 a second."""
    phases = find_phases(table(one_per_second(20, 100.0, 105.0)), CONFIG, 105.0)
    assert phases.first_finish.tolist() == [100.0]
    assert phase_release(phases, 105.0, 4.0)[0, 0] == pytest.approx(20 / 19 * 4)
    assert phase_release(phases, 105.0, 1000.0)[0, 0] == pytest.approx(14.0)


def test_five_ends_are_not_more_than_the_threshold_of_five() -> None:
    phases = find_phases(table(one_per_second(20, 100.0, 104.0)), CONFIG, 104.0)
    assert math.isnan(phases.first_finish[0])


def test_starts_a_window_apart_are_two_phases() -> None:
    times = one_per_second(8, 300.0, 60.0) + [(start + 17.0, end) for start, end in one_per_second(8, 300.0, 60.0)]
    phases = find_phases(table(times), CONFIG, 60.0)
    assert phases.variation.tolist() == [7.0, 7.0]


def test_heading_tasks_do_not_begin_the_release() -> None:
    """Fig. 3: two underloaded tasks end after 1 s, the others take 18 s."""
    times: list[tuple[float, float | None]] = [(0.0, 1.0), (0.5, 1.5)]
    times += [(start * 0.5, 18.0 + start * 0.5) for start in range(10)]
    phases = find_phases(table(times), CONFIG, 25.0)
    assert phases.first_finish.tolist() == [18.0]


def test_trailing_tasks_are_carried_into_the_next_phase() -> None:
    """Fig. 4: one task of the first phase runs on; the second phase's release counts it."""
    first: list[tuple[float, float | None]] = [(0.0, 20.0)] * 9 + [(0.0, None)]
    second: list[tuple[float, float | None]] = [(21.0, None)] * 8
    phases = find_phases(table(first + second), CONFIG, 35.0)
    assert phases.occupied.tolist() == [[9.0], [9.0]]
    assert phases.running.tolist() == [[0.0], [9.0]]


def test_a_job_of_five_tasks_is_too_small_to_have_a_phase() -> None:
    """t_s = 5: Algorithm 1 cannot see such a job and estimates 0; the learned estimator covers it."""
    assert len(find_phases(table([(0.0, 20.0)] * 5), CONFIG, 25.0).job) == 0


@pytest.mark.parametrize(
    ("variation", "time", "want"),
    [
        pytest.param(10.0, 99.0, 0.0, id="before the first finish"),
        pytest.param(10.0, 105.0, 0.5, id="half way"),
        pytest.param(10.0, 110.0, 1.0, id="at the end"),
        pytest.param(10.0, 200.0, 1.0, id="afterwards it stays released: printed 0"),
        pytest.param(0.0, 99.9, 0.0, id="no variation: before the step"),
        pytest.param(0.0, 100.0, 1.0, id="no variation: a step"),
    ],
)
def test_released_fraction(variation: float, time: float, want: float) -> None:
    one = np.array([[1.0]])
    phases = Phases(np.array([0]), np.array([False]), np.array([variation]), np.array([100.0]), one, one, 0)
    assert released_fraction(phases, time).tolist() == [want]


class TestBadInput:
    def test_a_task_that_ends_before_it_starts_is_left_out_and_counted(self) -> None:
        phases = find_phases(table([*one_per_second(8, 100.0, 20.0), (50.0, 40.0)]), CONFIG, 60.0)
        assert phases.odd == 1
        assert phases.occupied.tolist() == [[8.0]]

    def test_starts_after_a_clock_that_stepped_back_count_as_now(self) -> None:
        phases = find_phases(table(one_per_second(8, 100.0, 0.0)), CONFIG, 3.0)
        assert phases.variation.tolist() == [3.0]
        assert phases.running.tolist() == [[8.0]]

    def test_ends_after_the_clock_have_not_happened(self) -> None:
        phases = find_phases(table([(0.0, 20.0)] * 8), CONFIG, 10.0)
        assert phases.running.tolist() == [[8.0]]
        assert math.isnan(phases.first_finish[0])

    def test_no_tasks_have_no_phases(self) -> None:
        assert len(find_phases(task_table([], 2), CONFIG, 0.0).job) == 0


times = st.tuples(st.integers(0, 60), st.one_of(st.none(), st.integers(0, 40)))


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(times, max_size=20), max_size=4), st.integers(0, 90))
def test_all_jobs_at_once_are_each_job_by_itself(jobs: dict[str, list[tuple[int, int | None]]], now: int) -> None:
    def tasks_of(job: str) -> list[Task]:
        return [
            task(job, at, float(start), None if length is None else float(start + length)) for at, (start, length) in enumerate(jobs[job])
        ]

    together = find_phases(task_table([one for job in jobs for one in tasks_of(job)], 1), CONFIG, float(now))
    alone = [find_phases(task_table(tasks_of(job), 1), CONFIG, float(now)) for job in sorted(jobs)]
    for name in ("variation", "first_finish", "occupied", "running"):
        want = [value for phases in alone for value in getattr(phases, name).ravel().tolist()]
        assert np.array_equal(getattr(together, name).ravel(), np.array(want), equal_nan=True)


@given(st.lists(times, max_size=30), st.integers(0, 90), st.integers(0, 60))
def test_never_more_is_expected_than_runs(pairs: list[tuple[int, int | None]], now: int, ahead: int) -> None:
    ends = [(float(start), None if length is None else float(start + length)) for start, length in pairs]
    running = sum(1 for start, end in ends if end is None or end > now)
    phases = find_phases(table(ends), CONFIG, float(now))
    assert 0 <= phase_release(phases, float(now), float(ahead)).sum() <= running
