"""Real-valued allocations to whole units: within capacity, no queue always rounded down, and the same answer round after round.

A queue's unit is its largest pod; amounts are rounded resource by resource, so that a queue of unlike pods is not cut to multiples of
its largest. The amount freed by rounding down goes, unit by unit, to the queues that are owed most (balance.py), and among equals first to
those that would have nothing, then to those that lost the largest part of a unit. So queues take turns, and each keeps its unit for at
least a minute. A queue whose unit is larger than the freed amount has its turn too, once it is owed a minute of that unit: the others
divide the capacity that its unit leaves, until the queue is owed nothing (docs/decisions/0111). A job that starts whole and is larger than
its queue's share is such a unit too (starts.py). A job that has begun to start, in a turn or by its queue's share, has the rest of its pods
before any other unit, because a part of them would hold places and do nothing (docs/decisions/0297).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.drf import add_to_rows, column_sum, dominant_share, fill, put_rows, row_any, row_any_above, row_any_short, take_rows
from fairburst.policy.starts import Starts
from fairburst.policy.tolerance import SMALLEST, TOLERANCE, slack_of

# Time for which a queue keeps the unit of its turn: long enough to start and run something, short compared with a batch job.
TURN_SECONDS = 60.0
# A queue keeps its additional unit until another one is owed a minute of a unit more for each unit that it has anyway, up to this number:
# the more units it has, the less a turn matters to it.
MOST_UNITS_OF_A_TURN = 10.0
FAR_BEHIND_SECONDS = 600.0
# A start that still lacks pods after this time has another obstacle than its queue's level: nodes are too full for one of them, or missing.
BEGUN_SECONDS = 600.0
MOST_LARGE_TURNS = 100  # queues that a round serves one after the other
_SAME_UNIT_PASSES = 8


def units_up(amount: FloatArray, unit: FloatArray, rows: IntArray) -> FloatArray:
    """(M, K) `amount[rows]` rounded up to whole units, resource by resource; unchanged where the unit is zero."""
    result = _empty(rows.size, amount.shape[1])
    for column in range(amount.shape[1]):
        some, one = amount[:, column].take(rows), unit[:, column].take(rows)
        unknown = _where_unknown(one)
        number = _in_units(some, one, unknown)
        _as_amount(np.ceil(number - TOLERANCE * np.maximum(number, 1.0)), some, one, unknown, out=result[:, column])
    return result


def _where_unknown(unit: FloatArray) -> BoolArray | None:
    """Return the mask of units that are zero; None if none is."""
    unknown = unit <= SMALLEST
    return unknown if unknown.any() else None


def _in_units(amount: FloatArray, unit: FloatArray, unknown: BoolArray | None) -> FloatArray:
    """Return each amount in units; zero where the unit is zero."""
    number: FloatArray = amount / (unit if unknown is None else np.where(unknown, math.inf, unit))
    return number


def _as_amount(number: FloatArray, amount: FloatArray, unit: FloatArray, unknown: BoolArray | None, out: FloatArray) -> FloatArray:
    """Convert units to amounts, in `out`; `amount` itself where the unit is zero."""
    np.multiply(number, unit, out=out)
    if unknown is not None:
        np.copyto(out, amount, where=unknown)
    return out


@dataclass(frozen=True, slots=True)
class Turns:
    """Times in seconds since which queues that have nothing wait for a whole unit, and since which queues hold one that others wait for;
    NaN for the other queues. (N,) each.

    owed: (N,) dominant-share-seconds that each queue is behind its fair share.
    """

    waiting_since: FloatArray
    unit_held_since: FloatArray
    owed: FloatArray

    @classmethod
    def none(cls, count: int) -> Turns:
        nothing = np.full(count, math.nan)
        return cls(nothing, nothing, np.zeros(count))


@dataclass(frozen=True, slots=True)
class Rounding:
    """Input of the rounding. N queues, K resources.

    guaranteed: (N, K) part of the total; in the rows of the mask `firm` (N,), hard queues, it is whole already and never lowered.
    wanted: (N, K) upper bound. first: rows that precede all others, in order (soft queues in their turn). yields: (N,) rows that make room
    for a unit larger than the freed amount, and may have one; the others of them then divide the rest by `weight` (N,).
    starts: the next jobs of queues whose jobs start whole; None: there are none.
    """

    guaranteed: FloatArray
    firm: BoolArray
    wanted: FloatArray
    unit: FloatArray
    capacity: FloatArray
    first: IntArray
    name_rank: IntArray
    yields: BoolArray
    weight: FloatArray
    starts: Starts | None = None

    def round_to_units(self, total: FloatArray, turns: Turns, now: float) -> tuple[FloatArray, Turns]:
        """Round `total` (N, K) to whole units. Returns the rounded (N, K), whose sum stays within capacity, and the turns."""
        lowered = row_any_above(self.unit, SMALLEST)
        if lowered.any():
            lowered &= row_any_short(total, self.wanted)
        rows = np.flatnonzero(lowered)
        if rows.size == 0:
            return total, Turns.none(len(total))
        offer, unit = _Offer.of(rows, total, self.guaranteed, self.firm, self.wanted, self.unit), self.unit
        if self.starts is not None:
            offer, unit = offer.to_start(self.starts), self.starts.unit
        line = _Line.of(offer, take_rows(unit, rows), self.capacity, turns, now, self.starts)
        order = line.order(offer, len(total), self.first, self.name_rank)
        rounded, left = self._served(total, offer, line, order, unit)
        taking = self._large_turns(total, rounded, offer, line, order)
        if taking.size:
            claims = offer.floor[taking] + offer.step[taking]
            total, guaranteed = self._make_room(total, rows[taking], claims)
            firm = self.firm | _mask(rows[taking], len(total))
            again = replace(self, guaranteed=guaranteed, firm=firm, yields=np.zeros_like(self.yields))
            rounded, _ = again.round_to_units(total, turns, now)
        else:
            _give_more(rows[order], rounded, self.wanted, self.unit, left)
        return rounded, _take_turns(offer, rounded, turns, line, now, others_wait=taking.size > 0)

    def _served(
        self, total: FloatArray, offer: _Offer, line: _Line, order: IntArray, unit: FloatArray
    ) -> tuple[FloatArray, FloatArray]:  # fmt: skip
        """Return (rounded, left): each row has its floor and, in `order`, its step if that fits. Rows far behind get more."""
        rounded = total.copy(order="K")
        put_rows(rounded, offer.rows, offer.floor)
        left = self.capacity + slack_of(self.capacity) - column_sum(rounded)
        behind = order[line.further[order] > 0][:MOST_LARGE_TURNS]
        if behind.size:
            left = _give(offer.rows[behind], take_rows(offer.step, behind), rounded, left)
            left = _give_further(offer.rows[behind], line.further[behind], rounded, self.wanted, unit, left)
            order = order[~np.isin(order, behind)]
        return rounded, _give(offer.rows[order], take_rows(offer.step, order), rounded, left)

    def _large_turns(self, total: FloatArray, rounded: FloatArray, offer: _Offer, line: _Line, order: IntArray) -> IntArray:
        """Return the positions in the offer of queues that have their turn, as far as room suffices; none if each of them has its step."""
        due = self.yields[offer.rows] & line.is_due & (offer.fraction > 0)
        if not due.any():
            return np.zeros(0, dtype=np.int64)
        if row_any(take_rows(rounded, offer.rows) > offer.floor)[due].all():
            return np.zeros(0, dtype=np.int64)
        room = self.capacity + slack_of(self.capacity) - column_sum(total[~self.yields])
        taking = []
        most_owed = order[np.argsort(-line.claim[order], kind="stable")]
        for position in most_owed[due[most_owed]][:MOST_LARGE_TURNS].tolist():
            claim = offer.floor[position] + offer.step[position]
            if (claim <= room).all():
                room = room - claim
                taking.append(position)
        return np.array(taking, dtype=np.int64)

    def _make_room(self, total: FloatArray, rows: IntArray, claims: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (total, guaranteed) with the whole `claims` (M, K) of `rows`; the other rows that yield share the rest."""
        others = self.yields.copy()
        others[rows] = False
        total, guaranteed, some = total.copy(order="K"), self.guaranteed.copy(order="K"), np.flatnonzero(others)
        put_rows(total, rows, claims)
        put_rows(guaranteed, rows, claims)
        left = np.maximum(self.capacity - column_sum(total[~others]), 0.0)
        desired = take_rows(total, some)
        multiple = fill(desired, np.full(some.size, math.inf), self.weight[some], self.capacity, left)
        put_rows(total, some, desired * multiple[:, None])
        put_rows(guaranteed, some, np.minimum(take_rows(guaranteed, some), take_rows(total, some)))
        return total, guaranteed


