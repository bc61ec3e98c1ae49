"""The only way into the core: one round, from a snapshot and a memory to a result and the next memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairburst.policy import windows
from fairburst.policy.admission import needs_admission, settle
from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.bopf import AllocationInput, allocate
from fairburst.policy.budget import Account, Current, has_budget
from fairburst.policy.checks import check
from fairburst.policy.division import Due, admitted_demand, divide_into_pods
from fairburst.policy.dress.memory import DressMemory
from fairburst.policy.dress.round import dress_round
from fairburst.policy.dress.values import DressResult
from fairburst.policy.dress.waiting import Levels
from fairburst.policy.drf import (
    by_resource,
    inverse_capacity,
    largest_share,
    put_rows,
    row_any_above,
    row_any_short,
    take_rows,
    within_limit,
)
from fairburst.policy.explain import AdmissionDecisions, QueueDecisions, Round, Windows
from fairburst.policy.holding import Held, Limits, holds, lead_times, limit_growth
from fairburst.policy.model import ClusterSnapshot, EventKind, Memory, PolicyConfig, RoundEvent, RoundResult
from fairburst.policy.paf.jobs import SlotDivision
from fairburst.policy.passes import sort_into_passes
from fairburst.policy.rounding import BEGUN_SECONDS, TURN_SECONDS, units_up
from fairburst.policy.slot_round import slot_round
from fairburst.policy.table import ARMED, HARD, NO_WINDOW, NOT_ADMITTED, OPEN, Columns, Quiet, RememberedQueues
from fairburst.policy.tolerance import LONGEST_SECONDS, TIME_STEP_SECONDS

OPENING_FRACTION = 0.5  # of the guaranteed rate; the fair share serves a smaller demand


def decide(snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]:
    """Decide one round.

    Parameters
    ----------
    snapshot : the cluster now; `queues` ascending by `order`, arrays (N, K)
    memory : the memory that the last round returned, or the saved one; `Memory()` at first
    config : pool-wide settings
    now : seconds since the epoch; must not run backwards by more than noise (an earlier time counts as no progress)

    Returns
    -------
    The result, and the memory to give to the next round. The same inputs give the same bytes.

    Raises
    ------
    InvalidSnapshotError, InvalidSpecError, InvalidConfigError : the inputs break their contract. Nothing else raises.

    Notes
    -----
    BoPF Algorithm 1. In order: admission, if one of its inputs has changed; windows and ledgers up to `now`; opening of armed windows
    whose queue demands more than its level outside the window; allocation; whole units; charges.
    """
    quiet = _quiet_round(snapshot, memory, config, now)
    if quiet is not None:
        return quiet, memory
    snapshot = replace(snapshot, demand=by_resource(snapshot.demand), usage=by_resource(snapshot.usage), unit=by_resource(snapshot.unit))
    check(snapshot, config, now)
    columns, next_order, events = _admit(snapshot, memory, config, now)
    inverse = inverse_capacity(np.where(snapshot.committed_capacity > 0, snapshot.committed_capacity, snapshot.live_capacity))
    wanted = _wanted(columns, snapshot)
    wants = row_any_above(wanted, 0.0)
    spending = _Spending.of(columns)
    unseen = dict(snapshot.unseen_work)
    current, account = windows.advance(columns, inverse, wants, snapshot.oldest_work, now, events, unseen)
    hold = holds(columns, snapshot, memory.dress, config, current, account, wanted, now)
    limits = None if hold is None else limit_growth(wanted, snapshot, columns, hold)
    wanted = wanted if limits is None else limits.wanted
    guaranteed, spare, inputs, account = _grant(columns, snapshot, config, current, account, wanted, wants, inverse, now, events)
    windows.count_once(columns, unseen, current.burst, now)
    allocation, guaranteed, making_room, due = divide_into_pods(
        columns, snapshot, config, inputs, guaranteed, spare, inverse, now,
        lends=limits is None,  # room held for a burst is not idle
    )  # fmt: skip
    spent = spending.newly_spent(columns, current, account)
    charge, columns = _charge(columns, snapshot, allocation, guaranteed, inverse, now, spent, None if hold is None else hold.cost)
    events += _spent_events(columns, spent)
    level = _level(columns, inputs, allocation, account)
    slots, level = _move_slots(columns, snapshot, config, due, inputs.wanted, inverse, allocation, level, now)
    dress, dress_memory = _dress(columns, snapshot, allocation, level, memory.dress, config, now)
    if dress_memory is not None and snapshot.jobs is not None:
        dress_memory = replace(dress_memory, lead_times=lead_times(columns, snapshot, dress_memory, hold, current, now))
    if limits is not None:
        level, dress = _close(limits, level, dress)
    boundary = _next_boundary(columns, current, account, hold, dress, now)
    columns = _note_quiet(columns, snapshot, wants, level, account, boundary)
    view = Round(snapshot, config, columns, allocation, guaranteed, level, charge, account.fair, account.budget, account.unspent, now)
    new_memory = Memory(RememberedQueues(columns, AdmissionDecisions(view)), next_order, columns, dress_memory)
    held_back = _either(None if limits is None else limits.held_back, making_room)
    return _result(view, events, boundary, dress, slots, hold, held_back, _promised(inputs, guaranteed)), new_memory


def _admit(snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[Columns, int, list[RoundEvent]]:
    """Return columns that the round may write, the order of the next admission, and the events, after admission if its inputs have
    changed."""
    if memory.columns is None or needs_admission(snapshot, memory.columns, config):
        return settle(snapshot, memory, config, now)
    return memory.columns.copy(), memory.next_admission_order, []


def _either(one: BoolArray | None, other: BoolArray | None) -> BoolArray | None:
    """Return the mask of the rows in either mask; None stands for no rows."""
    return one | other if one is not None and other is not None else one if other is None else other


def _promised(inputs: AllocationInput, guaranteed: FloatArray) -> FloatArray | None:
    """Return the guarantees, for hard queues in their windows at most their rates; None if that lowers no guarantee."""
    given = take_rows(guaranteed, inputs.hard)
    if not row_any_short(inputs.whole_rate, given).any():
        return None
    promised = guaranteed.copy(order="K")
    put_rows(promised, inputs.hard, np.minimum(given, inputs.whole_rate))
    return promised


def _move_slots(
    columns: Columns, snapshot: ClusterSnapshot, config: PolicyConfig, due: Due, wanted: FloatArray, inverse: FloatArray,
    allocation: FloatArray, level: FloatArray, now: float,
) -> tuple[SlotDivision | None, FloatArray]:  # fmt: skip
    """Return the division of slots among elastic jobs, None without any, and the levels after moves between queues. Settles the balances,
    in which what moved counts as the giver's."""
    slots, level = slot_round(snapshot, columns.declared.row_of, allocation, level) if snapshot.elastic_jobs else (None, level)
    due.settle(columns, snapshot, config, wanted, inverse, now, {} if slots is None else slots.moved)
    return slots, level


