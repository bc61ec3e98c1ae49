"""Five minutes of work for two latency and three throughput queues, and the comparison of an operator's recording with the simulator.

The simulator gets the values known at the start (queues and capacity as the operator recorded them) and the plan of the work, and has a
cluster of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from e2e.workload.arrivals import compressed_bursts, read_requests, request_trace
from e2e.workload.plans import LatencyPlan, PlannedBurst
from e2e.workload.stages import GIB, DagJob, Stage, data_folder, reshaped, tpch_jobs
from fairburst.policy.model import GuaranteeClass, Periodic, QueueSpec
from fairburst.recording.lines import Outcome, RecordedRound
from fairburst.recording.reader import RecordingReader
from fairburst.sim import engine, workload
from fairburst.sim.cluster import Cluster
from fairburst.sim.scenario import Scenario, Submission

SECONDS = 300.0
NODES, NODE_CPU, NODE_MEMORY = 20, 32.0, 64.0 * GIB
CONFIG: dict[str, Any] = {"enforcement": {"floors": {"cpu": "8", "memory": "16Gi"}}}
WITHIN = 0.02  # of capacity

# Sporadic: 160 cpu for 20 s at most every 40 s: 3,200 of 640 x 40 / 6 = 4,266 cpu-seconds.
SERVING = {"resources": {"cpu": "160", "memory": "320Gi"}, "durationSeconds": 20}
# Periodic: 520 cpu and 160 exceed the capacity, so no hard promise; 520 x 20 of 640 x 100 / 6 = 10,666 cpu-seconds.
REPORTS = {"resources": {"cpu": "520", "memory": "1040Gi"}, "durationSeconds": 20}
REPORTS_PERIOD, REPORTS_FIRST = 100, 30.0
WEIGHTS = {"steady": 1, "heavy": 2, "evening": 1}
# The first queue on an empty cluster holds all of it until its first tasks end. `steady` comes first, and by so much that its tasks are
# surely bound: with only a second between them, the machine's speed of binding would decide over 4 points of either share.
HEAVY_FIRST = 11.0

Classes = tuple[GuaranteeClass | None, ...]


def queue_documents(started: float) -> list[dict[str, Any]]:
    """The five queues, each in the namespace of its name; `started` in seconds since the epoch."""
    first = datetime.fromtimestamp(started + REPORTS_FIRST, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    arrivals = {
        "serving": (SERVING, {"sporadic": {"minInterarrivalSeconds": 40}}),
        "reports": (REPORTS, {"periodic": {"periodSeconds": REPORTS_PERIOD, "firstArrival": first}}),
    }
    specs = [("LatencyQueue", name, {"burst": burst, "arrival": arrival}) for name, (burst, arrival) in arrivals.items()]
    specs += [("ThroughputQueue", name, {"weight": weight}) for name, weight in WEIGHTS.items()]
    return [
        {"apiVersion": "fairburst.dev/v1alpha1", "kind": kind, "metadata": {"name": "queue", "namespace": name}, "spec": spec}
        for kind, name, spec in specs
    ]


def plans() -> list[LatencyPlan]:
    """All work, at fixed times: the driver's bursts are jobs at a time, whatever their queue's kind.

    Bursts come as a public service's requests did, batch work is TPC-H. Two batch queues always want more than they can have, the
    third comes and goes.
    """
    serve = DagJob("requests", (Stage("serve", 40, 12.0, 4.0, 8.0 * GIB),))
    report = DagJob("report", (Stage("scan", 65, 11.0, 8.0, 16.0 * GIB), Stage("join", 32, 6.0, 8.0, 16.0 * GIB, (0,))))
    requests = read_requests(request_trace(data_folder(), "conv"))
    grouped = compressed_bursts(requests, time_factor=1 / 12, min_interarrival_seconds=41, collect=2800, largest=2800)
    planned = {
        "serving": [PlannedBurst(burst.arrival + 8.0, serve, 20.0) for burst in grouped],
        "reports": [PlannedBurst(at, report, 20.0) for at in every(REPORTS_PERIOD, REPORTS_FIRST)],
        "steady": batch_jobs(0, [1.0] * 3 + list(every(28.0, 5.0))),
        "heavy": batch_jobs(5, [HEAVY_FIRST] * 6 + list(every(14.0, HEAVY_FIRST + 4.0))),
        "evening": batch_jobs(11, [70.0, 75.0, 80.0, 85.0, 190.0, 195.0, 200.0]),
    }
    return [LatencyPlan(name, [one for one in bursts if one.at < SECONDS]) for name, bursts in planned.items()]


def every(seconds: float, first: float) -> Iterator[float]:
    return itertools.takewhile(lambda at: at < SECONDS, itertools.count(first, seconds))


def batch_jobs(first: int, arrivals: Sequence[float]) -> list[PlannedBurst]:
    """TPC-H queries from the `first` on, one at each time."""
    queries = tpch_jobs(next(data_folder().glob("dagsched-tpch")), cpu=8.0, memory=16.0 * GIB)
    shaped = [reshaped(job, time_factor=1.2, shortest=20.0, longest=30.0, task_factor=0.1, widest=40) for job in queries]
    return [PlannedBurst(at, shaped[number % len(shaped)], SECONDS) for number, at in enumerate(arrivals, first)]


@dataclass(frozen=True)
class Outcomes:
    """Classes at the start and after every change, and average dominant shares: recorded by the operator, and simulated."""

    recorded_classes: list[Classes]
    simulated_classes: list[Classes]
    recorded_shares: Mapping[str, float]
    simulated_shares: Mapping[str, float]

    def table(self) -> str:
        """Both shares of each queue, for people."""
        rows = [
            f"{name}: recorded {share:.4f}, simulated {self.simulated_shares[name]:.4f}" for name, share in self.recorded_shares.items()
        ]
        return "\n".join(rows)


def compare(recording: Path, started: float, planned: Sequence[LatencyPlan], start_delay_seconds: float) -> Outcomes:
    """Run the plan in the simulator and compare it with the recording.

    The time that a pod takes to start and to be seen as ended depends on the machine: it is measured, and is the start delay.
    """
    rounds = rounds_from(recording, started)
    snapshot = rounds[0].snapshot
    assert not snapshot.demand.any(), "the work should not have begun"
    names = [spec.name for spec in snapshot.queues]
    queues = tuple(in_virtual_time(spec, started) for spec in snapshot.queues)
    node = tuple((snapshot.live_capacity / NODES).tolist())
    jobs = [Submission(burst.at, f"{plan.namespace}/queue", in_snapshot_units(burst.job)) for plan in planned for burst in plan.bursts]
    scenario = Scenario(
        Cluster(snapshot.resources, (node,) * NODES), queues, jobs, start_delay_seconds=start_delay_seconds, until=SECONDS
    )  # fmt: skip
    decided: list[Classes] = []
    record = engine.run(scenario, observer=lambda now, given, result: decided.append(result.classes))
    return Outcomes(
        changes(one.outcome.classes for one in rounds if isinstance(one.outcome, Outcome)),
        changes(iter(decided)),
        average_shares(rounds, started),
        dict(zip(names, (record.dominant_seconds / SECONDS).tolist(), strict=True)),
    )


def rounds_from(recording: Path, started: float) -> list[RecordedRound]:
    """The recorded rounds of the five minutes, and the last one before them."""
    rounds = [recorded for _, recorded in RecordingReader(recording).rounds() if recorded.now < started + SECONDS]
    return rounds[max(number for number, recorded in enumerate(rounds) if recorded.now <= started) :]


def in_virtual_time(spec: QueueSpec, started: float) -> QueueSpec:
    """The simulator's clock begins at its EPOCH."""
    if isinstance(spec.arrival, Periodic) and spec.arrival.first_arrival is not None:
        return replace(spec, arrival=replace(spec.arrival, first_arrival=spec.arrival.first_arrival - started + engine.EPOCH))
    return spec


def in_snapshot_units(job: DagJob) -> workload.DagJob:
    stages = [workload.Stage(stage.name, stage.tasks, stage.seconds, (stage.cpu, stage.memory), stage.parents) for stage in job.stages]
    return workload.DagJob(job.name, tuple(stages))


def changes(classes: Iterator[Classes]) -> list[Classes]:
    """Leave out repetitions."""
    return [key for key, _ in itertools.groupby(classes)]


def average_shares(rounds: Sequence[RecordedRound], started: float) -> dict[str, float]:
    """Each queue's dominant share used, averaged over the five minutes. The use in a round holds until the next round."""
    times = [started, *(recorded.now for recorded in rounds[1:]), started + SECONDS]
    totals = dict.fromkeys((spec.name for spec in rounds[0].snapshot.queues), 0.0)
    for recorded, (since, until) in zip(rounds, itertools.pairwise(times), strict=True):
        shares = (recorded.snapshot.usage / recorded.snapshot.live_capacity).max(axis=1)
        for spec, share in zip(recorded.snapshot.queues, shares.tolist(), strict=True):
            totals[spec.name] += share * (until - since)
    return {name: total / SECONDS for name, total in totals.items()}
