"""What goes into and comes out of reclaim. Frozen; decides nothing. Axes: queues (N), nodes (M), counted resources (K).

Requests have K + 1 entries: resource units by resource, and last the one place on its node that every pod takes.
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
    """Why room is owed: a burst inside its guarantee, or a throughput queue's fair share after the grace time."""

    BURST = "Burst"
    FAIR_SHARE = "FairShare"


@dataclass(frozen=True, slots=True)
class ReclaimRules:
    """Pool-wide settings; reasons for the defaults are in config.py.

    grace_seconds: how long a throughput queue is short of its fair share before it is owed it.
    minimum_run_seconds: nobody who has run for less is evicted, and room is made for one pod at most once in that time.
    evictions_per_second: in the long run; as many as in one second may go at once.
    longest_grace_seconds: the most time that an evicted pod is given to end.
    """

    grace_seconds: float = 300.0
    minimum_run_seconds: float = 60.0
    evictions_per_second: float = 100.0
    longest_grace_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class ReclaimMemory:
    """What must survive a restart, times in seconds since the epoch.

    short_since: by throughput queue, since when it has been short of its fair share without a break.
    made_room: by uid of a waiting pod, when work was last evicted for it.
    allowance: evictions that were still allowed at once, as of `allowance_as_of`.
    asked: by `namespace/name/uid`, the pods that reclaim has asked to end and that still exist; until when none of them is charged.
    """

    short_since: Mapping[str, float] = field(default_factory=dict)
    made_room: Mapping[str, float] = field(default_factory=dict)
    allowance: float = 0.0
    allowance_as_of: float = -1e12
    asked: Mapping[str, float] = field(default_factory=dict)

    def recent(self, rules: ReclaimRules, now: float) -> dict[str, float]:
        """`made_room` of the last minimum run time; what is older no longer matters."""
        return {uid: at for uid, at in self.made_room.items() if now < at + rules.minimum_run_seconds}


@dataclass(frozen=True, slots=True, eq=False)
class Owed:
    """What one queue is owed: `amount` (K,), resource units. `evicts`: running work may go for it; else it only takes free room first.
    `deadline`: of its burst, seconds since the epoch; infinite for a fair share."""

    row: int
    ground: Ground
    amount: FloatArray
    evicts: bool
    deadline: float = math.inf


@dataclass(frozen=True, slots=True, eq=False)
class WaitingPod:
    """A pod that the scheduler may place and has not placed. `nodes`: (M,) where it may run; None: anywhere."""

    uid: str
    request: Request
    nodes: BoolArray | None = None


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod on a node that nobody has asked to end. `row`: its queue's. `started`: seconds since the epoch.

    `group`: pods with the same one stand and fall together; empty for a pod by itself. `may_go`: its eviction fails nothing.
    """

    uid: str
    row: int
    node: int
    request: Request
    started: float
    group: str = ""
    may_go: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Queues as givers. (N, K) resource units: `use` of pods that nobody has asked to end; `level` that enforcement permits; `fair`, the
    guaranteed part of the allocation, below which no queue is taken; `refilled`, what is still let in again where a level is not enforced
    yet, else zeros. weight: (N,). capacity: (K,) live."""

    use: FloatArray
    level: FloatArray
    fair: FloatArray
    refilled: FloatArray
    weight: FloatArray
    capacity: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """What a queue is owed, and its pods that wait for it, first to last."""

    owed: Owed
    waiting: tuple[WaitingPod, ...]


@dataclass(frozen=True, slots=True)
class Eviction:
    """One running pod that goes. `row`: the queue for which; `waiting`: uid of the pod for which. `spare`: its queue stays at or above its
    level without it. `lost`: dominant-share-seconds of work."""

    uid: str
    row: int
    ground: Ground
    waiting: str
    spare: bool
    lost: float


@dataclass(frozen=True, slots=True)
class Reclaim:
    """One round's evictions. `unserved`: pods that are owed room for which there is none yet, coming or made."""

    evictions: tuple[Eviction, ...]
    unserved: int
    next_boundary: float
