"""LatencyQueue and ThroughputQueue, the API fairburst.dev/v1alpha1: the single source of the CRDs, and of what the operator accepts.

`crd.py` turns these models into crds/*.yaml; descriptions become the text of `kubectl explain`. Conversions to and from the
core's values are at the end. What a field promises but the operator cannot do yet is refused, never silently ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, WithJsonSchema

from fairburst.kube.names import GROUP
from fairburst.kube.queues.rules import KubeModel, Rule, SpecModel, violations
from fairburst.policy import model as core
from fairburst.quantity import charged_quantity, format_quantity, parse_exact
from fairburst.validation import problems_of

VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

_MAX_RESOURCES = 16
_MAX_SCHEDULED_BURSTS = 500
_MAX_PARALLELISM = 100_000  # as many as a Job can have with indexed completion
_MAX_CURVE = 16_384  # characters: twice what the most points take with every digit of theirs
_YEAR = 31_536_000  # seconds; the longest duration anybody may declare
_MICRO = 10**6
_MILLI = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_EXTENDED_RESOURCE = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?[.])+[a-z0-9]([-a-z0-9]*[a-z0-9])?/[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$"
_RESOURCE_NAME = "expected cpu, memory, ephemeral-storage or an extended resource such as nvidia.com/gpu"
_WHOLE_DEVICES = "expected whole numbers of extended resources"
_A_QUANTITY = "expected a Kubernetes quantity such as 4, 500m or 1.5Gi"
_POSITIVE = "expected a quantity greater than zero"
_INT_OR_STRING: dict[str, Any] = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], "maxLength": 32}


class InvalidQueueError(Exception):
    """An object is not a usable queue. `problems`: one sentence each, with path, what was expected and what was found."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


# --- values ---------------------------------------------------------------------------------------------------------------------


def _quantity_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _any_quantity(value: str) -> str:
    parse_exact(value)
    return value


def _positive_quantity(value: str) -> str:
    if parse_exact(value) <= 0:
        raise ValueError(_POSITIVE)
    return value


def _resource_name(name: str) -> str:
    if name not in {"cpu", "memory", "ephemeral-storage"} and (len(name) > 317 or not re.match(_EXTENDED_RESOURCE, name)):
        raise ValueError(_RESOURCE_NAME)
    return name


def _whole_devices(quantities: dict[str, str]) -> dict[str, str]:
    if any("/" in name and parse_exact(text).denominator != 1 for name, text in quantities.items()):
        raise ValueError(_WHOLE_DEVICES)
    return quantities


def _timestamp(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise ValueError("expected a time as in RFC 3339, such as 2026-01-01T00:00:00Z")
    try:
        return datetime.fromisoformat(value.upper())
    except ValueError as error:
        raise ValueError("expected a time as in RFC 3339, such as 2026-01-01T00:00:00Z") from error


Timestamp = Annotated[datetime, BeforeValidator(_timestamp)]
Quantity = Annotated[str, BeforeValidator(_quantity_text), AfterValidator(_any_quantity), WithJsonSchema(_INT_OR_STRING)]
PositiveQuantity = Annotated[
    str,
    BeforeValidator(_quantity_text),
    AfterValidator(_positive_quantity),
    WithJsonSchema(
        _INT_OR_STRING
        | {
            "x-kubernetes-validations": [
                {
                    "rule": "isQuantity(string(self))",
                    "message": _A_QUANTITY,
                    "messageExpression": f"'{_A_QUANTITY}, found ' + string(self)",
                },
                {
                    "rule": "!isQuantity(string(self)) || quantity(string(self)).isGreaterThan(quantity('0'))",
                    "message": _POSITIVE,
                    "messageExpression": f"'{_POSITIVE}, found ' + string(self)",
                },
            ]
        }
    ),
]
ResourceName = Annotated[str, AfterValidator(_resource_name)]
Resources = Annotated[
    dict[ResourceName, PositiveQuantity],
    Field(
        min_length=1,
        max_length=_MAX_RESOURCES,
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "self.all(name, name in ['cpu', 'memory', 'ephemeral-storage'] || "
                    f"(size(name) <= 317 && name.matches(r'{_EXTENDED_RESOURCE}')))",
                    "message": _RESOURCE_NAME,
                },
                {
                    "rule": "self.all(name, !name.contains('/') || !isQuantity(string(self[name])) || "
                    "quantity(string(self[name])).isInteger())",
                    "message": _WHOLE_DEVICES,
                },
            ]
        },
    ),
    AfterValidator(_whole_devices),
]
Amounts = Annotated[dict[str, Quantity], Field(max_length=64)]
Seconds = Annotated[int, Field(ge=1, le=_YEAR)]
Parallelism = Annotated[int, Field(ge=1, le=_MAX_PARALLELISM)]
GuaranteeClassName = Literal["Hard", "Soft", "Elastic", "Rejected"]
PoolName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=40,
        pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "self == oldSelf",
                    "message": "pool is immutable; expected the pool it was created with. Delete the queue to move it",
                }
            ]
        },
    ),
]


