"""Windows of the latency queues: armed, open, overdue, closed; when they begin and end, and whether their bursts were met.

Only hard and soft queues have windows. All intervals are half-open. Decides nothing about amounts.

Choices where the design is silent:
- A periodic queue without a first arrival is armed at admission; the opening that its first burst causes fixes the phase, and each later
  opening fixes the next one (opened + period, give or take the jitter), so that slow drift is followed. If a window opened on schedule and
  ended without any demand, the phase is forgotten and the queue is armed until work arrives; bursts stay at least a period apart, because
  the unused window was no burst.
- A window that opened on schedule and saw no demand counts neither as met nor as missed.
- Work that was created after the end of a window was not demanded in it. This matters if no round ran at the end: the next burst's work
  then says nothing about the last burst. A burst whose work is gone by the next round counts as met, because it may have ended in time.
- A window that lies wholly in the past in its first round (no operator ran) is skipped, uncounted. One that began in the past and still
  runs opens with its remaining time.
- Work of a missed burst that still waits may run first in the next window (`behind`). The burst of that window is met once all that both
  demand has been delivered, or if nothing waits at its end.
- If unfinished work came in such a time (`ClusterSnapshot.unseen_work`), its window opens when it came, and counts as missed if it is over.
  Work that is then left over opens the next window as always, but is not counted again.
- Without an opening the accounting period rolls over after one interarrival time, so that a queue that never bursts has periods too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping, Sequence

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.budget import Account, Current, current_bursts, seconds_until_spent, spent
from fairburst.policy.declared import FLOATING, PERIODIC, SCHEDULE, SPORADIC
from fairburst.policy.model import EventKind, RoundEvent
from fairburst.policy.table import ARMED, CLOSED, HARD, NO_WINDOW, OPEN, OVERDUE, Columns
from fairburst.policy.tolerance import TOLERANCE
from fairburst.policy.window_start import place


def advance(
    columns: Columns, inverse: FloatArray, wants: BoolArray, oldest_work: Mapping[int, float], now: float, events: list[RoundEvent],
    unseen: MutableMapping[int, tuple[float, ...]],
) -> tuple[Current, Account]:  # fmt: skip
    """Carry every window and accounting period forward to `now`. Return the bursts and amounts as of `now`.

    inverse: (K,) 1/C. wants: (N,) whether the queue wants anything at all now. oldest_work: as in `ClusterSnapshot`. unseen: its
    `unseen_work`; the times of windows that have opened are taken from it.
    """
    current = current_bursts(columns, inverse)
    account = Account.of(columns, current, now)
    if not (columns.state != NO_WINDOW).any():
        return current, account
    longest, late = max(map(len, unseen.values()), default=0), list[int]()
    for _ in range(8 + longest):  # each pass takes every row through all its transitions once; a second finds rows that skipped windows
        moved = _judge(columns, current, account, wants, oldest_work, now, events, late)
        moved |= _arm(columns, current, wants, now)
        present = current_bursts(columns, inverse, current) if moved else current
        late = _open_unseen(columns, present, unseen, now, events, late)
        moved |= _open_on_schedule(columns, present, now, events, unseen) | bool(late)
        rolled_over = _roll_over(columns, current, now)
        if moved or rolled_over:
            current = current_bursts(columns, inverse, current)
            account = Account.of(columns, current, now)
        if not moved:
            break
    return current, account


def _judge(
    columns: Columns, current: Current, account: Account, wants: BoolArray, oldest_work: Mapping[int, float], now: float,
    events: list[RoundEvent], late: Sequence[int],
) -> bool:  # fmt: skip
    """End windows at their deadline, and count each burst once, as soon as its outcome is known.

    late: rows whose windows opened for unseen work. If one is over while work waits, that work was not done, whatever ran meanwhile.
    """
    rows = np.flatnonzero((columns.state == OPEN) | (columns.state == OVERDUE))
    if rows.size == 0:
        return False
    is_open, deadline, wanting = columns.state[rows] == OPEN, columns.deadline[rows], wants[rows]
    as_of, burst = columns.ledger_as_of[rows], current.burst[rows]
    demanded = columns.demanded[rows] | (is_open & wanting & (now < deadline))
    columns.demanded[rows] = demanded
    until = np.minimum(now, np.where(is_open, deadline, now))
    delivered = columns.delivered_value[rows] + columns.delivered_rate[rows] * np.maximum(0.0, until - as_of)
    pending = is_open & demanded & ~columns.judged[rows]
    ended = is_open & (now >= deadline)
    wanting = wanting & ~_came_later(rows, ended & wanting, deadline, oldest_work, now)
    unserved = ended & wanting & np.isin(rows, late) if late else np.zeros(len(rows), dtype=bool)
    met = pending & ~unserved & (spent(delivered, burst + columns.behind[rows]) | (ended & ~wanting))
    missed = pending & ended & ~met
    if met.any() or missed.any():
        columns.judged[rows] |= met | missed
        columns.met[rows] += met
        columns.missed[rows] += missed
        columns.bursts[rows] += met | missed
        _report_judged(columns, rows, met, missed, unserved, delivered, burst, events)
    unspent = account.unspent[rows]
    # the fullest resource was served in time within the guarantee; other resources are still owed
    owed = ended & demanded & ~missed & spent(account.consumed[rows], burst)
    done = ~is_open & (~unspent | ~wanting)
    columns.state[rows[ended | done]] = CLOSED
    columns.state[rows[(missed | owed) & unspent & wanting]] = OVERDUE
    over, waits = np.zeros(len(columns.state), dtype=bool), np.zeros(len(columns.state), dtype=bool)
    over[rows[ended | done]], waits[rows[wanting]] = True, True
    _after_end(columns, current, over, waits)
    return bool(over.any())


def _came_later(rows: IntArray, asked: BoolArray, deadline: FloatArray, oldest_work: Mapping[int, float], now: float) -> BoolArray:
    """Return the mask of the `asked` rows whose waiting work was all created at the deadline or later; False if that is unknown.

    A creation time after `now` comes from another clock. Almost all rounds run at the deadline itself, so no work is created in between.
    """
    later = np.zeros(len(rows), dtype=bool)
    for at in np.flatnonzero(asked) if oldest_work else ():
        later[at] = deadline[at] <= oldest_work.get(int(rows[at]), -math.inf) <= now
    return later


def _report_judged(
    columns: Columns, rows: IntArray, met: BoolArray, missed: BoolArray, unserved: BoolArray, delivered: FloatArray,
    declared_burst: FloatArray, events: list[RoundEvent],
) -> None:  # fmt: skip
    """Add an event for each of `rows` that was met or missed; the other arrays are those of `rows`."""
    names = columns.declared.names
    for row in rows[met]:
        events.append(RoundEvent(names[row], EventKind.BURST_MET, f"Burst {columns.index[row]} was served within its deadline."))
    for row, unseen, part_of, whole in zip(rows[missed], unserved[missed], delivered[missed], declared_burst[missed], strict=True):
        behind = float(columns.behind[row])
        part = 100.0 * max(0.0, part_of - behind) / whole if whole > 0 else 100.0
        why = "its work came while no operator looked" if unseen else f"{part:.0f} % of the declared demand had been delivered"
        why += " after the work of earlier bursts" if behind > 0 and not unseen else ""
        message = f"Burst {columns.index[row]} was not served by its deadline: {why}."
        events.append(RoundEvent(names[row], EventKind.BURST_MISSED, message, warning=bool(columns.guarantee[row] == HARD)))


def next_arming(columns: Columns, current: Current) -> tuple[FloatArray, FloatArray]:
    """(N,) each: when the window after the present one arms, and the latest time it opens."""
    declared = columns.declared
    arms, by = np.full(len(columns.state), math.inf), np.full(len(columns.state), math.inf)
    kind = declared.kind
    sporadic = kind == SPORADIC
    arms[sporadic] = (columns.opened + declared.gap)[sporadic]
    floating = kind == FLOATING
    follows = columns.opened + declared.gap
    unused = floating & ~columns.demanded & (columns.state != OPEN)
    arms[floating] = (follows - declared.jitter)[floating]
    by[floating] = (follows + declared.jitter)[floating]
    arms[unused], by[unused] = columns.deadline[unused], math.inf
    periodic = kind == PERIODIC
    nominal = declared.first_arrival + (columns.index + 1) * declared.gap
    arms[periodic] = (nominal - declared.jitter)[periodic]
    by[periodic] = (nominal + declared.jitter)[periodic]
    scheduled = (kind == SCHEDULE) & np.isfinite(current.gap)
    rows = np.flatnonzero(scheduled)
    if rows.size:
        flat = declared.schedules
        at = flat.position(rows, columns.index[rows] + 1)
        arms[rows] = by[rows] = flat.arrival[at]
    return arms, by


def _after_end(columns: Columns, current: Current, ended: BoolArray, waits: BoolArray) -> None:
    """Set the arming times of the next windows of the rows in `ended`. A closed row waits for the next index; overdue rows keep theirs.

    waits: (N,) whether work of the window waits. Its demand is then behind until it has been delivered.
    """
    closed = np.flatnonzero(ended & (columns.state == CLOSED))
    if closed.size == 0:
        return
    arms, by = next_arming(columns, current)
    columns.arms_at[closed], columns.opens_by[closed] = arms[closed], by[closed]
    columns.index[closed] += 1
    columns.opened[closed] = columns.deadline[closed] = math.nan
    columns.demanded[closed] = columns.judged[closed] = False
    columns.behind[closed] = np.where(waits[closed], columns.behind[closed] + current.burst[closed], 0.0)


def _arm(columns: Columns, current: Current, wants: BoolArray, now: float) -> bool:
    """Arm closed rows at their time. Overdue rows give up their claim when the next window arms or their period is over."""
    columns.behind[(columns.behind > 0) & ~wants & (columns.state != OPEN)] = 0.0
    overdue = columns.state == OVERDUE
    if overdue.any():
        arms, _ = next_arming(columns, current)
        over = overdue & (now >= np.minimum(arms, columns.period_started + current.period))
        columns.state[over] = CLOSED
        _after_end(columns, current, over, wants)
    due = (columns.state == CLOSED) & (now >= columns.arms_at)
    columns.state[due] = ARMED
    return bool(due.any())


def _open_unseen(
    columns: Columns, current: Current, unseen: MutableMapping[int, tuple[float, ...]], now: float, events: list[RoundEvent],
    late: Sequence[int],
) -> list[int]:  # fmt: skip
    """Open armed rows when their unseen work came, take its times from `unseen`, and return the rows. Other rules open the rest now.

    late: rows whose last windows opened so. What ran in those was not seen, so that all their demand is behind.
    """
    opened = list[int]()
    for row, came in unseen.items():
        if not came or columns.state[row] != ARMED or came[0] >= columns.opens_by[row] + current.deadline[row]:
            continue
        at = min(max(came[0], float(columns.arms_at[row])), float(columns.opens_by[row]))
        if at >= now:
            continue
        behind = columns.behind[row]
        open_windows(columns, current, np.array([row]), np.array([at]), events)
        columns.demanded[row] = True
        if row in late:
            columns.behind[row] = behind
        opened.append(row)
        unseen[row] = tuple(time for time in came if time >= columns.deadline[row])
    return opened


def count_once(columns: Columns, unseen: Mapping[int, tuple[float, ...]], burst: FloatArray, now: float) -> None:
    """Leave the windows uncounted that open now for unseen work alone that was counted already: `unseen` has no times left for it."""
    for row, came in unseen.items():
        if not came and columns.state[row] == OPEN and columns.opened[row] == now:
            columns.judged[row] = True
            columns.behind[row] = max(0.0, columns.behind[row] - burst[row])  # the window's own demand is a part of it


def _open_on_schedule(
    columns: Columns, current: Current, now: float, events: list[RoundEvent], unseen: Mapping[int, tuple[float, ...]]
) -> bool:
    """Open armed rows at their latest time, with or without demand. Skip windows that are already over."""
    due = (columns.state == ARMED) & (now >= columns.opens_by)
    rows = np.flatnonzero(due)
    if rows.size == 0:
        return False
    length = current.deadline[rows]
    gone = columns.opens_by[rows] + length <= now
    _skip(columns, rows[gone], now, unseen)
    open_windows(columns, current, rows[~gone], columns.opens_by[rows[~gone]], events)
    return True


def _skip(columns: Columns, rows: IntArray, now: float, unseen: Mapping[int, tuple[float, ...]]) -> None:
    """Pass over windows that lie wholly in the past, but not over those of unseen work."""
    floating = rows[columns.declared.kind[rows] == FLOATING]
    columns.opens_by[floating] = math.inf  # the phase is lost: armed until work arrives
    placed = rows[columns.declared.kind[rows] != FLOATING]
    columns.index[placed] += 1
    place(columns, placed, np.array([min([now, *unseen.get(int(row), ())[:1]]) for row in placed]))
    columns.state[placed] = CLOSED


def open_windows(columns: Columns, current: Current, rows: IntArray, at: FloatArray, events: list[RoundEvent]) -> None:
    """Open the windows of `rows` at the times `at`. A new period begins, and its ledger starts at the last one's overrun."""
    if rows.size == 0:
        return
    deadline = current.deadline[rows]
    columns.state[rows] = OPEN
    columns.opened[rows] = columns.last_opened[rows] = at
    columns.deadline[rows] = at + deadline
    columns.demanded[rows] = columns.judged[rows] = False
    _new_period(columns, rows, at)
    columns.behind[rows] = _still_behind(columns, rows)
    columns.delivered_value[rows] = columns.delivered_rate[rows] * np.maximum(0.0, columns.ledger_as_of[rows] - at)
    for row in rows:
        message = f"Burst {columns.index[row]} opened."
        events.append(RoundEvent(columns.declared.names[row], EventKind.BURST_OPENED, message))


