"""The values that go into and come out of one scheduling round. Frozen; no behaviour beyond what their invariants need.

Decides nothing. Terms are those of docs/glossary.md; BoPF is the paper "Bounded Priority Fairness" and section numbers are its own.
Axes are always (queues, resources). Resource units are the natural ones (cores, bytes, whole devices), time is in seconds
since the epoch, dominant shares are fractions of capacity.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from typing_extensions import override

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.dress.memory import DressMemory
from fairburst.policy.dress.values import DressConfig, DressResult, JobsPart
from fairburst.policy.lead_time import LeadTimeDecision
from fairburst.policy.paf.divide import SlotRules
from fairburst.policy.paf.jobs import ElasticJob, SlotDecision

if TYPE_CHECKING:  # a memory and its columns are two forms of one value, and know each other
    from fairburst.policy.table import Columns


class QueueKind(enum.Enum):
    """What a queue's owner cares about."""

    LATENCY = "Latency"
    THROUGHPUT = "Throughput"


class GuaranteeClass(enum.Enum):
    """Class granted at admission (BoPF §3.3). Rejection is a decision, not a class."""

    HARD = "Hard"
    SOFT = "Soft"
    ELASTIC = "Elastic"


class WindowState(enum.Enum):
    """Where a latency queue stands in its period.

    CLOSED: before the next burst may begin. ARMED: its burst quota is written, the burst may begin at any time.
    OPEN: within [opened, deadline). OVERDUE: past the deadline with part of the declared demand not yet delivered;
    its queue keeps its claim, ranked below every queue of its class in its window.
    """

    CLOSED = "Closed"
    ARMED = "Armed"
    OPEN = "Open"
    OVERDUE = "Overdue"


@dataclass(frozen=True, slots=True)
class Burst:
    """One burst: `resources` are needed for `duration_seconds`, and must be delivered within `deadline_seconds` of its opening.

    Its demand d is resources x duration (resource-seconds); its guaranteed rate is d / deadline.
    """

    resources: Mapping[str, float]
    duration_seconds: float
    deadline_seconds: float


@dataclass(frozen=True, slots=True)
class Periodic:
    """Bursts at first_arrival + n x period, give or take the jitter. `first_arrival` None: as soon as work arrives after admission."""

    period_seconds: float
    first_arrival: float | None = None
    jitter_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Sporadic:
    """Bursts whenever work arrives, at most once per minimum inter-arrival time."""

    min_interarrival_seconds: float


@dataclass(frozen=True, slots=True)
class ScheduledBurst:
    """One explicitly scheduled arrival with a demand and deadline of its own (d_i(n), t_i(n))."""

    arrival: float
    burst: Burst


@dataclass(frozen=True, slots=True)
class Schedule:
    """Explicit arrivals in ascending order.

    calendar: the rule that they are taken from, as text that the core only compares; empty if there is none. Of one calendar a later
    schedule continues an earlier one. since: the time from which on it lists the calendar's arrivals.
    """

    bursts: Sequence[ScheduledBurst]
    calendar: str = ""
    since: float = 0.0


