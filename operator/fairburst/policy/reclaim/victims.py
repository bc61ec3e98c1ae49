"""Whose running work makes room for pods that are owed it. Design §6: "spare work first, then queues furthest above their share, least work
lost within a queue, on nodes where the owed pods will fit, never twice within a minimum run time".

What comes free by itself is counted first. Then, pod by pod that is owed room, work goes that frees a whole such pod's room on one node.
No queue is taken below its fair share, nobody goes who has not run for the minimum run time or whose place would be filled again, and no
more goes than the pod needs beside what is free on its node. Decides nothing about how evictions are sent.
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
    Ground,
    Owed,
    Reclaim,
    ReclaimMemory,
    ReclaimRules,
    Request,
    RunningPod,
    Standing,
    WaitingPod,
)
from fairburst.policy.tolerance import TOLERANCE


def make_room(
    claims: Sequence[Claim], free: FloatArray, running: Sequence[RunningPod], standing: Standing, memory: ReclaimMemory,
    rules: ReclaimRules, now: float,
) -> tuple[Reclaim, ReclaimMemory]:  # fmt: skip
    """Choose the work that goes in this round.

    Parameters
    ----------
    claims : what is owed and who waits for it, most urgent first
    free : (M, K + 1) resource units and places, free on each node now or coming free: terminating pods count as gone
    running : pods that might go
    standing : the queues as givers
    memory : what the last call returned
    rules : settings
    now : seconds since the epoch

    Returns
    -------
    The evictions, in the order in which they are to be sent, and the memory for the next round.

    Notes
    -----
    For a burst, queues give what they use above their level first, and then down to their fair share, for its pods outrank theirs. For
    a fair share they give what they use above their level and no more: below it they would start the same work again, at the same
    priority. O(owed pods x nodes log nodes) for pods of few sizes. Checked in tests/properties/test_reclaim.py.
    """
    budget = _Budget.at(memory, rules, now)
    search = _Search(free, running, standing, now, rules.minimum_run_seconds)
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
    """Whether all that are owed room find it on nodes as they are or come free, so that nobody need go.

    `claims`, `free`: as in `make_room`, which chooses nobody then; pods are placed as there, but those alike at once. O(pods + runs of
    pods that are alike x nodes).
    """
    left = free.copy()
    for claim in claims:
        for _, run in groupby(_within(claim), key=lambda pod: (pod.request, id(pod.nodes))):
            alike = list(run)
            if not _all_placed(alike[0], len(alike), left):
                return False
    return True


def _all_placed(pod: WaitingPod, count: int, free: FloatArray) -> bool:
    """Take the room for so many pods like this off `free`, on the first nodes that have it; False if there is not enough."""
    request = np.array(pod.request)
    asked = request > 0
    holds = np.floor(((free + TOLERANCE * np.maximum(request, 1.0))[:, asked] / request[asked]).min(axis=1)).clip(0.0, count)
    if pod.nodes is not None:
        holds *= pod.nodes
    taken = np.clip(count - (np.cumsum(holds) - holds), 0.0, holds)
    free -= taken[:, None] * request
    return bool(taken.sum() >= count)


def _within(claim: Claim) -> Iterator[WaitingPod]:
    """The pods that what is owed suffices for, first come first served; one that is larger than what is left of it is passed over."""
    left = claim.owed.amount * (1.0 + TOLERANCE)
    for pod in claim.waiting:
        request = np.array(pod.request[:-1])
        if (request <= left).all():
            left = left - request
            yield pod


@dataclass(slots=True)
class _Budget:
    """How many evictions the rate still allows now. `rate`: a second, and at most so many at once; what is larger than that (a group) may
    go into debt. `wake`: when what was refused may be asked for again."""

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
        """Spend `count` evictions, if so many are left; once some are refused there is nothing more in this round."""
        if count <= self.left or self.left >= _most(self.rate):
            self.left -= count
            return True
        self.spent, self.wake = True, self.now + (min(count, _most(self.rate)) - self.left) / self.rate
        return False


def _most(rate: float) -> float:
    return max(rate, 1.0)


@dataclass(slots=True, eq=False)
class _Work:
    """What goes together: one pod, or a group wherever it runs. `by_node`: what it frees on each node. `total`: (K,) in all."""

    row: int
    pods: list[str]
    by_node: dict[int, FloatArray]
    total: FloatArray
    lost: float


@dataclass(frozen=True, slots=True, eq=False)
class _Offer:
    """Work that makes room for one pod on `node`, and whether its queues keep their levels."""

    node: int
    works: tuple[_Work, ...]
    lost: float
    spare: bool = True

    @property
    def count(self) -> int:
        return sum(len(work.pods) for work in self.works)


class _Givers:
    """Queues from which work goes, as far as it has. Shares are dominant shares of capacity."""

    def __init__(self, standing: Standing) -> None:
        self._use, self._weight = standing.use.copy(), standing.weight
        self._inverse = inverse_capacity(standing.capacity)
        self._fair = (standing.fair * self._inverse).max(axis=1)
        refilled = (standing.refilled * self._inverse).max(axis=1)
        self._least = np.maximum(self._fair, refilled)
        self._level = np.maximum((standing.level * self._inverse).max(axis=1), self._least)

    def share(self, amount: FloatArray) -> float:
        """max_k amount_k / C_k."""
        return float((amount * self._inverse).max())

    def above(self, row: int) -> float:
        """How far the queue is above its fair share, per weight."""
        return (self.share(self._use[row]) - float(self._fair[row])) / float(self._weight[row])

    def can_spare(self, works: Sequence[_Work], *, spare: bool) -> bool:
        """Whether every queue stays at or above its level (`spare`), or its fair share, without the work, and nothing is filled again."""
        least = self._level if spare else self._least
        going: dict[int, FloatArray] = {}
        for work in works:
            going[work.row] = going.get(work.row, 0.0) + work.total
        return all(self.share(self._use[row] - amount) >= least[row] - TOLERANCE for row, amount in going.items())

    def give(self, works: Sequence[_Work]) -> None:
        """Take the work off its queues' use."""
        for work in works:
            self._use[work.row] -= work.total


