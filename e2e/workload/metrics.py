"""The records of a workload run, and the figures computed from them. Pure: no cluster, no clock.

Times are in seconds after the start of the run, amounts in cores and bytes, dominant shares are fractions of capacity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Amounts:
    """The sum of pods' requests."""

    cpu: float = 0.0
    memory: float = 0.0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.cpu + other.cpu, self.memory + other.memory)

    def times(self, count: float) -> Amounts:
        return Amounts(self.cpu * count, self.memory * count)

    def dominant_share(self, capacity: Amounts) -> float:
        """Return the largest fraction of any resource of `capacity`."""
        return max(self.cpu / capacity.cpu, self.memory / capacity.memory)


@dataclass(frozen=True, slots=True)
class BurstRecord:
    """One burst of a latency queue, which demands `pods` from `arrival` on.

    `bound_at`: when its last pod was bound to a node. `completed_at`: when its last pod had succeeded. None: not observed.
    """

    queue: str
    number: int
    arrival: float
    pods: int
    deadline_seconds: float
    bound_at: float | None = None
    completed_at: float | None = None

    @property
    def completion_seconds(self) -> float | None:
        """Seconds from arrival until all its work was done."""
        return None if self.completed_at is None else self.completed_at - self.arrival

    @property
    def binding_seconds(self) -> float | None:
        """Seconds from arrival until all its pods were bound."""
        return None if self.bound_at is None else self.bound_at - self.arrival

    @property
    def met(self) -> bool:
        """Whether all its work was done by its deadline."""
        return self.completed_at is not None and self.completed_at <= self.arrival + self.deadline_seconds

    def missed(self, now: float) -> bool:
        """Return whether its deadline has passed before its completion."""
        return not self.met and now > self.arrival + self.deadline_seconds


@dataclass(frozen=True, slots=True)
class Sample:
    """The queues at one time: resources held by bound pods, and total demand (unfinished runnable tasks, including the bound ones)."""

    at: float
    held: Mapping[str, Amounts]
    wanted: Mapping[str, Amounts]


@dataclass(frozen=True, slots=True)
class WorkloadRecord:
    """A whole run. overheads: for each task that succeeded, the seconds it was bound beyond its duration (mostly its start)."""

    seconds: float
    capacity: Amounts
    bursts: Sequence[BurstRecord]
    samples: Sequence[Sample]
    jobs_done: Mapping[str, int] = field(default_factory=dict)
    tasks_done: Mapping[str, int] = field(default_factory=dict)
    api_errors: int = 0
    overheads: Sequence[float] = ()


def fair_shares(weights: Mapping[str, float]) -> dict[str, float]:
    """Return w / sum of w."""
    total = sum(weights.values())
    return {queue: weight / total for queue, weight in weights.items()}


def average_dominant_shares(samples: Sequence[Sample], capacity: Amounts, start: float, end: float) -> dict[str, float]:
    """Return each queue's dominant share averaged over [start, end). A sample holds until the next one.

    Raises ValueError if no sample lies at or before `start`, or the interval is empty.
    """
    if not samples or samples[0].at > start or end <= start:
        raise ValueError(f"expected samples from {start:g} s on and an end after it, found {_span(samples)} and the end {end:g} s")
    totals = dict.fromkeys(samples[0].held, 0.0)
    for sample, seconds in _held_for(samples, start, end):
        for queue, held in sample.held.items():
            totals[queue] += held.dominant_share(capacity) * seconds
    return {queue: total / (end - start) for queue, total in totals.items()}


def backlogged_fraction(samples: Sequence[Sample], queue: str, start: float, end: float) -> float:
    """Return the part of [start, end) in which the queue demanded more than it held: only then are its share and fair share comparable."""
    return sum(s for sample, s in _held_for(samples, start, end) if sample.wanted[queue].cpu > sample.held[queue].cpu) / (end - start)


def largest_total_share(samples: Iterable[Sample], capacity: Amounts) -> float:
    """Return the largest part of capacity that the pods of all queues ever held together."""
    return max((sum(sample.held.values(), Amounts()).dominant_share(capacity) for sample in samples), default=0.0)


def bursts_of(bursts: Iterable[BurstRecord], queue: str) -> list[BurstRecord]:
    """Return one queue's bursts in order of arrival."""
    return sorted((burst for burst in bursts if burst.queue == queue), key=lambda burst: burst.number)


def mean_completion_seconds(bursts: Iterable[BurstRecord]) -> float | None:
    """Return the mean over the bursts that completed, or None if none did."""
    times = [burst.completion_seconds for burst in bursts if burst.completion_seconds is not None]
    return sum(times) / len(times) if times else None


def _held_for(samples: Sequence[Sample], start: float, end: float) -> Iterable[tuple[Sample, float]]:
    """Yield every sample with the seconds within [start, end) for which it is the newest."""
    for index, sample in enumerate(samples):
        until = samples[index + 1].at if index + 1 < len(samples) else end
        seconds = min(until, end) - max(sample.at, start)
        if seconds > 0:
            yield sample, seconds


def _span(samples: Sequence[Sample]) -> str:
    return f"samples from {samples[0].at:g} to {samples[-1].at:g} s" if samples else "no samples"
