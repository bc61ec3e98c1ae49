"""Queues as columns: what their specs declare (`Declared`, compiled once per tuple of specs) and what is remembered (`Columns`).

Decides nothing. Row i of every array is queue i of the tuple. Throughput queues have zero bursts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.drf import largest_share
from fairburst.policy.errors import InvalidSpecError
from fairburst.policy.model import (
    AdmissionDecision,
    Burst,
    GuaranteeClass,
    Memory,
    Promised,
    QueueKind,
    QueueMemory,
    QueueSpec,
    Schedule,
    Sporadic,
    Window,
    WindowState,
)
from fairburst.policy.phases import Phases
from fairburst.policy.pod_demand import PodDemand
from fairburst.policy.schedule import BurstTable
from fairburst.policy.tolerance import LARGEST, LONGEST_SECONDS, SMALLEST, TIME_STEP_SECONDS

# One byte each: a round compares them a few dozen times.
CodeArray: TypeAlias = NDArray[np.int8]

# Classes as small integers in the columns; the order is the order of strength.
NOT_ADMITTED, ELASTIC, SOFT, HARD = 0, 1, 2, 3
CLASS_OF_CODE = (None, GuaranteeClass.ELASTIC, GuaranteeClass.SOFT, GuaranteeClass.HARD)
CLASS_NAMES = ("not admitted", "Elastic", "Soft", "Hard")
CODE_OF_CLASS = {guarantee: code for code, guarantee in enumerate(CLASS_OF_CODE)}

NO_WINDOW, CLOSED, ARMED, OPEN, OVERDUE = 0, 1, 2, 3, 4
STATE_OF_CODE = (None, WindowState.CLOSED, WindowState.ARMED, WindowState.OPEN, WindowState.OVERDUE)
CODE_OF_STATE = {state: code for code, state in enumerate(STATE_OF_CODE)}

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


@dataclass(frozen=True)
class Declared:
    """What N specs declare, over K resources.

    kind: arrival code. demand: (N, K) d. rate: (N, K) d / deadline. gap: (N,) interarrival, infinite for the last scheduled burst.
    first_arrival: (N,) NaN where the phase isn't known. worst: (N, K) max_n d(n) / min(gap(n), max_cycle). highest_rate: (N, K), over n.
    unknown: row -> name of a resource it needs that isn't counted. limit: (N, K), infinite where uncapped, None if no queue has limits.
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
        """Every scheduled burst, for windows to look up; admission needs only the heaviest."""
        return _lay_end_to_end(self.tables, len(self.queues), self.resources)

    @cached_property
    def phases(self) -> Phases:
        """Where windows that repeat at known times lie."""
        return Phases.of(self.kind == PERIODIC, self.first_arrival, self.gap, self.jitter, self.deadline)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.queues)

    @cached_property
    def period(self) -> FloatArray:
        """(N,) length of the accounting period: the interarrival time, zero where there is none."""
        return np.where(np.isfinite(self.gap), self.gap, 0.0)

    @cached_property
    def _bursts(self) -> dict[bytes, FloatArray]:
        return {}

    def burst(self, inverse: FloatArray) -> FloatArray:
        """(N,) max_k d_k / C_k of bursts that are all alike, not to be written; kept for the last capacity, which seldom changes."""
        key = inverse.tobytes()
        if key not in self._bursts:
            self._bursts.clear()
            self._bursts[key] = largest_share(self.demand, inverse)
        return self._bursts[key]

    def burst_shares(self, inverse: FloatArray) -> FloatArray:
        """(N, K) d_k / C_k of bursts that are all alike, kept as `burst` is."""
        key = b"shares" + inverse.tobytes()
        self.burst(inverse)  # which clears what is kept for another capacity
        if key not in self._bursts:
            self._bursts[key] = self.demand * inverse
        return self._bursts[key]

    @cached_property
    def kept(self) -> dict[str, Any]:
        """What others work out from these declarations and keep as long as these are in force."""
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
    """Read every spec once into arrays. Raises InvalidSpecError where a spec breaks the contract of QueueSpec."""
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
    """Raise for the first queue whose numbers can't be worked with; everything is checked here, so that no NaN gets further."""
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
    """Fill in what the heaviest of the scheduled bursts ask for."""
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
    """The bursts of all schedules in one set of arrays."""
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


