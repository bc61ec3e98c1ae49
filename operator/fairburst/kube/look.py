"""Read a cluster once and decide as the operator would now. Writes nothing.

The engine is the operator's own, so the decision is the one that the operator makes or is about to make. State that the operator does not
save is missing: the pace of pods, and writes that it has sent but not yet seen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from fairburst.config import Config, parse_config
from fairburst.kube.api.class_objects import COLLECTIONS, DeviceClass, PriorityClass, RuntimeClass
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError, Forbidden, NotFound
from fairburst.kube.api.informer import Informer
from fairburst.kube.api.objects import LIVE_PODS, Job, Namespace, Node, Object, Pod
from fairburst.kube.api.quota_objects import LimitRange, ResourceQuota
from fairburst.kube.memories import Memories
from fairburst.kube.queues.listing import Queues, read_queues
from fairburst.kube.rounds.view import ClusterView, RoundPlan
from fairburst.kube.shadow import ObservingEngine
from fairburst.kube.usage.capacity import NodeShapes, counts, extended_offers, first_lacking
from fairburst.kube.usage.controller_index import ControllerIndex
from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.kube.usage.effective_requests import extended_resources
from fairburst.kube.usage.pod_defaults import PodDefaults
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.workloads.registry import KINDS
from fairburst.policy.model import ClusterSnapshot, Memory, PolicyConfig, RoundResult
from fairburst.whatif.rounds import DecidedRound

Item = TypeVar("Item", bound=Object)

CONFIG_KEY = "fairburst.yaml"


@dataclass(frozen=True, slots=True)
class Reading:
    """All objects, read at one time. wall: seconds since the epoch; now: monotonic seconds. device_classes: None if they may not be
    read; runtime_classes, priority_classes: empty then."""

    config: Config
    queues: Queues
    pods: Mapping[tuple[str, str], Pod]
    nodes: Mapping[tuple[str, str], Node]
    namespaces: Mapping[tuple[str, str], Namespace]
    quotas: Mapping[tuple[str, str], ResourceQuota]
    limit_ranges: Mapping[tuple[str, str], LimitRange]
    controllers: Mapping[str, Mapping[tuple[str, str], Any]]
    device_classes: Mapping[tuple[str, str], DeviceClass] | None
    runtime_classes: Mapping[tuple[str, str], RuntimeClass]
    priority_classes: Mapping[tuple[str, str], PriorityClass]
    wall: float
    now: float


@dataclass(frozen=True, slots=True)
class Look:
    """The objects and the decision. `queues`: all queue objects by (kind, namespace, name), as the API server holds them. `demands`: by
    space, of the queues that take part in the decision. `pod_defaults`: by space, what the API server adds to pods."""

    config: Config
    queues: Queues
    view: ClusterView
    plan: RoundPlan
    round: DecidedRound
    demands: Mapping[str, NamespaceDemand]
    pod_defaults: Callable[[str], PodDefaults]

    def pool_nodes(self) -> dict[str, Node]:
        """Return the nodes of the pool that take pods, by name."""
        selector = self.config.pool.node_selector
        return {name: node for (_, name), node in self.view.nodes.items() if counts(node, selector)}

    def lacking(self, requests: Mapping[str, float]) -> str:
        """Return the first extended resource among these requests that no node offers; empty if there is none, or that is not known."""
        offered = extended_offers(self.pool_nodes().values(), self.view.device_classes, autoscaled=self.config.pool.autoscaled)
        return first_lacking(extended_resources(requests), offered)

    def requests_of(self, job: Job) -> Mapping[str, float]:
        """Return the requests of one of a Job's pods, with what the API server adds to them."""
        return self.pod_defaults(job.metadata.namespace).requests_of(job.spec.template.spec)

    def shapes(self) -> NodeShapes:
        """Return the capacities of these nodes."""
        return NodeShapes.of(self.pool_nodes().values(), self.round.snapshot.resources)


def _ignored() -> None:
    """Ignore a change: the store is read once."""


class _Remembered:
    """Decides like `DecidedRound`, and keeps the last call."""

    def __init__(self) -> None:
        self.last: DecidedRound | None = None

    def __call__(self, snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]:
        self.last = DecidedRound.of(snapshot, memory, config, now)
        return self.last.result, self.last.following


