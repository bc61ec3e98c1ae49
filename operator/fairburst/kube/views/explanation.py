"""The sentence that says which work of a queue waits, and why. Pure.

It contains no running times and changes only with a figure of the status, so it costs no write of its own. It names no other queue.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import GuaranteeClass, QueueDecision
from fairburst.policy.tolerance import TOLERANCE, exceeds
from fairburst.quantity import format_quantity

NOTHING_WAITS = "NothingWaits"
_BY_REASON = {
    "Suspended": "the queue is suspended, so no new work starts.",
    "NotAdmitted": "the queue is not admitted, so it has only what admitted queues leave; the condition Admitted says why.",
    "BudgetSpent": "the burst has used all that it declares, the rest comes by fair share. Declare more to be served faster.",
    "Overdue": "the burst is past its deadline and has its fair share now.",
}

ROOM, FAIR_SHARE, ITS_RATE, HARD_QUEUES = "WaitsForRoom", "WaitsForFairShare", "WaitsForItsRate", "WaitsForHardQueues"
CAUSES = (*_BY_REASON, ROOM, FAIR_SHARE, ITS_RATE, HARD_QUEUES)


def waiting_of(demand: FloatArray, usage: FloatArray, resources: tuple[str, ...]) -> dict[str, float]:
    """Return the demand beyond the use, by resource."""
    left = np.where(exceeds(demand, usage), demand - usage, 0.0)
    return {name: float(amount) for name, amount in zip(resources, left, strict=True) if amount > 0}


def explanation(decision: QueueDecision, demand: FloatArray, usage: FloatArray, resources: tuple[str, ...]) -> str:
    """Return the sentence: what waits, which resource it lacks, and why.

    demand, usage: (K,) in resource units, in the order of `resources`.
    """
    waiting = waiting_of(demand, usage, resources)
    if not waiting:
        return "Nothing waits: all that the queue wants runs." if demand.any() else "Nothing is wanted."
    said = f"{_amounts(waiting)} wait: "
    if decision.reason in _BY_REASON:
        return said + _BY_REASON[decision.reason]
    scarce = _scarce(demand, decision.allocation, resources)
    if scarce is None:
        return f"{said}the allocation covers them; they wait for pods to be created, for a node with room, or for running work to end."
    name, given, wanted = scarce
    had = f"the queue has {format_quantity(name, given)} of {format_quantity(name, wanted)} {name}, "
    if decision.reason != "InWindow":
        return f"{said}{had}its fair share and what others leave."
    if decision.guarantee_class is GuaranteeClass.HARD:
        return f"{said}{had}its promised rate and what others leave."
    return f"{said}{had}what the promises to hard queues leave."


def cause(decision: QueueDecision, demand: FloatArray, usage: FloatArray, resources: tuple[str, ...]) -> tuple[str, str]:
    """Return the content of `explanation` without its figures: a reason in CamelCase, and the scarce resource or "".

    The arguments are those of `explanation`.
    """
    if not waiting_of(demand, usage, resources):
        return NOTHING_WAITS, ""
    if decision.reason in _BY_REASON:
        return decision.reason, ""
    scarce = _scarce(demand, decision.allocation, resources)
    if scarce is None:
        return ROOM, ""
    if decision.reason != "InWindow":
        return FAIR_SHARE, scarce[0]
    return (ITS_RATE if decision.guarantee_class is GuaranteeClass.HARD else HARD_QUEUES), scarce[0]


def _scarce(demand: FloatArray, given: FloatArray, resources: tuple[str, ...]) -> tuple[str, float, float] | None:
    """Return the resource of which the largest part is missing, with what is given and wanted; None if nothing is."""
    missing = np.where(demand > 0, 1 - given / np.where(demand > 0, demand, 1.0), 0.0)
    at = int(np.argmax(missing))
    return None if missing[at] <= TOLERANCE else (resources[at], float(given[at]), float(demand[at]))


def _amounts(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{format_quantity(name, amount)} {name}" for name, amount in amounts.items())