# --- spec -----------------------------------------------------------------------------------------------------------------------


class Burst(SpecModel):
    """What one burst needs. Its demand is resources x durationSeconds, its guaranteed rate that divided by deadlineSeconds."""

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
        default=0, ge=0, le=_YEAR, description="By how many seconds an arrival may be early or late. Windows must not overlap for it."
    )


class Sporadic(SpecModel):
    """Bursts whenever work arrives, at most this often."""

    min_interarrival_seconds: Seconds = Field(
        description="Seconds that lie at least between the beginnings of two bursts. At least the deadline. Work that arrives earlier is "
        "served by fair share until then."
    )


class ScheduledBurst(Burst):
    """One burst at a given time, with a demand and a deadline of its own."""

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


class Arrival(SpecModel):
    """When bursts come: exactly one of periodic, sporadic and schedule."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="",
            expected="expected exactly one of periodic, sporadic and schedule",
            cel="[has(self.periodic), has(self.sporadic), has(self.schedule)].filter(given, given).size() == 1",
            holds=lambda arrival: len(arrival.forms) == 1,
            found=lambda arrival: " and ".join(arrival.forms) or "none",
        ),
    )

    periodic: Periodic | None = Field(default=None, description="Bursts at a fixed period.")
    sporadic: Sporadic | None = Field(default=None, description="Bursts whenever work arrives, at most this often.")
    schedule: Schedule | None = Field(
        default=None, description="Bursts at explicit times, each with its own demand; spec.burst is then left out."
    )

    @property
    def forms(self) -> list[str]:
        """Names of the forms given."""
        return [form for form in ("periodic", "sporadic", "schedule") if getattr(self, form) is not None]


class Uncertainty(SpecModel):
    """The demand as a distribution rather than a number (BoPF section 3.5). Not supported yet."""

    confidence_percent: int = Field(ge=1, le=99, description="How sure, in percent, the burst must be to fit what is promised.")
    correlation: Literal["Independent", "Perfect", "Measured"] | None = Field(
        default=None, description="How the demands for different resources move together."
    )
    standard_deviation_percent: dict[str, Annotated[int, Field(ge=0, le=1000)]] | None = Field(
        default=None, max_length=_MAX_RESOURCES, description="Standard deviation by resource, in percent of spec.burst.resources."
    )
    from_history: bool | None = Field(default=None, description="True: take the distribution from the bursts seen so far.")


def _unsupported(field: str, cel: str, holds: Callable[[Any], bool], what: str, instead: str = "expected none") -> Rule:
    return Rule(field=field, expected=f"{what} is not supported yet; {instead}", cel=cel, holds=holds)


class QueueSettings(SpecModel):
    """What both kinds of queue have."""

    pool: PoolName = Field(
        default="default", description="Pool of nodes that the queue draws on, and so the operator that serves it. Immutable."
    )
    weight: int = Field(
        default=1, ge=1, le=1_000_000, description="The queue's part in every division, relative to the weights of the others. At least 1."
    )
    reclaim: Literal["Never", "Evict"] = Field(
        default="Never",
        description="Whether running work of others may be evicted for what this queue is owed: the part of a burst inside its guarantee "
        "while its window is open, or a throughput queue's fair share after the grace time. Never: it waits for work to end.",
    )
    enforcement: Literal["Quota", "Gate", "Suspend", "Observe"] = Field(
        default="Quota",
        description="How the queue is held to its level. Quota: a ResourceQuota in its namespace. Gate: its pods wait behind a scheduling "
        "gate. Suspend: as Quota, and its Jobs wait suspended until they fit whole. Observe: not at all, decisions are only reported.",
    )
    suspended: bool = Field(default=False, description="True holds the queue: no new work starts, and it has no part in the division.")


def _fits_period(spec: Any) -> bool:
    return not (spec.burst and spec.arrival.periodic) or spec.burst.deadline <= spec.arrival.periodic.period_seconds


def _fits_jitter(spec: Any) -> bool:
    if not (spec.burst and spec.arrival.periodic) or not _fits_period(spec):
        return True
    periodic = spec.arrival.periodic
    return bool(spec.burst.deadline + 2 * periodic.jitter_seconds <= periodic.period_seconds)


def _fits_interarrival(spec: Any) -> bool:
    return not (spec.burst and spec.arrival.sporadic) or spec.burst.deadline <= spec.arrival.sporadic.min_interarrival_seconds


_CEL_DEADLINE = "(has(self.burst.deadlineSeconds) ? self.burst.deadlineSeconds : self.burst.durationSeconds)"
_CEL_PERIODIC = "!has(self.burst) || !has(self.arrival.periodic)"
_CEL_JITTER = "(has(self.arrival.periodic.jitterSeconds) ? self.arrival.periodic.jitterSeconds : 0)"


class LatencyQueueSpec(QueueSettings):
    """A declaration of bursts. The operator answers in status.class what it can promise."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="burst",
            expected="expected burst beside arrival.periodic or arrival.sporadic, and none beside arrival.schedule, which has its own",
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
        _unsupported("uncertainty", "!has(self.uncertainty)", lambda spec: spec.uncertainty is None, "uncertainty"),
    )

    burst: Burst | None = Field(
        default=None,
        description="What each burst needs. The rate it is guaranteed is resources x durationSeconds / deadlineSeconds. Required unless "
        "arrival.schedule is given.",
    )
    arrival: Arrival = Field(description="When bursts come: exactly one of periodic, sporadic and schedule.")
    uncertainty: Uncertainty | None = Field(default=None, description="The demand as a distribution. Not supported yet.")
    lead_time: Literal["Auto", "Off"] | None = Field(
        default=None,
        description="Whether room is made ahead of a periodic or scheduled burst, for a queue of class Hard. Auto: as work ends by itself, "
        "charged to what the queue's fair share leaves beside its bursts; it needs durations that have been learned, hence "
        "smallJobs.enabled in the operator's configuration. Off: a burst waits for work to end. Auto unless given.",
    )


