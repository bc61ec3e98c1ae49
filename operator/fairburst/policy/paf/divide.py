"""PAF within the allocation: each queue's amount is divided among its elastic jobs, first fairly and then by predicted progress.

The module decides whole slots and their reasons. It leaves the queues' amounts to DRF: slots that move between exchanging queues still
count as the giver's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairburst.policy.arrays import FloatArray, IntArray
from fairburst.policy.errors import InvalidConfigError, InvalidSnapshotError
from fairburst.policy.paf.curves import measured_between, problem, rates
from fairburst.policy.paf.jobs import ElasticJob, SlotDecision, SlotDivision, SlotReason
from fairburst.policy.paf.shares import fair_slots
from fairburst.policy.paf.transfer import transfer_slots
from fairburst.policy.tolerance import LARGEST, TOLERANCE

MOST_CONSIDERED = 500_000  # slots of all curves together, beside the fair ones: 4 MB for each array of them
_NOTHING = np.zeros(0)


@dataclass(frozen=True, slots=True)
class SlotRules:
    """Settings of the division.

    fairness_knob: α of PAF: a giver keeps at least this part of its progress with fair slots. The default .99 is the paper's strict case,
    with most of the gain for a negligible loss.
    exchanging: names of the queues that have opted in to giving slots to each other's jobs.
    knobs: α by queue, for queues with a value of their own. A job always keeps its own queue's α.
    """

    fairness_knob: float = 0.99
    exchanging: frozenset[str] = frozenset()
    knobs: Mapping[str, float] = field(default_factory=dict)

    def knob(self, queue: str) -> float:
        """Return α for a queue's jobs."""
        return self.knobs.get(queue, self.fairness_knob)


def divide_slots(jobs: Sequence[ElasticJob], available: Mapping[str, FloatArray], rules: SlotRules) -> SlotDivision:
    """Divide the available amounts into whole slots for every job.

    Parameters
    ----------
    jobs : elastic jobs with distinct names, in any order
    available : (K,) resource units by queue, for all of its elastic jobs together
    rules : α, and the exchanging queues

    Returns
    -------
    A decision for each job, in the order of `jobs`, and the amounts that moved between queues.

    Raises
    ------
    InvalidConfigError : α is not in (0, 1].
    InvalidSnapshotError : names are not distinct; bounds, weights or requests are invalid; a queue has no amount.

    Notes
    -----
    PAF Algorithm 1 runs in each *pool*. A pool is all jobs with a curve that share a category and a queue, or that share a category and
    belong to exchanging queues. Its resources are those of its jobs' fair slots. A queue with a single category adds what its fair slots
    leave over. Every job keeps α of its own fair progress, so each queue's mean does too, with or without exchange. Jobs without a usable
    curve, and jobs with a fair share below their minimum, keep their fair share and take no part.
    """
    _check(jobs, available, rules)
    ordered = sorted(jobs, key=lambda job: job.name)
    table = _Table.of(ordered, available)
    given = table.fair.copy()
    for rows in _pools(table, rules):
        own = [table.progress[row] for row in rows]
        amount = (table.fair[rows, None] * table.request[rows]).sum(axis=0) + _left_over(table, rows, available)
        knobs = np.array([rules.knob(ordered[row].queue) for row in rows])
        given[rows] = transfer_slots(own, table.fair[rows], table.minimum[rows], table.request[rows], amount, knobs)
    decisions = {job.name: _decision(job, table, row, int(given[row]), rules) for row, job in enumerate(ordered)}
    return SlotDivision(tuple(decisions[job.name] for job in jobs), _moved(table, given, available, rules))