@dataclass(frozen=True, slots=True)
class Quiet:
    """That the last round had no demand and no use, so that nothing changes before `until` unless the inputs do; its `level`."""

    until: float
    live_capacity: FloatArray
    unit: FloatArray | None
    level: FloatArray
    fair: FloatArray
    budget: FloatArray


@dataclass(frozen=True)
class Columns:
    """What is remembered, one row a queue of `declared` (the specs in force). Field by field as in QueueMemory; None is NaN.

    `seen` are the specs of the snapshot this was made for: the same tuple again needs no admission. `refused`: changed specs that were
    refused, by row. `classes` spells out `guarantee`. The arrays are rows of `blocks`. `quiet`: see there. `pod_demand`: resources that
    bursts leave out and pods need; `declared` counts them, `seen` does not. received_value,
    received_rate: (N, K), `received` in QueueMemory.
    """

    declared: Declared
    seen: tuple[QueueSpec, ...]
    admitted_for: tuple[object, ...]
    guarantee: CodeArray
    admission_order: IntArray
    state: CodeArray
    index: IntArray
    arms_at: FloatArray
    opens_by: FloatArray
    opened: FloatArray
    deadline: FloatArray
    demanded: BoolArray
    judged: BoolArray
    period_started: FloatArray
    ledger_value: FloatArray
    ledger_rate: FloatArray
    ledger_as_of: FloatArray
    debt: FloatArray
    delivered_value: FloatArray
    delivered_rate: FloatArray
    fair_value: FloatArray
    fair_rate: FloatArray
    fair_as_of: FloatArray
    residual_level: FloatArray
    waiting_since: FloatArray
    unit_held_since: FloatArray
    balance_value: FloatArray
    balance_rate: FloatArray
    balance_as_of: FloatArray
    recent_value: FloatArray
    bursts: IntArray
    met: IntArray
    missed: IntArray
    refused: Mapping[int, QueueSpec]
    classes: tuple[GuaranteeClass | None, ...]
    received_value: FloatArray
    received_rate: FloatArray
    blocks: Mapping[type, Any]
    quiet: Quiet | None = None
    pod_demand: PodDemand | None = None

    def copy(self) -> Columns:
        """A copy whose arrays may be written. It is not quiet: `quiet` describes the round that these arrays came out of."""
        blocks = {dtype: block.copy() for dtype, block in self.blocks.items()}
        # rates are replaced as a whole, never written
        return replace(self, blocks=blocks, quiet=None, received_value=self.received_value.copy(order="K"), **_views(blocks))

    def promised(self, row: int) -> Promised:
        """What the queue of one row is promised."""
        return Promised(self.declared.queues[row], self.classes[row], int(self.index[row]))

    def entry(self, row: int) -> QueueMemory:
        """What is remembered of the queue of one row, without its admission decision."""
        return queue_memory(self, row, None)

    def delivered(self, now: float) -> FloatArray:
        """(N,) dominant-share-seconds used since the window opened."""
        return self.delivered_value + self.delivered_rate * np.maximum(0.0, now - self.ledger_as_of)

    def ledger(self, now: float) -> FloatArray:
        return self.ledger_value + self.ledger_rate * np.maximum(0.0, now - self.ledger_as_of)

    def fair(self, now: FloatArray | float) -> FloatArray:
        """(N,) fair share of the current period earned by `now` (or by the end of the period, given that)."""
        return self.fair_value + self.fair_rate * np.maximum(0.0, now - self.fair_as_of)


