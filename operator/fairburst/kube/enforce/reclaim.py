"""Plan evictions for amounts that queues are owed. Pure, apart from the evictions in flight; `kube/evict.py` sends.

Quotas come first: while pods wait for an amount that their queue is owed, every queue above its level is held exactly to its level, and
only as many of its pods are evicted as its enforced quota does not admit again. `policy/reclaim` picks the victims.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

import numpy as np

from fairburst.kube.api.objects import Node, Pod, controller_of
from fairburst.kube.api.quota_objects import ResourceQuota
from fairburst.kube.enforce.division import holding
from fairburst.kube.enforce.ending import STUCK_SECONDS, asked_key, comes_free, freed, grace_to_give, own_grace, still_there
from fairburst.kube.enforce.evictable import evictable
from fairburst.kube.enforce.managed_namespace import ManagedNamespace
from fairburst.kube.enforce.quota_plan import QuotaKey, amounts
from fairburst.kube.times import from_epoch, to_epoch
from fairburst.kube.usage.capacity import NodeShapes
from fairburst.kube.usage.controller_index import ControllerIndex
from fairburst.kube.usage.gated_pods import PodKey, group_of
from fairburst.kube.usage.placement import Placement, has_rules_of_its_own
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.usage.pod_usage import RequestVector
from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.model import ClusterSnapshot, RoundResult
from fairburst.policy.reclaim.owed import owed
from fairburst.policy.reclaim.values import (
    Claim,
    Eviction,
    GiverState,
    Ground,
    Owed,
    ReclaimMemory,
    ReclaimRules,
    Request,
    RunningPod,
    WaitingPod,
)
from fairburst.policy.reclaim.victims import make_room, room_for_all
from fairburst.policy.tolerance import LARGEST, TOLERANCE, slack_of

ENFORCED_SECONDS = 0.05  # until the API server reports a quota of this round as enforced
LESS_THAN_A_POD = 0.999  # as in quota_plan.py, which delays smaller changes
REFUSED_SECONDS = 10.0  # a disruption budget that refuses one pod of a controller will refuse the others too
MOST_REFUSED = 16  # controllers of a namespace at a time: then budgets protect many there, and other namespaces' pods are asked first


@dataclass(frozen=True, slots=True)
class PodEviction:
    """One eviction to send.

    owner: uid of the pod's controller, or its own; a disruption budget's refusal concerns all pods of it. grace_seconds: the pod's time to
    end; None leaves it its own grace period. message: for the Events. controller: the pod's, as an Event names it; None without one.
    """

    key: PodKey
    uid: str
    owner: str
    waiting: str
    ground: Ground
    message: str
    grace_seconds: int | None = None
    controller: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ReclaimPlan:
    """The evictions of a round. `holding`: namespaces that are held exactly to their levels meanwhile. `due`: seconds until the next look,
    infinite if only events matter."""

    evictions: tuple[PodEviction, ...] = ()
    holding: frozenset[str] = frozenset()
    due: float = math.inf


@dataclass(frozen=True, slots=True)
class Cluster:
    """The parts of the cluster that reclaim reads. `nodes`: the pool's, in the order of `shapes`."""

    pods: Mapping[PodKey, Pod]
    index: PodIndex
    controllers: ControllerIndex
    quotas: Mapping[QuotaKey, ResourceQuota]
    nodes: Mapping[str, Node]
    shapes: NodeShapes

    def space(self, snapshot: ClusterSnapshot, row: int) -> str:
        """Return the space of a queue's work."""
        namespace, _, queue = snapshot.queues[row].name.partition("/")
        return self.index.spaces.of_queue(namespace, queue)


class _Bound(NamedTuple):
    """A pod on a node, by the node's position, that is not about to end by itself."""

    key: PodKey
    pod: Pod
    node: int
    request: Request


