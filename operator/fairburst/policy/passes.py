"""Sort the queues into the passes of the allocation: hard, overdue, soft, elastic, and the caps of those outside their windows."""

from __future__ import annotations

import math

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.balance import catch_up
from fairburst.policy.bopf import AllocationInput
from fairburst.policy.budget import Account, Current, spent
from fairburst.policy.drf import dominant_share, inverse_capacity, largest_share, take_rows
from fairburst.policy.model import ClusterSnapshot, PolicyConfig
from fairburst.policy.rounding import units_up
from fairburst.policy.table import HARD, NO_WINDOW, OPEN, OVERDUE, SOFT, Columns
from fairburst.policy.tolerance import TIME_STEP_SECONDS


def sort_into_passes(
    columns: Columns,
    snapshot: ClusterSnapshot,
    config: PolicyConfig,
    current: Current,
    account: Account,
    wanted: FloatArray,
    wants: BoolArray,
    inverse: FloatArray,
    now: float,
) -> AllocationInput:
    """Sort the queues into the passes of the allocation."""
    declared, state = columns.declared, columns.state
    factor = catch_up(columns, wants, snapshot.unit, inverse, config.batch_memory_seconds, now)
    weight = declared.weight if factor is None else declared.weight * factor
    elastic = np.ones(len(state), dtype=bool)
    cap = np.full(len(state), math.inf)
    none = np.zeros(0, dtype=np.int64)
    hard = overdue = soft = none
    if (state != NO_WINDOW).any():
        unspent = account.unspent & (account.budget > 0)
        in_window = (state == OPEN) & unspent
        hard = np.flatnonzero(in_window & (columns.guarantee == HARD))
        hard = hard[np.argsort(columns.admission_order[hard], kind="stable")]
        soft = np.flatnonzero(in_window & (columns.guarantee == SOFT) & wants)
        burst, consumed = current.burst[soft], account.consumed[soft]
        remaining = np.maximum(burst - consumed, 0.0) + np.where(spent(consumed, burst), math.inf, 0.0)
        soft = soft[np.lexsort((declared.name_rank[soft], columns.deadline[soft], remaining))]
        late = np.flatnonzero((state == OVERDUE) & unspent)
        late = late[np.lexsort((declared.name_rank[late], columns.deadline[late]))]
        overdue = late[columns.guarantee[late] == HARD]
        if not config.soft_ends_at_deadline:
            soft = np.concatenate([soft, late[(columns.guarantee[late] == SOFT) & wants[late]]])
        elastic[hard] = elastic[soft] = elastic[overdue] = False
        outside = np.flatnonzero(elastic & (state != NO_WINDOW) & wants)
        cap[outside] = _residual(columns, outside, account, current, config, now)
        inside = np.flatnonzero(~elastic & wants)
        cap[inside] = _residual_now(columns, inside, account, current, now)
        cap = _to_live_share(cap, wanted, inverse, snapshot.live_capacity)
    return AllocationInput(
        wanted=wanted, rate=current.rate, unit=snapshot.unit, weight=weight, hard=hard, overdue=overdue, soft=soft,
        elastic=elastic, level_cap=cap, whole_rate=units_up(current.rate, snapshot.unit, hard),
    )  # fmt: skip


def _residual(columns: Columns, rows: IntArray, account: Account, current: Current, config: PolicyConfig, now: float) -> FloatArray:
    """(F - ledger) / time left for `rows`. A small rise keeps the old level (dead band); a fall takes effect at once, so that F holds."""
    level = _residual_now(columns, rows, account, current, now)
    former = columns.residual_level[rows]
    keep = (former <= level) & (level <= former * (1.0 + config.level_dead_band))
    level = np.where(keep, former, level)
    columns.residual_level[rows] = level
    return level


def _residual_now(columns: Columns, rows: IntArray, account: Account, current: Current, now: float) -> FloatArray:
    left = np.maximum(columns.period_started[rows] + current.period[rows] - now, TIME_STEP_SECONDS)
    level: FloatArray = np.maximum(account.fair[rows] - account.ledger[rows], 0.0) / left
    return level


def _to_live_share(cap: FloatArray, wanted: FloatArray, inverse: FloatArray, live: FloatArray) -> FloatArray:
    """Convert the caps from shares of the committed capacity, in which ledgers count, to shares of the live one, for DRF."""
    rows = np.flatnonzero(np.isfinite(cap))
    if rows.size == 0 or np.array_equal(inverse, inverse_capacity(live)):
        return cap
    some = take_rows(wanted, rows)
    ledger_share, live_share = largest_share(some, inverse), dominant_share(some, live)
    result = cap.copy()
    result[rows] = np.divide(cap[rows] * live_share, ledger_share, out=np.full(len(rows), math.inf), where=ledger_share > 0)
    return result
