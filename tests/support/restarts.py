"""Queues and work for tests in which one operator ends and another takes over: twice as many Gi as cpu, as the nodes have."""

from __future__ import annotations

from typing import Any

from e2e.harness import OperatorProcess
from tests.support import work
from tests.support.queues import queue

JsonObject = dict[str, Any]


def latency(where: str, cpu: int, interarrival: int, seconds: int = 40, **burst: Any) -> JsonObject:
    """A queue with sporadic bursts; further keywords go into its burst."""
    declared = {"resources": {"cpu": str(cpu), "memory": f"{2 * cpu}Gi"}, "durationSeconds": seconds, **burst}
    return queue("LatencyQueue", {"burst": declared, "arrival": {"sporadic": {"minInterarrivalSeconds": interarrival}}}, where)


def job(where: str, name: str, pods: int, seconds: int, *, cpu: int = 1, completions: int | None = None) -> JsonObject:
    return work.job(where, name, pods, work.pod_spec(cpu, f"{2 * cpu}Gi"), seconds=seconds, completions=completions)


def ledger_of(operator: OperatorProcess, where: str) -> float:
    """Return the dominant-share-seconds of a latency queue as the process counts them now."""
    [found] = [value for name, value in operator.metrics().items() if "ledger_seconds" in name and f'namespace="{where}"' in name]
    return found