def _mask(rows: IntArray, count: int) -> BoolArray:
    result = np.zeros(count, dtype=bool)
    result[rows] = True
    return result


@dataclass(frozen=True, slots=True)
class _Offer:
    """Rows that rounding lowers. floor: (M, K) the whole units below the real share. step: (M, K) difference to the whole units above it.
    fraction: (M,) lost part of a unit. is_zero: (M,) whether the floor is zero."""

    rows: IntArray
    floor: FloatArray
    step: FloatArray
    fraction: FloatArray
    is_zero: BoolArray

    @classmethod
    def of(cls, rows: IntArray, total: FloatArray, guaranteed: FloatArray, firm: BoolArray, wanted: FloatArray, unit: FloatArray) -> _Offer:
        """Compute the offer resource by resource, so that intermediate values stay in the processor's cache."""
        floor, step = _empty(rows.size, total.shape[1]), _empty(rows.size, total.shape[1])
        fraction, whole = np.zeros(rows.size), np.flatnonzero(firm[rows])
        firm_rows = rows[whole]
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
                promised = np.minimum(guaranteed[:, column].take(firm_rows), amount.take(whole))
                down[whole] = np.maximum(down.take(whole), promised)
            number -= margin
            np.ceil(number, out=number)
            _as_amount(number, amount, one, unknown, out=up)
            np.minimum(up, wanted[:, column].take(rows), out=up)
            up -= down
            np.maximum(up, 0.0, out=up)
        return cls(rows, floor, step, fraction, ~row_any_above(floor, 0.0))

    def to_start(self, starts: Starts) -> _Offer:
        """Return the offer with the rest of the next job as the step of each queue whose floor does not hold it."""
        at = np.searchsorted(self.rows, starts.rows)
        known = (at < self.rows.size) & (self.rows[np.minimum(at, self.rows.size - 1)] == starts.rows)
        at, target = at[known], starts.target[known]
        missing = target - take_rows(self.floor, at)
        short = np.flatnonzero((missing > slack_of(target)).any(axis=1))
        at, target, missing = at[short], target[short], np.maximum(missing[short], 0.0)
        step, fraction = self.step.copy(order="K"), self.fraction.copy()
        put_rows(step, at, missing)
        fraction[at] = np.divide(missing, target, out=np.zeros_like(target), where=target > 0).max(axis=1)
        return replace(self, step=step, fraction=fraction)