class SmallJobs(SpecModel):
    """Which of the queue's jobs are small (DRESS)."""

    threshold_percent: int = Field(
        ge=1,
        le=100,
        description="A job is small if its full request (one pod's, times the pods that it wants at once) is at most this percent of the "
        "pool's committed capacity, in every resource. Fixed at a Job's creation.",
    )


class Elasticity(SpecModel):
    """Slots move from jobs that lose little progress to jobs that gain much (PAF). A job takes part once its progress curve is known."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="minimumParallelism",
            expected="expected minimumParallelism of at most maximumParallelism",
            cel="!has(self.minimumParallelism) || !has(self.maximumParallelism) || self.minimumParallelism <= self.maximumParallelism",
            holds=lambda spec: (spec.minimum_parallelism or 1) <= (spec.maximum_parallelism or _MAX_PARALLELISM),
            found=lambda spec: f"{spec.minimum_parallelism} > {spec.maximum_parallelism}",
            cel_found=("%d > %d", "self.minimumParallelism, self.maximumParallelism"),
        ),
        Rule(
            field="acrossQueues",
            expected="expected acrossQueues: true beside mode: Quota, which moves nothing else",
            cel="!has(self.mode) || self.mode != 'Quota' || (has(self.acrossQueues) && self.acrossQueues)",
            holds=lambda spec: spec.mode != "Quota" or spec.across_queues,
        ),
    )

    mode: Literal["Parallelism", "Quota"] = Field(
        default="Parallelism",
        description="What is changed. Parallelism: spec.parallelism of Jobs, and with acrossQueues the queues' levels too. Quota: only the "
        "levels; Jobs stay as they are.",
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
        max_length=_MAX_CURVE,
        description="Progress curve of the queue's Jobs that carry none and whose family has taught none: the same text as in the "
        'annotation fairburst.dev/progress-curve, such as {"points": [[1, 0.2], [8, 0.9], [16, 1]]} or {"coefficients": [a0, a1, a2, a3]}. '
        "With one that can't be used the condition Elastic says why, and those Jobs keep their fair share.",
    )


class ThroughputQueueSpec(QueueSettings):
    """Long-running work that wants its fair share over time."""

    limits: Resources | None = Field(
        default=None, description="The most the queue is ever allocated, by resource. A resource that is not named is not limited."
    )
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


# --- status ---------------------------------------------------------------------------------------------------------------------


class Stamp(KubeModel):
    """What the admission policy writes into the queue's pods at their creation."""

    class_name: str = Field(max_length=253, description="spec.priorityClassName.")
    value: int = Field(description="spec.priority: the value of that class.")
    preemption_policy: Literal["Never", "PreemptLowerPriority"] = Field(description="spec.preemptionPolicy: that of the class.")


