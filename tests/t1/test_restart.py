"""Kill -9 of the operator in the middle of a window: promises stand, and an armed queue needs no operator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from tests.support.live_cluster import LiveCluster
from tests.support.queues import queue
from tests.support.repeating import repeating
from tests.support.restarts import job, latency, ledger_of
from tests.support.work import namespace

NODES, NODE_CPU, BURST_PODS, SECOND_BURST_PODS = 4, 32, 40, 12
DEAD_SECONDS = 4.0
LONGEST_BATCH_SECONDS = 4


@dataclass
class Evidence:
    """The state before the kill, while no operator ran, and after the restart."""

    before: dict[str, dict[str, Any]]
    after: dict[str, dict[str, Any]]
    seen_after_at: float
    ledger_after: float
    pods_while_dead: list[dict[str, Any]]
    quotas: dict[str, list[str]] = field(default_factory=dict)


class QuotaLog:
    """The values of spec.hard of every quota, in the order in which they were seen."""

    def __init__(self, cluster: LiveCluster) -> None:
        self.values: dict[str, list[str]] = {}
        self._cluster = cluster

    def look(self) -> None:
        for quota in self._cluster.items("resourcequotas"):
            seen = self.values.setdefault(quota["metadata"]["namespace"], [])
            value = quota["spec"]["hard"]["requests.cpu"]
            if not seen or seen[-1] != value:
                seen.append(value)


def rate_of(status: dict[str, Any]) -> float:
    """Return the rate at which a latency queue's ledger grows, in dominant shares, as saved on the cluster."""
    return float(status["internal"]["ledger"]["rateMicro"]) / 1e6 if "ledger" in status.get("internal", {}) else 0.0


@pytest.fixture(scope="module")
def evidence(fresh_cluster: Callable[..., Cluster]) -> Iterator[Evidence]:
    cluster = LiveCluster(fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU)))
    with OperatorProcess(cluster.cluster, {}, "restart") as operator:
        cluster.create(*map(namespace, ("first", "second", "batch")))
        cluster.create(latency("first", 42, 120), latency("second", 14, 120), queue("ThroughputQueue", {}, "batch"))
        until(lambda: [s.get("class") for s in cluster.statuses().values()].count("Hard") == 2, PATIENCE_SECONDS, "two hard queues")
        cluster.create(job("batch", "work", 66, LONGEST_BATCH_SECONDS, cpu=2, completions=9999))
        until(lambda: len(cluster.running("batch")) > 50, PATIENCE_SECONDS, "batch work to fill the cluster")
        # Longer than the rest of the test, so that the window stays open.
        cluster.create(job("first", "burst", BURST_PODS, 60))
        until(lambda: len(cluster.running("first")) >= BURST_PODS, 35.0, "the burst to run")
        share = BURST_PODS / (NODES * NODE_CPU)
        until(lambda: rate_of(cluster.statuses()["first"]) >= share, PATIENCE_SECONDS, "the burst's rate to be on the cluster")
        before = cluster.statuses()
        operator.kill()
        cluster.create(job("second", "burst", SECOND_BURST_PODS, 60))
        time.sleep(DEAD_SECONDS)
        # the Job controller of a busy machine may take longer for them
        until(lambda: len(cluster.items("pods", "second")) >= SECOND_BURST_PODS, PATIENCE_SECONDS, "the second burst's pods")
        dead_pods = cluster.items("pods", "second")
        quotas = QuotaLog(cluster)
        with repeating(quotas.look, 0.2):
            operator.start()
            until(lambda: operator.metrics().get("fairburst_rounds_total", 0) >= 2, PATIENCE_SECONDS, "two rounds of the new process")
            ledger, seen = ledger_of(operator, "first"), time.time()
            until(lambda: cluster.statuses()["second"]["window"]["state"] == "Open", PATIENCE_SECONDS, "the second burst to be noticed")
            after = cluster.statuses()
        yield Evidence(before, after, seen, ledger, dead_pods, quotas.values)


def test_classes_and_promises_are_the_same_after_a_restart(evidence: Evidence) -> None:
    for where, before in evidence.before.items():
        after = evidence.after[where]
        assert after["class"] == before["class"]
        assert after["promise"] == before["promise"]
        assert after["podPriority"] == before["podPriority"]
    window, same = evidence.before["first"]["window"], evidence.after["first"]["window"]
    assert window["state"] == "Open"
    assert (same["opened"], same["deadline"]) == (window["opened"], window["deadline"])


def test_the_remaining_budget_is_the_same_within_ten_seconds_of_consumption(evidence: Evidence) -> None:
    before = evidence.before["first"]["internal"]["ledger"]
    rate = rate_of(evidence.before["first"])
    assert rate > 0.2, "the burst was consuming when the operator was killed"
    elapsed = evidence.seen_after_at - datetime.fromisoformat(before["asOf"]).timestamp()
    expected = before["valueMilliseconds"] / 1e3 + rate * elapsed
    assert abs(evidence.ledger_after - expected) <= 10 * rate
    budgets = [status["first"]["internal"]["window"]["budgetMilliseconds"] for status in (evidence.before, evidence.after)]
    assert budgets[0] == budgets[1]


def test_no_quota_flaps_at_the_restart(evidence: Evidence) -> None:
    for where, values in evidence.quotas.items():
        assert len(values) == len(set(values)), f"{where}: a value was left and came back: {values}"


def test_a_burst_of_an_armed_queue_is_admitted_at_full_priority_while_nobody_runs(evidence: Evidence) -> None:
    assert len(evidence.pods_while_dead) == SECOND_BURST_PODS
    for pod in evidence.pods_while_dead:
        assert pod["spec"]["priorityClassName"] == "fairburst-hard"
        assert pod["spec"]["priority"] == 2000
        assert pod["spec"]["preemptionPolicy"] == "Never"
