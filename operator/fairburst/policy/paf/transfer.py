"""Algorithm 1 of PAF (§III-B) on arrays: moves slots from jobs that lose little progress to jobs that gain much.

It turns fair slots into whole slots. The paper's guarantees for concave curves (Theorem 1) hold for those. On other curves the algorithm
terminates, respects all bounds and is never worse than the fair division.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.drf import dominant_share, inverse_capacity, largest_share, row_any
from fairburst.policy.extras import scipy
from fairburst.policy.paf.fitting import take_that_fit
from fairburst.policy.tolerance import slack_of

# Least progress that justifies a move. Rates that differ by less are equal.
SMALLEST_GAIN = 1e-12
# Number of jobs to reconsider after their next stretch did not fit, and of least worthy stretches to take back for one of them.
_SECOND_LOOKS = 64
_TAKEN_BACK = 1024


def transfer_slots(
    progress: Sequence[FloatArray],
    fair: IntArray,
    minimum: IntArray,
    request: FloatArray,
    available: FloatArray,
    fairness_knob: float | FloatArray,
) -> IntArray:
    """Move slots until no move raises total progress (PAF Algorithm 1).

    Parameters
    ----------
    progress : N arrays; progress rate in [0, 1] with 0, 1, 2 ... slots, up to the most that the job can use
    fair : (N,) int array, slots within the curves; their resources fit `available`
    minimum : (N,) int array, slots that a job needs in any case
    request : (N, K) resource units of one slot of each job
    available : (K,) resource units
    fairness_knob : α in (0, 1], one for all jobs or (N,)

    Returns
    -------
    (N,) int array, slots. Their resources stay within `available`. Every job keeps α of its progress with fair slots. The sum of progress
    is at least that with fair slots.

    Notes
    -----
    The paper takes the least sacrifice rate and the greatest benefit rate from two heaps, a slot at a time. At its end, the slots between
    all jobs' least and most are taken in order of their rates, regardless of their holders. This implementation therefore sorts them once,
    by a stable merge of the jobs' sorted runs, O(M log N), and takes the best that fit. Slots up to the fair share win ties, so that no
    slot moves without a gain.
    On curves that are not concave, a job moves along the corners of the curve's concave majorant, in stretches of several slots (past flat
    parts and dips). `_swap_in` and `_spend_parts` then use what the last stretch left over. Rates are progress per dominant share of
    `available`; for equal slots this is the paper's progress per slot.
    A job at its least slots gives no more but may take (Definition 1: it leaves Y, not J). Ties go to the lower row.
    tests/properties/test_paf.py checks bounds, capacity, total and order, and compares with the paper's heaps, brute force and dynamic
    programming.
    """
    if len(progress) == 0:
        return fair.copy()
    curves = _Curves.of(progress)
    least = _least_slots(curves, fair, minimum, fairness_knob)
    stretches = _Stretches.of(curves, least, fair, request, available)
    capacity = available + slack_of(available)
    order = stretches.worth_taking()
    cost = stretches.size[order, None] * request[stretches.owner[order]]
    taken = take_that_fit(cost, stretches.owner[order], capacity - _use(least, request))
    chosen = order[taken]
    slots = least + np.bincount(stretches.owner[chosen], stretches.size[chosen], minlength=len(fair)).astype(np.int64)
    if not taken.all() and not _is_exact(taken, request[stretches.owner[order]], capacity - _use(slots, request)):
        _swap_in(slots, stretches, order, taken, cost, request, capacity)
        _spend_parts(slots, curves, curves.at(fair) * fairness_knob, request, capacity)
    better = curves.at(slots).sum() > curves.at(fair).sum() + SMALLEST_GAIN
    return slots if better else fair.copy()


def _use(slots: IntArray, request: FloatArray) -> FloatArray:
    """(K,) resource units of all slots together."""
    total: FloatArray = (slots[:, None] * request).sum(axis=0)
    return total


@dataclass(frozen=True, slots=True)
class _Curves:
    """All curves, concatenated.

    value: (P,) progress. owner: (P,) job. slots: (P,) number of slots. zero: (N,) index of a job's point without slots. most: (N,) slots of
    its last point.
    """

    value: FloatArray
    owner: IntArray
    slots: IntArray
    zero: IntArray
    most: IntArray

    @classmethod
    def of(cls, progress: Sequence[FloatArray]) -> _Curves:
        count = np.array([len(curve) for curve in progress], dtype=np.int64)
        zero = np.cumsum(count) - count
        owner = np.repeat(np.arange(len(count)), count)
        value = np.concatenate(progress)
        return cls(value, owner, np.arange(len(value)) - zero[owner], zero, count - 1)

    def at(self, slots: IntArray) -> FloatArray:
        """(N,) progress with these slots."""
        value: FloatArray = self.value[self.zero + slots]
        return value


def _least_slots(curves: _Curves, fair: IntArray, minimum: IntArray, fairness_knob: float | FloatArray) -> IntArray:
    """(N,) fewest slots at or above the minimum that keep `fairness_knob` of the fair progress (Algorithm 1, line 4).

    A job whose fair share is below its minimum keeps exactly its fair share.
    """
    enough = (curves.value >= (fairness_knob * curves.at(fair))[curves.owner]) & (curves.slots >= np.minimum(minimum, fair)[curves.owner])
    return curves.slots[_first_of_each(np.flatnonzero(enough), curves.owner, len(fair))]


def _first_of_each(rows: IntArray, owner: IntArray, count: int) -> IntArray:
    """(count,) first of the ascending `rows` of each owner; every owner has one."""
    first = np.zeros(count, dtype=np.int64)
    first[owner[rows[::-1]]] = rows[::-1]  # the last assignment to a repeated index stands
    return first


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Stretches between neighbouring corners of all curves' concave majorants, sorted by job, then by slots.

    owner: (V,) job. size: (V,) slots. gain: (V,) progress. rate: (V,) progress per dominant share, in integer multiples of SMALLEST_GAIN so
    that rates compare exactly. above: (V,) whether the stretch lies above the fair share.
    """

    owner: IntArray
    size: IntArray
    gain: FloatArray
    rate: IntArray
    above: BoolArray

    @classmethod
    def of(cls, curves: _Curves, least: IntArray, fair: IntArray, request: FloatArray, available: FloatArray) -> _Stretches:
        points = np.flatnonzero(curves.slots >= least[curves.owner])
        corner = points[_on_majorant(curves.value[points], curves.owner[points])]
        begin, end = corner[:-1], corner[1:]
        same = curves.owner[begin] == curves.owner[end]
        begin, end = begin[same], end[same]
        size, gain, owner = end - begin, curves.value[end] - curves.value[begin], curves.owner[end]
        rate = np.rint(gain / (size * _relative_share(request, available)[owner]) / SMALLEST_GAIN).astype(np.int64)
        return cls(owner, size, gain, rate, curves.slots[end] > fair[owner])

    def worth_taking(self) -> IntArray:
        """Return the rows by falling rate: all with a gain, and up to the fair share also those that cost nothing."""
        useful = np.flatnonzero((self.rate > 0) | ((self.rate == 0) & ~self.above))
        return useful[np.argsort(-2 * self.rate[useful] + self.above[useful], kind="stable")]


