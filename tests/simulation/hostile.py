"""Objects that the API server admits and that no user creates: the ends of every range that a schema allows.

Queues pass the models of the CRDs, with their rules. Pods, Jobs and the others stay within the ranges of the API's own validation.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from fairburst.kube.names import API_VERSION, GATE, HELD_ANNOTATION, RECLAIMABLE_ANNOTATION, RELEASED_ANNOTATION
from fairburst.kube.queues import job_annotations
from fairburst.kube.queues.objects import InvalidQueueError, parse_queue
from tests.simulation.resources import (
    DEPLOYMENTS,
    JOB_SETS,
    JOBS,
    LATENCY_QUEUES,
    LIMIT_RANGES,
    NODES,
    PODS,
    QUEUES,
    QUOTAS,
    REPLICA_SETS,
    STATEFUL_SETS,
    THROUGHPUT_QUEUES,
    Object,
)

YEAR, MOST_INT = 31_536_000, 2**31 - 1
AMOUNTS = [
    "0",
    "1",
    "2",
    "7",
    "1m",
    "999m",
    "1n",
    "1u",
    "0.000000001",
    "100m",
    "0.1",
    "1.5",
    "1k",
    "1Ki",
    "1Mi",
    "1.5Gi",
    "2Gi",
    "1Ti",
    "8Pi",
    "1Ei",
    "7.999Ei",
    "8Ei",
    "16Ei",
    "9223372036854775807",
    "9223372036854775808",
    "1e3",
    "1E3",
    "1e18",
    "1e30",
    "1e-9",
    "1e-30",
    "1E",
    "1000000000000000000000",
    "00000001",
    "+1",
    ".5",
    "5.",
    "12345678901234567890n",
]
TIMES = [
    "0001-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "1970-01-01T00:00:00Z",
    "2026-02-28T00:00:00Z",
    "2026-05-28T20:26:40Z",
    "2026-05-28T20:27:00Z",
    "2026-05-28T20:26:41.5Z",
    "2026-05-29T00:00:00+23:59",
    "2026-05-28T00:00:00-23:59",
    "2038-01-19T03:14:08Z",
    "2262-04-11T23:47:17Z",
    "2100-01-01T00:00:00.123456789Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
]
NAMES = ("cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "a.example.com/b", "hugepages-2Mi")
TEXTS = ("", " ", "0", "-1", "1", "true", "null", "{}", "[]", "NaN", "1e400", "9" * 400, "\u0000", "é" * 100, '{"points": [[1, 1]]}')
CURVES = (
    *TEXTS,
    '{"points": [[1, 0.2], [8, 0.9], [16, 1]]}',
    '{"points": [[1, 1e308], [2, 1e308]]}',
    '{"points": [[100000, 1], [1, 0]]}',
    '{"coefficients": [1e308, -1e308, 1e308, 0]}',
    '{"coefficients": [0, 0, 0, 0]}',
    '{"points": ' + "[" * 500 + "]" * 500 + "}",
    '{"points": [[1, NaN]]}',
)
PRIORITIES = ("", "fairburst-hard", "fairburst-small", "system-node-critical", "other")


class Hostile:
    """Draws objects from one source. `make` returns a collection and an object for a namespace."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._number = 0
        self._makers: list[tuple[Callable[[str], tuple[str, Object]], int]] = [
            (self.pod, 60),
            (self.job, 20),
            (self.replicated, 6),
            (self.queue, 5),
            (self.quota, 3),
            (self.limit_range, 2),
            (self.node, 2),
            (self.job_set, 2),
        ]

    def namespace(self, count: int) -> int:
        """Return one of `count` namespaces."""
        return self._source.randrange(count)

    def make(self, namespace: str) -> tuple[str, Object]:
        """Return an object of any kind."""
        makers, weights = zip(*self._makers, strict=True)
        made: tuple[str, Object] = self._source.choices(makers, weights)[0](namespace)
        return made

    # Parts -----------------------------------------------------------------------------------------------------------

    def _maybe(self, chance: float, value: Callable[[], Any]) -> Any:
        return value() if self._source.random() < chance else None

    def _amount(self) -> str:
        return self._source.choice(AMOUNTS)

    def _amounts(self) -> dict[str, Any]:
        count = self._source.choice((0, 1, 2, 2, 3))
        return {name: self._amount() for name in self._source.sample(NAMES, count)}

    def _count(self) -> int:
        return self._source.choice((0, 1, 2, 3, 10, 1000, 100_000, MOST_INT - 1, MOST_INT))

    def _seconds(self) -> int:
        return self._source.choice((1, 1, 2, 5, 30, 60, 3600, 86_400, YEAR - 1, YEAR))

    def _time(self) -> str:
        return self._source.choice(TIMES)

    def _metadata(self, namespace: str, kind: str, *, texts: bool = False) -> Object:
        self._number += 1
        name = f"{kind}-{self._number}"
        name = name if self._source.random() < 0.9 else (name + "-" + "x" * 253)[:253]
        made: Object = {"name": name, "uid": f"hostile-{self._number}", "creationTimestamp": "2026-05-28T20:26:40Z", "generation": 1}
        made |= {"namespace": namespace} if namespace else {}
        if texts and self._source.random() < 0.6:
            made["annotations"] = self._notes()
            made["labels"] = {job_annotations.FAMILY: self._source.choice(("", "a", "x" * 63)), "fairburst.dev/size": "Small"}
        if self._source.random() < 0.1:
            made["deletionTimestamp"] = self._time()
            made["deletionGracePeriodSeconds"] = self._source.choice((0, 1, 30, 10**12, 2**63 - 1))
        if self._source.random() < 0.2:
            made["ownerReferences"] = [self._owner() for _ in range(self._source.randint(1, 3))]
        return made

    def _owner(self) -> Object:
        kind = self._source.choice(("Job", "ReplicaSet", "DaemonSet", "StatefulSet", "CronJob", "Elsewhere"))
        uid = f"hostile-{max(1, self._number - self._source.randint(0, 50))}"
        return {"apiVersion": "v1", "kind": kind, "name": "x", "uid": uid, "controller": self._source.choice((True, True, False))}

    def _notes(self) -> dict[str, str]:
        keys = (
            job_annotations.MINIMUM,
            job_annotations.MAXIMUM,
            job_annotations.JOB_WEIGHT,
            job_annotations.ORIGINAL,
            job_annotations.GIVEN,
            job_annotations.CHANGED_AT,
            HELD_ANNOTATION,
            RELEASED_ANNOTATION,
            RECLAIMABLE_ANNOTATION,
        )
        notes = {key: self._source.choice((*TEXTS, *TIMES)) for key in self._source.sample(keys, self._source.randint(0, 4))}
        if self._source.random() < 0.5:
            notes[job_annotations.CURVE] = self._source.choice(CURVES)
        return notes

    def _pod_spec(self) -> Object:
        source = self._source

        def container(number: int) -> Object:
            made: Object = {"name": f"c{number}", "image": "x", "resources": {"requests": self._amounts(), "limits": self._amounts()}}
            return made | ({"restartPolicy": "Always"} if source.random() < 0.3 else {})

        spec = {
            "containers": [container(number) for number in range(source.choice((1, 1, 2, 5)))],
            "initContainers": self._maybe(0.2, lambda: [container(number) for number in range(source.randint(1, 3))]),
            "resources": self._maybe(0.1, lambda: {"requests": self._amounts()}),
            "overhead": self._maybe(0.1, self._amounts),
            "nodeName": self._maybe(0.5, lambda: source.choice(("node-0", "node-1", "nowhere"))),
            "restartPolicy": source.choice(("Never", "OnFailure", "Always")),
            "priorityClassName": source.choice(PRIORITIES),
            "priority": self._maybe(0.5, lambda: source.choice((-(2**31), 0, 10**9, MOST_INT))),
            "schedulingGates": self._maybe(0.3, lambda: [{"name": source.choice((GATE, "other"))}]),
            "nodeSelector": self._maybe(0.1, lambda: {"a": "b"}),
            "terminationGracePeriodSeconds": self._maybe(0.5, lambda: source.choice((0, 1, 30, 86_400, 10**12, 2**63 - 1))),
            "activeDeadlineSeconds": self._maybe(0.2, lambda: source.choice((1, MOST_INT))),
            "tolerations": self._maybe(0.1, lambda: [{"operator": "Exists"}]),
        }
        return {key: value for key, value in spec.items() if value is not None}

    # Kinds -----------------------------------------------------------------------------------------------------------

    def pod(self, namespace: str) -> tuple[str, Object]:
        """Return a pod in any phase, with the strangest status that a kubelet may write."""
        status: Object = {"phase": self._source.choice(("Pending", "Running", "Running", "Succeeded", "Failed", "Unknown"))}
        if self._source.random() < 0.5:
            status["startTime"] = self._time()
        if self._source.random() < 0.3:
            resized = {"name": "c0", "allocatedResources": self._amounts(), "resources": {"requests": self._amounts()}}
            status["containerStatuses"] = [resized]
        if self._source.random() < 0.3:
            kinds = ("DisruptionTarget", "PodScheduled", "Ready")
            status["conditions"] = [
                {
                    "type": self._source.choice(kinds),
                    "status": "True",
                    "reason": "EvictionByEvictionAPI",
                    "lastTransitionTime": self._time(),
                }
            ]
        return PODS, {"metadata": self._metadata(namespace, "pod", texts=True), "spec": self._pod_spec(), "status": status}

    def _job_spec(self) -> Object:
        spec = {
            "parallelism": self._maybe(0.8, self._count),
            "completions": self._maybe(0.7, self._count),
            "suspend": self._maybe(0.4, lambda: self._source.random() < 0.7),
            "activeDeadlineSeconds": self._maybe(0.2, lambda: self._source.choice((1, 2**63 - 1))),
            "backoffLimit": self._maybe(0.3, self._count),
            "completionMode": self._maybe(0.3, lambda: "Indexed"),
            "template": {"metadata": {}, "spec": self._pod_spec()},
        }
        return {key: value for key, value in spec.items() if value is not None}

    def job(self, namespace: str) -> tuple[str, Object]:
        """Return a Job with any counts."""
        status = {
            "active": self._maybe(0.4, self._count),
            "succeeded": self._maybe(0.4, self._count),
            "failed": self._maybe(0.2, self._count),
            "terminating": self._maybe(0.2, self._count),
            "startTime": self._maybe(0.5, self._time),
            "completionTime": self._maybe(0.2, self._time),
            "conditions": self._maybe(0.2, lambda: [{"type": self._source.choice(("Complete", "Failed", "Suspended")), "status": "True"}]),
        }
        status = {key: value for key, value in status.items() if value is not None}
        return JOBS, {"metadata": self._metadata(namespace, "job", texts=True), "spec": self._job_spec(), "status": status}

    def job_set(self, namespace: str) -> tuple[str, Object]:
        """Return a JobSet."""
        jobs = [
            {"name": f"j{number}", "replicas": self._count(), "template": {"spec": self._job_spec()}}
            for number in range(self._source.randint(0, 3))
        ]
        spec: Object = {"replicatedJobs": jobs, "suspend": self._source.random() < 0.5}
        counts = [{"name": "j0", "succeeded": self._count()}]
        return JOB_SETS, {
            "metadata": self._metadata(namespace, "jobset", texts=True),
            "spec": spec,
            "status": {"replicatedJobsStatus": counts},
        }

    def replicated(self, namespace: str) -> tuple[str, Object]:
        """Return a Deployment, ReplicaSet or StatefulSet."""
        bound = self._source.choice((0, 1, MOST_INT, "0%", "100%", "99999%"))
        update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": bound, "maxUnavailable": 1}}
        collection = self._source.choice((DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS))
        spec = {"replicas": self._count(), "template": {"spec": self._pod_spec()}, "strategy": update, "updateStrategy": update}
        status = {"replicas": self._count(), "readyReplicas": self._count(), "observedGeneration": self._count()}
        return collection, {"metadata": self._metadata(namespace, "set"), "spec": spec, "status": status}

    def node(self, _: str) -> tuple[str, Object]:
        """Return a node of any size, ready or not."""
        status = {
            "allocatable": self._maybe(0.9, self._amounts),
            "capacity": self._amounts(),
            "conditions": self._maybe(
                0.9, lambda: [{"type": "Ready", "status": self._source.choice(("True", "True", "False", "Unknown"))}]
            ),
        }
        spec: Object = {"unschedulable": self._source.random() < 0.2}
        if self._source.random() < 0.3:
            spec["taints"] = [{"key": "a", "effect": self._source.choice(("NoSchedule", "NoExecute"))}]
        metadata = self._metadata("", "node")
        return NODES, {"metadata": metadata, "spec": spec, "status": {key: value for key, value in status.items() if value is not None}}

    def quota(self, namespace: str) -> tuple[str, Object]:
        """Return a quota of the tenant's own."""
        hard = {self._source.choice((f"requests.{name}", f"limits.{name}", "pods", "count/jobs.batch")): self._amount() for name in NAMES}
        spec: Object = {"hard": hard}
        if self._source.random() < 0.3:
            spec["scopes"] = [self._source.choice(("BestEffort", "NotTerminating"))]
        return QUOTAS, {"metadata": self._metadata(namespace, "quota"), "spec": spec, "status": {"hard": hard, "used": hard}}

    def limit_range(self, namespace: str) -> tuple[str, Object]:
        """Return a limit range."""
        limits = [
            {"type": kind, "default": self._amounts(), "defaultRequest": self._amounts(), "max": self._amounts(), "min": self._amounts()}
            for kind in self._source.sample(("Container", "Pod", "PersistentVolumeClaim"), 2)
        ]
        return LIMIT_RANGES, {"metadata": self._metadata(namespace, "limits"), "spec": {"limits": limits}}

    def queue(self, namespace: str) -> tuple[str, Object]:
        """Return a queue that its CRD admits, after as many attempts as needed."""
        while True:
            collection = self._source.choice((LATENCY_QUEUES, THROUGHPUT_QUEUES))
            spec = self._latency() if collection == LATENCY_QUEUES else self._throughput()
            spec |= {
                "weight": self._source.choice((1, 1, 2, 1_000_000)),
                "enforcement": self._source.choice(("Quota", "Gate", "Suspend", "Observe")),
                "reclaim": self._source.choice(("Never", "Evict")),
                "suspended": self._source.random() < 0.1,
            }
            metadata = self._metadata(namespace, "queue")
            metadata.pop("ownerReferences", None)
            obj = {"apiVersion": API_VERSION, "kind": QUEUES[collection], "metadata": metadata, "spec": spec}
            try:
                parse_queue(obj)
            except InvalidQueueError:
                continue
            return collection, obj

    def _resources(self) -> dict[str, str]:
        names = self._source.sample(NAMES[:5], self._source.choice((1, 2, 2, 3)))
        return {name: self._amount() for name in names}

    def _burst(self) -> Object:
        duration = self._seconds()
        deadline = self._maybe(0.6, lambda: min(YEAR, duration + self._source.choice((0, 1, 10, YEAR))))
        return {"resources": self._resources(), "durationSeconds": duration} | ({"deadlineSeconds": deadline} if deadline else {})

    def _latency(self) -> Object:
        form = self._source.choice(("periodic", "sporadic", "schedule"))
        if form == "schedule":
            times = sorted(self._source.sample(TIMES, self._source.randint(1, 3)))
            return {"arrival": {"schedule": {"bursts": [{"arrival": time, **self._burst()} for time in times]}}}
        if form == "sporadic":
            return {"burst": self._burst(), "arrival": {"sporadic": {"minInterarrivalSeconds": self._seconds()}}}
        periodic: Object = {"periodSeconds": self._seconds(), "jitterSeconds": self._source.choice((0, 0, 1, 30, YEAR))}
        if self._source.random() < 0.7:
            periodic["firstArrival"] = self._time()
        lead = {"leadTime": self._source.choice(("Auto", "Off"))} if self._source.random() < 0.5 else {}
        return {"burst": self._burst(), "arrival": {"periodic": periodic}, **lead}

    def _throughput(self) -> Object:
        spec: Object = {}
        if self._source.random() < 0.4:
            spec["limits"] = self._resources()
        if self._source.random() < 0.3:
            spec["smallJobs"] = {"thresholdPercent": self._source.choice((1, 50, 100))}
        if self._source.random() < 0.3:
            spec["reserve"] = self._source.choice(("Auto", "Off"))
        if self._source.random() < 0.4:
            elasticity: Object = {
                "curve": self._source.choice([text for text in CURVES if text]),
                "acrossQueues": self._source.random() < 0.5,
            }
            elasticity |= {"minimumParallelism": 1, "maximumParallelism": 100_000} if self._source.random() < 0.5 else {}
            elasticity["fairnessPercent"] = self._source.choice((1, 50, 100))
            spec["elasticity"] = elasticity
        return spec
