"""A forecast's input from a decided round alone, such as the last one of a recording: amounts of work, without times or durations."""

from __future__ import annotations

from fairburst.forecast.state import JobState, StageState
from fairburst.policy.arrays import FloatArray
from fairburst.policy.tolerance import TOLERANCE
from fairburst.sim.engine import EPOCH
from fairburst.whatif.rounds import DecidedRound


def jobs_of(one: DecidedRound) -> tuple[JobState, ...]:
    """Return each queue's usage as pods that run, and the rest of its demand as pods that wait; of the queue's known size, if it is.

    Running pods of an open burst count as started with it, all others as started now.
    """
    snapshot, jobs = one.snapshot, list[JobState]()
    for row, spec in enumerate(snapshot.queues):
        entry = one.following.queues.get(spec.name)
        window = None if entry is None else entry.window
        began = (one.now if window is None or window.opened is None else window.opened) - EPOCH
        parts = {"running": snapshot.usage[row], "waiting": (snapshot.demand[row] - snapshot.usage[row]).clip(0.0)}
        for part, amount in parts.items():
            if amount.max(initial=0.0) <= TOLERANCE:
                continue
            pods = _pods(amount, snapshot.unit[row])
            waiting, running = (0, ((pods, began),)) if part == "running" else (pods, ())
            stage = StageState(pods, waiting, running, tuple((amount / pods).tolist()), None)
            jobs.append(JobState(f"{spec.name}/{part}", spec.name, began, (stage,), has_started=bool(running)))
    return tuple(jobs)


def _pods(amount: FloatArray, unit: FloatArray) -> int:
    """Return the number of pods of this size that have the amount."""
    counted = unit > 0
    return max(1, round(float((amount[counted] / unit[counted]).max()))) if counted.any() else 1
