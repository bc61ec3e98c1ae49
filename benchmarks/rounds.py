"""Whole rounds of the operator's engine on an in-process view: the cost of a round by the amount of change since the last.

The API server is a few dictionaries, which accept a plan's writes. Every queue runs a Job that demands one pod more than it has. Pods are
of one cpu, and the pool is twice as large as their demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from benchmarks.measure import Measurement, benchmark, timed
from fairburst.config import parse_config
from fairburst.kube.api.objects import Job, Namespace, Node, Pod
from fairburst.kube.api.quota_objects import ResourceQuota
from fairburst.kube.enforce.quota_plan import QuotaWrite
from fairburst.kube.engine import Engine
from fairburst.kube.names import API_VERSION, MANAGED_LABEL
from fairburst.kube.object_writes import quota_body
from fairburst.kube.rounds.view import ClusterView, RoundPlan
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.views.status_plan import merge_difference

WALL = 1_767_225_600.0
CORES_PER_NODE = 64
ROUND_SECONDS = 0.05  # between two rounds that follow events
STARTED = {"startTime": "2026-01-01T00:00:00Z"}  # of a Job: its controller has processed it; of a pod: its kubelet
WORK = {"containers": [{"name": "work", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}


class Pool:
    """A pool with `queues` queues, of which a fraction `hard` requests hard guarantees, and an engine."""

    def __init__(self, queues: int, *, hard: float = 0.0, pods: int = 2) -> None:
        config = parse_config("")
        self.engine = Engine(config, config.namespace)
        self.now = 1000.0
        self.pods: dict[tuple[str, str], Pod] = {}
        self.quotas: dict[tuple[str, str], ResourceQuota] = {}
        self.namespaces: dict[tuple[str, str], Namespace] = {}
        self.queues: dict[tuple[str, str, str], dict[str, Any]] = {}
        count = max(1, 2 * queues * (pods + 1) // CORES_PER_NODE)
        self._nodes = [f"node-{number}" for number in range(count)]
        self.view = ClusterView(
            pods=PodIndex(config.pool.counted_resources),
            stored_pods=self.pods,
            nodes={("", name): _node(name) for name in self._nodes},
            namespaces=self.namespaces,
            quotas=self.quotas,
            read_queues=lambda: self.queues,
        )
        self.names = [f"ns-{number:05}" for number in range(queues)]
        self._serial = 0
        self._extra: dict[str, str] = {}
        for number, name in enumerate(self.names):
            self._add_queue(name, hard=number < hard * queues, pods=pods)

    def _add_queue(self, name: str, *, hard: bool, pods: int) -> None:
        kind, spec = "ThroughputQueue", dict[str, Any]()
        if hard:
            burst = {"resources": {"cpu": f"{pods + 1}", "memory": f"{pods + 1}Gi"}, "durationSeconds": 20}
            kind, spec = "LatencyQueue", {"burst": burst, "arrival": {"sporadic": {"minInterarrivalSeconds": 600}}}
        metadata = {"name": "queue", "namespace": name, "uid": f"uid-{name}", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
        body = {"pool": "default", "weight": 1, "enforcement": "Quota", **spec}
        self.queues[kind, name, "queue"] = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": body}
        self.namespaces["", name] = msgspec.convert({"metadata": {"name": name, "labels": {MANAGED_LABEL: "true"}}}, Namespace)
        job = {
            "metadata": {"namespace": name, "name": "work", "uid": f"job-{name}"},
            "spec": {"parallelism": pods + 1, "template": {"spec": WORK}},
            "status": STARTED,
        }
        self.view.controllers.update("Job", None, msgspec.convert(job, Job))
        for _ in range(pods):
            self.start_pod(name)

    def add_jobs(self, namespace: str, count: int) -> None:
        """Create Jobs of one pod in a namespace, and run the pod of every second one."""
        for number in range(count):
            metadata = {"namespace": namespace, "name": f"job-{number}", "uid": f"{namespace}/{number}"}
            job = {"metadata": metadata, "spec": {"parallelism": 1, "template": {"spec": WORK}}, "status": STARTED}
            self.view.controllers.update("Job", None, msgspec.convert(job, Job))
            if number % 2:
                self.start_pod(namespace, f"{namespace}/{number}")
        self.view.changed_namespaces.add(namespace)

    def start_pod(self, namespace: str, job: str | None = None) -> str:
        """Create and bind a pod of a Job, given by its uid, or of the namespace's first one."""
        self._serial += 1
        name = f"work-{self._serial}"
        owner = {"kind": "Job", "name": "work", "uid": job or f"job-{namespace}", "controller": True}
        body = {
            "metadata": {"namespace": namespace, "name": name, "uid": f"{namespace}/{name}", "ownerReferences": [owner]},
            "spec": {**WORK, "nodeName": self._nodes[self._serial % len(self._nodes)]},
            "status": {"phase": "Running", **STARTED},
        }
        self.pods[namespace, name] = pod = msgspec.convert(body, Pod)
        self._pod_changed(None, pod)
        return name

    def end_pod(self, namespace: str, name: str) -> None:
        """End a pod and remove it from the informer's view."""
        self._pod_changed(self.pods.pop((namespace, name)), None)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self.view.pods.update(old, new)
        self.engine.pod_changed(old, new, self.view.pods, WALL + self.now, self.now)
        changed = new or old
        assert changed is not None  # noqa: S101 (one of them is a pod)
        self.view.changed_namespaces.add(changed.metadata.namespace)

    def round(self, seconds: float = ROUND_SECONDS) -> RoundPlan:
        """Run one round, `seconds` after the last, without its writes."""
        self.now += seconds
        return self.engine.round(self.view, WALL + self.now, self.now)

    def settle(self, seconds: float = 600.0) -> None:
        """Run rounds with all their writes until none remain, for at most `seconds`."""
        until = self.now + seconds
        while self.now < until:
            plan = self.round(1.0)
            self.take(plan)
            if plan.statuses_planned and not (plan.quota_writes or plan.statuses or plan.labels):
                return

    def take(self, plan: RoundPlan) -> None:
        """Apply the plan's writes to the simulated API server."""
        for write in plan.quota_writes:
            self._take_quota(write)
            self.engine.quota_written(write, self.now, done=True)
        for status in plan.statuses:
            obj = self.queues[status.entry.key]
            self.queues[status.entry.key] = {**obj, "status": dict(status.status)}
            assert not merge_difference(self.queues[status.entry.key]["status"], status.status)  # noqa: S101 (the benchmark relies on it)
            self.engine.status_written(status, self.now, 0.0, self.queues[status.entry.key])
        for namespace, changes in plan.labels.items():
            labels = {**(self.namespaces["", namespace].metadata.labels or {}), **changes}
            kept = {key: value for key, value in labels.items() if value is not None}
            self.namespaces["", namespace] = msgspec.convert({"metadata": {"name": namespace, "labels": kept}}, Namespace)

    def _take_quota(self, write: QuotaWrite) -> None:
        body = quota_body(write, "default") | {"status": {"hard": dict(write.hard), "used": dict(write.used)}}
        self.quotas[write.key] = msgspec.convert(body, ResourceQuota)

    def change(self, names: list[str]) -> None:
        """In each of these namespaces, add a pod, or remove the one that the last call added."""
        for name in names:
            extra = self._extra.pop(name, None)
            if extra is None:
                self._extra[name] = self.start_pod(name)
            else:
                self.end_pod(name, extra)


