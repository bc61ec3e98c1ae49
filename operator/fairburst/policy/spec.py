"""Validated declarations of queues: bursts, arrivals, weights, limits. Frozen values; this module decides nothing.

Resource units are the natural ones (cores, bytes, whole devices), time is in seconds since the epoch.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


class QueueKind(enum.Enum):
    """Kind of a queue: its owner cares about latency or about throughput."""

    LATENCY = "Latency"
    THROUGHPUT = "Throughput"


@dataclass(frozen=True, slots=True)
class Burst:
    """One burst: `resources` are needed for `duration_seconds`, and must be delivered within `deadline_seconds` of its opening.

    Its demand d is resources x duration (resource-seconds); its guaranteed rate is d / deadline.
    """

    resources: Mapping[str, float]
    duration_seconds: float
    deadline_seconds: float


@dataclass(frozen=True, slots=True)
class Periodic:
    """Bursts at first_arrival + n x period, give or take the jitter. `first_arrival` None: as soon as work arrives after admission."""

    period_seconds: float
    first_arrival: float | None = None
    jitter_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Sporadic:
    """Bursts whenever work arrives, at most once per minimum inter-arrival time."""

    min_interarrival_seconds: float


@dataclass(frozen=True, slots=True)
class ScheduledBurst:
    """One explicitly scheduled arrival with a demand and deadline of its own (d_i(n), t_i(n))."""

    arrival: float
    burst: Burst


@dataclass(frozen=True, slots=True)
class Schedule:
    """Explicit arrivals in ascending order.

    calendar: the rule that gives them, as text that the core only compares; empty if there is none. A later schedule of the same calendar
    continues an earlier one. since: the time from which it lists the calendar's arrivals.
    """

    bursts: Sequence[ScheduledBurst]
    calendar: str = ""
    since: float = 0.0


Arrival: TypeAlias = Periodic | Sporadic | Schedule


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """Validated declaration of one queue.

    `name` is unique in the pool ("namespace/name") and the last key of every tie-break. `order` is the key of creation
    order (creation time, then name): admission runs in this order. `burst` and `arrival` are None for throughput queues
    (and `burst` is None where the arrival is a Schedule, which carries its own).
    `limits` caps the allocation per resource; resources it does not name are uncapped.
    `suspended` holds all new work: no allocation, no weight in the division.
    `lead_time`: room is made ahead of a predictable burst (lead_time.py).
    """

    name: str
    kind: QueueKind
    order: tuple[float, str]
    weight: float = 1.0
    burst: Burst | None = None
    arrival: Arrival | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    suspended: bool = False
    lead_time: bool = False
