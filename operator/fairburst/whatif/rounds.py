"""One decided round with its inputs, so that it can be decided again with a change, and the difference that the change makes.

A removed queue keeps its row: it is suspended, without demand and usage, which has the same effect on all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.decide import decide
from fairburst.policy.entitlement import entitlements
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, Memory, PolicyConfig, QueueDecision, QueueSpec, RoundResult, WaitingPods
from fairburst.policy.tolerance import TOLERANCE, exceeds

RANK: Mapping[GuaranteeClass | None, int] = {None: 0, GuaranteeClass.ELASTIC: 1, GuaranteeClass.SOFT: 2, GuaranteeClass.HARD: 3}


@dataclass(frozen=True, slots=True, eq=False)
class DecidedRound:
    """A call of `decide`: its inputs, its result and the memory that it returned."""

    snapshot: ClusterSnapshot
    memory: Memory
    config: PolicyConfig
    now: float
    result: RoundResult
    following: Memory

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> Self:
        """Decide. Raises PolicyError for inputs that break the core's contract."""
        result, following = decide(snapshot, memory, config, now)
        return cls(snapshot, memory, config, now, result, following)

    def again(self, snapshot: ClusterSnapshot) -> Self:
        """Decide on another snapshot at the same time, with all promises of this round made, because a change comes after them."""
        return self.of(snapshot, self.following, self.config, self.now)

    def row(self, name: str) -> int | None:
        """Return the queue's row; None for a queue that is not in the snapshot."""
        return next((row for row, spec in enumerate(self.snapshot.queues) if spec.name == name), None)

    def decision(self, row: int) -> QueueDecision:
        """Return the decision on one queue, with reasons and numbers."""
        return self.result.decisions[row]

    def waits(self, row: int) -> bool:
        """Return whether the queue wants more than it uses."""
        return bool(exceeds(self.snapshot.demand[row], self.snapshot.usage[row]).any())

    def entitled(self) -> FloatArray:
        """Return (N, K) the amounts that quotas admit: levels, and for idle queues the allocation that they would get with demand."""
        return entitlements(self.result, self.snapshot, self.following)[0]


def with_spec(snapshot: ClusterSnapshot, row: int, spec: QueueSpec) -> ClusterSnapshot:
    """Return the snapshot with another declaration of one queue."""
    return replace(snapshot, queues=(*snapshot.queues[:row], spec, *snapshot.queues[row + 1 :]))


def with_queue(snapshot: ClusterSnapshot, spec: QueueSpec) -> ClusterSnapshot:
    """Return the snapshot with one more queue, created last, that has no work yet."""
    latest = max((one.order[0] for one in snapshot.queues), default=spec.order[0])
    spec = replace(spec, order=(max(spec.order[0], latest), spec.name))
    nothing = np.zeros((1, len(snapshot.resources)))
    demand, usage, unit = (np.vstack([one, nothing]) for one in (snapshot.demand, snapshot.usage, snapshot.unit))
    jobs = snapshot.jobs
    if jobs is not None and jobs.taking_part is not None:
        jobs = replace(jobs, taking_part=np.append(jobs.taking_part, False))
    # Rows are ordered by creation time, then by name. The new queue must come after all others.
    if snapshot.queues and spec.order <= snapshot.queues[-1].order:
        spec = replace(spec, order=(np.nextafter(latest, np.inf).item(), spec.name))
    return replace(snapshot, queues=(*snapshot.queues, spec), jobs=jobs, demand=demand, usage=usage, unit=unit)


def without_queue(snapshot: ClusterSnapshot, row: int) -> ClusterSnapshot:
    """Return a snapshot that has the same effect on all other queues as the removal of one queue and its work."""
    name = snapshot.queues[row].name
    demand, usage, unit = snapshot.demand.copy(), snapshot.usage.copy(), snapshot.unit.copy()
    demand[row] = usage[row] = unit[row] = 0.0
    waiting = snapshot.waiting
    if waiting is not None:
        kept = waiting.row != row
        waiting = WaitingPods(waiting.row[kept], waiting.request[kept], waiting.count[kept], waiting.in_order)
    elastic = tuple(job for job in snapshot.elastic_jobs if job.queue != name)
    spec = replace(snapshot.queues[row], suspended=True)
    return replace(with_spec(snapshot, row, spec), waiting=waiting, elastic_jobs=elastic, demand=demand, usage=usage, unit=unit)


def with_capacity(snapshot: ClusterSnapshot, factors: FloatArray) -> ClusterSnapshot:
    """Return the snapshot with live and committed capacity multiplied by (K,) `factors`."""
    return replace(snapshot, live_capacity=snapshot.live_capacity * factors, committed_capacity=snapshot.committed_capacity * factors)


@dataclass(frozen=True, slots=True)
class QueueChange:
    """One queue before and after. Shares are dominant shares of the capacity of each round; a class is None without a promise.

    level: of its quota. allocated: the part of its present demand that it is given.
    """

    queue: str
    before: GuaranteeClass | None
    after: GuaranteeClass | None
    share_before: float
    share_after: float
    level_before: float
    level_after: float
    allocated_before: float
    allocated_after: float
    reason: str
    message: str
    is_new: bool = False
    is_gone: bool = False

    @property
    def is_weaker(self) -> bool:
        """Return whether a queue that stays is promised less than before."""
        return not self.is_new and not self.is_gone and RANK[self.after] < RANK[self.before]

    @property
    def is_changed(self) -> bool:
        """Return whether anything differs."""
        pairs = (
            (self.share_before, self.share_after),
            (self.level_before, self.level_after),
            (self.allocated_before, self.allocated_after),
        )
        return self.is_new or self.is_gone or self.before is not self.after or any(abs(one - two) > 1e-6 for one, two in pairs)


def changes(before: DecidedRound, after: DecidedRound, gone: frozenset[str] = frozenset()) -> list[QueueChange]:
    """Return every queue before and after, in the order of the later round. `gone`: removed queues."""
    rows = {spec.name: row for row, spec in enumerate(before.snapshot.queues)}
    old, new = _shares(before), _shares(after)
    found = []
    for row, spec in enumerate(after.snapshot.queues):
        was = rows.get(spec.name)
        decision = after.decision(row)
        one = (0.0, 0.0, 0.0) if was is None else old[was]
        found.append(
            QueueChange(
                spec.name,
                None if was is None else before.result.classes[was],
                after.result.classes[row],
                one[0],
                new[row][0],
                one[1],
                new[row][1],
                one[2],
                new[row][2],
                decision.admission.reason,
                decision.admission.message,
                is_new=was is None,
                is_gone=spec.name in gone,
            )
        )
    return found


def _shares(one: DecidedRound) -> list[tuple[float, float, float]]:
    """Return the share by weight, the level and the allocation of each queue, as fractions of capacity."""
    capacity = one.snapshot.live_capacity
    counted = capacity > TOLERANCE
    level, given = one.entitled(), one.result.allocation
    # A refused change leaves the earlier promise in force, with its weight.
    promised = [one.following.promised(spec.name) for spec in one.snapshot.queues]
    weight = [0.0 if known is None or known.guarantee_class is None else known.promise.weight for known in promised]
    found = []
    for row in range(len(one.snapshot.queues)):
        parts = [float((array[row][counted] / capacity[counted]).max(initial=0.0)) for array in (level, given)]
        found.append((weight[row] / sum(weight) if any(weight) else 0.0, parts[0], parts[1]))
    return found
