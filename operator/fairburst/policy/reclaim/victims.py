"""Choice of the pods to evict for pods that are owed room. Design §6: "spare work first, then queues furthest above their share, least work
lost within a queue, on nodes where the owed pods will fit, never twice within a minimum run time".

Room that becomes free by itself is counted first. Then each owed pod gets the evictions that free its whole request on one node. No queue
falls below its fair share. No pod is evicted that has not run for the minimum run time, or whose place would be filled again. No more pods
are evicted than the owed pod needs in addition to its node's free room. kube/ sends the evictions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.drf import inverse_capacity
from fairburst.policy.reclaim.values import (
    Claim,
    Eviction,
    GiverState,
    Ground,
    Owed,
    Reclaim,
    ReclaimMemory,
    ReclaimRules,
    Request,
    RunningPod,
    WaitingPod,
)
from fairburst.policy.tolerance import TOLERANCE


def make_room(
    claims: Sequence[Claim], free: FloatArray, running: Sequence[RunningPod], givers: GiverState, memory: ReclaimMemory,
    rules: ReclaimRules, now: float,
) -> tuple[Reclaim, ReclaimMemory]:  # fmt: skip
    """Choose the pods to evict in this round.

    Parameters
    ----------
    claims : owed amounts and the pods that wait for them, most urgent first
    free : (M, K + 1) resource units and pods, free on each node now or soon: terminating pods count as gone
    running : pods that might be evicted
    givers : the queues as givers
    memory : result of the last call
    rules : settings
    now : seconds since the epoch

    Returns
    -------
    The evictions in sending order, and the memory for the next round.

    Notes
    -----
    For a burst, queues first give their use above their level, and then their use above their fair share, because the burst's pods
    have a higher priority. For a fair share, they give only their use above their level: below it they would start the same work
    again at the same priority. O(owed pods x nodes log nodes) for pods of few sizes. tests/properties/test_reclaim.py checks this.
    """
    budget = _Budget.at(memory, rules, now)
    search = _Search(free, running, givers, now, rules.minimum_run_seconds)
    made = memory.recent(rules, now)
    chosen, unserved = list[Eviction](), 0
    for claim in claims:
        for pod in _within(claim):
            if search.place(pod):
                continue
            offer = search.cheapest(pod, claim.owed.ground) if claim.owed.evicts and pod.uid not in made and not budget.spent else None
            if offer is None or not budget.take(offer.count):
                unserved += 1
                continue
            chosen += search.evict(offer, pod, claim.owed)
            made[pod.uid] = now
    memory = replace(memory, made_room=made, allowance=budget.left, allowance_as_of=now)
    return Reclaim(tuple(chosen), unserved, min(budget.wake, search.next_ripe) if unserved else math.inf), memory


def room_for_all(claims: Sequence[Claim], free: FloatArray) -> bool:
    """Return whether all owed pods find room that is free or becomes free, so that no eviction is needed.

    claims, free: as in `make_room`, which then evicts nothing. Pods are placed as there, but equal pods together. O(pods + runs of equal
    pods x nodes).
    """
    left = free.copy()
    for claim in claims:
        for _, run in groupby(_within(claim), key=lambda pod: (pod.request, id(pod.nodes))):
            alike = list(run)
            if not _all_placed(alike[0], len(alike), left):
                return False
    return True


def _all_placed(pod: WaitingPod, count: int, free: FloatArray) -> bool:
    """Place `count` equal pods on the first nodes with room and subtract them from `free`; return False if there is not enough room."""
    request = np.array(pod.request)
    asked = request > 0
    holds = np.floor(((free + TOLERANCE * np.maximum(request, 1.0))[:, asked] / request[asked]).min(axis=1)).clip(0.0, count)
    if pod.nodes is not None:
        holds *= pod.nodes
    taken = np.clip(count - (np.cumsum(holds) - holds), 0.0, holds)
    free -= taken[:, None] * request
    return bool(taken.sum() >= count)


def _within(claim: Claim) -> Iterator[WaitingPod]:
    """Yield the pods that the owed amount covers, in order. A pod larger than the remaining amount is skipped."""
    left = claim.owed.amount * (1.0 + TOLERANCE)
    for pod in claim.waiting:
        request = np.array(pod.request[:-1])
        if (request <= left).all():
            left = left - request
            yield pod


@dataclass(slots=True)
class _Budget:
    """Evictions that the rate still allows now.

    rate: evictions a second, and the most at once. A group larger than that may go into debt. wake: time at which a refused request may
    succeed.
    """

    rate: float
    left: float
    now: float
    spent: bool = False
    wake: float = math.inf

    @classmethod
    def at(cls, memory: ReclaimMemory, rules: ReclaimRules, now: float) -> _Budget:
        rate = rules.evictions_per_second
        return cls(rate, min(_most(rate), memory.allowance + rate * max(now - memory.allowance_as_of, 0.0)), now)

    def take(self, count: int) -> bool:
        """Spend `count` evictions if so many are left; return whether they are. After a refusal the budget is spent for this round."""
        if count <= self.left or self.left >= _most(self.rate):
            self.left -= count
            return True
        self.spent, self.wake = True, self.now + (min(count, _most(self.rate)) - self.left) / self.rate
        return False


def _most(rate: float) -> float:
    return max(rate, 1.0)


@dataclass(slots=True, eq=False)
class _Work:
    """Pods that are evicted together: one pod, or a group on any nodes. by_node: (K + 1,) freed on each node. total: (K,)."""

    row: int
    pods: list[str]
    by_node: dict[int, FloatArray]
    total: FloatArray
    lost: float


@dataclass(frozen=True, slots=True, eq=False)
class _Offer:
    """Work whose eviction makes room for one pod on `node`. spare: whether its queues keep their levels."""

    node: int
    works: tuple[_Work, ...]
    lost: float
    spare: bool = True

    @property
    def count(self) -> int:
        return sum(len(work.pods) for work in self.works)


class _Givers:
    """The giving queues' use, less the evictions so far. Shares are dominant shares of capacity."""

    def __init__(self, givers: GiverState) -> None:
        self._use, self._weight = givers.use.copy(), givers.weight
        self._inverse = inverse_capacity(givers.capacity)
        self._fair = (givers.fair * self._inverse).max(axis=1)
        refilled = (givers.refilled * self._inverse).max(axis=1)
        self._least = np.maximum(self._fair, refilled)
        self._level = np.maximum((givers.level * self._inverse).max(axis=1), self._least)

    def share(self, amount: FloatArray) -> float:
        """Return the dominant share of an amount: max_k amount_k / C_k."""
        return float((amount * self._inverse).max())

    def above(self, row: int) -> float:
        """Return the queue's use above its fair share, per weight."""
        return (self.share(self._use[row]) - float(self._fair[row])) / float(self._weight[row])

    def can_spare(self, works: Sequence[_Work], *, spare: bool) -> bool:
        """Return whether each queue stays at or above its level (`spare`) or fair share without the work, and no place is filled again."""
        least = self._level if spare else self._least
        going: dict[int, FloatArray] = {}
        for work in works:
            going[work.row] = going.get(work.row, 0.0) + work.total
        return all(self.share(self._use[row] - amount) >= least[row] - TOLERANCE for row, amount in going.items())

    def give(self, works: Sequence[_Work]) -> None:
        """Subtract the work from its queues' use."""
        for work in works:
            self._use[work.row] -= work.total


