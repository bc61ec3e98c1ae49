"""Can a burst's deadline be met in practice? A second, honest answer beside the class.

A class promises a rate from the opening on. Where running work is never evicted, the room for it appears only as that work
ends; pods also take time to be created, bound and started. Decides nothing: the answer is a condition on the queue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterPace:
    """What was measured on the cluster lately. None: not enough seen yet, counted as no delay.

    release_seconds: time within which running work of others ends (95th percentile of ended pods).
    creation_rate, bind_rate: pods a second. startup_seconds: from bound to running.
    """

    release_seconds: float | None = None
    creation_rate: float | None = None
    bind_rate: float | None = None
    startup_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Attainability:
    """The verdict: expected completion after the opening against the deadline, both in seconds; infinite where not all of the burst's pods
    fit the nodes (`fits`)."""

    holds: bool
    expected_seconds: float
    deadline_seconds: float
    message: str
    fits: bool = True


def attainability(
    *, deadline_seconds: float, demand_fraction: float, pods: float, fitting_pods: float = math.inf, room_is_free: bool, pace: ClusterPace
) -> Attainability:
    """Add up the delays ahead of a burst and compare with its deadline.

    Parameters
    ----------
    deadline_seconds : t of the burst; its guaranteed rate delivers the declared demand in exactly that time
    demand_fraction : part of the declared demand that recent bursts really consumed, in (0, 1]; 1 without history
    pods : pods of the burst at the guaranteed rate
    fitting_pods : pods of that size that the nodes hold while they are empty: a sum of free capacity is no room for a pod
    room_is_free : the guaranteed rate fits beside what runs now, so nothing has to end first
    pace : measured rates of this cluster
    """
    if pods > fitting_pods:
        return Attainability(
            False,
            math.inf,
            deadline_seconds,
            f"the guaranteed rate is {pods:.0f} pods at a time, and of that size the nodes of the pool hold {fitting_pods:.0f} even while "
            "they are empty; ask for smaller pods, or provide larger nodes",
            fits=False,
        )
    waiting = 0.0 if room_is_free else pace.release_seconds or 0.0
    slowest = min((rate for rate in (pace.creation_rate, pace.bind_rate) if rate), default=math.inf)
    creating = pods / slowest
    starting = pace.startup_seconds or 0.0
    serving = demand_fraction * deadline_seconds
    expected = waiting + creating + starting + serving
    holds = expected <= deadline_seconds + 1e-9
    parts = (
        f"running work ends within {waiting:.1f} s, {pods:.0f} pods take {creating:.1f} s to create and bind, "
        f"{starting:.1f} s to start, and {demand_fraction:.0%} of the declared demand takes {serving:.1f} s at the guaranteed rate"
    )
    if holds:
        return Attainability(True, expected, deadline_seconds, f"expected after {expected:.1f} s of {deadline_seconds:.0f} s: {parts}")
    message = (
        f"expected after {expected:.1f} s, deadline {deadline_seconds:.0f} s: {parts}; "
        "declare a longer duration and deadline that include the wait, or shorter batch pods"
    )
    return Attainability(False, expected, deadline_seconds, message)
