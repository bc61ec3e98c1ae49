"""A queue's status: the decision in the form that users read, and the operator's memory of it. Pure.

`memory_of` reads the output of `status_of`, so a restart keeps every promise. Numbers that only drift (usage, consumption) are written at
most every few seconds. The ledger is stored as (value, rate, as of) and written only when the rate changes, so a settled cluster causes no
writes.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairburst.kube.containment import Containment
from fairburst.kube.jobs.reserve import ReserveView
from fairburst.kube.queues.core_values import promise_from_status, promise_to_status, to_amounts
from fairburst.kube.queues.objects import InvalidQueueError, parse_status
from fairburst.kube.queues.queue_set import INTERNAL_ERROR, QueueEntry
from fairburst.kube.queues.statuses import ConditionSides, Ledger
from fairburst.kube.times import from_epoch, to_epoch
from fairburst.kube.views.conditions import ConditionValue
from fairburst.kube.views.explanation import explanation, waiting_of
from fairburst.kube.views.lead_time_view import LeadTimeView
from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import AdmissionDecision, ConditionResult, GuaranteeClass, QueueDecision, QueueMemory, Window, WindowState

MILLI, MICRO = 1000, 1_000_000
LEDGER_TOLERANCE = 0.05  # dominant-share-seconds by which a stored ledger may drift before it is rewritten
RATE_TOLERANCE = 2e-4  # of capacity
REJECTED = "Rejected"
ANOTHER_QUEUE = "another queue"
FIGURES_PER_SECOND = 10.0  # limits status writes of hundreds of busy queues
# A latency queue's receipts are on the cluster after at most this long, whatever else waits. With a round and half a second between two
# checks of the statuses, a take-over finds them at most five seconds old. LEDGER_TOLERANCE keeps this to a few dozen writes a second in
# total.
ACCOUNTS_SECONDS = 4.0
_ACCOUNTS = frozenset({"ledger", "fairShare", "debtMilliseconds"})
# Fields that admission policies read, and promises. sizeThreshold is excluded: it drifts with capacity and is late whenever figures are.
_AWAITED = frozenset({"stamp", "smallStamp", "holds", "class", "promise"})
_DRIFTING = (
    "ledger",
    "fairShare",
    "residualLevelMicro",
    "allocation",
    "guaranteed",
    "usage",
    "demand",
    "waiting",
    "explanation",
    "rounding",
    "balance",
    "debtMilliseconds",
    "share",
    "elasticity",
    "reserve",
    "sizeThreshold",
    "leadTime",
)
_WINDOW_DRIFTING = ("consumed", "budget")


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


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """One queue's desired status, and the merge patch that turns the observed object's status into it."""

    entry: QueueEntry
    patch: Mapping[str, Any]
    status: Mapping[str, Any]

    @property
    def is_awaited(self) -> bool:
        """Whether a round waits for the answer: the patch changes what the API server admits, or makes a promise."""
        return not _AWAITED.isdisjoint(self.patch)


class StatusPlanner:
    """Plans the status writes that are due. Remembers by uid when each status was last written and what it published."""

    def __init__(
        self, interval_seconds: float, figures_per_second: float = FIGURES_PER_SECOND, contained: Containment | None = None
    ) -> None:
        self._interval = interval_seconds
        self._contained = contained or Containment()
        self._figures_per_second = figures_per_second
        self._written_at: dict[str, float] = {}
        self._last_published: dict[str, tuple[Any, ...]] = {}
        self._planned_at = -math.inf

    def plan(
        self, inputs: Sequence[StatusInput], resources: tuple[str, ...], wall: float, now: float
    ) -> tuple[list[StatusWrite], dict[str, float]]:
        """Return the writes due now, and by namespace the monotonic time at which a deferred one falls due. `wall` is in seconds since the
        epoch.

        `inputs`: the queues that may have changed. News is written at once, and the receipts of latency queues after `ACCOUNTS_SECONDS` at
        the latest. Statuses whose figures only drift share a rate; latency queues and the longest unwritten come first.
        """
        news: list[StatusWrite] = []
        figures: list[tuple[float, StatusWrite]] = []
        dues: dict[str, float] = {}
        for item in inputs:
            uid, current, told = item.entry.uid, item.entry.obj.get("status") or {}, _told_by(item)
            written_at = self._written_at.get(uid, -math.inf)
            earliest = written_at + self._interval
            accounts = min(earliest, written_at + ACCOUNTS_SECONDS) if item.entry.key[0] == "LatencyQueue" else earliest
            if now < accounts and self._last_published.get(uid) == told:
                _defer(dues, item, accounts)
                continue
            self._last_published[uid] = told
            status = self._status(item, current, resources, wall)
            patch = merge_difference(current, status)
            write = StatusWrite(item.entry, patch, status)
            if patch and (_is_structural(patch, current) or (now >= accounts and _has_accounts(item, patch))):
                news.append(write)
            elif patch and now >= earliest:
                figures.append((earliest, write))
            elif patch:
                _defer(dues, item, accounts if _has_accounts(item, patch) else earliest)
        figures.sort(key=lambda pair: (pair[1].entry.key[0] != "LatencyQueue", pair[0]))
        share = max(1, round(self._figures_per_second * min(now - self._planned_at, self._interval)))
        self._planned_at = now
        for place, (_, write) in enumerate(figures[share:]):
            _defer(dues, write, now + (place + 1) / self._figures_per_second)
        return news + [write for _, write in figures[:share]], dues

    def _status(self, item: StatusInput, current: Mapping[str, Any], resources: tuple[str, ...], wall: float) -> dict[str, Any]:
        """Return the desired status. If it cannot be built, return the present one with the reason as its Ready condition."""
        namespace = item.entry.namespace
        with self._contained.object("show", namespace):
            return status_of(item, current, resources, wall)
        ready = ConditionValue("Ready", "False", INTERNAL_ERROR, self._contained.problems[namespace])
        others = [one for one in current.get("conditions") or [] if one.get("type") != "Ready"]
        conditions = _conditions(StatusInput(item.entry, [ready]), current.get("conditions") or [], wall)
        return {**current, "conditions": [*others, *conditions]}

    def sent(self, write: StatusWrite, now: float) -> None:
        """Record that a write is in flight. Until it is answered, only news is planned on top of it."""
        self._written_at[write.entry.uid] = now

    def written(self, write: StatusWrite, now: float) -> None:
        """Record that a write was answered, successfully or not. The next plan checks whether it arrived."""
        self._written_at[write.entry.uid] = now
        self._last_published.pop(write.entry.uid, None)

    def retain(self, uids: Container[str]) -> None:
        """Forget every other queue."""
        self._written_at = {uid: at for uid, at in self._written_at.items() if uid in uids}
        self._last_published = {uid: told for uid, told in self._last_published.items() if uid in uids}


def _defer(dues: dict[str, float], item: StatusInput | StatusWrite, at: float) -> None:
    namespace = item.entry.namespace
    dues[namespace] = min(dues.get(namespace, math.inf), at)


def _has_accounts(item: StatusInput, patch: Mapping[str, Any]) -> bool:
    """Return whether a patch changes a latency queue's recorded receipts."""
    return item.entry.key[0] == "LatencyQueue" and not _ACCOUNTS.isdisjoint(patch)


