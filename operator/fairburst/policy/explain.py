"""Decisions as values and sentences: views of one round, built when they are read.

Decides nothing. A round over 20,000 queues builds no sentence that is not read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar, overload

import numpy as np
from typing_extensions import override

from fairburst.policy.admission import shares
from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.conditions import AdmissionState, loads
from fairburst.policy.declared import SCHEDULE, Declared, compile_queues
from fairburst.policy.hard_queue import HardQueue
from fairburst.policy.model import (
    AdmissionDecision,
    ClusterSnapshot,
    ConditionResult,
    GuaranteeClass,
    PolicyConfig,
    QueueDecision,
    QueueSpec,
    Window,
    WindowState,
)
from fairburst.policy.pod_demand import declared_amounts
from fairburst.policy.profile import Fit
from fairburst.policy.table import CLASS_OF_CODE, HARD, NOT_ADMITTED, SOFT, Columns, window_of
from fairburst.policy.tolerance import TOLERANCE, at_most

Item = TypeVar("Item")

_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def amount(value: float, resource: str) -> str:
    """Return a quantity as text for people: "12.5 cores", "800 GiB", "4 nvidia.com/gpu"."""
    if resource == "cpu":
        text = f"{value:.4g}" if value < 10_000 else f"{value:,.0f}"
        return f"{text} core" if text == "1" else f"{text} cores"
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        power = 0
        while power < len(_BINARY_UNITS) - 1 and abs(value) >= 1024:
            value, power = value / 1024, power + 1
        kind = "" if resource == "memory" else f" of {resource}"
        return f"{value:.4g} {_BINARY_UNITS[power]}{kind}"
    return f"{value:.4g} {resource}"


@dataclass(frozen=True)
class Round:
    """Everything that one round decided, as arrays: the source of the views."""

    snapshot: ClusterSnapshot
    config: PolicyConfig
    columns: Columns
    allocation: FloatArray
    guaranteed: FloatArray
    level: FloatArray
    charge: FloatArray
    fair: FloatArray
    budget: FloatArray
    unspent: BoolArray | None
    now: float

    @cached_property
    def state(self) -> AdmissionState:
        """The admitted queues as admission sees them, read-only. Built once for the same promises, classes and capacity."""
        columns = self.columns
        key = columns.guarantee.tobytes(), self.snapshot.committed_capacity.tobytes(), self.config
        kept = columns.declared.kept
        if kept.get("state key") != key:
            kept["state"], kept["state key"] = self._state(), key
        state: AdmissionState = kept["state"]
        return state

    def _state(self) -> AdmissionState:
        columns = self.columns
        state = AdmissionState(self.snapshot.committed_capacity, self.config)
        rows = np.flatnonzero(columns.guarantee != NOT_ADMITTED)
        state.total_weight = math.fsum(columns.declared.weight[rows])
        for row in np.flatnonzero(columns.guarantee >= SOFT):
            member = HardQueue(columns.declared, int(row))
            state.guaranteed_load[member.name] = float(self.loads[row])
            if columns.guarantee[row] == HARD:
                state.harden(member)
        state.largest = max(((load, name) for name, load in state.guaranteed_load.items()), default=(0.0, ""))
        return state

    @cached_property
    def runner_up(self) -> tuple[float, str]:
        """The second largest load, and its queue."""
        ranked = sorted(((load, name) for name, load in self.state.guaranteed_load.items()), reverse=True)
        return ranked[1] if len(ranked) > 1 else (0.0, "")

    @cached_property
    def loads(self) -> FloatArray:
        return loads(self.columns.declared, self.snapshot.committed_capacity)

    @cached_property
    def shares(self) -> FloatArray:
        return shares(self.columns)


class _Views(Sequence[Item], Generic[Item]):
    """A sequence whose items are built when they are read."""

    def __init__(self, view: Round, build: Callable[[Round, int], Item]) -> None:
        self._view, self._build = view, build

    @override
    def __len__(self) -> int:
        return len(self._view.snapshot.queues)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    @override
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        if isinstance(index, slice):
            return [self._build(self._view, row) for row in range(*index.indices(len(self)))]
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(index)
        return self._build(self._view, row)


class QueueDecisions(_Views[QueueDecision]):
    """One QueueDecision a queue, in the snapshot's order."""

    def __init__(self, view: Round) -> None:
        super().__init__(view, queue_decision)


