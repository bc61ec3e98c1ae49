"""Memory as JSON: versioned, readable, and refused as a whole if damaged or newer. `encode_queue` / `decode_queue` do one queue,
`encode_spec` / `decode_spec` its declaration.

Infinite numbers are written as null where the field can be infinite (opens_by, arms_at, residual_level); NaN is never written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from fairburst.policy.dress.memory import decode_dress, encode_dress
from fairburst.policy.errors import MemoryFormatError
from fairburst.policy.model import (
    AdmissionDecision,
    Arrival,
    Burst,
    ConditionResult,
    GuaranteeClass,
    Memory,
    Periodic,
    QueueKind,
    QueueMemory,
    QueueSpec,
    Schedule,
    ScheduledBurst,
    Sporadic,
    Window,
    WindowState,
)
from fairburst.policy.tolerance import LARGEST
from fairburst.policy.versioned import parse, versioned

VERSION = 1
MOST = 2**53  # of counted bursts or queues: whole numbers up to here are exact in float64 and in every reader of JSON

_NUMBERS = (
    "period_started", "ledger_value", "ledger_rate", "ledger_as_of", "debt", "delivered_value", "delivered_rate", "fair_value", "fair_rate",
    "fair_as_of", "balance_value", "balance_rate", "balance_as_of", "recent_value",
)  # fmt: skip
_COUNTERS = ("admission_order", "bursts", "met", "missed")


def dump(memory: Memory) -> str:
    """Return the memory as JSON text, with queues in sorted order, so that equal memories give equal bytes."""
    return json.dumps(encode(memory), allow_nan=False)


def encode(memory: Memory) -> dict[str, Any]:
    """Return the memory as JSON values, with queues in sorted order."""
    queues = {name: encode_queue(memory.queues[name]) for name in sorted(memory.queues)}
    # without DRESS the bytes are the same as in versions before it
    dress = {} if memory.dress is None else {"dress": encode_dress(memory.dress)}
    return {"version": VERSION, "nextAdmissionOrder": memory.next_admission_order, "queues": queues, **dress}


def load(text: str) -> Memory:
    """Read text of `dump`. Raises NewerMemoryError or MemoryFormatError."""
    return decode(parse(text, "memory"))


def decode(value: object) -> Memory:
    """Invert `encode`. Raises NewerMemoryError or MemoryFormatError."""
    whole = versioned(value, VERSION, "memory")
    try:
        queues = {name: decode_queue(item) for name, item in whole["queues"].items()}
        dress = decode_dress(whole["dress"]) if whole.get("dress") is not None else None
        memory = Memory(queues, _whole(whole["nextAdmissionOrder"], "nextAdmissionOrder"), dress=dress)
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise MemoryFormatError(f"memory of version {whole['version']}: {type(error).__name__}: {error}") from error
    for name, item in queues.items():
        if item.promise.name != name:
            raise MemoryFormatError(f"memory: expected the promise of {name}, found that of {item.promise.name}")
    return memory


def encode_queue(memory: QueueMemory) -> dict[str, Any]:
    """Return one queue's memory as JSON values."""
    return {
        "promise": encode_spec(memory.promise),
        "class": memory.guarantee_class.value if memory.guarantee_class else None,
        "decision": _encode_decision(memory.decision),
        "window": _encode_window(memory.window),
        "residual_level": _finite(memory.residual_level),
        "waiting_since": memory.waiting_since,
        "unit_held_since": memory.unit_held_since,
        "refused": encode_spec(memory.refused) if memory.refused else None,
        **({"last_opened": memory.last_opened} if memory.last_opened is not None else {}),
        # a queue that has received nothing in its period has the same bytes as in versions without this field
        **({"received": {name: list(pair) for name, pair in sorted(memory.received.items())}} if memory.received else {}),
        **{name: getattr(memory, name) for name in (*_NUMBERS, *_COUNTERS)},
    }


def decode_queue(value: Mapping[str, Any]) -> QueueMemory:
    """Invert `encode_queue`. Raises MemoryFormatError with the wrong field."""
    return QueueMemory(
        promise=decode_spec(value["promise"]),
        guarantee_class=GuaranteeClass(value["class"]) if value["class"] is not None else None,
        decision=_decode_decision(value.get("decision")),
        window=_decode_window(value.get("window")),
        residual_level=_infinite(value.get("residual_level")),
        last_opened=_maybe(value.get("last_opened")),
        waiting_since=_maybe(value.get("waiting_since")),
        unit_held_since=_maybe(value.get("unit_held_since")),
        refused=decode_spec(value["refused"]) if value.get("refused") else None,
        admission_order=_whole(value["admission_order"], "admission_order"),
        bursts=_whole(value.get("bursts", 0), "bursts"),
        met=_whole(value.get("met", 0), "met"),
        missed=_whole(value.get("missed", 0), "missed"),
        received={str(name): _value_and_rate(pair) for name, pair in value.get("received", {}).items()},
        **{name: _number(value.get(name, 0.0), name) for name in _NUMBERS},
    )


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -LARGEST <= value <= LARGEST:
        raise MemoryFormatError(f"{name}: expected a number of at most {LARGEST:g}, found {value!r}")
    return float(value)


def _value_and_rate(pair: object) -> tuple[float, float]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise MemoryFormatError(f"received: expected a value and a rate, found {pair!r}")
    return _number(pair[0], "received"), _number(pair[1], "received")


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= MOST:
        raise MemoryFormatError(f"{name}: expected a whole number between -1 (none yet) and {MOST}, found {value!r}")
    return value


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _infinite(value: object) -> float:
    return math.inf if value is None else _number(value, "number")