class _Search:
    """State of the search for room: the nodes' free room, evictable work, and the offers by node that are still valid."""

    def __init__(
        self, free: FloatArray, running: Sequence[RunningPod], givers: GiverState, now: float, minimum_run: float
    ) -> None:  # fmt: skip
        self._free, self._givers = free.copy(), _Givers(givers)
        works = _works(running, self._givers, now)
        ripe = now - minimum_run
        young = [pod.started for pod in running if pod.may_go and pod.started > ripe]
        self.next_ripe = min(young, default=math.inf) + minimum_run
        barred = {pod.group or pod.uid for pod in running if not pod.may_go or pod.started > ripe}
        self._rows = sorted({work.row for key, work in works.items() if key not in barred})
        self._on_node: dict[int, list[_Work]] = {}
        for key, work in works.items():
            if key not in barred:
                for node in work.by_node:
                    self._on_node.setdefault(node, []).append(work)
        for present in self._on_node.values():
            present.sort(key=lambda work: (work.lost, work.pods[0]))
        self._offers: dict[tuple[tuple[int, ...], Request], dict[int, _Offer | None]] = {}
        self._hopeless: set[tuple[Request, Ground, int]] = set()

    def place(self, pod: WaitingPod) -> bool:
        """Place the pod on a node with enough room that is free or becomes free; return False if there is none."""
        request = np.array(pod.request)
        fits = ~_lacks(request - self._free, request)
        if pod.nodes is not None:
            fits &= pod.nodes
        if not fits.any():
            return False
        self._free[int(np.argmax(fits))] -= pod.request
        return True

    def cheapest(self, pod: WaitingPod, ground: Ground) -> _Offer | None:
        """Return the work to evict for the pod: of one queue if that suffices, furthest above its share first; otherwise of several."""
        kind = pod.request, ground, id(pod.nodes)
        if kind in self._hopeless:
            return None
        above = {row: self._givers.above(row) for row in self._rows}
        rows = sorted((row for row in self._rows if above[row] > TOLERANCE), key=lambda row: (-above[row], row))
        for spare in (True,) if ground is Ground.FAIR_SHARE else (True, False):
            for some in [*((row,) for row in rows), tuple(sorted(rows))]:
                offer = self._least_lost(some, pod, spare=spare)
                if offer is not None:
                    return offer
        self._hopeless.add(kind)
        return None

    def evict(self, offer: _Offer, pod: WaitingPod, owed: Owed) -> list[Eviction]:
        """Evict the work and give its room to the pod."""
        self._givers.give(offer.works)
        changed = {offer.node}
        for work in offer.works:
            for node, amount in work.by_node.items():
                self._free[node] += amount
                self._on_node[node].remove(work)
                changed.add(node)
        self._free[offer.node] -= pod.request
        self._hopeless.clear()
        for known in self._offers.values():
            for node in changed:
                known.pop(node, None)
        return [
            Eviction(uid, owed.row, owed.ground, pod.uid, offer.spare, work.lost / len(work.pods))
            for work in offer.works
            for uid in work.pods
        ]

    def _least_lost(self, rows: tuple[int, ...], pod: WaitingPod, *, spare: bool) -> _Offer | None:
        """Return the offer of these queues that loses the least work; ties go to the lower node."""
        known = self._offers.setdefault((rows, pod.request), {})
        for node in self._on_node.keys() - known.keys():
            known[node] = self._offer(node, rows, np.array(pod.request))
        good = [offer for node, offer in known.items() if offer is not None and (pod.nodes is None or pod.nodes[node])]
        for offer in sorted(good, key=lambda offer: (offer.lost, offer.node)):
            if self._givers.can_spare(offer.works, spare=spare):
                return replace(offer, spare=spare)
        return None

    def _offer(self, node: int, rows: tuple[int, ...], request: FloatArray) -> _Offer | None:
        """Return work of these queues on the node, least lost first, until the request fits. Work that proves unnecessary is left out."""
        lacking = request - self._free[node]
        chosen = list[_Work]()
        for work in self._on_node[node]:
            if not _lacks(lacking, request):
                break
            if work.row in rows and _lacks(np.where(work.by_node[node] > 0, lacking, 0.0), request):
                chosen.append(work)
                lacking = lacking - work.by_node[node]
        if not chosen or _lacks(lacking, request):
            return None
        for work in sorted(chosen, key=lambda work: (-work.lost, work.pods[0])):
            if not _lacks(lacking + work.by_node[node], request):
                chosen.remove(work)
                lacking = lacking + work.by_node[node]
        return _Offer(node, tuple(chosen), sum(work.lost for work in chosen))


def _lacks(lacking: FloatArray, request: FloatArray) -> BoolArray:
    """Return whether a requested resource is lacking, along the last axis. A node may lack resources that the pod does not request."""
    return np.asarray(((lacking > TOLERANCE * np.maximum(request, 1.0)) & (request > 0)).any(axis=-1))


def _works(running: Sequence[RunningPod], givers: _Givers, now: float) -> dict[str, _Work]:
    """Return the work by group, or by pod for pods without a group, with its lost dominant-share-seconds."""
    works: dict[str, _Work] = {}
    for pod in running:
        request = np.array(pod.request)
        lost = givers.share(request[:-1]) * max(now - pod.started, 0.0)
        work = works.get(pod.group or pod.uid)
        if work is None:
            works[pod.group or pod.uid] = _Work(pod.row, [pod.uid], {pod.node: request}, request[:-1], lost)
            continue
        work.pods.append(pod.uid)
        work.by_node[pod.node] = work.by_node.get(pod.node, 0.0) + request
        work.total, work.lost = work.total + request[:-1], work.lost + lost
    return works