class Windows(_Views[Window | None]):
    """The Window of each queue."""

    def __init__(self, view: Round) -> None:
        super().__init__(view, lambda view, row: window_of(view.columns, row))


class AdmissionDecisions(_Views[AdmissionDecision]):
    """One AdmissionDecision a queue, with the numbers as they are after the round."""

    def __init__(self, view: Round) -> None:
        super().__init__(view, admission_decision)


def admission_decision(view: Round, row: int) -> AdmissionDecision:
    """Return the decision on one queue, with both sides of each condition that it reached."""
    columns = view.columns
    spec = view.snapshot.queues[row]
    granted = CLASS_OF_CODE[columns.guarantee[row]]
    if spec.suspended:
        message = "The queue is suspended: it has no weight and no allocation until it is resumed, and is then decided again."
        return AdmissionDecision(spec.name, None, "Suspended", message, None, None, None)
    refused = columns.refused.get(row)
    declared, at, load = columns.declared, row, float(view.loads[row])
    if refused is not None:
        declared = compile_queues((refused,), view.snapshot.resources, view.config.max_cycle_seconds)
        at, load = 0, float(loads(declared, view.snapshot.committed_capacity)[0])
    unknown = _unknown_resource(view, declared, at, granted)
    if unknown is not None:
        return AdmissionDecision(spec.name, granted, "UnknownResource", unknown, None, None, None)
    safety = _safety(view, row, declared, at)
    fairness = _fairness(view, row, declared, at, load) if declared.latency[at] and (safety.holds or granted is not None) else None
    resource: Fit | None = None
    if fairness is not None and fairness.holds:
        hard = view.state.hard
        if refused is not None:
            hard = hard.copy()
            hard.remove(spec.name)
        resource = hard.fit(HardQueue(declared, at))
    shown = None if resource is None else _resource_result(view, resource)
    reason, message = _admission_words(spec.name, float(view.shares[row]), granted, safety, fairness, shown)
    message += _added_words(view, row)
    if refused is not None:
        reason, message = "PromiseChangeRejected", f"The changed promise was refused, the earlier one stays in force. {message}"
    return AdmissionDecision(spec.name, granted, reason, message, safety, fairness, shown)


def _added_words(view: Round, row: int) -> str:
    """Return a sentence if the burst counts with resources that its owner did not declare, else an empty text."""
    if view.columns.pod_demand is None or not view.columns.declared.latency[row]:
        return ""
    resources = view.snapshot.resources
    declared = declared_amounts(view.snapshot.queues[row], resources)
    counted = declared_amounts(view.columns.declared.queues[row], resources)
    added = [amount(float(counted[at]), name) for at, name in enumerate(resources) if counted[at] > 0 >= declared[at]]
    if not added:
        return ""
    return f" The burst counts with {', '.join(added)} that it does not declare, because its pods request as much."


def _unknown_resource(view: Round, declared: Declared, at: int, granted: GuaranteeClass | None) -> str | None:
    """Return a sentence if the queue names a resource that the pool does not have."""
    counted = ", ".join(view.snapshot.resources)
    if at in declared.unknown:
        found = f"The burst needs {declared.unknown[at]}, which this pool doesn't count; it counts {counted}."
        return f"{found} Leave it out, or add nodes that offer it."
    missing = (view.snapshot.committed_capacity <= 0) & (declared.worst[at] > 0)
    if granted is None and missing.any():
        name = view.snapshot.resources[int(np.argmax(missing))]
        return f"The burst needs {name}, of which this pool has none; ask for less, or add nodes that have it."
    return None


