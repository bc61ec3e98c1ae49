"""Kubernetes objects as the informers hold them, and a cluster view that takes a plan's writes as the API server would."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from fairburst.config import Config, parse_config
from fairburst.kube.api.objects import Job, Namespace, Node, Pod
from fairburst.kube.api.quota_objects import LimitRange, ResourceQuota
from fairburst.kube.enforce.controller_resync import resync_annotations
from fairburst.kube.enforce.gate import ungate_patch
from fairburst.kube.enforce.suspend import JobStart
from fairburst.kube.names import API_VERSION, MANAGED_LABEL, OUR_QUOTAS
from fairburst.kube.object_writes import quota_body
from fairburst.kube.rounds.view import ClusterView, RoundPlan
from fairburst.kube.shadow import ObservingEngine
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.workloads.job_set import JobSet
from fairburst.kube.workloads.replicas import Deployment, ReplicaSet, StatefulSet
from fairburst.quantity import parse_quantity
from tests.support.fake_api import json_patch, merge_patch
from tests.support.json_copy import json_copy

JsonObject = dict[str, Any]
GI = 2.0**30
WALL = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def requesting(cpu: str | None = "1", memory: str | None = "1Gi", **more: str) -> JsonObject:
    """Return a container's resources; None leaves a request out."""
    requests = {name: text for name, text in {"cpu": cpu, "memory": memory, **more}.items() if text is not None}
    return {"resources": {"requests": requests}}


def pod_spec(*containers: JsonObject) -> JsonObject:
    return {"containers": [{"name": f"c{number}", **one} for number, one in enumerate(containers or (requesting(),))]}


def owned_by(kind: str, uid: str) -> JsonObject:
    return {"ownerReferences": [{"kind": kind, "name": uid, "uid": uid, "controller": True}]}


def pod(
    namespace: str, name: str, *containers: JsonObject, owner: tuple[str, str] | None = None, node: str = "", phase: str = "Pending",
    **metadata: Any,
) -> Pod:  # fmt: skip
    """A stored pod; `owner` is (kind, uid). With a node it is bound."""
    reference = owned_by(*owner) if owner else {}
    return msgspec.convert(
        {
            "metadata": {"namespace": namespace, "name": name, "uid": f"{namespace}/{name}", **reference, **metadata},
            "spec": pod_spec(*containers) | {"nodeName": node},
            "status": {"phase": phase},
        },
        Pod,
    )


def job(
    namespace: str, name: str, parallelism: int | None = 1, *containers: JsonObject, status: JsonObject | None = None, **spec: Any
) -> Job:
    """A Job with uid `name` that the Job controller has processed, unless it is suspended; further keywords go into its spec."""
    started = {} if spec.get("suspend") else {"startTime": "2026-01-01T00:00:00Z"}
    body = {
        "metadata": {"namespace": namespace, "name": name, "uid": name},
        "spec": {"template": {"spec": pod_spec(*containers)}, **spec} | ({} if parallelism is None else {"parallelism": parallelism}),
        "status": started | (status or {}),
    }
    return msgspec.convert(body, Job)


def replicated(
    kind: type[ReplicaSet | Deployment | StatefulSet], namespace: str, name: str, replicas: int | None, *containers: JsonObject,
    owner: tuple[str, str] | None = None, **metadata: Any,
) -> Any:  # fmt: skip
    """A ReplicaSet, Deployment or StatefulSet with uid `name`."""
    reference = owned_by(*owner) if owner else {}
    spec = {"template": {"spec": pod_spec(*containers)}} | ({} if replicas is None else {"replicas": replicas})
    return msgspec.convert({"metadata": {"namespace": namespace, "name": name, "uid": name, **reference, **metadata}, "spec": spec}, kind)


def node(name: str, *, ready: bool = True, labels: dict[str, str] | None = None, **allocatable: str) -> Node:
    offered = {key.replace("_gpu", "nvidia.com/gpu"): text for key, text in (allocatable or {"cpu": "32", "memory": "64Gi"}).items()}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    body = {"metadata": {"name": name, "labels": labels or {}}, "status": {"allocatable": offered, "conditions": conditions}}
    return msgspec.convert(body, Node)


