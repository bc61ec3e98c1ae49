"""The rest of a cluster: Job controller, scheduler, kubelets, quota controller, garbage collector and namespace controller.

Each looks at the whole cluster a moment after something has changed, which is fast enough for tens of objects. Refused Jobs back off as
in Kubernetes. They try again at once when their spec changes, and a second after any other change of their object or of their pods.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.simulation import quotas
from tests.simulation.api_server import ApiServer, Write
from tests.simulation.resources import (
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    KINDS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    QUEUES,
    QUOTAS,
    Object,
    Refused,
)

STEP_SECONDS = 0.1
BACKOFF_SECONDS = (1.0, 60.0)
BATCH_SECONDS = 1.0  # syncJobBatchPeriod of the Job controller
SECONDS_ANNOTATION = "simulation/seconds"  # how long a pod runs
MOST_POD_STARTS = 20  # of one Job in one sync
OWNERS = (*QUEUES, JOBS)
PodKey = tuple[str, str]  # namespace, name


@dataclass
class _Retry:
    """The next attempt of a refused Job, and the last pause before one."""

    at: float
    delay: float


@dataclass
class Controllers:
    """All controllers. `step` returns at once unless something has changed or is due."""

    server: ApiServer
    source: random.Random
    _dirty: bool = True
    _retries: dict[str, _Retry] = field(default_factory=dict)
    _ends: dict[str, float] = field(default_factory=dict)  # by pod uid: when it ends or is removed
    _starts: dict[str, float] = field(default_factory=dict)
    _recounts: dict[tuple[str, str], float] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _kubelets_due: bool = True
    _next_of_kubelets: float = 0.0  # when the next pod starts, ends or is removed, unless one or its node changes before

    def __post_init__(self) -> None:
        self.server.observers.append(self._on_write)

    def start(self) -> None:
        """Step as long as the loop runs."""
        self.server.loop.call_later(STEP_SECONDS, self._turn)

    def _turn(self) -> None:
        self.step()
        self.server.loop.call_later(STEP_SECONDS, self._turn)

    def step(self) -> None:
        """Look at the cluster once."""
        now = self.server.loop.time()
        self._kubelets(now)
        self._quota_controller(now)
        due = any(retry.at <= now for retry in self._retries.values())
        if not self._dirty and not due:
            return
        self._dirty = False
        self._end_namespaces()
        self._collect_garbage()
        self._jobs(now)
        self._schedule(now)

    def _on_write(self, write: Write) -> None:
        now = self.server.loop.time()
        if write.collection not in {EVENTS, LEASES, CONFIG_MAPS}:
            self._dirty = True
        if write.collection in {PODS, NODES}:
            self._kubelets_due = True
        self._try_again(write, now)
        if write.collection == PODS and (write.new is None or quotas.is_released(write.new)):
            pod = write.new or write.old or {}
            for quota in self.server.of(QUOTAS, pod["metadata"]["namespace"]):
                key = pod["metadata"]["namespace"], quota["metadata"]["name"]
                self._recounts.setdefault(key, now + self.source.uniform(0.3, 4.0))
        if write.collection != QUOTAS or write.new is None or write.who == "quota-controller":
            return
        if write.old is None or write.old["spec"] != write.new["spec"]:
            key = write.namespace, write.new["metadata"]["name"]
            self._recounts.setdefault(key, now + self.source.uniform(0.05, 2.0))

    def _try_again(self, write: Write, now: float) -> None:
        """Let refused Jobs try again that this write concerns."""
        changed = write.new or write.old or {}
        if write.collection == PODS:
            again = dict.fromkeys((owner["uid"] for owner in changed["metadata"].get("ownerReferences") or ()), now + BATCH_SECONDS)
        elif write.collection == JOBS and write.old is not None:
            same = write.old["metadata"].get("generation") == changed["metadata"].get("generation")
            again = {changed["metadata"]["uid"]: now + BATCH_SECONDS if same else now}
        else:
            return
        for uid, at in again.items():
            if uid in self._retries:
                self._retries[uid].at = min(self._retries[uid].at, at)

    def _quota_controller(self, now: float) -> None:
        for key in [key for key, at in self._recounts.items() if at <= now]:
            del self._recounts[key]
            quota = self.server.get(QUOTAS, *key)
            if quota is not None:
                quotas.recount(self.server, quota)

    # Namespaces that are deleted -------------------------------------------------------------------------------------

    def _end_namespaces(self) -> None:
        """Delete what these namespaces have, in no useful order, and each of them once nothing is left."""
        for namespace in self.server.of(NAMESPACES):
            if "deletionTimestamp" in namespace["metadata"]:
                name = namespace["metadata"]["name"]
                for collection in KINDS:
                    for one in self.server.of(collection, name):
                        self._delete(collection, one)
                if not any(self.server.of(collection, name) for collection in KINDS):
                    self.server.remove(NAMESPACES, namespace, "namespace-controller")

    def _delete(self, collection: str, obj: Object) -> None:
        if collection == PODS:
            self.server.delete_pod(obj, "namespace-controller")
        else:
            self.server.remove(collection, obj, "namespace-controller")

    # Garbage ---------------------------------------------------------------------------------------------------------

    def _collect_garbage(self) -> None:
        uids = {one["metadata"]["uid"] for collection in OWNERS for one in self.server.of(collection)}
        for collection in (PODS, QUOTAS, JOBS):
            for one in self.server.of(collection):
                owners = one["metadata"].get("ownerReferences") or ()
                if owners and all(owner["uid"] not in uids for owner in owners):
                    if collection == PODS:
                        self.server.delete_pod(one, "garbage-collector")
                    else:
                        self.server.remove(collection, one, "garbage-collector")
        nodes = {one["metadata"]["name"] for one in self.server.of(NODES)}
        for pod in self.server.of(PODS):
            node = pod["spec"].get("nodeName")
            if node and node not in nodes:
                self.server.remove(PODS, pod, "pod-garbage-collector")

    # Jobs ------------------------------------------------------------------------------------------------------------

    def _jobs(self, now: float) -> None:
        pods: dict[str, list[Object]] = {}
        for pod in self.server.of(PODS):
            for owner in pod["metadata"].get("ownerReferences") or ():
                pods.setdefault(owner["uid"], []).append(pod)
        for job in self.server.of(JOBS):
            self._sync(job, pods.get(job["metadata"]["uid"], []), now)

    def _sync(self, job: Object, pods: list[Object], now: float) -> None:
        uid, spec, status = job["metadata"]["uid"], job["spec"], job.get("status") or {}
        if any(one["type"] in {"Complete", "Failed"} for one in status.get("conditions") or ()):
            return
        succeeded = sum(_phase(pod) == "Succeeded" for pod in pods)
        active = [pod for pod in pods if _phase(pod) not in quotas.ENDED and "deletionTimestamp" not in pod["metadata"]]
        completions = spec.get("completions")
        wanted = spec.get("parallelism", 1)
        if completions is not None:
            wanted = min(wanted, completions - succeeded)
        wanted = 0 if spec.get("suspend") else max(0, wanted)
        for pod in active[wanted:]:
            self.server.delete_pod(pod, "job-controller")
        created = self._create(job, wanted - len(active), now)
        new = {
            "active": min(len(active), wanted) + created,
            "succeeded": succeeded,
            "failed": sum(_phase(pod) == "Failed" for pod in pods),
            "ready": sum(_phase(pod) == "Running" for pod in active[:wanted]),
            "startTime": status.get("startTime") or (None if spec.get("suspend") else self.server.now()),
        }
        if completions is not None and succeeded >= completions:
            new |= {"completionTime": self.server.now(), "conditions": [{"type": "Complete", "status": "True"}]}
            self._retries.pop(uid, None)
        new = {key: value for key, value in new.items() if value is not None}
        if any(status.get(key) != value for key, value in new.items()):
            self.server.update(JOBS, job, {"status": new}, "job-controller")

    def _create(self, job: Object, missing: int, now: float) -> int:
        """Create pods until one is refused; return their number."""
        uid = job["metadata"]["uid"]
        retry = self._retries.get(uid)
        if missing <= 0 or (retry is not None and retry.at > now):
            return 0
        for created in range(min(missing, MOST_POD_STARTS)):
            try:
                self.server.create(PODS, self._pod(job), "job-controller")
            except Refused:
                delay = BACKOFF_SECONDS[0] if retry is None else min(2 * retry.delay, BACKOFF_SECONDS[1])
                self._retries[uid] = _Retry(now + delay, delay)
                return created
        self._retries.pop(uid, None)
        self._dirty = True
        return min(missing, MOST_POD_STARTS)

    def _pod(self, job: Object) -> Object:
        metadata, template = job["metadata"], job["spec"]["template"]
        number = self._numbers[metadata["uid"]] = self._numbers.get(metadata["uid"], -1) + 1
        inner = template.get("metadata") or {}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
        return {
            "apiVersion": "v1",
            "metadata": {
                "name": f"{metadata['name']}-{number}",
                "namespace": metadata["namespace"],
                "labels": dict(inner.get("labels") or {}),
                "annotations": dict(inner.get("annotations") or {}),
                "ownerReferences": [owner],
            },
            "spec": dict(template["spec"]),
            "status": {"phase": "Pending"},
        }

    # Scheduler and kubelets ------------------------------------------------------------------------------------------

    def _schedule(self, now: float) -> None:
        waiting = [pod for pod in self.server.of(PODS) if _waits(pod)]
        if not waiting:
            return
        free = _room(self.server)
        for pod in sorted(waiting, key=lambda one: (-int(one["spec"].get("priority") or 0), int(one["metadata"]["resourceVersion"]))):
            node = next((name for name, room in free.items() if _fits(room, pod)), None)
            if node is None:
                continue
            _take(free[node], pod)
            bound = self.server.update(PODS, pod, {"spec": {"nodeName": node}}, "scheduler")
            self._starts[bound["metadata"]["uid"]] = now + self.source.uniform(0.2, 1.0)

    def _kubelets(self, now: float) -> None:
        if not self._kubelets_due and now < self._next_of_kubelets:
            return
        self._kubelets_due, self._next_of_kubelets = False, math.inf
        running = {node["metadata"]["name"] for node in self.server.of(NODES) if _is_ready(node)}
        for pod in self.server.of(PODS):
            if pod["spec"].get("nodeName") in running:
                self._next_of_kubelets = min(self._next_of_kubelets, self._kubelet(pod, now))

    def _kubelet(self, pod: Object, now: float) -> float:
        """Do what is due for a bound pod; return when the next step is due."""
        uid, phase = pod["metadata"]["uid"], _phase(pod)
        if "deletionTimestamp" in pod["metadata"]:
            key = f"deleted {uid}"
            if key not in self._ends:
                grace = float(pod["metadata"].get("deletionGracePeriodSeconds", 30))
                self._ends[key] = now + min(grace, self.source.uniform(0.2, 3.0))
            due = self._ends[key]
            if now >= due:
                self.server.remove(PODS, pod, "kubelet")
        elif phase == "Pending":
            due = self._starts.setdefault(uid, now)
            if now >= due:
                self._ends[uid] = now + float((pod["metadata"].get("annotations") or {}).get(SECONDS_ANNOTATION, "10"))
                self.server.update(PODS, pod, {"status": {"phase": "Running", "startTime": self.server.now()}}, "kubelet")
        elif phase == "Running":
            due = self._ends[uid]
            if now >= due:
                self.server.update(PODS, pod, {"status": {"phase": "Succeeded"}}, "kubelet")
        else:
            due = math.inf
        return due


def places(server: ApiServer, pod: Mapping[str, Any], without: Collection[PodKey] = ()) -> int:
    """How many such pods the nodes have room for, or would have `without` some pods, by namespace and name."""
    count = 0
    for room in _room(server, without).values():
        while _fits(room, pod):
            _take(room, pod)
            count += 1
    return count


def _room(server: ApiServer, without: Collection[PodKey] = ()) -> dict[str, dict[str, Fraction]]:
    """What is free on each node that takes pods."""
    free = {node["metadata"]["name"]: _free(node) for node in server.of(NODES) if takes_pods(node)}
    for pod in server.of(PODS):
        node, key = pod["spec"].get("nodeName"), (pod["metadata"]["namespace"], pod["metadata"]["name"])
        if node in free and key not in without and _phase(pod) not in quotas.ENDED:
            _take(free[node], pod)
    return free


def _phase(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def _waits(pod: Mapping[str, Any]) -> bool:
    spec = pod["spec"]
    return not spec.get("nodeName") and not spec.get("schedulingGates") and _phase(pod) == "Pending"


def takes_pods(node: Mapping[str, Any]) -> bool:
    """Return whether the scheduler gives the node new pods."""
    return _is_ready(node) and not node.get("spec", {}).get("unschedulable")


def _is_ready(node: Mapping[str, Any]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])


def _free(node: Mapping[str, Any]) -> dict[str, Fraction]:
    return {name: quotas.exact(str(text)) for name, text in node["status"]["allocatable"].items()}


def _fits(room: Mapping[str, Fraction], pod: Mapping[str, Any]) -> bool:
    wanted = {**quotas.requests_of(pod), "pods": Fraction(1)}
    return all(amount <= room.get(name, Fraction(0)) for name, amount in wanted.items())


def _take(room: dict[str, Fraction], pod: Mapping[str, Any]) -> None:
    for name, amount in {**quotas.requests_of(pod), "pods": Fraction(1)}.items():
        room[name] = room.get(name, Fraction(0)) - amount
