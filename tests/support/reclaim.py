"""The choice of victims, the slow and obvious way: every node and every queue is examined for every pod, without memory. And a small
cluster in virtual time on which work is evicted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.decide import decide
from fairburst.policy.model import Memory, PolicyConfig, QueueKind, QueueSpec
from fairburst.policy.reclaim.owed import owed
from fairburst.policy.reclaim.values import Claim, Eviction, GiverState, Ground, Owed, ReclaimMemory, ReclaimRules, RunningPod, WaitingPod
from fairburst.policy.reclaim.victims import make_room
from tests.support.policy import snapshot

NOW = 1_000_000.0
LARGE_RATE = ReclaimRules(evictions_per_second=1e6)


def running(uid: str, row: int, node: int, cpu: float = 1.0, age: float = 600.0, *, group: str = "", may_go: bool = True) -> RunningPod:
    """A pod of so many cpu that has run for `age` seconds."""
    return RunningPod(uid, row, node, (cpu, 1.0), NOW - age, group, may_go)


def waiting(count: int, cpu: float = 1.0, prefix: str = "w", nodes: list[bool] | None = None) -> tuple[WaitingPod, ...]:
    where = None if nodes is None else np.array(nodes)
    return tuple(WaitingPod(f"{prefix}{number}", (cpu, 1.0), where) for number in range(count))


def claim(
    amount: float, pods: tuple[WaitingPod, ...], ground: Ground = Ground.BURST, row: int = 0, *, evicts: bool = True
) -> Claim:  # fmt: skip
    return Claim(Owed(row, ground, np.array([amount]), evicts), pods)


def givers(
    pods: Iterable[RunningPod],
    level: Sequence[float],
    fair: Sequence[float],
    capacity: float,
    weight: Sequence[float] | None = None,
    refilled: Sequence[float] | None = None,
) -> GiverState:
    """Queues that use what their pods request of one resource."""
    use = np.zeros((len(level), 1))
    for pod in pods:
        use[pod.row, 0] += pod.request[0]
    weights = np.ones(len(level)) if weight is None else np.array(weight)
    again = np.zeros(len(level)) if refilled is None else np.array(refilled)
    return GiverState(use, np.array(level)[:, None], np.array(fair)[:, None], again[:, None], weights, np.array([capacity]))


def obvious(
    claims: Sequence[Claim], free: FloatArray, pods: Sequence[RunningPod], giving: GiverState, memory: ReclaimMemory, rules: ReclaimRules
) -> list[Eviction]:
    """One resource and places; a rate that limits nothing."""
    free, left, use, chosen = free.copy(), list(pods), giving.use[:, 0].copy(), list[Eviction]()
    for one in claims:
        amount = float(one.owed.amount[0])
        for pod in one.waiting:
            if pod.request[0] > amount + 1e-6:
                continue
            amount -= pod.request[0]
            nodes = [node for node in range(len(free)) if pod.nodes is None or pod.nodes[node]]
            fitting = [node for node in nodes if (free[node] >= np.array(pod.request) - 1e-6).all()]
            if fitting:
                free[fitting[0]] -= pod.request
                continue
            if not one.owed.evicts or memory.made_room.get(pod.uid, -math.inf) + rules.minimum_run_seconds > NOW:
                continue
            found = _first(pod, one.owed.ground, nodes, free, left, use, giving, rules)
            if found is None:
                continue
            node, gone, spare = found
            for work in gone:
                lost = sum(each.request[0] / giving.capacity[0] * (NOW - each.started) for each in work) / len(work)
                for each in work:
                    left.remove(each)
                    free[each.node] += each.request
                    use[each.row] -= each.request[0]
                    chosen.append(Eviction(each.uid, one.owed.row, one.owed.ground, pod.uid, spare, lost))
            free[node] -= pod.request
    return chosen


def _first(
    pod: WaitingPod, ground: Ground, nodes: list[int], free: FloatArray, left: list[RunningPod], use: FloatArray, giving: GiverState,
    rules: ReclaimRules,
) -> tuple[int, list[list[RunningPod]], bool] | None:  # fmt: skip
    works = _works(left, rules)
    capacity, weight = giving.capacity[0], giving.weight
    above = {row: (use[row] - giving.fair[row, 0]) / capacity / weight[row] for row in {pod.row for work in works for pod in work}}
    rows = sorted((row for row in above if above[row] > 1e-9), key=lambda row: (-above[row], row))
    for spare in (True,) if ground is Ground.FAIR_SHARE else (True, False):
        for some in [*([row] for row in rows), rows]:
            offers = []
            for node in nodes:
                gone = _cleared(node, [work for work in works if work[0].row in some], free[node], pod)
                if gone and _can_spare(gone, use, giving, spare=spare):
                    offers.append((sum(_lost(work) for work in gone), node, gone))
            if offers:
                _, node, gone = min(offers, key=lambda offer: (offer[0], offer[1]))
                return node, gone, spare
    return None


def _works(left: list[RunningPod], rules: ReclaimRules) -> list[list[RunningPod]]:
    """Groups of pods that are evicted together and may all be evicted, least lost first."""
    together: dict[str, list[RunningPod]] = {}
    for pod in left:
        together.setdefault(pod.group or pod.uid, []).append(pod)
    ripe = [work for work in together.values() if all(one.may_go and NOW - one.started >= rules.minimum_run_seconds for one in work)]
    return sorted(ripe, key=lambda work: (_lost(work), work[0].uid))


def _lost(work: list[RunningPod]) -> float:
    return sum(pod.request[0] * (NOW - pod.started) for pod in work)


def _cleared(node: int, works: list[list[RunningPod]], free: FloatArray, pod: WaitingPod) -> list[list[RunningPod]]:
    """The first of the works until the pod fits, without those that need not end for it, most lost first."""

    def fits(gone: list[list[RunningPod]]) -> bool:
        room = free + sum((np.array(one.request) for work in gone for one in work if one.node == node), np.zeros(2))
        return bool((room >= np.array(pod.request) - 1e-6).all())

    gone: list[list[RunningPod]] = []
    for work in works:
        if not fits(gone) and any(one.node == node for one in work):
            gone.append(work)
    if not fits(gone):
        return []
    for work in sorted(gone, key=lambda work: (-_lost(work), work[0].uid)):
        without = [other for other in gone if other is not work]
        gone = without if fits(without) else gone
    return gone


def _can_spare(gone: list[list[RunningPod]], use: FloatArray, giving: GiverState, *, spare: bool) -> bool:
    for row in {work[0].row for work in gone}:
        least = max(giving.fair[row, 0], giving.refilled[row, 0], giving.level[row, 0] if spare else 0.0)
        if use[row] - sum(one.request[0] for work in gone for one in work if one.row == row) < least - 1e-6:
            return False
    return True


@dataclass
class VirtualPod:
    """A pod of one cpu. `work`: whose turn at it this is. `node` None: it waits. `leaves`: when it is gone once it has been evicted."""

    uid: str
    queue: str
    work: str
    node: int | None = None
    started: float = math.nan
    leaves: float | None = None


@dataclass
class VirtualCluster:
    """Nodes of one resource, rounds a second apart. Throughput queues always want more, up to their level. An evicted pod is gone
    after `grace` seconds and begins again. Pods of latency queues are placed first, as their priority says.

    `evictions`: (time, work, whose pod it was for). `owed_pods`: uids of pods that were ever owed room.
    """

    queues: tuple[QueueSpec, ...]
    nodes: int
    per_node: int
    grace: float = 0.0
    rules: ReclaimRules = LARGE_RATE
    now: float = NOW
    pods: list[VirtualPod] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)
    reclaiming: ReclaimMemory = field(default_factory=ReclaimMemory)
    evictions: list[tuple[float, str, str]] = field(default_factory=list)
    owed_pods: set[str] = field(default_factory=set)
    made: int = 0

    def arrive(self, queue: str, count: int) -> None:
        for _ in range(count):
            self._make(queue)

    def leave(self, queue: str) -> None:
        """All work of a queue ends."""
        self.pods = [pod for pod in self.pods if pod.queue != queue]

    def step(self) -> None:
        """A second goes by: what was evicted leaves, rounds decide, work goes, what has room starts."""
        self.now += 1.0
        self.pods = [pod for pod in self.pods if pod.leaves is None or pod.leaves > self.now]
        self._place()
        level = self._round()
        for row, spec in enumerate(self.queues):
            if spec.kind is QueueKind.THROUGHPUT:
                alive = [pod for pod in self.pods if pod.queue == spec.name and pod.leaves is None]
                self.arrive(spec.name, max(0, int(level[row, 0]) - len(alive)))
        self._place()

    def free(self) -> FloatArray:
        taken = np.zeros((self.nodes, 2))
        for pod in self.pods:
            if pod.node is not None:
                taken[pod.node] += 1.0
        return self.per_node - taken

    def _make(self, queue: str) -> None:
        self.made += 1
        self.pods.append(VirtualPod(f"{queue}-{self.made}", queue, f"{queue}-{self.made}"))

    def _place(self) -> None:
        kind = {spec.name: spec.kind for spec in self.queues}
        free = self.free()
        for pod in sorted((pod for pod in self.pods if pod.node is None), key=lambda pod: kind[pod.queue] is not QueueKind.LATENCY):
            fitting = np.flatnonzero(free[:, 0] >= 1)
            if fitting.size:
                pod.node, pod.started = int(fitting[0]), self.now
                free[pod.node] -= 1

    def _round(self) -> FloatArray:
        row_of = {spec.name: row for row, spec in enumerate(self.queues)}
        usage, demand = np.zeros((len(self.queues), 1)), np.zeros((len(self.queues), 1))
        total = float(self.nodes * self.per_node)
        for pod in self.pods:
            demand[row_of[pod.queue]] += 1
            usage[row_of[pod.queue]] += pod.node is not None and pod.leaves is None
        for row, spec in enumerate(self.queues):
            if spec.kind is QueueKind.THROUGHPUT:
                demand[row] = total
        given = snapshot(self.queues, [total], demand, usage, np.ones_like(usage))
        result, self.memory = decide(given, self.memory, PolicyConfig(), self.now)
        evicts = np.ones(len(self.queues), dtype=bool)
        found, since, _ = owed(given, result, evicts, self.reclaiming.short_since, self.rules, self.now)
        self.reclaiming = replace(self.reclaiming, short_since=since)
        self._reclaim([Claim(one, self._waiting(self.queues[one.row].name)) for one in found], result.level, result.guaranteed, usage)
        return result.level

    def _waiting(self, queue: str) -> tuple[WaitingPod, ...]:
        return tuple(WaitingPod(pod.uid, (1.0, 1.0)) for pod in self.pods if pod.queue == queue and pod.node is None)

    def _reclaim(self, claims: list[Claim], level: FloatArray, fair: FloatArray, usage: FloatArray) -> None:
        rows = {spec.name: row for row, spec in enumerate(self.queues)}
        there = [
            RunningPod(pod.uid, rows[pod.queue], pod.node, (1.0, 1.0), pod.started)
            for pod in self.pods
            if pod.node is not None and pod.leaves is None
        ]
        free = self.free()
        for pod in self.pods:
            if pod.node is not None and pod.leaves is not None:
                free[pod.node] += 1.0
        weight, capacity = np.array([spec.weight for spec in self.queues]), np.array([float(self.nodes * self.per_node)])
        giving = GiverState(usage, level, fair, np.zeros_like(usage), weight, capacity)
        outcome, self.reclaiming = make_room(claims, free, there, giving, self.reclaiming, self.rules, self.now)
        for one in claims:
            self.owed_pods |= {pod.uid for pod in one.waiting[: int(one.owed.amount[0])]}
        by_uid = {pod.uid: pod for pod in self.pods}
        for gone in outcome.evictions:
            pod = by_uid[gone.uid]
            assert self.now - pod.started >= self.rules.minimum_run_seconds
            pod.leaves = self.now + self.grace
            self.evictions.append((self.now, pod.work, gone.waiting))
