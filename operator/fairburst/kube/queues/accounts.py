"""The operator's accounts of a queue, which outlive a restart: `status.internal`. `crd.py` turns these models into crds/*.yaml.

The status proper (`statuses.py`) is for people. Earlier versions kept these accounts in it: `former_places.py` finds them there.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fairburst.kube.queues.fields import Amounts, Timestamp
from fairburst.kube.queues.rules import KubeModel


class WindowAccount(KubeModel):
    """Use of the open window's guarantee, and whether the window counts as a burst."""

    consumed_milliseconds: int | None = Field(default=None, description="Thousandths of a dominant-share-second delivered in this window.")
    budget_milliseconds: int | None = Field(default=None, description="Thousandths of a dominant-share-second guaranteed in this window.")
    demanded: bool | None = Field(default=None, description="Whether work was wanted in it at some time.")
    judged: bool | None = Field(default=None, description="Whether it has been counted as met or missed.")
    behind_milliseconds: int | None = Field(
        default=None, description="Thousandths of a dominant-share-second of missed bursts whose work may run in it first."
    )


class Ledger(KubeModel):
    """Dominant-share-seconds received in the current period: value + rate x (now - asOf)."""

    value_milliseconds: int = Field(description="Thousandths of a dominant-share-second received by asOf.")
    rate_micro: int = Field(description="Rate of growth in millionths of capacity.")
    delivered_milliseconds: int | None = Field(default=None, description="Used since the window opened, spare included, by asOf.")
    delivered_rate_micro: int | None = Field(default=None, description="Rate of that in millionths of capacity.")
    received_milliseconds: Annotated[dict[str, int], Field(max_length=64)] | None = Field(
        default=None, description="valueMilliseconds by resource: the guarantee of a window lasts for each of them."
    )
    received_rate_micro: Annotated[dict[str, int], Field(max_length=64)] | None = Field(
        default=None, description="Rates of that in millionths of capacity."
    )
    as_of: Timestamp = Field(description="When the value was true.")


class FairShare(KubeModel):
    """Part of the period's fair share earned so far: value + rate x (now - asOf)."""

    value_milliseconds: int = Field(description="Thousandths of a dominant-share-second earned by asOf.")
    rate_micro: int = Field(description="The share in millionths of capacity.")
    as_of: Timestamp = Field(description="When the value was true.")


class Balance(KubeModel):
    """How far a throughput queue is behind its fair share; negative if it is ahead: value + rate x (now - asOf)."""

    value_milliseconds: int = Field(description="Thousandths of a dominant-share-second owed by asOf.")
    rate_micro: int = Field(description="Rate of growth in millionths of capacity.")
    recent_milliseconds: int = Field(description="The same as the value, with what is long past forgotten.")
    as_of: Timestamp = Field(description="When the values were true.")


class Rounding(KubeModel):
    """The queue's turn if a fair share is less than one pod."""

    waiting_since: Timestamp | None = Field(default=None, description="Since when the queue waits for a whole pod.")
    held_since: Timestamp | None = Field(default=None, description="Since when it holds one.")


class LearnedBurst(KubeModel):
    """The declared burst of which parts were measured."""

    resources: Amounts = Field(description="spec.burst.resources.")
    duration_seconds: int = Field(description="spec.burst.durationSeconds.")


class BurstsSeen(KubeModel):
    """Use of each burst, for a queue with spec.uncertainty."""

    of: LearnedBurst | None = Field(default=None, description="The declared burst that partsMilli refers to.")
    parts_milli: (
        Annotated[
            dict[str, Annotated[list[int], Field(max_length=100, json_schema_extra={"x-kubernetes-list-type": "atomic"})]],
            Field(max_length=64),
        ]
        | None
    ) = Field(default=None, description="Use of each burst seen, in thousandths of the declared resource-seconds, by resource.")


class WeekAccount(KubeModel):
    """The sums behind status.week, in thousandths of a dominant-share-second."""

    since: Timestamp = Field(description="From when on it is counted.")
    as_of: Timestamp = Field(description="When the values were true.")
    used_milliseconds: int = Field(description="Used.")
    fair_milliseconds: int = Field(description="The fair share.")
    wanted_milliseconds: int = Field(description="Wanted, up to the fair share.")
    served_milliseconds: int = Field(description="Used of what was wanted up to the fair share.")


class InternalStatus(KubeModel):
    """The operator's accounts, which outlive a restart. Programs should not rely on them: they change without a new version."""

    ledger: Ledger | None = Field(default=None, description="Amount received in the current period.")
    debt_milliseconds: int | None = Field(
        default=None, description="Overrun carried into the period, thousandths of a dominant-share-second."
    )
    period_started: Timestamp | None = Field(default=None, description="When the current period began.")
    last_opened: Timestamp | None = Field(default=None, description="When the last burst began.")
    fair_share: FairShare | None = Field(default=None, description="Amount earned in the current period.")
    residual_level_micro: int | None = Field(
        default=None, description="Level of a latency queue outside its windows, in millionths of capacity."
    )
    window: WindowAccount | None = Field(default=None, description="The account of status.window.")
    rounding: Rounding | None = Field(default=None, description="Turns of queues whose share is less than one pod.")
    balance: Balance | None = Field(default=None, description="How far a throughput queue is behind its fair share.")
    bursts_seen: BurstsSeen | None = Field(default=None, description="Use of each burst, for a queue with spec.uncertainty.")
    week: WeekAccount | None = Field(default=None, description="The sums behind status.week.")