@dataclass(frozen=True, slots=True)
class _Table:
    """Jobs sorted by name. refused: the reason to refuse a job's curve, or None. progress: empty without a usable curve."""

    jobs: Sequence[ElasticJob]
    minimum: IntArray
    request: FloatArray
    fair: IntArray
    refused: Sequence[str | None]
    progress: Sequence[FloatArray]

    @classmethod
    def of(cls, jobs: Sequence[ElasticJob], available: Mapping[str, FloatArray]) -> _Table:
        width = len(next(iter(available.values()))) if available else 0
        request = np.array([job.request for job in jobs], dtype=np.float64).reshape(len(jobs), width)
        minimum = np.array([job.minimum for job in jobs], dtype=np.int64)
        maximum = np.array([job.maximum for job in jobs], dtype=np.int64)
        weight = np.array([job.weight for job in jobs], dtype=np.float64)
        fair = np.zeros(len(jobs), dtype=np.int64)
        for rows in _by([job.queue for job in jobs]).values():
            amount = available[jobs[rows[0]].queue]
            fair[rows] = fair_slots(weight[rows], minimum[rows], maximum[rows], request[rows], amount)
        refused = [None if job.curve is None else problem(job.curve, job.maximum) for job in jobs]
        most = _most_slots(fair, maximum, request, np.sum(list(available.values()), axis=0)).tolist()
        progress = [
            _NOTHING if job.curve is None or why is not None else rates(job.curve, end)
            for job, why, end in zip(jobs, refused, most, strict=True)
        ]
        between = [(0.0, math.inf) if job.curve is None else measured_between(job.curve) for job in jobs]
        return cls(jobs, np.maximum(minimum, _least_known(fair, np.array(between).reshape(-1, 2))), request, fair, refused, progress)

    def takes_part(self, row: int) -> bool:
        return len(self.progress[row]) > 0 and bool(self.fair[row] >= self.minimum[row])


