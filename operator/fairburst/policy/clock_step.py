"""Moves the memory with a step of the wall clock, so that no duration changes.

Everything that has begun moves with the clock: an open window keeps its remaining time, ledgers are charged only for the time that passed,
and gaps between bursts keep their length. Arrivals that a user has dated do not move: a window that waits for one opens at that time by the
new clock. After a step back it waits for the first such arrival at least half a period after the last burst, so that a clock that was ahead
for a moment uses up no arrivals.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import replace

from fairburst.policy.dress.memory import DressMemory
from fairburst.policy.model import Memory, Periodic, QueueMemory, Schedule, Window, WindowState
from fairburst.policy.reclaim.values import ReclaimMemory


def shifted(memory: Memory, seconds: float) -> Memory:
    """Return the memory after the clock has stepped by `seconds`; positive is forward."""
    queues = {name: shifted_queue(entry, seconds) for name, entry in memory.queues.items()}
    return Memory(queues, memory.next_admission_order, dress=None if memory.dress is None else _shifted_dress(memory.dress, seconds))


def shifted_queue(entry: QueueMemory, seconds: float) -> QueueMemory:
    """Return one queue's part of `shifted`."""
    return replace(
        entry,
        window=None if entry.window is None else _shifted_window(entry, entry.window, seconds),
        period_started=entry.period_started + seconds,
        last_opened=_moved(entry.last_opened, seconds),
        ledger_as_of=entry.ledger_as_of + seconds,
        fair_as_of=entry.fair_as_of + seconds,
        balance_as_of=entry.balance_as_of + seconds,
        waiting_since=_moved(entry.waiting_since, seconds),
        unit_held_since=_moved(entry.unit_held_since, seconds),
    )


def shifted_reclaim(memory: ReclaimMemory, seconds: float) -> ReclaimMemory:
    """Return the memory of reclaim after the same step."""
    return replace(
        memory,
        short_since={name: at + seconds for name, at in memory.short_since.items()},
        made_room={uid: at + seconds for uid, at in memory.made_room.items()},
        allowance_as_of=memory.allowance_as_of + seconds,
        asked={key: until + seconds for key, until in memory.asked.items()},
    )


def _shifted_window(entry: QueueMemory, window: Window, seconds: float) -> Window:
    arrival = entry.promise.arrival
    dated = isinstance(arrival, Schedule) or (isinstance(arrival, Periodic) and arrival.first_arrival is not None)
    if dated and window.state is WindowState.CLOSED:
        return window if seconds >= 0 else _first_after(entry, window, seconds)
    if seconds < 0 and isinstance(arrival, Periodic) and arrival.first_arrival is not None:  # the next index follows from this one
        began = (window.opens_by if window.opened is None else window.opened) + seconds
        passed = math.floor((began - arrival.first_arrival) / arrival.period_seconds)
        window = replace(window, index=min(window.index, max(passed, 0)))
    return replace(
        window,
        arms_at=window.arms_at + seconds,
        opens_by=window.opens_by + seconds,
        opened=_moved(window.opened, seconds),
        deadline=_moved(window.deadline, seconds),
    )


def _first_after(entry: QueueMemory, window: Window, seconds: float) -> Window:
    """Return a closed window that waits for the first dated arrival after the last opening, but for none later than before."""
    arrival, index, last = entry.promise.arrival, window.index, -math.inf if entry.last_opened is None else entry.last_opened + seconds
    if isinstance(arrival, Schedule):
        index = min(index, bisect_right([burst.arrival for burst in arrival.bursts], last))
        at = arrival.bursts[index].arrival if index < len(arrival.bursts) else math.inf
        return replace(window, index=index, arms_at=at, opens_by=at)
    if not isinstance(arrival, Periodic) or arrival.first_arrival is None:
        return window
    following = math.ceil((last - arrival.first_arrival) / arrival.period_seconds + 0.5) if math.isfinite(last) else 0
    index = min(index, max(0, following))
    at = arrival.first_arrival + index * arrival.period_seconds
    return replace(window, index=index, arms_at=at - arrival.jitter_seconds, opens_by=at + arrival.jitter_seconds)


def _shifted_dress(memory: DressMemory, seconds: float) -> DressMemory:
    """Return the memory of DRESS after the same step. Ends of tasks do not move, because the API server has dated them."""
    prediction = memory.prediction
    return replace(
        memory,
        adjusted_at=memory.adjusted_at + seconds,
        prediction=None if prediction is None else replace(prediction, made_at=prediction.made_at + seconds, due=prediction.due + seconds),
        lead_times={name: replace(record, as_of=record.as_of + seconds) for name, record in memory.lead_times.items()},
    )


def _moved(at: float | None, seconds: float) -> float | None:
    return None if at is None else at + seconds
