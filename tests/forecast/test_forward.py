"""Forward runs from a state: exact starts where durations are known, otherwise intervals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fairburst.forecast.coverage import measure
from fairburst.forecast.learned import Arrivals, Durations, size_class
from fairburst.forecast.samples import start_samples
from fairburst.forecast.state import JobState, StageState, State
from fairburst.policy.model import Memory, PolicyConfig
from fairburst.sim.cluster import one_machine
from fairburst.sim.experiment import throughput_spec
from fairburst.sim.scenario import Scenario, Submission
from fairburst.sim.workload import DagJob, Stage

NOW = 500.0
QUEUES = (throughput_spec("a", 0.0), throughput_spec("b", 1.0))


def job(
    name: str, queue: str, waiting: int = 0, running: int = 0, since: float = 0.0, seconds: float | None = None, waves: int = 1
) -> JobState:
    """A job with one stage of one-cpu tasks; those that run have done so for `since` seconds."""
    parts = ((running, NOW - since),) if running else ()
    stage = StageState(waiting + running, waiting, parts, (1.0,), seconds, waves=waves)
    return JobState(name, queue, NOW - since, (stage,), has_started=running > 0)


def state(*jobs: JobState) -> State:
    return State(one_machine(("cpu",), (10.0,)), QUEUES, PolicyConfig(), Memory(), jobs, NOW)


def waits(of: State, name: str, durations: Durations | None = None, arrivals: Arrivals | None = None, runs: int = 8) -> np.ndarray:
    found: np.ndarray = start_samples(of, [name], durations or Durations(), arrivals or Arrivals(), seed=1, runs=runs)[name]
    return found


def test_a_job_starts_when_running_work_of_a_known_length_ends() -> None:
    found = waits(state(job("runs", "a", running=10, since=40.0, seconds=100.0), job("next", "a", waiting=3)), "next")
    assert found == pytest.approx(np.full(8, 60.0))


def test_a_job_waits_for_those_before_it_in_its_queue() -> None:
    before = job("before", "a", waiting=10, seconds=30.0)
    found = waits(state(job("runs", "a", running=10, since=40.0, seconds=100.0), before, job("next", "a", waiting=3)), "next")
    assert found == pytest.approx(np.full(8, 90.0))


def test_a_job_with_fewer_pods_at_once_than_completions_holds_its_room_for_all_of_them() -> None:
    found = waits(state(job("runs", "a", running=10, since=40.0, seconds=100.0, waves=3), job("next", "a", waiting=3)), "next")
    assert found == pytest.approx(np.full(8, 260.0))


def test_another_queue_that_has_less_than_its_share_goes_first() -> None:
    """Queue a holds the cluster; b's first job takes the room that comes free before a's next one."""
    runs = [job(f"runs-{number}", "a", running=1, since=50.0 + number, seconds=100.0) for number in range(10)]
    found = start_samples(
        state(*runs, job("more", "a", waiting=20), job("other", "b", waiting=2)), ["more", "other"], Durations(), Arrivals(), seed=1, runs=4
    )
    assert (found["other"] < found["more"]).all()
    assert found["other"] == pytest.approx(np.full(4, 41.0))


def test_durations_of_ended_work_give_the_spread_and_running_work_lasts_longer_than_it_has() -> None:
    durations = Durations()
    for seconds in (50.0, 100.0, 200.0, 400.0, 800.0):
        durations.ended("a", 10, seconds)
    found = waits(state(job("runs", "a", running=10, since=150.0), job("next", "a", waiting=1)), "next", durations, runs=60)
    assert set(np.round(found, 6)) == {50.0, 250.0, 650.0}


def test_work_that_has_run_longer_than_any_before_it_ends_within_twice_that_time() -> None:
    durations = Durations()
    for seconds in (50.0, 60.0, 70.0, 80.0, 90.0):
        durations.ended("a", 10, seconds)
    found = waits(state(job("runs", "a", running=10, since=150.0), job("next", "a", waiting=1)), "next", durations, runs=60)
    assert 0.0 <= found[0] < found[-1] <= 150.0


def test_jobs_that_come_later_in_another_queue_take_part_of_the_room() -> None:
    durations, arrivals = Durations(), Arrivals()
    for number in range(6):
        durations.ended("b", 1, 20.0)
        arrivals.came("b", NOW - 60.0 + 10.0 * number, DagJob("b", (Stage("s", 5, 0.0, (1.0,)),)))
    full = state(
        job("runs", "a", running=10, since=90.0, seconds=100.0), job("before", "a", waiting=30, seconds=20.0), job("next", "a", waiting=1)
    )
    alone, beside = waits(full, "next", durations), waits(full, "next", durations, arrivals)
    assert np.median(beside) > np.median(alone)


def test_a_job_that_never_fits_starts_later_than_can_be_told() -> None:
    service = JobState("service", "a", NOW, (StageState(10, 0, ((10, NOW),), (1.0,), 1e9),), has_started=True)
    found = start_samples(state(service, job("next", "a", waiting=1)), ["next"], Durations(), Arrivals(), seed=1, runs=3, horizon=86_400.0)
    assert found["next"].tolist() == [math.inf] * 3


def test_the_same_seed_gives_the_same_forecast_and_the_state_is_left_as_it_is() -> None:
    durations = Durations()
    for seconds in (50.0, 100.0, 200.0, 400.0, 800.0):
        durations.ended("a", 10, seconds)
    before = state(job("runs", "a", running=10, since=10.0), job("next", "a", waiting=1))
    assert waits(before, "next", durations).tolist() == waits(before, "next", durations).tolist()


def test_durations_are_those_of_the_same_queue_and_size_where_there_are_enough() -> None:
    durations = Durations()
    for _ in range(5):
        durations.ended("a", 1, 10.0)
        durations.ended("a", 100, 1000.0)
    durations.ended("b", 1, 77.0)
    assert set(durations.samples("a", 1)) == {10.0}
    assert set(durations.samples("a", 100)) == {1000.0}
    assert set(durations.samples("b", 2)) == {10.0, 77.0}
    assert size_class(1) == size_class(3) < size_class(4) == size_class(15) < size_class(16)


def test_a_replay_is_asked_and_its_forecasts_come_true_about_as_often_as_they_say() -> None:
    """Jobs of two lengths at random times on a machine that is nearly full; 80 % is what chance leaves of 90 % in so few questions."""
    draw = np.random.default_rng(5)
    submissions, at = [], 0.0
    for number in range(160):
        at += float(draw.exponential(3.7))
        stage = Stage("s", int(draw.integers(1, 6)), float(draw.choice([5.0, 20.0])), (1.0,))
        submissions.append(Submission(at, ("a", "b")[number % 2], DagJob(f"job-{number}", (stage,))))
    scenario = Scenario(one_machine(("cpu",), (10.0,)), QUEUES, submissions, until=3 * at)
    found, asked = measure(scenario, every=12.0, jobs_at_once=4, runs=12, seed=3)
    assert found.outcomes == len(asked) >= 30
    assert found.calibrated[0.9] >= 0.8
    assert found.median_error <= 0.8 * found.median_wait


def test_a_question_uses_nothing_that_is_not_known_yet() -> None:
    """Another future of the replay leaves the earlier answers unchanged."""

    def replay(last: float) -> list[list[float]]:
        jobs = [DagJob(f"job-{number}", (Stage("s", 10, 30.0, (1.0,)),)) for number in range(6)]
        late = DagJob("late", (Stage("s", 10, last, (1.0,)),))
        submissions = [Submission(2.0 * number, "a", one) for number, one in enumerate(jobs)] + [Submission(100.0, "a", late)]
        scenario = Scenario(one_machine(("cpu",), (10.0,)), QUEUES, submissions, until=10_000.0)
        _, asked = measure(scenario, every=15.0, runs=4, seed=3)
        return [one.waits.tolist() for one in asked if one.time < 100.0]

    assert replay(1.0) == replay(500.0) != []


def test_a_stage_waits_for_its_parents_and_then_goes_before_later_jobs() -> None:
    first = StageState(10, 0, ((10, NOW - 40.0),), (1.0,), 100.0)
    second = StageState(10, 10, (), (1.0,), 50.0, parents=(0,))
    chain = replace(job("chain", "a"), stages=(first, second), has_started=True)
    assert waits(state(chain, job("next", "a", waiting=1)), "next") == pytest.approx(np.full(8, 110.0))
