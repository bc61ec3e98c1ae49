"""The main job on a real control plane: public traces through the running operator, and its promises to users.

Batch work is TPC-H (stages as Jobs), bursts come as the requests of a public service did, both compressed in time.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.workload.arrivals import compressed_bursts, read_requests, request_trace
from e2e.workload.driver import WorkloadDriver
from e2e.workload.metrics import Amounts, WorkloadRecord, average_dominant_shares, backlogged_fraction
from e2e.workload.plans import LatencyPlan, PlannedBurst, ThroughputPlan
from e2e.workload.stages import GIB, DagJob, Stage, data_folder, reshaped, tpch_jobs
from fairburst.kube.api.client import ApiClient
from fairburst.kube.names import QUOTA_NAME
from fairburst.quantity import parse_quantity
from tests.support.audit import at, writes_of
from tests.support.queues import queue

CAPACITY = Amounts(20 * 32.0, 20 * 64 * GIB)
WEIGHTS = {"serving": 1, "batch-one": 1, "batch-two": 2}
INTERARRIVAL, DURATION, BURST_CPU = 24, 22, 170  # d = 3,740 cpu-seconds of at most 640 x 24 / 4 = 3,840
BURST_PODS, BURST_POD_CPU, BURST_POD_SECONDS = 80, 2.0, 5.0
# About ten pods end a second, which two cores carry together with the rest.
BATCH_CPU, SHORTEST_BATCH_SECONDS, LONGEST_BATCH_SECONDS = 8.0, 6.0, 9.0
SECONDS = 58.0


pytestmark = pytest.mark.measure  # on a busy machine deadlines would measure the machine


@dataclass(frozen=True)
class Run:
    """The records of the workload and of the operator."""

    record: WorkloadRecord
    operator: OperatorProcess
    cluster: Cluster
    status: dict[str, Any]
    rounds: list[dict[str, str]]


def queue_manifests() -> str:
    burst = {"resources": {"cpu": str(BURST_CPU), "memory": f"{2 * BURST_CPU}Gi"}, "durationSeconds": DURATION}
    latency = queue("LatencyQueue", {"burst": burst, "arrival": {"sporadic": {"minInterarrivalSeconds": INTERARRIVAL}}}, "serving")
    batch = [queue("ThroughputQueue", {"weight": weight}, where) for where, weight in WEIGHTS.items() if where != "serving"]
    return yaml.safe_dump_all([latency, *batch])


def bursts() -> list[PlannedBurst]:
    """The first bursts that the public service's requests make, compressed 60-fold; each a Job of two-cpu pods."""
    requests = read_requests(request_trace(data_folder(), "conv"))
    job = DagJob("requests", (Stage("serve", BURST_PODS, BURST_POD_SECONDS, BURST_POD_CPU, 2 * BURST_POD_CPU * GIB, ()),))
    grouped = compressed_bursts(
        requests, time_factor=1 / 60, min_interarrival_seconds=INTERARRIVAL + 1, collect=BURST_PODS, largest=BURST_PODS
    )
    return [PlannedBurst(burst.arrival + 8.0, job, DURATION) for burst in grouped if burst.arrival + 8.0 + DURATION < SECONDS]


def batch_jobs(first: int) -> Iterator[DagJob]:
    queries = tpch_jobs(next(data_folder().glob("dagsched-tpch")), cpu=BATCH_CPU, memory=2 * BATCH_CPU * GIB)
    shaped = [
        reshaped(job, time_factor=0.6, shortest=SHORTEST_BATCH_SECONDS, longest=LONGEST_BATCH_SECONDS, task_factor=0.1, widest=40)
        for job in queries
    ]
    return itertools.islice(itertools.cycle(shaped), first, None)


@pytest.fixture(scope="module")
def run(fresh_cluster: Callable[..., Cluster]) -> Iterator[Run]:
    cluster = fresh_cluster(audit=True)
    overrides = {"log": {"level": "DEBUG"}, "enforcement": {"floors": {"cpu": "8", "memory": "16Gi"}}}
    with OperatorProcess(cluster, overrides, "main-job") as operator:
        for namespace in WEIGHTS:
            cluster.kubectl("create", "namespace", namespace)
        cluster.kubectl("apply", "-f", "-", input=queue_manifests())
        cluster.kubectl("wait", "latq/queue", "-n", "serving", "--for=jsonpath={.status.class}=Hard", "--timeout=60s", timeout=70)
        record = asyncio.run(drive(cluster))
        status = json.loads(cluster.kubectl("get", "latq/queue", "-n", "serving", "-o", "json"))["status"]
        yield Run(record, operator, cluster, status, rounds_of(operator.log))


