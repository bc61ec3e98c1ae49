"""The next bursts of a latency queue in a forward run: their arrivals, their pods, and the durations of these."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fairburst.forecast.forward import MOMENT, ComingBurst
from fairburst.forecast.from_question import AskedState
from fairburst.forecast.learned import Durations
from fairburst.forecast.state import State
from fairburst.policy.model import (
    Burst,
    GuaranteeClass,
    Periodic,
    QueueKind,
    QueueMemory,
    QueueSpec,
    Schedule,
    Sporadic,
    Window,
    WindowState,
)
from fairburst.sim.engine import EPOCH
from fairburst.sim.workload import DagJob, Stage

AHEAD_SECONDS = 900.0  # later bursts have no forecast, because the work that will run then has not arrived yet
MOST_PODS = 500
LATER = 2 * MOMENT  # by which a sporadic burst comes later than it may, since the one before may have come a moment later than now


@dataclass(frozen=True, slots=True)
class Candidate:
    """A future burst. opens: its expected arrival, seconds since the epoch, or None if it may come now. unit: its largest pod."""

    queue: str
    burst: Burst
    opens: float | None
    resources: tuple[str, ...]
    unit: tuple[float, ...]


def is_open(entry: QueueMemory) -> bool:
    """Return whether a burst is under way that has been neither met nor missed."""
    window = entry.window
    return window is not None and window.state is WindowState.OPEN and window.demanded and not window.judged


def candidates(asked: AskedState, now: float) -> Iterator[Candidate]:
    """Yield the next burst of each queue with a promise, except queues whose burst is under way and bursts after AHEAD_SECONDS."""
    state = asked.state
    for spec in state.queues:
        entry = state.memory.queues.get(spec.name)
        if spec.kind is not QueueKind.LATENCY or entry is None or entry.window is None or entry.promise.burst is None:
            continue
        if entry.guarantee_class not in {GuaranteeClass.HARD, GuaranteeClass.SOFT} or entry.window.state in {
            WindowState.OPEN,
            WindowState.OVERDUE,
        }:
            continue
        opens = _opens(entry.window)
        if opens is None or opens <= now + AHEAD_SECONDS:
            yield Candidate(spec.name, entry.promise.burst, opens, state.cluster.resources, asked.units.get(spec.name, ()))


def bursts_due(state: State, units: Mapping[str, tuple[float, ...]], until: float) -> Iterator[Candidate]:
    """Yield the bursts to come of all latency queues, with a promise or without, whose deadlines are before `until`, by deadline.

    Bursts come as early as declared. units: the largest pod of each queue. until: seconds since the epoch.
    """
    now, found = state.now + EPOCH, list[Iterator[tuple[float, Candidate]]]()
    for spec in state.queues:
        if spec.kind is QueueKind.LATENCY and not spec.suspended:
            entry = state.memory.queues.get(spec.name)
            promise, window = (spec, None) if entry is None else (entry.promise, entry.window)
            found.append(_due(promise, window, state.cluster.resources, units.get(spec.name, ()), now))
    for due, candidate in heapq.merge(*found, key=lambda one: one[0]):
        if due > until:
            break
        yield candidate


def _due(
    promise: QueueSpec, window: Window | None, resources: tuple[str, ...], unit: tuple[float, ...], now: float
) -> Iterator[tuple[float, Candidate]]:
    """Yield the bursts to come of one queue without end, each with its deadline."""
    for opens, burst in _arrivals(promise, window, now):
        yield opens + burst.deadline_seconds, Candidate(promise.name, burst, opens, resources, unit)


def _arrivals(promise: QueueSpec, window: Window | None, now: float) -> Iterator[tuple[float, Burst]]:
    begun = window is not None and window.state in {WindowState.OPEN, WindowState.OVERDUE}
    if isinstance(promise.arrival, Schedule):
        bursts = promise.arrival.bursts
        for at in range(0 if window is None else window.index + begun, len(bursts)):
            if bursts[at].arrival >= now:
                yield bursts[at].arrival, bursts[at].burst
        return
    match promise.arrival:
        case Periodic(gap, first, _):
            pass
        case Sporadic(gap):
            first = None
        case _:
            return
    if promise.burst is None:
        return
    if window is None:
        opens = now if first is None else first + max(0, math.ceil((now - first) / gap)) * gap
    elif not begun:
        opens = _opens(window) or now
    elif first is not None:
        opens = first + (window.index + 1) * gap
    else:
        opens = (now if window.opened is None else window.opened) + gap
    opens, placed = max(opens, now), first is not None
    while True:
        yield opens, promise.burst
        opens += gap if placed else gap + LATER


def _opens(window: Window) -> float | None:
    """Return the expected arrival of the next burst, the middle of the times at which it may begin; None if it may begin now."""
    if math.isfinite(window.opens_by):
        return (window.arms_at + window.opens_by) / 2
    return None if window.state is WindowState.ARMED else window.arms_at


def coming_burst(candidate: Candidate, durations: Durations, draw: np.random.Generator, now: float) -> ComingBurst:
    """Draw the burst: its whole declaration at once, in pods of the known size, which run as long as earlier ones or as declared.

    Pods of a queue that has had none yet are as small as they can be here.

    now: seconds of the simulator's clock.
    """
    burst = candidate.burst
    whole = np.array([burst.resources.get(name, 0.0) for name in candidate.resources])
    unit = np.array(candidate.unit)
    counted = (unit > 0) & (whole > 0) if unit.size else np.zeros(whole.size, dtype=bool)
    pods = int(np.clip(np.ceil((whole[counted] / unit[counted]).max() - 1e-9), 1, MOST_PODS)) if counted.any() else MOST_PODS
    known = durations.of_queue(candidate.queue)
    seconds = float(known[int(draw.integers(len(known)))]) if known else burst.duration_seconds
    at = now + MOMENT if candidate.opens is None else max(candidate.opens - EPOCH, now + MOMENT)
    job = DagJob("burst", (Stage("pods", pods, seconds, tuple((whole / pods).tolist())),))
    return ComingBurst(candidate.queue, at, job, burst.deadline_seconds)
