"""The continuation of a calendar: a later list of its arrivals replaces an earlier one, and promise and window stay the same.

A driver lists the arrivals of a calendar a bounded time ahead. A schedule with the same `calendar` and a later `since` is no changed
promise: its bursts are the accepted ones, at the calendar's later times.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fairburst.policy.model import QueueSpec, Schedule
from fairburst.policy.schedule import BurstTable
from fairburst.policy.table import CLOSED, Columns


def continued(promise: QueueSpec, spec: QueueSpec | None) -> QueueSpec:
    """Return the promise with the arrivals that `spec` lists of the same calendar; the promise itself if `spec` does not continue it."""
    if spec is None or not isinstance(spec.arrival, Schedule) or not isinstance(promise.arrival, Schedule):
        return promise
    if not spec.arrival.calendar or spec.arrival.calendar != promise.arrival.calendar or spec.arrival.since == promise.arrival.since:
        return promise
    return replace(promise, arrival=_with_arrivals_of(promise.arrival, spec.arrival))


def move_index(columns: Columns, row: int, former: Schedule, present: Schedule) -> None:
    """Set the row's window index to its place in the present list: of the same arrival, or the first after the end of the former list."""
    old, new = BurstTable.of(former.bursts).arrival, BurstTable.of(present.bursts).arrival
    index = int(columns.index[row])
    if index < len(old):
        columns.index[row] = int(np.searchsorted(new, old[index]))
        return
    position = int(np.searchsorted(new, old[-1], side="right"))
    columns.index[row] = position
    if columns.state[row] == CLOSED:
        columns.arms_at[row] = columns.opens_by[row] = new[position] if position < len(new) else math.inf


def _with_arrivals_of(promised: Schedule, listed: Schedule) -> Schedule:
    """Return the later list with the promised demand, which is the same for all arrivals of a calendar."""
    old, new = BurstTable.of(promised.bursts), BurstTable.of(listed.bursts)
    count = len(new)
    table = BurstTable(
        old.resources,
        new.arrival,
        np.full(count, old.duration[0]),
        np.full(count, old.deadline[0]),
        np.tile(old.amounts[0], (count, 1)),
    )
    return Schedule(table, listed.calendar, listed.since)
