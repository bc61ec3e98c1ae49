"""Bursts, their arrivals and their uncertainty, as a LatencyQueue declares them, with the rules that CEL and the operator both check."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from fairburst.bounds import LONGEST_SECONDS
from fairburst.kube.queues import calendar as calendars
from fairburst.kube.queues.fields import MAX_RESOURCES, CronExpression, Date, Resources, Seconds, Timestamp, TimeZone
from fairburst.kube.queues.rules import Rule, SpecModel

_MAX_SCHEDULED_BURSTS = 500
_MAX_CRON, _MAX_EXCEPTIONS = 16, 366


class Burst(SpecModel):
    """The demand of one burst: resources x durationSeconds. Its guaranteed rate is that divided by deadlineSeconds."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="deadlineSeconds",
            expected="expected deadlineSeconds of at least durationSeconds",
            cel="!has(self.deadlineSeconds) || self.durationSeconds <= self.deadlineSeconds",
            holds=lambda burst: burst.duration_seconds <= burst.deadline,
            found=lambda burst: f"{burst.deadline} < {burst.duration_seconds}",
            cel_found=("%d < %d", "self.deadlineSeconds, self.durationSeconds"),
        ),
    )

    resources: Resources = Field(
        description="Needed all the while the burst runs, by resource: cpu, memory, ephemeral-storage, or an extended resource such as "
        "nvidia.com/gpu. Greater than zero; cpu is rounded up to millicores, memory to bytes."
    )
    duration_seconds: Seconds = Field(description="How long the burst runs with these resources, in seconds (its ON period).")
    deadline_seconds: Seconds | None = Field(
        default=None,
        description="Within how many seconds of its beginning the burst must have received its demand. At least durationSeconds, which is "
        "also the default. A later deadline asks for a lower rate, and is easier to promise.",
    )

    @property
    def deadline(self) -> int:
        """Seconds from opening to deadline."""
        return self.duration_seconds if self.deadline_seconds is None else self.deadline_seconds


class Periodic(SpecModel):
    """Bursts at a fixed period."""

    period_seconds: Seconds = Field(description="Seconds from one arrival to the next. At least the deadline plus twice the jitter.")
    first_arrival: Timestamp | None = Field(
        default=None, description="When the first burst arrives (RFC 3339). Without it: when work first arrives after admission."
    )
    jitter_seconds: int = Field(
        default=0,
        ge=0,
        le=LONGEST_SECONDS,
        description="By how many seconds an arrival may be early or late. deadlineSeconds + 2 x jitterSeconds is at most periodSeconds.",
    )


class Sporadic(SpecModel):
    """Bursts at any time, at most this often."""

    min_interarrival_seconds: Seconds = Field(
        description="The shortest time from the beginning of a burst to that of the next, in seconds. At least deadlineSeconds. Work that "
        "arrives earlier is served by fair share until then."
    )


class ScheduledBurst(Burst):
    """One burst at a given time, with its own demand and deadline."""

    arrival: Timestamp = Field(description="When the burst arrives (RFC 3339).")


def _overlap(schedule: Any) -> tuple[ScheduledBurst, ScheduledBurst] | None:
    pairs = zip(schedule.bursts, schedule.bursts[1:], strict=False)
    return next(((one, after) for one, after in pairs if one.arrival + timedelta(seconds=one.deadline) > after.arrival), None)


