"""The operator's answer and memory: the status of both kinds of queue. `crd.py` turns these models into crds/*.yaml."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fairburst.kube.queues.accounts import InternalStatus
from fairburst.kube.queues.bursts import Arrival, Burst
from fairburst.kube.queues.fields import Amounts, GuaranteeClassName, Timestamp
from fairburst.kube.queues.rules import KubeModel


class PodPriority(KubeModel):
    """The values that the admission policy writes into the queue's pods at their creation."""

    class_name: str = Field(max_length=253, description="spec.priorityClassName.")
    value: int = Field(description="spec.priority: the value of that class.")
    preemption_policy: Literal["Never", "PreemptLowerPriority"] = Field(description="spec.preemptionPolicy: that of the class.")


class Promise(KubeModel):
    """The complete accepted spec that is in force. It stays in force until a changed spec is accepted."""

    kind: Literal["Latency", "Throughput"] = Field(description="Kind of queue.")
    name: str = Field(max_length=512, description="namespace/name of the queue.")
    created: Timestamp = Field(description="When the queue was created: admission runs in this order.")
    weight: int = Field(ge=1, description="Accepted weight.")
    burst: Burst | None = Field(default=None, description="Accepted burst.")
    arrival: Arrival | None = Field(default=None, description="Accepted arrival.")
    calendar_from: Timestamp | None = Field(
        default=None, description="From when on the arrivals of an accepted calendar are listed; the operator extends the list."
    )
    limits: Amounts | None = Field(default=None, description="Accepted limits.")
    lead_time: Literal["Auto"] | None = Field(default=None, description="Auto where room is made ahead of bursts.")
    suspended: bool = Field(default=False, description="Whether the accepted queue is held.")
    admission_order: int | None = Field(default=None, description="Position in which it was admitted; classes come back in this order.")


class ReserveStatus(KubeModel):
    """The reserve for the queue's small jobs."""

    ratio_milli: int = Field(description="The reserve ratio of the elastic pool, in thousandths.")
    level: Amounts | None = Field(default=None, description="The part of the queue's level that is for small jobs now.")
    small_jobs: int = Field(description="Small jobs that run or wait.")
    large_jobs: int = Field(description="Large jobs that run or wait.")


class LeadTimeStatus(KubeModel):
    """Room held ahead of the next burst, and the accuracy of the last forecast."""

    reason: str = Field(max_length=1024, description="CamelCase reason.")
    message: str = Field(max_length=32768, description="The room held, or why there is none, with the numbers.")
    arrival: Timestamp | None = Field(default=None, description="When the burst is expected at the earliest.")
    planned_start: Timestamp | None = Field(default=None, description="When holding begins as work ends now; past where it has begun.")
    held: Amounts | None = Field(default=None, description="Kept from others now.")
    needed: Amounts | None = Field(default=None, description="The burst's peak demand, which must be free when it arrives.")
    pod_size: Amounts | None = Field(default=None, description="The largest pod of the burst that has been seen; none before the first.")
    expected_free: Amounts | None = Field(default=None, description="The free capacity predicted for the opening of the last burst.")
    really_free: Amounts | None = Field(default=None, description="The free capacity when the last burst opened, its own pods included.")


class WindowStatus(KubeModel):
    """The queue's open or next window: the time in which its burst is served."""

    state: Literal["Closed", "Armed", "Open", "Overdue"] = Field(
        description="Closed: waits for the next burst. Armed: the burst may begin at any time and is admitted at once. Open: the burst is "
        "served at its promise. Overdue: past its deadline, and still owed something."
    )
    index: int = Field(description="Number of the window.")
    next_burst: str | None = Field(
        default=None, max_length=64, description='When the next burst is expected: a time, "from" a time, "any time", or "now" in a window.'
    )
    arms_at: Timestamp | None = Field(default=None, description="From when on the burst may begin; none after the last scheduled burst.")
    opens_by: Timestamp | None = Field(default=None, description="Latest opening; none for a sporadic queue.")
    opened: Timestamp | None = Field(default=None, description="When the burst began.")
    deadline: Timestamp | None = Field(default=None, description="When the burst's demand must have been delivered.")
    used_percent: int | None = Field(
        default=None, description="Used part of the guarantee of this window, in percent. At 100 the rest comes by fair share."
    )