def _worst_burst(declared: Declared, at: int, column: int) -> tuple[float, float]:
    """Return the demand and the counted interarrival time of the burst that is heaviest in one resource."""
    if declared.kind[at] != SCHEDULE:
        return float(declared.demand[at, column]), float(min(declared.gap[at], declared.max_cycle))
    flat = declared.schedules
    whole = slice(int(flat.start[at]), int(flat.start[at] + flat.count[at]))
    gap = np.minimum(flat.gap[whole], declared.max_cycle)
    heaviest = int(np.argmax(flat.demand[whole][:, column] / gap))
    return float(flat.demand[whole][heaviest, column]), float(gap[heaviest])


def _sides(view: Round, declared: Declared, at: int, divisor: float) -> ConditionResult:
    """d <= C x gap x w / divisor for one queue, at its tightest resource."""
    capacity = view.snapshot.committed_capacity
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.where(declared.worst[at] > 0, declared.worst[at] / capacity, 0.0)
    column = int(np.argmax(share))
    demand, gap = _worst_burst(declared, at, column)
    right = float(capacity[column]) * gap * float(declared.weight[at]) / divisor
    return ConditionResult(at_most(demand, right), demand, right, view.snapshot.resources[column], declared.queues[at].name)


def _divisor(view: Round, row: int, declared: Declared, at: int) -> float:
    """max(sum of the other admitted weights + the queue's own, N_min)."""
    columns = view.columns
    own = float(columns.declared.weight[row]) if columns.guarantee[row] != NOT_ADMITTED else 0.0
    return max(view.state.total_weight - own + float(declared.weight[at]), view.config.expected_queues)


def _safety(view: Round, row: int, declared: Declared, at: int) -> ConditionResult:
    """Condition (1), shown for the admitted queue whose promise is tightest; trivially true without one."""
    name = view.snapshot.queues[row].name
    tightest = view.runner_up if view.state.largest[1] == name else view.state.largest
    if not tightest[1]:
        return ConditionResult(True, 0.0, 0.0, view.snapshot.resources[0], name)
    other = view.columns.declared.row_of[tightest[1]]
    return _sides(view, view.columns.declared, other, _divisor(view, row, declared, at))


def _fairness(view: Round, row: int, declared: Declared, at: int, load: float) -> ConditionResult:
    """Condition (2)."""
    del load
    return _sides(view, declared, at, _divisor(view, row, declared, at))


def _resource_result(view: Round, fit: Fit) -> ConditionResult:
    return ConditionResult(fit.holds, fit.left, fit.right, view.snapshot.resources[fit.resource], fit.queue)


def _seconds_of(value: float, resource: str) -> str:
    return f"{amount(value, resource)} x s"


def _admission_words(
    name: str, share: float, granted: GuaranteeClass | None, safety: ConditionResult, fairness: ConditionResult | None,
    resource: ConditionResult | None,
) -> tuple[str, str]:  # fmt: skip
    """Return the reason and a sentence with the queue's own numbers: tenants read it, so it has no names or sizes of other queues."""
    if granted is None or not safety.holds:
        return "BreaksEarlierPromise", (
            "Admitting it would break a promise made earlier: that queue's fair share would be smaller than its bursts need. Lower this "
            "queue's weight (the least is 1), add nodes, or wait until a queue leaves."
        )
    if fairness is None:
        return "FairShare", f"Admitted: its fair share is {100 * share:.3g} % of the pool, more where others leave room."
    if resource is None:
        return "DemandAboveFairShare", (
            f"Each burst needs {_seconds_of(fairness.left, fairness.binding_resource)}, the fair share of the time between two bursts is "
            f"{_seconds_of(fairness.right, fairness.binding_resource)}: fair share only. Ask for less, less often, or for more weight."
        )
    if granted is GuaranteeClass.HARD:
        return "Guaranteed", f"Hard: its rate fits with all other hard promises, with {_apart(resource)} left."
    return "NoRoomForRate", _no_room_words(name, granted, resource)


def _apart(resource: ConditionResult) -> str:
    return amount(abs(resource.right - resource.left), resource.binding_resource)


