"""Demand of a burst for resources that its owner did not declare: the requests of its pods.

A burst that declares only cpu can't run without the memory of its pods, so a guarantee of cpu alone would be worthless. The burst is taken
as whole pods like the queue's largest. Their demand for the undeclared resources counts as if it were declared, in admission and in the
rate. While no pod is known, the last counted demand stays. Decides nothing about classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.drf import row_any
from fairburst.policy.schedule import BurstTable
from fairburst.policy.spec import QueueKind, QueueSpec, Schedule
from fairburst.policy.tolerance import TOLERANCE

MOST_AMOUNT = 2.0**61  # a quarter of the largest Kubernetes quantity, as in bounds.py
MOST_TOO_MUCH = 2.0  # the counted demand falls only if it exceeds the pods' need by this factor, because the largest pod comes and goes


@dataclass(frozen=True, slots=True)
class PodDemand:
    """M queues whose bursts lack a counted resource. declared, counted: (M, K) the most of any burst, as declared and as counted."""

    rows: IntArray
    declared: FloatArray
    undeclared: BoolArray
    counted: FloatArray

    def differs(self, unit: FloatArray) -> bool:
        """Return whether pods of the size `unit` (N, K) need other amounts than the counted ones."""
        some = unit[self.rows]
        if not some.any():
            return False
        need = _needed(self.declared, some) * self.undeclared
        known = row_any(need > 0)
        return bool(_changes(need, self.counted)[known].any())


@dataclass(frozen=True, slots=True)
class Counted:
    """Specs with their pods' needs, and the added amounts."""

    specs: tuple[QueueSpec, ...]
    added: PodDemand | None


def with_pod_demand(
    specs: tuple[QueueSpec, ...],
    former: Callable[[str], Sequence[QueueSpec]],
    resources: Sequence[str],
    capacity: FloatArray,
    unit: FloatArray,
) -> Counted:
    """Return the specs as admission counts them. Demand for a resource of which the pool has none is not added.

    former: returns, for the name of a queue, the refused change of its promise, and its promise.
    """
    latency = [row for row, spec in enumerate(specs) if spec.kind is QueueKind.LATENCY]
    declared = np.array([_declared(specs[row], resources) for row in latency], dtype=np.float64).reshape(-1, len(resources))
    undeclared = (declared <= 0) & (capacity > 0)
    some = np.flatnonzero(row_any(declared != 0) & row_any(undeclared))
    if some.size == 0:
        return Counted(specs, None)
    rows, declared, undeclared = np.array(latency)[some], declared[some], undeclared[some]
    counted, most = list(specs), np.zeros(declared.shape)
    for at, row in enumerate(rows.tolist()):
        spec = specs[row]
        counted[row], most[at] = _count(spec, former(spec.name), resources, declared[at], undeclared[at], unit[row])
    return Counted(tuple(counted), PodDemand(rows, declared, undeclared, most))


def same_declaration(spec: QueueSpec, promise: QueueSpec) -> bool:
    """Return whether `promise` is `spec` up to the amounts that its pods need."""
    rest = replace(spec, burst=None, arrival=None) == replace(promise, burst=None, arrival=None)
    return rest and same_bursts(spec, promise)


def same_bursts(spec: QueueSpec, promise: QueueSpec) -> bool:
    """Return whether the bursts of `promise` are those of `spec` up to the amounts that its pods need."""
    names = _names(spec)
    return _bursts(promise, names) == _bursts(spec, names)


def declared_amounts(spec: QueueSpec, resources: Sequence[str]) -> FloatArray:
    """(K,) the most that any burst declares."""
    return np.array(_declared(spec, resources), dtype=np.float64)


def _declared(spec: QueueSpec, resources: Sequence[str]) -> list[float]:
    most: Mapping[str, float] = {} if spec.burst is None else spec.burst.resources
    if isinstance(spec.arrival, Schedule):
        table = BurstTable.of(spec.arrival.bursts)
        most = {} if table.problem else dict(zip(table.resources, table.amounts.max(axis=0).tolist(), strict=True))
    return [most.get(name, 0.0) for name in resources]


