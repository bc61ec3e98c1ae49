"""The next burst of a latency queue in a forward run: its arrival, its pods, and their durations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairburst.forecast.forward import ComingBurst
from fairburst.forecast.from_question import AskedState
from fairburst.forecast.learned import Durations
from fairburst.policy.model import Burst, GuaranteeClass, QueueKind, QueueMemory, Window, WindowState
from fairburst.sim.engine import EPOCH
from fairburst.sim.workload import DagJob, Stage

AHEAD_SECONDS = 900.0  # later bursts have no forecast, because the work that will run then has not arrived yet
MOST_PODS = 500


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


def _opens(window: Window) -> float | None:
    """Return the expected arrival of the next burst, the middle of the times at which it may begin; None if it may begin now."""
    if math.isfinite(window.opens_by):
        return (window.arms_at + window.opens_by) / 2
    return None if window.state is WindowState.ARMED else window.arms_at


def coming_burst(candidate: Candidate, durations: Durations, draw: np.random.Generator, now: float) -> ComingBurst:
    """Draw the burst: its whole declaration at once, in pods of the known size, which run as long as earlier ones or as declared.

    now: seconds of the simulator's clock.
    """
    burst = candidate.burst
    whole = np.array([burst.resources.get(name, 0.0) for name in candidate.resources])
    unit = np.array(candidate.unit)
    counted = (unit > 0) & (whole > 0) if unit.size else np.zeros(whole.size, dtype=bool)
    pods = int(np.clip(np.ceil((whole[counted] / unit[counted]).max() - 1e-9), 1, MOST_PODS)) if counted.any() else 1
    known = durations.of_queue(candidate.queue)
    seconds = float(known[int(draw.integers(len(known)))]) if known else burst.duration_seconds
    at = now + 1e-3 if candidate.opens is None else max(candidate.opens - EPOCH, now + 1e-3)
    job = DagJob("burst", (Stage("pods", pods, seconds, tuple((whole / pods).tolist())),))
    return ComingBurst(candidate.queue, at, job, burst.deadline_seconds)
