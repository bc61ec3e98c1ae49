"""The operator's engine with its decisions enforced by quotas, in virtual time, beside the simulator, which needs no quotas.

What T1 measures once in five minutes (tests/t1/test_replay.py) is measured here for a release lag of choice. With a lag of a second the
shares of two queues are up to 2.2 points apart: the quota is then written higher by what is not released yet (decision 0003), and a
queue whose stages end all at once starts that much above its level. Without that allowance they are 0.8 points apart again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from e2e.workload.plans import LatencyPlan, PlannedBurst
from e2e.workload.stages import GIB, DagJob, Stage
from fairburst.config import Config
from fairburst.policy.decide import decide
from fairburst.policy.model import GuaranteeClass
from fairburst.recording.reader import RecordingReader
from fairburst.recording.replay import replay
from fairburst.recording.writer import Recorder
from fairburst.sim import workload
from fairburst.sim.cluster import Cluster
from fairburst.sim.engine import run
from fairburst.sim.experiment import latency_spec, throughput_spec
from fairburst.sim.scenario import BurstPlan, Scenario, Submission
from tests.support.five_minutes import CONFIG, NODES, SECONDS, WITHIN, Outcomes, compare, plans, queue_documents
from tests.support.objects import World, node
from tests.support.quota_cluster import QuotaCluster

pytestmark = pytest.mark.slow

OVERHEAD_SECONDS = 1.0


def five_minutes(recording: Path, release_seconds: float) -> Outcomes:
    world = World(Config.model_validate(CONFIG), nodes=NODES)
    started, planned = world.wall + 10, plans()
    recorder = Recorder(recording, 10**9, 1, backlog=100_000)
    recorder.start()
    try:
        cluster = QuotaCluster(world, recorder.decide, overhead_seconds=OVERHEAD_SECONDS, release_seconds=release_seconds)
        for number, queue in enumerate(queue_documents(started)):
            namespace = queue["metadata"]["namespace"]
            world.queue(queue["kind"], namespace, spec=queue["spec"], created=f"2026-01-01T00:00:0{number}Z")
        world.round()
        world.after(1.0)
        world.round()
        cluster.run(planned, started, SECONDS)
    finally:
        recorder.stop()
    assert replay(RecordingReader(recording)).differences == []
    found = compare(recording, started, planned, OVERHEAD_SECONDS)
    print(f"\n{release_seconds} s until a charge is released\n{found.table()}")
    return found


def test_the_simulator_gives_the_same_classes_and_shares_as_quotas_with_half_a_second_of_release_lag(tmp_path: Path) -> None:
    found = five_minutes(tmp_path / "rounds.jsonl", release_seconds=0.5)
    assert set(found.recorded_classes[-1]) == {GuaranteeClass.HARD, GuaranteeClass.SOFT, GuaranteeClass.ELASTIC}
    assert found.simulated_classes == found.recorded_classes
    assert found.simulated_shares == pytest.approx(found.recorded_shares, abs=WITHIN)


def test_batch_work_next_to_a_spent_burst_ends_in_the_simulator_when_it_ends_with_quotas() -> None:
    """Four nodes of 3 cpu. A burst of 1-cpu tasks has used its fair share when a batch stage of 4 x 2 cpu x 200 s comes, at 82.

    With quotas the batch pods wait when the burst's tasks end together, and the burst's next pods are refused until then. While the
    simulator placed the burst's tasks first, the fourth batch task waited until the others had ended, and the stage took 400 s.
    """
    burst = DagJob("burst", (Stage("s", 400, 25.0, 1.0, 2 * GIB),))
    batch = DagJob("batch", (Stage("one", 1, 80.0, 2.0, 4 * GIB), Stage("many", 4, 200.0, 2.0, 4 * GIB, (0,))))
    world = World(Config.model_validate({"enforcement": {"floors": {"cpu": "1", "memory": "2Gi"}}}), nodes=0)
    world.nodes |= {("", f"node-{number}"): node(f"node-{number}", cpu="3", memory="6Gi") for number in range(4)}
    started = world.wall + 10
    arrival = {"periodic": {"periodSeconds": 600, "firstArrival": datetime.fromtimestamp(started + 2, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}}
    world.queue(
        "LatencyQueue", "lq", spec={"burst": {"resources": {"cpu": "3", "memory": "6Gi"}, "durationSeconds": 30}, "arrival": arrival}
    )  # fmt: skip
    for number in range(8):
        world.queue("ThroughputQueue", f"tq-{number}", created=f"2026-01-01T00:00:0{number + 1}Z")
    cluster = QuotaCluster(world, decide, overhead_seconds=OVERHEAD_SECONDS, release_seconds=0.5)
    world.round()
    world.after(1.0)
    world.round()
    planned = [LatencyPlan("lq", [PlannedBurst(2.0, burst, 30.0)]), LatencyPlan("tq-0", [PlannedBurst(1.0, batch, SECONDS)])]
    cluster.run(planned, started, 312.0)
    assert not [stage for stage in cluster.stages if stage.run.namespace == "tq-0"]

    queues = (latency_spec("lq", 0.0, ("cpu",), (3.0,), 30.0, 600.0, 2.0), *(throughput_spec(f"tq-{n}", 1.0 + n) for n in range(8)))
    scenario = Scenario(
        Cluster(("cpu",), ((3.0,),) * 4), queues, [Submission(1.0, "tq-0", _simulated(batch))],
        [BurstPlan("lq", 2.0, 600.0, [_simulated(burst)], 1)], start_delay_seconds=OVERHEAD_SECONDS,
    )  # fmt: skip
    assert run(scenario).of("tq-0")[0].end == pytest.approx(309.0, abs=3.0)


def _simulated(job: DagJob) -> workload.DagJob:
    stages = tuple(workload.Stage(stage.name, stage.tasks, stage.seconds, (stage.cpu,), stage.parents) for stage in job.stages)
    return workload.DagJob(job.name, stages)