def _still_behind(columns: Columns, rows: IntArray) -> FloatArray:
    """(M,) the part of `behind` that has not been delivered since the last windows of `rows` opened."""
    left = columns.behind[rows] - columns.delivered_value[rows]
    return np.where(left > TOLERANCE * np.maximum(columns.behind[rows], 1.0), left, 0.0)


def _new_period(columns: Columns, rows: IntArray, at: FloatArray) -> None:
    """End the accounting periods of `rows` at the times `at`. The excess over F is carried as debt."""
    received = columns.ledger_value[rows] + columns.ledger_rate[rows] * np.maximum(0.0, at - columns.ledger_as_of[rows])
    fair = columns.fair_value[rows] + columns.fair_rate[rows] * np.maximum(0.0, at - columns.fair_as_of[rows])
    debt = np.maximum(0.0, received - fair)
    columns.debt[rows] = debt
    columns.ledger_value[rows] = debt
    columns.received_value[rows] = 0.0
    delivered = columns.delivered_value[rows] + columns.delivered_rate[rows] * np.maximum(0.0, at - columns.ledger_as_of[rows])
    columns.delivered_value[rows] = delivered
    columns.ledger_as_of[rows] = at
    columns.period_started[rows] = at
    columns.fair_value[rows] = 0.0
    columns.fair_as_of[rows] = at
    columns.residual_level[rows] = math.inf