class Promise(KubeModel):
    """The accepted spec that is in force, whole: what was promised stands until a changed spec is accepted."""

    kind: Literal["Latency", "Throughput"] = Field(description="Kind of queue.")
    name: str = Field(max_length=512, description="namespace/name of the queue.")
    created: Timestamp = Field(description="When the queue was created: admission runs in this order.")
    weight: int = Field(ge=1, description="Accepted weight.")
    burst: Burst | None = Field(default=None, description="Accepted burst.")
    arrival: Arrival | None = Field(default=None, description="Accepted arrival.")
    limits: Amounts | None = Field(default=None, description="Accepted limits.")
    lead_time: Literal["Auto"] | None = Field(default=None, description="Auto where room is made ahead of bursts.")
    suspended: bool = Field(default=False, description="Whether the accepted queue is held.")
    admission_order: int | None = Field(default=None, description="Position in which it was admitted; classes come back in this order.")


class ReserveStatus(KubeModel):
    """What is kept for the queue's small jobs."""

    ratio_milli: int = Field(description="The reserve ratio of the elastic pool, in thousandths.")
    level: Amounts | None = Field(default=None, description="The part of the queue's level that is for small jobs now.")
    small_jobs: int = Field(description="Small jobs that run or wait.")
    large_jobs: int = Field(description="Large jobs that run or wait.")


class LeadTimeStatus(KubeModel):
    """Room held ahead of the next burst, and how the forecast for the last one came out."""

    reason: str = Field(max_length=1024, description="CamelCase reason.")
    message: str = Field(max_length=32768, description="What is held, or why nothing is, with the numbers.")
    arrival: Timestamp | None = Field(default=None, description="When the burst is expected at the earliest.")
    planned_start: Timestamp | None = Field(default=None, description="When holding begins as work ends now; past where it has begun.")
    held: Amounts | None = Field(default=None, description="Kept from others now.")
    needed: Amounts | None = Field(default=None, description="What the burst needs at a time; must be free when it comes.")
    pod_size: Amounts | None = Field(default=None, description="The largest pod of the burst that has been seen; none before the first.")
    expected_free: Amounts | None = Field(default=None, description="What was expected to be free when the last burst opened.")
    really_free: Amounts | None = Field(default=None, description="What was free when the last burst opened, its own pods included.")


class WindowStatus(KubeModel):
    """The window that the queue is in or waits for. Consumed and budget in thousandths of a dominant-share-second."""

    state: Literal["Closed", "Armed", "Open", "Overdue"] = Field(description="Where the queue stands in its period.")
    index: int = Field(description="Number of the window.")
    arms_at: Timestamp = Field(description="When the burst quota is written.")
    opens_by: Timestamp | None = Field(default=None, description="Latest opening; none for a sporadic queue.")
    opened: Timestamp | None = Field(default=None, description="When the burst began.")
    deadline: Timestamp | None = Field(default=None, description="When the burst's demand must have been delivered.")
    consumed: int | None = Field(default=None, description="Delivered in this window.")
    budget: int | None = Field(default=None, description="Guaranteed in this window.")
    demanded: bool | None = Field(default=None, description="Whether work was wanted in it at some time.")
    judged: bool | None = Field(default=None, description="Whether it has been counted as met or missed.")