def _told_by(item: StatusInput) -> tuple[Any, ...]:
    """Return the published values of the status, without figures that drift."""
    verdicts = tuple((condition.type, condition.status, condition.reason) for condition in item.conditions)
    decision, memory = item.decision, item.memory
    if decision is None or memory is None:
        return item.entry.generation, verdicts
    counted = memory.bursts, memory.met, memory.missed, memory.refused
    told = item.entry.generation, verdicts, decision.guarantee_class, decision.window, memory.promise, counted, decision.admission
    bursts = None if item.uncertainty is None else item.uncertainty["bursts"]
    return (*told, item.reserve is not None, item.holds, item.suggestion, bursts)


def status_of(item: StatusInput, current: Mapping[str, Any], resources: tuple[str, ...], wall: float) -> dict[str, Any]:
    """Return the whole desired status. `current` supplies the transition times and the parts that only drift."""
    status: dict[str, Any] = {
        "observedGeneration": item.entry.generation,
        "conditions": _conditions(item, current.get("conditions") or [], wall),
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


def memory_of(obj: Mapping[str, Any]) -> QueueMemory | None:
    """Return the memory in the queue's status. None if there is none or it is unreadable; the queue is then a new candidate."""
    try:
        return _memory_of(obj)
    except (InvalidQueueError, ValueError, OverflowError):
        return None


def _memory_of(obj: Mapping[str, Any]) -> QueueMemory | None:
    status = parse_status(obj)
    raw = (obj.get("status") or {}).get("promise")
    if raw is None or status.promise is None or status.guarantee_class is None:
        return None
    promise = promise_from_status(raw)
    granted = None if status.guarantee_class == REJECTED else GuaranteeClass(status.guarantee_class)
    ledger, fair, rounding, refused = status.ledger, status.fair_share, status.rounding, (obj["status"]).get("refused")
    window, history, admission, balance = status.window, status.history, status.admission, status.balance
    return QueueMemory(
        promise=promise,
        guarantee_class=granted,
        admission_order=status.promise.admission_order or 0,
        decision=None
        if admission is None
        else AdmissionDecision(
            queue=promise.name,
            guarantee_class=_class_named(admission.guarantee_class),
            reason=admission.reason,
            message=admission.message,
            safety=_sides(admission.safety),
            fairness=_sides(admission.fairness),
            resource=_sides(admission.resource),
        ),
        window=None
        if window is None
        else Window(
            state=WindowState(window.state),
            index=window.index,
            arms_at=_epoch_or(window.arms_at, math.inf),
            opens_by=_epoch_or(window.opens_by, math.inf),
            opened=_epoch_or(window.opened, None),
            deadline=_epoch_or(window.deadline, None),
            demanded=bool(window.demanded),
            judged=bool(window.judged),
        ),
        period_started=_epoch_or(status.period_started, 0.0),
        ledger_value=ledger.value_milliseconds / MILLI if ledger else 0.0,
        ledger_rate=ledger.rate_micro / MICRO if ledger else 0.0,
        ledger_as_of=to_epoch(ledger.as_of) if ledger else 0.0,
        debt=(status.debt_milliseconds or 0) / MILLI,
        bursts=history.bursts if history else 0,
        met=history.met if history else 0,
        missed=history.missed if history else 0,
        delivered_value=(ledger.delivered_milliseconds or 0) / MILLI if ledger else 0.0,
        delivered_rate=(ledger.delivered_rate_micro or 0) / MICRO if ledger else 0.0,
        received=_received(ledger),
        fair_value=fair.value_milliseconds / MILLI if fair else 0.0,
        fair_rate=fair.rate_micro / MICRO if fair else 0.0,
        fair_as_of=to_epoch(fair.as_of) if fair else 0.0,
        residual_level=math.inf if status.residual_level_micro is None else status.residual_level_micro / MICRO,
        waiting_since=_epoch_or(rounding.waiting_since, None) if rounding else None,
        unit_held_since=_epoch_or(rounding.held_since, None) if rounding else None,
        balance_value=balance.value_milliseconds / MILLI if balance else 0.0,
        balance_rate=balance.rate_micro / MICRO if balance else 0.0,
        balance_as_of=to_epoch(balance.as_of) if balance else 0.0,
        recent_value=balance.recent_milliseconds / MILLI if balance else 0.0,
        refused=promise_from_status(refused) if refused else None,
    )


def _received(ledger: Ledger | None) -> dict[str, tuple[float, float]]:
    if ledger is None:
        return {}
    values, rates = ledger.received_milliseconds or {}, ledger.received_rate_micro or {}
    return {name: (values.get(name, 0) / MILLI, rates.get(name, 0) / MICRO) for name in {**values, **rates}}


def merge_difference(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch (RFC 7386) that turns `current` into `wanted`; empty if they are equal."""
    patch: dict[str, Any] = {key: None for key in current if key not in wanted}
    for key, value in wanted.items():
        have = current.get(key)
        if isinstance(value, Mapping) and isinstance(have, Mapping):
            inner = merge_difference(have, value)
            if inner:
                patch[key] = inner
        elif have != value:
            patch[key] = value
    return patch


def _is_structural(patch: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
    """Return whether the patch contains news for users, as opposed to figures that drift."""
    for key, value in patch.items():
        if key in _DRIFTING:
            continue
        if key == "window" and isinstance(value, Mapping) and all(part in _WINDOW_DRIFTING for part in value):
            continue
        if key == "conditions" and _verdicts(value) == _verdicts(current.get("conditions") or []):
            continue
        return True
    return False


def _verdicts(conditions: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return [(one["type"], one["status"], one["reason"], one.get("observedGeneration")) for one in conditions]


def _conditions(item: StatusInput, current: Sequence[Mapping[str, Any]], wall: float) -> list[dict[str, Any]]:
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


def _sides(sides: ConditionSides | None) -> ConditionResult | None:
    return None if sides is None else ConditionResult(sides.holds, float(sides.left), float(sides.right), sides.resource, sides.queue)


def _class_named(name: str | None) -> GuaranteeClass | None:
    return None if name in {None, REJECTED} else GuaranteeClass(name)


def _amounts(resources: tuple[str, ...], row: FloatArray) -> dict[str, str]:
    return to_amounts({resource: float(amount) for resource, amount in zip(resources, row, strict=True)})


def _time(seconds: float) -> str:
    return from_epoch(seconds).isoformat().replace("+00:00", "Z")


def _epoch_or(time: datetime | None, default: Any) -> Any:
    return default if time is None else to_epoch(time)
