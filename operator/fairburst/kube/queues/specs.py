"""The specs of LatencyQueue and ThroughputQueue, with the rules that CEL and the operator both check.

`crd.py` turns these models into crds/*.yaml; descriptions become the text of `kubectl explain`. A declaration that the operator cannot
honour yet is refused, never silently ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from fairburst.bounds import MOST_PARALLELISM, MOST_WEIGHT
from fairburst.kube.modes.registry import DEFAULT, MODES, registered
from fairburst.kube.queues import calendar as calendars
from fairburst.kube.queues.bursts import Arrival, Burst, Uncertainty
from fairburst.kube.queues.curve_text import MOST_CHARACTERS
from fairburst.kube.queues.fields import Parallelism, PoolName, Resources
from fairburst.kube.queues.rules import Rule, SpecModel
from fairburst.quantity import parse_exact


class QueueSettings(SpecModel):
    """Settings that both kinds of queue share."""

    pool: PoolName = Field(
        default="default", description="Pool of nodes that the queue draws on, and so the operator that serves it. Immutable."
    )
    weight: int = Field(
        default=1,
        ge=1,
        le=MOST_WEIGHT,
        description="The queue's part in every division, relative to the weights of the others. At least 1.",
    )
    reclaim: Literal["Never", "Evict"] = Field(
        default="Never",
        description="Whether running work of others may be evicted for what this queue is owed: the part of a burst inside its guarantee "
        "while its window is open, or a throughput queue's fair share after the grace time. Never: it waits for work to end.",
    )
    enforcement: Annotated[str, AfterValidator(registered)] = Field(
        default=DEFAULT.name,
        description=" ".join(["How the queue is held to its level.", *(f"{mode.name}: {mode.declaration}" for mode in MODES.values())]),
        json_schema_extra={"enum": list(MODES)},
    )
    suspended: bool = Field(default=False, description="True holds the queue: no new work starts, and it has no part in the division.")
    limits: Resources | None = Field(
        default=None,
        description="The most the queue is ever allocated, by resource. A resource that is not named is not limited. On a LatencyQueue: "
        "at least what each burst needs, for resources of the burst only; idle capacity is lent up to it.",
    )


def _fits_period(spec: Any) -> bool:
    return not (spec.burst and spec.arrival.periodic) or spec.burst.deadline <= spec.arrival.periodic.period_seconds


def _fits_jitter(spec: Any) -> bool:
    if not (spec.burst and spec.arrival.periodic) or not _fits_period(spec):
        return True
    periodic = spec.arrival.periodic
    return bool(spec.burst.deadline + 2 * periodic.jitter_seconds <= periodic.period_seconds)


def _fits_interarrival(spec: Any) -> bool:
    return not (spec.burst and spec.arrival.sporadic) or spec.burst.deadline <= spec.arrival.sporadic.min_interarrival_seconds


def _fits_calendar(spec: Any) -> bool:
    return not (spec.burst and spec.arrival.calendar) or spec.burst.deadline <= calendars.shortest_gap(spec.arrival.calendar.times)


def _bursts_of(spec: Any) -> list[Burst]:
    return [spec.burst] if spec.burst else list(spec.arrival.schedule.bursts if spec.arrival.schedule else ())


def _within_limits(spec: Any) -> bool:
    return all(
        name in burst.resources and parse_exact(burst.resources[name]) <= parse_exact(most)
        for burst in _bursts_of(spec)
        for name, most in (spec.limits or {}).items()
    )


def _cel_within_limits(burst: str) -> str:
    most, needed = "string(self.limits[name])", f"string({burst}.resources[name])"
    holds = f"!isQuantity({most}) || !isQuantity({needed}) || quantity({most}).compareTo(quantity({needed})) >= 0"
    return f"self.limits.all(name, name in {burst}.resources && ({holds}))"


_CEL_DEADLINE = "(has(self.burst.deadlineSeconds) ? self.burst.deadlineSeconds : self.burst.durationSeconds)"
_CEL_PERIODIC = "!has(self.burst) || !has(self.arrival.periodic)"
_CEL_JITTER = "(has(self.arrival.periodic.jitterSeconds) ? self.arrival.periodic.jitterSeconds : 0)"


class LatencyQueueSpec(QueueSettings):
    """A declaration of bursts. The operator answers with the promised class in status.class."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="burst",
            expected="expected burst with arrival.periodic, arrival.sporadic or arrival.calendar, and none with arrival.schedule, "
            "which has its own",
            cel="has(self.burst) != has(self.arrival.schedule)",
            holds=lambda spec: (spec.burst is None) == (spec.arrival.schedule is not None),
        ),
        Rule(
            field="arrival.periodic.periodSeconds",
            expected="expected periodSeconds of at least the burst's deadlineSeconds",
            cel=f"{_CEL_PERIODIC} || {_CEL_DEADLINE} <= self.arrival.periodic.periodSeconds",
            holds=_fits_period,
            found=lambda spec: f"{spec.arrival.periodic.period_seconds} < {spec.burst.deadline}",
            cel_found=("%d < %d", f"self.arrival.periodic.periodSeconds, {_CEL_DEADLINE}"),
        ),
        Rule(
            field="arrival.periodic.jitterSeconds",
            expected="expected deadlineSeconds + 2 x jitterSeconds of at most periodSeconds, so that windows do not overlap",
            cel=f"{_CEL_PERIODIC} || {_CEL_DEADLINE} > self.arrival.periodic.periodSeconds || "
            f"{_CEL_DEADLINE} + 2 * {_CEL_JITTER} <= self.arrival.periodic.periodSeconds",
            holds=_fits_jitter,
            found=lambda spec: f"{spec.burst.deadline + 2 * spec.arrival.periodic.jitter_seconds} > {spec.arrival.periodic.period_seconds}",
            cel_found=("%d > %d", f"{_CEL_DEADLINE} + 2 * {_CEL_JITTER}, self.arrival.periodic.periodSeconds"),
        ),
        Rule(
            field="arrival.sporadic.minInterarrivalSeconds",
            expected="expected minInterarrivalSeconds of at least the burst's deadlineSeconds",
            cel=f"!has(self.burst) || !has(self.arrival.sporadic) || {_CEL_DEADLINE} <= self.arrival.sporadic.minInterarrivalSeconds",
            holds=_fits_interarrival,
            found=lambda spec: f"{spec.arrival.sporadic.min_interarrival_seconds} < {spec.burst.deadline}",
            cel_found=("%d < %d", f"self.arrival.sporadic.minInterarrivalSeconds, {_CEL_DEADLINE}"),
        ),
        Rule(
            field="arrival.calendar.cron",
            expected="expected arrivals at least the burst's deadlineSeconds apart",
            cel="",  # CEL cannot read cron expressions
            holds=_fits_calendar,
            found=lambda spec: f"{calendars.shortest_gap(spec.arrival.calendar.times):.0f} < {spec.burst.deadline}",
        ),
        Rule(
            field="limits",
            expected="expected limits of at least what each burst needs, and only for resources that it names",
            cel=f"!has(self.limits) || (!has(self.burst) || {_cel_within_limits('self.burst')}) && "
            f"(!has(self.arrival.schedule) || self.arrival.schedule.bursts.all(b, {_cel_within_limits('b')}))",
            holds=_within_limits,
        ),
        Rule(
            field="limits",
            expected="expected no limits with uncertainty, which may ask for more than the burst",
            cel="!has(self.limits) || !has(self.uncertainty)",
            holds=lambda spec: spec.limits is None or spec.uncertainty is None,
        ),
        Rule(
            field="uncertainty",
            expected="expected uncertainty only with burst; the bursts of a schedule have amounts of their own",
            cel="!has(self.uncertainty) || has(self.burst)",
            holds=lambda spec: spec.uncertainty is None or spec.burst is not None,
        ),
    )

    burst: Burst | None = Field(
        default=None,
        description="The demand of each burst. Its guaranteed rate is resources x durationSeconds / deadlineSeconds. Required unless "
        "arrival.schedule is given.",
    )
    arrival: Arrival = Field(description="When bursts come: exactly one of periodic, sporadic, schedule and calendar.")
    uncertainty: Uncertainty | None = Field(
        default=None, description="The demand as a distribution: what is asked for suffices for a burst with the given confidence."
    )
    lead_time: Literal["Auto", "Off"] | None = Field(
        default=None,
        description="Whether room is made ahead of a burst at a known time, for a queue of class Hard. Auto: as work ends by itself, "
        "charged to what the queue's fair share leaves beside its bursts; it needs durations that have been learned, hence "
        "smallJobs.enabled in the operator's configuration. Off: a burst waits for work to end. Auto unless given.",
    )


