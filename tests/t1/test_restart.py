"""Kill -9 of the operator in the middle of a window: what was promised stands, and an armed queue needs nobody."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until

BURST_PODS, SECOND_BURST_PODS = 200, 60
DEAD_SECONDS = 6.0
LONGEST_BATCH_SECONDS = 8


@dataclass
class Evidence:
    """What was seen before the kill, while nobody ran, and after the restart."""

    before: dict[str, dict[str, Any]]
    after: dict[str, dict[str, Any]]
    seen_after_at: float
    ledger_after: float
    pods_while_dead: list[dict[str, Any]]
    quotas: dict[str, list[str]] = field(default_factory=dict)


def latency(namespace: str, cpu: int, interarrival: int) -> dict[str, Any]:
    return {
        "apiVersion": "fairburst.dev/v1alpha1",
        "kind": "LatencyQueue",
        "metadata": {"name": "queue", "namespace": namespace},
        "spec": {
            "burst": {"resources": {"cpu": str(cpu), "memory": f"{2 * cpu}Gi"}, "durationSeconds": 40},
            "arrival": {"sporadic": {"minInterarrivalSeconds": interarrival}},
        },
    }


def job(namespace: str, name: str, pods: int, seconds: int, *, cpu: int = 1, completions: int | None = None) -> dict[str, Any]:
    container = {"name": "task", "image": "task", "resources": {"requests": {"cpu": str(cpu), "memory": f"{2 * cpu}Gi"}}}
    template = {
        "metadata": {"annotations": {"run-seconds": f"{seconds}s"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"parallelism": pods, "completions": completions or pods, "template": template},
    }


def statuses(cluster: Cluster) -> dict[str, dict[str, Any]]:
    items = json.loads(cluster.kubectl("get", "latq,thrq", "-A", "-o", "json"))["items"]
    return {item["metadata"]["namespace"]: item.get("status") or {} for item in items}


class QuotaLog:
    """Follows spec.hard of every quota from a thread of its own, several times a second."""

    def __init__(self, cluster: Cluster) -> None:
        self.values: dict[str, list[str]] = {}
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow)

    def __enter__(self) -> QuotaLog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30.0)

    def _follow(self) -> None:
        while not self._stop.wait(0.2):
            for quota in json.loads(self._cluster.kubectl("get", "resourcequota", "-A", "-o", "json"))["items"]:
                seen = self.values.setdefault(quota["metadata"]["namespace"], [])
                value = quota["spec"]["hard"]["requests.cpu"]
                if not seen or seen[-1] != value:
                    seen.append(value)


@pytest.fixture(scope="module")
def evidence(fresh_cluster: Callable[..., Cluster]) -> Iterator[Evidence]:
    cluster = fresh_cluster()
    with OperatorProcess(cluster, {}, "restart") as operator:
        for namespace in ("first", "second", "batch"):
            cluster.kubectl("create", "namespace", namespace)
        batch = {**latency("batch", 1, 1), "kind": "ThroughputQueue", "spec": {}}
        queues = [latency("first", 210, 120), latency("second", 70, 120), batch]
        cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(queues))
        until(lambda: [s.get("class") for s in statuses(cluster).values()].count("Hard") == 2, PATIENCE_SECONDS, "two hard queues")
        cluster.kubectl(
            "create", "-f", "-", input=yaml.safe_dump(job("batch", "work", 330, LONGEST_BATCH_SECONDS, cpu=2, completions=9999))
        )
        until(lambda: running(cluster, "batch") > 250, PATIENCE_SECONDS, "batch work to fill the cluster")
        # Longer than the rest of the test, so that the window stays open.
        cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(job("first", "burst", BURST_PODS, 60)))
        until(lambda: running(cluster, "first") >= BURST_PODS, 35.0, "the burst to run")
        time.sleep(6.0)  # one status interval: rates are on the cluster
        before = statuses(cluster)
        operator.kill()
        cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(job("second", "burst", SECOND_BURST_PODS, 60)))
        time.sleep(DEAD_SECONDS)
        dead_pods = json.loads(cluster.kubectl("get", "pods", "-n", "second", "-o", "json"))["items"]
        with QuotaLog(cluster) as quotas:
            operator.start()
            until(lambda: operator.metrics().get("fairburst_rounds_total", 0) >= 2, PATIENCE_SECONDS, "two rounds of the new process")
            ledger, seen = ledger_of(operator, "first"), time.time()
            time.sleep(6.0)  # one status interval: what the new process thinks is on the cluster
            after = statuses(cluster)
        yield Evidence(before, after, seen, ledger, dead_pods, quotas.values)


def ledger_of(operator: OperatorProcess, namespace: str) -> float:
    """Dominant-share-seconds of a latency queue as the process counts them now."""
    wanted = [value for name, value in operator.metrics().items() if "ledger_seconds" in name and f'namespace="{namespace}"' in name]
    assert len(wanted) == 1, wanted
    return wanted[0]


def running(cluster: Cluster, namespace: str) -> int:
    output = cluster.kubectl("get", "pods", "-n", namespace, "--field-selector=status.phase=Running", "-o", "name")
    return len(output.split())


def test_classes_and_promises_are_the_same_after_a_restart(evidence: Evidence) -> None:
    for namespace, before in evidence.before.items():
        after = evidence.after[namespace]
        assert after["class"] == before["class"]
        assert after["promise"] == before["promise"]
        assert after["podPriority"] == before["podPriority"]
    window, same = evidence.before["first"]["window"], evidence.after["first"]["window"]
    assert window["state"] == "Open"
    assert (same["opened"], same["deadline"]) == (window["opened"], window["deadline"])


def test_the_remaining_budget_is_the_same_within_ten_seconds_of_consumption(evidence: Evidence) -> None:
    before = evidence.before["first"]["internal"]["ledger"]
    rate = before["rateMicro"] / 1e6
    assert rate > 0.2, "the burst was consuming when the operator was killed"
    elapsed = evidence.seen_after_at - datetime.fromisoformat(before["asOf"]).timestamp()
    expected = before["valueMilliseconds"] / 1e3 + rate * elapsed
    assert abs(evidence.ledger_after - expected) <= 10 * rate
    budgets = [status["first"]["internal"]["window"]["budgetMilliseconds"] for status in (evidence.before, evidence.after)]
    assert budgets[0] == budgets[1]


def test_no_quota_flaps_at_the_restart(evidence: Evidence) -> None:
    for namespace, values in evidence.quotas.items():
        assert len(values) == len(set(values)), f"{namespace}: a value was left and came back: {values}"


def test_a_burst_of_an_armed_queue_is_admitted_at_full_priority_while_nobody_runs(evidence: Evidence) -> None:
    assert len(evidence.pods_while_dead) == SECOND_BURST_PODS
    for pod in evidence.pods_while_dead:
        assert pod["spec"]["priorityClassName"] == "fairburst-hard"
        assert pod["spec"]["priority"] == 2000
        assert pod["spec"]["preemptionPolicy"] == "Never"
