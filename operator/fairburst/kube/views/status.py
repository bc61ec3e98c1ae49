"""A queue's status: the decision in the form that users read, and the operator's memory of it. Pure.

`status_memory.py` reads the output of `status_of`, so a restart keeps every promise. The ledger is stored as (value, rate, as of) and
changes only when the rate does, so an unchanged cluster causes no writes. `status_plan.py` decides when a status is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairburst.kube.jobs.reserve import ReserveView
from fairburst.kube.queues.core_values import promise_to_status, to_amounts
from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.kube.times import from_epoch, to_epoch
from fairburst.kube.views.conditions import ConditionValue
from fairburst.kube.views.explanation import explanation, waiting_of
from fairburst.kube.views.lead_time_view import LeadTimeView
from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import AdmissionDecision, ConditionResult, QueueDecision, QueueMemory, WindowState

MILLI, MICRO = 1000, 1_000_000
LEDGER_TOLERANCE = 0.05  # dominant-share-seconds by which a stored ledger may drift before it is rewritten
RATE_TOLERANCE = 2e-4  # of capacity
REJECTED = "Rejected"
ANOTHER_QUEUE = "another queue"


@dataclass(frozen=True, slots=True)
class StatusInput:
    """The input for one queue's status. `decision`, `memory` and the arrays are None for a queue that governs no namespace.

    `reserve`, `lead_time` and `uncertainty` are None for a queue without one, `suggestion` where there is no new one.
    """

    entry: QueueEntry
    conditions: Sequence[ConditionValue]
    decision: QueueDecision | None = None
    memory: QueueMemory | None = None
    usage: FloatArray | None = None
    demand: FloatArray | None = None
    stamp: Mapping[str, Any] | None = None
    holds: str | None = None
    elasticity: Mapping[str, Any] | None = None
    reserve: ReserveView | None = None
    lead_time: LeadTimeView | None = None
    suggestion: Mapping[str, Any] | None = None
    uncertainty: Mapping[str, Any] | None = None


def status_of(item: StatusInput, current: Mapping[str, Any], resources: tuple[str, ...], wall: float) -> dict[str, Any]:
    """Return the whole desired status. `current` supplies the transition times and the parts that only drift."""
    status: dict[str, Any] = {
        "observedGeneration": item.entry.generation,
        "conditions": condition_list(item, current.get("conditions") or [], wall),
    }
    decision, memory = item.decision, item.memory
    if decision is None or memory is None or item.usage is None or item.demand is None:
        return status
    status |= {
        "class": decision.guarantee_class.value if decision.guarantee_class else REJECTED,
        "promise": {**promise_to_status(memory.promise), "admissionOrder": memory.admission_order},
        "share": f"{decision.share:.1%}",
        "allocation": _amounts(resources, decision.allocation),
        "guaranteed": _amounts(resources, decision.guaranteed),
        "usage": _amounts(resources, item.usage),
        "demand": _amounts(resources, item.demand),
        "waiting": to_amounts(waiting_of(item.demand, item.usage, resources)),
        "explanation": explanation(decision, item.demand, item.usage, resources),
        "admission": _admission(decision.admission, decision.queue),
        **_accounts(memory, current, wall),
    }
    if memory.refused is not None:
        status["refused"] = promise_to_status(memory.refused)
    turns = {"waitingSince": memory.waiting_since, "heldSince": memory.unit_held_since}
    if any(since is not None for since in turns.values()):
        status["rounding"] = {name: _time(since) for name, since in turns.items() if since is not None}
    if balance := _balance(memory, current.get("balance")):
        status["balance"] = balance
    if item.stamp is not None:
        status["stamp"] = dict(item.stamp)
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
    if decision.window is not None:
        status |= {
            "window": _window(decision),
            "debtMilliseconds": round(memory.debt * MILLI),
            "history": {"bursts": memory.bursts, "met": memory.met, "missed": memory.missed},
        }
        if math.isfinite(memory.residual_level):
            status["residualLevelMicro"] = round(memory.residual_level * MICRO)
    return status


def _suggestion(item: StatusInput, current: Mapping[str, Any]) -> dict[str, Any]:
    """The suggestion of an observed queue; the last one outlives a restart, which forgets what it was drawn from."""
    kept = current.get("suggestion") if item.entry.observed_only else None
    found = item.suggestion or kept
    return {} if found is None else {"suggestion": dict(found)}


def _reserve(view: ReserveView, resources: tuple[str, ...]) -> dict[str, Any]:
    stamp = {} if view.small_stamp is None else {"smallStamp": dict(view.small_stamp)}
    return stamp | {
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
            "arrival": _time(view.decision.arrival),
            "held": _amounts(resources, view.decision.held),
            "needed": _amounts(resources, view.decision.needed),
        }
        if view.pod_size is not None and view.pod_size.any():
            written["podSize"] = _amounts(resources, view.pod_size)
        if math.isfinite(view.decision.planned_start):
            written["plannedStart"] = _time(view.decision.planned_start)
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
        since = old["lastTransitionTime"] if old is not None and old["status"] == condition.status else _time(wall)
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
    written: dict[str, Any] = {"state": window.state.value, "index": window.index}
    if math.isfinite(window.arms_at):
        written["armsAt"] = _time(window.arms_at)
    if math.isfinite(window.opens_by):
        written["opensBy"] = _time(window.opens_by)
    if window.opened is not None:
        written["opened"] = _time(window.opened)
    if window.deadline is not None:
        written["deadline"] = _time(window.deadline)
    written |= {name: True for name, value in (("demanded", window.demanded), ("judged", window.judged)) if value}
    if window.state in {WindowState.OPEN, WindowState.OVERDUE}:
        written |= {"consumed": round(decision.consumed * MILLI), "budget": round(decision.budget * MILLI)}
    return written


def _ledger(memory: QueueMemory, current: Mapping[str, Any] | None, wall: float) -> dict[str, Any]:
    """Return both counters of the period, which share one time."""
    stored = current or {}
    received = _growing(memory.ledger_value, memory.ledger_rate, memory.ledger_as_of, current, wall)
    used = {
        "valueMilliseconds": stored.get("deliveredMilliseconds", -1),
        "rateMicro": stored.get("deliveredRateMicro", -1),
        "asOf": stored.get("asOf"),
    }
    delivered = _growing(memory.delivered_value, memory.delivered_rate, memory.ledger_as_of, used if current else None, wall)
    by_resource = _predicted(memory, current, wall)
    if current is not None and by_resource and received == {name: current.get(name) for name in received} and delivered == used:
        return dict(current)
    received = _growing(memory.ledger_value, memory.ledger_rate, memory.ledger_as_of, None, wall)
    delivered = _growing(memory.delivered_value, memory.delivered_rate, memory.ledger_as_of, None, wall)
    written = {**received, "deliveredMilliseconds": delivered["valueMilliseconds"], "deliveredRateMicro": delivered["rateMicro"]}
    if not _in_window(memory):
        return written
    since = max(0.0, wall - memory.ledger_as_of)
    return written | {
        "receivedMilliseconds": {name: round((value + rate * since) * MILLI) for name, (value, rate) in memory.received.items()},
        "receivedRateMicro": {name: round(rate * MICRO) for name, (_, rate) in memory.received.items()},
    }


def _in_window(memory: QueueMemory) -> bool:
    """Return whether what was received of each resource counts: a window is open or overdue. Each window begins with nothing."""
    return bool(memory.received) and memory.window is not None and memory.window.state in {WindowState.OPEN, WindowState.OVERDUE}


def _predicted(memory: QueueMemory, current: Mapping[str, Any] | None, wall: float) -> bool:
    """Return whether the stored counters of each resource still predict the true values."""
    stored = current or {}
    values, rates = stored.get("receivedMilliseconds") or {}, stored.get("receivedRateMicro") or {}
    if not _in_window(memory):
        return not values and not rates
    if set(values) != set(memory.received) or set(rates) != set(memory.received):
        return False
    return all(
        _growing(value, rate, memory.ledger_as_of, counter, wall) == counter
        for name, (value, rate) in memory.received.items()
        for counter in ({"valueMilliseconds": values[name], "rateMicro": rates[name], "asOf": stored["asOf"]},)
    )


def _accounts(memory: QueueMemory, current: Mapping[str, Any], wall: float) -> dict[str, Any]:
    """Return the ledger, the start of its period, and the fair share earned in it.

    The stored values of an idle queue stay valid after its period ends with nothing to carry: the core rolls the ledger over by itself,
    also after a restart. An idle queue's periods therefore need no write.
    """
    ledger, fair, started = current.get("ledger"), current.get("fairShare"), current.get("periodStarted")
    idle = not any((memory.ledger_value, memory.ledger_rate, memory.debt)) and (memory.window is None or memory.window.opened is None)
    if idle and ledger and ledger["rateMicro"] == 0 and not current.get("debtMilliseconds"):
        kept = {"ledger": dict(ledger)}
        if not (fair and started):
            return kept
        if abs(fair["rateMicro"] / MICRO - memory.fair_rate) <= RATE_TOLERANCE:
            return kept | {"periodStarted": started, "fairShare": dict(fair)}
    written: dict[str, Any] = {"ledger": _ledger(memory, ledger, wall)}
    if memory.window is not None:
        written["periodStarted"] = _time(memory.period_started)
        written["fairShare"] = _growing(memory.fair_value, memory.fair_rate, memory.fair_as_of, fair, wall)
    return written


def _balance(memory: QueueMemory, current: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the queue's remembered balance: the stored one if it predicts the same value, None if the queue was never owed anything."""
    if not any((memory.balance_value, memory.balance_rate, memory.recent_value)):
        return None
    if current is not None:
        rate, recent = current["rateMicro"] / MICRO, current["recentMilliseconds"] / MILLI
        elapsed = memory.balance_as_of - to_epoch(datetime.fromisoformat(current["asOf"]))
        drift = abs(current["valueMilliseconds"] / MILLI + rate * elapsed - memory.balance_value)
        steady = abs(rate - memory.balance_rate) <= RATE_TOLERANCE and drift <= LEDGER_TOLERANCE + RATE_TOLERANCE * abs(elapsed)
        if steady and abs(recent - memory.recent_value) <= LEDGER_TOLERANCE + abs(rate * elapsed):
            return dict(current)
    return {
        "valueMilliseconds": round(memory.balance_value * MILLI),
        "rateMicro": round(memory.balance_rate * MICRO),
        "recentMilliseconds": round(memory.recent_value * MILLI),
        "asOf": _time(memory.balance_as_of),
    }


def _growing(value: float, rate: float, as_of: float, current: Mapping[str, Any] | None, wall: float) -> dict[str, Any]:
    """Return a counter as (value, rate, as of): the stored one if it still predicts the true value, else a new one as of now."""
    amount = value + rate * max(0.0, wall - as_of)
    if current is not None:
        stored_rate = current["rateMicro"] / MICRO
        elapsed = max(0.0, wall - to_epoch(datetime.fromisoformat(current["asOf"])))
        foretold = current["valueMilliseconds"] / MILLI + stored_rate * elapsed
        if abs(stored_rate - rate) <= RATE_TOLERANCE and abs(foretold - amount) <= LEDGER_TOLERANCE + RATE_TOLERANCE * elapsed:
            return dict(current)
    return {"valueMilliseconds": round(amount * MILLI), "rateMicro": round(rate * MICRO), "asOf": _time(wall)}


def _admission(decision: AdmissionDecision, queue: str) -> dict[str, Any]:
    """Return the decision as tenants may read it. A condition bound by another queue is told as a ratio and without that queue's name."""
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


def _time(seconds: float) -> str:
    return from_epoch(seconds).isoformat().replace("+00:00", "Z")
