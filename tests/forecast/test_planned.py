"""Bursts met before and after a change, in situations whose outcome is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from fairburst.forecast import planned
from fairburst.forecast.from_cluster import Known
from fairburst.forecast.from_round import jobs_of
from fairburst.forecast.planned import Foretold, Side, foretell
from fairburst.forecast.state import JobState, StageState
from fairburst.policy.model import Burst, GuaranteeClass, Memory, Periodic, PolicyConfig, QueueSpec, Schedule, ScheduledBurst, Sporadic
from fairburst.sim.engine import EPOCH
from fairburst.whatif.rounds import DecidedRound, with_capacity, with_queue, with_spec, without_queue
from tests.support.policy import latency, snapshot, throughput

NOW = 1_767_225_600.0
TIGHT = latency("tight/q", 1.0, [40.0], 15.0, Sporadic(600.0), deadline=30.0)
PATIENT = latency("patient/q", 2.0, [4.0], 10.0, Sporadic(600.0), deadline=200.0)
BATCH = throughput("batch/q", 0.0, cpu=20.0)


def decided(*queues: QueueSpec, demand: Sequence[float], usage: Sequence[float]) -> DecidedRound:
    """A pool of 64 cores with pods of one core, after a round that has admitted the queues."""
    wanted, used = ([[one] for one in amounts] for amounts in (demand, usage))
    seen = snapshot(queues, [64.0], wanted, used, [[1.0]] * len(queues))
    one = DecidedRound.of(seen, Memory(), PolicyConfig(expected_queues=4.0), NOW)
    return one.again(seen)


def site() -> DecidedRound:
    """Batch work holds its limit of 20 cores and wants 200; two hard queues."""
    one = decided(BATCH, TIGHT, PATIENT, demand=[200.0, 0.0, 0.0], usage=[20.0, 0.0, 0.0])
    assert one.result.classes[1:] == (GuaranteeClass.HARD, GuaranteeClass.HARD)
    return one


def work(queue: str, running: int, waiting: int, seconds: float, since: float = 0.0) -> JobState:
    began = NOW - EPOCH - since
    stage = StageState(running + waiting, waiting, ((running, began),) if running else (), (1.0,), seconds)
    return JobState(queue, queue, began, (stage,), has_started=True)


def told(before: DecidedRound, after: DecidedRound, hours: float = 0.1, *jobs: JobState) -> Foretold:
    jobs = jobs or (work("batch/q", 20, 180, 100.0, since=20.0),)
    return foretell(*(Side(one, jobs, Known()) for one in (before, after)), hours * 3600)


def counts(found: Foretold, queue: str) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    one, two = (None if side.get(queue) is None else (side[queue].met, side[queue].due) for side in (found.before, found.after))
    return one, two


def test_without_a_change_both_sides_are_equal() -> None:
    found = told(site(), site())
    assert found.before == found.after
    assert counts(found, "tight/q") == counts(found, "patient/q") == ((1, 1), (1, 1))
    assert found.seconds == 360.0


def test_batch_work_without_its_limit_holds_the_room_that_a_tight_burst_needs() -> None:
    """No class changes. The burst that can wait for the batch pods' ends is met."""
    before = site()
    after = before.again(with_spec(before.snapshot, 0, replace(BATCH, limits={})))
    found = told(before, after)
    assert after.result.classes == before.result.classes
    assert counts(found, "tight/q") == ((1, 1), (0, 1))
    assert counts(found, "patient/q") == ((1, 1), (1, 1))
    assert found.before["tight/q"].lost(found.after["tight/q"]) == 1


@pytest.mark.parametrize(("part", "met"), [pytest.param(0.5, 4, id="until batch work has ended"), pytest.param(0.3, 0, id="always")])
def test_capacity_that_is_taken_away_makes_bursts_miss(part: float, met: int) -> None:
    """In 32 cores, the 40 pods of 15 s run in two waves within 30 s if the pool is idle; in 19 cores it takes three."""
    before = site()
    found = told(before, before.again(with_capacity(before.snapshot, np.array([part]))), 1.0)
    assert counts(found, "tight/q") == ((6, 6), (met, 6))
    assert found.before["tight/q"].lost(found.after["tight/q"]) == 6 - met


def test_a_little_less_capacity_leaves_all_bursts_met() -> None:
    before = site()
    found = told(before, before.again(with_capacity(before.snapshot, np.array([0.97]))), 1.0)
    assert counts(found, "tight/q") == counts(found, "patient/q") == ((6, 6), (6, 6))


def test_a_new_hard_queue_leaves_the_bursts_of_the_others_met() -> None:
    before = site()
    after = before.again(with_queue(before.snapshot, latency("new/q", 3.0, [4.0], 10.0, Sporadic(300.0), deadline=60.0)))
    assert after.result.classes[3] is GuaranteeClass.HARD
    found = told(before, after, 1.0)
    assert counts(found, "new/q")[0] is None
    assert counts(found, "new/q")[1] == (12, 12)
    assert counts(found, "tight/q") == counts(found, "patient/q") == ((6, 6), (6, 6))


