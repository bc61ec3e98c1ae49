"""Specs of queues that the API server accepts, and others with the field and the words by which it refuses them."""

from __future__ import annotations

import pytest

from tests.support import queues
from tests.support.queues import ABSENT, schedule, scheduled

POOL = "crds-test"  # of its own, so that policies of other tests on the shared cluster stay out of the way
LATENCY_SPEC = {"pool": POOL} | queues.LATENCY_SPEC
THROUGHPUT_SPEC = {"pool": POOL} | queues.THROUGHPUT_SPEC

GOOD = [
    pytest.param("LatencyQueue", LATENCY_SPEC, {}, id="periodic with jitter"),
    pytest.param(
        "LatencyQueue", LATENCY_SPEC, {"arrival": {"sporadic": {"minInterarrivalSeconds": 40}}}, id="sporadic as often as the deadline"
    ),
    pytest.param("LatencyQueue", LATENCY_SPEC, {"burst/deadlineSeconds": ABSENT}, id="deadline by default the duration"),
    pytest.param("LatencyQueue", LATENCY_SPEC, {"arrival/periodic/jitterSeconds": 130}, id="jitter up to the next window"),
    pytest.param(
        "LatencyQueue", LATENCY_SPEC, {"leadTime": "Off", "reclaim": "Evict", "enforcement": "Observe", "suspended": True}, id="settings"
    ),
    pytest.param(
        "LatencyQueue",
        LATENCY_SPEC,
        schedule(scheduled("2026-01-01T00:00:00Z"), scheduled("2026-01-01T01:00:10.5+01:00", deadlineSeconds=3600)),
        id="schedule in another time zone, deadline and next arrival together",
    ),
    pytest.param("LatencyQueue", LATENCY_SPEC, {"burst/resources": {"cpu": "500m", "ephemeral-storage": "1.5Gi"}}, id="fractions"),
    pytest.param("LatencyQueue", LATENCY_SPEC, {"leadTime": "Auto"}, id="lead time"),
    pytest.param("LatencyQueue", LATENCY_SPEC, {"limits": {"cpu": "400000m", "memory": "1Ti"}}, id="limits of a burst"),
    pytest.param(
        "LatencyQueue", LATENCY_SPEC, schedule(scheduled("2026-01-01T00:00:00Z")) | {"limits": {"cpu": 1}}, id="limits of a schedule"
    ),
    pytest.param("ThroughputQueue", THROUGHPUT_SPEC, {}, id="limits"),
    pytest.param("ThroughputQueue", {"pool": POOL}, {}, id="nothing but a pool"),
    pytest.param("ThroughputQueue", {"pool": POOL, "elasticity": {}}, {}, id="elasticity, all by default"),
    pytest.param(
        "ThroughputQueue", {"pool": POOL, "elasticity": {"mode": "Quota", "acrossQueues": True, "fairnessPercent": 95}}, {}, id="elasticity"
    ),
    pytest.param("ThroughputQueue", THROUGHPUT_SPEC, {"smallJobs": {"thresholdPercent": 20}, "reserve": "Off"}, id="small jobs"),
]

