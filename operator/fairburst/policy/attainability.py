"""Whether a burst's deadline can be met in practice, in addition to its class.

A class promises a rate from the opening on. If running work is never evicted, the room for it appears only as that work
ends; pods also take time to be created, bound and started. Decides nothing: the result is a condition on the queue.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterPace:
    """Recent measurements of the cluster. None: too few measurements yet, counted as no delay.

    release_seconds: time within which running work of others ends (95th percentile of ended pods).
    creation_rate, bind_rate: pods a second. startup_seconds: from bound to running.
    """

    release_seconds: float | None = None
    creation_rate: float | None = None
    bind_rate: float | None = None
    startup_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class PortLimit:
    """That fewer pods can run at a time than a queue has or wants, because a node runs one pod at most for each of its ports.

    pods: all that the queue has or wants; at_once: how many of them can run at a time. port: the host ports that keep most of them
    waiting, as a text. nodes: those that could hold a pod with them; free: those of them where no pod outside the queue has one of them.
    """

    pods: float
    at_once: float
    port: str
    nodes: float
    free: float

    def sentence(self, pods: float) -> str:
        """Return why so many pods cannot run at a time, and what to do."""
        return (
            f"the guaranteed rate is {pods:.0f} pods at a time, and of the queue's last {self.pods:.0f} pods {self.at_once:.0f} can run at "
            f"a time: a node runs one pod with {self.port}, and {self.free:.0f} of the {self.nodes:.0f} nodes that could hold one have it "
            "free; leave hostPort or hostNetwork out of the pods, or add nodes"
        )


class Verdict(enum.Enum):
    """Verdict on a deadline; the value is the condition's reason."""

    IN_TIME = "InTime"
    TOO_LATE = "TooLate"
    DOES_NOT_FIT = "DoesNotFitNodes"
    PORTS = "TooFewHostPorts"
    NOT_MEASURED = "NoBurstMeasured"


@dataclass(frozen=True, slots=True)
class Attainability:
    """The verdict, a sentence with its reasons, and the expected completion and the deadline, in seconds after the opening. Completion is
    infinite if not all of the burst's pods fit the nodes, and that of the whole declared demand if no burst was measured."""

    verdict: Verdict
    expected_seconds: float
    deadline_seconds: float
    message: str


def attainability(
    *,
    deadline_seconds: float,
    demand_fraction: float | None,
    pods: float,
    fitting_pods: float = math.inf,
    room_is_free: bool,
    pace: ClusterPace,
    port_limit: PortLimit | None = None,
) -> Attainability:
    """Add up the delays ahead of a burst and compare with its deadline.

    Parameters
    ----------
    deadline_seconds : t of the burst; its guaranteed rate delivers the declared demand in exactly that time
    demand_fraction : fraction of the declared demand that recent bursts consumed, in (0, 1]; None without history
    pods : pods of the burst at the guaranteed rate
    fitting_pods : pods of that size that the nodes hold while they are empty: a sum of free capacity is no room for a pod
    room_is_free : the guaranteed rate fits in addition to the running work, so none of it has to end first
    pace : measured rates of this cluster
    port_limit : why fewer pods can run at a time than the queue has or wants, if that is so

    Notes
    -----
    Without history the verdict covers only the cases that are the same for every burst: delays that alone exceed the deadline, or no delay.
    """
    if pods > fitting_pods:
        return Attainability(
            Verdict.DOES_NOT_FIT,
            math.inf,
            deadline_seconds,
            f"the guaranteed rate is {pods:.0f} pods at a time, and of that size the nodes of the pool hold {fitting_pods:.0f} even while "
            "they are empty; ask for smaller pods, or provide larger nodes",
        )
    if port_limit is not None and min(pods, port_limit.pods) > port_limit.at_once:
        return Attainability(Verdict.PORTS, math.inf, deadline_seconds, port_limit.sentence(pods))
    waiting = 0.0 if room_is_free else pace.release_seconds or 0.0
    slowest = min((rate for rate in (pace.creation_rate, pace.bind_rate) if rate), default=math.inf)
    creating = pods / slowest
    starting = pace.startup_seconds or 0.0
    fraction = 1.0 if demand_fraction is None else demand_fraction
    serving = fraction * deadline_seconds
    expected = waiting + creating + starting + serving
    ends = "how soon running work ends is not known yet" if pace.release_seconds is None else f"running work ends within {waiting:.1f} s"
    take = "pod takes" if round(pods) == 1 else "pods take"
    parts = (
        f"{'' if room_is_free else f'{ends}, '}{pods:.0f} {take} {creating:.1f} s to create and bind, {starting:.1f} s to start, "
        f"and {fraction:.0%} of the declared demand takes {serving:.1f} s at the guaranteed rate"
    )
    verdict = _verdict(expected, expected - serving, deadline_seconds, measured=demand_fraction is not None)
    return Attainability(verdict, expected, deadline_seconds, _message(verdict, expected, deadline_seconds, parts, room_is_free))


def _verdict(expected: float, delays: float, deadline: float, *, measured: bool) -> Verdict:
    if expected <= deadline + 1e-9:
        return Verdict.IN_TIME
    return Verdict.TOO_LATE if measured or delays >= deadline else Verdict.NOT_MEASURED


def _message(verdict: Verdict, expected: float, deadline: float, parts: str, room_is_free: bool) -> str:
    """Return the sentence. It says whether the burst finds room, because a forecast beside it may speak of one that does."""
    finds = "finds room" if room_is_free else "finds no room"
    late = f"is expected after {expected:.1f} s, deadline {deadline:.0f} s: {parts}; "
    match verdict:
        case Verdict.IN_TIME:
            return f"a burst that {finds} is expected after {expected:.1f} s of {deadline:.0f} s: {parts}"
        case Verdict.NOT_MEASURED:
            return (
                "no burst has been measured yet, and only one that takes less than it declares can be in time. One that takes all of it "
                f"and {finds} {late}a longer duration and deadline include the wait"
            )
        case _:
            remedy = "declare a longer duration and deadline that include the wait"
            return f"a burst that {finds} {late}{remedy}{'' if room_is_free else ', or shorter batch pods'}"
