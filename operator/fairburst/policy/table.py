"""The memory of all queues as columns, and as the values that are saved.

Decides nothing. Row i of every array is queue i of `declared`. Throughput queues have zero bursts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from typing_extensions import override

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.declared import CodeArray, Declared
from fairburst.policy.pod_demand import PodDemand
from fairburst.policy.queue_memory import AdmissionDecision, GuaranteeClass, Promised, QueueMemory, Window, WindowState
from fairburst.policy.spec import QueueSpec

# Classes as small integers in the columns; the order is the order of strength.
NOT_ADMITTED, ELASTIC, SOFT, HARD = 0, 1, 2, 3
CLASS_OF_CODE = (None, GuaranteeClass.ELASTIC, GuaranteeClass.SOFT, GuaranteeClass.HARD)
CLASS_NAMES = ("not admitted", "Elastic", "Soft", "Hard")
CODE_OF_CLASS = {guarantee: code for code, guarantee in enumerate(CLASS_OF_CODE)}

NO_WINDOW, CLOSED, ARMED, OPEN, OVERDUE = 0, 1, 2, 3, 4
STATE_OF_CODE = (None, WindowState.CLOSED, WindowState.ARMED, WindowState.OPEN, WindowState.OVERDUE)
CODE_OF_STATE = {state: code for code, state in enumerate(STATE_OF_CODE)}


@dataclass(frozen=True, slots=True)
class Quiet:
    """A last round without demand and use, after which nothing changes before `until` unless the inputs do. level: that of the round."""

    until: float
    live_capacity: FloatArray
    unit: FloatArray | None
    level: FloatArray
    fair: FloatArray
    budget: FloatArray


@dataclass(frozen=True)
class Columns:
    """Memory as columns, one row a queue of `declared` (the specs in force). Field by field as in QueueMemory; None is NaN.

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
    behind: FloatArray
    period_started: FloatArray
    last_opened: FloatArray
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
        """Return a copy whose arrays may be written. It is not quiet, because `quiet` describes the round that made these arrays."""
        blocks = {dtype: block.copy() for dtype, block in self.blocks.items()}
        # rates are replaced as a whole, never written
        return replace(self, blocks=blocks, quiet=None, received_value=self.received_value.copy(order="K"), **_views(blocks))

    def promised(self, row: int) -> Promised:
        """Return the promise of the queue of one row."""
        return Promised(self.declared.queues[row], self.classes[row], int(self.index[row]))

    def entry(self, row: int) -> QueueMemory:
        """Return the memory of the queue of one row, without its admission decision."""
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
    "deadline": (np.float64, math.nan), "last_opened": (np.float64, math.nan), "residual_level": (np.float64, math.inf),
    "waiting_since": (np.float64, math.nan), "unit_held_since": (np.float64, math.nan),
}  # fmt: skip


_TYPE_OF = {name: _DEFAULTS.get(name, (np.float64, 0.0))[0] for name in ARRAY_FIELDS}
_FIELDS_OF_TYPE = {dtype: [name for name in ARRAY_FIELDS if _TYPE_OF[name] is dtype] for dtype in (np.float64, np.int64, np.int8, np.bool_)}


def _views(blocks: Mapping[type, Any]) -> dict[str, Any]:
    """Return every column as a row of the block of its type, so that one copy of a block copies them all."""
    return {name: blocks[dtype][position] for dtype, names in _FIELDS_OF_TYPE.items() for position, name in enumerate(names)}


def blank_columns(declared: Declared, seen: tuple[QueueSpec, ...]) -> Columns:
    """Return columns without any memory."""
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
    """Return one row as the saved value; `put_queue_memory` is the inverse."""
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
        last_opened=_optional(columns.last_opened[row]),
        waiting_since=_optional(columns.waiting_since[row]),
        unit_held_since=_optional(columns.unit_held_since[row]),
        balance_value=float(columns.balance_value[row]),
        balance_rate=float(columns.balance_rate[row]),
        balance_as_of=float(columns.balance_as_of[row]),
        recent_value=float(columns.recent_value[row]),
        refused=columns.refused.get(row),
    )


def _received(columns: Columns, row: int) -> dict[str, tuple[float, float]]:
    """Return the amounts that the row has received, without resources of which it has received and receives nothing."""
    pairs = zip(columns.declared.resources, columns.received_value[row].tolist(), columns.received_rate[row].tolist(), strict=True)
    return {name: (value, rate) for name, value, rate in pairs if value or rate}


def window_of(columns: Columns, row: int) -> Window | None:
    """Return the window of one row, or None if it has none (elastic and throughput queues)."""
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
        behind=float(columns.behind[row]),
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
    for name in ("last_opened", "waiting_since", "unit_held_since"):
        value = getattr(memory, name)
        getattr(columns, name)[row] = math.nan if value is None else value
    window = memory.window
    if window is None:
        return
    columns.state[row] = CODE_OF_STATE[window.state]
    for name in ("index", "arms_at", "opens_by", "demanded", "judged", "behind"):
        getattr(columns, name)[row] = getattr(window, name)
    columns.opened[row] = math.nan if window.opened is None else window.opened
    columns.deadline[row] = math.nan if window.deadline is None else window.deadline


class RememberedQueues(Mapping[str, QueueMemory]):
    """The columns as a mapping by queue name, whose values are built when they are read."""

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