def _node(name: str) -> Node:
    offered = {"cpu": str(CORES_PER_NODE), "memory": f"{2 * CORES_PER_NODE}Gi"}
    body = {"metadata": {"name": name}, "status": {"allocatable": offered, "conditions": [{"type": "Ready", "status": "True"}]}}
    return msgspec.convert(body, Node)


def idle(pool: Pool) -> None:
    """Run a round without changes, a second after the last."""
    pool.round(1.0)


def one_changed(pool: Pool) -> None:
    """Run a round in which one namespace has changed."""
    pool.change(pool.names[:1])
    pool.round()


def all_changed(pool: Pool) -> None:
    """Run a round in which every namespace has changed."""
    pool.change(pool.names)
    pool.round()


def many_jobs(jobs: int, *, repeats: int = 5) -> Iterator[Measurement]:
    """Measure rounds after an event of a namespace with many Jobs, by when its work was read last."""
    pool = Pool(100, hard=0.1)
    pool.add_jobs(pool.names[-1], jobs)
    pool.settle(60.0)
    for what, seconds in (("read again", 10.0), ("read just before", ROUND_SECONDS)):

        def changed(seconds: float = seconds) -> None:
            pool.change(pool.names[-1:])
            pool.round(seconds)

        yield timed(f"round: a namespace with {jobs} Jobs, one changed, {what}", changed, repeats=repeats)


KINDS = {"idle": idle, "one namespace changed": one_changed, "everything changed": all_changed}


def rounds_of(queues: int, *, hard: float, pods: int = 2, repeats: int = 5, targets: bool = False) -> Iterator[Measurement]:
    """Measure rounds of each kind."""
    pool = Pool(queues, hard=hard, pods=pods)
    pool.settle()
    target = {"idle": 20.0, "one namespace changed": 20.0, "everything changed": 1000.0} if targets else {}
    for name, run in KINDS.items():
        what = f"round: {queues} queues, {hard:.0%} hard, {name}"
        yield timed(what, lambda run=run: run(pool), target=target.get(name), repeats=repeats)  # type: ignore[misc]


@benchmark
def rounds() -> Iterator[Measurement]:
    """Measure Engine.round at 100, 1,000 and 10,000 queues, none or half of them hard, and with 10,000 Jobs in one namespace."""
    for queues in (100, 1_000, 10_000):
        for hard in (0.0, 0.5):
            yield from rounds_of(queues, hard=hard, targets=queues == 10_000)
    yield from many_jobs(10_000)