def _dress(
    columns: Columns, snapshot: ClusterSnapshot, allocation: FloatArray, level: FloatArray, memory: DressMemory | None,
    config: PolicyConfig, now: float,
) -> tuple[DressResult | None, DressMemory | None]:  # fmt: skip
    """Divide levels between small and large jobs if DRESS is on. Tot_R is the capacity without the queues that don't participate."""
    if snapshot.jobs is None or config.dress is None:
        return None, memory
    part = ~columns.declared.latency if snapshot.jobs.taking_part is None else snapshot.jobs.taking_part
    part = part & (columns.guarantee != NOT_ADMITTED)
    pool = np.maximum(snapshot.live_capacity - allocation[~part].sum(axis=0), 0.0)
    levels = Levels(columns.declared.row_of, snapshot.resources, snapshot.demand, snapshot.usage, level, part, snapshot.live_capacity, pool)
    return dress_round(levels, snapshot.jobs, memory, config.dress, now)


def _close(limits: Limits, level: FloatArray, dress: DressResult | None) -> tuple[FloatArray, DressResult | None]:
    """Return the levels while room is held. A closed queue may start only small jobs, which have its whole level."""
    level = limits.close(level)
    if dress is None:
        return level, dress
    return level, replace(dress, small_level=np.where(limits.closed[:, None], level, np.minimum(dress.small_level, level)))


