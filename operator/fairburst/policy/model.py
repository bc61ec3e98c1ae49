"""The values that go into and come out of one scheduling round, and one place to import all of the core's values from.

Frozen; no behaviour beyond what their invariants need. Decides nothing. Terms are those of docs/glossary.md; BoPF is the paper "Bounded
Priority Fairness" and section numbers are its own.
Axes are always (queues, resources). Resource units are the natural ones (cores, bytes, whole devices), time is in seconds
since the epoch, dominant shares are fractions of capacity.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.dress.values import DressConfig, DressResult, JobsPart
from fairburst.policy.lead_time_record import LeadTimeDecision
from fairburst.policy.paf.divide import SlotRules
from fairburst.policy.paf.jobs import ElasticJob, SlotDecision
from fairburst.policy.queue_memory import AdmissionDecision, ConditionResult, GuaranteeClass, Promised, QueueMemory, Window, WindowState
from fairburst.policy.round_memory import Memory
from fairburst.policy.spec import Arrival, Burst, Periodic, QueueKind, QueueSpec, Schedule, ScheduledBurst, Sporadic

__all__ = [
    "AdmissionDecision",
    "Arrival",
    "Burst",
    "ClusterSnapshot",
    "ConditionResult",
    "EventKind",
    "GuaranteeClass",
    "Memory",
    "Periodic",
    "PolicyConfig",
    "Promised",
    "QueueDecision",
    "QueueKind",
    "QueueMemory",
    "QueueSpec",
    "RoundEvent",
    "RoundResult",
    "Schedule",
    "ScheduledBurst",
    "Sporadic",
    "WaitingPods",
    "Window",
    "WindowState",
]


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """Pool-wide settings of the core, with the reason for each default.

    expected_queues: N_min of BoPF §3.3, in units of weight; 1 assumes nothing.
    max_cycle_seconds: an upper limit on the inter-arrival time that counts in (1) and (2) (BPF §1), so that a burst a day
        cannot save up a day's fair share.
    max_profile_events: ON windows that the exact profile of (3b) may enumerate before the pairwise bound (3c) is used.
    soft_class: False makes it N-BoPF, the baseline of BoPF §5.1: a queue that fails the resource condition is elastic.
    soft_ends_at_deadline: BoPF's Algorithm 1, line 34, to the letter: the turn of a soft queue ends with its deadline, served or not. False
        keeps it, behind every queue that is in time, until the declared demand is served or the next window arms.
    level_dead_band: relative change of an out-of-window latency queue's residual level below which it keeps the old one.
    dress: settings of DRESS; None: off, and no level is divided between small and large jobs.
    batch_memory_seconds: half-life of the memory of throughput queues' lack or excess of their fair shares; they catch up within about this
        time. Ten minutes is longer than most tasks run. 0: off, every moment is divided by itself.
    largest_turn: part of the pool, from 0 to 1, that a queue has at most in the turn of a job that starts whole; 0: no such turns.
    max_lead_seconds: the longest time before a burst for which room is held; ten minutes is longer than most tasks run.
    """

    expected_queues: float = 1.0
    max_cycle_seconds: float = 3600.0
    max_profile_events: int = 10_000
    level_dead_band: float = 0.05
    soft_class: bool = True
    soft_ends_at_deadline: bool = False
    dress: DressConfig | None = None
    max_lead_seconds: float = 600.0
    batch_memory_seconds: float = 600.0
    largest_turn: float = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class WaitingPods:
    """Pods that wait to be bound, in runs of equal ones: L runs, those of one queue together and in the order in which they wait.

    row: (L,) row of the queue, ascending. request: (L, K) of one pod, resource units. count: (L,) pods; pods that must start together count
    as one. in_order: a queue starts its pods strictly in this order, and one that does not fit holds up those behind it.
    """

    row: IntArray
    request: FloatArray
    count: FloatArray
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The state of the cluster for one round, as one frozen value.

    resources: names of the K counted resources; every mapping in a spec is read by these names.
    live_capacity, committed_capacity: (K,) C now (used to allocate) and C for admission (a low-water mark or declared).
    queues: N valid specs in ascending `order`. The same tuple object again means that no spec changed.
    demand: (N, K) present total: running, pending and not yet created work together.
    usage: (N, K) effective requests of the queue's pods from bound to ended.
    unit: (N, K) effective requests of the queue's largest pod; the queue can use whole units of it. Zero rows: unknown, divisible.
    jobs: jobs and tasks for DRESS; None: DRESS is off.
    waiting: the known waiting pods; queues without any in it are assumed to wait with pods of the size `unit`.
    oldest_work: by row, creation time of the oldest unfinished work of the queue; rows without one: unknown.
    unseen_work: by row, ascending: when unfinished work of the queue came that no process saw then, and that demands a window. Only in the
        first round after such a time.
    next_start: by row of a throughput queue whose jobs start whole: (K,) its need beyond its usage to start the next one, or for the pods
        that the last start still lacks; other rows use single pods. starting: the rows that lack such pods.
    left_behind: by row of a throughput queue: (K,) requests of its pods on nodes that closed under them. They are no part of demand, use
        and capacity, and nothing is decided about them; quotas count them.
    elastic_jobs: jobs among which PAF divides the slots of their queues, by elastic_rules; none: PAF is off.
    """

    resources: tuple[str, ...]
    live_capacity: FloatArray
    committed_capacity: FloatArray
    queues: tuple[QueueSpec, ...]
    demand: FloatArray
    usage: FloatArray
    unit: FloatArray
    jobs: JobsPart | None = None
    elastic_jobs: tuple[ElasticJob, ...] = ()
    elastic_rules: SlotRules | None = None
    waiting: WaitingPods | None = None
    oldest_work: Mapping[int, float] = field(default_factory=dict)
    unseen_work: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    next_start: Mapping[int, FloatArray] = field(default_factory=dict)
    starting: frozenset[int] = frozenset()
    left_behind: Mapping[int, FloatArray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueDecision:
    """One queue's part of a round: a view, built on demand.

    guaranteed + spare = allocation. `level` is the amount that enforcement permits: the allocation, or more if a burst quota is armed.
    `charge_rate` is the rate at which the ledger grows now (dominant share, spare excluded). `fair_share_of_period` and `budget` in
    dominant-share-seconds; zero for throughput queues. `share` is w / sum of admitted weights.
    """

    queue: str
    kind: QueueKind
    guarantee_class: GuaranteeClass | None
    admission: AdmissionDecision
    allocation: FloatArray
    guaranteed: FloatArray
    spare: FloatArray
    level: FloatArray
    window: Window | None
    share: float
    ledger: float
    charge_rate: float
    debt: float
    budget: float
    consumed: float
    fair_share_of_period: float
    reason: str
    message: str


class EventKind(enum.Enum):
    """An event of this round, to be published once."""

    ADMITTED = "Admitted"
    REJECTED = "Rejected"
    CLASS_CHANGED = "ClassChanged"
    PROMISE_CHANGED = "PromiseChanged"
    PROMISE_CHANGE_REJECTED = "PromiseChangeRejected"
    BURST_OPENED = "BurstOpened"
    BURST_MET = "BurstMet"
    BURST_MISSED = "BurstMissed"
    BUDGET_SPENT = "BudgetSpent"


@dataclass(frozen=True, slots=True)
class RoundEvent:
    """A change for an Event on the queue. `warning`: whether a promise became weaker."""

    queue: str
    kind: EventKind
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The decision of one round, as arrays over the snapshot's queues (N rows, K columns) and per-queue views on demand.

    next_boundary: the earliest time after `now` at which something changes by itself (a window arms, opens or ends, a budget
    runs out); infinite if nothing does.
    windows: those of `decisions`, without their sentences, which take long to build.
    small_level: (N, K) the part of `level` for small jobs of elastic queues, the rest is for large ones; None: DRESS is off.
    reserve_ratio: δ; None: DRESS is off. dress: its numbers and reasons. lead_time: the room held for expected bursts, and the reasons.
    held_back: (N,) queues from which room is kept, for an expected burst or in the turn of a job that starts whole: their quotas permit
        just `level`, without floor and slack. None: nothing is held.
    promised: (N, K) the part of `guaranteed` that hard queues have at their rates; None: all of it. The rest is their fair share.
    slots: PAF's decision for each of the snapshot's elastic jobs. moved: (K,) by queue, amounts that PAF moved from other queues (negative:
        to them); `level` contains them, `allocation` does not: they count as the giver's.
    """

    now: float
    queues: tuple[QueueSpec, ...]
    classes: tuple[GuaranteeClass | None, ...]
    allocation: FloatArray
    guaranteed: FloatArray
    level: FloatArray
    charge_rate: FloatArray
    events: tuple[RoundEvent, ...]
    next_boundary: float
    decisions: Sequence[QueueDecision]
    windows: Sequence[Window | None]
    small_level: FloatArray | None = None
    reserve_ratio: float | None = None
    dress: DressResult | None = None
    lead_time: tuple[LeadTimeDecision, ...] = ()
    held_back: BoolArray | None = None
    promised: FloatArray | None = None
    slots: tuple[SlotDecision, ...] = ()
    moved: Mapping[str, FloatArray] = field(default_factory=dict)
