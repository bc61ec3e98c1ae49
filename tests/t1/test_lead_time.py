"""Lead time on a real control plane, without preemption: a burst on a cluster full of batch work against the same burst on an idle one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import until
from tests.support.live_cluster import LiveCluster
from tests.support.queues import queue
from tests.support.work import namespace, task_job

pytestmark = pytest.mark.long

NODES, NODE_CPU = 10, 8
BATCH_PODS, BATCH_SECONDS = 76, "27s,33s,29s,35s,31s,30s"  # 95 % of 80 cpu
BURST_PODS, BURST_SECONDS, PERIOD_SECONDS = 20, 20, 110
BEFORE_SECONDS = 45.0  # from the queues' creation to the first arrival


@dataclass(frozen=True)
class Completions:
    """Seconds from arrival to the last end of a burst's pods, on the idle cluster and on the full one; the queue's status before it."""

    idle: float
    full: float
    status: dict[str, Any]


def latency(where: str, lead_time: str, first: float) -> dict[str, Any]:
    arrival = {"periodSeconds": PERIOD_SECONDS, "firstArrival": datetime.fromtimestamp(first, UTC).isoformat()}
    burst = {"resources": {"cpu": str(BURST_PODS), "memory": f"{BURST_PODS}Gi"}, "durationSeconds": BURST_SECONDS}
    return queue("LatencyQueue", {"leadTime": lead_time, "burst": burst, "arrival": {"periodic": arrival}}, where)


def completion(cluster: LiveCluster, where: str, name: str, arrival: float) -> float:
    """Create the burst at its arrival and wait for its Job to be complete; seconds from arrival to completion."""
    time.sleep(max(0.0, arrival - time.time()))
    cluster.create(task_job(where, name, BURST_PODS, BURST_PODS, run_seconds=f"{BURST_SECONDS}s", family=name))

    def ended() -> str | None:
        return cluster.get("job", name, where).get("status", {}).get("completionTime")

    return datetime.fromisoformat(until(ended, 120.0, f"burst {where}/{name} to complete")).timestamp() - arrival


@pytest.fixture(scope="module")
def completions(fresh_cluster: Callable[..., Cluster]) -> dict[str, Completions]:
    """Two queues with the same bursts half a period apart, one with lead time: first on an idle cluster, then with a batch backlog."""
    cluster = LiveCluster(fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi"))
    found: dict[str, Completions] = {}
    with OperatorProcess(cluster.cluster, {}, "lead-time"):
        first = time.time() + BEFORE_SECONDS
        arrivals = {"plain": first, "ahead": first + PERIOD_SECONDS / 2}
        cluster.create(*map(namespace, ("plain", "ahead", "batch")))
        cluster.create(latency("plain", "Off", arrivals["plain"]), latency("ahead", "Auto", arrivals["ahead"]))
        cluster.create(queue("ThroughputQueue", {}, "batch"))
        for where in ("plain", "ahead"):
            cluster.wait_class(where, "Hard")
        idle = {name: completion(cluster, name, "idle", at) for name, at in arrivals.items()}
        cluster.create(task_job("batch", "work", BATCH_PODS, 9999, run_seconds=BATCH_SECONDS, family="work"))
        # A whole period of nothing but batch work, in which its tasks' durations are learned.
        for name, at in arrivals.items():
            arrival = at + 2 * PERIOD_SECONDS
            time.sleep(max(0.0, arrival - 1.0 - time.time()))
            status = cluster.status(name)
            found[name] = Completions(idle[name], completion(cluster, name, "full", arrival), status)
    return found


@pytest.mark.timeout(900)
def test_a_burst_with_lead_time_is_done_as_on_an_idle_cluster(completions: dict[str, Completions]) -> None:
    """At 95 % batch load, without preemption: completion at most 1.10 times that on the idle cluster. Without lead time: the figure."""
    ahead, plain = completions["ahead"], completions["plain"]
    print(f"with lead time: {ahead.idle:.1f} s idle, {ahead.full:.1f} s full; without: {plain.idle:.1f} s idle, {plain.full:.1f} s full")
    print(ahead.status.get("leadTime"), plain.status.get("leadTime"))
    assert ahead.full <= 1.10 * ahead.idle, completions


def test_the_queue_said_before_its_burst_that_room_was_held(completions: dict[str, Completions]) -> None:
    assert completions["ahead"].status["leadTime"]["reason"] in {"Holding", "EnoughExpected"}
    assert "leadTime" not in completions["plain"].status