async def installed_config(client: ApiClient, namespace: str) -> Config | None:
    """Return the configuration of the operator in `namespace`; None if there is none or it may not be read."""
    try:
        found = await client.get_json(f"/api/v1/namespaces/{namespace}/configmaps")
    except (Forbidden, NotFound):
        return None
    for item in found.get("items") or []:
        text = (item.get("data") or {}).get(CONFIG_KEY)
        if text is not None:
            installed = parse_config(text, f"ConfigMap {namespace}/{item['metadata']['name']}")
            return installed.model_copy(update={"kubeconfig": None, "context": None, "namespace": namespace})
    return None


async def look(client: ApiClient, config: Config) -> Look:
    """Read the cluster and decide. Raises ApiError if a collection may not be read, and PolicyError if the core cannot decide."""
    reading = await read_cluster(client, config)
    return await decided(client, reading, reading.queues)


async def read_cluster(client: ApiClient, config: Config) -> Reading:
    """Read every collection once. Raises ApiError."""
    wall, now = time.time(), time.monotonic()
    pods = Informer(client, "/api/v1/pods", Pod, _ignored, params=LIVE_PODS)
    nodes = Informer(client, "/api/v1/nodes", Node, _ignored)
    namespaces = Informer(client, "/api/v1/namespaces", Namespace, _ignored)
    quotas = Informer(client, "/api/v1/resourcequotas", ResourceQuota, _ignored)
    limit_ranges = Informer(client, "/api/v1/limitranges", LimitRange, _ignored)
    controllers: dict[str, Informer[Any]] = {
        name: Informer(client, kind.collection, kind.item, _ignored, optional=kind.optional) for name, kind in KINDS.items()
    }
    informers: list[Informer[Any]] = [pods, nodes, namespaces, quotas, limit_ranges, *controllers.values()]
    queues = await read_queues(client)
    await asyncio.gather(*(informer.read() for informer in informers))
    work = {kind: informer.store for kind, informer in controllers.items()}
    return Reading(
        config, queues, pods.store, nodes.store, namespaces.store, quotas.store, limit_ranges.store, work,
        await _if_allowed(client, DeviceClass), await _if_allowed(client, RuntimeClass) or {},
        await _if_allowed(client, PriorityClass) or {}, wall, now,
    )  # fmt: skip


async def _if_allowed(client: ApiClient, item: type[Item]) -> Mapping[tuple[str, str], Item] | None:
    """Return a collection of the cluster's classes, which a user without the operator's rights may not read; None then."""
    informer = Informer(client, COLLECTIONS[item], item, _ignored, optional=True)
    try:
        await informer.read()
    except Forbidden:
        return None
    return informer.store


async def decided(client: ApiClient, reading: Reading, queues: Queues) -> Look:
    """Decide on a reading, with `queues` in place of its queues; namespaces of new queues are assumed to exist.

    Raises ApiError if the operator's memory cannot be read, and PolicyError if the core cannot decide.
    """
    config = reading.config
    remembered = _Remembered()
    engine = ObservingEngine(config, config.namespace, remembered)
    await Memories(client, config).recall(engine)
    new = {namespace for _, namespace, _ in queues} - {name for _, name in reading.namespaces}
    view = ClusterView(
        pods=PodIndex(config.pool.counted_resources, by_class=config.small_jobs.enabled),
        stored_pods=reading.pods,
        controllers=ControllerIndex(),
        nodes=reading.nodes,
        device_classes=reading.device_classes,
        runtime_classes=reading.runtime_classes,
        priority_classes=reading.priority_classes,
        namespaces={**reading.namespaces, **{("", name): _namespace(name) for name in new}},
        quotas=reading.quotas,
        limit_ranges=reading.limit_ranges,
        read_queues=lambda: queues,
    )
    for pod in reading.pods.values():
        view.pods.update(None, pod)
        view.changed_namespaces.add(pod.metadata.namespace)
        engine.gates.pod_changed(None, pod)
        engine.pod_changed(None, pod, view.pods, reading.wall, reading.now)
    for kind, store in reading.controllers.items():
        for item in store.values():
            view.controllers.update(kind, None, item)
    plan = engine.round(view, reading.wall, reading.now)
    if remembered.last is None:
        raise ApiError(0, "NothingDecided", "expected a decision, found none")
    return Look(config, queues, view, plan, remembered.last, engine.demands, engine.pod_defaults)


def _namespace(name: str) -> Namespace:
    return msgspec.convert({"metadata": {"name": name}, "status": {"phase": "Active"}}, Namespace)
