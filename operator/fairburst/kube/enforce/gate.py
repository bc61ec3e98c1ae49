"""Which pods to take our scheduling gate off now. Pure but for what is on its way; `kube/ungate.py` sends.

Each queue in Gate mode has its level in whole pods: what its pods without our gate are charged counts against it, and the first of those
that wait get the rest. Namespaces that no queue holds by gates any more get all their pods back. A quota there is only a ceiling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairburst.kube.api.objects import Pod
from fairburst.kube.enforce.fifo_admission import served
from fairburst.kube.names import GATE
from fairburst.kube.usage.gated_pods import GatedPod, GatedPods, GroupKey, PodGroup, PodKey
from fairburst.kube.usage.pod_index import PodIndex, RequestVector

RETRY_SECONDS = 1.0
MOST_CEILING = 2.0**61  # a quarter of the largest quantity
# A quota is written at most once a second, so what may be created within one must be there before: else bare pods would be lost.
CEILING_POOLS = 16
MILLI_TOLERANCE = 1e-3  # thousandths of a unit: a level of 2.9999999 cpu is three pods


@dataclass(frozen=True, slots=True)
class GateLevel:
    """What a queue's pods may take. `rank`: hard in its window before soft in its before the rest, then the queues' order.

    `milli`: thousandths of a unit by resource, in the pod index's order. `slots`: how many pods; None: any number.
    """

    rank: tuple[int, int]
    milli: tuple[int, ...]
    slots: int | None = None


def milli_level(level: Iterable[float]) -> tuple[int, ...]:
    """A level in resource units as whole thousandths."""
    return tuple(math.floor(amount * 1000 + MILLI_TOLERANCE) for amount in level)


def ungate_patch(pod: GatedPod) -> list[dict[str, Any]]:
    """One JSON patch that takes off our gate and nothing else, and fails where the pod is another one or its gates have moved."""
    path = f"/spec/schedulingGates/{pod.gate_index}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": f"{path}/name", "value": GATE},
        {"op": "remove", "path": path},
    ]


def choose(
    waiting: Iterable[GatedPod],
    level: Sequence[int],
    room: Sequence[int],
    requests: Callable[[PodKey], RequestVector],
    group: Callable[[GatedPod], PodGroup | None],
    smallest: Sequence[int] = (),
) -> list[GatedPod]:
    """Pods that fit into `room`, first come first served. `level`, `room` and `smallest` (no pod takes less): thousandths of a unit by
    resource. `group`: None for a pod that goes by itself.

    First come, first served (`line.py`); a group goes whole, once all of it is there and fits.
    """
    return [pod for unit in served(_units(waiting, requests, group), level, room, smallest) for pod in unit]


def _units(
    waiting: Iterable[GatedPod], requests: Callable[[PodKey], RequestVector], group: Callable[[GatedPod], PodGroup | None]
) -> Iterator[tuple[list[GatedPod], list[int]]]:
    """Pods that go together, and what they need: a group in the place of its first pod, once all of it is there."""
    seen = set[GroupKey]()
    for pod in waiting:
        members, together = group(pod), [pod]
        if members is not None and pod.group is not None:
            if pod.group in seen or not members.complete:
                continue
            seen.add(pod.group)
            together = list(members.gated.values())
        yield together, [sum(column) for column in zip(*(requests(each.key) for each in together), strict=True)]


def ceiling(
    wanted: Mapping[str, float], capacity: Mapping[str, float], level: Mapping[str, float], present: Mapping[str, float]
) -> dict[str, float]:
    """What a quota permits where gates hold the pods: by resource many times the pool, and at least twice what is wanted.

    Far above what exists, so that no gated pod is refused for those before it, however fast they come, and seldom moved: `present` stays
    where it is large enough and not more than four times too large. Resource units.
    """
    found = {}
    for resource, amount in wanted.items():
        need = min(2 * max(amount, level.get(resource, 0.0)), MOST_CEILING)
        base = CEILING_POOLS * max(capacity.get(resource, 0.0), level.get(resource, 0.0), 1.0)
        steps = max(0, math.ceil(math.log2(max(need / base, 1.0)) - 1e-9))
        right = min(base * 2.0**steps, MOST_CEILING)
        now = present.get(resource, 0.0)
        found[resource] = now if right <= now <= 4 * right else right
    return found


@dataclass(slots=True)
class UngatePlanner:
    """What is held, what each queue's level is, and what is on its way to being let go.

    Between rounds the levels of the last one stand: a hard queue's burst has its whole rate from the moment it is armed, so its pods
    are let go on their event, without a round in between.
    """

    gated: GatedPods = field(default_factory=GatedPods)
    _levels: dict[str, GateLevel] = field(default_factory=dict)
    _in_flight: dict[str, dict[PodKey, GatedPod]] = field(default_factory=dict)
    _refused: dict[PodKey, tuple[str, float]] = field(default_factory=dict)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Take in one change that the pod index has seen."""
        pod = new or old
        if pod is None:
            return
        key = (pod.metadata.namespace, pod.metadata.name)
        self.gated.update(new, key)
        held = self.gated.get(key)
        refused = self._refused.get(key)
        if refused is not None and (held is None or held.version != refused[0]):
            del self._refused[key]
        in_flight = self._in_flight.get(key[0])
        if in_flight is not None and key in in_flight and (held is None or held.uid != in_flight[key].uid):
            self._landed(key)

    def plan(self, levels: Mapping[str, GateLevel], left_alone: Iterable[str], pods: PodIndex, now: float) -> tuple[list[GatedPod], float]:
        """A round's choice, most urgent first, and when to look again at pods whose patch was refused (infinite: none).

        `levels`: of every namespace that a queue holds by gates. `left_alone`: namespaces where others decide.
        """
        self._levels = dict(levels)
        self._refused = {key: refused for key, refused in self._refused.items() if refused[1] > now}
        chosen = list[GatedPod]()
        for namespace in sorted(self.gated.namespaces() - set(left_alone), key=self.urgency):
            chosen += self._chosen(namespace, pods) if namespace in self._levels else self._waiting(namespace)
        return chosen, min((until for _, until in self._refused.values()), default=math.inf)

    def between_rounds(self, namespaces: Iterable[str], pods: PodIndex) -> list[GatedPod]:
        """Pods of these namespaces that the last round's levels let go already; none where it knew of no queue."""
        known = [namespace for namespace in namespaces if namespace in self._levels and namespace in self.gated.namespaces()]
        return [pod for namespace in sorted(known, key=self.urgency) for pod in self._chosen(namespace, pods)]

    def sent(self, pods: Iterable[GatedPod]) -> None:
        """These are on their way: they count as let go from now on."""
        for pod in pods:
            self._in_flight.setdefault(pod.key[0], {})[pod.key] = pod

    def failed(self, pod: GatedPod, now: float) -> None:
        """A patch was refused. The pod waits for its next change, or a moment, so that nobody asks without end."""
        self._landed(pod.key)
        self._refused[pod.key] = (pod.version, now + RETRY_SECONDS)

    def _chosen(self, namespace: str, pods: PodIndex) -> list[GatedPod]:
        waiting = list(self._waiting(namespace))
        if not waiting:  # asked at every event of a burst that is on its way: what flies need not be added up for nobody
            return []
        level, in_flight = self._levels[namespace].milli, self._in_flight.get(namespace, {})
        room = [whole - taken for whole, taken in zip(level, pods.released(namespace), strict=True)]
        for key in in_flight:
            room = [free - amount for free, amount in zip(room, pods.requests(key), strict=True)]
        slots = self._levels[namespace].slots
        if slots is None:
            return choose(waiting, level, room, pods.requests, self._group, pods.smallest(namespace))
        places = slots - pods.count_released(namespace) - len(in_flight)
        smallest = (*(pods.smallest(namespace) or (0,) * len(level)), 1)
        return choose(waiting, (*level, slots), [*room, places], lambda key: (*pods.requests(key), 1), self._group, smallest)

    def _waiting(self, namespace: str) -> Iterator[GatedPod]:
        in_flight = self._in_flight.get(namespace, {})
        return (pod for pod in self.gated.of(namespace) if pod.key not in in_flight and pod.key not in self._refused)

    def _group(self, pod: GatedPod) -> PodGroup | None:
        """The group that holds the pod back; one of which some members are let go already holds nobody."""
        if pod.group is None:
            return None
        group = self.gated.group(pod.group)
        return None if group.started or group.gated.keys() & self._in_flight.get(pod.key[0], {}).keys() else group

    def urgency(self, namespace: str) -> tuple[int, int, str]:
        """Whose pods go first: those of the queue with the least. Pods that nobody holds any more come last."""
        level = self._levels.get(namespace)
        return (*level.rank, namespace) if level is not None else (9, 0, namespace)

    def _landed(self, key: PodKey) -> None:
        in_flight = self._in_flight.get(key[0], {})
        in_flight.pop(key, None)
        if not in_flight:
            self._in_flight.pop(key[0], None)