@dataclass(slots=True)
class Reclaimer:
    """Plans evictions and remembers them. `memory` survives a restart; evictions in flight and refusals do not need to."""

    rules: ReclaimRules
    memory: ReclaimMemory = field(default_factory=ReclaimMemory)
    _in_flight: dict[PodKey, str] = field(default_factory=dict)
    _refused: dict[tuple[str, str], float] = field(default_factory=dict)  # by namespace and controller

    def plan(
        self, cluster: Cluster, enforced: Iterable[ManagedNamespace], snapshot: ClusterSnapshot, result: RoundResult, reclaiming: BoolArray,
        wall: float, now: float,
    ) -> ReclaimPlan:  # fmt: skip
        """Return the evictions of one round. `reclaiming`: (N,) queues with `reclaim: Evict`. `wall`: since the epoch, `now`: monotonic."""
        if not reclaiming.any():
            self.memory = replace(self.memory, short_since={}, made_room=self.memory.recent(self.rules, wall))
            return ReclaimPlan()
        found, since, grace_ends = owed(snapshot, result, reclaiming, self.memory.short_since, self.rules, wall)
        self.memory = replace(self.memory, short_since=since, made_room=self.memory.recent(self.rules, wall))
        claims = self._claims(cluster, found, snapshot)
        if not any(claim.owed.evicts and claim.waiting for claim in claims):
            return ReclaimPlan(due=grace_ends - wall)
        over = [item for item in enforced if item.row is not None and _is_over(item.row, snapshot, result)]
        holding = frozenset(item.namespace for item in over)
        horizon = self._horizon(claims, wall)
        free, bound = self._nodes(cluster, horizon, wall, now)
        if room_for_all(claims, free):  # pods that are ending make enough room: search for no victims
            return ReclaimPlan(holding=holding, due=grace_ends - wall)
        giving = {item.namespace: item.row for item in over if item.row is not None}
        used = [(giving[space], one) for one in bound if not one.pod.unmanaged and (space := cluster.index.space_of(one.pod)) in giving]
        asked = [(row, one) for row, one in used if not self._ending(one.key, one.pod)]
        givers = _standing(snapshot, result, over, [(row, one.request) for row, one in used], cluster)
        for last in self._asked_last():
            running = [self._running(cluster, one, row, last) for row, one in asked]
            outcome, memory = make_room(claims, free, running, givers, self.memory, self.rules, wall)
            if outcome.evictions:
                break
        self.memory = memory
        keys = {pod.metadata.uid: key for key, pod in cluster.pods.items()} if outcome.evictions else {}
        why = {claim.owed.row: _why(claim.owed, snapshot, result, since) for claim in claims}
        longest = horizon - wall
        evictions = tuple(_eviction(one, keys[one.uid], cluster, why[one.row], longest) for one in outcome.evictions)
        self._note_asked(evictions, cluster, wall)
        return ReclaimPlan(
            evictions,
            holding,
            ENFORCED_SECONDS if outcome.unserved and givers.refilled.any() else min(outcome.next_boundary, grace_ends) - wall,
        )

    def freed(self, pods: Mapping[PodKey, Pod], index: PodIndex, nodes: Container[str], wall: float) -> dict[str, dict[str, float]]:
        """Return the requests of the pods on `nodes` that reclaim has evicted, by namespace and resource (`ending.freed`)."""
        kept = still_there(self.memory.asked, pods)
        if len(kept) < len(self.memory.asked):
            self.memory = replace(self.memory, asked=kept)
        return freed(kept, pods, index, nodes, wall)

    def _note_asked(self, evictions: Collection[PodEviction], cluster: Cluster, wall: float) -> None:
        given = {one.key: own_grace(cluster.pods[one.key]) if one.grace_seconds is None else one.grace_seconds for one in evictions}
        until = {asked_key(one.key, one.uid): wall + given[one.key] + STUCK_SECONDS for one in evictions}
        self.memory = replace(self.memory, asked={**self.memory.asked, **until})

    def sent(self, evictions: Collection[PodEviction]) -> None:
        """Note that these evictions are in flight: their pods count as gone until the API server refuses."""
        self._in_flight |= {one.key: one.uid for one in evictions}

    def refused(self, eviction: PodEviction, seconds: float, now: float) -> None:
        """Note a refused eviction: the pods of its controller are left alone for `seconds`, ten at least. Others may be evicted."""
        which = eviction.key[0], eviction.owner
        self._refused[which] = max(self._refused.get(which, -math.inf), now + max(seconds, REFUSED_SECONDS))
        self.not_done([eviction])

    def not_done(self, evictions: Collection[PodEviction]) -> None:
        """Drop evictions that were not sent: the pods that waited for them count as waiting again."""
        for one in evictions:
            self._in_flight.pop(one.key, None)
        dropped, stays = {one.waiting for one in evictions}, {asked_key(one.key, one.uid) for one in evictions}
        self.memory = replace(
            self.memory,
            made_room={uid: at for uid, at in self.memory.made_room.items() if uid not in dropped},
            asked={key: until for key, until in self.memory.asked.items() if key not in stays},
        )

    def _claims(self, cluster: Cluster, found: Sequence[Owed], snapshot: ClusterSnapshot) -> list[Claim]:
        """Return the owed amounts, each with the pods that wait for it and that the scheduler may place on known nodes, oldest first."""
        placement = Placement(cluster.nodes.values())
        by_namespace: dict[str, list[tuple[str, str, WaitingPod]]] = {cluster.space(snapshot, one.row): [] for one in found}
        for key, pod in cluster.pods.items() if by_namespace else ():
            space = cluster.index.space_of(pod)
            if space in by_namespace and _waits(pod) and not has_rules_of_its_own(pod):
                one = WaitingPod(pod.metadata.uid, _request(cluster, key), placement.nodes_for(pod))
                by_namespace[space].append((pod.metadata.creation_timestamp or "", key[1], one))
        for waiting in by_namespace.values():
            waiting.sort(key=lambda entry: entry[:2])
        return [Claim(one, tuple(pod for _, _, pod in by_namespace[cluster.space(snapshot, one.row)])) for one in found]

    def _horizon(self, claims: Sequence[Claim], wall: float) -> float:
        """Return when room is needed (seconds since the epoch): by the waiting bursts' earliest deadline, or after the longest grace."""
        deadlines = [claim.owed.deadline for claim in claims if claim.owed.evicts and claim.waiting]
        return min(wall + self.rules.longest_grace_seconds, *deadlines)

    def _nodes(self, cluster: Cluster, horizon: float, wall: float, now: float) -> tuple[FloatArray, list[_Bound]]:
        """Return (M, K + 1) amounts that are free or come free on each node, and the pods that use the rest."""
        self._in_flight = {key: uid for key, uid in self._in_flight.items() if _is_there(cluster.pods.get(key), uid)}
        self._refused = {which: until for which, until in self._refused.items() if now < until}
        free = np.column_stack([cluster.shapes.offers, cluster.shapes.pods])
        position = {name: row for row, name in enumerate(cluster.nodes)}
        bound = [
            _Bound(key, pod, node, _request(cluster, key))
            for key, pod in cluster.pods.items()
            if (node := position.get(pod.spec.node_name)) is not None and pod.bound and not self._comes_free(key, pod, horizon, wall)
        ]
        if bound:
            np.subtract.at(free, [one.node for one in bound], [one.request for one in bound])
        return free, bound

    def _comes_free(self, key: PodKey, pod: Pod, horizon: float, wall: float) -> bool:
        """Return whether the pod leaves its room by the horizon: its eviction is in flight, or it is ending and not stuck."""
        asked_until = self.memory.asked.get(asked_key(key, pod.metadata.uid))
        return comes_free(pod, asked_until, horizon, wall) or self._in_flight.get(key) == pod.metadata.uid

    def _ending(self, key: PodKey, pod: Pod) -> bool:
        """Return whether an eviction would change nothing: reclaim has evicted the pod already. A pod that others delete can be hurried."""
        return pod.metadata.deletion_timestamp is not None and asked_key(key, pod.metadata.uid) in self.memory.asked

    def _asked_last(self) -> tuple[frozenset[str], ...]:
        """Return the namespaces to leave out of a choice, and of the next one if that evicts nothing."""
        counts = Counter(namespace for namespace, _ in self._refused)
        many = frozenset(namespace for namespace, count in counts.items() if count >= MOST_REFUSED)
        return (many, frozenset()) if many else (many,)

    def _running(self, cluster: Cluster, one: _Bound, row: int, last: frozenset[str]) -> RunningPod:
        pod, where = one.pod, one.key[0]
        group, _ = group_of(pod, cluster.index.space_of(pod))
        owner = controller_of(pod.metadata)
        job = cluster.controllers.job(pod.metadata.namespace, owner.name) if owner is not None else None
        may_go = where not in last and evictable(pod, job) and (where, _owner_uid(pod)) not in self._refused
        return RunningPod(pod.metadata.uid, row, one.node, one.request, _started(pod), "/".join(group or ()), may_go)


