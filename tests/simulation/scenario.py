"""A cluster with tenants and their work, drawn from a seed."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from fairburst.config import Config, parse_config
from fairburst.kube.names import API_VERSION, QUEUE_LABEL
from tests.simulation.api_server import ApiServer
from tests.simulation.controllers import SECONDS_ANNOTATION
from tests.simulation.resources import JOBS, LATENCY_QUEUES, NAMESPACES, NODES, PODS, QUEUES, THROUGHPUT_QUEUES, Object, Refused
from tests.simulation.virtual_time import EPOCH

OWN_NAMESPACE, BYSTANDER = "fairburst-system", "bystander"
FINISHED_SECONDS = 8.0  # until a finished Job or pod is deleted
ENFORCEMENTS = ("Quota", "Quota", "Quota", "Gate", "Suspend", "Observe")
DEFAULT_QUEUE, FURTHER_QUEUES = "queue", ("nightly", "weekly", "hourly")
DIVIDED = 0.3  # part of the clusters that have a namespace with several queues
MEASURED = 0.2  # part of the clusters that declare no capacity, so that promises count on the present nodes


@dataclass
class Tenant:
    """A queue and its work. `every`: seconds between Jobs; `pods`, `cpu`, `seconds`: ranges that a Job's are drawn from.

    `queue`: its name; that of a namespace's further queue is one of FURTHER_QUEUES, and its pods ask for it.
    """

    namespace: str
    collection: str
    spec: Object
    first: float
    every: tuple[float, float]
    pods: tuple[int, int]
    cpu: tuple[float, float]
    seconds: tuple[float, float]
    queue: str = DEFAULT_QUEUE
    made: int = 0
    edited: bool = False

    @property
    def asks_for(self) -> str:
        """The label of its pods; empty for the default queue."""
        return self.queue if self.queue in FURTHER_QUEUES else ""


@dataclass
class Scenario:
    """A cluster and its tenants. `populate` creates them in a server, and `start` lets work come."""

    source: random.Random
    config: Config = field(init=False)
    nodes: int = field(init=False)
    node_cpu: int = field(init=False)
    declared: bool = field(init=False)
    tenants: list[Tenant] = field(init=False)

    def __post_init__(self) -> None:
        source = self.source
        self.nodes, self.node_cpu = source.randint(2, 5), source.choice((8, 16))
        small_jobs = source.random() < 0.3
        capacity = self.nodes * self.node_cpu
        # Pods in the namespaces of queues in Observe mode are foreign: without a declared capacity they lower the committed capacity.
        declared = f"pool: {{declaredCapacity: {{cpu: {capacity - 1}, memory: {2 * capacity - 2}Gi}}}}\n"
        debounce = f"rounds: {{debounceMilliseconds: {source.choice((100, 400))}}}\n"
        self.declared = random.Random(f"declared {source.getstate()}").random() >= MEASURED
        latency, throughput = source.randint(1, 3), source.randint(1, 4)
        self.tenants = [self._latency(f"burst-{number}", capacity) for number in range(latency)]
        self.tenants += [self._throughput(f"batch-{number}", capacity) for number in range(throughput)]
        own = random.Random(repr(source.getstate()))  # with a source of their own, clusters stay the same in which no namespace is divided
        if own.random() < DIVIDED:
            self._divide(own, capacity)
            small_jobs |= own.random() < 0.5
        reserve = f"smallJobs: {{enabled: {str(small_jobs).lower()}}}\n"
        self.config = parse_config(f"namespace: {OWN_NAMESPACE}\n{debounce}{declared if self.declared else ''}{reserve}")

    def _divide(self, source: random.Random, capacity: int) -> None:
        """Give a namespace further queues: more often one of batch work, whose default queue may keep a reserve beside them."""
        batch = [tenant for tenant in self.tenants if tenant.collection == THROUGHPUT_QUEUES]
        where = source.choice(batch if source.random() < 0.7 else self.tenants)
        for name in FURTHER_QUEUES[: source.randint(1, len(FURTHER_QUEUES))]:
            with self._drawing_from(source):
                tenant = self._throughput(where.namespace, capacity)
            tenant.queue = name
            self.tenants.append(tenant)

    @contextlib.contextmanager
    def _drawing_from(self, source: random.Random) -> Iterator[None]:
        before, self.source = self.source, source
        yield
        self.source = before

    def change_kind(self, tenant: Tenant, source: random.Random) -> None:
        """Let a tenant have a queue of the other kind from its next creation on. Its work stays the same."""
        draw = self._latency if tenant.collection == THROUGHPUT_QUEUES else self._throughput
        with self._drawing_from(source):
            other = draw(tenant.namespace, self.nodes * self.node_cpu)
        tenant.collection, tenant.spec = other.collection, other.spec

    def _latency(self, namespace: str, capacity: int) -> Tenant:
        source = self.source
        pods, seconds = source.randint(1, max(1, capacity // 6)), source.randint(4, 12)
        deadline = seconds + source.randint(6, 20)
        period = deadline + source.randint(5, 40)
        first = source.uniform(3, 25)
        burst = {
            "resources": {"cpu": str(pods), "memory": f"{pods}Gi"},
            "durationSeconds": seconds,
            "deadlineSeconds": deadline,
        }
        arrival: Object = {"periodic": {"periodSeconds": period, "firstArrival": _time(EPOCH + first)}}
        if source.random() < 0.4:
            arrival = {"sporadic": {"minInterarrivalSeconds": period}}
        spec = {
            "burst": burst,
            "arrival": arrival,
            "enforcement": source.choice(ENFORCEMENTS),
            "reclaim": source.choice(("Never", "Evict")),
        }
        return Tenant(namespace, LATENCY_QUEUES, spec, first, (period, period), (pods, pods), (1, 1), (seconds * 0.6, seconds))

    def _throughput(self, namespace: str, capacity: int) -> Tenant:
        source = self.source
        spec: Object = {"weight": source.randint(1, 4), "enforcement": source.choice(ENFORCEMENTS)}
        if source.random() < 0.3:
            spec["limits"] = {"cpu": str(source.randint(1, capacity))}
        if source.random() < 0.2:
            spec["reclaim"] = "Evict"
        every = source.uniform(6, 25)
        return Tenant(namespace, THROUGHPUT_QUEUES, spec, source.uniform(0, 10), (every / 2, every * 2), (1, 8), (0.1, 3), (2, 30))

    @property
    def node_names(self) -> list[str]:
        """The names of all nodes of the cluster as it begins."""
        return [f"node-{number}" for number in range(self.nodes)]

    def populate(self, server: ApiServer) -> None:
        """Create nodes, namespaces and queues."""
        for name in self.node_names:
            server.create(NODES, node(name, self.node_cpu))
        for name in (OWN_NAMESPACE, "kube-system", BYSTANDER, *dict.fromkeys(tenant.namespace for tenant in self.tenants)):
            server.create(NAMESPACES, namespace(name))
        for tenant in self.tenants:
            self.recreate(server, tenant)
        server.create(PODS, bare_pod("kube-system", "agent", 0.5, 10_000))

    def recreate(self, server: ApiServer, tenant: Tenant) -> None:
        """Create a tenant's queue again, or for the first time. In a namespace that is being deleted it waits for the next one."""
        with contextlib.suppress(Refused):
            server.create(tenant.collection, queue(tenant.collection, tenant.namespace, tenant.queue, tenant.spec))

    def start(self, server: ApiServer, until: float) -> None:
        """Let work come until virtual time `until`."""
        for tenant in self.tenants:
            server.loop.call_at(tenant.first, self._arrive, server, tenant, until)
        server.loop.call_later(5.0, self._clean, server)

    def _arrive(self, server: ApiServer, tenant: Tenant, until: float) -> None:
        source = self.source
        tenant.made += 1
        pods, cpu, seconds = source.randint(*tenant.pods), round(source.uniform(*tenant.cpu), 1), source.uniform(*tenant.seconds)
        asks_for = tenant.asks_for
        name = f"{asks_for}-{tenant.made}" if asks_for else f"{tenant.made}"
        try:
            if source.random() < 0.1:
                for number in range(min(pods, 4)):
                    server.create(PODS, bare_pod(tenant.namespace, f"bare-{name}-{number}", cpu, seconds, asks_for))
            else:
                server.create(JOBS, job(tenant.namespace, f"job-{name}", pods, cpu, seconds, asks_for))
        except Refused:
            pass  # a bare pod that does not fit the quota is refused to its tenant
        if server.loop.now < until:
            server.loop.call_later(source.uniform(*tenant.every), self._arrive, server, tenant, until)

    def _clean(self, server: ApiServer) -> None:
        """Delete finished Jobs and bare pods, as a TTL does; the garbage collector removes the pods of Jobs."""
        for one in server.of(JOBS):
            if (one.get("status") or {}).get("completionTime"):
                server.remove(JOBS, one, "ttl")
        for one in server.of(PODS):
            if (one.get("status") or {}).get("phase") == "Succeeded" and not one["metadata"].get("ownerReferences"):
                server.remove(PODS, one, "ttl")
        server.loop.call_later(FINISHED_SECONDS, self._clean, server)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def namespace(name: str) -> Object:
    """Return an active namespace."""
    return {"metadata": {"name": name, "labels": {}}, "status": {"phase": "Active"}}