def _empty(count: int, width: int) -> FloatArray:
    return np.empty((count, width), order="F")


@dataclass(frozen=True, slots=True)
class _Line:
    """Order of the offered rows for an additional unit. (M,) each.

    owed: seconds of a unit that are owed, plus a turn for its holder; infinite in its first minute. held: minus the time since which it
    holds a unit; infinite without one. is_due: whether a minute of a unit is owed, or a turn that began so lasts. further: units beyond
    the step before others have their step: one for each ten minutes of a unit that it is owed, none for a job that starts whole. claim: as
    `owed`, without the first minute. begun: whether its turn is that of a job that lacks some pods, which comes before all others. stuck:
    whether it had that for so long that the pods must lack something else; then it has its turn as if the job had not begun.
    """

    owed: FloatArray
    held: FloatArray
    is_due: BoolArray
    further: FloatArray
    claim: FloatArray
    begun: BoolArray
    stuck: BoolArray

    @classmethod
    def of(cls, offer: _Offer, unit: FloatArray, capacity: FloatArray, turns: Turns, now: float, starts: Starts | None) -> _Line:
        share = dominant_share(unit, capacity)
        owed = np.divide(turns.owed[offer.rows], share, out=np.zeros(len(share)), where=share > 0)
        held = turns.unit_held_since[offer.rows]
        begun = np.zeros(len(owed), dtype=bool) if starts is None else np.isin(offer.rows, starts.rows[starts.begun])
        held = np.where(begun & np.isnan(held), now, held)  # its share permitted the start: the turn for its rest begins now
        stuck = begun & (now - held >= BEGUN_SECONDS)
        holding = ~(np.isnan(held) | stuck)
        begun &= holding
        if not (holding.any() or owed.any()):
            nothing = np.zeros(len(owed), dtype=bool)
            return cls(owed, np.full(len(owed), -math.inf), nothing, owed, owed, nothing, stuck)
        units = np.divide(dominant_share(offer.floor, capacity), share, out=np.zeros(len(share)), where=share > 0)
        turn = TURN_SECONDS * np.clip(units, 1.0, MOST_UNITS_OF_A_TURN)
        fresh = begun | (holding & (now - held < TURN_SECONDS))
        is_due = begun | ((fresh | (owed >= turn) | (holding & (owed > 0))) & (units < MOST_UNITS_OF_A_TURN))
        since = np.where(holding, -held, math.inf)
        claim = np.where(begun, math.inf, np.round(owed + turn * holding, 3))
        rank: FloatArray = np.where(fresh, math.inf, claim)
        further = np.maximum(np.floor(owed / FAR_BEHIND_SECONDS), 0.0)
        if starts is not None:
            further[np.isin(offer.rows, starts.rows)] = 0.0
        return cls(rank, since, is_due, further, claim, begun, stuck)

    def order(self, offer: _Offer, count: int, first: IntArray, name_rank: IntArray) -> IntArray:
        """Return the positions in the offer, in the order in which they are offered an additional unit."""
        keys: list[NDArray[Any]] = [
            name_rank[offer.rows],
            -np.round(offer.fraction, 6),
        ]  # the last key ranks first; one that is the same for all is left out
        zero = offer.is_zero
        if zero.any():
            keys.append(~zero)
        if self.is_due.any() or self.owed.any():
            keys += [-self.held, -self.owed, ~self.begun]
        if first.size:
            place = np.full(count, len(first), dtype=np.int64)
            place[first] = np.arange(len(first))
            keys.append(place[offer.rows])
        return np.lexsort(keys)


