"""Lead time inside a round: the expected bursts, the free room, and the limits of other queues while room is held."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.budget import Account, Current
from fairburst.policy.declared import FLOATING, PERIODIC, SCHEDULE
from fairburst.policy.dress.learned import Outlook
from fairburst.policy.dress.memory import DressMemory
from fairburst.policy.lead_time import Expected, plan_holds
from fairburst.policy.lead_time_record import LeadTimeDecision, LeadTimeRecord
from fairburst.policy.model import ClusterSnapshot, PolicyConfig
from fairburst.policy.rounding import units_up
from fairburst.policy.table import ARMED, CLOSED, HARD, OPEN, OVERDUE, Columns

LATE_SECONDS = 5.0  # a burst that is sent at its time reaches the cluster some seconds later, pod by pod


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The room that a round holds for expected bursts, and its cost.

    room: (K,) free room that others may take. extra: (N, K) in addition, for small jobs that end in time. cost: (N,) dominant share that
    is charged to the ledger of each queue for which room is held. until: the time at which the room for late bursts is released.
    """

    room: FloatArray
    extra: FloatArray
    cost: FloatArray
    decisions: tuple[LeadTimeDecision, ...]
    until: float


def holds(
    columns: Columns, snapshot: ClusterSnapshot, memory: DressMemory | None, config: PolicyConfig, current: Current, account: Account,
    wanted: FloatArray, now: float,
) -> Held | None:  # fmt: skip
    """Return the hold of this round; None if no queue requests lead time or no jobs are known (both found without reading the arrays)."""
    if snapshot.jobs is None or config.dress is None:
        return None
    rows = [row for row in columns.declared.lead_time_rows if columns.guarantee[row] == HARD]
    if not rows:
        return None
    whole_rate = units_up(current.rate, snapshot.unit, np.array(rows, dtype=np.int64))
    late = _is_late(columns, now)
    arrival, slack = np.where(late, now, np.maximum(columns.arms_at, now)), account.fair - account.ledger
    records = {} if memory is None else memory.lead_times
    specs = [snapshot.queues[row] for row in rows]
    bursts = [
        Expected(spec.name, float(arrival[row]), rate, float(slack[row]), records.get(spec.name, LeadTimeRecord()).resting)
        for row, rate, spec in zip(rows, whole_rate, specs, strict=True)
        if late[row] or _is_expected(columns, row)
    ]
    if not bursts:
        return None
    outlook = None if memory is None else Outlook.of(memory.families, snapshot.jobs.tasks, now)
    hold = plan_holds(bursts, _free(columns, snapshot, current, account, wanted), snapshot.live_capacity, outlook, snapshot.jobs.pending,
                      now, config.max_lead_seconds)  # fmt: skip
    cost, extra = np.zeros(len(wanted)), np.zeros_like(wanted)
    row_of = columns.declared.row_of
    for decision in hold.decisions:
        cost[row_of[decision.queue]] = decision.cost_rate
    for queue, request in hold.extra:
        if queue in row_of:
            extra[row_of[queue]] += request
    until = float(np.min(columns.opened + LATE_SECONDS, where=late, initial=math.inf))
    return Held(hold.room, extra, cost, hold.decisions, until)


def lead_times(
    columns: Columns, snapshot: ClusterSnapshot, memory: DressMemory, held: Held | None, current: Current, now: float
) -> Mapping[str, LeadTimeRecord]:
    """Return the cost and the gain of lead time, by queue that requests it."""
    asking = columns.declared.lead_time_rows
    decisions = {} if held is None else {decision.queue: decision for decision in held.decisions}
    delivered, found = columns.delivered(now) if asking else current.burst, dict[str, LeadTimeRecord]()
    for row in asking:
        name, burst = snapshot.queues[row].name, float(current.burst[row])
        came = min(float(delivered[row]) / burst, 1.0) if burst > 0 else 0.0
        record = memory.lead_times.get(name, LeadTimeRecord())
        found[name] = record.advanced(decisions.get(name), int(columns.index[row]), came, now)
    return found


