"""Queues in one line for people, from the objects alone. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fairburst.quantity import format_quantity, parse_quantity

if TYPE_CHECKING:
    from fairburst.kube.queues.listing import Queues

Amounts = Mapping[str, str]


def waiting(status: Mapping[str, Any]) -> dict[str, str]:
    """Return the demand that does not run, by resource."""
    wanted, used = status.get("demand") or {}, status.get("usage") or {}
    left = {name: parse_quantity(text) - parse_quantity(used.get(name, "0")) for name, text in wanted.items()}
    return {name: format_quantity(name, amount) for name, amount in left.items() if amount > 1e-9}


def amounts_text(amounts: Amounts | None) -> str:
    """Return amounts as text for a table: "12 cpu, 24Gi memory"."""
    return ", ".join(f"{text} {name}" for name, text in (amounts or {}).items()) or "-"


def first_amount(amounts: Amounts) -> str:
    """Return the amount of cpu, else of any other resource."""
    name = "cpu" if "cpu" in amounts else next(iter(amounts), "")
    return f"{amounts[name]} {name}" if name else "-"


def seconds_text(seconds: float) -> str:
    """Return a time span in its two largest units: "1h 5m", "45s"."""
    left = max(0, round(seconds))
    parts = []
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def next_burst(window: Mapping[str, Any] | None, now: float) -> str:
    """Return the state of the queue's window or the time until it: "open, 12s left", "any time", "in 5m"."""
    if not window:
        return "-"
    at = {name: datetime.fromisoformat(window[name]).timestamp() for name in ("armsAt", "opensBy", "deadline") if window.get(name)}
    return burst_in_words(window.get("state"), at, now)


def burst_in_words(state: str | None, at: Mapping[str, float], now: float) -> str:
    """Return the same text for a window whose times are in seconds."""
    match state:
        case "Open" if "deadline" in at:
            return f"open, {seconds_text(at['deadline'] - now)} left"
        case "Overdue":
            return "overdue"
        case "Armed":
            return f"within {seconds_text(at['opensBy'] - now)}" if at.get("opensBy", now) > now else "any time"
        case "Closed" if "armsAt" in at:
            return f"in {seconds_text(at['armsAt'] - now)}" if at["armsAt"] > now else "any time"
        case _:
            return "-"


def condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return one condition; empty if the queue has none of that type."""
    return next((one for one in status.get("conditions") or [] if one.get("type") == kind), {})


def trouble(status: Mapping[str, Any]) -> str:
    """Return why a queue is not ready: the message of the condition with Ready's reason, else Ready's own."""
    ready = condition(status, "Ready")
    conditions = status.get("conditions") or []
    false_ones = [
        one for one in conditions if one["type"] != "Ready" and one["status"] == "False" and one.get("reason") == ready.get("reason")
    ]
    return str((false_ones[0] if false_ones else ready).get("message", ""))


def summaries(queues: Queues, now: float) -> list[dict[str, Any]]:
    """Return each queue's line as data, by namespace and name."""
    found = []
    for (kind, namespace, name), obj in sorted(queues.items(), key=lambda item: item[0][1:]):
        status, spec = obj.get("status") or {}, obj.get("spec") or {}
        ready, history = condition(status, "Ready"), status.get("history") or {}
        found.append(
            {
                "namespace": namespace,
                "name": name,
                "kind": kind,
                "pool": spec.get("pool", "default"),
                "weight": spec.get("weight", 1),
                "enforcement": spec.get("enforcement", "Quota"),
                "class": status.get("class"),
                "share": status.get("share"),
                "waiting": waiting(status),
                "wanted": status.get("demand") or {},
                "used": status.get("usage") or {},
                "allocated": status.get("allocation") or {},
                "nextBurst": next_burst(status.get("window"), now) if kind == "LatencyQueue" else "-",
                "met": history.get("met", 0),
                "missed": history.get("missed", 0),
                "ready": ready.get("status", "Unknown"),
                "reason": ready.get("reason", "NotDecided"),
                "message": ready.get("message", "no operator has decided on it yet"),
            }
        )
    return found
