"""Let the pods of one controller share the parts that are equal in all of them, and drop the conditions that nothing reads.

A pod as read from JSON is 55 Python objects, 3.4 kB. Its containers, tolerations, owners and most often its labels are equal to those of
every other pod of its controller: more than half of its memory. Of the five conditions that each pod has, 240 bytes each, fairburst reads
one, and those of a resize.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern

from fairburst.kube.api.objects import Pod, PodStatus, controller_of

MOST_MODELS = 2_000  # about 2 kB each; more begin again, so that those of ended Jobs do not stay
READ_CONDITIONS = frozenset({"PodScheduled", "PodResizePending"})

OnPod = Callable[[str, Pod | None, Pod | None], None]


class SharedParts:
    """Remembers the parts of the latest pod of each controller; bare pods have their namespace's. O(1) a pod, a few µs."""

    def __init__(self) -> None:
        self._models: dict[str, Pod] = {}

    def share(self, pod: Pod) -> None:
        """Replace parts of a pod that is not used yet by equal ones."""
        _drop_unread(pod.status)
        if pod.spec.resources is None:  # what the kubelet reports of the pod as a whole says no more than that of its containers
            pod.status.resources = pod.status.allocated_resources = None
        _intern(pod)
        owner = controller_of(pod.metadata)
        key = pod.metadata.namespace if owner is None else owner.uid
        model = self._models.get(key)
        if model is None:
            if len(self._models) >= MOST_MODELS:
                self._models.clear()
            self._models[key] = pod
            return
        mine, other = pod.metadata, model.metadata
        if mine.labels == other.labels:
            mine.labels = other.labels
        if mine.owner_references == other.owner_references:
            mine.owner_references = other.owner_references
        if mine.finalizers == other.finalizers:
            mine.finalizers = other.finalizers
        spec, like = pod.spec, model.spec
        if spec.containers == like.containers:
            spec.containers = like.containers
        if spec.tolerations == like.tolerations:
            spec.tolerations = like.tolerations
        if pod.status.container_statuses == model.status.container_statuses:
            pod.status.container_statuses = model.status.container_statuses


def _drop_unread(status: PodStatus) -> None:
    if not status.conditions:
        return
    status.conditions = [one for one in status.conditions if one.type in READ_CONDITIONS]
    for one in status.conditions:
        one.type, one.status = intern(one.type), intern(one.status)


def _intern(pod: Pod) -> None:
    """Let all pods share the texts that recur: of their namespaces, nodes, classes and phases, and of the seconds of their creation."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    metadata.namespace = intern(metadata.namespace)
    spec.node_name = intern(spec.node_name)
    spec.priority_class_name = intern(spec.priority_class_name)
    spec.runtime_class_name = intern(spec.runtime_class_name)
    status.phase = intern(status.phase)
    if metadata.creation_timestamp is not None:
        metadata.creation_timestamp = intern(metadata.creation_timestamp)


def sharing(on_event: OnPod) -> OnPod:
    """Return an `on_event` of an informer of pods that shares equal parts first."""
    parts = SharedParts()

    def changed(kind: str, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            parts.share(new)
        on_event(kind, old, new)

    return changed
