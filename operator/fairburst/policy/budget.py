"""The guarantee of a window: the declared burst, its received part, and the end of the guarantee.

A guarantee lasts until every resource has received its declared demand, or the dominant share has received the period's fair share F
(docs/decisions/0180-a-guarantee-lasts-for-every-resource.md). Decides nothing else about windows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.declared import SCHEDULE
from fairburst.policy.drf import largest_share
from fairburst.policy.table import NO_WINDOW, OPEN, OVERDUE, Columns
from fairburst.policy.tolerance import TOLERANCE

_LIKELY = 100  # rows examined first: one of them nearly always has the guarantee that ends first


@dataclass(frozen=True, slots=True)
class Current:
    """The burst that each row is in or waits for.

    rate: (N, K); deadline, gap: (N,) seconds; period: (N,) length of the accounting period; shares: (N, K) d_k / C_k, the declared
    demand in seconds of the whole capacity; burst: (N,) the largest of them, in dominant-share-seconds.
    """

    rate: FloatArray
    shares: FloatArray
    deadline: FloatArray
    gap: FloatArray
    period: FloatArray
    burst: FloatArray


def current_bursts(columns: Columns, inverse: FloatArray, former: Current | None = None) -> Current:
    """Return the declared burst of each row at its present index. It is `former` without schedules, because only these change."""
    declared = columns.declared
    flat = declared.schedules
    if flat.arrival.size == 0 and former is not None:
        return former
    burst, shares = declared.burst(inverse), declared.burst_shares(inverse)
    if flat.arrival.size == 0:
        return Current(declared.rate, shares, declared.deadline, declared.gap, declared.period, burst)
    rows = np.flatnonzero(declared.kind == SCHEDULE)
    at = flat.position(rows, columns.index[rows])
    rate, deadline, gap, burst = declared.rate.copy(order="K"), declared.deadline.copy(), declared.gap.copy(), burst.copy()
    rate[rows], deadline[rows], gap[rows] = flat.rate[at], flat.deadline[at], flat.gap[at]
    burst[rows] = largest_share(flat.demand[at], inverse)
    shares = shares.copy(order="K")
    shares[rows] = flat.demand[at] * inverse
    period = declared.period.copy()
    period[rows] = np.where(np.isfinite(gap[rows]), gap[rows], declared.max_cycle)
    return Current(rate, shares, deadline, gap, period, burst)


@dataclass(frozen=True, slots=True)
class Account:
    """Amounts that each row has received in its period as of one moment. (N,) each, dominant-share-seconds.

    fair: F of the period. budget: min(d, F - debt). unspent: whether the guarantee of an open or overdue window lasts.
    """

    fair: FloatArray
    budget: FloatArray
    ledger: FloatArray
    consumed: FloatArray
    unspent: BoolArray

    @classmethod
    def of(cls, columns: Columns, current: Current, now: float) -> Account:
        fair = fair_share_of_period(columns, current)
        budget = np.maximum(np.minimum(current.burst, fair - columns.debt), 0.0)
        ledger = columns.ledger(now)
        consumed = ledger - columns.debt
        rows = np.flatnonzero((columns.state == OPEN) | (columns.state == OVERDUE))
        unspent = np.zeros(len(ledger), dtype=bool)
        unspent[rows] = has_budget(columns, current, fair, rows, consumed[rows], now)
        return cls(fair, budget, ledger, consumed, unspent)


def fair_share_of_period(columns: Columns, current: Current) -> FloatArray:
    """(N,) F = the integral of the share from opening to the expected next opening; zero for queues without windows."""
    fair = columns.fair(columns.period_started + current.period)
    result: FloatArray = fair * (columns.state != NO_WINDOW)
    return result


def spent(consumed: FloatArray, budget: FloatArray) -> BoolArray:
    """Return whether budgets are used up (within the tolerance)."""
    return consumed >= budget - TOLERANCE * np.maximum(budget, 1.0)


def has_budget(
    columns: Columns, current: Current, fair: FloatArray, rows: IntArray, consumed: FloatArray, now: FloatArray | float
) -> BoolArray:  # fmt: skip
    """Return whether `rows` (M,) have a resource that has not received its declared demand yet, and something left of F.

    fair: (N,) F. consumed: (M,) by `now`, one time or one for each of `rows`. The largest share grows at least as fast as that of any
    resource. While it is below d, the fullest resource is short, and the single resources need no check.
    """
    short = ~spent(consumed, current.burst[rows])
    looked_at = np.flatnonzero(~short)
    if looked_at.size:
        some = rows[looked_at]
        since = np.maximum(0.0, now - columns.ledger_as_of[rows])[looked_at]
        received = columns.received_value[some] + columns.received_rate[some] * since[:, None]
        short[looked_at] = ~spent(received, current.shares[some]).all(axis=1)
    left: BoolArray = short & ~spent(consumed, np.maximum(fair[rows] - columns.debt[rows], 0.0))
    return left


def seconds_until_spent(columns: Columns, current: Current, account: Account, rows: IntArray, now: float) -> float:
    """Return the seconds until the first guarantee of `rows` ends at the present rates; infinite without rows.

    No guarantee ends before the largest share has reached d. This bound needs no look at each resource, and rules out most other rows once
    the likeliest ones are computed.
    """
    if rows.size == 0:
        return math.inf
    speed = columns.ledger_rate[rows]
    consumed = account.consumed[rows]
    of_fair = (np.maximum(account.fair[rows] - columns.debt[rows], 0.0) - consumed) / speed
    at_least = np.minimum(of_fair, np.maximum(current.burst[rows] - consumed, 0.0) / speed)
    likely = np.argpartition(at_least, _LIKELY)[:_LIKELY] if rows.size > _LIKELY else np.arange(rows.size)
    earliest = float(np.minimum(of_fair[likely], _until_all_received(columns, current, rows[likely], now)).min())
    at_least[likely] = math.inf
    others = np.flatnonzero(at_least < earliest)
    if others.size:
        ends = np.minimum(of_fair[others], _until_all_received(columns, current, rows[others], now))
        earliest = min(earliest, float(ends.min()))
    return earliest


def _until_all_received(columns: Columns, current: Current, rows: IntArray, now: float) -> FloatArray:
    """Return the seconds until each resource has received its declared demand; infinite if one receives nothing."""
    since = np.maximum(0.0, now - columns.ledger_as_of[rows])
    longest = np.zeros(len(rows))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for column in range(current.shares.shape[1]):
            rate, declared = columns.received_rate[:, column].take(rows), current.shares[:, column].take(rows)
            received = columns.received_value[:, column].take(rows) + rate * since
            left = (declared - received) / rate
            left[spent(received, declared)] = 0.0
            np.maximum(longest, left, out=longest)
    return longest
