"""The same scenario through the operator's snapshot and through the simulator's gives the same decisions, round by round."""

from __future__ import annotations

import numpy as np
import pytest

from fairburst.kube.times import to_text
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, RoundResult
from fairburst.sim.cluster import one_machine
from fairburst.sim.engine import EPOCH, run
from fairburst.sim.scenario import Scenario, Submission
from fairburst.sim.workload import DagJob, Stage
from tests.support.objects import GI, World, job, latency_spec, pod

TASK = (1.0, 1.0 * GI)
WORK = {"batch/queue": ("batch-job", 500, 7.0, 0.0), "bursty/queue": ("burst-job", 40, 5.0, 10.0)}
UNTIL = 60.0


def operators_world() -> World:
    world = World("{pool: {headRoomPercent: 0}, smallJobs: {enabled: false}}")  # as the simulator's bopf, without DRESS
    world.queue("ThroughputQueue", "batch", created="2026-01-01T00:00:00Z")
    world.queue("LatencyQueue", "bursty", spec=latency_spec(cpu="30", duration=20, interarrival=120), created="2026-01-01T00:00:01Z")
    world.round()
    return world


def show(world: World, given: ClusterSnapshot, now: float, shown: dict[str, int]) -> None:
    """Make the operator's cluster look as the simulator's does: a Job that lacks what waits, a bound pod for each task that runs."""
    for row, spec in enumerate(given.queues):
        namespace = spec.name.split("/")[0]
        name, tasks, _, arrival = WORK[spec.name]
        running, wanted = round(given.usage[row, 0]), round(given.demand[row, 0])
        if now >= arrival and wanted:
            old = world.view.controllers.workloads(namespace)
            new = job(namespace, name, wanted, pod_resources(), completions=tasks, status={"succeeded": tasks - wanted})
            new.metadata.creation_timestamp = to_text(world.wall - now + arrival)
            world.controller("Job", None if not old else LAST.get(namespace), new)
            LAST[namespace] = new
        elif namespace in LAST:
            world.controller("Job", LAST.pop(namespace), None)
        before = shown.get(namespace, 0)
        for number in range(before, running):
            world.put(pod(namespace, f"p{number}", pod_resources(), owner=("Job", name), node=f"node-{number % 2}", phase="Running"))
        for number in range(running, before):
            world.end(namespace, f"p{number}")
        shown[namespace] = running


LAST: dict[str, object] = {}


def pod_resources() -> dict[str, object]:
    return {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}


def test_operator_and_simulator_decide_alike() -> None:
    world = operators_world()
    start = world.wall
    first = world.plan()
    seen: list[tuple[float, ClusterSnapshot, RoundResult]] = []
    jobs = [
        Submission(arrival, queue, DagJob(name, (Stage("s", tasks, seconds, TASK),)))
        for queue, (name, tasks, seconds, arrival) in WORK.items()
    ]
    cluster = one_machine(first.snapshot.resources, (64.0, 128.0 * GI))
    scenario = Scenario(cluster, first.snapshot.queues, jobs, until=UNTIL)
    run(scenario, "bopf", observer=lambda now, given, result: seen.append((now, given, result)))
    assert len(seen) > 10
    LAST.clear()
    shown: dict[str, int] = {}
    for now, given, want in seen:
        world.wall, world.now = start + now, 1000.0 + now
        show(world, given, now, shown)
        have = world.plan()
        np.testing.assert_allclose(have.snapshot.live_capacity, given.live_capacity)
        # The operator passes no more tasks to the core than the 64 that the nodes could hold.
        possible = np.minimum(given.demand[:, :1], 64.0) * TASK
        np.testing.assert_allclose(have.snapshot.demand, possible, err_msg=str(now))
        np.testing.assert_allclose(have.snapshot.usage, given.usage, err_msg=str(now))
        ages = {row: time - EPOCH for row, time in given.oldest_work.items()}
        assert {row: time - start for row, time in have.snapshot.oldest_work.items()} == pytest.approx(ages)
        assert have.result.classes == want.classes
        for part in ("allocation", "guaranteed", "level", "charge_rate"):
            np.testing.assert_allclose(getattr(have.result, part), getattr(want, part), rtol=1e-6, err_msg=f"{part} at {now}")
        assert have.result.next_boundary - world.wall == pytest.approx(want.next_boundary - EPOCH - now, abs=0.05)
    assert any(given.oldest_work for _, given, _ in seen)
    assert GuaranteeClass.HARD in seen[-1][2].classes
    assert {event.kind.value for _, _, result in seen for event in result.events} >= {"BurstOpened", "BurstMet"}
