"""Observed runs of Jobs: sizes, durations, progress, and which finished run may teach a curve."""

from __future__ import annotations

from typing import Any

import pytest

from fairburst.curves.runs import Run
from fairburst.kube.api.objects import Job, Pod
from fairburst.kube.jobs.job_runs import JobRuns
from tests.support.objects import job, pod


def phase(name: str, phase_: str, owner: str = "job", **metadata: Any) -> Pod:
    return pod("batch", name, owner=("Job", owner), node="node-0", phase=phase_, **metadata)


JOB = job("batch", "job")


class Watch:
    """Feeds a Job's pods as a watch would."""

    def __init__(self) -> None:
        self.runs = JobRuns()
        self.now = 100.0
        self.pods: dict[str, Pod] = {}

    def start(self, *names: str, watched: bool = True) -> None:
        for name in names:
            pending, running = phase(name, "Pending"), phase(name, "Running")
            if watched:
                self.runs.pod_changed(None, pending, self.now, watched=True)
            self.runs.pod_changed(pending if watched else None, running, self.now, watched=watched)
            self.pods[name] = running

    def end(self, *names: str, deleted: bool = False) -> None:
        for name in names:
            old = self.pods.pop(name)
            if deleted:
                old = phase(name, "Running", deletionTimestamp="2026-01-01T00:00:00Z")
            self.runs.pod_changed(old, None, self.now, watched=True)

    def wave(self, count: int, seconds: float, first: int = 0) -> None:
        names = [f"p{number}" for number in range(first, first + count)]
        self.start(*names)
        self.now += seconds
        self.end(*names)


def test_a_run_of_one_size_is_its_size_and_the_time_from_first_start_to_last_end() -> None:
    watch = Watch()
    watch.wave(4, 10.0)
    watch.now += 1.0  # the Job controller takes its time
    watch.wave(4, 10.0, first=4)
    watch.now += 5.0  # until the Job is marked complete
    assert watch.runs.finished(JOB, watch.now) == Run(4, 21.0)
    assert watch.runs.finished(JOB, watch.now) is None, "it is forgotten"


def test_a_last_wave_that_does_not_fill_the_slots_does_not_change_the_size() -> None:
    watch = Watch()
    for number in range(4):
        watch.wave(8, 10.0, first=8 * number)
    watch.wave(3, 10.0, first=90)
    assert watch.runs.finished(JOB, watch.now) == Run(8, 50.0)


def test_a_run_that_was_resized_half_way_teaches_nothing() -> None:
    watch = Watch()
    watch.wave(8, 10.0)
    watch.wave(4, 10.0, first=8)
    assert watch.runs.finished(JOB, watch.now) is None


def test_a_run_that_was_not_watched_from_its_start_teaches_nothing() -> None:
    listed, late = Watch(), Watch()
    listed.start("p0", watched=False)
    listed.now += 10.0
    listed.end("p0")
    assert listed.runs.finished(JOB, listed.now) is None
    late.start("p1")
    late.pods["p0"] = phase("p0", "Running")  # ran before the first look
    late.now += 10.0
    late.end("p0", "p1")
    assert late.runs.finished(JOB, late.now) is None


def test_a_run_of_which_pods_had_completed_before_anybody_looked_teaches_nothing() -> None:
    watch = Watch()
    watch.start("p")
    watch.runs.job_changed(seen(7), watch.now)
    watch.now += 10.0
    watch.end("p")
    assert watch.runs.finished(JOB, watch.now) is None


def test_a_run_nobody_saw_a_pod_of_teaches_nothing() -> None:
    assert JobRuns().finished(JOB, 1.0) is None


def test_pods_of_other_owners_are_none_of_our_business() -> None:
    runs = JobRuns()
    runs.pod_changed(phase("p", "Pending"), pod("batch", "p", phase="Running", node="n"), 1.0, watched=True)
    assert runs.finished(job("batch", "batch/p"), 2.0) is None


def test_pods_that_have_run_for_half_their_time_are_about_to_complete() -> None:
    watch = Watch()
    watch.start("old")
    assert watch.runs.completing(JOB, watch.now + 1e6) == 0, "it is not known yet how long a pod takes"
    watch.wave(2, 10.0)
    watch.start("young")
    watch.now += 4.0
    assert watch.runs.completing(JOB, watch.now) == 1
    watch.now += 2.0
    assert watch.runs.completing(JOB, watch.now) == 2


def test_a_pod_that_was_deleted_says_nothing_of_how_long_pods_take() -> None:
    watch = Watch()
    watch.start("victim", "other")
    watch.now += 1.0
    watch.end("victim", deleted=True)
    watch.now += 99.0
    assert watch.runs.completing(JOB, watch.now) == 0


def seen(succeeded: int, parallelism: int = 4) -> Job:
    return job("batch", "job", parallelism, completions=100, status={"succeeded": succeeded})


def test_progress_is_the_rate_of_work_done_against_that_of_the_job_alone() -> None:
    watch = Watch()
    watch.start("p")
    for second in range(0, 50, 10):
        watch.runs.job_changed(seen(second // 10 * 2), watch.now + second)
    assert watch.runs.progress(seen(8), 400.0, watch.now + 40.0) == pytest.approx(400.0 * 8 / 100 / 40.0)
    assert watch.runs.progress(seen(8), None, watch.now + 40.0) is None


def test_progress_is_measured_anew_at_a_new_size() -> None:
    watch = Watch()
    watch.start("p")
    for second in range(0, 50, 10):
        watch.runs.job_changed(seen(second // 10), watch.now + second)
    watch.runs.job_changed(seen(5, parallelism=8), watch.now + 50.0)
    assert watch.runs.progress(seen(5, parallelism=8), 400.0, watch.now + 50.0) is None


def test_nothing_is_kept_of_jobs_that_are_gone() -> None:
    watch = Watch()
    watch.start(*(f"p{number}" for number in range(50)))
    watch.runs.forget(JOB)
    assert watch.runs.completing(JOB, watch.now) == 0
    watch.end(*list(watch.pods))
    assert watch.runs.finished(JOB, watch.now) is None


def test_a_pod_of_another_namespace_is_none_of_the_jobs_whatever_it_says() -> None:
    watch = Watch()
    watch.start("p0", "p1")
    for number in range(20):
        forged = pod("elsewhere", f"p{number}", owner=("Job", "job"), node="node-0", phase="Running")
        watch.runs.pod_changed(pod("elsewhere", f"p{number}", owner=("Job", "job")), forged, watch.now, watched=True)
    watch.now += 10.0
    watch.end("p0", "p1")
    assert watch.runs.finished(JOB, watch.now) == Run(2, 10.0)
