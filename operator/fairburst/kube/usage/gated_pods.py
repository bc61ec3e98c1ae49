"""Pods that our scheduling gate holds, by space in their order, and the groups that are released together.

Updated by every event in all namespaces, so that no gate is overlooked. `enforce/gate.py` decides.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field

from fairburst.kube.api.objects import Pod, controller_of
from fairburst.kube.names import GATE, GROUP
from fairburst.kube.queues.spaces import UNDIVIDED, Spaces
from fairburst.kube.queues.steps import step_of

GROUP_LABEL = f"{GROUP}/group"
GROUP_SIZE = f"{GROUP}/group-size"  # a label or an annotation
LARGEST_GROUP = 100_000

PodKey = tuple[str, str]  # namespace, name
GroupKey = tuple[str, str]  # space, name of the group


@dataclass(frozen=True, slots=True)
class GatedPod:
    """A pod that our gate holds. `gate_index`: the gate's position in its list. `order`: the pod's place within its space.

    `group` is None for a pod without a group. `since`: monotonic time at which it was first seen with our gate; minus infinity if unknown.
    """

    key: PodKey
    space: str
    uid: str
    version: str
    created: str
    gate_index: int
    order: tuple[bool, int, str, str]
    group: GroupKey | None
    since: float = -math.inf


@dataclass(slots=True)
class PodGroup:
    """Pods of one group that have not ended. `sizes`: the group size that each pod names; the largest counts. `started`: pods without our
    gate."""

    sizes: dict[PodKey, int] = field(default_factory=dict)
    started: set[PodKey] = field(default_factory=set)
    gated: dict[PodKey, GatedPod] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Return whether all pods of the group exist."""
        return len(self.sizes) >= max(self.sizes.values(), default=0)

    @property
    def waits_whole(self) -> bool:
        """Return whether the group is complete and none of its pods has been released."""
        return self.complete and not self.started


class GatedPods:
    """See the module. `update` it with every change of the pod informer's store, then read. `spaces`: the divided namespaces."""

    def __init__(self) -> None:
        self.spaces = UNDIVIDED
        self._pods: dict[PodKey, GatedPod] = {}
        self._by_space: dict[str, list[GatedPod]] = {}
        self._groups: dict[str, dict[GroupKey, PodGroup]] = {}  # by space
        self._group_of: dict[PodKey, GroupKey] = {}

    def update(self, new: Pod | None, key: PodKey, now: float = -math.inf) -> None:
        """Apply one change: the pod as it is now, or None if it is gone. `now`: monotonic time of the event, if there was one."""
        former = self._forget(key)
        if new is None or new.ended or new.metadata.deletion_timestamp is not None:
            return
        space = self.spaces.of_class(key[0], new.spec.priority_class_name)
        group, size = group_of(new, space)
        held = gated_pod(new, group, space, former.since if former is not None and former.uid == new.metadata.uid else now)
        if held is not None:
            self._pods[key] = held
            insort(self._by_space.setdefault(space, []), held, key=_order)
        if group is not None:
            self._join(group, size, key, held)

    def divide(self, spaces: Spaces, pods: Iterable[Pod]) -> None:
        """Change the division of namespaces into spaces. `pods`: all that have a lane's class."""
        self.spaces = spaces
        for pod in pods:
            self.update(pod, (pod.metadata.namespace, pod.metadata.name))

    def get(self, key: PodKey) -> GatedPod | None:
        """Return the pod if our gate holds it."""
        return self._pods.get(key)

    def of(self, space: str) -> Sequence[GatedPod]:
        """Return the gated pods of a space in the order in which they start: by their step of priority, then the oldest first."""
        return self._by_space.get(space, ())

    def waiting(self) -> Set[str]:
        """Return the spaces with gated pods."""
        return self._by_space.keys()

    def groups_of(self, space: str) -> Collection[PodGroup]:
        """Return the groups of a space with pods that have not ended."""
        return self._groups.get(space, {}).values()

    def group(self, key: GroupKey) -> PodGroup:
        """Return the group of a gated pod."""
        return self._groups[key[0]][key]

    def _join(self, name: GroupKey, size: int, key: PodKey, held: GatedPod | None) -> None:
        group = self._groups.setdefault(name[0], {}).setdefault(name, PodGroup())
        self._group_of[key] = name
        group.sizes[key] = size
        if held is None:
            group.started.add(key)
        else:
            group.gated[key] = held

    def _forget(self, key: PodKey) -> GatedPod | None:
        held = self._pods.pop(key, None)
        if held is not None:
            pods = self._by_space[held.space]
            del pods[bisect_left(pods, held.order, key=_order)]
            if not pods:
                del self._by_space[held.space]
        name = self._group_of.pop(key, None)
        if name is not None:
            group = self.group(name)
            del group.sizes[key]
            group.started.discard(key)
            group.gated.pop(key, None)
            if not group.sizes:
                del self._groups[name[0]][name]
                if not self._groups[name[0]]:
                    del self._groups[name[0]]
        return held


def gated_pod(pod: Pod, group: GroupKey | None = None, space: str | None = None, since: float = -math.inf) -> GatedPod | None:
    """Return the pod as a gated one; None without our gate. Pods that other gates hold too come last: they cannot run yet."""
    index = pod.gate_index(GATE)
    if index is None:
        return None
    metadata = pod.metadata
    created = metadata.creation_timestamp or ""
    foreign = len(pod.spec.scheduling_gates or ()) > 1
    order = (foreign, step_of(metadata.labels), created, metadata.name)
    key, space = (metadata.namespace, metadata.name), metadata.namespace if space is None else space
    return GatedPod(key, space, metadata.uid, metadata.resource_version, created, index, order, group, since)


def group_of(pod: Pod, space: str) -> tuple[GroupKey | None, int]:
    """Return the group with which the pod starts, and its size; (None, 1) if it names none, or no valid size.

    Without a group's name, the pods of one controller are the group. A group is of one `space`, because one level has to hold it.
    """
    metadata = pod.metadata
    labels, annotations = metadata.labels or {}, metadata.annotations or {}
    text = labels.get(GROUP_SIZE) or annotations.get(GROUP_SIZE)
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 6 or not 1 <= int(text) <= LARGEST_GROUP:
        return None, 1
    owner = controller_of(metadata)
    name = labels.get(GROUP_LABEL) or (owner.uid if owner is not None else None)
    return (None, 1) if name is None else ((space, name), int(text))


def _order(pod: GatedPod) -> tuple[bool, int, str, str]:
    return pod.order