def _is_over(row: int, snapshot: ClusterSnapshot, result: RoundResult) -> bool:
    """Return whether the queue uses more than its fair share or its level."""
    over = snapshot.usage[row] - np.minimum(result.guaranteed[row], result.level[row])
    return bool((over > slack_of(snapshot.live_capacity)).any())


def _refilled(item: ManagedNamespace, cluster: Cluster) -> FloatArray:
    """Return (K,) amounts that the namespace's quotas still admit, if that is a pod or more above its level; else zeros."""
    resources = cluster.index.resources
    if item.mode.unlimited:
        return np.zeros(len(resources))
    hard = [amounts(quota.status.hard) for quota in holding(cluster.quotas, item.quota_keys)] or [{}]
    enforced = np.array([sum(each.get(resource, LARGEST) for each in hard) for resource in resources])
    unit = np.array([item.unit.get(resource, 0.0) for resource in resources])
    behind = enforced - item.level > LESS_THAN_A_POD * unit + TOLERANCE * np.maximum(item.level, 1.0)
    return enforced if behind.any() else np.zeros(len(resources))


def _standing(
    snapshot: ClusterSnapshot, result: RoundResult, over: Sequence[ManagedNamespace], bound: Sequence[tuple[int, Request]], cluster: Cluster
) -> GiverState:
    """Return the queues as givers.

    `bound`: row and request of each pod that does not come free. The round's usage would also count pods whose eviction is in flight.
    """
    weight, use, refilled = (
        np.array([spec.weight for spec in snapshot.queues]),
        np.zeros_like(snapshot.usage),
        np.zeros_like(snapshot.usage),
    )
    for row, request in bound:
        use[row] += request[:-1]
    for item in over:
        refilled[item.row] = _refilled(item, cluster)
    return GiverState(use, result.level, result.guaranteed, refilled, weight, snapshot.live_capacity)


