"""The conditions of admission (BoPF §3.3), and the queues that have passed them, in a form that answers one candidate in O(K).

With weights (equal weights give the paper): (1) safety, no admitted latency queue's burst exceeds its fair share of its interarrival time
once the candidate is counted; (2) fairness, the same for the candidate itself; (3) resource (profile.py). Conditions (1) and (2) need one
number a queue, its load max_n,k d / (C min(gap, max_cycle) w), and a running maximum of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fairburst.policy.arrays import FloatArray, IntArray
from fairburst.policy.declared import Declared
from fairburst.policy.drf import column_sum, row_any, row_maximum, take_rows
from fairburst.policy.hard_queue import HardQueue
from fairburst.policy.model import PolicyConfig
from fairburst.policy.profile import HardQueues
from fairburst.policy.table import ELASTIC, HARD, NOT_ADMITTED, SOFT
from fairburst.policy.tolerance import SMALLEST, TOLERANCE, at_most


def loads(declared: Declared, capacity: FloatArray) -> FloatArray:
    """(N,) max_n,k d(n) / (C min(gap(n), max_cycle) w): the weight sum at which the queue's own bursts stop being fair is 1 / load."""
    if (capacity > SMALLEST).all():
        share = declared.worst / capacity
    else:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share = np.where(declared.worst > 0, declared.worst / capacity, 0.0)
    return row_maximum(share) / declared.weight if len(share) else np.zeros(0)


@dataclass
class AdmissionState:
    """State of the queues admitted so far, in a form that answers one candidate in O(K).

    The invariant: `hard` fits, and `total_weight`, `guaranteed_load` and its largest always describe the queues that were added.
    """

    capacity: FloatArray
    config: PolicyConfig
    total_weight: float = 0.0
    hard: HardQueues = field(init=False)
    guaranteed_load: dict[str, float] = field(default_factory=dict)
    largest: tuple[float, str] = (0.0, "")

    def __post_init__(self) -> None:
        self.hard = HardQueues(self.capacity, self.config.max_profile_events)

    def divisor(self, weight: float) -> float:
        """max(sum of admitted weights + w, N_min)."""
        return max(self.total_weight + weight, self.config.expected_queues)

    def grant(self, member: HardQueue, weight: float, load: float, guarantee: int) -> None:
        """Add an admitted queue."""
        self.total_weight += weight
        if guarantee >= SOFT:
            self.guaranteed_load[member.name] = load
            self.largest = max(self.largest, (load, member.name))
        if guarantee == HARD:
            self.harden(member)

    def grant_all(self, members: Sequence[HardQueue], weight: FloatArray, load: FloatArray, guarantee: IntArray) -> None:
        """Add several admitted queues. The sums are exactly those of `grant` for one after the other."""
        self.total_weight = float(np.cumsum([self.total_weight, *weight.tolist()])[-1])
        entered = [(one, member.name) for member, one, code in zip(members, load.tolist(), guarantee.tolist(), strict=True) if code >= SOFT]
        self.guaranteed_load |= {name: one for one, name in entered}
        self.largest = max([self.largest, *entered])
        hard = [member for member, code in zip(members, guarantee.tolist(), strict=True) if code == HARD]
        self.hard.add_all([member for member in hard if member.name not in self.hard.members])

    def harden(self, member: HardQueue) -> None:
        """Add a queue to the hard ones."""
        if member.name not in self.hard.members:
            self.hard.add(member)

    def without(self, name: str, weight: float) -> AdmissionState:
        """Return the same state without one queue."""
        loads_left = {other: load for other, load in self.guaranteed_load.items() if other != name}
        state = replace(
            self,
            total_weight=math.fsum([self.total_weight, -weight]),
            guaranteed_load=loads_left,
            largest=max(((load, other) for other, load in loads_left.items()), default=(0.0, "")),
        )
        state.hard = self.hard.copy()
        state.hard.remove(name)
        return state

    def consider(self, member: HardQueue, weight: float, load: float) -> int:
        """Return the class of a candidate: LQADMIT and TQADMIT of BoPF's Algorithm 1."""
        if member.row in member.declared.unknown or not math.isfinite(load):
            return NOT_ADMITTED
        divisor = self.divisor(weight)
        if not at_most(self.largest[0] * divisor, 1.0):
            return NOT_ADMITTED
        if not member.declared.latency[member.row] or not at_most(load * divisor, 1.0):
            return ELASTIC
        if self.hard.fits(member):
            return HARD
        return SOFT if self.config.soft_class else ELASTIC

    def decided_at_once(self, declared: Declared, rows: IntArray, load: FloatArray) -> IntArray:
        """Return the classes of the longest run of `rows` (in order) that can be decided together, up to the first rejection.

        The classes equal those of `consider` and `grant` one by one: (1) and (2) as cumulative sums and maxima, O(rows x K), and (3) by one
        test, because queues that fit together also fit one by one. If they don't, the run ends where the sum of rates exceeds capacity.
        """
        weight = declared.weight[rows]
        divisor = np.maximum(self.total_weight + np.cumsum(weight), self.config.expected_queues)
        limit = 1.0 + TOLERANCE
        guaranteed = declared.latency[rows] & (load[rows] * divisor <= limit)
        held = np.where(guaranteed, load[rows], 0.0)
        before = np.maximum(self.largest[0], np.concatenate([[0.0], np.maximum.accumulate(held)[:-1]])) if rows.size else held
        stops = (before * divisor > limit) | ~np.isfinite(load[rows])
        if declared.unknown:
            stops |= np.isin(rows, list(declared.unknown))
        count = int(np.argmax(stops)) if stops.any() else len(rows)
        rate = take_rows(declared.highest_rate, rows[:count]) * guaranteed[:count, None]
        if (self.hard.total + column_sum(rate) > self.capacity * limit).any():
            together = self.hard.copy()
            together.add_all([HardQueue(declared, row) for row in rows[:count][guaranteed[:count]].tolist()])
            if not together.holds():
                too_much = row_any(self.hard.total + np.cumsum(rate, axis=0) > self.capacity * limit)
                count = int(np.argmax(too_much)) if too_much.any() else 0
        return np.where(guaranteed[:count], HARD, ELASTIC)
