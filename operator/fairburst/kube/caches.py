"""The operator's live copies of the cluster's objects, and the view of them that rounds read. They are kept up on every replica.

Each event updates the indexes at once, and then reaches a `Follower`, which decides what to do about it.
"""

from __future__ import annotations

import functools
import time
from typing import Any, Protocol

import msgspec

from fairburst.config import Config
from fairburst.kube.api.class_objects import COLLECTIONS, DeviceClass, PriorityClass, RuntimeClass
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.informer import Informer
from fairburst.kube.api.objects import LIVE_PODS, Namespace, Node, Pod
from fairburst.kube.api.quota_objects import LimitRange, ResourceQuota
from fairburst.kube.queues.queue_watch import QueueWatch
from fairburst.kube.rounds.view import ClusterView
from fairburst.kube.usage.controller_index import ControllerIndex
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.usage.recent_use import RecentUse
from fairburst.kube.usage.shared_parts import sharing
from fairburst.kube.workloads.registry import KINDS


class Follower(Protocol):
    """Is told of every change, after the caches have it."""

    def mark(self) -> None:
        """Note that something has changed."""

    def pod_changed(self, old: Pod | None, new: Pod | None, space: str, now: float) -> None:
        """Note one change of a pod of this space, at monotonic `now`."""

    def pods_changed(self, namespaces: set[str]) -> None:
        """Note the end of a batch of such changes, which were in these namespaces."""

    def controller_changed(self, kind: str, old: Any, new: Any) -> None:
        """Note one change of an object that creates pods."""


class Caches:
    """Informers of all collections, the watch of the queues, and `view`, which reads their stores.

    recent: the use of the last minute, which a process that begins to lead charges.
    """

    def __init__(self, client: ApiClient, config: Config, follower: Follower) -> None:
        self._follower, mark = follower, follower.mark
        self.recent = RecentUse()
        self.pods = Informer(
            client, "/api/v1/pods", Pod, self._pods_changed, params=LIVE_PODS, on_lost=self.recent.watch_lost,
            on_event=sharing(self._on_pod),
        )  # fmt: skip
        self.nodes = Informer(client, "/api/v1/nodes", Node, mark, on_rewind=self._list_queues)
        self._classes = {kind: Informer(client, path, kind, mark, optional=True) for kind, path in COLLECTIONS.items()}
        self.namespaces = Informer(client, "/api/v1/namespaces", Namespace, mark)
        self.quotas = Informer(client, "/api/v1/resourcequotas", ResourceQuota, mark)
        self.limit_ranges = Informer(client, "/api/v1/limitranges", LimitRange, mark)
        self.controllers = {
            name: Informer(
                client, kind.collection, kind.item, mark, optional=kind.optional, on_event=functools.partial(self._on_controller, name)
            )
            for name, kind in KINDS.items()
        }
        self.queues = QueueWatch(client, on_change=mark)
        self.view = ClusterView(
            pods=PodIndex(config.pool.counted_resources, by_class=config.small_jobs.enabled),
            stored_pods=self.pods.store,
            controllers=ControllerIndex(),
            nodes=self.nodes.store,
            device_classes=self._classes[DeviceClass].store,
            runtime_classes=self._classes[RuntimeClass].store,
            priority_classes=self._classes[PriorityClass].store,
            namespaces=self.namespaces.store,
            quotas=self.quotas.store,
            limit_ranges=self.limit_ranges.store,
            read_queues=self.queues.in_force,
        )
        self._changed_pods_in: set[str] = set()

    def informers(self) -> list[Informer[Any]]:
        """Return the informers of all collections but the queues, pods first."""
        kinds = *self._classes.values(), *self.controllers.values()
        return [self.pods, self.nodes, self.namespaces, self.quotas, self.limit_ranges, *kinds]

    async def fill(self) -> None:
        """Return once all caches are complete, while the informers run. Raises what the watch of the queues does."""
        for informer in self.informers():
            await informer.synced.wait()
        await self.queues.start()
        self.recent.watch_from(time.monotonic())

    def forget_ended_pods(self) -> None:
        """Forget the pods that ended a while ago, as every round does: for a process that runs none."""
        self.view.changed_namespaces |= self.view.pods.expire(time.time())

    def pod_answered(self, pod: Pod) -> None:
        """Store the answer to a patch, unless the pod has ended meanwhile: no further event would report that."""
        if (pod.metadata.namespace, pod.metadata.name) in self.pods.store:
            self.pods.observe(pod)

    def controller_answered(self, obj: dict[str, Any]) -> None:
        """Store the answer to a write of an object that creates pods."""
        self.controllers[obj["kind"]].observe(msgspec.convert(obj, KINDS[obj["kind"]].item))

    def namespace_answered(self, obj: dict[str, Any]) -> None:
        """Store the answer to a write of a namespace."""
        self.namespaces.observe(msgspec.convert(obj, Namespace))

    def quota_answered(self, obj: dict[str, Any]) -> None:
        """Store the answer to a write of a quota."""
        self.quotas.observe(msgspec.convert(obj, ResourceQuota))

    def _list_queues(self) -> None:
        self.queues.request_relist()

    def _pods_changed(self) -> None:
        changed, self._changed_pods_in = self._changed_pods_in, set()
        if not self.recent.watching and self.pods.connected.is_set():
            self.recent.watch_from(time.monotonic())
        self._follower.pods_changed(changed)

    def _on_pod(self, _: str, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None:
            return
        namespace, space, now = pod.metadata.namespace, self.view.pods.space_of(pod), time.monotonic()
        self.view.pods.update(old, new)
        self.recent.pod_changed(old, new, time.time(), now)
        self.view.changed_namespaces.add(namespace)
        self._changed_pods_in.add(namespace)
        self._follower.pod_changed(old, new, space, now)

    def _on_controller(self, kind: str, _: str, old: Any, new: Any) -> None:
        self.view.controllers.update(kind, old, new)
        self.view.changed_namespaces.add((new or old).metadata.namespace)
        self._follower.controller_changed(kind, old, new)
        if new is None:
            self.view.pods.forget_owner(old.metadata.namespace, old.metadata.uid)