class SmallJobs(SpecModel):
    """The rule for which of the queue's jobs are small (DRESS)."""

    threshold_percent: int = Field(
        ge=1,
        le=100,
        description="A job is small if its full request (one pod's, times the pods that it wants at once) is at most this percent of the "
        "pool's committed capacity, in every resource. Fixed at a Job's creation.",
    )


class Elasticity(SpecModel):
    """Exchange of slots: jobs that lose little progress give them to jobs that gain much (PAF). A job takes part once its progress curve is
    known.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="minimumParallelism",
            expected="expected minimumParallelism of at most maximumParallelism",
            cel="!has(self.minimumParallelism) || !has(self.maximumParallelism) || self.minimumParallelism <= self.maximumParallelism",
            holds=lambda spec: (spec.minimum_parallelism or 1) <= (spec.maximum_parallelism or MOST_PARALLELISM),
            found=lambda spec: f"{spec.minimum_parallelism} > {spec.maximum_parallelism}",
            cel_found=("%d > %d", "self.minimumParallelism, self.maximumParallelism"),
        ),
        Rule(
            field="acrossQueues",
            expected="expected acrossQueues: true only with mode: Quota, which moves nothing else",
            cel="!has(self.mode) || self.mode != 'Quota' || (has(self.acrossQueues) && self.acrossQueues)",
            holds=lambda spec: spec.mode != "Quota" or spec.across_queues,
        ),
    )

    mode: Literal["Parallelism", "Quota"] = Field(
        default="Parallelism",
        description="The changed objects. Parallelism: spec.parallelism of Jobs, and with acrossQueues the queues' levels too. "
        "Quota: only the levels; Jobs stay as they are.",
    )
    minimum_parallelism: Parallelism | None = Field(
        default=None,
        description="Fewest pods at once for Jobs that don't say so by the annotation fairburst.dev/min-parallelism. Default 1.",
    )
    maximum_parallelism: Parallelism | None = Field(
        default=None,
        description="Most pods at once for Jobs that don't say so by the annotation fairburst.dev/max-parallelism. By default the "
        "parallelism that the Job was created with.",
    )
    across_queues: bool = Field(
        default=False,
        description="True lets slots move between this queue and others of the pool that say so too. A queue's mean progress never falls "
        "below fairnessPercent of what its fair share gives; slots that moved still count as the giver's.",
    )
    fairness_percent: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="A giving job keeps at least this percent of the progress that its fair share gives it. By default the operator's "
        "elasticity.fairnessPercent.",
    )
    curve: str | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="Progress curve of the queue's Jobs that carry none and whose family has taught none: the same text as in the "
        'annotation fairburst.dev/progress-curve, such as {"points": [[1, 0.2], [8, 0.9], [16, 1]]} or {"coefficients": [a0, a1, a2, a3]}. '
        "With one that can't be used the condition Elastic says why, and those Jobs keep their fair share.",
    )


class ThroughputQueueSpec(QueueSettings):
    """A queue of long-running work that needs its fair share over time."""

    small_jobs: SmallJobs | None = Field(
        default=None, description="Which jobs are small; by default the operator's smallJobs.thresholdPercent says so."
    )
    reserve: Literal["Auto", "Off"] | None = Field(
        default=None,
        description="Whether part of the queue's level is kept for its small jobs (DRESS). Auto, the default: as much as the reserve ratio "
        "says, if the operator's smallJobs.enabled is true. Off: its jobs are served in the order in which they come.",
    )
    elasticity: Elasticity | None = Field(
        default=None, description="Sizing the queue's jobs by what a slot is worth to each (PAF). By default their sizes are left alone."
    )
