"""Real-valued allocations to whole units: within capacity, nobody always rounded down, and the same answer round after round.

A queue's unit is its largest pod; amounts are rounded resource by resource, so that a queue of unlike pods is not cut to multiples of
its largest. What rounding down frees goes, unit by unit, first to queues that would sit at zero, then to those that lost the largest
part of a unit. Only where not every queue at zero can have a unit do they take turns, and then each keeps its unit for a minute.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.drf import add_to_rows, column_sum, put_rows, row_any, row_any_above, row_any_short, take_rows
from fairburst.policy.tolerance import SMALLEST, TOLERANCE, slack_of

# How long a queue whose turn it is keeps the unit: long enough to start and run something, short beside a batch job.
TURN_SECONDS = 60.0
_SAME_UNIT_PASSES = 8


def units_up(amount: FloatArray, unit: FloatArray, rows: IntArray) -> FloatArray:
    """(M, K) `amount[rows]` rounded up to whole units, resource by resource; unchanged where the unit is nothing."""
    result = _empty(rows.size, amount.shape[1])
    for column in range(amount.shape[1]):
        some, one = amount[:, column].take(rows), unit[:, column].take(rows)
        unknown = _where_unknown(one)
        number = _in_units(some, one, unknown)
        _as_amount(np.ceil(number - TOLERANCE * np.maximum(number, 1.0)), some, one, unknown, out=result[:, column])
    return result


def _where_unknown(unit: FloatArray) -> BoolArray | None:
    """Mask of units that are nothing; None if all are something."""
    unknown = unit <= SMALLEST
    return unknown if unknown.any() else None


def _in_units(amount: FloatArray, unit: FloatArray, unknown: BoolArray | None) -> FloatArray:
    """How many units each amount is; zero where the unit is nothing."""
    number: FloatArray = amount / (unit if unknown is None else np.where(unknown, math.inf, unit))
    return number


def _as_amount(number: FloatArray, amount: FloatArray, unit: FloatArray, unknown: BoolArray | None, out: FloatArray) -> FloatArray:
    """Units back to amounts, in `out`; `amount` itself where the unit is nothing."""
    np.multiply(number, unit, out=out)
    if unknown is not None:
        np.copyto(out, amount, where=unknown)
    return out


@dataclass(frozen=True, slots=True)
class Turns:
    """Who waits at zero for a whole unit, and who holds one that others wait for: absolute times, NaN where neither. (N,) each."""

    waiting_since: FloatArray
    unit_held_since: FloatArray


def round_to_units(
    total: FloatArray, guaranteed: FloatArray, firm: BoolArray, wanted: FloatArray, unit: FloatArray, capacity: FloatArray,
    first: IntArray, name_rank: IntArray, turns: Turns, now: float,
) -> tuple[FloatArray, Turns]:  # fmt: skip
    """Round `total` (N, K) to whole units.

    guaranteed: (N, K) part of `total`; in the rows of the mask `firm` (N,), hard queues, it is whole already and never lowered.
    wanted: (N, K) upper bound. first: rows that come before all others, in order (soft queues at their turn).
    Returns the rounded (N, K), whose sum stays within `capacity`, and the turns.
    """
    nobody = Turns(np.full(len(total), math.nan), np.full(len(total), math.nan))
    lowered = row_any_above(unit, SMALLEST)
    if lowered.any():
        lowered &= row_any_short(total, wanted)
    rows = np.flatnonzero(lowered)
    if rows.size == 0:
        return total, nobody
    offer = _Offer.of(rows, total, guaranteed, firm, wanted, unit)
    rounded = total.copy(order="K")
    put_rows(rounded, rows, offer.floor)
    left = capacity + slack_of(capacity) - column_sum(rounded)
    order, at_zero = _order(offer, len(total), first, name_rank, turns, now)
    left = _give(rows[order], take_rows(offer.step, order), rounded, left)
    _give_more(rows[order], rounded, wanted, unit, left)
    return rounded, _take_turns(at_zero, rounded, turns, now) if at_zero.any() else nobody


@dataclass(frozen=True, slots=True)
class _Offer:
    """Rows that rounding lowers. floor: (M, K) the whole units below the real share; step: (M, K) what is missing to those above it;
    fraction: (M,) part of a unit lost."""

    rows: IntArray
    floor: FloatArray
    step: FloatArray
    fraction: FloatArray

    @classmethod
    def of(cls, rows: IntArray, total: FloatArray, guaranteed: FloatArray, firm: BoolArray, wanted: FloatArray, unit: FloatArray) -> _Offer:
        """Resource by resource, so that what is computed in between stays in the processor's cache."""
        floor, step = _empty(rows.size, total.shape[1]), _empty(rows.size, total.shape[1])
        fraction, whole = np.zeros(rows.size), np.flatnonzero(firm[rows])
        for column in range(total.shape[1]):
            amount, one = total[:, column].take(rows), unit[:, column].take(rows)
            unknown = _where_unknown(one)
            number = _in_units(amount, one, unknown)
            margin = TOLERANCE * np.maximum(number, 1.0)
            below = np.floor(number + margin)
            np.maximum(fraction, number - below, out=fraction)
            down, up = floor[:, column], step[:, column]
            _as_amount(below, amount, one, unknown, out=down)
            if whole.size:
                promised = np.minimum(guaranteed[:, column][rows[whole]], amount[whole])
                down[whole] = np.maximum(down[whole], promised)
            number -= margin
            np.ceil(number, out=number)
            _as_amount(number, amount, one, unknown, out=up)
            np.minimum(up, wanted[:, column].take(rows), out=up)
            up -= down
            np.maximum(up, 0.0, out=up)
        return cls(rows, floor, step, fraction)