def _maybe(value: object) -> float | None:
    return None if value is None else _number(value, "time")


def _encode_burst(burst: Burst) -> dict[str, Any]:
    return {"resources": dict(burst.resources), "duration": burst.duration_seconds, "deadline": burst.deadline_seconds}


def _decode_burst(value: Mapping[str, Any]) -> Burst:
    resources = {str(name): _number(amount, name) for name, amount in value["resources"].items()}
    return Burst(resources, _number(value["duration"], "duration"), _number(value["deadline"], "deadline"))


def _encode_arrival(arrival: Arrival | None) -> dict[str, Any] | None:
    match arrival:
        case None:
            return None
        case Periodic(period, first, jitter):
            return {"periodic": {"period": period, "first": first, "jitter": jitter}}
        case Sporadic(gap):
            return {"sporadic": gap}
        case Schedule(bursts, calendar, since):
            listed = {"schedule": [{"arrival": item.arrival, "burst": _encode_burst(item.burst)} for item in bursts]}
            return listed | ({"calendar": calendar, "since": since} if calendar else {})


def _decode_arrival(value: Mapping[str, Any] | None) -> Arrival | None:
    if value is None:
        return None
    if "periodic" in value:
        item = value["periodic"]
        return Periodic(_number(item["period"], "period"), _maybe(item["first"]), _number(item["jitter"], "jitter"))
    if "sporadic" in value:
        return Sporadic(_number(value["sporadic"], "sporadic"))
    bursts = tuple(ScheduledBurst(_number(item["arrival"], "arrival"), _decode_burst(item["burst"])) for item in value["schedule"])
    return Schedule(bursts, str(value.get("calendar", "")), _number(value.get("since", 0.0), "since"))


def encode_spec(spec: QueueSpec) -> dict[str, Any]:
    """Return a queue's declaration as JSON values."""
    return {
        "name": spec.name,
        "kind": spec.kind.value,
        "order": list(spec.order),
        "weight": spec.weight,
        "burst": _encode_burst(spec.burst) if spec.burst else None,
        "arrival": _encode_arrival(spec.arrival),
        "limits": dict(spec.limits),
        "suspended": spec.suspended,
        **({"lead_time": True} if spec.lead_time else {}),
    }


def decode_spec(value: Mapping[str, Any]) -> QueueSpec:
    """Invert `encode_spec`. Raises KeyError, TypeError, ValueError or MemoryFormatError for any other value."""
    created, name = value["order"]
    return QueueSpec(
        name=str(value["name"]),
        kind=QueueKind(value["kind"]),
        order=(_number(created, "order"), str(name)),
        weight=_number(value["weight"], "weight"),
        burst=_decode_burst(value["burst"]) if value["burst"] else None,
        arrival=_decode_arrival(value["arrival"]),
        limits={str(name): _number(amount, name) for name, amount in value["limits"].items()},
        suspended=bool(value["suspended"]),
        lead_time=bool(value.get("lead_time", False)),
    )


def _encode_window(window: Window | None) -> dict[str, Any] | None:
    if window is None:
        return None
    return {
        "state": window.state.value,
        "index": window.index,
        "arms_at": _finite(window.arms_at),
        "opens_by": _finite(window.opens_by),
        "opened": window.opened,
        "deadline": window.deadline,
        "demanded": window.demanded,
        "judged": window.judged,
        **({"behind": window.behind} if window.behind else {}),  # the bytes of other windows are the same as in versions before it
    }


def _decode_window(value: Mapping[str, Any] | None) -> Window | None:
    if value is None:
        return None
    return Window(
        state=WindowState(value["state"]),
        index=_whole(value["index"], "index"),
        arms_at=_infinite(value["arms_at"]),
        opens_by=_infinite(value["opens_by"]),
        opened=_maybe(value["opened"]),
        deadline=_maybe(value["deadline"]),
        demanded=bool(value["demanded"]),
        judged=bool(value["judged"]),
        behind=_number(value.get("behind", 0.0), "behind"),
    )


def _encode_condition(condition: ConditionResult | None) -> list[Any] | None:
    if condition is None:
        return None
    sides = [_finite(condition.left), _finite(condition.right)]
    return [condition.holds, *sides, condition.binding_resource, condition.binding_queue]


def _decode_condition(value: list[Any] | None) -> ConditionResult | None:
    if value is None:
        return None
    holds, left, right, resource, queue = value
    return ConditionResult(bool(holds), _infinite(left), _infinite(right), str(resource), str(queue))


def _encode_decision(decision: AdmissionDecision | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    return {
        "queue": decision.queue,
        "class": decision.guarantee_class.value if decision.guarantee_class else None,
        "reason": decision.reason,
        "message": decision.message,
        "safety": _encode_condition(decision.safety),
        "fairness": _encode_condition(decision.fairness),
        "resource": _encode_condition(decision.resource),
    }


def _decode_decision(value: Mapping[str, Any] | None) -> AdmissionDecision | None:
    if value is None:
        return None
    return AdmissionDecision(
        queue=str(value["queue"]),
        guarantee_class=GuaranteeClass(value["class"]) if value["class"] is not None else None,
        reason=str(value["reason"]),
        message=str(value["message"]),
        safety=_decode_condition(value["safety"]),
        fairness=_decode_condition(value["fairness"]),
        resource=_decode_condition(value["resource"]),
    )