def _no_room_words(name: str, granted: GuaranteeClass, resource: ConditionResult) -> str:
    """Return why condition (3) does not hold, and what to do."""
    if resource.binding_queue == name:
        left, right = amount(resource.left, resource.binding_resource), amount(resource.right, resource.binding_resource)
        return f"{granted.value}: its own rate of {left} does not fit into {right}. Allow a later deadline, or ask for less."
    return (
        f"{granted.value}: beside the promises to hard queues {_apart(resource)} are missing for its rate. Allow a later deadline, or "
        "bursts at other times."
    )


def queue_decision(view: Round, row: int) -> QueueDecision:
    """Return one queue's part of the round."""
    columns, now = view.columns, view.now
    spec = view.snapshot.queues[row]
    ledger = float(columns.ledger_value[row] + columns.ledger_rate[row] * max(0.0, now - float(columns.ledger_as_of[row])))
    allocation, guaranteed = view.allocation[row], view.guaranteed[row]
    reason, message = _round_words(view, row, spec)
    return QueueDecision(
        queue=spec.name,
        kind=spec.kind,
        guarantee_class=CLASS_OF_CODE[columns.guarantee[row]],
        admission=admission_decision(view, row),
        allocation=allocation,
        guaranteed=guaranteed,
        spare=allocation - guaranteed,
        level=view.level[row],
        window=window_of(columns, row),
        share=float(view.shares[row]),
        ledger=ledger,
        charge_rate=float(view.charge[row]),
        debt=float(columns.debt[row]),
        budget=float(view.budget[row]) if columns.state[row] else 0.0,
        consumed=max(0.0, ledger - float(columns.debt[row])),
        fair_share_of_period=float(view.fair[row]),
        reason=reason,
        message=message,
    )


def _round_words(view: Round, row: int, spec: QueueSpec) -> tuple[str, str]:
    """Return the reason and a sentence for the queue's allocation."""
    columns = view.columns
    if columns.guarantee[row] == NOT_ADMITTED:
        return _words_without_admission(view, row, spec)
    window = window_of(columns, row)
    if not view.snapshot.demand[row].any():
        armed = window is not None and window.state is WindowState.ARMED
        return ("Armed", "Nothing wanted now; a burst may begin at any time.") if armed else ("Idle", "Nothing wanted now.")
    words, unmet = _given(view, row)
    if window is None or window.state not in {WindowState.OPEN, WindowState.OVERDUE}:
        return ("BelowDemand" if unmet else "DemandMet"), f"{words}."
    if window.state is WindowState.OVERDUE or window.deadline is None:
        return "Overdue", f"Past its deadline: {words}."
    if view.unspent is not None and not view.unspent[row]:
        return "BudgetSpent", f"Its declared burst is delivered; {words}."
    return "InWindow", f"In its window, {max(0.0, window.deadline - view.now):.0f} s to the deadline: {words}."


def _words_without_admission(view: Round, row: int, spec: QueueSpec) -> tuple[str, str]:
    if spec.suspended:
        return "Suspended", "No new work starts while the queue is suspended."
    given = view.allocation[row]
    has = f": it has what no admitted queue wants, {_amounts(view, given)}" if given.any() else ", so it has no allocation"
    return "NotAdmitted", f"The queue is not admitted{has}; its admission says why."


def _given(view: Round, row: int) -> tuple[str, bool]:
    """Return a description of the queue's allocation, and whether it demands more."""
    demand, given = view.snapshot.demand[row], view.allocation[row]
    spare = given - view.guaranteed[row]
    part = f", of it {_amounts(view, spare)} spare" if (spare > TOLERANCE * given).any() else ""
    unmet = bool((given < demand * (1 - TOLERANCE)).any())
    return f"{_amounts(view, given)}{part}" + (f" of {_amounts(view, demand)} wanted" if unmet else ", all it wants"), unmet


def _amounts(view: Round, row: FloatArray) -> str:
    shown = [amount(float(value), name) for value, name in zip(row, view.snapshot.resources, strict=True) if value > 0]
    return ", ".join(shown) or "nothing"