BAD = [
    pytest.param(
        {"burst/resources/cpu": "0"}, "spec.burst.resources[cpu]", "expected a quantity greater than zero, found 0", id="zero demand"
    ),
    pytest.param(
        {"burst/resources/cpu": -4}, "spec.burst.resources[cpu]", "expected a quantity greater than zero, found -4", id="negative demand"
    ),
    pytest.param(
        {"burst/resources/memory": "800Gb"},
        "spec.burst.resources[memory]",
        "expected a Kubernetes quantity such as 4, 500m or 1.5Gi, found 800Gb",
        id="no quantity",
    ),
    pytest.param({"burst/resources/cpu": 1.5}, "spec.burst.resources.cpu", "must be of type integer,string", id="a float"),
    pytest.param(
        {"burst/resources": {"gpu": 4}},
        "spec.burst.resources",
        "expected cpu, memory, ephemeral-storage or an extended resource such as nvidia.com/gpu",
        id="unknown resource",
    ),
    pytest.param(
        {"burst/resources": {"nvidia.com/gpu": "500m"}},
        "spec.burst.resources",
        "expected whole numbers of extended resources",
        id="half a GPU",
    ),
    pytest.param({"burst/resources": {}}, "spec.burst.resources", "at least 1", id="no resources"),
    pytest.param(
        {"burst/resources": {f"example.com/r{n}": 1 for n in range(17)}}, "spec.burst.resources", "at most 16", id="too many resources"
    ),
    pytest.param({"burst/durationSeconds": 0}, "spec.burst.durationSeconds", "greater than or equal to 1", id="no duration"),
    pytest.param(
        {"burst/durationSeconds": 41},
        "spec.burst.deadlineSeconds",
        "expected deadlineSeconds of at least durationSeconds, found 40 < 41",
        id="late",
    ),
    pytest.param(
        {"arrival/periodic/periodSeconds": 39},
        "spec.arrival.periodic.periodSeconds",
        "expected periodSeconds of at least the burst's deadlineSeconds, found 39 < 40",
        id="period shorter than the deadline",
    ),
    pytest.param(
        {"burst/deadlineSeconds": ABSENT, "arrival/periodic/periodSeconds": 26},
        "spec.arrival.periodic.periodSeconds",
        "expected periodSeconds of at least the burst's deadlineSeconds, found 26 < 27",
        id="period shorter than the duration",
    ),
    pytest.param(
        {"arrival/periodic/jitterSeconds": 131},
        "spec.arrival.periodic.jitterSeconds",
        "expected deadlineSeconds + 2 x jitterSeconds of at most periodSeconds, so that windows do not overlap, found 302 > 300",
        id="windows may overlap",
    ),
    pytest.param({"arrival/periodic/firstArrival": "tomorrow"}, "spec.arrival.periodic.firstArrival", "date-time", id="no time"),
    pytest.param(
        {"arrival": {"sporadic": {"minInterarrivalSeconds": 39}}},
        "spec.arrival.sporadic.minInterarrivalSeconds",
        "expected minInterarrivalSeconds of at least the burst's deadlineSeconds, found 39 < 40",
        id="sporadic more often than the deadline",
    ),
    pytest.param(
        {"arrival": {}}, "spec.arrival", "expected exactly one of periodic, sporadic, schedule and calendar", id="no arrival form"
    ),
    pytest.param(
        {"arrival/sporadic": {"minInterarrivalSeconds": 300}},
        "spec.arrival",
        "expected exactly one of periodic, sporadic, schedule and calendar",
        id="two arrival forms",
    ),
    pytest.param({"arrival": ABSENT}, "spec.arrival", "Required value", id="no arrival"),
    pytest.param(
        {"burst": ABSENT}, "spec.burst", "expected burst with arrival.periodic, arrival.sporadic or arrival.calendar", id="no burst"
    ),
    pytest.param(
        {"arrival": {"schedule": {"bursts": [scheduled("2026-01-01T00:00:00Z")]}}},
        "spec.burst",
        "and none with arrival.schedule, which has its own",
        id="burst beside a schedule",
    ),
    pytest.param(schedule(), "spec.arrival.schedule.bursts", "at least 1", id="empty schedule"),
    pytest.param(
        schedule(scheduled("2026-01-01T00:01:00Z"), scheduled("2026-01-01T00:00:00Z")),
        "spec.arrival.schedule.bursts",
        "expected bursts in ascending order of arrival",
        id="schedule not ascending",
    ),
    pytest.param(
        schedule(scheduled("2026-01-01T00:00:00Z"), scheduled("2026-01-01T00:00:09Z")),
        "spec.arrival.schedule.bursts",
        "the deadline of each at or before the arrival of the next",
        id="scheduled windows overlap",
    ),
    pytest.param(
        schedule(scheduled("2026-01-01T00:00:00Z", deadlineSeconds=9)),
        "spec.arrival.schedule.bursts[0].deadlineSeconds",
        "expected deadlineSeconds of at least durationSeconds, found 9 < 10",
        id="scheduled burst longer than its deadline",
    ),
    pytest.param({"weight": 0}, "spec.weight", "greater than or equal to 1", id="no weight"),
    pytest.param({"weight": 1.5}, "spec.weight", "must be of type integer", id="a fraction of weight"),
    pytest.param(
        {"uncertainty": {"confidencePercent": 95}},
        "spec.uncertainty",
        "expected standardDeviationPercent, or fromHistory: true",
        id="uncertainty",
    ),
    pytest.param(
        {"limits": {"cpu": "399999m"}}, "spec.limits", "expected limits of at least what each burst needs", id="limit below the burst"
    ),
    pytest.param({"limits": {"cpu": "lots"}}, "spec.limits[cpu]", "expected a Kubernetes quantity such as", id="limit that is no quantity"),
    pytest.param(
        {"limits": {"ephemeral-storage": "1Ti"}}, "spec.limits", "and only for resources that it names", id="limit on what is not declared"
    ),
    pytest.param(
        schedule(scheduled("2026-01-01T00:00:00Z")) | {"limits": {"cpu": "500m"}},
        "spec.limits",
        "expected limits of at least what each burst needs",
        id="limit below a scheduled burst",
    ),
    pytest.param(
        {"limits": {"cpu": 400}, "uncertainty": {"confidencePercent": 95, "fromHistory": True}},
        "spec.limits",
        "expected no limits with uncertainty",
        id="limits and uncertainty",
    ),
    pytest.param({"reclaim": "Always"}, "spec.reclaim", 'supported values: "Never", "Evict"', id="reclaim"),
    pytest.param({"leadTime": "Always"}, "spec.leadTime", "Always", id="lead time"),
    pytest.param({"enforcement": "quota"}, "spec.enforcement", 'supported values: "Quota"', id="not a mode"),
    pytest.param({"pool": "No Pool"}, "spec.pool", "should match", id="no pool name"),
    pytest.param({"burts": {}}, "spec.burts", "unknown field", id="misspelt field"),
]
BAD_THROUGHPUT = [
    pytest.param(
        {"smallJobs": {"thresholdPercent": 0}}, "spec.smallJobs.thresholdPercent", "greater than or equal to 1", id="no job is small"
    ),
    pytest.param({"reserve": "Sometimes"}, "spec.reserve", "Sometimes", id="reserve"),
    pytest.param({"elasticity": {"fairnessPercent": 0}}, "spec.elasticity.fairnessPercent", "greater than or equal to 1", id="no fairness"),
    pytest.param({"elasticity": {"mode": "Both"}}, "spec.elasticity.mode", 'supported values: "Parallelism"', id="not a mode"),
    pytest.param(
        {"elasticity": {"minimumParallelism": 9, "maximumParallelism": 8}},
        "spec.elasticity.minimumParallelism",
        "expected minimumParallelism of at most maximumParallelism, found 9 > 8",
        id="minimum above maximum",
    ),
    pytest.param(
        {"elasticity": {"mode": "Quota"}},
        "spec.elasticity.acrossQueues",
        "expected acrossQueues: true only with mode: Quota",
        id="quota alone",
    ),
    pytest.param({"limits/cpu": 0}, "spec.limits[cpu]", "expected a quantity greater than zero, found 0", id="limit of zero"),
]