def test_a_removed_queue_has_no_bursts_and_its_work_makes_room() -> None:
    before = decided(throughput("batch/q", 0.0), TIGHT, demand=[200.0, 0.0], usage=[64.0, 0.0])
    jobs = (work("batch/q", 64, 136, 100.0, since=20.0),)
    sides = Side(before, jobs, Known()), Side(before.again(without_queue(before.snapshot, 0)), jobs, Known()).without({"batch/q"})
    assert counts(foretell(*sides, 360.0), "tight/q") == ((0, 1), (1, 1))
    gone = Side(before.again(without_queue(before.snapshot, 1)), jobs, Known())
    assert counts(foretell(sides[0], gone, 360.0), "tight/q") == ((0, 1), None)


def test_a_burst_that_is_under_way_counts_with_its_deadline() -> None:
    """It opened in the last round, its pods wait for 80 s at least, and its deadline is after 30 s."""
    before = decided(throughput("batch/q", 0.0), TIGHT, demand=[64.0, 40.0], usage=[64.0, 0.0])
    for seconds, want in ((100.0, (0, 1)), (90.0, (1, 1))):
        jobs = (work("batch/q", 64, 0, seconds, since=80.0), replace(work("tight/q", 0, 40, 15.0), has_started=False))
        assert counts(told(before, before, 0.1, *jobs), "tight/q") == (want, want)


@pytest.mark.parametrize(
    ("arrival", "due"),
    [
        pytest.param(Periodic(600.0, NOW + 300.0), 6, id="periodic"),
        pytest.param(Periodic(600.0), 6, id="periodic from now"),
        pytest.param(Periodic(600.0, NOW - 300.0, 20.0), 6, id="periodic with jitter, begun"),
        pytest.param(Sporadic(1000.0), 4, id="sporadic"),
        pytest.param(Schedule([ScheduledBurst(NOW + at, Burst({"cpu": 8.0}, 10.0, 40.0)) for at in (100, 2000, 3590)]), 2, id="schedule"),
    ],
)
def test_the_bursts_that_are_due_within_the_hour_come_as_declared(arrival: Periodic | Sporadic | Schedule, due: int) -> None:
    spec = latency("lq/q", 1.0, [8.0], 10.0, arrival, deadline=40.0)
    if isinstance(arrival, Schedule):
        spec = replace(spec, burst=None)
    one = decided(BATCH, spec, demand=[20.0, 0.0], usage=[20.0, 0.0])
    assert counts(told(one, one, 1.0), "lq/q") == ((due, due), (due, due))


def test_a_burst_without_a_promise_is_met_if_its_work_ends_in_time() -> None:
    """Two bursts' work needs more than the fair share, so the second queue is elastic; it meets its deadline in an idle pool only."""
    spec = latency("lq/q", 1.0, [64.0], 30.0, Sporadic(60.0), deadline=40.0)
    idle, busy = decided(spec, demand=[0.0], usage=[0.0]), decided(BATCH, spec, demand=[0.0, 0.0], usage=[0.0, 0.0])
    assert idle.result.classes[0] is not GuaranteeClass.HARD or busy.result.classes[1] is GuaranteeClass.ELASTIC
    assert busy.result.classes[1] is GuaranteeClass.ELASTIC
    found = foretell(Side(busy, (), Known()), Side(busy, (work("batch/q", 20, 0, 1e9),), Known()), 100.0)
    assert counts(found, "lq/q") == ((1, 1), (0, 1))


def test_a_burst_comes_before_the_further_pods_of_a_batch_job() -> None:
    """Ten waves of pods use the Job's places in turn; the second one waits while the burst has room that the first one left."""
    before = decided(throughput("batch/q", 0.0), PATIENT, demand=[64.0, 0.0], usage=[64.0, 0.0])
    job = work("batch/q", 64, 0, 60.0, since=10.0)
    waves = replace(job, stages=(replace(job.stages[0], waves=10),))
    assert counts(told(before, before, 0.1, waves), "patient/q") == ((1, 1), (1, 1))


def test_a_recorded_rounds_work_is_its_usage_and_the_rest_of_its_demand() -> None:
    (running, waiting) = jobs_of(decided(BATCH, demand=[50.0], usage=[20.0]))
    assert running.stages[0].running == ((20, NOW - EPOCH),)
    assert (waiting.stages[0].waiting, waiting.stages[0].demand) == (30, (1.0,))


def test_a_run_that_takes_too_many_rounds_shortens_the_horizon_of_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    before = site()
    whole = told(before, before, 10.0)
    monkeypatch.setattr(planned, "MOST_ROUNDS", 60)
    cut = told(before, before, 10.0)
    assert whole.seconds == whole.asked_seconds == cut.asked_seconds == 36_000.0
    assert 0 < cut.seconds < 36_000.0
    assert cut.before["tight/q"].due < whole.before["tight/q"].due
    monkeypatch.setattr(planned, "MOST_BURSTS", 4)
    assert sum(one.due for one in told(before, before, 10.0).before.values()) <= 4


def test_without_a_due_burst_nothing_runs() -> None:
    one = decided(BATCH, demand=[20.0], usage=[20.0])
    found = told(one, one)
    assert (found.before, found.after, found.runs) == ({}, {}, 0)


def test_the_same_question_has_the_same_answer() -> None:
    before = site()
    jobs = jobs_of(before)
    one, other = (foretell(Side(before, jobs, Known()), Side(before, jobs, Known()), 3600.0) for _ in range(2))
    assert one == other
    assert one.guesses
    assert not one.arrivals