class _Search:
    """Nodes and running work while room is made: what is free, what could go, and offers by node that are still good."""

    def __init__(
        self, free: FloatArray, running: Sequence[RunningPod], standing: Standing, now: float, minimum_run: float
    ) -> None:  # fmt: skip
        self._free, self._givers = free.copy(), _Givers(standing)
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
        """Take what is free or comes free on some node; False if the pod fits none."""
        request = np.array(pod.request)
        fits = ~_lacks(request - self._free, request)
        if pod.nodes is not None:
            fits &= pod.nodes
        if not fits.any():
            return False
        self._free[int(np.argmax(fits))] -= pod.request
        return True

    def cheapest(self, pod: WaitingPod, ground: Ground) -> _Offer | None:
        """The work that should go for the pod: of one queue if that is enough, from the one furthest above its share; then of several."""
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
        """Let the work go and give its room to the pod."""
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
        """The offer of these queues by which least work is lost, ties by node."""
        known = self._offers.setdefault((rows, pod.request), {})
        for node in self._on_node.keys() - known.keys():
            known[node] = self._offer(node, rows, np.array(pod.request))
        good = [offer for node, offer in known.items() if offer is not None and (pod.nodes is None or pod.nodes[node])]
        for offer in sorted(good, key=lambda offer: (offer.lost, offer.node)):
            if self._givers.can_spare(offer.works, spare=spare):
                return replace(offer, spare=spare)
        return None

    def _offer(self, node: int, rows: tuple[int, ...], request: FloatArray) -> _Offer | None:
        """Work of these queues on the node, least lost first, until the request fits; without what turns out not to be needed."""
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
    """Whether anything that is asked for lacks, along the last axis: a node may well be short of what a pod does not ask for."""
    return np.asarray(((lacking > TOLERANCE * np.maximum(request, 1.0)) & (request > 0)).any(axis=-1))


def _works(running: Sequence[RunningPod], givers: _Givers, now: float) -> dict[str, _Work]:
    """By group, or by pod where it has none: what goes together, and the work that is lost with it."""
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
