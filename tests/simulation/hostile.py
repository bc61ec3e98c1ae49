"""Objects that the API server admits and that no user creates: the ends of every range that a schema allows.

Queues pass the models of the CRDs, with their rules. Pods, Jobs and the others stay within the ranges of the API's own validation.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from fairburst.kube.jobs.job_index import GROUP_LABELS
from fairburst.kube.names import API_VERSION, GATE, HELD_ANNOTATION, QUEUE_LABEL, RECLAIMABLE_ANNOTATION, RELEASED_ANNOTATION, STEP_LABEL
from fairburst.kube.queues import job_annotations
from fairburst.kube.queues.objects import InvalidQueueError, parse_queue
from fairburst.kube.workloads.leader_worker_set import NAME_LABEL
from tests.simulation.hostile_queues import HostileQueues
from tests.simulation.hostile_values import CURVES, MOST_INT, NAMES, PRIORITIES, TEXTS, TIMES, Draws
from tests.simulation.resources import (
    DEPLOYMENTS,
    JOB_SETS,
    JOBS,
    LATENCY_QUEUES,
    LEADER_WORKER_SETS,
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


class Hostile(Draws):
    """Draws objects from one source. `make` returns a collection and an object for a namespace."""

    def __init__(self, source: random.Random) -> None:
        super().__init__(source)
        self._number = 0
        self._queues = HostileQueues(source)
        self._makers: list[tuple[Callable[[str], tuple[str, Object]], int]] = [
            (self.pod, 60),
            (self.job, 20),
            (self.replicated, 6),
            (self.queue, 5),
            (self.quota, 3),
            (self.limit_range, 2),
            (self.node, 2),
            (self.job_set, 2),
            (self.leader_worker_set, 2),
        ]

    def namespace(self, count: int) -> int:
        """Return one of `count` namespaces."""
        return self.source.randrange(count)

    def make(self, namespace: str) -> tuple[str, Object]:
        """Return an object of any kind."""
        makers, weights = zip(*self._makers, strict=True)
        made: tuple[str, Object] = self.source.choices(makers, weights)[0](namespace)
        return made

    def _metadata(self, namespace: str, kind: str, *, texts: bool = False) -> Object:
        self._number += 1
        name = f"{kind}-{self._number}"
        name = name if self.source.random() < 0.9 else (name + "-" + "x" * 253)[:253]
        made: Object = {"name": name, "uid": f"hostile-{self._number}", "creationTimestamp": "2026-05-28T20:26:40Z", "generation": 1}
        made |= {"namespace": namespace} if namespace else {}
        if texts and self.source.random() < 0.6:
            made["annotations"] = self._notes()
            made["labels"] = self._labels()
        if self.source.random() < 0.1:
            made["deletionTimestamp"] = self.time()
            made["deletionGracePeriodSeconds"] = self.source.choice((0, 1, 30, 10**12, 2**63 - 1))
        if self.source.random() < 0.2:
            made["ownerReferences"] = [self._owner() for _ in range(self.source.randint(1, 3))]
        return made

    def _labels(self) -> dict[str, str]:
        made = {job_annotations.FAMILY: self.source.choice(("", "a", "x" * 63)), "fairburst.dev/size": "Small"}
        if self.source.random() < 0.4:
            made[QUEUE_LABEL] = self.source.choice(("", "queue", "x" * 63, f"queue-{max(1, self._number - self.source.randint(0, 50))}"))
        if self.source.random() < 0.3:
            made[STEP_LABEL] = self.source.choice(("high", "normal", "low", "", "highest"))
        if self.source.random() < 0.1:
            made[self.source.choice(GROUP_LABELS)] = self.source.choice(("", "a", "x" * 63))
        return made

    def _owner(self) -> Object:
        kind = self.source.choice(("Job", "ReplicaSet", "DaemonSet", "StatefulSet", "CronJob", "Elsewhere"))
        uid = f"hostile-{max(1, self._number - self.source.randint(0, 50))}"
        return {"apiVersion": "v1", "kind": kind, "name": "x", "uid": uid, "controller": self.source.choice((True, True, False))}

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
        notes = {key: self.source.choice((*TEXTS, *TIMES)) for key in self.source.sample(keys, self.source.randint(0, 4))}
        if self.source.random() < 0.5:
            notes[job_annotations.CURVE] = self.source.choice(CURVES)
        return notes

    def _pod_spec(self) -> Object:
        source = self.source

        def container(number: int) -> Object:
            made: Object = {"name": f"c{number}", "image": "x", "resources": {"requests": self.amounts(), "limits": self.amounts()}}
            made |= {"restartPolicy": "Always"} if source.random() < 0.3 else {}
            return made | ({"ports": [self._port() for _ in range(source.choice((1, 2, 40)))]} if source.random() < 0.2 else {})

        spec = {
            "containers": [container(number) for number in range(source.choice((1, 1, 2, 5)))],
            "initContainers": self.maybe(0.2, lambda: [container(number) for number in range(source.randint(1, 3))]),
            "resources": self.maybe(0.1, lambda: {"requests": self.amounts()}),
            "overhead": self.maybe(0.1, self.amounts),
            "nodeName": self.maybe(0.5, lambda: source.choice(("node-0", "node-1", "nowhere"))),
            "restartPolicy": source.choice(("Never", "OnFailure", "Always")),
            "priorityClassName": source.choice(PRIORITIES),
            "priority": self.maybe(0.5, lambda: source.choice((-(2**31), 0, 10**9, MOST_INT))),
            "schedulingGates": self.maybe(0.3, lambda: [{"name": source.choice((GATE, "other"))}]),
            "nodeSelector": self.maybe(0.1, lambda: {"a": "b"}),
            "terminationGracePeriodSeconds": self.maybe(0.5, lambda: source.choice((0, 1, 30, 86_400, 10**12, 2**63 - 1))),
            "activeDeadlineSeconds": self.maybe(0.2, lambda: source.choice((1, MOST_INT))),
            "hostNetwork": self.maybe(0.1, lambda: True),
            "runtimeClassName": self.maybe(0.1, lambda: source.choice(("heavy", "gone"))),
            "tolerations": self.maybe(0.1, lambda: [{"operator": "Exists"}]),
            "affinity": self.maybe(0.1, self._affinity),
            "topologySpreadConstraints": self.maybe(0.1, lambda: [{"whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}]),
        }
        return {key: value for key, value in spec.items() if value is not None}

    def _port(self) -> Object:
        source = self.source
        port: Object = {"containerPort": source.choice((1, 8080, 65_535)), "protocol": source.choice(("TCP", "UDP", "SCTP"))}
        port |= {"hostPort": source.choice((1, 8080, source.randint(1, 65_535)))} if source.random() < 0.7 else {}
        return port | ({"hostIP": source.choice(("0.0.0.0", "10.0.0.1", "::"))} if source.random() < 0.3 else {})  # noqa: S104  asked for

    def _affinity(self) -> Object:
        term: Object = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return {self.source.choice(("podAffinity", "podAntiAffinity")): required}

    def _template(self) -> Object:
        return {"metadata": self.maybe(0.3, lambda: {"labels": self._labels()}) or {}, "spec": self._pod_spec()}

    # Kinds -----------------------------------------------------------------------------------------------------------

    def pod(self, namespace: str) -> tuple[str, Object]:
        """Return a pod in any phase, with the strangest status that a kubelet may write."""
        status: Object = {"phase": self.source.choice(("Pending", "Running", "Running", "Succeeded", "Failed", "Unknown"))}
        if self.source.random() < 0.5:
            status["startTime"] = self.time()
        if self.source.random() < 0.3:
            resized = {"name": "c0", "allocatedResources": self.amounts(), "resources": {"requests": self.amounts()}}
            status["containerStatuses"] = [resized]
        if self.source.random() < 0.3:
            kinds = ("DisruptionTarget", "PodScheduled", "Ready")
            status["conditions"] = [
                {
                    "type": self.source.choice(kinds),
                    "status": "True",
                    "reason": "EvictionByEvictionAPI",
                    "lastTransitionTime": self.time(),
                }
            ]
        return PODS, {"metadata": self._metadata(namespace, "pod", texts=True), "spec": self._pod_spec(), "status": status}

    def _job_spec(self) -> Object:
        spec = {
            "parallelism": self.maybe(0.8, self.count),
            "completions": self.maybe(0.7, self.count),
            "suspend": self.maybe(0.4, lambda: self.source.random() < 0.7),
            "activeDeadlineSeconds": self.maybe(0.2, lambda: self.source.choice((1, 2**63 - 1))),
            "backoffLimit": self.maybe(0.3, self.count),
            "completionMode": self.maybe(0.3, lambda: "Indexed"),
            "template": self._template(),
            "managedBy": self.maybe(0.1, lambda: self.source.choice(("example.com/elsewhere", "kubernetes.io/job-controller"))),
            "podFailurePolicy": self.maybe(0.1, self._failure_policy),
        }
        return {key: value for key, value in spec.items() if value is not None}

    def _failure_policy(self) -> Object:
        pattern = {"type": "DisruptionTarget", "status": self.source.choice(("True", "False", "Unknown"))}
        return {"rules": [{"action": self.source.choice(("Ignore", "Count", "FailJob")), "onPodConditions": [pattern]}]}

    def job(self, namespace: str) -> tuple[str, Object]:
        """Return a Job with any counts."""
        status = {
            "active": self.maybe(0.4, self.count),
            "succeeded": self.maybe(0.4, self.count),
            "failed": self.maybe(0.2, self.count),
            "terminating": self.maybe(0.2, self.count),
            "startTime": self.maybe(0.5, self.time),
            "completionTime": self.maybe(0.2, self.time),
            "uncountedTerminatedPods": self.maybe(0.2, lambda: {"succeeded": ["hostile-1", "x"], "failed": [""]}),
            "conditions": self.maybe(0.2, lambda: [{"type": self.source.choice(("Complete", "Failed", "Suspended")), "status": "True"}]),
        }
        status = {key: value for key, value in status.items() if value is not None}
        return JOBS, {"metadata": self._metadata(namespace, "job", texts=True), "spec": self._job_spec(), "status": status}

    def job_set(self, namespace: str) -> tuple[str, Object]:
        """Return a JobSet."""
        jobs = [
            {"name": f"j{number}", "replicas": self.count(), "template": {"spec": self._job_spec()}}
            for number in range(self.source.randint(0, 3))
        ]
        spec: Object = {"replicatedJobs": jobs, "suspend": self.source.random() < 0.5}
        counts = [{"name": "j0", "succeeded": self.count()}]
        return JOB_SETS, {
            "metadata": self._metadata(namespace, "jobset", texts=True),
            "spec": spec,
            "status": {"replicatedJobsStatus": counts},
        }

    def leader_worker_set(self, namespace: str) -> tuple[str, Object]:
        """Return a LeaderWorkerSet."""
        template = {
            "size": self.maybe(0.9, self.count),
            "workerTemplate": self._template(),
            "leaderTemplate": self.maybe(0.5, self._template),
        }
        spec = {"replicas": self.maybe(0.9, self.count), "leaderWorkerTemplate": template}
        return LEADER_WORKER_SETS, {"metadata": self._metadata(namespace, "lws", texts=True), "spec": spec, "status": {}}

    def replicated(self, namespace: str) -> tuple[str, Object]:
        """Return a Deployment, ReplicaSet or StatefulSet."""
        bound = self.source.choice((0, 1, MOST_INT, "0%", "100%", "99999%"))
        update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": bound, "maxUnavailable": 1}}
        collection = self.source.choice((DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS))
        spec = {"replicas": self.count(), "template": self._template(), "strategy": update, "updateStrategy": update}
        status = {"replicas": self.count(), "readyReplicas": self.count(), "observedGeneration": self.count()}
        metadata = self._metadata(namespace, "set")
        if self.source.random() < 0.1:
            metadata["labels"] = {NAME_LABEL: f"lws-{max(1, self._number - self.source.randint(0, 50))}"}
        return collection, {"metadata": metadata, "spec": spec, "status": status}

    def node(self, _: str) -> tuple[str, Object]:
        """Return a node of any size, ready or not."""
        status = {
            "allocatable": self.maybe(0.9, self.amounts),
            "capacity": self.amounts(),
            "conditions": self.maybe(0.9, lambda: [{"type": "Ready", "status": self.source.choice(("True", "True", "False", "Unknown"))}]),
        }
        spec: Object = {"unschedulable": self.source.random() < 0.2}
        if self.source.random() < 0.3:
            spec["taints"] = [{"key": "a", "effect": self.source.choice(("NoSchedule", "NoExecute"))}]
        metadata = self._metadata("", "node")
        return NODES, {"metadata": metadata, "spec": spec, "status": {key: value for key, value in status.items() if value is not None}}

    def quota(self, namespace: str) -> tuple[str, Object]:
        """Return a quota of the tenant's own."""
        hard = {self.source.choice((f"requests.{name}", f"limits.{name}", "pods", "count/jobs.batch")): self.amount() for name in NAMES}
        spec: Object = {"hard": hard}
        if self.source.random() < 0.3:
            spec["scopes"] = [self.source.choice(("BestEffort", "NotTerminating"))]
        return QUOTAS, {"metadata": self._metadata(namespace, "quota"), "spec": spec, "status": {"hard": hard, "used": hard}}

    def limit_range(self, namespace: str) -> tuple[str, Object]:
        """Return a limit range."""
        limits = [
            {"type": kind, "default": self.amounts(), "defaultRequest": self.amounts(), "max": self.amounts(), "min": self.amounts()}
            for kind in self.source.sample(("Container", "Pod", "PersistentVolumeClaim"), 2)
        ]
        return LIMIT_RANGES, {"metadata": self._metadata(namespace, "limits"), "spec": {"limits": limits}}

    def queue(self, namespace: str) -> tuple[str, Object]:
        """Return a queue that its CRD admits, after as many attempts as needed."""
        while True:
            collection = self.source.choice((LATENCY_QUEUES, THROUGHPUT_QUEUES))
            metadata = self._metadata(namespace, "queue")
            metadata.pop("ownerReferences", None)
            obj = {"apiVersion": API_VERSION, "kind": QUEUES[collection], "metadata": metadata, "spec": self._queues.spec(collection)}
            try:
                parse_queue(obj)
            except InvalidQueueError:
                continue
            return collection, obj
