"""A queue's accounts as `status.internal` keeps them: the writer of the memory that `status_memory.py` reads. Pure.

A counter is stored as (value, rate, as of), and is written again only if it no longer predicts its true value, so that an unchanged cluster
causes no writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fairburst.kube.times import to_epoch, to_text
from fairburst.policy.model import QueueDecision, QueueMemory, WindowState

MILLI, MICRO = 1000, 1_000_000
LEDGER_TOLERANCE = 0.05  # dominant-share-seconds by which a stored ledger may drift before it is rewritten
RATE_TOLERANCE = 2e-4  # of capacity


def accounts_of(memory: QueueMemory, decision: QueueDecision, current: Mapping[str, Any], wall: float) -> dict[str, Any]:
    """Return status.internal without the parts that other modules supply.

    `current`: the stored one. Its counters stay while they predict the true values.
    """
    written = _accounts(memory, current, wall)
    if memory.last_opened is not None:
        written["lastOpened"] = to_text(memory.last_opened)
    turns = {"waitingSince": memory.waiting_since, "heldSince": memory.unit_held_since}
    if any(since is not None for since in turns.values()):
        written["rounding"] = {name: to_text(since) for name, since in turns.items() if since is not None}
    if balance := _balance(memory, current.get("balance")):
        written["balance"] = balance
    if decision.window is None:
        return written
    written["debtMilliseconds"] = round(memory.debt * MILLI)
    if math.isfinite(memory.residual_level):
        written["residualLevelMicro"] = round(memory.residual_level * MICRO)
    if window := _window(decision):
        written["window"] = window
    return written


def _window(decision: QueueDecision) -> dict[str, Any]:
    window = decision.window
    assert window is not None  # noqa: S101 (the caller has checked)
    written: dict[str, Any] = {name: True for name, value in (("demanded", window.demanded), ("judged", window.judged)) if value}
    if window.behind:
        written["behindMilliseconds"] = round(window.behind * MILLI)
    if window.state in {WindowState.OPEN, WindowState.OVERDUE}:
        written |= {
            "consumedMilliseconds": round(decision.consumed * MILLI),
            "budgetMilliseconds": round(decision.budget * MILLI),
        }
    return written


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
        written["periodStarted"] = to_text(memory.period_started)
        written["fairShare"] = _growing(memory.fair_value, memory.fair_rate, memory.fair_as_of, fair, wall)
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
    """Return whether the amounts received by resource count: a window is open or overdue. Each window begins with zeros."""
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
        "asOf": to_text(memory.balance_as_of),
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
    return {"valueMilliseconds": round(amount * MILLI), "rateMicro": round(rate * MICRO), "asOf": to_text(wall)}