RECEIVED = ("received_value", "received_rate")
_OTHER_FIELDS = {"declared", "seen", "admitted_for", "refused", "classes", "blocks", "quiet", "pod_demand", *RECEIVED}
ARRAY_FIELDS = tuple(field.name for field in fields(Columns) if field.name not in _OTHER_FIELDS)
_DEFAULTS: dict[str, tuple[type, float | int | bool]] = {
    "guarantee": (np.int8, NOT_ADMITTED), "admission_order": (np.int64, -1), "state": (np.int8, NO_WINDOW), "index": (np.int64, 0),
    "bursts": (np.int64, 0), "met": (np.int64, 0), "missed": (np.int64, 0), "demanded": (np.bool_, False), "judged": (np.bool_, False),
    "arms_at": (np.float64, math.inf), "opens_by": (np.float64, math.inf), "opened": (np.float64, math.nan),
    "deadline": (np.float64, math.nan), "residual_level": (np.float64, math.inf), "waiting_since": (np.float64, math.nan),
    "unit_held_since": (np.float64, math.nan),
}  # fmt: skip


_TYPE_OF = {name: _DEFAULTS.get(name, (np.float64, 0.0))[0] for name in ARRAY_FIELDS}
_FIELDS_OF_TYPE = {dtype: [name for name in ARRAY_FIELDS if _TYPE_OF[name] is dtype] for dtype in (np.float64, np.int64, np.int8, np.bool_)}


def _views(blocks: Mapping[type, Any]) -> dict[str, Any]:
    """Every column as a row of the block of its type: one copy of a block copies them all."""
    return {name: blocks[dtype][position] for dtype, names in _FIELDS_OF_TYPE.items() for position, name in enumerate(names)}


def blank_columns(declared: Declared, seen: tuple[QueueSpec, ...]) -> Columns:
    """Columns that remember nothing."""
    count = len(declared.queues)
    blocks: dict[type, Any] = {dtype: np.empty((len(names), count), dtype) for dtype, names in _FIELDS_OF_TYPE.items()}
    arrays = _views(blocks)
    for name, array in arrays.items():
        array[:] = _DEFAULTS.get(name, (np.float64, 0.0))[1]
    no_classes: tuple[GuaranteeClass | None, ...] = (None,) * count
    received: dict[str, Any] = {name: np.zeros(declared.demand.shape, order="F") for name in RECEIVED}
    return Columns(declared=declared, seen=seen, admitted_for=(), refused={}, classes=no_classes, blocks=blocks, **received, **arrays)