class Ledger(KubeModel):
    """Dominant-share-seconds received in the current period: value + rate x (now - asOf)."""

    value_milliseconds: int = Field(description="Thousandths of a dominant-share-second received by asOf.")
    rate_micro: int = Field(description="Rate of growth in millionths of capacity.")
    delivered_milliseconds: int | None = Field(default=None, description="Used since the window opened, spare included, by asOf.")
    delivered_rate_micro: int | None = Field(default=None, description="Rate of that in millionths of capacity.")
    as_of: Timestamp = Field(description="When the value was true.")


class FairShare(KubeModel):
    """The part of the period's fair share earned so far: value + rate x (now - asOf)."""

    value_milliseconds: int = Field(description="Thousandths of a dominant-share-second earned by asOf.")
    rate_micro: int = Field(description="The share in millionths of capacity.")
    as_of: Timestamp = Field(description="When the value was true.")


class Rounding(KubeModel):
    """Whose turn it is where a fair share is less than one pod."""

    waiting_since: Timestamp | None = Field(default=None, description="Since when the queue waits for a whole pod.")
    held_since: Timestamp | None = Field(default=None, description="Since when it holds one.")


class ConditionSides(KubeModel):
    """One admission condition where it is tightest: it holds if left is at most right."""

    holds: bool = Field(description="Whether the condition holds.")
    left: str = Field(max_length=32, description="What is asked. Resource-seconds; for the resource condition resource units.")
    right: str = Field(max_length=32, description="What there is, in the same unit.")
    resource: str = Field(max_length=512, description="Resource for which the condition is tightest.")
    queue: str = Field(max_length=512, description="Queue for which the condition is tightest.")


class AdmissionStatus(KubeModel):
    """The answer to the latest candidate: each condition of admission with both sides."""

    guarantee_class: GuaranteeClassName | None = Field(default=None, alias="class", description="Class that this decision grants.")
    reason: str = Field(max_length=1024, description="CamelCase reason.")
    message: str = Field(max_length=32768, description="The decision in a sentence, with its numbers.")
    safety: ConditionSides | None = Field(default=None, description="Condition (1): promises to queues admitted earlier still hold.")
    fairness: ConditionSides | None = Field(default=None, description="Condition (2): the queue's own demand is within its fair share.")
    resource: ConditionSides | None = Field(default=None, description="Condition (3): its rate fits beside those of all hard queues.")


class History(KubeModel):
    """Windows that have ended."""

    bursts: int = Field(description="Bursts seen.")
    met: int = Field(description="Bursts that received their demand by the deadline, or asked for less.")
    missed: int = Field(description="Bursts that did not.")


class ElasticJobStatus(KubeModel):
    """One job's part of the division of slots. Progress rates in thousandths of the progress that the job makes alone."""

    name: str = Field(max_length=253, description="Name of the Job.")
    fair: int = Field(description="Slots that fair sharing gives it.")
    given: int = Field(description="Slots that it is given.")
    parallelism: int = Field(description="Its spec.parallelism now.")
    predicted_fair_milli: int | None = Field(default=None, description="Progress rate that its curve foretells for the fair slots.")
    predicted_milli: int | None = Field(default=None, description="Progress rate that its curve foretells for the given slots.")
    measured_milli: int | None = Field(
        default=None, description="Progress rate measured lately, where it is known how fast the job is alone."
    )
    reason: str = Field(max_length=64, description="CamelCase reason.")


