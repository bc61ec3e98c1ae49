"""Records of runs: jobs, integrals, events and, on request, each queue's use over time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.model import GuaranteeClass, QueueSpec, RoundEvent


@dataclass(slots=True)
class JobRecord:
    """One job's times, in seconds from the start, NaN if not reached. deadline: absolute, infinite if the queue promises none."""

    queue: str
    name: str
    arrival: float
    deadline: float = math.inf
    first_start: float = math.nan
    end: float = math.nan

    @property
    def completion(self) -> float:
        """Seconds from arrival to end."""
        return self.end - self.arrival

    @property
    def runtime(self) -> float:
        """Seconds from the first task's start to the end, as averaged in Table 4."""
        return self.end - self.first_start

    @property
    def met(self) -> bool:
        """Return whether the job ended by its deadline."""
        return self.end <= self.deadline + 1e-6


@dataclass(slots=True)
class Record:
    """Record of a whole run. Arrays over queues (N,) and resources (K,) are in the scenario's order.

    resource_seconds: (N, K) used. dominant_seconds: (N,) integral of max_k use_k / C_k. guaranteed_seconds: (K,) used by queues while they
    had a guarantee. capacity_seconds: (K,). times, use: a step function, (N, K) for each entry of `times`, if recorded.
    """

    queues: tuple[QueueSpec, ...]
    resources: tuple[str, ...]
    policy: str
    jobs: list[JobRecord] = field(default_factory=list)
    classes: dict[str, GuaranteeClass | None] = field(default_factory=dict)
    events: list[tuple[float, RoundEvent]] = field(default_factory=list)
    windows: list[tuple[str, float, float]] = field(default_factory=list)
    resource_seconds: FloatArray = field(init=False)
    dominant_seconds: FloatArray = field(init=False)
    guaranteed_seconds: FloatArray = field(init=False)
    capacity_seconds: FloatArray = field(init=False)
    times: list[float] = field(default_factory=list)
    use: list[FloatArray] = field(default_factory=list)
    end: float = 0.0
    rounds: int = 0
    tasks_started: int = 0
    tasks_evicted: int = 0

    def __post_init__(self) -> None:
        shape = len(self.queues), len(self.resources)
        self.resource_seconds, self.dominant_seconds = np.zeros(shape), np.zeros(shape[0])
        self.guaranteed_seconds, self.capacity_seconds = np.zeros(shape[1]), np.zeros(shape[1])

    def carry_on(self, seconds: float, used: FloatArray, capacity: FloatArray, guaranteed: BoolArray) -> None:
        """Add an interval of `seconds`. used: (N, K), capacity: (K,), resource units. guaranteed: (N,) queues with a guarantee."""
        self.resource_seconds += used * seconds
        self.dominant_seconds += (used / np.maximum(capacity, 1e-12)).max(axis=1) * seconds
        self.guaranteed_seconds += used[guaranteed].sum(axis=0) * seconds
        self.capacity_seconds += capacity * seconds

    def of(self, queue: str) -> list[JobRecord]:
        """Return one queue's jobs in order of arrival."""
        return [job for job in self.jobs if job.queue == queue]

    def ended(self, queue: str) -> list[JobRecord]:
        """Return one queue's jobs that have ended, in order of arrival."""
        return [job for job in self.of(queue) if not math.isnan(job.end)]

    @property
    def utilisation(self) -> Mapping[str, float]:
        """Fraction of the capacity used, by resource (BPF §3.2)."""
        return self._part(self.resource_seconds.sum(axis=0))

    @property
    def guaranteed_utilisation(self) -> Mapping[str, float]:
        """Fraction of the capacity used by latency queues with guarantees (BPF §3.2)."""
        return self._part(self.guaranteed_seconds)

    def _part(self, seconds: FloatArray) -> dict[str, float]:
        safe = np.maximum(self.capacity_seconds, 1e-12)
        return dict(zip(self.resources, (seconds / safe).tolist(), strict=True))
