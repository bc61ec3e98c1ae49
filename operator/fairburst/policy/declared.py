"""The specs of all queues as columns, compiled once for each tuple of specs.

Decides nothing. Row i of every array is queue i of the tuple. Throughput queues have zero bursts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.drf import largest_share
from fairburst.policy.errors import InvalidSpecError
from fairburst.policy.phases import Phases
from fairburst.policy.schedule import BurstTable
from fairburst.policy.spec import Burst, QueueKind, QueueSpec, Schedule, Sporadic
from fairburst.policy.tolerance import LARGEST, LONGEST_SECONDS, SMALLEST, TIME_STEP_SECONDS

# One byte each: a round compares them a few dozen times.
CodeArray: TypeAlias = NDArray[np.int8]

# The kinds of arrival.
NO_ARRIVAL, PERIODIC, FLOATING, SPORADIC, SCHEDULE = 0, 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class BurstRows:
    """Every burst of every schedule, flat: rows `start[i] : start[i] + count[i]` belong to queue i."""

    start: IntArray
    count: IntArray
    arrival: FloatArray
    demand: FloatArray
    rate: FloatArray
    deadline: FloatArray
    gap: FloatArray

    def position(self, rows: IntArray, index: IntArray) -> IntArray:
        """(M,) where the burst with the number `index` of each of these M queues stands: its last one if it has no such burst."""
        found: IntArray = self.start[rows] + np.clip(index, 0, self.count[rows] - 1)
        return found


@dataclass(frozen=True)
class Declared:
    """Declarations of N specs, over K resources.

    kind: arrival code. demand: (N, K) d. rate: (N, K) d / deadline. gap: (N,) interarrival, infinite for the last scheduled burst.
    first_arrival: (N,) NaN where the phase isn't known. worst: (N, K) max_n d(n) / min(gap(n), max_cycle). highest_rate: (N, K), over n.
    unknown: row -> name of a needed resource that isn't counted. limit: (N, K), infinite where uncapped, None if no queue has limits.
    tables: row -> its schedule.
    """

    queues: tuple[QueueSpec, ...]
    resources: tuple[str, ...]
    max_cycle: float
    latency: BoolArray
    suspended: BoolArray
    weight: FloatArray
    kind: CodeArray
    demand: FloatArray
    rate: FloatArray
    deadline: FloatArray
    gap: FloatArray
    jitter: FloatArray
    first_arrival: FloatArray
    worst: FloatArray
    highest_rate: FloatArray
    unknown: dict[int, str]
    limit: FloatArray | None
    tables: Mapping[int, BurstTable]

    @cached_property
    def schedules(self) -> BurstRows:
        """Every scheduled burst, for windows. Admission needs only the heaviest."""
        return _lay_end_to_end(self.tables, len(self.queues), self.resources)

    @cached_property
    def phases(self) -> Phases:
        """Places of the windows that repeat at known times."""
        return Phases.of(self.kind == PERIODIC, self.first_arrival, self.gap, self.jitter, self.deadline)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.queues)

    @cached_property
    def lead_time_rows(self) -> tuple[int, ...]:
        """The rows of queues that request lead time."""
        return tuple(row for row, spec in enumerate(self.queues) if spec.lead_time)

    @cached_property
    def period(self) -> FloatArray:
        """(N,) length of the accounting period: the interarrival time, zero where there is none."""
        return np.where(np.isfinite(self.gap), self.gap, 0.0)

    @cached_property
    def _bursts(self) -> dict[bytes, FloatArray]:
        return {}

    def burst(self, inverse: FloatArray) -> FloatArray:
        """(N,) max_k d_k / C_k of queues whose bursts are equal, read-only; kept for the last capacity, which seldom changes."""
        key = inverse.tobytes()
        if key not in self._bursts:
            self._bursts.clear()
            self._bursts[key] = largest_share(self.demand, inverse)
        return self._bursts[key]

    def burst_shares(self, inverse: FloatArray) -> FloatArray:
        """(N, K) d_k / C_k of queues whose bursts are equal, kept like `burst`."""
        key = b"shares" + inverse.tobytes()
        self.burst(inverse)  # clears the values kept for another capacity
        if key not in self._bursts:
            self._bursts[key] = self.demand * inverse
        return self._bursts[key]

    @cached_property
    def kept(self) -> dict[str, Any]:
        """Values that other modules derive from these declarations and keep as long as the declarations are in force."""
        return {}

    @cached_property
    def row_of(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def name_rank(self) -> IntArray:
        """(N,) position of each name in sorted order: the last key of every tie-break."""
        rank = np.empty(len(self.queues), dtype=np.int64)
        rank[sorted(range(len(self.queues)), key=lambda row: self.queues[row].name)] = np.arange(len(self.queues))
        return rank


def compile_queues(queues: tuple[QueueSpec, ...], resources: tuple[str, ...], max_cycle: float) -> Declared:
    """Read every spec once into arrays. Raises InvalidSpecError if a spec breaks the contract of QueueSpec."""
    count, width = len(queues), len(resources)
    column_of = {name: column for column, name in enumerate(resources)}
    latency, suspended = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    weight, kind = np.ones(count), np.zeros(count, dtype=np.int8)
    demand, rate = np.zeros((count, width), order="F"), np.zeros((count, width), order="F")
    deadline, gap, jitter = np.zeros(count), np.full(count, math.inf), np.zeros(count)
    first = np.full(count, math.nan)
    unknown: dict[int, str] = {}
    limits: list[tuple[int, QueueSpec]] = []
    tables: dict[int, BurstTable] = {}
    for row, spec in enumerate(queues):
        weight[row] = spec.weight
        suspended[row] = spec.suspended
        if spec.limits:
            limits.append((row, spec))
        if spec.kind is QueueKind.THROUGHPUT:
            continue
        latency[row] = True
        arrival = spec.arrival
        if isinstance(arrival, Schedule):
            kind[row] = SCHEDULE
            tables[row] = BurstTable.of(arrival.bursts)
            continue
        if spec.burst is None or arrival is None:
            raise InvalidSpecError(f"queue {spec.name}: a latency queue needs a burst and an arrival, found {spec.burst} and {arrival}")
        deadline[row] = spec.burst.deadline_seconds
        _read_burst(spec.burst, spec.name, column_of, row, demand[row], unknown)
        if isinstance(arrival, Sporadic):
            kind[row], gap[row] = SPORADIC, arrival.min_interarrival_seconds
        else:
            gap[row], jitter[row] = arrival.period_seconds, arrival.jitter_seconds
            kind[row] = FLOATING if arrival.first_arrival is None else PERIODIC
            if arrival.first_arrival is not None:
                first[row] = arrival.first_arrival
    _check(queues, latency & (kind != SCHEDULE), weight, deadline, gap, jitter, np.where(kind == PERIODIC, first, 0.0))
    single = np.flatnonzero(latency & (kind != SCHEDULE))
    rate[single] = demand[single] / deadline[single, None]
    worst, highest = np.zeros((count, width), order="F"), rate.copy(order="F")
    worst[single] = demand[single] / np.minimum(gap[single], max_cycle)[:, None]
    declared = Declared(
        queues=queues, resources=resources, max_cycle=max_cycle, latency=latency, suspended=suspended, weight=weight, kind=kind,
        demand=demand, rate=rate, deadline=deadline, gap=gap, jitter=jitter, first_arrival=first, worst=worst, highest_rate=highest,
        unknown=unknown, limit=_limits(limits, count, column_of) if limits else None, tables=tables,
    )  # fmt: skip
    for row, table in tables.items():
        _read_schedule(table, row, declared, column_of)
    return declared


def _read_burst(burst: Burst, name: str, column_of: Mapping[str, int], row: int, out: FloatArray, unknown: dict[int, str]) -> None:
    for resource, amount in burst.resources.items():
        if not 0 <= amount <= LARGEST:
            raise InvalidSpecError(f"queue {name}: expected an amount of {resource} between 0 and {LARGEST:g} in the burst, found {amount}")
        column = column_of.get(resource)
        if column is not None:
            out[column] = amount * burst.duration_seconds
        elif amount > 0:
            unknown[row] = min(resource, unknown.get(row, resource))  # the first by name: a mapping's order decides nothing
    if not (TIME_STEP_SECONDS <= burst.duration_seconds <= burst.deadline_seconds <= LONGEST_SECONDS):
        raise InvalidSpecError(
            f"queue {name}: expected {TIME_STEP_SECONDS} s <= duration <= deadline <= {LONGEST_SECONDS:g} s, "
            f"found duration {burst.duration_seconds} s and deadline {burst.deadline_seconds} s"
        )


def _check(
    queues: Sequence[QueueSpec], single: BoolArray, weight: FloatArray, deadline: FloatArray, gap: FloatArray, jitter: FloatArray,
    first: FloatArray,
) -> None:  # fmt: skip
    """Raise an error for the first queue with invalid numbers. All checks are here, so that no NaN gets further."""
    bad = ~((weight >= SMALLEST) & (weight <= LARGEST))
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidSpecError(f"queue {queues[row].name}: expected a weight between {SMALLEST:g} and {LARGEST:g}, found {weight[row]}")
    bad = ~(np.abs(first) <= LONGEST_SECONDS)
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidSpecError(
            f"queue {queues[row].name}: expected the first arrival within {LONGEST_SECONDS:g} s of the epoch, found {first[row]}"
        )
    bad = single & ~((gap <= LONGEST_SECONDS) & (gap > 0) & (jitter >= 0) & (jitter <= gap / 2))
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidSpecError(
            f"queue {queues[row].name}: expected a period (or least inter-arrival time) > 0 and a jitter of at most half of it, "
            f"found {gap[row]} s and {jitter[row]} s"
        )
    bad = single & ~(deadline <= gap)
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidSpecError(
            f"queue {queues[row].name}: expected the deadline within the period (or least inter-arrival time), found "
            f"{deadline[row]} s and {gap[row]} s"
        )


def _read_schedule(table: BurstTable, row: int, declared: Declared, column_of: Mapping[str, int]) -> None:
    """Fill in the demand and rate of the heaviest scheduled bursts."""
    if table.problem:
        raise InvalidSpecError(f"queue {declared.queues[row].name}: {table.problem}")
    worst, highest = table.heaviest(declared.max_cycle)
    for position, resource in enumerate(table.resources):
        column = column_of.get(resource)
        if column is not None:
            declared.worst[row, column], declared.highest_rate[row, column] = worst[position], highest[position]
        elif worst[position] > 0:
            declared.unknown[row] = min(resource, declared.unknown.get(row, resource))


def _lay_end_to_end(tables: Mapping[int, BurstTable], count: int, resources: tuple[str, ...]) -> BurstRows:
    """Return the bursts of all schedules in one set of arrays."""
    rows = list(tables)
    length = np.array([len(tables[row]) for row in rows], dtype=np.int64)
    counts, start = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    counts[rows], start[rows] = length, np.cumsum(length) - length
    arrival, deadline, gap = (np.empty(int(length.sum())) for _ in range(3))
    demand = np.zeros((len(arrival), len(resources)), order="F")
    for row, table in tables.items():
        whole = slice(int(start[row]), int(start[row] + counts[row]))
        arrival[whole], deadline[whole], gap[whole] = table.arrival, table.deadline, table.gap
        for position, resource in enumerate(table.resources):
            if resource in resources:
                demand[whole, resources.index(resource)] = table.demand[:, position]
    return BurstRows(start=start, count=counts, arrival=arrival, demand=demand, rate=demand / deadline[:, None], deadline=deadline, gap=gap)


def _limits(limits: Sequence[tuple[int, QueueSpec]], count: int, column_of: Mapping[str, int]) -> FloatArray:
    result = np.full((count, len(column_of)), math.inf, order="F")
    for row, spec in limits:
        for resource, amount in spec.limits.items():
            if not amount >= 0:
                raise InvalidSpecError(f"queue {spec.name}: expected a limit >= 0 for {resource}, found {amount}")
            if resource in column_of:
                result[row, column_of[resource]] = amount
    return result