def _names(spec: QueueSpec) -> set[str]:
    if isinstance(spec.arrival, Schedule):
        table = BurstTable.of(spec.arrival.bursts)
        return {name for name, most in zip(table.resources, table.amounts.max(axis=0, initial=0.0).tolist(), strict=True) if most > 0}
    return set() if spec.burst is None else {name for name, most in spec.burst.resources.items() if most > 0}


def _bursts(spec: QueueSpec, names: set[str]) -> object:
    """Return bursts and arrivals with the resources in `names` only."""
    if isinstance(spec.arrival, Schedule):
        table = BurstTable.of(spec.arrival.bursts)
        columns = sorted((name, at) for at, name in enumerate(table.resources) if name in names)
        amounts = table.amounts[:, [at for _, at in columns]]
        return [name for name, _ in columns], [one.tolist() for one in (table.arrival, table.duration, table.deadline, amounts)]
    if spec.burst is None:
        return None
    return replace(spec.burst, resources={name: most for name, most in spec.burst.resources.items() if name in names}), spec.arrival


def _count(
    spec: QueueSpec, former: Sequence[QueueSpec], resources: Sequence[str], declared: FloatArray, undeclared: BoolArray, unit: FloatArray
) -> tuple[QueueSpec, FloatArray]:
    """Return the counted spec, and (K,) the most added to any burst of it. The spec is the former object if it is equal."""
    kept = next((one for one in former if one.kind is spec.kind and same_bursts(spec, one)), None)
    before = np.zeros(len(resources)) if kept is None else declared_amounts(kept, resources) * undeclared
    need = _needed(declared[None, :], unit[None, :])[0] * undeclared
    if need.any() and _changes(need, before).any():
        return _added(spec, [name for at, name in enumerate(resources) if need[at] > 0], resources, unit), need
    if kept is None or not before.any():
        return spec, before
    same = replace(spec, burst=kept.burst, arrival=kept.arrival)
    return (kept if same == kept else same), before


def _added(spec: QueueSpec, more: Sequence[str], resources: Sequence[str], unit: FloatArray) -> QueueSpec:
    """Return the spec with whole pods' needs of the resources in `more` in each burst."""
    if isinstance(spec.arrival, Schedule):
        table = BurstTable.of(spec.arrival.bursts)
        column_of = {name: column for column, name in enumerate(table.resources)}
        amounts = np.array([table.amounts[:, column_of[name]] if name in column_of else np.zeros(len(table)) for name in resources]).T
        own = [column for column, name in enumerate(table.resources) if name not in more]
        added = _needed(amounts, np.broadcast_to(unit, amounts.shape))[:, [resources.index(name) for name in more]]
        names = (*(table.resources[column] for column in own), *more)
        wider = BurstTable(names, table.arrival, table.duration, table.deadline, np.hstack([table.amounts[:, own], added]))
        return replace(spec, arrival=replace(spec.arrival, bursts=wider))
    if spec.burst is None:
        return spec
    declared = np.array([spec.burst.resources.get(name, 0.0) for name in resources])
    needed = _needed(declared[None, :], unit[None, :])[0]
    pods = {name: float(needed[resources.index(name)]) for name in more}
    return replace(spec, burst=replace(spec.burst, resources={**spec.burst.resources, **pods}))


def _needed(declared: FloatArray, unit: FloatArray) -> FloatArray:
    """(M, K) demand of the whole pods of size `unit` that hold the declared amounts; at most `MOST_AMOUNT`, so that it can be written."""
    return np.minimum(_pods(declared, unit)[:, None] * unit, MOST_AMOUNT)


def _pods(declared: FloatArray, unit: FloatArray) -> FloatArray:
    """(M,) whole pods of size `unit` that hold the declared amounts (M, K), at most `MOST_AMOUNT`; zero where no pod has any of them."""
    part = np.divide(declared, unit, out=np.zeros_like(declared), where=unit > 0).max(axis=1)
    pods: FloatArray = np.minimum(np.ceil(part * (1 - TOLERANCE)), MOST_AMOUNT)
    return pods


def _changes(need: FloatArray, counted: FloatArray) -> BoolArray:
    """Return the mask of needs that exceed the counted amount, or are so much smaller that a change is worth it."""
    changes: BoolArray = (need > counted * (1 + TOLERANCE)) | (need < counted / MOST_TOO_MUCH)
    return changes