def queue(collection: str, where: str, name: str, spec: Object) -> Object:
    """Return a queue of the namespace `where`."""
    return {"apiVersion": API_VERSION, "kind": QUEUES[collection], "metadata": {"name": name, "namespace": where}, "spec": spec}


def node(name: str, cpu: int) -> Object:
    """Return a ready node with 2 GiB a cpu."""
    amounts = {"cpu": str(cpu), "memory": f"{2 * cpu}Gi", "pods": "110"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": {}}, "spec": {}, "status": status}


def _pod_spec(cpu: float) -> dict[str, Any]:
    requests = {"cpu": f"{int(cpu * 1000)}m", "memory": f"{int(cpu * 1024)}Mi"}
    container = {"name": "work", "image": "work", "resources": {"requests": requests}}
    return {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 5}


def _asking(queue: str) -> Object:
    return {"labels": {QUEUE_LABEL: queue}} if queue else {}


def bare_pod(namespace: str, name: str, cpu: float, seconds: float, asks_for: str = "") -> Object:
    """Return a pod without a controller."""
    metadata = {"name": name, "namespace": namespace, "annotations": {SECONDS_ANNOTATION: f"{seconds:g}"}, **_asking(asks_for)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _pod_spec(cpu), "status": {"phase": "Pending"}}


def job(namespace: str, name: str, pods: int, cpu: float, seconds: float, asks_for: str = "") -> Object:
    """Return a Job whose pods run in parallel."""
    template = {"metadata": {"annotations": {SECONDS_ANNOTATION: f"{seconds:g}"}, **_asking(asks_for)}, "spec": _pod_spec(cpu)}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": {}}
