"""The demo's queues, display and summary, without a cluster."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import itertools
import os
import subprocess
import sys

import pytest

from e2e.demo.phase import Phase
from e2e.demo.scenario import PLAYED, REAL, Tempo, arithmetic, plans, queue_objects, scenario
from e2e.demo.summary import summary
from e2e.demo.table import Screen, rows
from e2e.workload.metrics import Amounts, BurstRecord, Sample, WorkloadRecord
from fairburst.kube.queues.objects import parse_queue

GIB = 1024**3
CAPACITY = Amounts(cpu=640, memory=1280 * GIB)
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def demo():
    return scenario(CAPACITY, 180)


@pytest.fixture(params=[PLAYED, REAL], ids=["played nodes", "real nodes"])
def tempo(request) -> Tempo:
    return request.param


@pytest.mark.parametrize("seconds", [120, 180, 1200])
def test_declared_bursts_satisfy_the_conditions_they_are_printed_with(seconds, tempo):
    lines = arithmetic(scenario(CAPACITY, seconds, tempo=tempo))
    assert len(lines) == 3
    assert all(line.endswith(": fits") for line in lines)


def test_arithmetic_says_so_where_a_burst_does_not_fit():
    longer = dataclasses.replace(PLAYED, burst=40)
    assert arithmetic(scenario(CAPACITY, 180, tempo=longer))[0].endswith("fair share 640 cpu x 60 s x 2/9 = 8533: DOES NOT FIT")


def test_declared_bursts_are_what_is_sent_and_leave_time_for_running_tasks(tempo):
    demo = scenario(CAPACITY, 240, tempo=tempo)
    latency, throughput = plans(demo)
    for plan, declared in zip(latency, queue_objects(demo, 0.0), strict=False):
        cpu = float(declared["spec"]["burst"]["resources"]["cpu"].removesuffix("m")) / 1000
        for burst in plan.bursts:
            (stage,) = burst.job.stages
            assert stage.tasks * stage.cpu == cpu
            assert tempo.longest_task + stage.seconds < tempo.burst == burst.deadline_seconds
            assert burst.at + tempo.burst <= demo.seconds
        assert all(b.at - a.at >= tempo.period for a, b in itertools.pairwise(plan.bursts))
        assert len(plan.bursts) >= 2
    for queue in throughput:
        for job in itertools.islice(queue.jobs, 20):
            assert all(tempo.shortest_task <= stage.seconds <= tempo.longest_task for stage in job.stages)
            assert all(Amounts(stage.cpu, stage.memory) == CAPACITY.times(1 / tempo.slots) for stage in job.stages)


def test_every_queue_is_declared_in_the_mode_that_was_asked_for_and_held_jobs_are_narrow_enough_to_start():
    gated, held = (scenario(CAPACITY, 180, mode=mode) for mode in ("Gate", "Suspend"))
    assert {one["spec"]["enforcement"] for one in queue_objects(gated, 0.0)} == {"Gate"}
    mixed = queue_objects(scenario(CAPACITY, 180, mode="Gate", burst_mode="Quota"), 0.0)
    assert {(one["kind"], one["spec"]["enforcement"]) for one in mixed} == {("LatencyQueue", "Quota"), ("ThroughputQueue", "Gate")}
    least_share = min(held.shares.values()) * CAPACITY.cpu
    for queue in plans(held)[1]:
        for job in itertools.islice(queue.jobs, 20):
            assert all(stage.tasks * stage.cpu <= least_share for stage in job.stages)


def test_both_phases_get_the_same_work(demo):
    def work():
        latency, throughput = plans(demo)
        return latency, [list(itertools.islice(plan.jobs, 10)) for plan in throughput]

    assert work() == work()


def test_declared_queues_are_valid(demo):
    objects = queue_objects(demo, started=1_800_000_000)
    for number, obj in enumerate(objects):
        obj["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "uid": str(number), "generation": 1}
        assert parse_queue(obj).metadata.name == obj["metadata"]["name"]
    assert objects[0]["spec"]["arrival"]["periodic"]["firstArrival"] == "2027-01-15T08:00:25Z"


def test_a_trace_is_dealt_by_its_queue_names_and_repeats(tmp_path):
    trace = tmp_path / "trace.txt"
    trace.write_text("".join(f"1 job-{n} {n} {queue}\nonly 30 .2 .2 0 0 0 0 400\n0\n" for n, queue in enumerate(["gold", "gold", "other"])))
    _, throughput = plans(scenario(CAPACITY, 180, trace))
    names = {plan.namespace: [job.name for job in itertools.islice(plan.jobs, 3)] for plan in throughput}
    assert names["gold"] == ["job-0", "job-1", "job-0"]
    assert names["bronze"] == ["job-2"] * 3
    assert names["silver"] == ["job-0", "job-1", "job-2"]  # no queue had its turn: it shares all


STATUS = {
    "class": "Hard",
    "allocation": {"cpu": "160", "memory": "320Gi"},
    "window": {"state": "Open", "deadline": "2026-01-01T12:00:09Z"},
}


def table_of(demo, statuses):
    held = dict.fromkeys(demo.queues, Amounts()) | {"clickstream": Amounts(320, 0)}
    bursts = [BurstRecord("clickstream", 0, 0, 80, 25, 5, 15), BurstRecord("clickstream", 1, 60, 80, 25)]
    return rows(demo, held, held, bursts, now=100, statuses=statuses, clock=NOON)


def test_table_shows_the_operators_words_beside_what_was_seen(demo):
    (clickstream, *_, gold) = table_of(demo, {"clickstream": STATUS})
    assert clickstream.cells() == ("clickstream", "Hard", "22.2 %", "25.0 %", "50.0 %", "50.0 %", "Open, 9 s left", "1", "1")
    assert gold.cells() == ("gold", "", "33.3 %", "", "0.0 %", "0.0 %", "", "", "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_table_is_redrawn_in_place_on_a_terminal_and_below_what_was_said(demo):
    terminal = Terminal()
    screen = Screen(terminal)
    table = table_of(demo, {})
    screen.draw("title", table, 0)
    assert "\x1b[7F" not in terminal.getvalue()
    screen.draw("title", table, 1)
    assert terminal.getvalue().count("\x1b[7F") == 1  # title, header, five queues
    screen.say("something")
    screen.draw("title", table, 2)
    assert terminal.getvalue().count("\x1b[7F") == 1


def test_plain_output_has_no_escapes_and_few_lines(demo):
    output = io.StringIO()
    screen = Screen(output)
    for second in range(20):
        screen.draw(f"{second} s", table_of(demo, {"clickstream": STATUS}), second)
    lines = output.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines] == ["0 s", "5 s", "10 s", "15 s"]
    assert "clickstream Hard holds 50.0 % of 25.0 % Open, 9 s left met 1 missed 1" in lines[0]
    assert "\x1b" not in output.getvalue()


def record(demo, completion):
    samples = [Sample(at, *2 * (dict.fromkeys(demo.queues, Amounts(64, 0)),)) for at in (0.0, 225.0)]
    bursts = [
        BurstRecord(queue.name, n, at, 1, 25, None, completion and at + completion)
        for queue in demo.latency
        for n, at in enumerate(queue.arrivals)
    ]
    return WorkloadRecord(180, CAPACITY, bursts, samples)


def phase(demo, completion, **idle):
    return Phase(record(demo, completion), idle)


def test_summary_puts_both_sides_beside_each_other(demo):
    lines = summary(demo, phase(demo, None), phase(demo, 17.25, burst=0.25, gated=0.0001))
    (first,) = [line.split() for line in lines if line.startswith("clickstream  periodic 1")]
    assert " ".join(first) == "clickstream periodic 1 25 s 70 not done after 200 s, missed 17.2 s, met"
    (total,) = [line.split() for line in lines if line.startswith("clickstream  all")]
    assert " ".join(total) == "clickstream all 0 of 3 met 3 of 3 met, mean of those done 17.2 s"
    (gold,) = [line.split() for line in lines if line.startswith("gold")]
    assert gold == ["gold", "3", "33.3", "%", "10.0", "%", "10.0", "%"]
    (used,) = [line.split() for line in lines if line.startswith("cluster in use")]
    assert used[-4:] == ["50.0", "%", "50.0", "%"]
    assert [line.split() for line in lines if line.startswith("cpu idle")] == [["cpu", "idle:", "burst", "25.0", "%"]], "no tiny parts"


def test_summary_of_one_phase_has_one_column(demo):
    assert any("with fairburst" in line for line in summary(demo, None, phase(demo, 20)))
    assert not any("without" in line for line in summary(demo, None, phase(demo, 20)))


@pytest.mark.parametrize(
    ("environment", "want_status", "want"),
    [
        pytest.param({"DEMO_SECONDS": "10"}, 2, "expected 80 to 3600 seconds a phase (DEMO_SECONDS), found '10'", id="too short"),
        pytest.param({"DEMO_SECONDS": "soon"}, 2, "expected 80 to 3600 seconds a phase (DEMO_SECONDS), found 'soon'", id="no number"),
        pytest.param({"MODE": "Never"}, 2, "expected Quota, Gate, Suspend (MODE), found 'Never'", id="no mode"),
        pytest.param({"TRACE": "/absent"}, 1, "demo: expected a readable file /absent, found: No such file or directory", id="no trace"),
        pytest.param({"KUBECONFIG_DEMO": "/absent"}, 1, "/absent", id="no kubeconfig"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_started(environment, want_status, want):
    done = subprocess.run(
        [sys.executable, "-m", "e2e.demo", "--cluster", "kwok"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == want_status
    assert want in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
