"""Profile `paf-fig10`: the rules of the PAF authors' simulator (PAF §V-B), from jobs and a number of slots to progress rates.

The decision core does not use these rules: fair shares with the authors' artefact, targets in fractions of slots, curves read at the
truncated amount, and slots that never change their owner. The operator runs `fairburst.policy.paf`.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.drf import fill

FIRST_FREE_SECONDS = 1.0  # end of the blocker's first task
BETWEEN_FREE_SECONDS = 0.001  # time between the ends of its further tasks
_NO_MOVE = 1e-12
_NOISE = 1e-9  # rounding error of a sum of slots


@dataclass(frozen=True, slots=True)
class SlotJob:
    """A single-stage job.

    task_seconds: cold run times, in index order. curve: profiled progress with 0, 1, 2 ... slots. warmup_factor: divides the time of each
    task after the first one on a slot. alone_seconds: run time at which progress is 1.
    """

    name: str
    weight: float
    warmup_factor: float
    alone_seconds: float
    task_seconds: FloatArray
    curve: FloatArray

    @property
    def parallelism(self) -> int:
        """The slots that the job requests, as many as its curve covers."""
        return len(self.curve) - 1


FairShare = Callable[[Sequence[SlotJob], float], FloatArray]


def fair_as_the_authors(jobs: Sequence[SlotJob], slots: float) -> FloatArray:
    """(N,) slots, fractional: in proportion to the weight among *all* jobs, at most the job's demand.

    This reproduces the authors' artefact: slots that saturated jobs leave stay unused, because their weight remains in the total.
    """
    weight, demand = _weights(jobs), _demands(jobs)
    share: FloatArray = np.minimum(demand, weight * slots / weight.sum())
    return share


def fair_max_min(jobs: Sequence[SlotJob], slots: float) -> FloatArray:
    """(N,) slots, fractional: weighted max-min fairness."""
    weight, demand = _weights(jobs), _demands(jobs)
    capacity = np.array([float(slots)])
    return demand * fill(demand[:, None], np.full(len(jobs), np.inf), weight, capacity, capacity)


def least_amounts(jobs: Sequence[SlotJob], fair: FloatArray, fairness_knob: float) -> FloatArray:
    """(N,) fair share minus the longest sequence of steps down that keeps α of the progress at the truncated fair share."""
    least = fair.copy()
    for row, job in enumerate(jobs):
        whole = int(fair[row])
        below = job.curve[:whole][::-1] < fairness_knob * job.curve[whole]
        least[row] -= int(np.argmax(below)) if below.any() else whole
    return least


def adjust(jobs: Sequence[SlotJob], fair: FloatArray, fairness_knob: float) -> FloatArray:
    """(N,) Algorithm 1 in single moves of whole slots on fractional amounts, with curves read at the truncated amount.

    A job that has given takes nothing, and a job that has taken gives nothing. The paper proves this for concave curves; the authors'
    program forces it on all curves, so that the loop ends. If one job would be giver and taker at once, the better alternative is taken.
    """
    amount, least = fair.copy(), least_amounts(jobs, fair, fairness_knob)
    gave, took = np.zeros(len(jobs), dtype=bool), np.zeros(len(jobs), dtype=bool)
    steps = [np.diff(job.curve) for job in jobs]
    demand = _demands(jobs)
    sacrifice = np.array([_step_down(steps[row], amount[row]) for row in range(len(jobs))])
    benefit = np.array([_step_up(steps[row], amount[row]) for row in range(len(jobs))])
    while True:
        loss = np.where((amount - 1 >= least - _NOISE) & ~took, sacrifice, np.inf)
        gain = np.where((amount < demand - _NOISE) & ~gave, benefit, -np.inf)
        giver, taker = _pair(loss, gain)
        if giver == taker or not loss[giver] + _NO_MOVE < gain[taker]:
            return amount
        for row, change in ((giver, -1.0), (taker, 1.0)):
            amount[row] += change
            sacrifice[row], benefit[row] = _step_down(steps[row], amount[row]), _step_up(steps[row], amount[row])
        gave[giver] = took[taker] = True


def simulate(jobs: Sequence[SlotJob], slots: int, priority: FloatArray) -> FloatArray:
    """(N,) progress rate of each job: time alone / (end - first start), not clipped; 0 for a job that never got a slot.

    A free slot goes permanently to the job with the fewest slots held / priority among those with tasks to start; ties in order of the
    jobs. priority: (N,) weights (fair) or targets (PAF); a job with priority 0 comes after all others.
    """
    started = [0] * len(jobs)
    held = [0] * len(jobs)
    first, end = np.full(len(jobs), np.nan), np.zeros(len(jobs))
    waiting = [(0.0 if priority[row] > 0 else np.inf, row) for row, job in enumerate(jobs) if len(job.task_seconds)]
    heapq.heapify(waiting)
    seconds = [job.task_seconds.tolist() for job in jobs]
    serial = itertools.count()  # events at the same time stay in order of creation
    busy = [(FIRST_FREE_SECONDS + number * BETWEEN_FREE_SECONDS, next(serial), -1) for number in range(slots)]
    while busy:
        now, _, owner = heapq.heappop(busy)
        if owner < 0:
            owner = _next_owner(waiting, started, seconds)
            if owner < 0:
                continue
            held[owner] += 1
            heapq.heappush(waiting, (held[owner] / priority[owner] if priority[owner] > 0 else np.inf, owner))
            factor = 1.0
        else:
            factor = jobs[owner].warmup_factor
        if started[owner] < len(seconds[owner]):
            if started[owner] == 0:
                first[owner] = now
            ends = now + seconds[owner][started[owner]] / factor
            started[owner] += 1
            end[owner] = max(end[owner], ends)
            heapq.heappush(busy, (ends, next(serial), owner))
    done = np.array([started[row] > 0 for row in range(len(jobs))])
    alone = np.array([job.alone_seconds for job in jobs])
    progress: FloatArray = np.divide(alone, end - first, out=np.zeros(len(jobs)), where=done)
    return progress


def _next_owner(waiting: list[tuple[float, int]], started: list[int], seconds: list[list[float]]) -> int:
    """Pop the first job that has tasks to start from the heap; return -1 if there is none."""
    while waiting:
        _, row = heapq.heappop(waiting)
        if started[row] < len(seconds[row]):
            return row
    return -1


def _pair(loss: FloatArray, gain: FloatArray) -> tuple[int, int]:
    """Return giver and taker, which differ if there is more than one job."""
    giver, taker = int(np.argmin(loss)), int(np.argmax(gain))
    if giver != taker or len(loss) == 1:
        return giver, taker
    other_loss, other_gain = loss.copy(), gain.copy()
    other_loss[giver], other_gain[taker] = np.inf, -np.inf
    second_giver, second_taker = int(np.argmin(other_loss)), int(np.argmax(other_gain))
    with np.errstate(invalid="ignore"):
        keep_taker = gain[taker] - other_loss[second_giver] >= other_gain[second_taker] - loss[giver]
    return (second_giver, taker) if keep_taker else (giver, second_taker)


def _step_down(steps: FloatArray, amount: float) -> float:
    whole = int(amount)
    return float(steps[whole - 1]) if 1 <= whole <= len(steps) else np.inf


def _step_up(steps: FloatArray, amount: float) -> float:
    whole = int(amount)
    return float(steps[whole]) if whole < len(steps) else -np.inf


def _weights(jobs: Sequence[SlotJob]) -> FloatArray:
    return np.array([job.weight for job in jobs], dtype=np.float64)


def _demands(jobs: Sequence[SlotJob]) -> FloatArray:
    return np.array([job.parallelism for job in jobs], dtype=np.float64)
