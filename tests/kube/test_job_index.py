"""Pods as tasks of jobs: against a model that remembers everything, and under odd clocks, deletions and namesakes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.api.objects import Pod
from fairburst.kube.jobs.job_index import JobIndex, job_key
from tests.support.objects import WALL, pod

KEEP = 20.0
SHAPE = (1000, 2000)
Task = tuple[str, float, float]


def task_pod(
    number: int,
    job: str = "work",
    *,
    phase: str = "Pending",
    started: str | None = None,
    size: str = "large",
    uid: str = "",
    **metadata: Any,
) -> Pod:
    stored = pod("batch", f"p{number}", owner=("Job", job), node="node-0" if phase != "Pending" else "", phase=phase, **metadata)
    stored.metadata.uid = uid or f"uid-{number}"
    stored.spec.priority_class_name = f"fairburst-{size}"
    stored.status.start_time = started or ("2026-01-01T00:00:00Z" if phase != "Pending" else None)
    return stored


def index(followed: tuple[str, ...] = ("batch",)) -> JobIndex:
    fresh = JobIndex(("cpu", "memory"), KEEP)
    fresh.follow(frozenset(followed), (), WALL, 0.0)
    return fresh


def run(jobs: JobIndex, number: int, start: float, end: float | None = None, job: str = "work", **more: Any) -> None:
    """A pod comes, starts at `start` seconds and, if told, ends at `end`."""
    waiting, running = task_pod(number, job, **more), task_pod(number, job, phase="Running", **more)
    jobs.update(None, waiting, SHAPE, WALL + start, start)
    jobs.update(waiting, running, SHAPE, WALL + start, start)
    if end is not None:
        jobs.update(running, None, SHAPE, WALL + end, end)


def times(jobs: JobIndex, now: float, wall: float | None = None) -> list[tuple[float, float]]:
    """(started, ended) of every task, seconds after WALL, ended infinite while it runs."""
    table = jobs.tasks(WALL + now if wall is None else wall, now)
    ended = [math.inf if math.isnan(one) else one - WALL for one in table.ended.tolist()]
    return sorted((round(one - WALL, 6), round(end, 6)) for one, end in zip(table.started.tolist(), ended, strict=True))


def test_a_task_has_the_times_at_which_we_saw_it_start_and_end() -> None:
    jobs = index()
    run(jobs, 1, 10.0, 25.5)
    run(jobs, 2, 11.25)
    assert times(jobs, 30.0) == [(10.0, 25.5), (11.25, math.inf)]
    table = jobs.tasks(WALL + 30.0, 30.0)
    assert table.request.tolist() == [[1.0, 2.0]] * 2
    assert len(set(table.job.tolist())) == 1


def test_a_task_that_ran_before_we_looked_has_the_time_that_its_pod_says() -> None:
    jobs = index()
    jobs.update(None, task_pod(1, phase="Running", started="2026-01-01T00:00:07Z"), SHAPE, WALL + 30.0, 1030.0)
    assert times(jobs, 1030.0, WALL + 30.0) == [(7.0, math.inf)]


def test_a_start_in_the_future_is_now() -> None:
    jobs = index()
    jobs.update(None, task_pod(1, phase="Running", started="2026-01-02T00:00:00Z"), SHAPE, WALL + 30.0, 30.0)
    assert times(jobs, 30.0) == [(30.0, math.inf)]


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_a_step_of_the_wall_clock_changes_no_duration(step: float) -> None:
    jobs = index()
    run(jobs, 1, 10.0)
    stored = task_pod(1, phase="Running")
    jobs.update(stored, None, SHAPE, WALL + 22.0 + step, 22.0)
    ((started, ended),) = times(jobs, 25.0, WALL + 25.0 + step)
    assert ended - started == pytest.approx(12.0)


def test_ended_tasks_are_dropped_after_a_while() -> None:
    jobs = index()
    run(jobs, 1, 0.0, 10.0)
    run(jobs, 2, 0.0)
    jobs.expire(10.0 + KEEP - 0.1)
    assert len(jobs) == 2
    jobs.expire(10.0 + KEEP)
    assert times(jobs, 40.0) == [(0.0, math.inf)]


def test_a_task_that_is_deleted_in_mid_phase_leaves_nothing_behind() -> None:
    """Its end says nothing about how long such tasks run."""
    jobs = index()
    run(jobs, 1, 0.0)
    running = task_pod(1, phase="Running")
    dying = task_pod(1, phase="Running", deletionTimestamp="2026-01-01T00:01:00Z")
    jobs.update(running, dying, SHAPE, WALL + 5.0, 5.0)
    jobs.update(dying, None, SHAPE, WALL + 6.0, 6.0)
    assert len(jobs) == 0
    assert list(jobs.jobs("batch")) == []


def test_a_namesake_that_came_while_we_did_not_look_is_another_task() -> None:
    jobs = index()
    run(jobs, 1, 0.0)
    jobs.update(
        task_pod(1, phase="Running"), task_pod(1, phase="Running", uid="other", started="2026-01-01T00:00:30Z"), SHAPE, WALL + 40, 40.0
    )
    assert times(jobs, 41.0) == [(30.0, math.inf)]


def test_only_followed_namespaces_cost_anything() -> None:
    jobs = index(("elsewhere",))
    run(jobs, 1, 0.0)
    assert len(jobs) == 0
    jobs.follow(frozenset({"batch"}), [(task_pod(1, phase="Running"), SHAPE)], WALL + 9.0, 9.0)
    assert times(jobs, 9.0) == [(0.0, math.inf)]
    jobs.follow(frozenset(), (), WALL + 10.0, 10.0)
    assert len(jobs) == 0


def test_small_and_large_pods_of_one_group_are_two_jobs() -> None:
    jobs = index()
    for number, size in ((1, "small"), (2, "large")):
        run(jobs, number, 0.0, job=f"job-{number}", size=size, labels={"fairburst.dev/job": "group"})
    found = {one.small: one.used for one in jobs.jobs("batch")}
    assert found == {True: list(SHAPE), False: list(SHAPE)}
    assert sorted(jobs.tasks(WALL, 0.0).small.tolist()) == [False, True]


@dataclass
class Model:
    """Every pod by number: when it came, started, ended; whether it is being deleted."""

    started: dict[int, float] = field(default_factory=dict)
    present: dict[int, bool] = field(default_factory=dict)
    ended: list[tuple[int, float, float]] = field(default_factory=list)

    def tasks(self, now: float) -> list[tuple[float, float]]:
        running = [(self.started[number], math.inf) for number in self.present if number in self.started]
        return sorted(running + [(start, end) for _, start, end in self.ended if end > now - KEEP])


event = st.tuples(st.sampled_from(["come", "start", "end", "die", "go"]), st.integers(0, 5), st.sampled_from([0.0, 1.0, 15.0]))


@given(st.lists(event, max_size=60))
def test_the_index_agrees_with_a_model_that_remembers_everything(steps: list[tuple[str, int, float]]) -> None:
    """Also the counts: existing pods, running tasks, and nothing once all is gone."""
    jobs, model, now = index(), Model(), 0.0
    for what, number, passed in steps:
        now += passed
        before = None
        if number in model.present:
            deletion = {"deletionTimestamp": "2026-01-01T01:00:00Z"} if model.present[number] else {}
            before = task_pod(number, f"job-{number % 2}", phase="Running" if number in model.started else "Pending", **deletion)
        _step(jobs, model, what, number, before, now)
        jobs.expire(now)
        assert times(jobs, now) == model.tasks(now)
        assert sum(one.active for one in jobs.jobs("batch")) == len(model.present)
        assert sum(one.running for one in jobs.jobs("batch")) == len(model.present.keys() & model.started.keys())
    for number in list(model.present):
        jobs.update(task_pod(number, f"job-{number % 2}"), None, SHAPE, WALL + now, now)
    jobs.expire(now + KEEP)
    assert len(jobs) == 0
    assert list(jobs.jobs("batch")) == []


def _step(jobs: JobIndex, model: Model, what: str, number: int, before: Pod | None, now: float) -> None:
    job, wall = f"job-{number % 2}", WALL + now
    dying = model.present.get(number, False)
    deletion = {"deletionTimestamp": "2026-01-01T01:00:00Z"} if dying else {}
    match what:
        case "come" if before is None:
            jobs.update(None, task_pod(number, job), SHAPE, wall, now)
            model.present[number] = False
        case "start" if before is not None and number not in model.started:
            jobs.update(before, task_pod(number, job, phase="Running", **deletion), SHAPE, wall, now)
            model.started[number] = now
        case "die" if before is not None:
            phase = before.status.phase
            jobs.update(before, task_pod(number, job, phase=phase, deletionTimestamp="2026-01-01T01:00:00Z"), SHAPE, wall, now)
            model.present[number] = True
        case "end" | "go" if before is not None:
            after = task_pod(number, job, phase="Succeeded", **deletion) if what == "end" else None
            jobs.update(before, after, SHAPE, wall, now)
            if number in model.started and not dying:
                model.ended.append((number, model.started[number], now))
            del model.present[number]
            model.started.pop(number, None)
        case _:
            pass


def test_the_key_of_a_pod_is_its_controller_or_itself() -> None:
    assert job_key(task_pod(1, "work")).name == "work"
    assert job_key(pod("batch", "bare")).name == "batch/bare"


@pytest.mark.parametrize("first_runs", [False, True])
def test_a_pod_that_names_a_bare_pod_as_its_controller_joins_it(first_runs: bool) -> None:
    """Any tenant can write such a reference. tests/simulation/fuzz.py found it with seed 2."""
    jobs = index()
    bare = [pod("batch", "bare", node=node, phase=phase) for node, phase in (("", "Pending"), ("node-0", "Running"))]
    for stage in bare:
        stage.metadata.uid = "the-bare-one"
        stage.status.start_time = "2026-01-01T00:00:00Z" if stage.status.phase == "Running" else None
    claims = [task_pod(1, "x", phase=phase, size="") for phase in ("Pending", "Running")]
    for stage in claims:
        stage.spec.priority_class_name = ""
        stage.metadata.owner_references[0].uid = "the-bare-one"
    order = [(None, bare[0]), (bare[0], bare[1]), (None, claims[0]), (claims[0], claims[1])]
    for old, new in order if first_runs else [order[0], order[2], order[1], order[3]]:
        jobs.update(old, new, SHAPE, WALL, 0.0)
    (both,) = jobs.jobs("batch")
    assert (both.active, both.running, both.used, both.alone) == (2, 2, [2000, 4000], False)
    assert jobs.bare_running("batch") == []
    for gone in (bare[1], claims[1]):
        jobs.update(gone, None, SHAPE, WALL + 1.0, 1.0)
    assert list(jobs.jobs("batch")) == [both]
    jobs.expire(2.0 + KEEP)
    assert list(jobs.jobs("batch")) == []
