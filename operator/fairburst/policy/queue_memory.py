"""The core's decision on one queue and its memory of it: class, conditions, window, ledger. Frozen values; this module decides nothing.

Dominant shares are fractions of capacity, time is in seconds since the epoch. `memory.py` writes them as JSON, `table.py` as columns.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from fairburst.policy.spec import Burst, QueueSpec, Schedule


class GuaranteeClass(enum.Enum):
    """Class granted at admission (BoPF §3.3). Rejection is a decision, not a class."""

    HARD = "Hard"
    SOFT = "Soft"
    ELASTIC = "Elastic"


class WindowState(enum.Enum):
    """Position of a latency queue in its period.

    CLOSED: before the next burst may begin. ARMED: its burst quota is written, the burst may begin at any time.
    OPEN: within [opened, deadline). OVERDUE: past the deadline with part of the declared demand not yet delivered;
    its queue keeps its claim, ranked below all queues of its class that are in their windows.
    """

    CLOSED = "Closed"
    ARMED = "Armed"
    OPEN = "Open"
    OVERDUE = "Overdue"


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
    """The decision on one candidate. `guarantee_class` None means rejected. `reason` is CamelCase, `message` a sentence with the numbers.

    safety: condition (1); fairness: (2), None for throughput queues; resource: (3), None if it was not reached.
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
    """The present or next window of a latency queue.

    `opened` is None until the burst begins. `arms_at` is when its quota is written, `opens_by` the latest opening
    (infinite for sporadic queues), `deadline` absolute once opened. `demanded`: the queue has had demand in it.
    `judged`: it has been counted as met or missed. `behind`: dominant-share-seconds of missed bursts whose work waits. It may run
    first, so that it does not count as this burst's. Before the window opens, the last burst's demand as well.
    """

    state: WindowState
    index: int
    arms_at: float
    opens_by: float
    opened: float | None
    deadline: float | None
    demanded: bool = False
    judged: bool = False
    behind: float = 0.0


@dataclass(frozen=True, slots=True)
class QueueMemory:
    """Memory of one queue, which must survive a restart and is saved in the queue's status.

    promise: the accepted spec that is in force (a changed spec is a new candidate until decided). For a queue that is not
        admitted: the spec that was refused or is held.
    admission_order: position in which it was admitted; classes come back in this order.
    ledger_value, ledger_rate, ledger_as_of: dominant-share-seconds received in the current period; read at time t as
        value + rate x (t - as_of). Written again only when the rate changes.
    period_started: when the current period (opening to opening) began. debt: overrun carried into it; the ledger starts
        there, so what the window consumed is ledger - debt.
    last_opened: when the last burst began; None if none did. It outlasts the window of a queue that loses its class.
    delivered_value, delivered_rate: dominant-share-seconds used since the window opened, spare included, as of ledger_as_of:
        a burst served from spare is served.
    received: resource -> (value, rate), the ledger's amounts by resource: seconds of the whole capacity since the period began,
        as of ledger_as_of. The guarantee lasts until each resource has received its declared demand.
    fair_value, fair_rate, fair_as_of: the part of F earned in the current period, read like the ledger; the rate is the share.
    residual_level: dominant share at which the queue is capped outside its window, kept within the dead band; infinite: none yet.
    bursts, met, missed: counters of ended windows.
    waiting_since, unit_held_since: a queue that rounding leaves at zero takes turns (rounding.py): the time since which it waits for a
        whole unit, or holds one; None if neither.
    balance_value, balance_rate, balance_as_of: dominant-share-seconds that a throughput queue is behind its fair share (balance.py),
        read like the ledger. recent_value: the same, decayed with half-life `batch_memory_seconds`, as of balance_as_of.
    refused: a changed spec that was refused while the old promise stays.
    """

    promise: QueueSpec
    guarantee_class: GuaranteeClass | None
    admission_order: int
    decision: AdmissionDecision | None = None
    window: Window | None = None
    period_started: float = 0.0
    last_opened: float | None = None
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
        """Return the dominant-share-seconds received in the current period, as of `now`."""
        return self.ledger_value + self.ledger_rate * max(0.0, now - self.ledger_as_of)

    def delivered(self, now: float) -> float:
        """Return the dominant-share-seconds used since the window opened, spare included, as of `now`."""
        return self.delivered_value + self.delivered_rate * max(0.0, now - self.ledger_as_of)


@dataclass(frozen=True, slots=True)
class Promised:
    """The declaration in force of one queue, its class, and the index of its present or next burst."""

    promise: QueueSpec
    guarantee_class: GuaranteeClass | None
    burst_index: int

    @property
    def burst(self) -> Burst | None:
        """The present or next burst of a hard or soft queue; None if none is promised."""
        if self.guarantee_class not in {GuaranteeClass.HARD, GuaranteeClass.SOFT}:
            return None
        if isinstance(self.promise.arrival, Schedule):
            bursts = self.promise.arrival.bursts
            return bursts[self.burst_index].burst if self.burst_index < len(bursts) else None
        return self.promise.burst
