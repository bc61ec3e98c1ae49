"""A queue's status: the decision in the form that users read, and the operator's memory of it. Pure.

`status_memory.py` reads the output of `status_of`, so a restart keeps every promise. The accounts are in `internal_status.py`.
`status_plan.py` decides when a status is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairburst.kube.jobs.reserve import ReserveView
from fairburst.kube.queues.core_values import promise_to_status, to_amounts
from fairburst.kube.queues.former_places import in_present_places, with_copies
from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.kube.times import to_text
from fairburst.kube.usage.weekly_use import WeekSums
from fairburst.kube.views.conditions import ConditionValue
from fairburst.kube.views.explanation import explanation, waiting_of
from fairburst.kube.views.internal_status import MILLI, accounts_of
from fairburst.kube.views.lead_time_view import LeadTimeView
from fairburst.kube.views.week_view import week_parts
from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import AdmissionDecision, ConditionResult, QueueDecision, QueueMemory, QueueSpec, Window, WindowState

REJECTED = "Rejected"
ANOTHER_QUEUE = "another queue"
_SHARES = ("allocatedShare", "usedShare", "waitingShare")


@dataclass(frozen=True, slots=True)
class StatusInput:
    """The input for one queue's status. `decision`, `memory` and the arrays are None for a queue that governs no namespace.

    `reserve`, `lead_time` and `uncertainty` are None for a queue without one, `suggestion` if there is no new one. `shares`: dominant
    shares allocated, used and waiting. `week`: as of now. `failed`: the input could not be built, and the conditions say why.
    """

    entry: QueueEntry
    conditions: Sequence[ConditionValue]
    decision: QueueDecision | None = None
    memory: QueueMemory | None = None
    usage: FloatArray | None = None
    demand: FloatArray | None = None
    pod_priority: Mapping[str, Any] | None = None
    holds: str | None = None
    elasticity: Mapping[str, Any] | None = None
    reserve: ReserveView | None = None
    lead_time: LeadTimeView | None = None
    suggestion: Mapping[str, Any] | None = None
    uncertainty: Mapping[str, Any] | None = None
    bursts_seen: Mapping[str, Any] | None = None
    shares: tuple[float, float, float] | None = None
    week: WeekSums | None = None
    failed: bool = False


def status_of(
    item: StatusInput, current: Mapping[str, Any], resources: tuple[str, ...], wall: float,
    shown: Callable[[QueueSpec], Mapping[str, Any]] = promise_to_status,
) -> dict[str, Any]:  # fmt: skip
    """Return the whole desired status. `current`: the stored one, which supplies the transition times and the parts that only drift.

    shown: a promise as the status holds it.
    """
    current = in_present_places(current)
    status: dict[str, Any] = {
        "observedGeneration": item.entry.generation,
        "conditions": condition_list(item, current.get("conditions") or [], wall),
    }
    decision, memory = item.decision, item.memory
    if decision is None or memory is None or item.usage is None or item.demand is None:
        return status
    status |= {
        "class": decision.guarantee_class.value if decision.guarantee_class else REJECTED,
        "promise": {**shown(memory.promise), "admissionOrder": memory.admission_order},
        "share": f"{decision.share:.1%}",
        "allocation": _amounts(resources, decision.allocation),
        "guaranteed": _amounts(resources, decision.guaranteed),
        "usage": _amounts(resources, item.usage),
        "demand": _amounts(resources, item.demand),
        "waiting": to_amounts(waiting_of(item.demand, item.usage, resources)),
        "explanation": explanation(decision, item.demand, item.usage, resources),
        "admission": _admission(decision.admission, decision.queue),
        "internal": accounts_of(memory, decision, current.get("internal") or {}, wall),
    }
    if item.shares is not None:
        status |= {name: f"{share:.1%}" for name, share in zip(_SHARES, item.shares, strict=True)}
    if item.week is not None:
        week = week_parts(item.week, current)
        status["internal"] |= {"week": week.pop("account")} if "account" in week else {}
        status |= week
    if memory.refused is not None:
        status["refused"] = promise_to_status(memory.refused)
    if item.pod_priority is not None:
        status["podPriority"] = dict(item.pod_priority)
    if item.holds is not None:
        status["holds"] = item.holds
    if item.elasticity is not None:
        status["elasticity"] = dict(item.elasticity)
    if item.reserve is not None:
        status |= _reserve(item.reserve, resources)
    status |= _suggestion(item, current)
    if item.lead_time is not None:
        status["leadTime"] = _lead_time(item.lead_time, resources)
    if item.uncertainty is not None:
        status["uncertainty"] = dict(item.uncertainty)
    if item.bursts_seen is not None:
        status["internal"]["burstsSeen"] = dict(item.bursts_seen)
    return with_copies(status | _bursts(decision, memory))


def _bursts(decision: QueueDecision, memory: QueueMemory) -> dict[str, Any]:
    """Return the window and the counts, which outlive it: a queue that has lost its guarantee may get it back."""
    counts = {"bursts": memory.bursts, "met": memory.met, "missed": memory.missed}
    if decision.window is not None:
        return {"window": _window(decision), "history": counts}
    return {"history": counts} if any(counts.values()) else {}


def _suggestion(item: StatusInput, current: Mapping[str, Any]) -> dict[str, Any]:
    """Return the suggestion of an observed queue. The last one outlives a restart, although the history behind it does not."""
    kept = current.get("suggestion") if item.entry.observed_only else None
    found = item.suggestion or kept
    return {} if found is None else {"suggestion": dict(found)}


def _reserve(view: ReserveView, resources: tuple[str, ...]) -> dict[str, Any]:
    small = {} if view.small_pod_priority is None else {"smallPodPriority": dict(view.small_pod_priority)}
    return small | {
        "sizeThreshold": to_amounts(view.threshold),
        "reserve": {
            "ratioMilli": round(view.ratio * MILLI),
            "level": _amounts(resources, view.level),
            "smallJobs": view.small_jobs,
            "largeJobs": view.large_jobs,
        },
    }


def _lead_time(view: LeadTimeView, resources: tuple[str, ...]) -> dict[str, Any]:
    written: dict[str, Any] = {"reason": view.reason, "message": view.message}
    if view.decision is not None:
        written |= {
            "arrival": to_text(view.decision.arrival),
            "held": _amounts(resources, view.decision.held),
            "needed": _amounts(resources, view.decision.needed),
        }
        if view.pod_size is not None and view.pod_size.any():
            written["podSize"] = _amounts(resources, view.pod_size)
        if math.isfinite(view.decision.planned_start):
            written["plannedStart"] = to_text(view.decision.planned_start)
    for name, amount in (("expectedFree", view.expected_free), ("reallyFree", view.really_free)):
        if amount is not None and len(amount) == len(resources):
            written[name] = _amounts(resources, amount)
    return written


def condition_list(item: StatusInput, current: Sequence[Mapping[str, Any]], wall: float) -> list[dict[str, Any]]:
    """Return the conditions as the status holds them: a condition keeps its time of transition while its status stays."""
    before = {condition["type"]: condition for condition in current}
    written = []
    for condition in item.conditions:
        old = before.get(condition.type)
        since = old["lastTransitionTime"] if old is not None and old["status"] == condition.status else to_text(wall)
        written.append(
            {
                "type": condition.type,
                "status": condition.status,
                "observedGeneration": item.entry.generation,
                "lastTransitionTime": since,
                "reason": condition.reason,
                "message": condition.message,
            }
        )
    return written


def _window(decision: QueueDecision) -> dict[str, Any]:
    window = decision.window
    assert window is not None  # noqa: S101 (the caller has checked)
    written: dict[str, Any] = {"state": window.state.value, "index": window.index, "nextBurst": _next_burst(window)}
    if math.isfinite(window.arms_at):
        written["armsAt"] = to_text(window.arms_at)
    if math.isfinite(window.opens_by):
        written["opensBy"] = to_text(window.opens_by)
    if window.opened is not None:
        written["opened"] = to_text(window.opened)
    if window.deadline is not None:
        written["deadline"] = to_text(window.deadline)
    if window.state in {WindowState.OPEN, WindowState.OVERDUE} and decision.budget > 0:
        written["usedPercent"] = round(100 * decision.consumed / decision.budget)
    return written


def _next_burst(window: Window) -> str:
    """Return when the next burst is expected, in a few words for a column."""
    if window.state in {WindowState.OPEN, WindowState.OVERDUE}:
        return "now"
    if math.isfinite(window.opens_by):
        return to_text(window.opens_by)
    if not math.isfinite(window.arms_at):
        return "none"
    return "any time" if window.state is WindowState.ARMED else f"from {to_text(window.arms_at)}"


def _admission(decision: AdmissionDecision, queue: str) -> dict[str, Any]:
    """Return the decision as tenants may read it. A condition bound by another queue is shown as a ratio and without that queue's name."""
    written: dict[str, Any] = {
        "class": decision.guarantee_class.value if decision.guarantee_class else REJECTED,
        "reason": decision.reason,
        "message": decision.message,
    }
    for name, sides in (("safety", decision.safety), ("fairness", decision.fairness), ("resource", decision.resource)):
        if sides is not None:
            own = sides.binding_queue == queue
            left, right = (sides.left, sides.right) if own else (_ratio(sides), 1.0)
            written[name] = {
                "holds": sides.holds,
                "left": f"{left:.6g}",
                "right": f"{right:.6g}",
                "resource": sides.binding_resource,
                "queue": queue if own else ANOTHER_QUEUE,
            }
    return written


def _ratio(sides: ConditionResult) -> float:
    return sides.left / sides.right if sides.right > 0 else 0.0 if sides.holds else 1e9


def _amounts(resources: tuple[str, ...], row: FloatArray) -> dict[str, str]:
    return to_amounts({resource: float(amount) for resource, amount in zip(resources, row, strict=True)})
