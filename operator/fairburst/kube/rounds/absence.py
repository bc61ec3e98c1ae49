"""Make up for a time without a leader: the first step of a replica that begins to lead. Pure.

Windows open when their work came, and open windows are charged for the use since their accounts were written. A stored account grows at
its last rate, but its leader may have been killed before it wrote a newer one. For the time that this process has watched, the observed use
is charged. For the time before, the larger of the account's rate and the use of the pods that run now, whose start times are known, is
charged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fairburst.kube.containment import Containment
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.usage.recent_use import RecentUse
from fairburst.policy.arrays import FloatArray
from fairburst.policy.decide import decide
from fairburst.policy.drf import inverse_capacity
from fairburst.policy.model import ClusterSnapshot, Memory, PolicyConfig, QueueMemory, WindowState
from fairburst.policy.tolerance import TOLERANCE

CREATION_STEP_SECONDS = 1.0  # the API server rounds creation times down to it

Piece = tuple[float, FloatArray | None, bool]


class Absence:
    """Charges the accounts once in each term of leadership, before its first decision.

    since: monotonic time from which no process may have led.
    """

    def __init__(self, contained: Containment) -> None:
        self._contained = contained
        self._recent: RecentUse | None = None
        self.since = math.inf

    def begin(self, recent: RecentUse) -> None:
        """Charge the accounts in the next round, by the use that this process has seen."""
        self._recent = recent

    def charge(self, memory: Memory, snapshot: ClusterSnapshot, pods: PodIndex, config: PolicyConfig, wall: float, now: float) -> Memory:
        """Return the memory as `open_in_time` and `charge_absence` leave it; unchanged after the first round."""
        recent, self._recent = self._recent, None
        if recent is not None:
            with self._contained.object("open windows in time of", ""):
                memory = open_in_time(memory, snapshot, config, self.since - now + wall, wall)
            with self._contained.object("charge the absence of", ""):
                memory = charge_absence(memory, snapshot, pods, recent, wall, now)
        return memory


def open_in_time(memory: Memory, snapshot: ClusterSnapshot, config: PolicyConfig, since: float, wall: float) -> Memory:
    """Return the memory with windows due when their work came, if that was in the absence and this round would open them.

    A leader would have opened them then. All work of such a queue must have been created after `since`, because older work may have grown
    at any time. A window that would be over opens now. Times are seconds since the epoch.
    """
    due: dict[str, QueueMemory] = {}
    for row, created in snapshot.oldest_work.items():
        name = snapshot.queues[row].name
        entry = memory.queues.get(name) if created >= since else None
        moved = None if entry is None else _due_with_its_work(entry, created, wall)
        if moved is not None:
            due[name] = moved
    if not due:
        return memory
    after = decide(snapshot, memory, config, wall)[1].queues
    opened = {name: window.opened for name in due if (window := after[name].window) is not None}
    due = {name: entry for name, entry in due.items() if opened.get(name) == wall}
    return Memory({**memory.queues, **due}, memory.next_admission_order, dress=memory.dress) if due else memory


def _due_with_its_work(entry: QueueMemory, created: float, wall: float) -> QueueMemory | None:
    """Return the entry with its window due when its work came; None if that changes nothing, or the window would be over."""
    window, burst = entry.window, entry.promise.burst
    if window is None or burst is None or window.state not in {WindowState.CLOSED, WindowState.ARMED}:
        return None
    opens = max(window.arms_at, created + CREATION_STEP_SECONDS)
    if opens >= min(wall, window.opens_by) or opens + burst.deadline_seconds <= wall:
        return None
    return replace(entry, window=replace(window, opens_by=opens))


def charge_absence(memory: Memory, snapshot: ClusterSnapshot, pods: PodIndex, recent: RecentUse, wall: float, now: float) -> Memory:
    """Return the memory that was read from the cluster, with the accounts of open windows carried to `wall`, or to their deadlines.

    A window that should have opened meanwhile is opened by the core, at its time. Until `wall` it is charged at the mean rate since then.
    `wall` is seconds since the epoch, `now` monotonic seconds.
    """
    inverse = inverse_capacity(np.where(snapshot.committed_capacity > 0, snapshot.committed_capacity, snapshot.live_capacity))
    charged: dict[str, QueueMemory] = {}
    for row, spec in enumerate(snapshot.queues):
        entry = memory.queues.get(spec.name)
        begun = None if entry is None else _last_window(entry, wall)
        if entry is None or begun is None:
            continue
        (start, end), ago, space = begun, now - wall, pods.spaces.of_queue(*spec.name.split("/"))
        bound = np.array([pods.namespace(space).bound.get(resource, 0.0) for resource in snapshot.resources])
        pieces = recent.pieces(space, pods.spaces, snapshot.resources, bound, start + ago, end + ago, now)
        most = _guaranteed(entry, snapshot.resources, snapshot.unit[row]) * inverse
        if entry.window is not None and entry.window.state is WindowState.OPEN:
            charged[spec.name] = _charged(entry, snapshot.resources, inverse, most, pieces, end)
        else:
            before = _carried(entry, start)
            charged[spec.name] = _at_mean_rates(before, _charged(before, snapshot.resources, inverse, most, pieces, end))
    if not charged:
        return memory
    return Memory({**memory.queues, **charged}, memory.next_admission_order, dress=memory.dress)


def _last_window(entry: QueueMemory, wall: float) -> tuple[float, float] | None:
    """Return the begin and end of the use that is charged to the window that is open, or should have opened; None without such a window."""
    window, burst = entry.window, entry.promise.burst
    if window is None:
        return None
    if window.state is WindowState.OPEN and window.deadline is not None:
        start, deadline = entry.ledger_as_of, window.deadline
    elif window.state in {WindowState.CLOSED, WindowState.ARMED} and burst is not None and window.opens_by >= entry.ledger_as_of:
        start, deadline = window.opens_by, window.opens_by + burst.deadline_seconds
    else:
        return None
    end = min(wall, deadline)
    return (start, end) if start < end else None


def _carried(entry: QueueMemory, at: float) -> QueueMemory:
    """Return the entry as of a later time, at its own rates."""
    since = at - entry.ledger_as_of
    return replace(
        entry,
        ledger_value=entry.ledger_value + entry.ledger_rate * since,
        delivered_value=entry.delivered_value + entry.delivered_rate * since,
        received={name: (value + rate * since, rate) for name, (value, rate) in entry.received.items()},
        ledger_as_of=at,
    )


def _at_mean_rates(before: QueueMemory, after: QueueMemory) -> QueueMemory:
    """Return the entry before, with the rates that lead to the one after."""
    seconds = after.ledger_as_of - before.ledger_as_of
    values = {name: before.received.get(name, (0.0, 0.0))[0] for name in after.received}
    return replace(
        before,
        ledger_rate=(after.ledger_value - before.ledger_value) / seconds,
        delivered_rate=(after.delivered_value - before.delivered_value) / seconds,
        received={name: (values[name], (value - values[name]) / seconds) for name, (value, _) in after.received.items()},
    )


def _charged(
    entry: QueueMemory, resources: tuple[str, ...], inverse: FloatArray, most: FloatArray, pieces: Iterator[Piece], end: float
) -> QueueMemory:
    """Return the entry with its counters as of `end`. most: (K,) shares that count as guaranteed at once."""
    received, rates = np.array([entry.received.get(resource, (0.0, 0.0)) for resource in resources]).T
    part = min(entry.ledger_rate / entry.delivered_rate, 1.0) if entry.delivered_rate > 0 else 1.0  # the rest was spare
    ledger, delivered, last = entry.ledger_value, entry.delivered_value, (rates, entry.ledger_rate, entry.delivered_rate)
    for number, (seconds, usage, seen) in enumerate(pieces):
        shares = np.zeros(len(resources)) if usage is None else usage * inverse
        charges = np.minimum(shares * part, most)
        use, charge = float(shares.max()), float(charges.max())
        if not seen:
            use, charge, charges = max(use, entry.delivered_rate), max(charge, entry.ledger_rate), np.maximum(charges, rates)
        ledger, delivered, received = ledger + charge * seconds, delivered + use * seconds, received + charges * seconds
        if number == 0:
            last = charges, charge, use
    return replace(
        entry,
        ledger_value=ledger,
        ledger_rate=last[1],
        delivered_value=delivered,
        delivered_rate=last[2],
        ledger_as_of=end,
        received={name: (float(received[at]), float(last[0][at])) for at, name in enumerate(resources)},
    )


def _guaranteed(entry: QueueMemory, resources: tuple[str, ...], unit: FloatArray) -> FloatArray:
    """Return (K,) the most that counts at once: the rate of the declared burst in whole pods; infinite if none is declared."""
    burst = entry.promise.burst
    if burst is None:
        return np.full(len(resources), np.inf)
    speed = burst.duration_seconds / burst.deadline_seconds
    rate = np.array([burst.resources.get(resource, np.inf) * speed for resource in resources])
    whole = np.where(unit > 0, unit, 1.0)
    return np.where(unit > 0, np.ceil(rate / whole - TOLERANCE) * whole, rate)
