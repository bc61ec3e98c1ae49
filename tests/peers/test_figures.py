"""The figures of a run against plain expectations."""

from __future__ import annotations

import math

import pytest

from benchmarks.peers import figures
from benchmarks.peers.audit import JobLife, PodLife
from benchmarks.peers.figures import SentBurst


def pod(queue: str, bound: float, ended: float | None = None, killed: float | None = None) -> PodLife:
    return PodLife(queue, "job-1", bound, bound, ended, killed)


def job(created: float, *pods: PodLife) -> JobLife:
    return JobLife(created, list(pods), len(pods), sum(each.ended is not None for each in pods))


def test_a_burst_counts_from_its_first_job_to_its_last_pod() -> None:
    jobs = {("q", "a"): job(10.0, pod("q", 12.0, 30.0)), ("q", "b"): job(10.5, pod("q", 15.0, 33.0), pod("q", 11.0, 29.0))}
    times = figures.burst_times(SentBurst("q", ("a", "b"), 3, 25.0), jobs)
    assert (times.bound, times.done, times.met) == (5.0, 23.0, True)
    assert times.pod_waits == (1.0, 2.0, 5.0)
    assert not figures.burst_times(SentBurst("q", ("a", "b"), 3, 22.0), jobs).met


def test_a_burst_that_is_not_whole_has_no_last_pod() -> None:
    jobs = {("q", "a"): job(10.0, pod("q", 12.0, 30.0))}
    times = figures.burst_times(SentBurst("q", ("a",), 2, 25.0), jobs)
    assert (times.bound, times.done, times.met) == (math.inf, math.inf, False)


def test_a_burst_that_never_arrived_was_missed() -> None:
    assert not figures.burst_times(SentBurst("q", ("a",), 2, 25.0), {}).met


def test_a_killed_pod_of_a_burst_does_not_count_its_successor_does() -> None:
    jobs = {("q", "a"): job(10.0, pod("q", 12.0, killed=14.0), pod("q", 20.0, 30.0))}
    times = figures.burst_times(SentBurst("q", ("a",), 1, 25.0), jobs)
    assert (times.bound, times.done) == (10.0, 20.0)


def test_places_are_held_from_binding_to_end_within_the_interval() -> None:
    pods = [pod("a", 0.0, 10.0), pod("a", 8.0), pod("b", 6.0, killed=9.0), pod("b", 30.0, 40.0)]
    assert figures.place_seconds(pods, 5.0, 20.0) == {"a": 5.0 + 12.0, "b": 3.0}


def test_lost_work_is_what_killed_pods_had_run() -> None:
    assert figures.lost_seconds([pod("a", 0.0, 10.0), pod("a", 2.0, killed=9.0), pod("b", 4.0, killed=5.5)]) == 8.5


def test_backlogged_queues_are_entitled_to_what_all_of_them_held_by_weight() -> None:
    held = {"burst": 100.0, "a": 60.0, "b": 40.0}
    assert figures.fairness_errors(held, {"burst": 1.0, "a": 1.0, "b": 1.0}, ["a", "b"], 200.0) == {"a": 0.05, "b": 0.05}
    assert figures.fairness_errors(held, {"burst": 1.0, "a": 3.0, "b": 2.0}, ["a", "b"], 200.0) == {"a": 0.0, "b": 0.0}


def test_a_queue_that_got_nothing_is_the_largest_error() -> None:
    assert figures.fairness_errors({"a": 100.0}, {"a": 1.0, "b": 1.0}, ["a", "b"], 100.0) == {"a": 0.5, "b": 0.5}


def test_excess_is_beyond_the_weights_part_of_the_whole_cluster() -> None:
    assert figures.excess_over_fair(30.0, 1.0, [1.0, 1.0, 2.0], 100.0) == pytest.approx(0.05)


def test_bindings_a_second_count_from_the_first_job() -> None:
    jobs = [job(0.0, pod("a", 1.0), pod("a", 2.0)), job(1.0, pod("a", 4.0)), job(2.0)]
    assert figures.bound_per_second(jobs) == 0.75
    assert figures.bound_per_second([]) == 0.0


def test_the_makespan_ends_with_the_last_pod() -> None:
    assert figures.last_end([job(1.0, pod("a", 2.0, 11.0)), job(2.0, pod("a", 3.0, 8.0))]) == 10.0
    assert figures.last_end([job(1.0, pod("a", 2.0))]) == math.inf


def test_a_job_takes_until_its_last_pod_ends() -> None:
    jobs = [
        job(0.0, pod("a", 1.0, 5.0), pod("a", 2.0, 8.0)),
        job(2.0, pod("a", 3.0, 6.0), pod("a", 3.0, 6.0)),
        job(0.0, pod("a", 1.0, 90.0)),
    ]
    assert figures.mean_job_seconds(jobs, 2) == 6.0
    assert math.isnan(figures.mean_job_seconds(jobs, 7))


def test_percentiles_are_of_the_values_themselves() -> None:
    assert [figures.percentile([4.0, 1.0, 3.0, 2.0], part) for part in (0.0, 0.5, 0.75, 0.95, 1.0)] == [1.0, 2.0, 3.0, 4.0, 4.0]
    assert math.isnan(figures.percentile([], 0.5))