Arrival: TypeAlias = Periodic | Sporadic | Schedule


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """What a queue's owner declared, already validated.

    `name` is unique in the pool ("namespace/name") and the last key of every tie-break. `order` is the key of creation
    order (creation time, then name): admission runs in this order. `burst` and `arrival` are None for throughput queues
    (and `burst` is None where the arrival is a Schedule, which carries its own).
    `limits` caps the allocation of a throughput queue per resource;
    resources it does not name are uncapped. `suspended` holds all new work: no allocation, no weight in the division.
    `lead_time`: room is made ahead of a predictable burst (lead_time.py).
    """

    name: str
    kind: QueueKind
    order: tuple[float, str]
    weight: float = 1.0
    burst: Burst | None = None
    arrival: Arrival | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    suspended: bool = False
    lead_time: bool = False


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """Pool-wide settings of the core. Reasons for the defaults are beside each.

    expected_queues: N_min of BoPF §3.3, in units of weight; 1 assumes nothing.
    max_cycle_seconds: an upper limit on the inter-arrival time that counts in (1) and (2) (BPF §1), so that a burst a day
        cannot save up a day's fair share.
    max_profile_events: ON windows that the exact profile of (3b) may enumerate before the pairwise bound (3c) is used.
    soft_class: False makes it N-BoPF, the baseline of BoPF §5.1: who fails the resource condition is elastic.
    soft_ends_at_deadline: BoPF's Algorithm 1, line 34, to the letter: the turn of a soft queue ends with its deadline, served or not. False
        keeps it, behind every queue that is in time, until the declared demand is served or the next window arms.
    level_dead_band: relative change of an out-of-window latency queue's residual level below which it keeps the old one.
    dress: settings of DRESS; None: off, and no level is divided between small and large jobs.
    batch_memory_seconds: half-life of what throughput queues are remembered to lack of their fair shares or to have had beyond them; they
        catch up within about as long. Ten minutes is longer than most tasks run. 0: off, every moment is divided by itself.
    max_lead_seconds: how far ahead of a burst room may begin to be held; ten minutes is longer than most tasks run.
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


@dataclass(frozen=True, slots=True, eq=False)
class WaitingPods:
    """Pods that wait to be bound, in runs of equal ones: L runs, those of one queue together and in the order in which they wait.

    row: (L,) row of the queue, ascending. request: (L, K) of one pod, resource units. count: (L,) pods; what must start together counts
    as one pod. in_order: a queue starts its pods strictly in this order, and one that does not fit holds up those behind it.
    """

    row: IntArray
    request: FloatArray
    count: FloatArray
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Everything the round needs to know about the cluster, in one frozen value.

    resources: names of the K counted resources; every mapping in a spec is read by these names.
    live_capacity, committed_capacity: (K,) C now (used to allocate) and C for admission (a low-water mark or declared).
    queues: N valid specs in ascending `order`. The same tuple object again means that no spec changed.
    demand: (N, K) wanted in all now: running, pending and not yet created work together.
    usage: (N, K) charge of the queue's pods from bound to ended.
    unit: (N, K) charge of the queue's largest pod; whole units of it are what the queue can use. Zero rows: unknown, divisible.
    jobs: jobs and tasks for DRESS; None: DRESS is off.
    waiting: the pods that wait, as far as they are known; queues without any in it are taken to wait with pods of the size `unit`.
    elastic_jobs: jobs among which PAF divides the slots of their queues, and elastic_rules how; none: PAF is off.
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


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """One admission condition with both sides, for the resource and queue where it is tightest.

    `left <= right` is the condition. Units: safety and fairness resource-seconds, resource condition resource units.
    `binding_queue` is the queue whose side is tightest (for safety an earlier queue's promise; else the candidate itself
    or, in the resource condition, the hard queue that takes most of the binding instant).
    """

    holds: bool
    left: float
    right: float
    binding_resource: str
    binding_queue: str


@dataclass(frozen=True, slots=True)
class AdmissionDecision:
    """The answer to one candidate. `guarantee_class` None means rejected. `reason` is CamelCase, `message` a sentence with the numbers.

    safety: condition (1); fairness: (2), None for throughput queues; resource: (3), None where it was not reached.
    """

    queue: str
    guarantee_class: GuaranteeClass | None
    reason: str
    message: str
    safety: ConditionResult | None
    fairness: ConditionResult | None
    resource: ConditionResult | None


@dataclass(frozen=True, slots=True)
class Window:
    """The window a latency queue is in or waits for.

    `opened` is None until the burst begins. `arms_at` is when its quota is written, `opens_by` the latest opening
    (infinite for sporadic queues), `deadline` absolute once opened. `demanded`: work was wanted in it at some time.
    `judged`: it has been counted as met or missed.
    """

    state: WindowState
    index: int
    arms_at: float
    opens_by: float
    opened: float | None
    deadline: float | None
    demanded: bool = False
    judged: bool = False


@dataclass(frozen=True, slots=True)
class QueueMemory:
    """What must survive a restart for one queue. All of it is saved in the queue's status.

    promise: the accepted spec that is in force (a changed spec is a new candidate until decided). For a queue that is not
        admitted: the spec that was refused or is held.
    admission_order: position in which it was admitted; classes come back in this order.
    ledger_value, ledger_rate, ledger_as_of: dominant-share-seconds received in the current period; read at time t as
        value + rate x (t - as_of). Written again only when the rate changes.
    period_started: when the current period (opening to opening) began. debt: overrun carried into it; the ledger starts
        there, so what the window consumed is ledger - debt.
    delivered_value, delivered_rate: dominant-share-seconds used since the window opened, spare included, as of ledger_as_of:
        a burst served from spare is served.
    received: resource -> (value, rate), what the ledger counts, resource by resource: seconds of the whole capacity since the period began,
        as of ledger_as_of. The guarantee lasts until each resource has received its declared demand.
    fair_value, fair_rate, fair_as_of: the part of F earned in the current period, read as the ledger is; the rate is the share.
    residual_level: dominant share at which the queue is capped outside its window, kept within the dead band; infinite: none yet.
    bursts, met, missed: counters of ended windows.
    waiting_since, unit_held_since: a queue that rounding leaves at zero takes turns (rounding.py): since when it waits for a whole
        unit, or holds one; None if neither.
    balance_value, balance_rate, balance_as_of: dominant-share-seconds that a throughput queue is behind its fair share (balance.py),
        read as the ledger is. recent_value: the same with half of it forgotten every `batch_memory_seconds`, as of balance_as_of.
    refused: a changed spec that was refused while the old promise stays.
    """

    promise: QueueSpec
    guarantee_class: GuaranteeClass | None
    admission_order: int
    decision: AdmissionDecision | None = None
    window: Window | None = None
    period_started: float = 0.0
    ledger_value: float = 0.0
    ledger_rate: float = 0.0
    ledger_as_of: float = 0.0
    debt: float = 0.0
    bursts: int = 0
    met: int = 0
    missed: int = 0
    delivered_value: float = 0.0
    delivered_rate: float = 0.0
    received: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    fair_value: float = 0.0
    fair_rate: float = 0.0
    fair_as_of: float = 0.0
    residual_level: float = math.inf
    waiting_since: float | None = None
    unit_held_since: float | None = None
    balance_value: float = 0.0
    balance_rate: float = 0.0
    balance_as_of: float = 0.0
    recent_value: float = 0.0
    refused: QueueSpec | None = None

    def ledger(self, now: float) -> float:
        """Dominant-share-seconds received in the current period, as of `now`."""
        return self.ledger_value + self.ledger_rate * max(0.0, now - self.ledger_as_of)

    def delivered(self, now: float) -> float:
        """Dominant-share-seconds used since the window opened, spare included, as of `now`."""
        return self.delivered_value + self.delivered_rate * max(0.0, now - self.ledger_as_of)


@dataclass(frozen=True, slots=True)
class Promised:
    """The declaration in force of one queue, its class, and the index of its present or next burst."""

    promise: QueueSpec
    guarantee_class: GuaranteeClass | None
    burst_index: int

    @property
    def burst(self) -> Burst | None:
        """The burst that a hard or soft queue is in or waits for; None where none is promised."""
        if self.guarantee_class not in {GuaranteeClass.HARD, GuaranteeClass.SOFT}:
            return None
        if isinstance(self.promise.arrival, Schedule):
            bursts = self.promise.arrival.bursts
            return bursts[self.burst_index].burst if self.burst_index < len(bursts) else None
        return self.promise.burst


class Memory:
    """State between rounds, by queue name. A value: `decide` returns a new one and never changes the old.

    `queues` is a view built on demand where the memory came out of `decide`, which keeps it as arrays (`columns`).
    """

    __slots__ = ("columns", "dress", "next_admission_order", "queues")

    queues: Mapping[str, QueueMemory]
    next_admission_order: int
    columns: Columns | None
    dress: DressMemory | None

    def __init__(
        self,
        queues: Mapping[str, QueueMemory] | None = None,
        next_admission_order: int = 0,
        columns: Columns | None = None,
        dress: DressMemory | None = None,
    ) -> None:
        self.queues = {} if queues is None else queues
        self.next_admission_order = next_admission_order
        self.columns = columns
        self.dress = dress

    def kinds(self) -> dict[str, QueueKind]:
        """Kind of each remembered queue, without building what else is remembered of it."""
        if self.columns is not None:
            return {promise.name: promise.kind for promise in self.columns.declared.queues}
        return {name: entry.promise.kind for name, entry in self.queues.items()}

    def promised(self, name: str) -> Promised | None:
        """What one queue is promised, without building what else is remembered of it; None for a queue that is not known."""
        if self.columns is not None:
            row = self.columns.declared.row_of.get(name)
            return None if row is None else self.columns.promised(row)
        entry = self.queues.get(name)
        if entry is None:
            return None
        return Promised(entry.promise, entry.guarantee_class, entry.window.index if entry.window is not None else 0)

    def entry(self, name: str) -> QueueMemory:
        """One of `queues`, which may lack its admission decision: to build that takes longer than all the rest."""
        if self.columns is not None:
            return self.columns.entry(self.columns.declared.row_of[name])
        return self.queues[name]

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Memory):
            return NotImplemented
        same = self.next_admission_order == other.next_admission_order and self.dress == other.dress
        return same and dict(self.queues) == dict(other.queues)

    __hash__ = None  # type: ignore[assignment]  # a value with mappings inside

    @override
    def __repr__(self) -> str:
        return f"Memory(queues={dict(self.queues)!r}, next_admission_order={self.next_admission_order})"


@dataclass(frozen=True, slots=True)
class QueueDecision:
    """One queue's part of a round: a view, made on demand.

    guaranteed + spare = allocation. `level` is what enforcement should permit: the allocation, or more where a burst quota is armed.
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
    """A change worth an Event on the queue. `warning` where a promise became weaker."""

    queue: str
    kind: EventKind
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What one round decided, as arrays over the snapshot's queues (N rows, K columns) and per-queue views on demand.

    next_boundary: the earliest time after `now` at which something changes by itself (a window arms, opens or ends, a budget
    runs out); infinite if nothing does.
    small_level: (N, K) the part of `level` for small jobs of elastic queues, the rest is for large ones; None: DRESS is off.
    reserve_ratio: δ; None: DRESS is off. dress: its numbers and reasons. lead_time: what is held for expected bursts, and why.
    held_back: (N,) the queues that the held room is kept from: their quotas permit just `level`, without slack. None: nothing is held.
    promised: (N, K) the part of `guaranteed` that hard queues have at their rates; None: all of it. The rest is their fair share.
    slots: what PAF gives each of the snapshot's elastic jobs. moved: (K,) by queue what came from other queues by it (negative: went to
        them); `level` contains it, `allocation` does not: it counts as the giver's.
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
    small_level: FloatArray | None = None
    reserve_ratio: float | None = None
    dress: DressResult | None = None
    lead_time: tuple[LeadTimeDecision, ...] = ()
    held_back: BoolArray | None = None
    promised: FloatArray | None = None
    slots: tuple[SlotDecision, ...] = ()
    moved: Mapping[str, FloatArray] = field(default_factory=dict)
