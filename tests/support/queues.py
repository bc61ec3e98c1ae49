"""Queue objects with the metadata of stored ones, and a status in which every field is set."""

from __future__ import annotations

import copy
from typing import Any

from fairburst.kube.names import API_VERSION
from fairburst.kube.queues.statuses import QueueStatus

CREATED = "2026-01-01T00:00:00Z"
LATENCY_SPEC: dict[str, Any] = {
    "burst": {"resources": {"cpu": "400", "memory": "800Gi", "nvidia.com/gpu": 4}, "durationSeconds": 27, "deadlineSeconds": 40},
    "arrival": {"periodic": {"periodSeconds": 300, "firstArrival": "2026-01-01T00:00:00Z", "jitterSeconds": 30}},
}
THROUGHPUT_SPEC: dict[str, Any] = {"weight": 3, "limits": {"cpu": "100"}}
ABSENT = object()


def queue(kind: str, spec: dict[str, Any], namespace: str = "default", name: str = "queue") -> dict[str, Any]:
    """A queue as the API server returns it. In a creation the API server overwrites the time."""
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": CREATED}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def changed(spec: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy of the spec with values set (or, if ABSENT, removed) at paths like "burst/resources/cpu"."""
    result = copy.deepcopy(spec)
    for path, value in changes.items():
        *outer, last = path.split("/") if "example.com" not in path else [path]
        part = result
        for key in outer:
            part = part[key]
        if value is ABSENT:
            part.pop(last, None)
        else:
            part[last] = value
    return result


def scheduled(arrival: str, **more: Any) -> dict[str, Any]:
    """One scheduled burst of ten seconds."""
    return {"arrival": arrival, "resources": {"cpu": 1}, "durationSeconds": 10} | more


def schedule(*bursts: dict[str, Any]) -> dict[str, Any]:
    """Changes that turn LATENCY_SPEC into one with a schedule."""
    return {"burst": ABSENT, "arrival": {"schedule": {"bursts": list(bursts)}}}


def to_status(status: QueueStatus) -> dict[str, Any]:
    """The status in the API server's form: camelCase, without unset fields."""
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


def full_status() -> QueueStatus:
    """A status in which every field, at every depth, is set."""
    sides = {"holds": True, "left": "10800", "right": "38400.5", "resource": "cpu", "queue": "clickstream/clickstream"}
    amounts = {"cpu": "270", "memory": "540Gi", "nvidia.com/gpu": "4"}
    time = "2026-01-01T00:00:00.123456Z"
    promise = {
        "kind": "Latency",
        "name": "clickstream/clickstream",
        "created": time,
        "weight": 2,
        "suspended": False,
        "admissionOrder": 4,
        "limits": amounts,
        "calendarFrom": time,
        "leadTime": "Auto",
    } | LATENCY_SPEC
    return QueueStatus.model_validate(
        {
            "observedGeneration": 7,
            "class": "Hard",
            "holds": "Pods",
            "podPriority": {"className": "fairburst-hard", "value": 2000, "preemptionPolicy": "Never"},
            "smallPodPriority": {"className": "fairburst-small", "value": -1, "preemptionPolicy": "Never"},
            "sizeThreshold": amounts,
            "leadTime": {
                "reason": "Holding",
                "message": "Held.",
                "arrival": time,
                "held": amounts,
                "needed": amounts,
                "podSize": amounts,
                "plannedStart": time,
                "expectedFree": amounts,
                "reallyFree": amounts,
            },
            "reserve": {"ratioMilli": 125, "level": amounts, "smallJobs": 7, "largeJobs": 2},
            "promise": promise,
            "refused": promise,
            "suggestion": {"message": "12 bursts were seen.", "bursts": 12, "class": "Hard", **LATENCY_SPEC},
            "uncertainty": {
                "confidencePercent": 95,
                "correlation": "Measured",
                "extraPercent": {"cpu": 20},
                "asked": amounts,
                "bursts": 2,
                "learned": False,
            },
            "share": "25.0%",
            "allocatedShare": "30.0%",
            "usedShare": "28.1%",
            "waitingShare": "0.0%",
            "week": {"since": time, "usedPercent": 112, "servedPercent": 100},
            "lastWeek": {"since": time, "usedPercent": 0, "servedPercent": 100},
            "window": {
                "state": "Open",
                "index": 3,
                "armsAt": time,
                "opensBy": time,
                "opened": time,
                "deadline": time,
                "nextBurst": "now",
                "usedPercent": 7,
            },
            "allocation": amounts,
            "guaranteed": amounts,
            "usage": amounts,
            "demand": amounts,
            "waiting": amounts,
            "explanation": "8 cpu wait.",
            "admission": {"class": "Hard", "reason": "Fits", "message": "All fits.", "safety": sides, "fairness": sides, "resource": sides},
            "history": {"bursts": 3, "met": 2, "missed": 1},
            "elasticity": {
                "mode": "Parallelism",
                "fairnessPercent": 90,
                "jobs": 2,
                "fair": 16,
                "given": 24,
                "byReason": {"TookSlots": 2},
                "moved": amounts,
                "mostAffected": [
                    {
                        "name": "train",
                        "fair": 8,
                        "given": 12,
                        "parallelism": 12,
                        "predictedFairMilli": 700,
                        "predictedMilli": 850,
                        "measuredMilli": 840,
                        "reason": "TookSlots",
                    }
                ],
            },
            "internal": {
                "ledger": {
                    "valueMilliseconds": 1234,
                    "rateMicro": 421875,
                    "deliveredMilliseconds": 2345,
                    "deliveredRateMicro": 500000,
                    "receivedMilliseconds": {"cpu": 1234, "memory": 617},
                    "receivedRateMicro": {"cpu": 421875, "memory": 210937},
                    "asOf": time,
                },
                "debtMilliseconds": 17,
                "periodStarted": time,
                "lastOpened": time,
                "fairShare": {"valueMilliseconds": 512, "rateMicro": 250000, "asOf": time},
                "residualLevelMicro": 125000,
                "window": {
                    "consumedMilliseconds": 1234,
                    "budgetMilliseconds": 16875,
                    "demanded": True,
                    "judged": False,
                    "behindMilliseconds": 250,
                },
                "rounding": {"waitingSince": time, "heldSince": time},
                "balance": {"valueMilliseconds": -512, "rateMicro": 250000, "recentMilliseconds": -256, "asOf": time},
                "burstsSeen": {
                    "of": {"resources": amounts, "durationSeconds": 27},
                    "partsMilli": {"cpu": [900, 1100]},
                },
                "week": {
                    "since": time,
                    "asOf": time,
                    "usedMilliseconds": 112000,
                    "fairMilliseconds": 100000,
                    "wantedMilliseconds": 100000,
                    "servedMilliseconds": 100000,
                },
            },
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "observedGeneration": 7,
                    "lastTransitionTime": CREATED,
                    "reason": "Scheduled",
                    "message": "All is well.",
                }
            ],
        },
        by_alias=True,
        by_name=False,
    )
