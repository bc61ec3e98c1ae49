"""Profile bopf-table4 against scenarios worked out on paper, against a plain reference, and its two ways of running against each other."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from fairburst.cli.main import main
from fairburst.sim.errors import ScenarioError
from fairburst.sim.generate import generate
from fairburst.sim.reproductions.profiles import as_scenario
from fairburst.sim.table4 import (
    THROUGHPUT_QUEUES,
    WORKLOADS,
    Outcome,
    Rules,
    Workload,
    has_numba,
    latency_jobs,
    run,
    run_jobs,
    throughput_slots,
)
from fairburst.sim.workload import DagJob, Stage
from tests.sim.table4_reference import Reference, StarvedError
from tests.support.stage_lists import write_stage_list

A = DagJob("A", (Stage("a1", 1, 3, (4.0, 1.0)), Stage("a2", 1, 1, (1.0, 3.0), (0,))))
B = DagJob("B", (Stage("b1", 2, 2.5, (2.0, 2.0)),))
L = DagJob("L", (Stage("m", 3, 1.5, (0.05, 0.04)), Stage("r", 1, 0.4, (1.0, 1.0), (0,))))
H = DagJob("H", (Stage("h", 7, 3, (2.0, 2.0)),))
W = DagJob("W", (Stage("w", 10, 2, (2.0, 2.0)),))

needs_numba = pytest.mark.skipif(not has_numba(), reason="numba isn't installed (extra sim)")
WAYS = [pytest.param(False, id="plain"), pytest.param(True, id="compiled", marks=needs_numba)]


def test_both_profiles_get_the_same_input() -> None:
    """Same tasks in the same queues, and bursts in whole seconds, rounded half up (TPC-H: durations x 0.5)."""
    jobs, rules = generate("tpch", 1), Rules(slots=30)
    scenario = as_scenario(jobs, WORKLOADS["tpch"], 4, rules)
    want = [sum(stage.tasks * 40 for job in queue for stage in job.stages) for queue in throughput_slots(jobs, 4, rules.slots)]
    have = dict.fromkeys(sorted({item.queue for item in scenario.submissions}), 0)
    for item in scenario.submissions:
        have[item.queue] += item.job.tasks
    assert list(have.values()) == want
    query22 = next(job for job in scenario.bursts[0].jobs if job.name == "TPC-H query22")
    assert [(stage.tasks, stage.seconds) for stage in query22.stages][2:5] == [(5 * 56, 4), (50 * 56, 5), (35 * 56, 4)]
    assert [stage.seconds for stage in query22.stages][-1] == 2  # 3 x 0.5 = 1.5


@pytest.mark.parametrize("compiled", WAYS)
def test_drf_agrees_with_the_scenario_worked_out_on_paper(compiled: bool) -> None:
    """Capacity 10.00 of each, list [A, B, L], 5 slots, 2 throughput queues, task counts x 2; latency counts x 1.5.

    Slots: 0 A -> q0, 1 B -> q1, 2 L -> q0, 3 stays empty (the list has ended), 4 A' -> q0. Latency job: the first below 2 s and 5 tasks: L,
    m 3 x 1.5 = 4.5 -> 4 tasks of 1.5 -> 2 s, r 1 task of 0.4 -> 0 -> at least 1 s. b1 has 4 tasks of 2.5 -> 3 s.

    t=0  all shares 0 %, ties in queue order: q0 a1 (40 %); q1 b1 (20 %); LQ m 0.5 % -> 1, again -> 1, 1.5 % -> 2, again -> 2, all gone.
         q1 b1 (40 %). Free 1.80, 4.84. Tie 40/40: q0's next a1 needs 4: out, though L's tasks would fit; q1's b1 needs 2: out.
    t=2  LQ: 4 m end, r runnable. Free 2.00, 5.00. LQ r (10 %). q0, q1: next doesn't fit.
    t=3  a1, 2 b1, r end: LQ job done, 3 - 0 = 3. Free 10, 10. q0 a1 (40 %), q1 b1, b1 (40 %), tie: q0; A has none until a1 ends, so L:
         m makes 40.5 % -> 41; q1 has none: out; m five more. A' a1 needs 4 of 1.70: out.
    t=5  6 m end, L's two r runnable. Free 2.00, 5.00. q0 r (50 %), q1 none: out, q0 r (60 %), A' a1 doesn't fit.
    t=6  a1, 2 b1, 2 r end. B 6 - 0 = 6; L 6 - 3 = 3. A's two a2 (60 %), then A' a1 (70 %), a1: cpu full.
    t=7  2 a2 end. A 7 - 0 = 7. Nothing to start.
    t=9  2 a1 of A' end, two a2 start.   t=10  they end: A' 10 - 6 = 4. A latency job arrives; no throughput job is left: stop.
    """
    rules = Rules(capacity=10, slots=5, throughput_tasks=2, latency_jobs=25, period=10, on_seconds=2)
    workload = Workload("paper", "paper", critical_path_below=2, tasks_below=5, latency_tasks=1.5, latency_seconds=1)
    outcome = run([A, B, L], workload, "drf", 2, rules, compiled=compiled)
    assert outcome == Outcome(latency=(3.0,), throughput=(7.0, 3.0, 4.0, 6.0), stopped_at=10, tasks_started=25, scheduling_steps=7)
    assert (outcome.latency_mean, outcome.throughput_mean) == (3.0, 5.0)


@pytest.mark.parametrize("compiled", WAYS)
def test_bopf_agrees_with_the_scenario_worked_out_on_paper(compiled: bool) -> None:
    """Capacity 10.00, one throughput queue with W (10 tasks), the latency job H x 2 = 14 tasks of 3 s, every 10 s, ON 2 s.

    Every task needs 2.00 of both, so a guarantee of g lets floor(g / 2) run. Below, "received" adds usage per *scheduling step*.
    t=0  window: 5 h. log 10.                     t=3  5 h end; received 10 < 20: full capacity, 5 h. log 10.
    t=6  5 h end; received 20: (10 x 10 / 2 - 20) / 8 = 3.75: 1 h; 4 w. log 2.
    t=8  4 w end; received 22: 3.50, 2 in use: none; 4 w. log 2.
    t=9  1 h ends; received 24: 3.25: 1 h. log 2.
    t=10 4 w end; second latency job arrives; window: the first job's last 2 h, then 2 h of the second. log 10.
    t=12 1 h (of t=9) ends; 12 mod 10 = 2 is still in the window: 1 h of the second. log 10.
    t=13 4 h end; the first job is done, 13 - 0. Received over the last 3 *entries*: 2 + 10 + 10 = 22: 3.50, 2 in use: none; the last 2 w.
    t=15 1 h and 2 w end: W 15 - 6 = 9; stop. The second latency job has not ended and counts nowhere.
    """
    rules = Rules(capacity=10, slots=1, throughput_tasks=1, latency_jobs=25, period=10, on_seconds=2)
    workload = Workload("paper", "paper", critical_path_below=10, tasks_below=8, latency_tasks=2, latency_seconds=1)
    outcome = run([W, H], workload, "bopf", 1, rules, compiled=compiled)
    assert (outcome.latency_mean, outcome.throughput) == (13.0, (9.0,))
    assert len(outcome.latency) == 2
    assert math.isnan(outcome.latency[1])
    assert (outcome.stopped_at, outcome.tasks_started, outcome.scheduling_steps) == (15, 27, 8)


def random_job(rng: random.Random, name: str) -> DagJob:
    stages = []
    for index in range(rng.randint(1, 4)):
        demand = (rng.choice([0.05, 0.37, 1.0, 1.25, 2.5]), rng.choice([0.0, 0.04, 0.5, 1.11, 3.0]))
        parents = tuple(sorted(rng.sample(range(index), rng.randint(0, index)))) if index else ()
        stages.append(Stage(f"s{index}", rng.randint(1, 9), rng.choice([0.4, 1, 1.5, 2, 3.5, 7]), demand, parents))
    return DagJob(name, tuple(stages))


@pytest.mark.parametrize("policy", ["drf", "sp", "bopf"])
@pytest.mark.parametrize("seed", range(12))
def test_agrees_with_the_plain_reference_task_by_task(policy: str, seed: int) -> None:
    rng = random.Random(seed)
    batch = [[random_job(rng, f"t{queue}-{number}") for number in range(rng.randint(1, 4))] for queue in range(rng.randint(1, 4))]
    bursts = [random_job(rng, f"l{number}") for number in range(rng.randint(1, 3))]
    workload = Workload("random", "random", 1e9, 10**9, rng.choice([0.5, 1.5, 3]), rng.choice([0.5, 1]))
    rules = Rules(
        capacity=rng.choice([5.0, 7.5, 20.0]),
        throughput_tasks=rng.choice([1, 2, 5]),
        period=rng.choice([7, 15, 40]),
        on_seconds=3,
        most_bursts=20,
    )
    reference = Reference(batch, bursts, workload, policy, rules)
    try:
        latency, throughput, stopped = reference.run()
    except StarvedError:
        with pytest.raises(ScenarioError, match="starving after 20 latency jobs"):
            run_jobs(batch, bursts, workload, policy, rules, compiled=False)
        return
    outcome = run_jobs(batch, bursts, workload, policy, rules, compiled=False)
    assert outcome.stopped_at == stopped
    assert outcome.throughput == tuple(throughput)
    assert [repr(value) for value in outcome.latency] == [repr(value) for value in latency]
    assert (outcome.tasks_started, outcome.scheduling_steps) == (reference.tasks, len(reference.log))


@needs_numba
@pytest.mark.parametrize("policy", ["drf", "bopf"])
def test_compiled_and_plain_give_the_same_bytes(policy: str) -> None:
    jobs = generate("tpch", 3)[:60]
    rules = Rules(slots=40, throughput_tasks=10)
    one, other = (run(jobs, WORKLOADS["tpch"], policy, 4, rules, compiled=compiled) for compiled in (False, True))
    assert repr(one) == repr(other)


def test_each_pass_over_the_list_leaves_one_slot_empty() -> None:
    jobs = [DagJob(str(number), B.stages) for number in range(399)]
    for queues in THROUGHPUT_QUEUES:
        slots = throughput_slots(jobs, queues)
        assert sum(map(len, slots)) == 499
        position = {399: None}
        for slot in range(500):
            if slot != 399:
                position[slot] = slots[slot % queues].pop(0).name
        assert [position[398], position[400], position[499]] == ["398", "0", "99"]


def test_latency_jobs_are_the_first_that_pass_the_limits() -> None:
    jobs = generate("tpch", 1)
    chosen = latency_jobs(jobs, WORKLOADS["tpch"])
    assert len(chosen) == 25
    assert {job.name for job in chosen} == {"TPC-H query22", "TPC-H query6"}
    with pytest.raises(ScenarioError, match="expected at least one job with a critical path below 2 s"):
        latency_jobs([A], Workload("x", "x", 2, 5, 1, 1))


def test_a_task_larger_than_the_machine_is_refused_instead_of_waiting_for_ever() -> None:
    with pytest.raises(ScenarioError, match="A, stage a1: expected cpu and memory demands of at most 3"):
        run_jobs([[A]], [L], WORKLOADS["bb"], "drf", Rules(capacity=3))


def test_reproduce_prints_the_agreed_json_for_given_stage_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, workload in WORKLOADS.items():
        jobs = latency_jobs(generate(name, 2), workload)[:2] + generate(name, 2)[:4]
        write_stage_list(tmp_path / f"{name}.txt", jobs)
    assert main(["reproduce", "bopf-table4", "-o", "json", "--trace", str(tmp_path)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result["factors"]) == {"bb", "tpcds", "tpch"}
    for name in WORKLOADS:
        assert len(result["factors"][name]) == 6
        for kind in ("lq_mean_seconds", "tq_mean_seconds"):
            assert {policy: len(values) for policy, values in result[kind][name].items()} == {"drf": 6, "bopf": 6}
        want = [drf / bopf for drf, bopf in zip(*result["lq_mean_seconds"][name].values(), strict=True)]
        assert result["factors"][name] == want
    (tmp_path / "tpch.txt").unlink()
    assert main(["reproduce", "bopf-table4", "--trace", str(tmp_path)]) == 1
    assert "found no tpch.txt" in capsys.readouterr().err


NEVER_FITS = DagJob("l", (Stage("l", 1, 1, (1000.0, 1000.0)),))
PLAIN = Workload("paper", "paper", 1e9, 10**9, 1, 1)


def contested(cpu: float, memory: float) -> list[list[DagJob]]:
    """Two queues of two tasks each: one uses `cpu` units, the other `memory` units; the rest holds one of the second tasks."""
    rest = Stage("second", 1, 7, (1000 - cpu, 1000 - memory))
    return [[DagJob(name, (Stage("first", 1, 5, first), rest))] for name, first in (("a", (cpu, 0.0)), ("b", (0.0, memory)))]


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("percent", [14.5, 28.5, 29.5, 57.5, 14.4, 57.6])
def test_shares_are_compared_as_the_authors_doubles_round_them(percent: float, compiled: bool) -> None:
    """Their expression in plain Python, u in hundredths; the other queue is at the whole percent below. A tie goes to the first queue."""
    used, other = round(percent * 1000), math.floor(percent)
    share = math.floor(used / 100 / 1000 * 100 + 0.5)
    outcome = run_jobs(contested(percent * 10, other * 10), [NEVER_FITS], PLAIN, "drf", Rules(throughput_tasks=1), compiled=compiled)
    goes_on, waits = outcome.throughput if share <= other else outcome.throughput[::-1]
    assert goes_on == 7.0
    assert waits > 7.0


def test_rounding_half_up_exactly_gives_other_starts_than_the_authors_doubles() -> None:
    doubles, exact = (
        run_jobs(contested(145, 140), [NEVER_FITS], PLAIN, "drf", Rules(throughput_tasks=1, exact_shares=flag)).throughput
        for flag in (False, True)
    )
    assert doubles[0] == exact[1] == 7.0
    assert doubles[1] > 7.0 < exact[0]


@needs_numba
def test_generated_lists_show_the_papers_trend() -> None:
    """Flat under BoPF (within 5 % of the mean), throughput untouched (2 %), factors growing: on the list that is most fully published."""
    jobs = generate("bb", 1)
    drf, bopf = ([run(jobs, WORKLOADS["bb"], policy, queues) for queues in THROUGHPUT_QUEUES] for policy in ("drf", "bopf"))
    seconds = [outcome.latency_mean for outcome in bopf]
    middle = sum(seconds) / len(seconds)
    assert max(abs(value / middle - 1) for value in seconds) < 0.05
    for fair, bounded in zip(drf, bopf, strict=True):
        assert bounded.throughput_mean == pytest.approx(fair.throughput_mean, rel=0.02)
    factors = [fair.latency_mean / bounded.latency_mean for fair, bounded in zip(drf, bopf, strict=True)]
    assert factors == sorted(factors)
