"""Shortest remaining demand first among soft queues, against an exhaustive search (one resource, preemptive)."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.model import GuaranteeClass, Sporadic
from tests.support.policy import Work, latency, run_fluid
from tests.support.profiles import horizons
from tests.support.strategies import START

CAPACITY = 4.0


def least_total_completion_time(jobs: list[tuple[int, int]]) -> int:
    """Least sum of completion times of (release, seconds) jobs on one machine, by trying every schedule second by second."""

    @cache
    def best(now: int, left: tuple[int, ...]) -> int:
        if not any(left):
            return 0
        ready = [job for job, (release, _) in enumerate(jobs) if release <= now and left[job]]
        if not ready:
            return best(min(jobs[job][0] for job in range(len(jobs)) if left[job]), left)
        choices = []
        for job in ready:
            after = tuple(rest - (other == job) for other, rest in enumerate(left))
            choices.append(best(now + 1, after) + (now + 1 if after[job] == 0 else 0))
        return min(choices)

    return best(0, tuple(seconds for _, seconds in jobs))


def completion_times(jobs: list[tuple[int, int]]) -> list[float]:
    """When bursts of soft queues, each of which can use everything, are done."""
    hard = latency("h/q", 0.0, [CAPACITY], 1.0, Sporadic(900.0))  # may take everything at any time, and does not: later queues are soft
    soft = [
        latency(f"s{number}/q", 1.0 + number, [CAPACITY], float(seconds), Sporadic(900.0), 100.0)
        for number, (_, seconds) in enumerate(jobs)
    ]
    work = [
        Work(spec.name, START + release, np.array([CAPACITY]), float(seconds)) for spec, (release, seconds) in zip(soft, jobs, strict=True)
    ]
    history = run_fluid((hard, *soft), [CAPACITY], work, START, START + 90)
    assert history.results[0].classes == (GuaranteeClass.HARD, *[GuaranteeClass.SOFT] * len(jobs))
    return [item.finished - START for item in work]


@horizons()
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 6)), min_size=1, max_size=4))
def test_no_schedule_has_a_lower_average_completion_time(jobs: list[tuple[int, int]]) -> None:
    assert sum(completion_times(jobs)) == pytest.approx(least_total_completion_time(jobs), abs=0.05)


def test_a_short_burst_interrupts_a_long_one() -> None:
    assert completion_times([(0, 6), (2, 1)]) == pytest.approx([7.0, 3.0], abs=0.01)


def test_a_burst_that_has_less_left_is_not_interrupted() -> None:
    assert completion_times([(0, 6), (4, 3)]) == pytest.approx([6.0, 9.0], abs=0.01)