def _is_late(columns: Columns, now: float) -> BoolArray:
    """(N,) windows that opened by the clock and whose work has not arrived yet. Their room is held for some more seconds."""
    late: BoolArray = (columns.state == OPEN) & ~columns.demanded & (now < columns.opened + LATE_SECONDS)
    return late


def _is_expected(columns: Columns, row: int) -> bool:
    """Return whether the row's next burst has a known time, by a phase or a schedule, and has not begun. A window that is armed until work
    arrives has none."""
    kind, state = columns.declared.kind[row], columns.state[row]
    if state == CLOSED:
        return kind in {PERIODIC, SCHEDULE, FLOATING} and bool(np.isfinite(columns.arms_at[row]))
    return bool(state == ARMED and kind in {PERIODIC, SCHEDULE} and np.isfinite(columns.opens_by[row]))


def _free(
    columns: Columns, snapshot: ClusterSnapshot, current: Current, account: Account, wanted: FloatArray
) -> FloatArray:  # fmt: skip
    """Return (K,) capacity that no queue uses and no open guarantee claims."""
    claims = (columns.guarantee == HARD) & ((columns.state == OPEN) | (columns.state == OVERDUE)) & account.unspent
    unserved = np.maximum(np.minimum(current.rate, wanted) - snapshot.usage, 0.0)[claims].sum(axis=0)
    free: FloatArray = np.maximum(snapshot.live_capacity - snapshot.usage.sum(axis=0) - unserved, 0.0)
    return free


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """Amounts that a hold leaves to other queues.

    wanted: (N, K) demand that counts. held_back: (N,) queues from which the room is kept. closed: (N,) those of them of which
    not even one more pod fits the room. entry: (N, K) the level at which their quotas admit only `extra`.
    """

    wanted: FloatArray
    held_back: BoolArray
    closed: BoolArray
    entry: FloatArray

    def close(self, level: FloatArray) -> FloatArray:
        """(N, K) levels with those of closed queues at their entry, below their use: a quota that follows their use down would be filled
        again whenever a pod ends before it is written."""
        return np.where(self.closed[:, None], self.entry, level)


def limit_growth(wanted: FloatArray, snapshot: ClusterSnapshot, columns: Columns, held: Held) -> Limits | None:
    """Return the demand that counts while room is held. None if nothing is held.

    Guaranteed queues keep their demand. Throughput queues keep their use, and may add whole units as far as the room suffices,
    and small jobs that end in time.

    All of them grow by the same part of their additional demand. Fair sharing orders them once the hold is over.
    """
    if not any(decision.holding for decision in held.decisions):
        return None
    limited = ~columns.declared.latency
    growth = np.maximum(wanted - snapshot.usage, 0.0) * limited[:, None]
    total = growth.sum(axis=0)
    part = float(np.min(np.divide(held.room, total, out=np.ones_like(held.room), where=total > 0), initial=1.0))
    allowed = _whole(growth * part, snapshot.unit) + held.extra
    grown = np.minimum(wanted, snapshot.usage + allowed)
    return Limits(
        wanted=np.where(limited[:, None], grown, wanted),
        held_back=limited,
        closed=limited & (_whole(np.broadcast_to(held.room, wanted.shape), snapshot.unit) <= 0).all(axis=1),
        entry=np.where((held.extra > 0).any(axis=1, keepdims=True), grown, 0.0),
    )


def _whole(amount: FloatArray, unit: FloatArray) -> FloatArray:
    """(N, K) whole multiples of the unit, because rounding would complete a part of a unit from the held room.

    The amount itself where no unit is known, or one so small that rounding changes nothing.
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        count = np.floor(np.min(np.where(unit > 0, amount / unit, np.inf), axis=1) + 1e-9)
    counted = np.isfinite(count)[:, None]
    result: FloatArray = np.where(counted, np.where(counted, count[:, None], 0.0) * unit, amount)
    return result