def _give_more(rows: IntArray, given: FloatArray, wanted: FloatArray, unit: FloatArray, left: FloatArray) -> None:
    """Allocate the rest: several times one unit to each of `rows` in order, then whole multiples to one row after the other."""
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


def _give_further(
    rows: IntArray, count: FloatArray, given: FloatArray, wanted: FloatArray, unit: FloatArray, left: FloatArray
) -> FloatArray:
    """Give each of `rows`, one after the other, up to `count` (M,) additional units as far as they fit. Return the rest."""
    for row, most in zip(rows.tolist(), count.tolist(), strict=True):
        needed = unit[row] > SMALLEST
        room = np.minimum(left, wanted[row] - given[row])[needed]
        times = min(most, math.floor(float(np.min(room / unit[row][needed]))))
        if times > 0:
            given[row] += times * unit[row]
            left = left - times * unit[row]
    return left


def _next_unit(
    rows: IntArray, given: FloatArray, wanted: FloatArray, unit: FloatArray, left: FloatArray, scarcest_first: IntArray
) -> tuple[IntArray, FloatArray]:
    """Return the `rows` for which another unit fits by itself, and that unit (M, K), cut to the demand.

    scarcest_first: (K,) the order in which resources are checked; after the scarcest few rows are left.
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
    """Add to the rows `rows` of `given` their whole row of `step` if it fits, one after the other. Return the rest."""
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
    """Return how many of the first rows of `step` fit into `left` together."""
    count = len(step)
    for column in np.flatnonzero(column_sum(step) > left):
        count = min(count, int(np.searchsorted(np.cumsum(step[:count, column]), left[column], side="right")))
    return count


def _take_turns(offer: _Offer, rounded: FloatArray, turns: Turns, line: _Line, now: float, *, others_wait: bool) -> Turns:
    """Return the turns: queues that wait with nothing and queues that hold a unit, if any queue waits for one.

    `others_wait`: whether queues have made room for a larger unit, so that those which hold only whole units wait. Of a start that is stuck
    the time stays known.
    """
    count, rows = len(rounded), offer.rows
    parts = offer.fraction > 0
    given = take_rows(rounded, rows)
    raised = parts & row_any(given > offer.floor)
    if raised.sum() == parts.sum() and not others_wait and not line.stuck.any():
        return Turns.none(count)
    waits = parts & offer.is_zero & ~row_any_above(given, 0.0)
    waiting, held = np.full(count, math.nan), np.full(count, math.nan)
    since = turns.waiting_since[rows]
    waiting[rows] = np.where(waits, np.where(np.isnan(since), now, since), math.nan)
    since = turns.unit_held_since[rows]
    keeps = ~np.isnan(since) & (line.begun | (now - since < TURN_SECONDS))
    held[rows] = np.where(line.stuck | (raised & keeps), since, np.where(raised, now, math.nan))
    return Turns(waiting, held, turns.owed)