class UncertaintyStatus(KubeModel):
    """The amounts asked for, for a queue with spec.uncertainty."""

    confidence_percent: int = Field(description="The confidence in force, in percent.")
    correlation: Literal["Independent", "Perfect", "Measured"] = Field(description="The assumption in use.")
    extra_percent: dict[str, int] = Field(
        max_length=64, description="Asked for beyond spec.burst.resources, in percent of them; negative where the bursts seen took less."
    )
    asked: Amounts = Field(description="Asked for, by resource.")
    bursts: int = Field(description="Bursts seen, the last hundred at most.")
    learned: bool = Field(description="Whether the amounts come from them.")


class ConditionSides(KubeModel):
    """One admission condition at its tightest point: it holds if left is at most right."""

    holds: bool = Field(description="Whether the condition holds.")
    left: str = Field(
        max_length=32,
        description="The requested amount. Resource-seconds; for the resource condition resource units. If another queue binds, the ratio "
        "of both sides.",
    )
    right: str = Field(max_length=32, description="The available amount, in the same unit; 1 for a ratio.")
    resource: str = Field(max_length=512, description="Resource for which the condition is tightest.")
    queue: str = Field(max_length=512, description='This queue, or "another queue".')


class AdmissionStatus(KubeModel):
    """The answer to the latest candidate: each condition of admission with both sides."""

    guarantee_class: GuaranteeClassName | None = Field(default=None, alias="class", description="Class that this decision grants.")
    reason: str = Field(max_length=1024, description="CamelCase reason.")
    message: str = Field(max_length=32768, description="The decision in a sentence, with its numbers.")
    safety: ConditionSides | None = Field(default=None, description="Condition (1): promises to queues admitted earlier still hold.")
    fairness: ConditionSides | None = Field(default=None, description="Condition (2): the queue's own demand is within its fair share.")
    resource: ConditionSides | None = Field(default=None, description="Condition (3): its rate fits with those of all hard queues.")


class History(KubeModel):
    """Windows that have ended."""

    bursts: int = Field(description="Bursts seen.")
    met: int = Field(description="Bursts that received their demand by the deadline, or asked for less.")
    missed: int = Field(description="Bursts that did not.")


class ElasticJobStatus(KubeModel):
    """One job in the division of slots. Progress rates in thousandths of the progress that the job makes alone."""

    name: str = Field(max_length=253, description="Name of the Job.")
    fair: int = Field(description="Slots that fair sharing gives it.")
    given: int = Field(description="Slots that it is given.")
    parallelism: int = Field(description="Its spec.parallelism now.")
    predicted_fair_milli: int | None = Field(default=None, description="Progress rate that its curve predicts for the fair slots.")
    predicted_milli: int | None = Field(default=None, description="Progress rate that its curve predicts for the given slots.")
    measured_milli: int | None = Field(
        default=None, description="Progress rate measured lately, where it is known how fast the job is alone."
    )
    reason: str = Field(max_length=64, description="CamelCase reason.")


