"""Lead time (ours): room ahead of a predictable burst without preemption.

Running tasks end by themselves, and learned durations predict the release by the arrival. As long as that and the free room exceed the
burst's rate, the excess may be allocated. So the hold begins at the latest moment from which releases alone free the rate by the arrival,
and returns room that turns out to be unnecessary. Work that is expected to end before the arrival takes nothing from the burst and may
start.

The idle capacity is charged to the queue's ledger, as far as its fair share F of the period has slack, so neither the burst's budget nor
the long-term bound changes. Without slack, or without history, nothing is held.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.dress.learned import FEWEST, FamilyDurations, Outlook
from fairburst.policy.dress.values import DemandCategory, Job
from fairburst.policy.lead_time_record import LeadTimeDecision
from fairburst.policy.tolerance import slack_of

CAUTION = 1.0  # standard deviations subtracted from the expected release: five arrivals in six find the room
SURE = 0.95  # quantile of a family's durations after which a job that starts now must have ended


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """An expected burst. arrival: the earliest, seconds. rate: (K,) that must be free then. slack: F - ledger of its queue,
    dominant-share-seconds. resting: bursts that must pass before room is held again, because it was not worth it."""

    queue: str
    arrival: float
    rate: FloatArray
    slack: float
    resting: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Hold:
    """One round's holds. room: (K,) free room that others may take. decisions: in order of arrival. extra: requests of small jobs that may
    start in addition, by queue name."""

    room: FloatArray
    decisions: tuple[LeadTimeDecision, ...]
    extra: tuple[tuple[str, FloatArray], ...]


def plan_holds(
    bursts: Sequence[Expected], free: FloatArray, capacity: FloatArray, outlook: Outlook | None, pending: Sequence[Job], now: float,
    max_lead_seconds: float,
) -> Hold:  # fmt: skip
    """Return how much others may still take so that expected bursts find their rates free.

    Parameters
    ----------
    bursts : expected bursts of hard queues with lead time on
    free : (K,) resource units, free now and not owed to a guaranteed queue
    capacity : (K,) resource units, live capacity
    outlook : running tasks with learned durations; None: nothing has been learned
    pending : jobs that wait
    now : seconds
    max_lead_seconds : bursts further away than this are ignored

    Returns
    -------
    Hold; `room` is `free` if nothing is held.

    Notes
    -----
    Design §5; no paper has it. For bursts in order of arrival T_j: room = min_j(free + release by T_j - sum of the rates up to j), in
    [0, free]. The release is the mean less CAUTION standard deviations, tasks taken as independent. O(M log) a burst.
    """
    room = free.copy()
    needed = np.zeros_like(free)
    decisions = []
    extra: dict[str, tuple[str, FloatArray]] = {}
    for burst in sorted(bursts, key=lambda one: (one.arrival, one.queue)):
        ahead = max(burst.arrival - now, 0.0)
        if ahead > max_lead_seconds:
            continue
        refusal = _refusal(burst, outlook)
        if refusal is not None or outlook is None:
            nothing = np.zeros_like(free)
            reason, message = refusal or ("NoHistory", "")
            decisions.append(LeadTimeDecision(
                burst.queue, burst.arrival, math.inf, burst.rate, free, nothing, nothing, 0.0, burst.slack, (), reason, message
            ))  # fmt: skip
            continue
        needed = needed + burst.rate
        release = outlook.cautious_release(ahead, CAUTION)
        before, surplus = room, free + release - needed
        room = np.clip(np.minimum(room, surplus), 0.0, None)
        held = np.minimum(before - room, burst.rate)
        # Hold also while nothing is free: other queues would take released room before a round sees it free.
        holding = bool(((held > slack_of(capacity)) | (surplus < -slack_of(capacity))).any())
        starters = [job for job in pending if ends_in_time(job, outlook.families, ahead)] if holding else []
        extra |= {job.name: (job.queue, job.request) for job in starters}
        wait = _seconds_to_free(needed - free, outlook, max_lead_seconds)
        start = burst.arrival - wait
        longer = _seconds_to_free(needed - free + held, outlook, max_lead_seconds) - wait if holding else 0.0
        names = tuple(job.name for job in starters)
        decisions.append(_decision(burst, start, free, release, held, capacity, names, ahead, longer, holding=holding))
    return Hold(room, tuple(decisions), tuple(extra.values()))


def _refusal(burst: Expected, outlook: Outlook | None) -> tuple[str, str] | None:
    if burst.resting > 0:
        return "NotWorthIt", (
            f"No room is held for the burst: for the last ten more capacity stood idle than they gained. After {burst.resting} more it is "
            "tried again."
        )
    if burst.slack <= 0:
        return "NoSlack", f"No room is held for the burst: its fair share of the period has no slack ({burst.slack:.2f} share-seconds)."
    if outlook is None or len(outlook.age) == 0:
        return "NoHistory", "No room is held for the burst: nothing is known of when the running work ends."
    return None


def _decision(
    burst: Expected, start: float, free: FloatArray, release: FloatArray, held: FloatArray, capacity: FloatArray,
    may_start: tuple[str, ...], ahead: float, longer: float, *, holding: bool,
) -> LeadTimeDecision:  # fmt: skip
    share = float(np.divide(held, capacity, out=np.zeros_like(held), where=capacity > 0).max(initial=0.0))
    rates = np.divide(burst.rate, capacity, out=np.zeros_like(held), where=capacity > 0)
    at = int(np.argmax(rates))
    numbers = f"needs {burst.rate[at]:g}, {free[at]:g} free now, {release[at]:g} more expected by then"
    message = f"A burst in {ahead:.0f} s {numbers}: {f'{held[at]:g} held' if holding else 'nothing needs to be held yet'}."
    return LeadTimeDecision(
        burst.queue, burst.arrival, start, burst.rate, free, release, held, share if holding else 0.0, burst.slack, may_start,
        "Holding" if holding else "EnoughExpected", message, float(rates[at]) * longer,
    )  # fmt: skip


def _seconds_to_free(missing: FloatArray, outlook: Outlook, most: float) -> float:
    """Return about the shortest time in which running work releases `missing`, at most `most`. It is only for messages: the mean release
    grows with time, but the deviation subtracted from it may grow faster for a moment."""
    if (missing <= 0).all():
        return 0.0
    low, high = 0, math.ceil(most)
    while low < high:
        middle = (low + high) // 2
        enough = bool((outlook.cautious_release(float(middle), CAUTION) >= missing).all())
        low, high = (low, middle) if enough else (middle + 1, high)
    return float(low)


def ends_in_time(job: Job, families: FamilyDurations, ahead: float) -> bool:
    """Return whether a small job that starts now is expected to end within `ahead` seconds, by its family's durations."""
    if job.category is not DemandCategory.SMALL or job.family not in families.row_of:
        return False
    durations = sorted(families.oldest_first[job.family])
    return len(durations) >= FEWEST and durations[math.ceil(SURE * len(durations)) - 1] <= ahead