def _empty(count: int, width: int) -> FloatArray:
    return np.empty((count, width), order="F")


def _order(offer: _Offer, count: int, first: IntArray, name_rank: IntArray, turns: Turns, now: float) -> tuple[IntArray, BoolArray]:
    """Positions in the offer in the order in which they are offered a further unit, and the (N,) mask of those at zero."""
    rows = offer.rows
    zero = ~row_any_above(offer.floor, 0.0)
    keys = [name_rank[rows], -np.round(offer.fraction, 6)]  # the last key ranks first; one that is the same for all is left out
    group = np.where(zero, 1, 2)
    if zero.any():
        held, waiting = turns.unit_held_since[rows], turns.waiting_since[rows]
        longest = np.where(np.isnan(waiting), np.where(np.isnan(held), now, math.inf), waiting)
        keys.append(np.where(zero, np.where(now - held < TURN_SECONDS, -math.inf, longest), 0.0))
    if first.size:
        place = np.full(count, len(first), dtype=np.int64)
        place[first] = np.arange(len(first))
        rank = place[rows]
        group[rank < len(first)] = 0
        keys.append(rank)
    order = np.lexsort((*keys, group))
    at_zero = np.zeros(count, dtype=bool)
    at_zero[rows[zero & (offer.fraction > 0)]] = True
    return order, at_zero


def _give_more(rows: IntArray, given: FloatArray, wanted: FloatArray, unit: FloatArray, left: FloatArray) -> None:
    """Hand out what still fits, a unit each in the order of `rows`, some times over; then whole multiples to one after the other."""
    together = np.maximum(column_sum(unit), SMALLEST)
    for _ in range(_SAME_UNIT_PASSES):
        scarcest_first = np.argsort(left / together, kind="stable")
        rows, step = _next_unit(rows, given, wanted, unit, left, scarcest_first)
        if rows.size == 0:
            return
        left = _give(rows, step, given, left)
    for row in rows:
        room = wanted[row] - given[row]
        step = np.maximum(np.minimum(unit[row], room), 0.0) * (unit[row] > SMALLEST)
        needed = step > 0
        if needed.any() and (step <= left).all():
            times = max(1.0, math.floor(float(np.min(np.minimum(left, room)[needed] / step[needed]))))
            given[row] += times * step
            left = left - times * step


def _next_unit(
    rows: IntArray, given: FloatArray, wanted: FloatArray, unit: FloatArray, left: FloatArray, scarcest_first: IntArray
) -> tuple[IntArray, FloatArray]:
    """Those of `rows` for which another unit fits by itself, and that unit (M, K), cut to what is wanted.

    scarcest_first: (K,) the order in which resources are looked at; the scarcest leaves few rows to look at.
    """
    for column in scarcest_first:
        room = wanted[:, column][rows] - given[:, column][rows]
        rows = rows[np.minimum(unit[:, column][rows], room) <= left[column]]
    known = take_rows(unit, rows)
    known *= known > SMALLEST
    step = np.maximum(np.minimum(known, take_rows(wanted, rows) - take_rows(given, rows)), 0.0)
    some = np.flatnonzero(row_any_above(step, 0.0))
    return rows[some], take_rows(step, some)


def _give(rows: IntArray, step: FloatArray, given: FloatArray, left: FloatArray) -> FloatArray:
    """Add to the rows `rows` of `given` their whole row of `step` where it fits, one after the other. Returns what is left."""
    fits = row_any_above(step, 0.0)
    while rows.size:
        for column, most in enumerate(left):
            fits &= step[:, column] <= most
        if not fits.all():
            fitting = np.flatnonzero(fits)
            rows, step = rows[fitting], take_rows(step, fitting)
        count = _prefix_that_fits(step, left)
        add_to_rows(given, rows[:count], step[:count])
        left = left - column_sum(step[:count])
        rows, step = rows[count:], step[count:]
        fits = np.ones(rows.size, dtype=bool)
    return left


def _prefix_that_fits(step: FloatArray, left: FloatArray) -> int:
    """How many of the first rows of `step` fit into `left` together."""
    count = len(step)
    for column in np.flatnonzero(column_sum(step) > left):
        count = min(count, int(np.searchsorted(np.cumsum(step[:count, column]), left[column], side="right")))
    return count


def _take_turns(at_zero: BoolArray, rounded: FloatArray, turns: Turns, now: float) -> Turns:
    """Note who waits and who holds a unit, if anybody waits at all."""
    nothing = np.full(len(at_zero), math.nan)
    if not at_zero.any():
        return Turns(nothing, nothing)
    served = row_any(rounded > 0)
    waits = at_zero & ~served
    if not waits.any():
        return Turns(nothing, nothing)
    holds = at_zero & served
    waiting = np.where(waits, np.where(np.isnan(turns.waiting_since), now, turns.waiting_since), math.nan)
    still = holds & ~np.isnan(turns.unit_held_since) & (now - turns.unit_held_since < TURN_SECONDS)
    held = np.where(holds, np.where(still, turns.unit_held_since, now), math.nan)
    return Turns(waiting, held)