def _roll_over(columns: Columns, current: Current, now: float) -> bool:
    """Begin a new accounting period where one is over and no window has opened. Return whether any was over."""
    ends = columns.period_started + current.period
    over = (columns.state != NO_WINDOW) & (columns.state != OPEN) & (now >= ends)
    rows = np.flatnonzero(over)
    if rows.size == 0:
        return False
    _new_period(columns, rows, ends[rows])
    behind = np.floor((now - columns.period_started[rows]) / current.period[rows])
    again = rows[behind >= 1]
    if again.size:
        _new_period(columns, again, columns.period_started[again] + (behind[behind >= 1]) * current.period[again])
    return True


def next_boundary(columns: Columns, current: Current, account: Account, now: float) -> float:
    """Return the earliest time at which a window arms, opens or ends, a period ends, or a budget runs out at the present rate."""
    state = columns.state
    live = state != NO_WINDOW
    if not live.any():
        return math.inf
    times = [
        at[np.flatnonzero(state == code)] for code, at in ((CLOSED, columns.arms_at), (ARMED, columns.opens_by), (OPEN, columns.deadline))
    ]
    waits = np.flatnonzero(live & (state != OPEN))
    times.append(columns.period_started[waits] + current.period[waits])
    if (state == OVERDUE).any():
        times.append(next_arming(columns, current)[0][state == OVERDUE])
    running = ((state == OPEN) | (state == OVERDUE)) & (columns.ledger_rate > 0)
    if running.any():
        some = np.flatnonzero(running & account.unspent)
        times.append(np.array([now + seconds_until_spent(columns, current, account, some, now)]))
    earliest = [float(values.min()) for values in times if values.size]
    return min(earliest, default=math.inf)


def burst_waits(columns: Columns | None) -> bool:
    """Return whether a window is open whose burst is not served yet."""
    return columns is not None and bool(((columns.state == OPEN) & columns.demanded & ~columns.judged).any())
