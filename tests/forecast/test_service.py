"""The forecaster's answers to the operator's questions, what it learns from them, and how it scores itself."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

import msgspec
import pytest

from fairburst.forecast import budget as limits
from fairburst.forecast.service import Service
from fairburst.kube.api.objects import SchedulingGate
from fairburst.kube.forecasts.ended_pods import Run
from fairburst.kube.forecasts.messages import Answer, Question, Start
from fairburst.kube.forecasts.question import encoded, read
from fairburst.kube.names import GATE, HELD_ANNOTATION, STEP_LABEL
from tests.support.objects import World, job, latency_spec, node, pod, requesting

TQ, LQ = "ThroughputQueue", "LatencyQueue"


@dataclass
class AskedForecaster:
    """A world of 64 cpu, and a forecaster that is asked about it. `ended`: runs that it has not been told of."""

    world: World = field(default_factory=World)
    service: Service = field(default_factory=Service)
    ended: list[Run] = field(default_factory=list)

    def job(self, where: str, name: str, pods: int, *, held: bool = False) -> None:
        made = job(where, name, pods, requesting("1", "1Gi"), suspend=held, completions=pods)
        made.metadata.creation_timestamp = stamp(self.world.wall)
        made.metadata.annotations = {HELD_ANNOTATION: "true"} if held else None
        self.world.controller("Job", None, made)

    def run(self, where: str, owner: str, pods: int, ago: float = 0.0) -> None:
        """Add pods of a Job that have run for `ago` seconds."""
        for number in range(pods):
            made = pod(where, f"{owner}-{number}", requesting("1", "1Gi"), owner=("Job", owner), node="node-0", phase="Running")
            made.metadata.creation_timestamp = made.status.start_time = stamp(self.world.wall - ago)
            self.world.put(made)

    def end(self, where: str, owner: str, pods: int, seconds: float) -> None:
        """Record pods of a Job that ended after running for so long."""
        wall = self.world.wall
        self.ended += [Run(where, owner, owner, pods, wall - seconds, wall) for _ in range(pods)]

    def question(self, seconds: float = 60.0) -> Question:
        world = self.world
        plan = world.round()
        found = asyncio.run(read(plan, world.engine.memory, world.view, world.engine.demands, world.engine.gates.gated.of, world.wall))
        runs, self.ended = self.ended, []
        asked = msgspec.structs.replace(encoded(found, world.config, runs), processor_seconds=seconds, pace=1.0)
        return msgspec.json.decode(msgspec.json.encode(asked), type=Question)

    def ask(self) -> Answer:
        return self.service.answer(self.question())


def stamp(wall: float) -> str:
    from fairburst.kube.times import from_epoch

    return from_epoch(int(wall)).isoformat().replace("+00:00", "Z")


def start(answer: Answer, uid: str) -> Start:
    return next(one for one in answer.starts if one.uid == uid)


def full(mode: str = "Quota") -> AskedForecaster:
    """Job `runs` holds the cluster for 60 s more, by what its ended pods took; `next` waits."""
    site = AskedForecaster()
    site.world.queue(TQ, "batch", spec={"enforcement": mode})
    site.run("batch", "runs", 64, ago=40.0)
    site.job("batch", "runs", 128)
    site.end("batch", "runs", 10, 100.0)
    return site


def test_a_waiting_job_is_forecast_to_start_when_the_running_one_ends() -> None:
    site = AskedForecaster()
    site.world.queue(TQ, "batch")
    site.run("batch", "runs", 64, ago=40.0)
    site.end("batch", "runs", 10, 100.0)
    site.job("batch", "next", 8)
    answer = site.ask()
    assert start(answer, "next").median == pytest.approx(60.0, abs=1.0)
    low, high = start(answer, "next").intervals[90]
    assert low is not None
    assert high is not None
    assert low <= 60.0 <= high
    assert answer.learned == 10


def test_a_pod_of_another_tenant_that_names_a_job_as_its_controller_changes_no_forecast_of_it() -> None:
    """It may name any UID. It runs, so that the Job seemed to wait no more."""
    found = []
    for named in ("next", "its own"):
        site = full()
        site.world.queue(TQ, "other")
        site.job("batch", "next", 8)
        site.run("other", named, 1)
        found.append(start(site.ask(), "next"))
    assert found[0] == found[1]
    assert found[0].median is not None


def test_pods_behind_gates_start_one_after_the_other_as_room_comes_free() -> None:
    site = AskedForecaster()
    site.world.queue(TQ, "batch", spec={"enforcement": "Gate"})
    for number in range(3):
        made = pod("batch", f"p{number}", requesting("30", "1Gi"), owner=("Job", "next"), creationTimestamp="2026-01-01T00:00:00Z")
        made.spec.scheduling_gates = [SchedulingGate(GATE)]
        site.world.put(made)
    site.run("batch", "early", 32, ago=90.0)
    site.run("batch", "late", 32, ago=40.0)
    site.end("batch", "early", 5, 100.0)
    site.end("batch", "late", 5, 100.0)
    answer = site.ask()
    found = [start(answer, f"batch/p{number}").median for number in range(3)]
    assert found == [pytest.approx(10.0, abs=1.0), pytest.approx(60.0, abs=1.0), pytest.approx(110.0, abs=2.0)]


@pytest.mark.parametrize("mode", ["Suspend", "Gate", "Quota"])
def test_the_step_of_priority_orders_forecasts_where_the_operator_orders_work(mode: str) -> None:
    site = full(mode)
    for name, step in (("early", "low"), ("late", "high")):
        made = job("batch", name, 64, requesting("1", "1Gi"), suspend=mode == "Suspend", completions=64)
        made.metadata.creation_timestamp, made.metadata.labels = stamp(site.world.wall - (name == "early")), {STEP_LABEL: step}
        made.metadata.annotations = {HELD_ANNOTATION: "true"} if mode == "Suspend" else None
        site.world.controller("Job", None, made)
    work = [one.uid.partition("/")[2] for one in site.question().work]
    assert [one for one in work if one != "runs"] == (["early", "late"] if mode == "Quota" else ["late", "early"])


def test_a_held_job_starts_only_once_all_of_it_fits() -> None:
    site = AskedForecaster()
    site.world.queue(TQ, "batch", spec={"enforcement": "Suspend"})
    site.run("batch", "early", 32, ago=90.0)
    site.run("batch", "late", 32, ago=40.0)
    site.end("batch", "early", 5, 100.0)
    site.end("batch", "late", 5, 100.0)
    site.job("batch", "whole", 40, held=True)
    assert start(site.ask(), "whole").median == pytest.approx(60.0, abs=1.0), "32 of its 40 pods had room after 10 s"


def test_a_held_job_larger_than_the_cluster_is_not_foreseen_and_holds_up_no_other() -> None:
    site = AskedForecaster()
    site.world.queue(TQ, "batch", spec={"enforcement": "Suspend"})
    site.run("batch", "runs", 64, ago=40.0)
    site.end("batch", "runs", 5, 100.0)
    site.job("batch", "huge", 100, held=True)
    site.job("batch", "small", 8, held=True)
    answer = site.ask()
    assert start(answer, "huge").median is None
    assert start(answer, "small").median == pytest.approx(60.0, abs=1.0)


@pytest.mark.parametrize(("after", "outcomes"), [(60.0, {50: (1, 0), 90: (1, 0)}), (300.0, {50: (0, 1), 90: (0, 1)})])
def test_a_forecast_is_scored_once_the_work_has_started(after: float, outcomes: dict[int, tuple[int, int]]) -> None:
    site = AskedForecaster()
    site.world.queue(TQ, "batch")
    site.run("batch", "runs", 64, ago=40.0)
    site.end("batch", "runs", 10, 100.0)
    site.job("batch", "next", 8)
    assert site.ask().outcomes == {50: (0, 0), 90: (0, 0)}
    site.world.after(after)
    for number in range(64):
        site.world.end("batch", f"runs-{number}")
    site.run("batch", "next", 8)
    site.world.after(5.0)
    assert site.ask().outcomes == outcomes
    assert site.ask().outcomes == {50: (0, 0), 90: (0, 0)}, "each forecast counts once"


def test_a_start_between_two_questions_counts_although_the_pods_have_ended_by_then() -> None:
    site = AskedForecaster()
    site.world.queue(TQ, "batch")
    site.run("batch", "runs", 64, ago=40.0)
    site.end("batch", "runs", 10, 100.0)
    site.job("batch", "next", 8)
    site.ask()
    site.world.after(90.0)
    site.end("batch", "next", 8, 30.0)
    assert site.ask().outcomes == {50: (1, 0), 90: (1, 0)}


def test_forecasts_of_work_that_was_deleted_are_forgotten() -> None:
    site = full()
    site.ask()
    assert site.service._open
    made = next(iter(site.world.view.controllers.workloads("batch").of("Job")))
    site.world.controller("Job", made, None)
    for number in range(64):
        site.world.end("batch", f"runs-{number}")
    for _ in range(3):
        site.ask()
    assert not site.service._open


@pytest.mark.parametrize(("ago", "probability"), [(95.0, 1.0), (20.0, 0.0)])
def test_the_next_bursts_deadline_holds_where_room_comes_in_time(ago: float, probability: float) -> None:
    """A burst of 16 cpu for 20 s with 30 s to its deadline; the pods that hold the cluster end 5 s, or 80 s, from now."""
    site = AskedForecaster()
    spec = latency_spec()
    spec["burst"]["deadlineSeconds"] = 30
    site.world.queue(LQ, "serving", spec=spec)
    site.world.queue(TQ, "batch")
    site.run("batch", "runs", 64, ago=ago)
    site.end("batch", "runs", 10, 100.0)
    site.job("batch", "next", 8)
    (deadline,) = site.ask().deadlines
    assert (deadline.queue, deadline.is_open, deadline.opens) == ("serving/queue", False, None)
    assert deadline.probability == probability


@pytest.mark.parametrize(("ago", "probability"), [(95.0, 1.0), (20.0, 0.0)])
def test_the_deadline_of_the_burst_under_way_holds_where_its_pods_find_room_in_time(ago: float, probability: float) -> None:
    site = AskedForecaster()
    spec = latency_spec()
    spec["burst"]["deadlineSeconds"] = 40
    site.world.queue(LQ, "serving", spec=spec)
    site.world.queue(TQ, "batch")
    site.job("batch", "next", 100)
    site.run("batch", "runs", 64, ago=ago)
    site.end("batch", "runs", 10, 100.0)
    site.end("serving", "old", 8, 10.0)
    site.world.round()
    site.job("serving", "burst", 16)
    site.world.round()
    found = [one for one in site.ask().deadlines if one.is_open]
    assert [(one.queue, one.probability) for one in found] == [("serving/queue", probability)]


def test_a_promise_stays_as_it_is_in_the_forecasters_eyes() -> None:
    """The question leaves out admission decisions and idle queues; the promises are those of the operator."""
    site = AskedForecaster()
    for name in ("one", "two"):
        site.world.queue(LQ, name, spec=latency_spec())
    for number in range(4):
        site.world.queue(TQ, f"idle-{number}")
    site.world.queue(TQ, "batch")
    site.job("batch", "next", 100)
    question = site.question()
    assert {spec["name"] for spec in question.queues} == {"one/queue", "two/queue", "batch/queue"}
    import numpy as np

    from fairburst.forecast.forward import Forward
    from fairburst.forecast.from_question import asked_state
    from fairburst.forecast.learned import Arrivals, Durations

    state = asked_state(question, {}).state
    run = Forward(state, Durations(), Arrivals(), np.random.default_rng(1))
    run.first_starts({}, state.now)
    of = {name: entry.guarantee_class for name, entry in site.world.engine.memory.queues.items()}
    assert {spec.name: found for spec, found in zip(state.queues, run.result.classes, strict=True)} == {
        spec.name: of[spec.name] for spec in state.queues
    }


def test_a_forecast_that_would_take_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_PROCESSOR_SECONDS", 0.0)
    answer = full().ask()
    assert (answer.runs, answer.starts, answer.deadlines) == (0, [], [])


def test_an_expensive_forecast_has_fewer_runs_and_a_cheap_one_all() -> None:
    site = full()
    assert Service().answer(site.question(1e9)).runs == 40
    assert Service().answer(site.question(0.0)).runs == 12


def test_a_service_holds_its_room_for_ever() -> None:
    from fairburst.kube.workloads.replicas import ReplicaSet
    from tests.support.objects import replicated

    site = AskedForecaster()
    site.world.queue(TQ, "batch")
    site.world.controller("ReplicaSet", None, replicated(ReplicaSet, "batch", "service", 64, requesting("1", "1Gi")))
    for number in range(64):
        site.world.put(pod("batch", f"s{number}", requesting("1", "1Gi"), owner=("ReplicaSet", "service"), node="node-0", phase="Running"))
    site.job("batch", "next", 8)
    found = start(site.ask(), "next")
    assert found.median is None
    assert found.intervals[90][1] is None


def test_what_it_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairburst.forecast import service

    monkeypatch.setattr(service, "KEPT_WORK", 10)
    monkeypatch.setattr(service, "KEPT_FORECASTS", 5)
    monkeypatch.setattr(service, "ASKED_AGAIN_SECONDS", 0.0)
    site = full()
    for number in range(12):
        site.job("batch", f"j{number}", 4)
        site.end("batch", f"e{number}", 4, 10.0)
        site.world.after(1.0)
        site.service.answer(site.question(0.0))
    made = site.service
    assert max(len(made._means), len(made._came)) <= 10
    assert len(made._open) <= 5
    assert len(made._scored) <= 2 * 5 + 10
    assert math.isfinite(made.calibration.outcomes)


def test_bytes_of_a_cluster_of_many_terabytes_can_be_counted() -> None:
    """The same work on nodes with a hundred thousand times the memory, and the work requests that much more."""
    found = []
    for memory in ("1Gi", "100000Gi"):
        site = AskedForecaster(World("", nodes=0))
        for number in range(2):
            site.world.nodes["", f"node-{number}"] = node(f"node-{number}", cpu="32", memory=f"{32 * int(memory[:-2])}Gi")
        site.world.queue(TQ, "batch")
        site.world.queue(LQ, "serving", spec=latency_spec())
        for number in range(64):
            made = pod("batch", f"r{number}", requesting("1", memory), owner=("Job", "runs"), node="node-0", phase="Running")
            made.metadata.creation_timestamp = made.status.start_time = stamp(site.world.wall - 40.0)
            site.world.put(made)
        site.end("batch", "runs", 10, 100.0)
        waiting = job("batch", "next", 8, requesting("1", memory), completions=8)
        waiting.metadata.creation_timestamp = stamp(site.world.wall)
        site.world.controller("Job", None, waiting)
        found.append(start(site.ask(), "next").median)
    assert found[0] is not None
    assert found[1] == pytest.approx(found[0], abs=0.5)


def test_the_work_and_the_ended_pods_of_a_further_queue_are_its_own() -> None:
    site = AskedForecaster()
    site.world.queue(LQ, "team", "bursts", latency_spec(), created="2026-01-01T00:00:00Z")
    site.world.queue(TQ, "team", "nightly", created="2026-01-01T00:00:01Z")
    site.world.round()
    made = job("team", "night", 128, requesting("1", "1Gi"), completions=128)
    made.metadata.creation_timestamp = stamp(site.world.wall)
    made.spec.template.metadata.labels = {"fairburst.dev/queue": "nightly"}
    site.world.controller("Job", None, made)
    bound = pod("team", "night-0", requesting("1", "1Gi"), owner=("Job", "night"), node="node-0", phase="Running")
    bound.spec.priority_class_name = "fairburst-queue-1"
    bound.status.start_time = stamp(site.world.wall)
    site.world.put(bound)
    wall = site.world.wall
    site.ended = [Run("team", "night", "night", 1, wall - 100.0, wall, name) for name in ("fairburst-queue-1", "")]
    asked = site.question()
    queues = [spec["name"] for spec in asked.queues]
    assert {queues[one.queue]: sum(count for count, _ in one.running) for one in asked.work} == {"team/nightly": 1}
    assert [one.queue for one in asked.ended] == ["team/nightly", "team/bursts"]


def test_a_held_job_that_needs_the_whole_cluster_is_foreseen_in_its_queues_turn() -> None:
    site = AskedForecaster(World("allocation: {largestTurnPercent: 100}"))
    site.world.queue(TQ, "batch", spec={"enforcement": "Suspend"})
    site.world.queue(TQ, "rival")
    site.run("rival", "runs", 64, ago=10.0)
    site.job("rival", "runs", 1000)
    site.end("rival", "runs", 10, 20.0)
    site.job("batch", "whole", 64, held=True)
    median = start(site.ask(), "whole").median
    assert median is not None
    assert 60.0 <= median <= 240.0, "once it is owed a minute of the cluster, which takes two, and the last of the tasks have ended"