def _relative_share(request: FloatArray, available: FloatArray) -> FloatArray:
    """(N,) dominant share of a slot relative to the smallest one; 1 for jobs without a dominant share."""
    share = dominant_share(request, available)
    smallest = share.min(initial=np.inf, where=share > 0)
    return np.where(share > 0, share / smallest, 1.0)


def _on_majorant(value: FloatArray, owner: IntArray) -> BoolArray:
    """(P,) whether a point lies on the least concave majorant of its job's points. First and last points always do."""
    step = np.diff(value)
    inside = owner[1:] == owner[:-1]
    on = np.ones(len(value), dtype=bool)
    if ((step[1:] <= step[:-1] + SMALLEST_GAIN) | ~inside[1:] | ~inside[:-1]).all():
        return on
    # The slopes of the majorant are the antitonic regression of the steps. A drop of 3 between jobs keeps their blocks apart, because the
    # steps of curves in [0, 1] differ by at most 2.
    rows = np.flatnonzero(inside)
    blocks = scipy().optimize.isotonic_regression(step[rows] - 3.0 * owner[rows], increasing=False).blocks
    begin, end = rows[blocks[:-1]], rows[blocks[1:] - 1] + 1
    length = end - begin
    block = np.repeat(np.arange(len(begin)), length)
    offset = np.arange(len(block)) - (np.cumsum(length) - length)[block]
    chord = value[begin][block] + ((value[end] - value[begin]) / length)[block] * offset
    on[begin[block] + offset] = value[begin[block] + offset] >= chord - SMALLEST_GAIN
    return on