class Schedule(SpecModel):
    """Bursts at explicit times."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="bursts",
            expected="expected bursts in ascending order of arrival, the deadline of each at or before the arrival of the next",
            cel="self.bursts.all(i, b, i == 0 || (b.arrival - self.bursts[i - 1].arrival).getSeconds() >= "
            "(has(self.bursts[i - 1].deadlineSeconds) ? self.bursts[i - 1].deadlineSeconds : self.bursts[i - 1].durationSeconds))",
            holds=lambda schedule: _overlap(schedule) is None,
            found=lambda schedule: " and then ".join(burst.arrival.isoformat() for burst in _overlap(schedule) or ()),
        ),
    )

    bursts: list[ScheduledBurst] = Field(
        min_length=1,
        max_length=_MAX_SCHEDULED_BURSTS,
        description="The bursts in ascending order of arrival; each deadline lies at or before the next arrival.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class Calendar(SpecModel):
    """Bursts at the times of cron expressions, as a CronJob has them."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="cron",
            expected="expected at least one arrival that is not on an excepted date",
            cel="",  # CEL cannot read cron expressions
            holds=lambda calendar: calendars.has_arrivals(calendar.times),
        ),
    )

    cron: list[CronExpression] = Field(
        min_length=1,
        max_length=_MAX_CRON,
        description="Cron expressions of five fields: minute, hour, day of the month, month, day of the week. A burst arrives at the times "
        "of each; a time that two of them name counts once.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    time_zone: TimeZone = Field(
        default="Etc/UTC",
        description="IANA time zone in which the expressions and the exceptions are read. Where clocks go forward, an arrival in the "
        "skipped hour comes right after it; where they go back, one at a fixed hour comes once.",
    )
    exceptions: list[Date] = Field(
        default_factory=list,
        max_length=_MAX_EXCEPTIONS,
        description="Dates in that time zone on which no burst arrives, such as 2026-12-25.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )

    @property
    def times(self) -> calendars.Calendar:
        """The calendar as a value from which arrivals are computed."""
        return calendars.Calendar(tuple(self.cron), self.time_zone, calendars.parse_exceptions(self.exceptions))


class Arrival(SpecModel):
    """Arrival of bursts: exactly one of periodic, sporadic, schedule and calendar."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="",
            expected="expected exactly one of periodic, sporadic, schedule and calendar",
            cel="[has(self.periodic), has(self.sporadic), has(self.schedule), has(self.calendar)].filter(given, given).size() == 1",
            holds=lambda arrival: len(arrival.forms) == 1,
            found=lambda arrival: " and ".join(arrival.forms) or "none",
        ),
    )

    periodic: Periodic | None = Field(default=None, description="Bursts at a fixed period.")
    sporadic: Sporadic | None = Field(default=None, description="Bursts whenever work arrives, at most this often.")
    schedule: Schedule | None = Field(
        default=None, description="Bursts at explicit times, each with its own demand; spec.burst is then left out."
    )
    calendar: Calendar | None = Field(default=None, description="Bursts at the times of cron expressions in a time zone.")

    @property
    def forms(self) -> list[str]:
        """The names of the given forms."""
        return [form for form in ("periodic", "sporadic", "schedule", "calendar") if getattr(self, form) is not None]


class Uncertainty(SpecModel):
    """The demand as a distribution rather than a number (the α-strategy, BoPF section 3.5). The promise is for the amounts that suffice for
    a burst with the given confidence; status.uncertainty shows them.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="",
            expected="expected standardDeviationPercent, or fromHistory: true",
            cel="has(self.standardDeviationPercent) || (has(self.fromHistory) && self.fromHistory)",
            holds=lambda one: one.standard_deviation_percent is not None or bool(one.from_history),
        ),
    )

    confidence_percent: int = Field(
        ge=1, le=99, description="In how many of a hundred bursts the promised amounts must suffice, for all resources together."
    )
    correlation: Literal["Independent", "Perfect", "Measured"] | None = Field(
        default=None,
        description="How the demands for different resources move together. Independent, the default, asks for most, Perfect for least. "
        "Measured: as in the bursts seen; Independent until ten were seen.",
    )
    standard_deviation_percent: dict[str, Annotated[int, Field(ge=0, le=1000)]] | None = Field(
        default=None,
        max_length=MAX_RESOURCES,
        description="Standard deviation by resource, in percent of spec.burst.resources, which are the mean then. 0 unless given.",
    )
    from_history: bool | None = Field(
        default=None,
        description="True: take the distribution from the bursts seen, as soon as ten were seen. Until then it is that of "
        "standardDeviationPercent, or the burst as declared.",
    )