class ElasticityStatus(KubeModel):
    """What the division of slots gives the queue's jobs: all of them as sums, the ones it matters most to by name."""

    mode: Literal["Parallelism", "Quota"] = Field(description="What is changed.")
    fairness_percent: int = Field(description="The fairness knob in force, in percent.")
    jobs: int = Field(description="Jobs that share the queue's slots.")
    fair: int = Field(description="Slots that fair sharing gives them in all.")
    given: int = Field(description="Slots that they are given in all.")
    by_reason: Annotated[dict[str, int], Field(max_length=32)] = Field(description="Jobs by the reason for what they are given.")
    moved: Amounts | None = Field(
        default=None, description="What came from other queues (negative: went to them), by resource. It counts as the giver's."
    )
    most_affected: list[ElasticJobStatus] = Field(
        max_length=100,
        description="The jobs with the largest difference between fair and given.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class Condition(KubeModel):
    """A condition, as metav1.Condition."""

    type: str = Field(max_length=316, description="CamelCase name.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    observed_generation: int | None = Field(default=None, ge=0, description="Generation of the spec that it speaks of.")
    last_transition_time: Timestamp = Field(description="When status last changed.")
    reason: str = Field(min_length=1, max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", description="CamelCase reason.")
    message: str = Field(max_length=32768, description="What was expected, what was found, and what to do.")


class QueueStatus(KubeModel):
    """What the operator decided and saw. It also is the operator's memory: everything that must survive a restart is here."""

    observed_generation: int | None = Field(default=None, description="Generation of the spec that this answers.")
    guarantee_class: GuaranteeClassName | None = Field(
        default=None,
        alias="class",
        description="What is promised. Hard: the rate in every window. Soft: the demand by the deadline, as far as hard queues leave room. "
        "Elastic: a fair share. Rejected: nothing beyond the floor, for it would break an earlier promise.",
    )
    stamp: Stamp | None = Field(default=None, description="What pods of this queue are stamped with at creation.")
    holds: Literal["Pods", "Jobs"] | None = Field(
        default=None, description="What the admission policies hold back of new work, until the operator lets it go."
    )
    small_stamp: Stamp | None = Field(
        default=None, description="What pods of small Jobs are stamped with instead, while there is a reserve."
    )
    lead_time: LeadTimeStatus | None = Field(default=None, description="Room ahead of bursts, for a queue with leadTime: Auto.")
    reserve: ReserveStatus | None = Field(default=None, description="What is kept for small jobs (DRESS).")
    size_threshold: Amounts | None = Field(
        default=None, description="A Job whose full request is at most this in every resource is small; decided at its creation."
    )
    promise: Promise | None = Field(default=None, description="The accepted spec in force.")
    share: str | None = Field(default=None, max_length=16, description="Weight over the sum of admitted weights, in percent.")
    window: WindowStatus | None = Field(default=None, description="The window that the queue is in or waits for.")
    ledger: Ledger | None = Field(default=None, description="What the queue received in the current period.")
    debt_milliseconds: int | None = Field(
        default=None, description="Overrun carried into the period, thousandths of a dominant-share-second."
    )
    period_started: Timestamp | None = Field(default=None, description="When the current period began.")
    allocation: Amounts | None = Field(default=None, description="Allocated now, by resource: guaranteed and spare.")
    guaranteed: Amounts | None = Field(default=None, description="The part of the allocation that is guaranteed.")
    usage: Amounts | None = Field(default=None, description="Used by pods from bound to ended.")
    demand: Amounts | None = Field(default=None, description="Wanted now: running, pending and not yet created work.")
    admission: AdmissionStatus | None = Field(default=None, description="The latest admission decision with its arithmetic.")
    history: History | None = Field(default=None, description="Windows that have ended.")
    fair_share: FairShare | None = Field(default=None, description="What the queue has earned in the current period.")
    residual_level_micro: int | None = Field(
        default=None, description="Level of a latency queue outside its windows, in millionths of capacity."
    )
    rounding: Rounding | None = Field(default=None, description="Turns of queues whose share is less than one pod.")
    refused: Promise | None = Field(default=None, description="A changed spec that was refused; the promise stays.")
    elasticity: ElasticityStatus | None = Field(default=None, description="How slots are divided among elastic jobs.")
    conditions: list[Condition] | None = Field(
        default=None,
        max_length=32,
        description="Admitted, Guaranteed, Attainable, Enforced, Ready.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )


# --- objects --------------------------------------------------------------------------------------------------------------------


class ObjectMeta(KubeModel):
    """The metadata that the operator reads."""

    name: str
    namespace: str
    creation_timestamp: Timestamp
    generation: int = 0
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: Timestamp | None = None


class LatencyQueue(KubeModel):
    """A queue of bursty, latency-sensitive work: it declares its bursts, and is told what can be promised. One queue a namespace."""

    kind: Literal["LatencyQueue"]
    metadata: ObjectMeta
    spec: LatencyQueueSpec


class ThroughputQueue(KubeModel):
    """A queue of long-running work that wants its fair share over time. One queue governs its namespace."""

    kind: Literal["ThroughputQueue"]
    metadata: ObjectMeta
    spec: ThroughputQueueSpec


Queue = LatencyQueue | ThroughputQueue
_KINDS: dict[str, type[LatencyQueue] | type[ThroughputQueue]] = {"LatencyQueue": LatencyQueue, "ThroughputQueue": ThroughputQueue}


def parse_queue(obj: Mapping[str, Any]) -> Queue:
    """The queue in an object as the API server sends it; its status is not looked at.

    Raises
    ------
    InvalidQueueError : with every problem, also those that the API server would refuse today.
    """
    kind = obj.get("kind")
    queue_type = _KINDS.get(kind) if isinstance(kind, str) else None
    if queue_type is None:
        raise InvalidQueueError([f"kind: expected LatencyQueue or ThroughputQueue, found {kind!r}"])
    try:
        queue = queue_type.model_validate(dict(obj), by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidQueueError(problems_of(error, _SPEC_KEYS[queue_type])) from error
    problems = list(violations(queue.spec, "spec"))
    if problems:
        raise InvalidQueueError(problems)
    return queue


def parse_status(obj: Mapping[str, Any]) -> QueueStatus:
    """The status of an object; an empty one if it has none. Raises InvalidQueueError if it is not one that the operator wrote."""
    try:
        return QueueStatus.model_validate(obj.get("status") or {}, by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidQueueError(problems_of(error, (), prefix="status.")) from error


def to_status(status: QueueStatus) -> dict[str, Any]:
    """The status as the API server takes it: camelCase, without what is not set."""
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


def _spec_keys(model: type[KubeModel], prefix: str) -> list[str]:
    found = []
    for name, field in model.model_fields.items():
        path = f"{prefix}.{field.alias or name}"
        found.append(path)
        for part in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(part, type) and issubclass(part, KubeModel):
                found.extend(_spec_keys(part, path))
    return found


_SPEC_KEYS = {LatencyQueue: _spec_keys(LatencyQueueSpec, "spec"), ThroughputQueue: _spec_keys(ThroughputQueueSpec, "spec")}


# --- to and from the core's values ----------------------------------------------------------------------------------------------


def to_queue_spec(queue: Queue) -> core.QueueSpec:
    """What the queue declares, in the core's units: cores, bytes, devices; seconds, and seconds since the epoch."""
    name = f"{queue.metadata.namespace}/{queue.metadata.name}"
    spec = queue.spec
    latency = isinstance(spec, LatencyQueueSpec)
    return core.QueueSpec(
        name=name,
        kind=core.QueueKind.LATENCY if latency else core.QueueKind.THROUGHPUT,
        order=(to_epoch(queue.metadata.creation_timestamp), name),
        weight=float(spec.weight),
        burst=_to_core_burst(spec.burst) if isinstance(spec, LatencyQueueSpec) and spec.burst else None,
        arrival=_to_core_arrival(spec.arrival) if isinstance(spec, LatencyQueueSpec) else None,
        limits=_to_units(spec.limits or {}) if isinstance(spec, ThroughputQueueSpec) else {},
        suspended=spec.suspended,
        lead_time=isinstance(spec, LatencyQueueSpec) and spec.lead_time != "Off" and spec.arrival.sporadic is None,
    )


def promise_to_status(spec: core.QueueSpec) -> dict[str, Any]:
    """The accepted spec as status.promise keeps it; the caller adds admissionOrder.

    Raises
    ------
    ValueError : a weight or a duration is not whole. Those of a spec made by `to_queue_spec` are.
    """
    promise = Promise(
        kind=spec.kind.value,
        name=spec.name,
        created=from_epoch(spec.order[0]),
        weight=_whole(spec.weight, "weight"),
        burst=_from_core_burst(spec.burst) if spec.burst else None,
        arrival=_from_core_arrival(spec.arrival) if spec.arrival else None,
        limits=to_amounts(spec.limits) or None,
        suspended=spec.suspended,
        lead_time="Auto" if spec.lead_time else None,
    )
    return promise.model_dump(mode="json", by_alias=True, exclude_none=True)


def promise_from_status(promise: Mapping[str, Any]) -> core.QueueSpec:
    """Inverse of `promise_to_status`. Raises InvalidQueueError if it is not one that the operator wrote."""
    try:
        read = Promise.model_validate(dict(promise), by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidQueueError(problems_of(error, (), prefix="status.promise.")) from error
    return core.QueueSpec(
        name=read.name,
        kind=core.QueueKind(read.kind),
        order=(to_epoch(read.created), read.name),
        weight=float(read.weight),
        burst=_to_core_burst(read.burst) if read.burst else None,
        arrival=_to_core_arrival(read.arrival) if read.arrival else None,
        limits=_to_units(read.limits or {}),
        suspended=read.suspended,
        lead_time=read.lead_time == "Auto",
    )


def to_epoch(time: datetime) -> float:
    """Seconds since the epoch, exact to the microsecond."""
    return (time - _EPOCH) / timedelta(microseconds=1) / _MICRO


def from_epoch(seconds: float) -> datetime:
    """The time, to the microsecond."""
    return _EPOCH + timedelta(microseconds=round(seconds * _MICRO))


def to_amounts(amounts: Mapping[str, float]) -> dict[str, str]:
    """Natural units by resource as quantities."""
    return {resource: format_quantity(resource, amount) for resource, amount in amounts.items()}


def _to_units(quantities: Mapping[str, str]) -> dict[str, float]:
    return {resource: charged_quantity(resource, text) for resource, text in quantities.items()}


def _whole(value: float, what: str) -> int:
    if value != int(value):
        raise ValueError(f"expected a whole number as {what}, found {value!r}")
    return int(value)


def _to_core_burst(burst: Burst) -> core.Burst:
    return core.Burst(
        resources=_to_units(burst.resources), duration_seconds=float(burst.duration_seconds), deadline_seconds=float(burst.deadline)
    )


def _from_core_burst(burst: core.Burst) -> Burst:
    return Burst(
        resources=to_amounts(burst.resources),
        duration_seconds=_whole(burst.duration_seconds, "durationSeconds"),
        deadline_seconds=_whole(burst.deadline_seconds, "deadlineSeconds"),
    )


def _to_core_arrival(arrival: Arrival) -> core.Arrival:
    if arrival.periodic:
        first = arrival.periodic.first_arrival
        return core.Periodic(
            period_seconds=float(arrival.periodic.period_seconds),
            first_arrival=None if first is None else to_epoch(first),
            jitter_seconds=float(arrival.periodic.jitter_seconds),
        )
    if arrival.sporadic:
        return core.Sporadic(min_interarrival_seconds=float(arrival.sporadic.min_interarrival_seconds))
    bursts = arrival.schedule.bursts if arrival.schedule else []
    return core.Schedule(bursts=tuple(core.ScheduledBurst(to_epoch(burst.arrival), _to_core_burst(burst)) for burst in bursts))


def _from_core_arrival(arrival: core.Arrival) -> Arrival:
    match arrival:
        case core.Periodic(period, first, jitter):
            return Arrival(
                periodic=Periodic(
                    period_seconds=_whole(period, "periodSeconds"),
                    first_arrival=None if first is None else from_epoch(first),
                    jitter_seconds=_whole(jitter, "jitterSeconds"),
                )
            )
        case core.Sporadic(interarrival):
            return Arrival(sporadic=Sporadic(min_interarrival_seconds=_whole(interarrival, "minInterarrivalSeconds")))
        case core.Schedule(bursts):
            scheduled = [ScheduledBurst(arrival=from_epoch(one.arrival), **dict(_from_core_burst(one.burst))) for one in bursts]
            return Arrival(schedule=Schedule(bursts=scheduled))