def _waits(pod: Pod) -> bool:
    return not (pod.ended or pod.bound or pod.gated or pod.unmanaged) and pod.metadata.deletion_timestamp is None


def _is_there(pod: Pod | None, uid: str) -> bool:
    return pod is not None and pod.metadata.uid == uid and pod.metadata.deletion_timestamp is None


def _request(cluster: Cluster, key: PodKey) -> Request:
    return _with_place(cluster.index.requests(key))


@functools.lru_cache(maxsize=4096)
def _with_place(shape: RequestVector) -> Request:
    """Return the requests in resource units, followed by the pod's place on its node."""
    return (*(amount / 1000 for amount in shape), 1.0)


def _owner_uid(pod: Pod) -> str:
    owner = controller_of(pod.metadata)
    return pod.metadata.uid if owner is None else owner.uid


def _started(pod: Pod) -> float:
    """Return when the pod was bound, as far as is known: its eviction loses the work since then."""
    text = pod.status.start_time or pod.metadata.creation_timestamp
    return _seconds(text) if text else 0.0


@functools.lru_cache(maxsize=65536)
def _seconds(text: str) -> float:
    return to_epoch(datetime.fromisoformat(text))


def _why(one: Owed, snapshot: ClusterSnapshot, result: RoundResult, since: Mapping[str, float]) -> str:
    """Return the reason that ends the sentence for the victim's owner. It names no other queue and no size of one."""
    resource = snapshot.resources[int(np.argmax(one.amount / np.maximum(snapshot.live_capacity, 1e-9)))]
    if one.ground is Ground.FAIR_SHARE:
        return f"the fair share of another queue, which has been owed {resource} since {_time(since[snapshot.queues[one.row].name])}"
    window = result.windows[one.row]
    opened = window.opened if window is not None and window.opened is not None else result.now
    return f"a burst of another queue that came at {_time(opened)} and is owed {resource}"


def _time(seconds: float) -> str:
    return from_epoch(seconds).isoformat(timespec="seconds").replace("+00:00", "Z")


def _eviction(one: Eviction, key: PodKey, cluster: Cluster, why: str, longest_grace: float) -> PodEviction:
    pod, above = cluster.pods[key], "its level" if one.spare else "its fair share"
    message = f"Evicted for {why}. Its own queue uses more than {above}."
    grace, owner = grace_to_give(pod, longest_grace), controller_of(pod.metadata)
    involved = None if owner is None else {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    return PodEviction(key, one.uid, _owner_uid(pod), one.waiting, one.ground, message, grace, involved)