class ElasticityStatus(KubeModel):
    """The result of the division of slots: sums over all of the queue's jobs, and by name the jobs with the largest differences."""

    mode: Literal["Parallelism", "Quota"] = Field(description="The changed objects.")
    fairness_percent: int = Field(description="The fairness knob in force, in percent.")
    jobs: int = Field(description="Jobs that share the queue's slots.")
    fair: int = Field(description="Slots that fair sharing gives them in all.")
    given: int = Field(description="Slots that they are given in all.")
    by_reason: Annotated[dict[str, int], Field(max_length=32)] = Field(description="Jobs by the reason for what they are given.")
    moved: Amounts | None = Field(
        default=None, description="Received from other queues (negative: given to them), by resource. It counts as the giver's."
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
    message: str = Field(max_length=32768, description="The expected and the found value, and what to do.")


class SuggestionStatus(KubeModel):
    """A declaration that fits what the work of a queue in Observe mode has done, and the class that it would have."""

    message: str = Field(max_length=1024, description="What was seen, and what a queue declared so would be; or why nothing is suggested.")
    bursts: int | None = Field(default=None, description="Bursts that the suggestion is drawn from.")
    guarantee_class: GuaranteeClassName | None = Field(
        default=None, alias="class", description="Class of a new LatencyQueue with this declaration, in the place of this queue."
    )
    burst: Burst | None = Field(default=None, description="For spec.burst: 95 % of the bursts that were seen fit in it.")
    arrival: Arrival | None = Field(default=None, description="For spec.arrival.")


class WeekStatus(KubeModel):
    """Use of a week, which begins on Monday at 00:00 UTC, against the fair share."""

    since: Timestamp = Field(description="From when on it is counted: Monday 00:00 UTC, or the queue's admission if that was later.")
    used_percent: int = Field(description="Used, in percent of the fair share over the same time; above 100 if others left room.")
    served_percent: int | None = Field(
        default=None,
        description="Served, in percent of the demand up to the fair share: 100 if the queue never waited below its share. None if it "
        "wanted nothing.",
    )


class QueueStatus(KubeModel):
    """The operator's answer: the class that it promises, what the queue has and uses now, what waits and why."""

    observed_generation: int | None = Field(default=None, description="Generation of the spec that this answers.")
    guarantee_class: GuaranteeClassName | None = Field(
        default=None,
        alias="class",
        description="The promise. Hard: the rate in every window. Soft: the demand by the deadline, as far as hard queues leave room. "
        "Elastic: a fair share. Rejected: nothing beyond the floor, for it would break an earlier promise.",
    )
    pod_priority: PodPriority | None = Field(default=None, description="The values set on pods of this queue at creation.")
    holds: Literal["Pods", "Jobs"] | None = Field(
        default=None, description="The new work that the admission policies hold until the operator releases it."
    )
    small_pod_priority: PodPriority | None = Field(
        default=None, description="The values set on pods of small Jobs instead, while there is a reserve."
    )
    lead_time: LeadTimeStatus | None = Field(default=None, description="Room ahead of bursts, for a queue with leadTime: Auto.")
    reserve: ReserveStatus | None = Field(default=None, description="The reserve for small jobs (DRESS).")
    size_threshold: Amounts | None = Field(
        default=None, description="A Job whose full request is at most this in every resource is small; decided at its creation."
    )
    promise: Promise | None = Field(default=None, description="The accepted spec. It is in force until a changed one is accepted.")
    share: str | None = Field(
        default=None,
        max_length=16,
        description="The queue's fair share of the pool: its weight over the sum of admitted weights, in percent.",
    )
    allocated_share: str | None = Field(
        default=None,
        max_length=16,
        description="Allocated now, in percent of the pool, by the resource of which it is most. More than share where others leave room.",
    )
    used_share: str | None = Field(default=None, max_length=16, description="Used now, in the same measure.")
    waiting_share: str | None = Field(default=None, max_length=16, description="Wanted now beyond the use, in the same measure.")
    week: WeekStatus | None = Field(default=None, description="Use of this week, against the fair share.")
    last_week: WeekStatus | None = Field(default=None, description="Use of the week before.")
    window: WindowStatus | None = Field(default=None, description="The window that the queue is in or waits for.")
    allocation: Amounts | None = Field(
        default=None, description="Allocated now, by resource: the queue may use this much. Guaranteed and spare together."
    )
    guaranteed: Amounts | None = Field(default=None, description="The part of the allocation that is guaranteed.")
    usage: Amounts | None = Field(
        default=None,
        description="Requests of the pods that are bound to a node and have not ended, except those of a throughput queue whose node "
        "has been cordoned or lost since.",
    )
    demand: Amounts | None = Field(
        default=None, description="The use, and the requests of all work that is pending or has yet to be created."
    )
    waiting: Amounts | None = Field(default=None, description="Wanted and not running, by resource; empty if nothing waits.")
    explanation: str | None = Field(
        default=None, max_length=1024, description="One sentence: the amounts that wait, the resource that is missing, and the cause."
    )
    admission: AdmissionStatus | None = Field(default=None, description="The latest admission decision with its arithmetic.")
    history: History | None = Field(default=None, description="Windows that have ended.")
    uncertainty: UncertaintyStatus | None = Field(default=None, description="The amounts asked for where the demand is a distribution.")
    suggestion: SuggestionStatus | None = Field(
        default=None, description="For a queue in Observe mode: the declaration that would fit its work."
    )
    refused: Promise | None = Field(default=None, description="A changed spec that was refused; the promise stays.")
    elasticity: ElasticityStatus | None = Field(default=None, description="How slots are divided among elastic jobs.")
    conditions: list[Condition] | None = Field(
        default=None,
        max_length=32,
        description="Admitted, Guaranteed, Attainable, Enforced, JobsFit, Elastic, Ready: docs/conditions.md lists every reason.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    internal: InternalStatus | None = Field(
        default=None, description="The operator's accounts, which outlive a restart. They may change without a new version of the API."
    )
