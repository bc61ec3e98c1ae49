"""The realistic engine on scenarios small enough to follow by hand, and invariants of every run."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, RoundResult
from fairburst.sim.cluster import Cluster, Machines, one_machine
from fairburst.sim.engine import run
from fairburst.sim.errors import ScenarioError
from fairburst.sim.experiment import batch_with_bursts, fill_capacity, latency_spec, throughput_spec
from fairburst.sim.figures import met_fraction, summaries
from fairburst.sim.generate import generate
from fairburst.sim.scenario import BurstPlan, NodeChange, Scenario, Submission
from fairburst.sim.workload import DagJob, Stage, scaled

MACHINE = one_machine(("cpu",), (10.0,))
TWO_STAGES = DagJob("two", (Stage("map", 4, 5.0, (2.0,)), Stage("reduce", 1, 3.0, (4.0,), (0,))))


def single(tasks: int, seconds: float, cpu: float = 1.0) -> DagJob:
    return DagJob(f"{tasks}x{seconds}", (Stage("s", tasks, seconds, (cpu,)),))


def one_queue(*jobs: DagJob, cluster: Cluster = MACHINE, **changes: object) -> Scenario:
    queue = throughput_spec("q", 0.0)
    return dataclasses.replace(Scenario(cluster, (queue,), [Submission(0.0, "q", job) for job in jobs]), **changes)  # type: ignore[arg-type]


def test_stages_wait_for_their_parents_and_jobs_for_those_before_them() -> None:
    record = run(one_queue(TWO_STAGES, single(4, 2.0)))
    first, second = record.jobs
    # four maps take 8 of 10 cores, the second job gets two: 0-2, 2-4; reduce 5-8
    assert (first.first_start, first.end) == (0.0, 8.0)
    assert (second.first_start, second.end) == (0.0, 4.0)
    assert record.tasks_started == 9


def test_under_strict_priority_room_that_comes_back_bit_by_bit_goes_to_latency_queues_first() -> None:
    """A batch task ends every second from t=2; the burst of six gets the first six places, though an idle batch queue has an allocation."""
    ends = tuple(Stage(f"s{number}", 1, 2.0 + number, (1.0,)) for number in range(10))
    queues = (
        throughput_spec("tq-0", 0.0),
        throughput_spec("tq-1", 1.0),
        latency_spec("lq", 2.0, ("cpu",), (10.0,), 10.0, 500.0, first=1.0),
    )
    work = [Submission(0.0, "tq-0", DagJob("ends", ends)), Submission(1.0, "tq-1", single(10, 50.0))]
    scenario = Scenario(MACHINE, queues, work, [BurstPlan("lq", 1.0, 500.0, [single(6, 100.0)], 1)])
    assert run(scenario, "sp").of("lq")[0].end == 7.0 + 100.0


def test_room_that_a_spent_burst_was_lent_goes_first_to_batch_work_that_waits_for_it() -> None:
    """A burst of 3 cores x 30 s wants all 12 cores for ever, and has used its fair share of 600 s when batch work wants 4 x 2 cores.

    The batch work is allocated 8, the burst is lent 4. On nodes of 3 cores four batch tasks fit only if they come first: three tasks of
    the burst on one node keep a batch task away from it, and are followed by three others whenever they end.
    """
    batch = DagJob("batch", (Stage("one", 1, 80.0, (2.0,)), Stage("many", 4, 200.0, (2.0,), (0,))))
    queues = (
        latency_spec("lq", 0.0, ("cpu",), (3.0,), 30.0, 600.0, first=2.0),
        *(throughput_spec(f"tq-{number}", 1.0 + number) for number in range(8)),
    )
    plan = BurstPlan("lq", 2.0, 600.0, [single(400, 25.0)], 1)
    scenario = Scenario(
        Cluster(("cpu",), ((3.0,),) * 4), queues, [Submission(1.0, "tq-0", batch)], [plan], start_delay_seconds=1.0, until=900.0
    )  # fmt: skip
    record = run(scenario, "bopf")
    assert record.of("tq-0")[0].end == 106.0 + 1.0 + 200.0  # the burst's tasks end at 106
    assert record.utilisation["cpu"] > 0.95


def test_a_start_delay_holds_the_room_before_the_work() -> None:
    record = run(one_queue(single(10, 5.0), single(1, 1.0), start_delay_seconds=2.0))
    assert [job.end for job in record.jobs] == [7.0, 10.0]


def test_many_nodes_are_filled_first_fit_and_fragmentation_costs_room() -> None:
    whole, split = one_machine(("cpu",), (12.0,)), Cluster(("cpu",), ((4.0,),) * 3)
    assert run(one_queue(single(4, 5.0, 3.0), cluster=whole)).end == 5.0
    assert run(one_queue(single(4, 5.0, 3.0), cluster=split)).end == 10.0
    machines = Machines(split)
    assert machines.place(np.array([2_000_000]), 5) == [(0, 2), (1, 2), (2, 1)]


def test_a_failed_node_loses_its_tasks_and_they_run_again() -> None:
    nodes = Cluster(("cpu",), ((4.0,), (4.0,)))
    changes = [NodeChange(3.0, 1, (0.0,), lost=True), NodeChange(20.0, 1, (4.0,))]
    record = run(one_queue(single(8, 10.0), cluster=nodes, changes=changes))
    assert record.tasks_evicted == 4
    assert record.end == 20.0  # four run 0-10 on the node that is left, the lost ones after them
    kept = run(one_queue(single(8, 10.0), cluster=nodes, changes=[NodeChange(3.0, 1, (0.0,))]))
    assert (kept.tasks_evicted, kept.end) == (0, 10.0)


def burst_scenario(**changes: object) -> Scenario:
    """Batch tasks of 30 s fill 10 cores when a burst of 10 cores x 5 s comes at 20."""
    queues = (throughput_spec("batch", 0.0), latency_spec("lq", 1.0, ("cpu",), (10.0,), 5.0, 100.0, first=20.0))
    submissions = [Submission(0.0, "batch", single(10, 30.0)), Submission(1.0, "batch", single(10, 30.0))]
    plan = BurstPlan("lq", 20.0, 100.0, [single(10, 5.0)], 1)
    return dataclasses.replace(Scenario(MACHINE, queues, submissions, [plan]), **changes)  # type: ignore[arg-type]


def test_without_preemption_a_burst_starts_when_running_tasks_end() -> None:
    record = run(burst_scenario())
    (burst,) = record.of("lq")
    assert record.classes["lq"] is GuaranteeClass.HARD
    assert (burst.first_start, burst.end, burst.met) == (30.0, 35.0, False)
    assert met_fraction(record.of("lq"), record.end) == 0.0
    assert record.tasks_evicted == 0


def test_with_preemption_it_starts_at_once_and_the_evicted_work_is_done_again() -> None:
    record = run(burst_scenario(preemptive=True))
    (burst,) = record.of("lq")
    assert (burst.first_start, burst.end, burst.met) == (20.0, 25.0, True)
    assert record.tasks_evicted == 10
    assert all(not math.isnan(job.end) for job in record.jobs)
    assert record.end == 85.0


def test_drf_halves_and_what_puts_bursts_first_takes_all() -> None:
    queues = (throughput_spec("batch", 0.0), latency_spec("lq", 1.0, ("cpu",), (10.0,), 10.0, 100.0))
    scenario = Scenario(MACHINE, queues, [Submission(0.0, "batch", single(40, 5.0)), Submission(0.0, "lq", single(20, 5.0))])
    assert run(scenario, "drf").of("lq")[0].end == 20.0
    assert run(scenario, "sp").of("lq")[0].end == 10.0
    assert run(scenario, "edf").of("lq")[0].end == 10.0
    assert run(scenario, "bopf").of("lq")[0].end == 10.0


def test_under_earliest_deadline_first_the_burst_that_is_due_first_ends_first() -> None:
    """Two bursts of 20 tasks of 5 s on 10 cores: each takes 10 s alone. The one that is due in 50 s goes before the one due in 100 s."""
    queues = tuple(
        latency_spec(name, order, ("cpu",), (10.0,), due, 100.0) for name, order, due in (("late", 0.0, 100.0), ("soon", 1.0, 50.0))
    )
    scenario = Scenario(MACHINE, queues, [Submission(0.0, name, single(20, 5.0)) for name in ("late", "soon")])
    record = run(scenario, "edf")
    assert [record.of(name)[0].end for name in ("late", "soon")] == [20.0, 10.0]


@pytest.fixture(scope="module")
def busy() -> Scenario:
    jobs = [scaled(job, 4) for job in generate("tpch", 1)[:40]]
    cluster = Cluster(("cpu", "memory"), ((10.0, 10.0),) * 10)
    return batch_with_bursts(
        cluster, jobs, 3, [fill_capacity(generate("tpch", 1)[0], (100, 100), 0.5)], period=300.0, on_seconds=25.0, until=900.0
    )


@pytest.mark.parametrize("policy", ["bopf", "drf", "sp", "n-bopf", "m-bvt", "capacity", "static", "edf"])
def test_use_never_exceeds_capacity_under_any_policy(busy: Scenario, policy: str) -> None:
    seen: list[ClusterSnapshot] = []

    def observe(now: float, given: ClusterSnapshot, result: RoundResult) -> None:
        seen.append(given)
        assert (result.allocation.sum(axis=0) <= given.live_capacity * (1 + 1e-6)).all(), now

    record = run(busy, policy, observer=observe)
    assert all((given.usage.sum(axis=0) <= given.live_capacity).all() for given in seen)
    assert sum(part for part in record.utilisation.values()) > 0.5
    assert sum(row.fair_share for row in summaries(record)) == pytest.approx(1.0)


def test_the_same_scenario_gives_the_same_record(busy: Scenario) -> None:
    one, other = run(busy, "bopf"), run(busy, "bopf")
    assert repr(one.jobs) == repr(other.jobs)
    assert one.resource_seconds.tobytes() == other.resource_seconds.tobytes()


def test_scenarios_that_make_no_sense_are_refused_by_name() -> None:
    with pytest.raises(ScenarioError, match="expected one of the queues q, found 'x'"):
        run(Scenario(MACHINE, (throughput_spec("q", 0.0),), [Submission(0.0, "x", single(1, 1.0))]))
    with pytest.raises(ScenarioError, match="stage s: expected a demand for cpu that fits on one node"):
        run(one_queue(single(1, 1.0, 11.0)))
    queue = latency_spec("lq", 0.0, ("cpu",), (1.0,), 5.0, 50.0)
    with pytest.raises(ScenarioError, match="queue lq: expected an end"):
        run(Scenario(MACHINE, (queue,), bursts=[BurstPlan("lq", 0.0, 50.0, [single(1, 1.0)])]))
    with pytest.raises(ScenarioError, match="expected a policy among"):
        run(one_queue(single(1, 1.0)), "fifo")
    with pytest.raises(ScenarioError, match="node 0: expected an amount >= 0 of each of cpu"):
        Cluster(("cpu",), ((-1.0,),))