async def drive(cluster: Cluster) -> WorkloadRecord:
    async with await ApiClient.connect(str(cluster.kubeconfig)) as client:
        latency = [LatencyPlan("serving", bursts())]
        throughput = [
            ThroughputPlan(namespace, batch_jobs(7 * number), active_jobs=12, backlog_tasks=200)
            for number, namespace in enumerate(name for name in WEIGHTS if name != "serving")
        ]
        driver = WorkloadDriver(client, "run", latency, throughput, CAPACITY)
        record = await driver.run(SECONDS, drain_seconds=10.0)
        await driver.cleanup()
        return record


def rounds_of(log: Path) -> list[dict[str, str]]:
    """Return the fields of every logged round."""
    lines = [line.split(" round ", 1)[1] for line in log.read_text().splitlines() if "fairburst.kube.loop round " in line]
    return [dict(part.split("=", 1) for part in line.split()) for line in lines]


def test_every_burst_of_the_hard_queue_is_bound_within_its_deadline(run: Run) -> None:
    records = run.record.bursts
    assert len(records) >= 2, "the trace should give at least two bursts"
    for burst in records:
        assert burst.binding_seconds is not None, f"burst {burst.number} was never bound as a whole"
        # Its deadline leaves room for the batch pods that ran at its arrival; nothing else may keep it waiting.
        assert burst.binding_seconds <= DURATION, burst
    assert run.status["class"] == "Hard"
    assert run.status["history"]["met"] >= len(records) - 1, run.status["history"]
    assert run.status["history"]["missed"] == 0, run.status["history"]


def test_no_latency_queue_gets_more_than_a_backlogged_throughput_queue_over_whole_periods(run: Run) -> None:
    """BoPF §3.2: over a long interval no queue's dominant resource exceeds a throughput queue's, per weight."""
    first = run.record.bursts[0].arrival
    periods = int((SECONDS - first) // INTERARRIVAL)
    start, end = first, first + periods * INTERARRIVAL
    shares = average_dominant_shares(run.record.samples, CAPACITY, start, end)
    for namespace, weight in WEIGHTS.items():
        if namespace == "serving":
            continue
        assert backlogged_fraction(run.record.samples, namespace, start, end) > 0.95, f"{namespace} was not backlogged"
        # All of the latency queue's use, spare included, is an upper bound of its guaranteed use.
        assert shares["serving"] / WEIGHTS["serving"] <= shares[namespace] / weight + 0.02, shares


def test_the_sum_of_allocations_never_exceeds_capacity(run: Run) -> None:
    assert len(run.rounds) > 100
    assert max(float(fields["allocated"]) for fields in run.rounds) <= 1.0 + 1e-6


def test_the_sum_of_quotas_exceeds_capacity_only_by_unopened_bursts_floors_and_slack(run: Run) -> None:
    every = json.loads(run.cluster.kubectl("get", "resourcequota", "-A", "-o", "json"))["items"]
    quotas = [quota for quota in every if quota["metadata"]["name"] == QUOTA_NAME]  # the quotas of small and large jobs only divide them
    assert len(quotas) == len(WEIGHTS)
    total = sum(parse_quantity(quota["status"]["hard"]["requests.cpu"]) for quota in quotas)
    slack_of_a_queue = 8 + 8 + 40  # its floor, one pod more, and charges that were not released yet
    assert total <= CAPACITY.cpu + BURST_CPU + len(WEIGHTS) * slack_of_a_queue


def test_a_settled_cluster_gets_no_writes(run: Run) -> None:
    """This test must be the last: it waits until the operator has nothing to write, and then looks for its writes in the audit log."""
    settled = wait_until_quiet(run.cluster, quiet_seconds=16.0, deadline_seconds=90.0)
    time.sleep(max(0.0, settled + 30.0 - time.time()))
    assert writes_since(run.cluster, settled) == []


def wait_until_quiet(cluster: Cluster, *, quiet_seconds: float, deadline_seconds: float) -> float:
    """Wait until the operator has written nothing for so long. Return the time of its last write."""
    deadline = time.monotonic() + deadline_seconds
    while time.monotonic() < deadline:
        newest = max((at(one, "requestReceivedTimestamp") for one in writes_of(cluster, "fairburst")), default=0.0)
        if time.time() - newest >= quiet_seconds:
            return newest + 0.001
        time.sleep(0.5)
    raise AssertionError(f"the operator still writes after {deadline_seconds:g} s: {writes_since(cluster, 0.0)[-10:]}")


def writes_since(cluster: Cluster, start: float) -> list[str]:
    written = [one for one in writes_of(cluster, "fairburst") if at(one, "requestReceivedTimestamp") > start]
    return [f"{one['verb']} {one['requestURI']}" for one in written]