def _is_exact(taken: BoolArray, slot: FloatArray, left: FloatArray) -> bool:
    """Whether the best stretches were taken without a skip and no job can use a slot of the rest.

    taken: (V,) by falling rate. slot: (V, K) resource units of one slot of each stretch. left: (K,) resource units.
    """
    count = int(taken.sum())
    return bool(taken[:count].all()) and bool(row_any(slot[count:] > left).all())


def _swap_in(
    slots: IntArray, stretches: _Stretches, order: IntArray, taken: BoolArray, cost: FloatArray, request: FloatArray, capacity: FloatArray
) -> None:
    """Take a job's first stretch that did not fit, and take back the least worthy stretches of other jobs for it, if the sum rises.

    Changes `slots` and `taken`. `taken` and `cost` are sorted by falling rate.
    """
    owner, gain = stretches.owner[order], stretches.gain[order]
    refused = np.flatnonzero(~taken)
    losers = np.unique(owner[refused])
    first = np.sort(_first_of_each(refused, owner, len(slots))[losers])[:_SECOND_LOOKS]
    inverse = inverse_capacity(capacity)
    share = largest_share(cost, inverse)
    lowest = float(np.min(gain[taken] / share[taken], initial=np.inf, where=share[taken] > 0))
    used = _use(slots, request)
    for place in first.tolist():
        need = used + cost[place] - capacity
        # the stretches taken back free at least this dominant share, at this rate or a higher one
        if gain[place] <= lowest * float((need * inverse).max()):
            continue
        back = np.flatnonzero(taken)[: -_TAKEN_BACK - 1 : -1]
        back = back[owner[back] != owner[place]]
        enough = ~row_any(np.cumsum(cost[back], axis=0) < need)
        if not enough.any() and (need > 0).any():
            continue
        back = back[: int(np.argmax(enough)) + 1] if (need > 0).any() else back[:0]
        if gain[back].sum() + SMALLEST_GAIN < gain[place]:
            np.subtract.at(slots, owner[back], stretches.size[order[back]])
            taken[back] = False
            slots[owner[place]] += stretches.size[order[place]]
            taken[place] = True
            used = _use(slots, request)


def _spend_parts(slots: IntArray, curves: _Curves, least_progress: FloatArray, request: FloatArray, capacity: FloatArray) -> None:
    """Give parts of stretches to the jobs with the largest gain, along the real curves, until no job gains; changes `slots`."""
    while True:
        left = np.maximum(capacity - _use(slots, request), 0.0)
        room = np.divide(left, request, out=np.full_like(request, np.inf), where=request > 0).min(axis=1)
        room = np.minimum(np.floor(room), curves.most - slots).astype(np.int64)
        rows = np.flatnonzero(room > 0)
        if rows.size == 0:
            return
        job = np.repeat(rows, room[rows])
        more = np.arange(len(job)) - np.repeat(np.cumsum(room[rows]) - room[rows], room[rows]) + 1
        value = curves.value[(curves.zero + slots)[job] + more]
        gain = np.where(value >= least_progress[job], value - curves.at(slots)[job], 0.0)
        best = int(np.argmax(np.round(gain, 12)))
        if gain[best] <= SMALLEST_GAIN:
            return
        slots[job[best]] += more[best]
