"""Choose the pods to release from our scheduling gate. Pure, apart from the patches in flight; `kube/ungate.py` sends.

A queue in Gate mode has its level in whole pods. The requests of its released pods count against it, and the first waiting pods get the
rest: those of the first step of priority, of these the oldest. Where the level is not used because starts take their time, some more are
released early (`slack.py`). In a space that has left Gate mode all pods are released. The quota of a queue in Gate mode has no limits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairburst.kube.api.objects import Pod
from fairburst.kube.enforce.fifo_admission import admit_in_order
from fairburst.kube.names import GATE
from fairburst.kube.queues.spaces import namespace_of
from fairburst.kube.usage.gated_pods import GatedPod, GatedPods, GroupKey, PodGroup, PodKey
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.usage.pod_usage import RequestVector

RETRY_SECONDS = 1.0
MILLI_TOLERANCE = 1e-3  # thousandths of a unit: a level of 2.9999999 cpu is three pods


@dataclass(frozen=True, slots=True)
class GateLevel:
    """The amounts that a queue's pods may take. `rank`: hard queues in their windows, soft ones in theirs, the rest; then queue order.

    `milli`: thousandths of a unit by resource, in the pod index's order. `slots`: how many pods; None: any number. `early`: thousandths
    above the level, of pods that wait in the scheduler's queue for the ends of others.
    """

    rank: tuple[int, int]
    milli: tuple[int, ...]
    slots: int | None = None
    early: tuple[int, ...] = ()

    @property
    def most(self) -> list[int]:
        """Return what released pods may request in all."""
        return [whole + more for whole, more in itertools.zip_longest(self.milli, self.early, fillvalue=0)]


def milli_level(level: Iterable[float]) -> tuple[int, ...]:
    """Return a level in resource units as whole thousandths."""
    return tuple(math.floor(amount * 1000 + MILLI_TOLERANCE) for amount in level)


def ungate_patch(pod: GatedPod) -> list[dict[str, Any]]:
    """Return the JSON patch that removes our gate alone. It fails if the pod has been replaced or its gates have moved."""
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
    may_go: Callable[[GatedPod], bool] = lambda _: True,
) -> list[GatedPod]:
    """Return the pods that fit into `room`, in FIFO order (`fifo_admission.py`).

    `level`, `room` and `smallest` (no pod takes less): thousandths of a unit by resource. `group`: the group of a pod, or None. A group is
    released whole, once it is complete and fits. `may_go`: whether a pod may go at all; others are passed over.
    """
    return [pod for unit in admit_in_order(_units(waiting, requests, group, may_go), level, room, smallest) for pod in unit]


def _units(
    waiting: Iterable[GatedPod],
    requests: Callable[[PodKey], RequestVector],
    group: Callable[[GatedPod], PodGroup | None],
    may_go: Callable[[GatedPod], bool],
) -> Iterator[tuple[list[GatedPod], list[int]]]:
    """Yield the pods that are released together, and their requests: a group once it is complete, in the place of its first pod."""
    seen = set[GroupKey]()
    for pod in waiting:
        members, together = group(pod), [pod]
        if members is not None and pod.group is not None:
            if pod.group in seen or not members.complete:
                continue
            seen.add(pod.group)
            together = list(members.gated.values())
        if not all(map(may_go, together)):
            continue
        yield together, [sum(column) for column in zip(*(requests(each.key) for each in together), strict=True)]


@dataclass(slots=True)
class UngatePlanner:
    """Keeps the gated pods, each queue's level, and the patches in flight.

    Between rounds the levels of the last round hold: a hard queue's burst has its whole rate from the moment it is armed, so its pods
    are released on their own events, without a round in between. `fits`: whether some node could hold a pod, by its requests. `lacking`:
    the first of some uncounted resources that no node offers.
    """

    fits: Callable[[RequestVector], bool] = lambda _: True
    lacking: Callable[[tuple[str, ...]], str] = lambda _: ""
    gated: GatedPods = field(default_factory=GatedPods)
    _levels: dict[str, GateLevel] = field(default_factory=dict)
    _in_flight: dict[str, dict[PodKey, GatedPod]] = field(default_factory=dict)
    _refused: dict[PodKey, tuple[str, float]] = field(default_factory=dict)
    _arrived: set[PodKey] = field(default_factory=set)  # since `next_has_arrived` was asked

    def pod_changed(self, old: Pod | None, new: Pod | None, now: float = -math.inf) -> None:
        """Apply one change of a pod that the pod index has seen. `now`: monotonic time of its event, if there was one."""
        pod = new or old
        if pod is None:
            return
        key = (pod.metadata.namespace, pod.metadata.name)
        self.gated.update(new, key, now)
        held = self.gated.get(key)
        if old is None and held is not None:
            self._arrived.add(key)
        refused = self._refused.get(key)
        if refused is not None and (held is None or held.version != refused[0]):
            del self._refused[key]
        in_flight = self._in_flight.get(key[0])
        if in_flight is not None and key in in_flight and (held is None or held.uid != in_flight[key].uid):
            self._landed(key)

    def plan(self, levels: Mapping[str, GateLevel], left_alone: Iterable[str], pods: PodIndex, now: float) -> tuple[list[GatedPod], float]:
        """Return the pods to release in a round, most urgent first, and when to retry refused patches (infinite: none).

        `levels`: of every space that a queue holds by gates. `left_alone`: namespaces where others decide.
        """
        self._levels = dict(levels)
        self._refused = {key: refused for key, refused in self._refused.items() if refused[1] > now}
        chosen, others = list[GatedPod](), set(left_alone)
        for space in sorted((one for one in self.gated.waiting() if namespace_of(one) not in others), key=self.urgency):
            chosen += self._chosen(space, pods) if space in self._levels else self._waiting(space)
        return chosen, min((until for _, until in self._refused.values()), default=math.inf)

    def between_rounds(self, namespaces: Iterable[str], pods: PodIndex) -> list[GatedPod]:
        """Return the pods of these namespaces that the last round's levels permit; none in a namespace unknown to that round."""
        spaces, waiting = self.gated.spaces.whole(set(namespaces)), self.gated.waiting()
        known = [space for space in spaces if space in self._levels and space in waiting]
        return [pod for space in sorted(known, key=self.urgency) for pod in self._chosen(space, pods)]

    def next_has_arrived(self) -> bool:
        """Return whether a pod that has arrived since the last call is the next of its space to be released: it waits for a decision. One
        behind others waits for room, which no decision on it makes."""
        arrived, self._arrived = self._arrived, set()
        spaces = {held.space for key in arrived if (held := self.gated.get(key)) is not None}
        firsts = (next(self._waiting(space), None) for space in spaces)
        return any(first is not None and first.key in arrived for first in firsts)

    def sent(self, pods: Iterable[GatedPod]) -> None:
        """Note that the patches of these pods are in flight: they count as released from now on."""
        for pod in pods:
            self._in_flight.setdefault(pod.key[0], {})[pod.key] = pod

    def failed(self, pod: GatedPod, now: float) -> None:
        """Note a refused patch. The pod waits for its next change, or a moment, to avoid retrying forever."""
        self._landed(pod.key)
        self._refused[pod.key] = (pod.version, now + RETRY_SECONDS)

    def _chosen(self, space: str, pods: PodIndex) -> list[GatedPod]:
        waiting = self._waiting(space)  # of very many pods, few are looked at where there is no room
        first = next(waiting, None)
        if first is None:  # runs at every event of a burst: skip the in-flight sum when nothing waits
            return []
        waiting = itertools.chain([first], waiting)
        level, in_flight = self._levels[space].milli, self._in_flight_of(space)
        room = [whole - taken for whole, taken in zip(self._levels[space].most, pods.released(space), strict=True)]
        for key in in_flight:
            room = [free - amount for free, amount in zip(room, pods.requests(key), strict=True)]
        slots = self._levels[space].slots

        def may_go(pod: GatedPod) -> bool:  # some node could hold it, and it is released for something
            return not pods.lacks_requests(pod.key) and self.fits(pods.requests(pod.key)) and not self.lacking(pods.uncounted(pod.key))

        if slots is None:
            return choose(waiting, level, room, pods.requests, self._group, pods.smallest(space), may_go)
        places = slots - pods.count_released(space) - len(in_flight)
        smallest = (*(pods.smallest(space) or (0,) * len(level)), 1)
        return choose(waiting, (*level, slots), [*room, places], lambda key: (*pods.requests(key), 1), self._group, smallest, may_go)

    def _in_flight_of(self, space: str) -> list[PodKey]:
        return [key for key, pod in self._in_flight.get(namespace_of(space), {}).items() if pod.space == space]

    def _waiting(self, space: str) -> Iterator[GatedPod]:
        in_flight = self._in_flight.get(namespace_of(space), {})
        return (pod for pod in self.gated.of(space) if pod.key not in in_flight and pod.key not in self._refused)

    def _group(self, pod: GatedPod) -> PodGroup | None:
        """Return the group that holds the pod back; None once some of the group's pods have been released."""
        if pod.group is None:
            return None
        group = self.gated.group(pod.group)
        return None if group.started or group.gated.keys() & self._in_flight.get(pod.key[0], {}).keys() else group

    def urgency(self, space: str) -> tuple[int, int, str]:
        """Return the rank of a space: lower ones are released first. Spaces that have left Gate mode come last."""
        level = self._levels.get(space)
        return (*level.rank, space) if level is not None else (9, 0, space)

    def _landed(self, key: PodKey) -> None:
        in_flight = self._in_flight.get(key[0], {})
        in_flight.pop(key, None)
        if not in_flight:
            self._in_flight.pop(key[0], None)