def quota(
    namespace: str, hard: dict[str, str], used: dict[str, str] | None = None, name: str = "fairburst", pool: str | None = "default",
    enforced: dict[str, str] | None = None, scoped: bool = True,
) -> ResourceQuota:  # fmt: skip
    """A namespace quota (or, by another name, a foreign one), enforced as written by default."""
    body = (
        quota_body_of(namespace, hard, pool, name if name in OUR_QUOTAS else "fairburst")
        if scoped
        else {"metadata": {"namespace": namespace}, "spec": {"hard": hard}}
    )
    body["metadata"]["name"] = name
    if pool is None:
        body["metadata"].pop("labels", None)
    return msgspec.convert(body | {"status": {"hard": hard if enforced is None else enforced, "used": used or {}}}, ResourceQuota)


def quota_body_of(namespace: str, hard: dict[str, str], pool: str | None, name: str = "fairburst") -> JsonObject:
    from fairburst.kube.enforce.quota_plan import QuotaWrite, WriteOrder
    from fairburst.kube.enforce.quota_scope import SCOPES

    order, scope = WriteOrder.RAISE, SCOPES[name]
    write = QuotaWrite(namespace, hard, {}, (), create=True, replace=False, order=order, size=1.0, name=name, scope=scope)
    return quota_body(write, pool or "default")


def limit_range(namespace: str, name: str, **item: Any) -> LimitRange:
    return msgspec.convert({"metadata": {"namespace": namespace, "name": name}, "spec": {"limits": [item]}}, LimitRange)


def stored_queue(
    kind: str, namespace: str, name: str, spec: JsonObject | None = None, *, uid: str = "", created: str = "2026-01-01T00:00:00Z",
    generation: int = 1, status: JsonObject | None = None,
) -> JsonObject:  # fmt: skip
    """A queue object as the API server sends it."""
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-{namespace}-{name}", "generation": generation}
    obj: JsonObject = {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": metadata | {"creationTimestamp": created, "resourceVersion": "1"},
        "spec": {"pool": "default", "weight": 1, "enforcement": "Quota", **(spec or {})},
    }
    return obj if status is None else obj | {"status": status}


def latency_spec(cpu: str = "16", duration: int = 20, interarrival: int = 60, **more: Any) -> JsonObject:
    """A sporadic burst that needs as many Gi of memory as cpu."""
    burst = {"resources": {"cpu": cpu, "memory": f"{cpu}Gi"}, "durationSeconds": duration}
    return {"burst": burst, "arrival": {"sporadic": {"minInterarrivalSeconds": interarrival}}, **more}


