"""Read the operator's memory of a queue from its status, as `status_of` wrote it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fairburst.kube.queues.accounts import InternalStatus, Ledger, WindowAccount
from fairburst.kube.queues.core_values import promise_from_status
from fairburst.kube.queues.objects import InvalidQueueError, parse_status
from fairburst.kube.queues.statuses import AdmissionStatus, ConditionSides, WindowStatus
from fairburst.kube.times import to_epoch
from fairburst.kube.views.internal_status import MICRO, MILLI
from fairburst.kube.views.status import REJECTED
from fairburst.policy.model import AdmissionDecision, ConditionResult, GuaranteeClass, QueueMemory, Window, WindowState


def memory_of(obj: Mapping[str, Any]) -> QueueMemory | None:
    """Return the memory in the queue's status. None if there is none or it is unreadable; the queue is then a new candidate."""
    try:
        return _memory_of(obj)
    except (InvalidQueueError, ValueError, OverflowError):
        return None


def is_readable(obj: Mapping[str, Any]) -> bool:
    """Return whether the status is one that the operator could have written."""
    try:
        parse_status(obj)
    except InvalidQueueError:
        return False
    return True


def _memory_of(obj: Mapping[str, Any]) -> QueueMemory | None:
    status = parse_status(obj)
    raw = (obj.get("status") or {}).get("promise")
    if raw is None or status.promise is None or status.guarantee_class is None:
        return None
    promise = promise_from_status(raw)
    granted = None if status.guarantee_class == REJECTED else GuaranteeClass(status.guarantee_class)
    internal = status.internal or InternalStatus()
    ledger, fair, rounding, balance = internal.ledger, internal.fair_share, internal.rounding, internal.balance
    history, refused = status.history, obj["status"].get("refused")
    return QueueMemory(
        promise=promise,
        guarantee_class=granted,
        admission_order=status.promise.admission_order or 0,
        decision=None if status.admission is None else _decision(promise.name, status.admission),
        window=None if status.window is None else _window(status.window, internal.window or WindowAccount()),
        period_started=_epoch_or(internal.period_started, 0.0),
        last_opened=_epoch_or(internal.last_opened, None),
        ledger_value=ledger.value_milliseconds / MILLI if ledger else 0.0,
        ledger_rate=ledger.rate_micro / MICRO if ledger else 0.0,
        ledger_as_of=to_epoch(ledger.as_of) if ledger else 0.0,
        debt=(internal.debt_milliseconds or 0) / MILLI,
        bursts=history.bursts if history else 0,
        met=history.met if history else 0,
        missed=history.missed if history else 0,
        delivered_value=(ledger.delivered_milliseconds or 0) / MILLI if ledger else 0.0,
        delivered_rate=(ledger.delivered_rate_micro or 0) / MICRO if ledger else 0.0,
        received=_received(ledger),
        fair_value=fair.value_milliseconds / MILLI if fair else 0.0,
        fair_rate=fair.rate_micro / MICRO if fair else 0.0,
        fair_as_of=to_epoch(fair.as_of) if fair else 0.0,
        residual_level=math.inf if internal.residual_level_micro is None else internal.residual_level_micro / MICRO,
        waiting_since=_epoch_or(rounding.waiting_since, None) if rounding else None,
        unit_held_since=_epoch_or(rounding.held_since, None) if rounding else None,
        balance_value=balance.value_milliseconds / MILLI if balance else 0.0,
        balance_rate=balance.rate_micro / MICRO if balance else 0.0,
        balance_as_of=to_epoch(balance.as_of) if balance else 0.0,
        recent_value=balance.recent_milliseconds / MILLI if balance else 0.0,
        refused=promise_from_status(refused) if refused else None,
    )


def _decision(queue: str, admission: AdmissionStatus) -> AdmissionDecision:
    return AdmissionDecision(
        queue=queue,
        guarantee_class=_class_named(admission.guarantee_class),
        reason=admission.reason,
        message=admission.message,
        safety=_sides(admission.safety),
        fairness=_sides(admission.fairness),
        resource=_sides(admission.resource),
    )


def _window(window: WindowStatus, account: WindowAccount) -> Window:
    return Window(
        state=WindowState(window.state),
        index=window.index,
        arms_at=_epoch_or(window.arms_at, math.inf),
        opens_by=_epoch_or(window.opens_by, math.inf),
        opened=_epoch_or(window.opened, None),
        deadline=_epoch_or(window.deadline, None),
        demanded=bool(account.demanded),
        judged=bool(account.judged),
        behind=(account.behind_milliseconds or 0) / MILLI,
    )


def _received(ledger: Ledger | None) -> dict[str, tuple[float, float]]:
    if ledger is None:
        return {}
    values, rates = ledger.received_milliseconds or {}, ledger.received_rate_micro or {}
    return {name: (values.get(name, 0) / MILLI, rates.get(name, 0) / MICRO) for name in {**values, **rates}}


def _sides(sides: ConditionSides | None) -> ConditionResult | None:
    return None if sides is None else ConditionResult(sides.holds, float(sides.left), float(sides.right), sides.resource, sides.queue)


def _class_named(name: str | None) -> GuaranteeClass | None:
    return None if name in {None, REJECTED} else GuaranteeClass(name)


def _epoch_or(time: datetime | None, default: Any) -> Any:
    return default if time is None else to_epoch(time)
