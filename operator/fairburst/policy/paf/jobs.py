"""The values that go into and come out of a division of slots. No Kubernetes in them, and no behaviour.

A slot is the resources of one task of the job itself, its `request`: slots of different jobs need not be alike.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from fairburst.policy.arrays import FloatArray
from fairburst.policy.paf.curves import Curve


@dataclass(frozen=True, slots=True)
class ElasticJob:
    """A job that runs with any number of slots between two bounds.

    name: unique in the snapshot ("namespace/name"), the last key of every tie-break. queue: whose share it lives on.
    weight: > 0, of the job among the jobs of its queue. minimum, maximum: whole slots, 0 <= minimum <= maximum.
    slots: held now. request: (K,) resource units a slot. curve: None where none is known: the job keeps its fair share.
    category: slots move between jobs of one category only; None is a category as well.
    """

    name: str
    queue: str
    weight: float
    minimum: int
    maximum: int
    slots: int
    request: FloatArray
    curve: Curve | None = None
    category: str | None = None


class SlotReason(enum.Enum):
    """Why a job was given so many slots."""

    GAVE = "GaveSlots"
    TOOK = "TookSlots"
    FAIR = "FairShare"
    NO_CURVE = "NoCurve"
    CURVE_REFUSED = "CurveRefused"
    BELOW_MINIMUM = "BelowMinimum"


@dataclass(frozen=True, slots=True)
class SlotDecision:
    """One job's part of a division, in whole slots.

    fair: what weighted fair sharing gives it. given: what it should have. predicted_fair, predicted: progress rate that its curve gives
    for either; None without a usable curve. `reason` is a value of SlotReason, `message` a sentence with the numbers.
    """

    job: str
    queue: str
    fair: int
    given: int
    predicted_fair: float | None
    predicted: float | None
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SlotDivision:
    """decisions: in the order of the jobs given. moved: (K,) resource units by queue that came from other queues (negative: went to
    them); queues that exchanged nothing are left out. For fairness and status these still count as the giver's."""

    decisions: tuple[SlotDecision, ...]
    moved: Mapping[str, FloatArray]
