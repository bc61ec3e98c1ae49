"""A forecast in the form that users read: a sentence for an Event, and conditions of queues. Pure. Names no other queue."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fairburst.kube.times import from_epoch
from fairburst.kube.views.conditions import ATTAINABLE, ConditionValue
from fairburst.policy.attainability import Verdict
from fairburst.policy.model import Window, WindowState

START_FORECAST = "StartForecast"  # the type of the condition and the reason of the Event
LONGEST_SECONDS = 7 * 86_400.0  # a start that lies further ahead is not published
_MATERIAL = 0.25  # fraction of the time ahead: an end of an interval that moves by less is the same answer
_STEADY_SECONDS = 5.0
_PROBABILITY_STEP = 0.1


@dataclass(frozen=True, slots=True)
class StartForecast:
    """The start of work, in seconds since the epoch: the median, and (from, to) by level in percent.

    A time is infinite if it is later than the forward runs reached.
    """

    made_at: float
    median: float
    intervals: Mapping[int, tuple[float, float]]

    def sentence(self, now: float) -> str:
        """Return the forecast for an Event that is created now."""
        low, high = (max(0.0, end - now) for end in self.intervals[90])
        if math.isinf(high):
            foreseen = 0.0 < low < math.inf
            return f"It starts in {duration(low)} or later, with 90 % confidence." if foreseen else "Its start cannot be foreseen."
        if high < 1.0:
            return "It is expected to start now."
        middle = tuple(max(0.0, end - now) for end in self.intervals[50])
        even = "" if math.isinf(middle[1]) else f", in {_span(*middle)} with 50 %"
        return f"It starts in {_span(low, high)} with 90 % confidence{even}."

    def same_as(self, former: StartForecast, now: float) -> bool:
        """Return whether a reader of `former` would learn nothing from this one. An end that has passed says that it may start now."""
        if now > former.intervals[90][1]:
            return False
        ends = [(max(mine, now), max(theirs, now)) for mine, theirs in zip(self.intervals[90], former.intervals[90], strict=True)]
        return all(
            mine == theirs or (math.isfinite(theirs) and abs(mine - theirs) <= max(_STEADY_SECONDS, _MATERIAL * (theirs - now)))
            for mine, theirs in ends
        )


@dataclass(frozen=True, slots=True)
class DeadlineForecast:
    """The part of the forward runs that met a burst's deadline. `is_open`: the burst is under way; `opens`: the time of the next."""

    probability: float
    is_open: bool
    opens: float | None

    @property
    def sentence(self) -> str:
        """Return the forecast for a condition. It contains no running times, and says what the runs leave out."""
        which = "the burst under way"
        if not self.is_open:
            which = "a burst that came now" if self.opens is None else f"the burst of {clock(self.opens)}"
        said = f"the deadline of {which} holds with a probability of {100 * self.probability:.0f} %."
        return f"Forward runs, in which pods start as soon as there is room, say: {said}"

    def same_as(self, former: DeadlineForecast) -> bool:
        """Return whether a reader of `former` would learn nothing from this one."""
        if (self.is_open, self.opens) != (former.is_open, former.opens) or (self.probability == 1.0) != (former.probability == 1.0):
            return False
        return abs(self.probability - former.probability) < _PROBABILITY_STEP

    def is_of(self, window: Window | None) -> bool:
        """Return whether the burst is still that of the queue's present window: one under way, or the next one."""
        if window is None or self.is_open:
            return window is not None and window.state is WindowState.OPEN and window.demanded and not window.judged
        if self.opens is None:
            return window.state is WindowState.ARMED
        return window.state in {WindowState.CLOSED, WindowState.ARMED} and window.arms_at <= self.opens


@dataclass(frozen=True, slots=True)
class QueueForecast:
    """Forecast for one queue. `first`: of its first waiting object, which `subject` names and `uid` identifies."""

    subject: str = ""
    first: StartForecast | None = None
    deadline: DeadlineForecast | None = None
    uid: str = ""


@dataclass(slots=True)
class Forecasts:
    """The forecasts that are published. starts: by uid of the waiting object; queues: by namespace/name. changes: calls of `replace`.

    An answer that changes nothing material for a queue leaves its former one, so that it causes no write.
    """

    starts: Mapping[str, StartForecast] = field(default_factory=dict)
    queues: dict[str, QueueForecast] = field(default_factory=dict)
    changes: int = 0

    @property
    def published(self) -> bool:
        """Return whether there is any forecast."""
        return bool(self.starts or self.queues)

    def replace(self, starts: Mapping[str, StartForecast], queues: Mapping[str, QueueForecast], now: float) -> list[str]:
        """Replace all forecasts; return the queues whose forecast has changed materially."""
        self.starts, self.changes = starts, self.changes + 1
        former, self.queues = self.queues, {}
        for queue, new in queues.items():
            old = former.get(queue, QueueForecast())
            first = old.first if _same_start(old, new, now) else new.first
            deadline = old.deadline if _same_deadline(old.deadline, new.deadline) else new.deadline
            self.queues[queue] = QueueForecast(new.subject, first, deadline, new.uid)
        return [queue for queue in former.keys() | self.queues.keys() if former.get(queue) != self.queues.get(queue)]


def _same_start(old: QueueForecast, new: QueueForecast, now: float) -> bool:
    if old.first is None or new.first is None:
        return old.first is new.first
    return old.subject == new.subject and new.first.same_as(old.first, now)


def _same_deadline(old: DeadlineForecast | None, new: DeadlineForecast | None) -> bool:
    return old is new if old is None or new is None else new.same_as(old)


def with_forecast(
    conditions: Sequence[ConditionValue], forecast: QueueForecast | None, window: Window | None, *, waits: bool
) -> list[ConditionValue]:
    """Return the conditions with the forecast: when the first waiting object starts, and how likely the deadline holds.

    waits: whether the object of the forecast waits now. It may have started since, and its burst may have ended.
    """
    if forecast is None:
        return list(conditions)
    found = [
        replace(one, message=f"{one.message.rstrip('.')}. {forecast.deadline.sentence}")
        if one.type == ATTAINABLE
        and one.reason != Verdict.DOES_NOT_FIT.value  # a forward run has one machine as large as the pool, which no pod is too large for
        and forecast.deadline
        and forecast.deadline.is_of(window)
        else one
        for one in conditions
    ]
    return found if forecast.first is None or not waits else [*found, _start_condition(forecast.subject, forecast.first)]


def _start_condition(subject: str, first: StartForecast) -> ConditionValue:
    low, high = first.intervals[90]
    if math.isinf(high):
        return ConditionValue(
            START_FORECAST, "Unknown", "NotForeseen", f"{subject}, the first that waits, starts later than can be foreseen."
        )
    message = (
        f"{subject}, the first that waits, starts between {clock(low)} and {clock(high)} with 90 % confidence, "
        f"most likely about {clock(first.median)}."
    )
    return ConditionValue(START_FORECAST, "True", "Forecast", message)


def clock(time: float) -> str:
    """Return a time as conditions write it, in whole seconds."""
    return from_epoch(round(time)).isoformat().replace("+00:00", "Z")


def duration(seconds: float) -> str:
    """Return a duration in the unit that suits it."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _span(low: float, high: float) -> str:
    first, last = duration(low), duration(high)
    unit = last.rpartition(" ")[2]
    return f"about {last}" if first == last else f"{first.removesuffix(f' {unit}') if first.endswith(unit) else first} to {last}"