def _next_boundary(
    columns: Columns, current: Current, account: Account, hold: Held | None, dress: DressResult | None, now: float
) -> float:  # fmt: skip
    """Return the earliest time at which a window, a turn, the hold or a phase of DRESS changes by itself."""
    boundary = min(windows.next_boundary(columns, current, account, now), _next_turn(columns, now))
    if dress is not None:
        boundary = min(boundary, dress.next_boundary)
    return boundary if hold is None else min(boundary, hold.until)


def _note_quiet(
    columns: Columns, snapshot: ClusterSnapshot, wants: BoolArray, level: FloatArray, account: Account, boundary: float
) -> Columns:  # fmt: skip
    """Return the columns with what the next round repeats until `boundary`, if in this one there was no demand, no use and no charge."""
    if wants.any() or columns.ledger_rate.any() or columns.delivered_rate.any() or snapshot.usage.any() or snapshot.demand.any():
        return columns
    unit = snapshot.unit.copy() if snapshot.unit.any() else None
    return replace(columns, quiet=Quiet(boundary, snapshot.live_capacity.copy(), unit, level, account.fair, account.budget))


def _result(
    view: Round, events: Sequence[RoundEvent], boundary: float, dress: DressResult | None = None, slots: SlotDivision | None = None,
    hold: Held | None = None, held_back: BoolArray | None = None, promised: FloatArray | None = None,
) -> RoundResult:  # fmt: skip
    return RoundResult(
        now=view.now, queues=view.snapshot.queues, classes=view.columns.classes, allocation=view.allocation,
        guaranteed=view.guaranteed, level=view.level, charge_rate=view.charge,
        events=tuple([_with_numbers(view, event) for event in events]),
        next_boundary=max(boundary, view.now + TIME_STEP_SECONDS), decisions=QueueDecisions(view), windows=Windows(view),
        small_level=None if dress is None else dress.small_level,
        reserve_ratio=None if dress is None else dress.reserve_ratio, dress=dress,
        lead_time=() if hold is None else hold.decisions, held_back=held_back, promised=promised,
        slots=() if slots is None else slots.decisions, moved={} if slots is None else slots.moved,
    )  # fmt: skip


def _with_numbers(view: Round, event: RoundEvent) -> RoundEvent:
    """Add the numbers that explain it to an event with bad news. Good news may concern thousands of queues and has none."""
    if event.kind not in {EventKind.REJECTED, EventKind.PROMISE_CHANGE_REJECTED, EventKind.CLASS_CHANGED}:
        return event
    reasons = AdmissionDecisions(view)[view.columns.declared.row_of[event.queue]].message
    return replace(event, message=f"{event.message} {reasons}" if event.kind is EventKind.CLASS_CHANGED else reasons)


