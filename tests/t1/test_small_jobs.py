"""The reserve for small jobs on a real control plane: how long small jobs wait behind a large one, without a reserve and with it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from tests.support.live_cluster import LiveCluster
from tests.support.queues import queue
from tests.support.work import namespace, task_job

pytestmark = pytest.mark.long

NODES, NODE_CPU = 10, 8  # 80 cpu, 40 for each of the two queues
LARGE_PODS = 500
# In turn, so that places become free all the time and not in waves; one in twelve is a heading task, one a trailing task.
LARGE_SECONDS = "26s,30s,27s,31s,28s,32s,29s,4s,26s,30s,28s,48s"
OTHER_SECONDS = "88s,91s,89s,92s"
# The largest small jobs here. Without a reserve the floor of the quota still admits two of their pods at a time.
SMALL_JOBS, SMALL_PODS, SMALL_SECONDS, APART_SECONDS = 4, 8, "8s", 8.0
LEAD_SECONDS = 15.0  # how long the large job has run when the first small one comes
NO_RESERVE = {"initialReservePercent": 0, "minReservePercent": 0, "stepSeconds": 10_000_000}  # δ = 0, and it stays


@dataclass(frozen=True)
class Run:
    """Waits of the small jobs' pods, seconds from the Job's submission to the pod's start, mean by job.

    ratios: δ, and errors: the mean absolute error of the release ten seconds ahead (fraction of the pool), as the operator published them
    when a small job came. scopes: by quota, whether it counts only or leaves out (In, NotIn) pods of which classes.
    """

    waits: tuple[float, ...]
    ratios: tuple[float, ...]
    errors: tuple[float, ...]
    status: dict[str, Any]
    classes: set[str]
    scopes: dict[str, tuple[str, set[str]]]


def scope_of(quota: dict[str, Any]) -> tuple[str, set[str]]:
    (term,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    return term["operator"], set(term["values"])


def seconds_of(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def run(cluster: LiveCluster, name: str, settings: dict[str, Any]) -> Run:
    """Submit the input to new namespaces, under a new operator without memory."""
    ours, theirs = f"{name}-a", f"{name}-b"
    with OperatorProcess(cluster.cluster, {"smallJobs": {"enabled": True, **settings}}, name) as operator:
        for where in (ours, theirs):
            cluster.create(namespace(where), queue("ThroughputQueue", {}, where))
            cluster.wait_class(where, "Elastic")
        cluster.create(
            task_job(theirs, "other", 60, 9999, run_seconds=OTHER_SECONDS),
            task_job(ours, "large", LARGE_PODS, LARGE_PODS, run_seconds=LARGE_SECONDS),
        )
        until(lambda: len(cluster.running(ours) + cluster.running(theirs)) > 75, 2 * PATIENCE_SECONDS, "the cluster to be full")
        time.sleep(LEAD_SECONDS)
        seen = []
        for number in range(SMALL_JOBS):
            cluster.create(task_job(ours, f"small-{number}", SMALL_PODS, SMALL_PODS, run_seconds=SMALL_SECONDS))
            time.sleep(APART_SECONDS)
            seen.append(operator.metrics())
        status = cluster.status(ours)
        scopes = {quota["metadata"]["name"]: scope_of(quota) for quota in cluster.items("resourcequotas", ours)}
        smalls = [f"small-{number}" for number in range(SMALL_JOBS)]
        until(lambda: all(len(starts(cluster, ours).get(one, ())) == SMALL_PODS for one in smalls), 500.0, "every small pod to start")
        seen.append(operator.metrics())
        waits = tuple(statistics.mean(starts(cluster, ours)[one]) for one in smalls)
        classes = {pod["spec"]["priorityClassName"] for pod in cluster.items("pods", ours)}
    cluster.admin("delete", "namespace", ours, theirs, "--wait=false")
    cluster.admin("delete", "configmap", "fairburst-memory-default", "-n", "fairburst-system")
    until(lambda: not cluster.running(ours) + cluster.running(theirs), 2 * PATIENCE_SECONDS, "the namespaces to be empty")
    return Run(waits, tuple(one["fairburst_reserve_ratio"] for one in seen), tuple(error_of(one) for one in seen), status, classes, scopes)


def error_of(metrics: dict[str, float]) -> float:
    """Mean absolute error of the estimator that is in use."""
    used = next(name for name in ("phases", "learned") if metrics[f'fairburst_release_estimator{{estimator="{name}"}}'])
    return metrics[f'fairburst_release_estimate_error_ratio{{estimator="{used}"}}']


def starts(cluster: LiveCluster, where: str) -> dict[str, list[float]]:
    """For each Job, how long after its submission each pod started that has."""
    submitted = {one["metadata"]["name"]: seconds_of(one["metadata"]["creationTimestamp"]) for one in cluster.items("jobs", where)}
    found: dict[str, list[float]] = {}
    for pod in cluster.items("pods", where):
        name, at = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"], pod["status"].get("startTime")
        if at is not None:
            found.setdefault(name, []).append(seconds_of(at) - submitted[name])
    return found


@pytest.fixture(scope="module")
def runs(fresh_cluster: Callable[..., Cluster]) -> tuple[Run, Run]:
    cluster = LiveCluster(fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi"))
    return run(cluster, "without", NO_RESERVE), run(cluster, "with", {})


@pytest.mark.timeout(1500)
def test_small_jobs_wait_at_most_half_as_long_with_a_reserve_as_without(runs: tuple[Run, Run]) -> None:
    """Two throughput queues, a 500-pod job ahead of small jobs in one of them, δ = 0 against the reserve as it comes, one run each."""
    without, reserved = runs
    print(f"δ = 0: {without}\nwith a reserve: {reserved}")
    assert set(without.ratios) == {0.0}
    assert statistics.mean(reserved.waits) <= 0.5 * statistics.mean(without.waits), (without.waits, reserved.waits)


def test_pods_of_small_jobs_had_their_class_and_the_status_says_how(runs: tuple[Run, Run]) -> None:
    for one in runs:
        assert one.classes == {"fairburst-small", "fairburst-large"}
        assert one.status["smallPodPriority"]["className"] == "fairburst-small"
        assert one.status["sizeThreshold"]["cpu"] == "8"


def test_free_capacity_ten_seconds_ahead_is_foretold_within_a_tenth_of_capacity(runs: tuple[Run, Run]) -> None:
    """With heading and trailing tasks among the large job's. The published error is a recent mean; its median over both runs counts."""
    errors = [error for one in runs for error in one.errors]
    assert statistics.median(errors) <= 0.10, errors


def test_each_pod_counted_for_one_quota(runs: tuple[Run, Run]) -> None:
    """docs/decisions/0274"""
    for one in runs:
        assert one.scopes["fairburst-small"] == ("In", {"fairburst-small"})
        assert one.scopes["fairburst"] == ("NotIn", {"system-node-critical", "system-cluster-critical", "fairburst-small"})
        assert set(one.scopes) == {"fairburst", "fairburst-small"}
