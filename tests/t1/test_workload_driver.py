"""The workload driver on a real control plane: what it records is what happened, also across an outage of the API server."""

from __future__ import annotations

import asyncio
import time

import pytest

from e2e.cluster import Cluster
from e2e.workload.capacity import cluster_capacity
from e2e.workload.driver import WorkloadDriver, WorkloadError
from e2e.workload.metrics import Amounts, average_dominant_shares, backlogged_fraction, largest_total_share
from e2e.workload.plans import LatencyPlan, PlannedBurst, ThroughputPlan
from e2e.workload.stages import GIB, DagJob, Stage
from fairburst.kube.api.client import ApiClient


@pytest.fixture(scope="module")
def own(fresh_cluster) -> Cluster:
    """Two nodes of 8 cpu and 16 Gi: 16 slots."""
    cluster = fresh_cluster(nodes=2, node_cpu="8", node_memory="16Gi")
    for name in ("bursty", "batch"):
        cluster.kubectl("create", "namespace", name)
    return cluster


def diamond(seconds: float, width: int = 4) -> DagJob:
    """A scan, two parallel stages, and a last one that waits for both."""
    task = {"seconds": seconds, "cpu": 1.0, "memory": GIB}
    return DagJob(
        "diamond",
        (
            Stage("scan", width, **task),
            Stage("left", width, **task, parents=(0,)),
            Stage("right", width, **task, parents=(0,)),
            Stage("join", 1, **task, parents=(1, 2)),
        ),
    )


def burst(at: float, tasks: int, seconds: float = 2.0) -> PlannedBurst:
    return PlannedBurst(at, DagJob("burst", (Stage("burst", tasks, seconds, 1.0, GIB),)), deadline_seconds=10)


async def run_on(cluster: Cluster, name: str, latency, throughput, seconds: float, meanwhile=None, drain_seconds: float = 60):
    async with await ApiClient.connect(str(cluster.kubeconfig)) as client:
        driver = WorkloadDriver(client, name, latency, throughput, await cluster_capacity(client))
        other = asyncio.create_task(meanwhile()) if meanwhile else None
        record = await driver.run(seconds, drain_seconds=drain_seconds)
        if other:
            await other
        await driver.cleanup()
    assert cluster.kubectl("get", "pods", "-A", "-l", f"workload-run={name}", "-o", "name") == ""
    return record


async def test_stages_run_in_order_and_bursts_are_timed(own):
    work = ThroughputPlan("batch", [diamond(2.0)], active_jobs=1, backlog_tasks=1)
    record = await run_on(own, "order", [LatencyPlan("bursty", [burst(1.0, tasks=4)])], [work], seconds=12)
    assert record.capacity == Amounts(16, 32 * GIB)
    assert record.jobs_done == {"bursty": 1, "batch": 1}
    assert record.tasks_done == {"bursty": 4, "batch": 13}
    (seen,) = record.bursts
    assert seen.arrival == pytest.approx(1.0, abs=1.0)
    assert 0 < seen.binding_seconds < seen.completion_seconds
    assert seen.completion_seconds >= 2.0  # the resources of one of its tasks
    assert seen.met
    # Three levels of 2 s each with 4, then 8, then 1 tasks of a sixteenth: the levels never overlap.
    held = [round(sample.held["batch"].dominant_share(record.capacity) * 16) for sample in record.samples]
    assert max(held) == 8
    assert held[-1] == 0
    assert sum(level > 0 for level in held) * 0.25 >= 6


async def test_throughput_queue_stays_backlogged_and_a_burst_beside_it_is_recorded_as_far_as_it_came(own):
    work = ThroughputPlan("batch", iter(lambda: diamond(3.0, width=12), None), active_jobs=30, backlog_tasks=40)
    record = await run_on(own, "backlog", [LatencyPlan("bursty", [burst(6.0, tasks=8)])], [work], seconds=15, drain_seconds=5)
    assert backlogged_fraction(record.samples, "batch", 2, 15) == 1
    assert average_dominant_shares(record.samples, record.capacity, 4, 15)["batch"] > 0.5
    assert largest_total_share(record.samples, record.capacity) == 1
    # Unschedulable pods come back by back-off among new ones, so it is chance whether the last of a burst is bound.
    (seen,) = record.bursts
    assert (seen.completed_at is not None) == (record.tasks_done.get("bursty", 0) == seen.pods)
    assert seen.bound_at is None or seen.bound_at > seen.arrival


async def test_run_survives_an_api_server_that_crashes_in_the_middle(own):
    async def crash():
        await asyncio.sleep(3.5)  # while pods run that will end before the server is back
        await asyncio.to_thread(own.stop, "kube-apiserver", kill=True)
        await asyncio.to_thread(own.start_component, "kube-apiserver")

    bursts = [burst(0.5, tasks=6, seconds=4.0), burst(5.0, tasks=6)]
    record = await run_on(own, "outage", [LatencyPlan("bursty", bursts)], [], seconds=8, meanwhile=crash)
    assert record.api_errors > 0
    assert record.tasks_done == {"bursty": 12}
    assert all(seen.completed_at is not None for seen in record.bursts)


async def test_refused_work_ends_the_run_with_the_reason(own):
    started = time.monotonic()
    with pytest.raises(WorkloadError, match=r'the cluster refuses.*namespaces "nowhere" not found'):
        await run_on(own, "refused", [LatencyPlan("nowhere", [burst(0.1, tasks=1)])], [], seconds=60)
    assert time.monotonic() - started < 30, "at once, not after the 60 s of the run"
