"""Make up for a time without a leader: the first step of a replica that begins to lead. Pure.

Windows open when their work came (`ClusterSnapshot.unseen_work`). Open windows are charged for the use since their accounts were written. A
stored account grows at its last rate, but its leader may have been killed before it wrote a newer one. For the time that this process has
watched, the observed use is charged. For the time before, the larger of the account's rate and the use of the pods that run now, whose
start times are known, is charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fairburst.kube.containment import Containment
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.usage.recent_use import RecentUse
from fairburst.policy.arrays import FloatArray
from fairburst.policy.decide import decide
from fairburst.policy.drf import inverse_capacity
from fairburst.policy.model import ClusterSnapshot, Memory, PolicyConfig, QueueMemory, Sporadic, WindowState
from fairburst.policy.tolerance import TOLERANCE

CREATION_STEP_SECONDS = 1.0  # the API server rounds creation times down to it
MOST_TIMES = 200  # of one queue's unseen work, the latest: each may open a window, which takes a pass over all queues

Piece = tuple[float, FloatArray | None, bool]
Created = Callable[[int], Sequence[float] | None]  # creation times of a row's work, ascending; None if some are not known


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

    def make_up(
        self, memory: Memory, snapshot: ClusterSnapshot, created: Created, pods: PodIndex, config: PolicyConfig, wall: float,
        now: float,
    ) -> tuple[Memory, ClusterSnapshot]:  # fmt: skip
        """Return the memory as `charge_absence` leaves it, and the snapshot with `unseen_work`; both unchanged after the first round."""
        recent, self._recent = self._recent, None
        if recent is not None:
            opened: dict[str, float] = {}
            with self._contained.object("open windows in time of", ""):
                unseen = unseen_work(memory, snapshot, created, config, self.since - now + wall, wall)
                if unseen:
                    given = replace(snapshot, unseen_work=unseen)
                    opened, snapshot = _opened(memory, given, config, wall), given
            with self._contained.object("charge the absence of", ""):
                memory = charge_absence(memory, snapshot, pods, recent, wall, now, opened)
        return memory, snapshot


def unseen_work(
    memory: Memory, snapshot: ClusterSnapshot, created: Created, config: PolicyConfig, since: float, wall: float
) -> dict[int, tuple[float, ...]]:
    """Return the snapshot's `unseen_work`: when unfinished work came in the absence that demands a window, in seconds since the epoch.

    Older work may have grown at any time, so that it is not known when it began to demand a window. A queue with such work, or with work of
    unknown age, is left out, unless its window was open then: the older work is that window's.
    """
    found = dict[int, tuple[float, ...]]()
    for row in np.flatnonzero(snapshot.demand.any(axis=1)).tolist():
        entry = memory.queues.get(snapshot.queues[row].name)
        window = None if entry is None else entry.window
        times = None if window is None else created(row)
        if window is None or not times or (times[0] < since and window.state not in {WindowState.OPEN, WindowState.OVERDUE}):
            continue
        came = tuple(time + CREATION_STEP_SECONDS for time in times if time >= since)[-MOST_TIMES:]
        if came and came[0] < wall:
            found[row] = came
    if not found:
        return found
    after = decide(snapshot, memory, config, wall)[1].queues
    return {row: came for row, came in found.items() if _demands_window(after[snapshot.queues[row].name], wall)}


def _demands_window(after: QueueMemory, wall: float) -> bool:
    """Return whether the core opens a window now, or opens windows at given times whatever the demand; by the memory after this round."""
    return after.window is not None and (after.window.opened == wall or not isinstance(after.promise.arrival, Sporadic))


def _opened(memory: Memory, snapshot: ClusterSnapshot, config: PolicyConfig, wall: float) -> dict[str, float]:
    """Return when the present window of each queue with unseen work opened."""
    after = decide(snapshot, memory, config, wall)[1].queues
    windows = {name: after[name].window for name in (snapshot.queues[row].name for row in snapshot.unseen_work)}
    return {name: window.opened for name, window in windows.items() if window is not None and window.opened is not None}


def charge_absence(
    memory: Memory, snapshot: ClusterSnapshot, pods: PodIndex, recent: RecentUse, wall: float, now: float,
    opened: Mapping[str, float] | None = None,
) -> Memory:  # fmt: skip
    """Return the memory that was read from the cluster, with the accounts of open windows carried to `wall`, or to their deadlines.

    A window that should have opened meanwhile is opened by the core, at its time. Until `wall` it is charged at the mean rate since then.
    `opened`: by name of a queue with unseen work, when the core opens its last window. `wall` is seconds since the epoch, `now` monotonic
    seconds.
    """
    inverse = inverse_capacity(np.where(snapshot.committed_capacity > 0, snapshot.committed_capacity, snapshot.live_capacity))
    charged: dict[str, QueueMemory] = {}
    for row, spec in enumerate(snapshot.queues):
        entry = memory.queues.get(spec.name)
        unseen = (opened or {}).get(spec.name)
        spans = [] if entry is None else _spans(entry, wall, unseen)
        if entry is None or not spans:
            continue
        ago, space = now - wall, pods.spaces.of_queue(*spec.name.split("/"))
        bound = np.array([pods.namespace(space).bound.get(resource, 0.0) for resource in snapshot.resources])
        most = _guaranteed_shares(entry, snapshot.resources, snapshot.unit[row], inverse)
        for start, end, is_open in spans:
            pieces = recent.pieces(space, pods.spaces, snapshot.resources, bound, start + ago, end + ago, now)
            before = entry if is_open else _carried(entry if unseen is None else _at_rest(entry), start)
            entry = _charged(before, snapshot.resources, inverse, most, pieces, end)
            entry = entry if is_open else _at_mean_rates(before, entry)
        charged[spec.name] = entry
    if not charged:
        return memory
    return Memory({**memory.queues, **charged}, memory.next_admission_order, dress=memory.dress)


def _spans(entry: QueueMemory, wall: float, opened: float | None) -> list[tuple[float, float, bool]]:
    """Return begin and end of the use that is charged to the window that is open, and to the last one that has opened since or should have.

    The third value says whether the window is open.
    """
    window, burst, since = entry.window, entry.promise.burst, entry.ledger_as_of
    if window is None:
        return []
    spans = list[tuple[float, float, bool]]()
    if window.state is WindowState.OPEN and window.deadline is not None:
        spans.append((since, min(wall, window.deadline), True))
        since = window.deadline
    elif opened is None and window.state in {WindowState.CLOSED, WindowState.ARMED}:
        opened = window.opens_by
    if opened is not None and burst is not None and opened >= since:
        spans.append((opened, min(wall, opened + burst.deadline_seconds), False))
    return [span for span in spans if span[0] < span[1]]


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


def _at_rest(entry: QueueMemory) -> QueueMemory:
    """Return the entry without rates: no one knows for how long the earlier work ran."""
    received = {name: (value, 0.0) for name, (value, _) in entry.received.items()}
    return replace(entry, ledger_rate=0.0, delivered_rate=0.0, received=received)


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


def _guaranteed_shares(entry: QueueMemory, resources: tuple[str, ...], unit: FloatArray, inverse: FloatArray) -> FloatArray:
    """Return (K,) the largest shares that count at once: the rate of the declared burst in whole pods; infinite where none is declared.

    Zero for a resource without capacity.
    """
    burst = entry.promise.burst
    declared = {} if burst is None else burst.resources
    speed = 1.0 if burst is None else burst.duration_seconds / burst.deadline_seconds
    rate = np.array([declared.get(resource, np.inf) * speed for resource in resources])
    whole = np.where(unit > 0, unit, 1.0)
    amount = np.where(unit > 0, np.ceil(rate / whole - TOLERANCE) * whole, rate)
    return np.multiply(amount, inverse, out=np.zeros_like(amount), where=inverse > 0)
