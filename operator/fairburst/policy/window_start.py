"""First windows of queues that become hard or soft, and windows that are taken from queues that are neither any more.

A queue that gets its class back (it was suspended, or capacity had fallen) within its last window goes on with that window and what is left
of its budget; the burst is not counted. Later than that, its next burst may come an interarrival time after the last one began. So neither
gives it a burst more than it has declared.
"""

from __future__ import annotations

import math

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.declared import PERIODIC, SCHEDULE, Declared
from fairburst.policy.table import CLOSED, NO_WINDOW, OPEN, SOFT, Columns


def forget(columns: Columns, row: int) -> None:
    """Take the window from a row, if it has one."""
    columns.state[row] = NO_WINDOW
    columns.arms_at[row] = columns.opens_by[row] = math.inf
    columns.opened[row] = columns.deadline[row] = math.nan
    columns.demanded[row] = columns.judged[row] = False
    columns.behind[row] = 0.0


def postpone(columns: Columns, row: int, former: Declared, now: float) -> None:
    """Restart a changed arrival, but not within the former interarrival time of the last opening: a change gives no extra burst."""
    forget(columns, row)
    again = columns.last_opened[row] + former.gap[row]
    columns.arms_at[row] = max(now, again) if math.isfinite(again) else now


def begin(columns: Columns, now: float) -> None:
    """Give windows to hard and soft queues that have none; take them from queues that have lost their guarantee."""
    declared = columns.declared
    guaranteed = declared.latency & (columns.guarantee >= SOFT)
    for row in np.flatnonzero(~guaranteed & ((columns.state != NO_WINDOW) | np.isfinite(columns.arms_at))):
        forget(columns, int(row))  # postponed ones too, because the saved memory of a queue without a window has no such time
    fresh = np.flatnonzero(guaranteed & (columns.state == NO_WINDOW))
    if fresh.size == 0:
        return
    postponed = np.isfinite(columns.arms_at[fresh])
    had_one = ~postponed & np.isfinite(columns.last_opened[fresh])
    columns.state[fresh] = CLOSED
    columns.index[fresh] = 0
    columns.arms_at[fresh] = np.where(postponed, columns.arms_at[fresh], now)
    columns.opens_by[fresh] = math.inf
    placed = fresh[~had_one & _is_placed(declared, fresh)]
    place(columns, placed, np.maximum(columns.arms_at[placed], now))
    _take_up(columns, fresh[had_one], now)


def _take_up(columns: Columns, rows: IntArray, now: float) -> None:
    """Go on with the last windows of `rows`, if they are not over. Otherwise the next ones come as after an end of the last."""
    declared, last = columns.declared, columns.last_opened[rows]
    placed = _is_placed(declared, rows)
    place(columns, rows[placed], last[placed])
    opened = ~placed | (columns.arms_at[rows] <= last)  # False if another list of arrivals has none for the last opening
    deadline = last + _deadlines(columns, rows)
    goes_on = opened & (last <= now) & (now < deadline)
    some = rows[goes_on]
    columns.state[some], columns.opened[some], columns.judged[some] = OPEN, last[goes_on], True
    columns.deadline[some] = deadline[goes_on]
    columns.index[rows[opened & placed & ~goes_on]] += 1
    later = rows[placed & ~goes_on]
    place(columns, later, np.full(later.size, now))
    waits = ~placed & ~goes_on
    columns.arms_at[rows[waits]] = np.maximum(last + declared.gap[rows], now)[waits]


def _is_placed(declared: Declared, rows: IntArray) -> BoolArray:
    """(M,) whether the arrivals of `rows` have known times."""
    placed: BoolArray = (declared.kind[rows] == PERIODIC) | (declared.kind[rows] == SCHEDULE)
    return placed


def _deadlines(columns: Columns, rows: IntArray) -> FloatArray:
    """(M,) seconds from opening to deadline, at the present index."""
    declared, flat = columns.declared, columns.declared.schedules
    seconds = declared.deadline[rows]
    scheduled = declared.kind[rows] == SCHEDULE
    some = rows[scheduled]
    seconds[scheduled] = flat.deadline[flat.position(some, columns.index[some])]
    return seconds


def place(columns: Columns, rows: IntArray, now: FloatArray) -> None:
    """Set index, arms_at and opens_by of rows with a known phase to the first window that has not ended at `now`; index only grows."""
    declared = columns.declared
    periodic = declared.kind[rows] == PERIODIC
    some = rows[periodic]
    first, period, jitter = declared.first_arrival[some], declared.gap[some], declared.jitter[some]
    lowest = np.floor((now[periodic] - first - jitter - declared.deadline[some]) / period) + 1
    index = np.maximum(columns.index[some], np.maximum(lowest, 0)).astype(np.int64)
    columns.index[some] = index
    columns.arms_at[some] = first + index * period - jitter
    columns.opens_by[some] = first + index * period + jitter
    flat = declared.schedules
    for row, at in zip(rows[~periodic], now[~periodic], strict=True):
        whole = slice(int(flat.start[row]), int(flat.start[row] + flat.count[row]))
        ends = flat.arrival[whole] + flat.deadline[whole]
        position = max(int(columns.index[row]), int(np.searchsorted(ends, at, side="right")))
        columns.index[row] = position
        arrival = flat.arrival[whole][position] if position < flat.count[row] else math.inf
        columns.arms_at[row] = columns.opens_by[row] = arrival