def _quiet_round(snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> RoundResult | None:
    """Return the round if there is no demand and no usage, as in the last one, and no boundary was reached: then nothing can have changed.

    Every comparison is false for NaN, so invalid input still reaches `check`.
    """
    columns = memory.columns
    quiet = None if columns is None else columns.quiet
    if columns is None or quiet is None or snapshot.jobs is not None or not -LONGEST_SECONDS <= now < quiet.until:
        return None
    shape = columns.declared.demand.shape
    if snapshot.unit.shape != shape or snapshot.committed_capacity.shape != shape[1:]:
        return None
    if needs_admission(snapshot, columns, config):
        return None
    for array in (snapshot.demand, snapshot.usage):
        if array.shape != shape or not _all_zero(array):
            return None
    if not (np.array_equal(snapshot.live_capacity, quiet.live_capacity) and _same_units(snapshot.unit, quiet.unit)):
        return None
    nothing = np.broadcast_to(0.0, shape)  # read-only, without memory of its own
    view = Round(snapshot, config, columns, nothing, nothing, quiet.level, nothing[:, 0], quiet.fair, quiet.budget, None, now)
    return _result(view, (), quiet.until)


def _all_zero(array: FloatArray) -> bool:
    """Return whether every number is 0.0, bit for bit, in one pass."""
    return array.dtype == np.float64 and bool(array.view(np.uint64).max(initial=0) == 0)


def _same_units(unit: FloatArray, former: FloatArray | None) -> bool:
    """Return whether the units are the former ones. None stands for all zero, which is cheaper to check."""
    if former is None:
        return _all_zero(unit)
    return np.array_equal(unit, former)


def _wanted(columns: Columns, snapshot: ClusterSnapshot) -> FloatArray:
    """(N, K) demand of admitted queues, scaled down as a whole to the queue's limit."""
    wanted, limit = admitted_demand(columns, snapshot), columns.declared.limit
    return wanted if limit is None else within_limit(wanted, limit)


@dataclass(frozen=True, slots=True)
class _Spending:
    """Windows that were open in the last round, so that each budget is reported once when it runs out. (N,) each; opened: since when."""

    is_open: BoolArray
    opened: FloatArray

    @classmethod
    def of(cls, columns: Columns) -> _Spending:
        return cls(columns.state == OPEN, columns.opened.copy())

    def newly_spent(self, columns: Columns, current: Current, account: Account) -> IntArray:
        """Return the rows whose budgets ran out since they were last charged. Their ledgers must be written now, or the next round would
        find these budgets unspent again."""
        still_open = self.is_open & (columns.state == OPEN) & (columns.opened == self.opened)
        rows = np.flatnonzero(still_open & columns.demanded & ~account.unspent)
        consumed = columns.ledger_value[rows] - columns.debt[rows]
        return rows[has_budget(columns, current, account.fair, rows, consumed, columns.ledger_as_of[rows])]


def _spent_events(columns: Columns, rows: IntArray) -> list[RoundEvent]:
    message = "The declared burst has been delivered in full; until the next window the queue has its residual share."
    return [RoundEvent(columns.declared.names[row], EventKind.BUDGET_SPENT, message) for row in rows]


def _grant(
    columns: Columns, snapshot: ClusterSnapshot, config: PolicyConfig, current: Current, account: Account, wanted: FloatArray,
    wants: BoolArray, inverse: FloatArray, now: float, events: list[RoundEvent],
) -> tuple[FloatArray, FloatArray, AllocationInput, Account]:  # fmt: skip
    """Allocate, open the windows of armed queues whose burst has arrived, and allocate again.

    A burst has arrived when the queue demands more than it gets outside its window, or OPENING_FRACTION of its guaranteed rate: a burst
    that fits the fair share counts too, as met or missed (docs/decisions/0010-a-burst-that-fits-its-fair-share.md).

    Opening one window may push another armed queue below its demand, hence the loop. It ends because windows only open.
    """
    while True:
        inputs = sort_into_passes(columns, snapshot, config, current, account, wanted, wants, inverse, now)
        guaranteed, spare = allocate(inputs, snapshot.live_capacity)
        armed = np.flatnonzero((columns.state == ARMED) & wants)
        if armed.size == 0:
            return guaranteed, spare, inputs, account
        unmet = row_any_short(take_rows(guaranteed, armed), take_rows(wanted, armed))
        rate = largest_share(take_rows(current.rate, armed), inverse)
        opening = armed[unmet | (largest_share(take_rows(wanted, armed), inverse) >= OPENING_FRACTION * rate)]
        if opening.size == 0:
            return guaranteed, spare, inputs, account
        windows.open_windows(columns, current, opening, np.full(opening.size, now), events)
        columns.demanded[opening] = True
        account = Account.of(columns, current, now)


def _charge(
    columns: Columns, snapshot: ClusterSnapshot, allocation: FloatArray, guaranteed: FloatArray, inverse: FloatArray, now: float,
    spent: IntArray, held: FloatArray | None = None,
) -> tuple[FloatArray, Columns]:  # fmt: skip
    """Return (rates, columns): (N,) the rates at which the ledgers of latency queues grow now, and the columns with these rates.

    A queue is charged its use beyond this round's spare, and the room held for it. Writes ledgers only where a rate changed or a budget
    was `spent`, so that a settled cluster has nothing to save.
    """
    guarded = columns.state != NO_WINDOW
    charge = np.zeros(len(guarded))
    if not guarded.any() and not columns.ledger_rate.any() and not columns.delivered_rate.any():
        return charge, columns
    counts = guarded.astype(np.float64)
    received = np.empty(snapshot.usage.shape, order="F")
    delivered, used, differs = np.zeros(len(guarded)), np.empty(len(guarded)), np.zeros(len(guarded), dtype=bool)
    for column, scale in enumerate(inverse):
        share = received[:, column]
        np.multiply(snapshot.usage[:, column], scale, out=used)
        np.maximum(delivered, used, out=delivered)
        if allocation is guaranteed:
            share[:] = used
        else:
            np.subtract(allocation[:, column], guaranteed[:, column], out=share)
            np.subtract(snapshot.usage[:, column], share, out=share)
            share *= scale
            np.maximum(share, 0.0, out=share)
        share *= counts
        np.maximum(charge, share, out=charge)
        differs |= share != columns.received_rate[:, column]
    delivered *= counts
    differs |= delivered != columns.delivered_rate
    if held is not None:
        charge = charge + held
    differs |= charge != columns.ledger_rate
    differs[spent] = True
    changed = np.flatnonzero(differs)
    since = np.maximum(0.0, now - columns.ledger_as_of[changed])
    columns.ledger_value[changed] += columns.ledger_rate[changed] * since
    columns.delivered_value[changed] += columns.delivered_rate[changed] * since
    if changed.size:
        elapsed = np.zeros(len(charge))  # whole columns, because gathering rows of them takes longer
        elapsed[changed] = since
        for column in range(len(inverse)):
            columns.received_value[:, column] += columns.received_rate[:, column] * elapsed
        columns = replace(columns, received_rate=received)
    columns.ledger_as_of[changed] = now
    columns.ledger_rate[changed] = charge[changed]
    columns.delivered_rate[changed] = delivered[changed]
    return charge, columns


def _level(columns: Columns, inputs: AllocationInput, allocation: FloatArray, account: Account) -> FloatArray:
    """(N, K) amounts that quotas should permit: the allocation, or the whole rate of an armed or open hard queue with budget left. Rounding
    to whole pods never raises it above the queue's limit."""
    armed = np.flatnonzero((columns.guarantee == HARD) & (columns.state == ARMED) & (account.budget > 0))
    if armed.size == 0 and inputs.hard.size == 0:
        return allocation
    level = allocation.copy(order="K")
    for rows, whole_rate in ((inputs.hard, inputs.whole_rate), (armed, units_up(inputs.rate, inputs.unit, armed))):
        put_rows(level, rows, np.maximum(take_rows(level, rows), whole_rate))
    return level if columns.declared.limit is None else np.minimum(level, columns.declared.limit)


def _next_turn(columns: Columns, now: float) -> float:
    """Return when the first turn ends. Only a job that lacks pods keeps it for longer than TURN_SECONDS, for BEGUN_SECONDS at most."""
    since = columns.unit_held_since
    ends = since + np.where(now - since < TURN_SECONDS, TURN_SECONDS, BEGUN_SECONDS)
    return float(np.min(ends, where=ends > now, initial=math.inf))