def _most_slots(fair: IntArray, maximum: IntArray, request: FloatArray, available: FloatArray) -> IntArray:
    """(N,) most slots that are considered: the maximum, or fewer where no more fit the (K,) `available` of all queues.

    Cost and memory grow with the sum. It stays within `MOST_CONSIDERED` beside the fair slots, of which all jobs have equal parts.
    """
    fit = np.divide(available, request, out=np.full_like(request, np.inf), where=request > 0).min(axis=1, initial=np.inf)
    bound = np.minimum(np.floor(fit * (1 + TOLERANCE)), MOST_CONSIDERED // max(len(fair), 1))
    result: IntArray = np.minimum(maximum, np.maximum(fair, bound).astype(np.int64))
    return result


def _least_known(fair: IntArray, measured: FloatArray) -> IntArray:
    """(N,) slots below which no slot is taken for lack of measurements: the least measured, or the fair share outside the measured range.

    measured: (N, 2) least and most slots. A curve stays flat above the most, so an unmeasured job would look like a giver.
    """
    low, high = np.minimum(measured[:, 0], fair), measured[:, 1]
    return np.where(fair > high, fair, low).astype(np.int64)


def _by(keys: Sequence[object]) -> dict[object, IntArray]:
    """Return the rows of each key, ascending."""
    rows: dict[object, list[int]] = {}
    for row, key in enumerate(keys):
        rows.setdefault(key, []).append(row)
    return {key: np.array(found, dtype=np.int64) for key, found in rows.items()}


def _pools(table: _Table, rules: SlotRules) -> list[IntArray]:
    """Return the groups of rows within which slots may move."""
    keys = [
        (None if job.queue in rules.exchanging else job.queue, job.category) if table.takes_part(row) else None
        for row, job in enumerate(table.jobs)
    ]
    return [rows for key, rows in _by(keys).items() if key is not None]


def _left_over(table: _Table, rows: IntArray, available: Mapping[str, FloatArray]) -> FloatArray:
    """(K,) amount that the fair slots leave over in the pool's queues, counting only queues with a single category."""
    total = np.zeros(table.request.shape[1])
    by_queue = _by([job.queue for job in table.jobs])
    for queue in sorted({table.jobs[row].queue for row in rows}):
        members = by_queue[queue]
        if len({table.jobs[row].category for row in members}) == 1:
            total += np.maximum(available[queue] - (table.fair[members, None] * table.request[members]).sum(axis=0), 0.0)
    return total


def _moved(table: _Table, given: IntArray, available: Mapping[str, FloatArray], rules: SlotRules) -> dict[str, FloatArray]:
    """Return each exchanging queue's use beyond its amount (positive), or the others' use of its amount (negative). The sum is zero."""
    exchanging = [queue for queue in sorted(rules.exchanging) if queue in available]
    use = {queue: np.zeros(table.request.shape[1]) for queue in exchanging}
    for row, job in enumerate(table.jobs):
        if job.queue in use:
            use[job.queue] = use[job.queue] + given[row] * table.request[row]
    beyond = {queue: np.maximum(use[queue] - available[queue], 0.0) for queue in exchanging}
    idle = {queue: np.maximum(available[queue] - use[queue], 0.0) for queue in exchanging}
    borrowed, lendable = (np.sum(list(each.values()), axis=0) for each in (beyond, idle))
    part = np.divide(borrowed, lendable, out=np.zeros_like(borrowed), where=lendable > 0) if exchanging else borrowed
    moved = {queue: beyond[queue] - idle[queue] * part for queue in exchanging}
    return {queue: amount for queue, amount in moved.items() if amount.any()}


def _decision(job: ElasticJob, table: _Table, row: int, given: int, rules: SlotRules) -> SlotDecision:
    fair, curve = int(table.fair[row]), table.progress[row]
    before, after = (float(curve[fair]), float(curve[given])) if len(curve) else (None, None)
    reason, message = _reason(job, table, row, given, rules)
    return SlotDecision(job.name, job.queue, fair, given, before, after, reason.value, message)


def _reason(job: ElasticJob, table: _Table, row: int, given: int, rules: SlotRules) -> tuple[SlotReason, str]:
    fair, curve, refused = int(table.fair[row]), table.progress[row], table.refused[row]
    kept = f"It keeps its fair share of {fair} slots"
    if refused is not None:
        return SlotReason.CURVE_REFUSED, f"{kept}: its progress curve can't be used, {refused}."
    if len(curve) == 0:
        return SlotReason.NO_CURVE, f"{kept}: no progress curve is known for it."
    if fair < job.minimum:
        return SlotReason.BELOW_MINIMUM, f"{kept}, which is below its minimum of {job.minimum}."
    change = f"predicted progress {curve[fair]:.3f} -> {curve[given]:.3f}"
    if given < fair:
        floor = f"at least {rules.knob(job.queue):g} of the fair progress is kept"
        return SlotReason.GAVE, f"It gives {fair - given} of its {fair} fair slots, {change}; {floor}."
    if given > fair:
        return SlotReason.TOOK, f"It takes {given - fair} slots beside its {fair} fair ones, {change}."
    return SlotReason.FAIR, f"{kept}, predicted progress {curve[fair]:.3f}: no move would raise the average."


def _check(jobs: Sequence[ElasticJob], available: Mapping[str, FloatArray], rules: SlotRules) -> None:
    for knob in (rules.fairness_knob, *rules.knobs.values()):
        if not 0 < knob <= 1:
            raise InvalidConfigError(f"fairness_knob: expected a number in (0, 1], found {knob}")
    if len({job.name for job in jobs}) != len(jobs):
        raise InvalidSnapshotError("elastic jobs: expected distinct names")
    for queue, amount in available.items():
        if not (np.isfinite(amount).all() and (amount >= 0).all()):
            raise InvalidSnapshotError(f"slots of {queue}: expected amounts >= 0, found {amount}")
    for job in jobs:
        _check_job(job, available)


def _check_job(job: ElasticJob, available: Mapping[str, FloatArray]) -> None:
    if job.queue not in available:
        raise InvalidSnapshotError(f"elastic job {job.name}: expected a queue with an amount, found {job.queue}")
    if not (math.isfinite(job.weight) and job.weight > 0):
        raise InvalidSnapshotError(f"elastic job {job.name}: expected a weight above 0, found {job.weight}")
    if not 0 <= job.minimum <= job.maximum:
        raise InvalidSnapshotError(f"elastic job {job.name}: expected 0 <= minimum <= maximum, found {job.minimum} and {job.maximum}")
    request = np.asarray(job.request)
    if request.shape != available[job.queue].shape or not ((request >= 0) & (request <= LARGEST)).all() or not (request > 0).any():
        raise InvalidSnapshotError(
            f"elastic job {job.name}: expected a request of {available[job.queue].shape[0]} amounts >= 0, one above, found {request}"
        )