def _optional(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def queue_memory(columns: Columns, row: int, decision: AdmissionDecision | None) -> QueueMemory:
    """One row as the value that is saved; `put_queue_memory` is the inverse."""
    return QueueMemory(
        promise=columns.declared.queues[row],
        guarantee_class=CLASS_OF_CODE[columns.guarantee[row]],
        admission_order=int(columns.admission_order[row]),
        decision=decision,
        window=window_of(columns, row),
        period_started=float(columns.period_started[row]),
        ledger_value=float(columns.ledger_value[row]),
        ledger_rate=float(columns.ledger_rate[row]),
        ledger_as_of=float(columns.ledger_as_of[row]),
        debt=float(columns.debt[row]),
        bursts=int(columns.bursts[row]),
        met=int(columns.met[row]),
        missed=int(columns.missed[row]),
        delivered_value=float(columns.delivered_value[row]),
        delivered_rate=float(columns.delivered_rate[row]),
        received=_received(columns, row),
        fair_value=float(columns.fair_value[row]),
        fair_rate=float(columns.fair_rate[row]),
        fair_as_of=float(columns.fair_as_of[row]),
        residual_level=float(columns.residual_level[row]),
        waiting_since=_optional(columns.waiting_since[row]),
        unit_held_since=_optional(columns.unit_held_since[row]),
        balance_value=float(columns.balance_value[row]),
        balance_rate=float(columns.balance_rate[row]),
        balance_as_of=float(columns.balance_as_of[row]),
        recent_value=float(columns.recent_value[row]),
        refused=columns.refused.get(row),
    )


def _received(columns: Columns, row: int) -> dict[str, tuple[float, float]]:
    """What the row has received of each resource, without those of which it neither has nor gets any."""
    pairs = zip(columns.declared.resources, columns.received_value[row].tolist(), columns.received_rate[row].tolist(), strict=True)
    return {name: (value, rate) for name, value, rate in pairs if value or rate}


def window_of(columns: Columns, row: int) -> Window | None:
    """The window of one row, None where it has none (elastic and throughput queues)."""
    state = STATE_OF_CODE[columns.state[row]]
    if state is None:
        return None
    return Window(
        state=state,
        index=int(columns.index[row]),
        arms_at=float(columns.arms_at[row]),
        opens_by=float(columns.opens_by[row]),
        opened=_optional(columns.opened[row]),
        deadline=_optional(columns.deadline[row]),
        demanded=bool(columns.demanded[row]),
        judged=bool(columns.judged[row]),
    )


def put_queue_memory(columns: Columns, row: int, memory: QueueMemory) -> None:
    """Write one remembered value into its row (everything but promise, decision and refused, which are not arrays)."""
    columns.guarantee[row] = CODE_OF_CLASS[memory.guarantee_class]
    for name in (
        "admission_order", "period_started", "ledger_value", "ledger_rate", "ledger_as_of", "debt", "bursts", "met", "missed",
        "delivered_value", "delivered_rate", "fair_value", "fair_rate", "fair_as_of", "residual_level",
        "balance_value", "balance_rate", "balance_as_of", "recent_value",
    ):  # fmt: skip
        getattr(columns, name)[row] = getattr(memory, name)
    for column, resource in enumerate(columns.declared.resources):
        columns.received_value[row, column], columns.received_rate[row, column] = memory.received.get(resource, (0.0, 0.0))
    for name in ("waiting_since", "unit_held_since"):
        value = getattr(memory, name)
        getattr(columns, name)[row] = math.nan if value is None else value
    window = memory.window
    if window is None:
        return
    columns.state[row] = CODE_OF_STATE[window.state]
    for name in ("index", "arms_at", "opens_by", "demanded", "judged"):
        getattr(columns, name)[row] = getattr(window, name)
    columns.opened[row] = math.nan if window.opened is None else window.opened
    columns.deadline[row] = math.nan if window.deadline is None else window.deadline


class RememberedQueues(Mapping[str, QueueMemory]):
    """The columns read as a mapping by queue name; each value is built when it is asked for."""

    def __init__(self, columns: Columns, decisions: Sequence[AdmissionDecision]) -> None:
        self._columns = columns
        self._decisions = decisions

    @override
    def __getitem__(self, name: str) -> QueueMemory:
        row = self._columns.declared.row_of[name]
        return queue_memory(self._columns, row, self._decisions[row])

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._columns.declared.names)

    @override
    def __len__(self) -> int:
        return len(self._columns.declared.queues)


def restore(memory: Memory, names: Mapping[str, int], columns: Columns) -> None:
    """Write what `memory` knows about the queues in `names` (name -> row) into `columns`."""
    if memory.columns is None:
        for name, row in names.items():
            if name in memory.queues:
                put_queue_memory(columns, row, memory.queues[name])
        return
    old = memory.columns
    pairs = [(row, old.declared.row_of[name]) for name, row in names.items() if name in old.declared.row_of]
    if not pairs:
        return
    new_rows, old_rows = np.array(pairs).T
    for field_name in ARRAY_FIELDS:
        getattr(columns, field_name)[new_rows] = getattr(old, field_name)[old_rows]
    for column, resource in enumerate(columns.declared.resources):
        if resource in old.declared.resources:
            was = old.declared.resources.index(resource)
            for field_name in RECEIVED:
                getattr(columns, field_name)[new_rows, column] = getattr(old, field_name)[old_rows, was]