class World:
    """A cluster view that a test can set in every part, an engine, and the effects that its plans would have on the API server."""

    def __init__(self, config: str | Config = "", nodes: int = 2) -> None:
        self.config = config if isinstance(config, Config) else parse_config(config)
        self.engine = ObservingEngine(self.config, self.config.namespace)
        self.pods: dict[tuple[str, str], Pod] = {}
        self.nodes: dict[tuple[str, str], Node] = {("", f"node-{n}"): node(f"node-{n}") for n in range(nodes)}
        self.namespaces: dict[tuple[str, str], Namespace] = {}
        self.quotas: dict[tuple[str, str], ResourceQuota] = {}
        self.limit_ranges: dict[tuple[str, str], LimitRange] = {}
        self.queues: dict[tuple[str, str, str], JsonObject] = {}
        self.view = ClusterView(
            pods=PodIndex(self.config.pool.counted_resources, by_class=self.config.small_jobs.enabled),
            stored_pods=self.pods,
            nodes=self.nodes,
            namespaces=self.namespaces,
            quotas=self.quotas,
            limit_ranges=self.limit_ranges,
            read_queues=self._stored_queues,
        )
        self._stored: dict[tuple[str, str, str], JsonObject] = {}
        self.wall, self.now = WALL, 1000.0

    def _stored_queues(self) -> dict[tuple[str, str, str], JsonObject]:
        """The queue objects as the watch stores them: another object whenever one has changed."""
        self._stored = {key: self._stored[key] if self._stored.get(key) == obj else json_copy(obj) for key, obj in self.queues.items()}
        return self._stored

    # What happens on the cluster ------------------------------------------------------------------------------------

    def namespace(self, name: str, *, managed: bool = False, phase: str = "Active") -> None:
        labels = {MANAGED_LABEL: "true"} if managed else {}
        body = {"metadata": {"name": name, "labels": labels}, "status": {"phase": phase}}
        self.namespaces["", name] = msgspec.convert(body, Namespace)

    def queue(self, kind: str, namespace: str, name: str = "queue", spec: JsonObject | None = None, **more: Any) -> JsonObject:
        """Create or replace a queue, and its namespace if need be."""
        if ("", namespace) not in self.namespaces:
            self.namespace(namespace)
        obj = stored_queue(kind, namespace, name, spec, **more)
        self.queues[kind, namespace, name] = obj
        return obj

    def put(self, new: Pod) -> None:
        """Create or change a pod, as the process does on an event."""
        key = (new.metadata.namespace, new.metadata.name)
        old = self.pods.get(key)
        self.view.pods.update(old, new)
        self.engine.gates.pod_changed(old, new)
        self.engine.pod_changed(old, new, self.view.pods, self.wall, self.now)
        self.pods[key] = new
        self.view.changed_namespaces.add(key[0])

    def end(self, namespace: str, name: str) -> None:
        """End a pod, which leaves the informer's view."""
        old = self.pods.pop((namespace, name))
        self.view.pods.update(old, None)
        self.engine.pod_ended(self.view.pods.space_of(old), self.now)
        self.engine.gates.pod_changed(old, None)
        self.engine.pod_changed(old, None, self.view.pods, self.wall, self.now)
        self.view.changed_namespaces.add(namespace)

    def controller(self, kind: str, old: Any, new: Any) -> None:
        self.view.controllers.update(kind, old, new)
        self.view.changed_namespaces.add((new or old).metadata.namespace)

    def restarted(self, away: float = 3.0) -> World:
        """The same cluster, seen by a new process that begins `away` seconds later."""
        again = World(self.config, 0)
        for name in ("nodes", "namespaces", "quotas", "queues"):
            getattr(again, name).update(getattr(self, name))
        for one in self.pods.values():
            again.put(one)
        again.view.controllers = self.view.controllers
        again.wall, again.now = self.wall + away, 5.0
        return again

    def after(self, seconds: float) -> None:
        self.wall += seconds
        self.now += seconds

    # Rounds ---------------------------------------------------------------------------------------------------------

    def round(self) -> RoundPlan:
        """Run one round with its writes."""
        plan = self.plan()
        self.take(plan)
        return plan

    def settle(self, seconds: float = 30.0) -> list[RoundPlan]:
        """Run rounds as the loop would, until all deferred writes are done."""
        until, plans = self.now + seconds, list[RoundPlan]()
        while self.now < until:
            plans.append(self.round())
            self.after_due(plans[-1])
        return plans

    def after_due(self, plan: RoundPlan) -> None:
        """Let time pass until the next round is due, at most ten seconds."""
        self.after(max(0.05, min(plan.due, self.now + 10.0) - self.now))

    def plan(self) -> RoundPlan:
        """Run one round without its writes."""
        return self.engine.round(self.view, self.wall, self.now)

    def take(self, plan: RoundPlan) -> None:
        """Change the stored objects as the API server would for the plan's writes."""
        for name in plan.releases:
            self.namespace(name)
        for name, labels in plan.labels.items():
            body = msgspec.to_builtins(self.namespaces["", name])
            self.namespaces["", name] = msgspec.convert(merge_patch(body, {"metadata": {"labels": dict(labels)}}), Namespace)
        self.engine.gates.sent(plan.ungates)
        for held in plan.ungates:
            body = json_patch(msgspec.to_builtins(self.pods[held.key]), ungate_patch(held))
            self.put(msgspec.convert(body, Pod))
        for start in plan.starts:
            self._start(start)
        for owner in plan.resyncs:
            of_kind = self.view.controllers.workloads(owner.namespace).of(owner.kind)
            for metadata in [one.metadata for one in of_kind if one.metadata.uid == owner.uid]:
                noted = merge_patch(metadata.annotations or {}, resync_annotations(owner, self.wall))
                metadata.annotations = {name: str(text) for name, text in noted.items()}
        for key in plan.quota_deletions:
            del self.quotas[key]
        for write in plan.quota_writes:
            self._take_quota(write)
            self.engine.quota_written(write, self.now, done=True)
        for status in plan.statuses:
            obj = self.queues[status.entry.key]
            self.queues[status.entry.key] = merge_patch(obj, {"status": dict(status.patch)})
            self.engine.status_written(status, self.now, 0.0, self.queues[status.entry.key])

    def _start(self, start: JobStart) -> None:
        """Start a held Job or JobSet as the API server does (a start for another version is refused), and as its controller notes it."""
        workloads = self.view.controllers.workloads(start.namespace)
        of_kind: Iterable[Job | JobSet] = workloads.of(start.kind)
        old = next(one for one in of_kind if one.metadata.name == start.name)
        if old.metadata.resource_version == start.resource_version:
            noted = {"status": {"startTime": "2026-01-01T00:00:00Z"}} if isinstance(old, Job) else {}
            new = msgspec.convert(merge_patch(msgspec.to_builtins(old), {**start.patch(self.wall), **noted}), type(old))
            self.controller(start.kind, old, new)

    def _take_quota(self, write: Any) -> None:
        key = write.key
        before = None if write.create else self.quotas.get(key)
        used = dict(before.status.used or {}) if before is not None else {}
        made = quota(write.namespace, dict(write.hard), {**used, **write.used}, write.name, self.config.pool.name)
        known = {} if before is None else before.metadata.annotations or {}
        made.spec.scope_selector = msgspec.convert(quota_body(write, "")["spec"]["scopeSelector"], type(made.spec.scope_selector))
        made.metadata.annotations = {name: text for name, text in {**known, **write.notes}.items() if text is not None}
        self.quotas[key] = made

    def hard(self, namespace: str, quota: str = "fairburst") -> dict[str, str]:
        """Return the limits of one of the namespace's quotas, of the namespace quota by default."""
        return {key: str(text) for key, text in (self.quotas[namespace, quota].spec.hard or {}).items()}

    def permitted_cpu(self, namespace: str, quota: str = "fairburst") -> float:
        """Return the cpu that one of the namespace's quotas permits, the namespace quota by default; infinite if it has no limits."""
        hard = self.hard(namespace, quota)
        return parse_quantity(hard["requests.cpu"]) if hard else math.inf

    def scope(self, namespace: str, quota: str = "fairburst") -> tuple[str, set[str]]:
        """Return whether the quota counts only or leaves out (In, NotIn) pods of which classes."""
        selector = self.quotas[namespace, quota].spec.scope_selector
        assert selector is not None
        (term,) = selector.match_expressions or []
        return term.operator, set(term.values or ())

    def status(self, namespace: str, name: str = "queue", kind: str = "ThroughputQueue") -> JsonObject:
        status: JsonObject = self.queues[kind, namespace, name]["status"]
        return status

    def condition(self, kind: str, namespace: str, type_: str, name: str = "queue") -> tuple[str, str, str]:
        """(status, reason, message) of one condition."""
        for one in self.status(namespace, name, kind)["conditions"]:
            if one["type"] == type_:
                return one["status"], one["reason"], one["message"]
        raise AssertionError(f"{kind} {namespace}/{name} has no condition {type_}")
