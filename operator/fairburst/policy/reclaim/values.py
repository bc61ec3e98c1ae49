"""Inputs and results of reclaim, all frozen. Axes: queues (N), nodes (M), counted resources (K).

Requests have K + 1 entries: resource units by resource, and last the one pod of the node's pod limit.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from fairburst.policy.arrays import BoolArray, FloatArray

Request: TypeAlias = tuple[float, ...]


class Ground(enum.Enum):
    """Why room is owed: for a burst within its guarantee, or for a throughput queue's fair share after the grace time."""

    BURST = "Burst"
    FAIR_SHARE = "FairShare"


@dataclass(frozen=True, slots=True)
class ReclaimRules:
    """Pool-wide settings. config.py gives the reasons for the defaults.

    grace_seconds: how long a throughput queue must lack its fair share before it is owed it.
    minimum_run_seconds: pods that have run for less are not evicted; room is made for a waiting pod at most once in this time.
    evictions_per_second: long-run rate. The evictions of one second may happen at once.
    longest_grace_seconds: upper bound for an evicted pod's termination grace period.
    """

    grace_seconds: float = 300.0
    minimum_run_seconds: float = 60.0
    evictions_per_second: float = 100.0
    longest_grace_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class ReclaimMemory:
    """State that must survive a restart; times in seconds since the epoch.

    short_since: start of each throughput queue's present shortage of its fair share.
    made_room: time of the last eviction for a waiting pod, by the pod's uid.
    allowance: evictions that were still allowed at once at `allowance_as_of`.
    asked: pods that reclaim has evicted and that still exist, by `namespace/name/uid`; the time until which they are not charged.
    """

    short_since: Mapping[str, float] = field(default_factory=dict)
    made_room: Mapping[str, float] = field(default_factory=dict)
    allowance: float = 0.0
    allowance_as_of: float = -1e12
    asked: Mapping[str, float] = field(default_factory=dict)

    def recent(self, rules: ReclaimRules, now: float) -> dict[str, float]:
        """Return the part of `made_room` within the last minimum run time. Older entries have no effect."""
        return {uid: at for uid, at in self.made_room.items() if now < at + rules.minimum_run_seconds}


@dataclass(frozen=True, slots=True, eq=False)
class Owed:
    """An amount owed to one queue: (K,) resource units.

    evicts: whether pods may be evicted for it; otherwise it only takes free room. deadline: of the queue's burst, seconds since the epoch;
    infinite for a fair share.
    """

    row: int
    ground: Ground
    amount: FloatArray
    evicts: bool
    deadline: float = math.inf


@dataclass(frozen=True, slots=True, eq=False)
class WaitingPod:
    """A pod that the scheduler may place but has not placed. nodes: (M,) nodes on which it may run, or None for all."""

    uid: str
    request: Request
    nodes: BoolArray | None = None


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod on a node whose end has not been requested. row: its queue. started: seconds since the epoch.

    group: pods of one group are evicted together; empty for a single pod. may_go: whether an eviction fails no job.
    """

    uid: str
    row: int
    node: int
    request: Request
    started: float
    group: str = ""
    may_go: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class GiverState:
    """The queues' state as givers. (N, K) resource units for the first four fields.

    use: by pods whose end has not been requested. level: permitted by enforcement. fair: guaranteed part of the allocation, below which no
    queue is taken. refilled: amounts admitted again where a level is not enforced yet, otherwise zeros. weight: (N,). capacity: (K,), live.
    """

    use: FloatArray
    level: FloatArray
    fair: FloatArray
    refilled: FloatArray
    weight: FloatArray
    capacity: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """An owed amount and the queue's pods that wait for it, in order."""

    owed: Owed
    waiting: tuple[WaitingPod, ...]


@dataclass(frozen=True, slots=True)
class Eviction:
    """The eviction of one running pod.

    row: queue for which the pod is evicted. waiting: uid of the pod for which it is evicted. spare: whether its queue stays at or above its
    level without it. lost: dominant-share-seconds of work.
    """

    uid: str
    row: int
    ground: Ground
    waiting: str
    spare: bool
    lost: float


@dataclass(frozen=True, slots=True)
class Reclaim:
    """One round's evictions. unserved: pods with owed room for which no room is free, about to become free, or made."""

    evictions: tuple[Eviction, ...]
    unserved: int
    next_boundary: float
