"""Inputs and results of a division of slots: plain values without Kubernetes types.

A slot has the resources of one task of its job (`request`), so slots of different jobs may differ.
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

    name: unique in the snapshot ("namespace/name"), the last key of every tie-break. queue: the queue whose share the job uses.
    weight: > 0, relative to the other jobs of its queue. minimum, maximum: whole slots, 0 <= minimum <= maximum.
    slots: number held now. request: (K,) resource units of a slot. curve: None if unknown; the job then keeps its fair share.
    category: slots move only between jobs of the same category; None is a category too.
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
    """Reasons for a job's number of slots."""

    GAVE = "GaveSlots"
    TOOK = "TookSlots"
    FAIR = "FairShare"
    NO_CURVE = "NoCurve"
    CURVE_REFUSED = "CurveRefused"
    BELOW_MINIMUM = "BelowMinimum"


@dataclass(frozen=True, slots=True)
class SlotDecision:
    """One job's part of a division, in whole slots.

    fair: slots by weighted fair sharing. given: slots that the job should have. predicted_fair, predicted: progress rates that the curve
    predicts for these, or None without a usable curve. reason: a value of SlotReason. message: a sentence with the numbers.
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
    """Result of a division.

    decisions: in the order of the jobs. moved: (K,) resource units by queue that came from other queues (negative: that went to them).
    Queues that exchanged nothing are left out. For fairness and status, moved amounts still count as the giver's.
    """

    decisions: tuple[SlotDecision, ...]
    moved: Mapping[str, FloatArray]
