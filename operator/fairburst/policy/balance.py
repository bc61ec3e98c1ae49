"""Balance of each backlogged throughput queue: how far it is behind its fair share. It decides turns and catching up.

A queue's balance grows at the rate (fair share - received share), in dominant shares, while it or another queue waits: positive for a
queue that is owed something, negative for one that has had more. The rates of all participating queues sum to zero. Two integrals share one
rate and one time. `balance` keeps everything and decides turns where shares are not whole pods (rounding.py). `recent` decays with a
half-life, as in Kueue's Admission Fair Sharing, and lets a queue that was short catch up soon (`catch_up`).

A queue receives the use of its pods, and room that is kept idle for it although one of its pods fits: a queue that leaves its allocation
unused is not owed it again. Slots that PAF moved from one queue to another count as the giver's (division.py).
Latency queues have ledgers instead and do not participate. Balances are in none of the papers (docs/decisions/0111, 0112).
"""

from __future__ import annotations

import math

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.drf import largest_share, row_any_short, take_rows
from fairburst.policy.table import ELASTIC, NO_WINDOW, Columns
from fairburst.policy.tolerance import SMALLEST, TOLERANCE

# The balance of a queue without waiting work is dropped after this time. A queue is owed at most a day of its largest pod.
FORGOTTEN_SECONDS = 3600.0
MOST_SECONDS = 86_400.0
MOST_BOOST = 2.0  # of the weight of a queue that catches up; one that has had more keeps at least half of its own
FULL_BOOST_AT = 0.25  # of a half-life's fair share: the lack that gives MOST_BOOST; a larger one would decay before it is made up
FEWEST_UNITS = 4.0
BOOST_STEP = 0.1  # weights move in steps, so that levels stay the same in between
_NEARLY_NOTHING = 1e-9


def balance(columns: Columns, now: float) -> FloatArray:
    """(N,) dominant-share-seconds owed as of `now`."""
    result: FloatArray = columns.balance_value + columns.balance_rate * np.maximum(0.0, now - columns.balance_as_of)
    return result


def recent(columns: Columns, rows: IntArray, now: float, half_life: float) -> FloatArray:
    """(M,) the same for these M rows, decayed with a half-life of `half_life` seconds."""
    since, speed = np.maximum(0.0, now - columns.balance_as_of.take(rows)), math.log(2) / half_life
    kept = np.exp(-speed * since)
    result: FloatArray = columns.recent_value.take(rows) * kept + columns.balance_rate.take(rows) * (1.0 - kept) / speed
    return result


def catch_up(columns: Columns, wants: BoolArray, unit: FloatArray, inverse: FloatArray, half_life: float, now: float) -> FloatArray | None:
    """(N,) factors for the weights of throughput queues in this round; None if all are 1.

    A queue that lacks its fair share of a quarter of `half_life` has twice its weight, and one that is as far ahead has half. In between
    the factor moves in steps. A queue whose share is only a few units (N, K) keeps its weight, because turns make up for what it lacks.
    """
    if half_life <= 0 or not (columns.recent_value.any() or columns.balance_rate.any()):
        return None
    weight = columns.declared.weight
    taking_part = wants & (columns.state == NO_WINDOW) & (columns.guarantee == ELASTIC) & ~columns.declared.latency
    share = weight / max(float(weight[wants].sum()), SMALLEST)
    taking_part &= share >= FEWEST_UNITS * largest_share(unit, inverse)
    rows = np.flatnonzero(taking_part)
    lacking = recent(columns, rows, now, half_life) / (share.take(rows) * half_life * FULL_BOOST_AT)
    boost = np.clip(1.0 + lacking, 1.0 / MOST_BOOST, MOST_BOOST)
    boost = np.where(np.abs(boost - 1.0) > BOOST_STEP, np.round(boost / BOOST_STEP) * BOOST_STEP, 1.0)
    if (boost == 1.0).all():
        return None
    factor = np.ones(len(weight))
    factor[rows] = boost
    return factor


def settle(
    columns: Columns, fair: FloatArray, wanted: FloatArray, usage: FloatArray, allocation: FloatArray, unit: FloatArray,
    capacity: FloatArray, inverse: FloatArray, half_life: float, now: float,
) -> None:  # fmt: skip
    """Set the rates from `now` on. fair: (N,) dominant share that each queue should have; the other arrays as in the round.

    Writes values only where a rate changes, so that a settled cluster has nothing to save.
    """
    elastic = (columns.state == NO_WINDOW) & (columns.guarantee == ELASTIC) & ~columns.declared.latency
    waits = elastic & row_any_short(usage, wanted)
    if not waits.any() and not columns.balance_rate.any():
        return
    received = _received(usage, allocation, unit, capacity, inverse)
    part = (waits | (elastic & (received > fair * (1.0 + TOLERANCE)))) if waits.any() else waits
    owed = np.where(part, fair, 0.0)
    total = float(owed.sum())
    scale = float(received[part].sum()) / total if total > SMALLEST else 0.0
    rate = np.where(part, owed * scale - received, 0.0)
    rate[np.abs(rate) < _NEARLY_NOTHING] = 0.0
    rows = np.flatnonzero(rate != columns.balance_rate)
    if rows.size == 0:
        return
    most = MOST_SECONDS * largest_share(take_rows(unit, rows), inverse)
    value = np.clip(balance(columns, now)[rows], -most, most)
    forgotten = (columns.balance_rate[rows] == 0) & (now - columns.balance_as_of[rows] > FORGOTTEN_SECONDS)
    value = np.where(forgotten, 0.0, np.where(part[rows], value, np.minimum(value, 0.0)))
    if half_life > 0:
        columns.recent_value[rows] = recent(columns, rows, now, half_life)
    columns.balance_value[rows] = value
    columns.balance_as_of[rows] = now
    columns.balance_rate[rows] = rate[rows]


def _received(usage: FloatArray, allocation: FloatArray, unit: FloatArray, capacity: FloatArray, inverse: FloatArray) -> FloatArray:
    """(N,) dominant share of each queue's use, and of the idle room that its allocation keeps for it.

    Room in which not one pod of a queue fits is not kept for it: it is a remainder that running pods leave over.
    """
    idle, part = np.maximum(capacity - usage.sum(axis=0), 0.0), 1.0
    fits = np.ones(len(usage), dtype=bool)
    for column, free in enumerate(idle):
        fits &= unit[:, column] <= free * (1.0 + TOLERANCE)
    if not fits.any():
        return largest_share(usage, inverse)
    unused, mask = np.empty(usage.shape, order="F"), fits.astype(np.float64)
    for column, free in enumerate(idle):
        more = unused[:, column]
        np.subtract(allocation[:, column], usage[:, column], out=more)
        np.maximum(more, 0.0, out=more)
        more *= mask
        total = float(more.sum())
        if total > free:
            part = min(part, float(free) / total)
    received, share = np.zeros(len(usage)), np.empty(len(usage))
    for column, scale in enumerate(inverse):  # one column at a time stays in the processor's cache
        np.multiply(unused[:, column], part, out=share)
        share += usage[:, column]
        share *= scale
        np.maximum(received, share, out=received)
    return received
