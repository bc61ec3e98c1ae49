"""Policies to compare BoPF with, behind the interface of `decide`: the paper's DRF, Strict Priority, N-BoPF, M-BVT and Capacity FIFO
(BoPF §2.3, §5.1), earliest deadline first and a static partition.

None of them has windows; all but N-BoPF admit every queue. They round to whole units exactly as BoPF does.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.checks import check
from fairburst.policy.decide import decide
from fairburst.policy.declared import Declared, compile_queues
from fairburst.policy.dress.values import DressConfig
from fairburst.policy.drf import dominant_share, fill, row_any_above, take_in_order
from fairburst.policy.explain import QueueDecisions, Round, Windows
from fairburst.policy.lending import Lender
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, Memory, PolicyConfig, QueueMemory, RoundResult
from fairburst.policy.rounding import Rounding, Turns
from fairburst.policy.table import ELASTIC, Columns, blank_columns
from fairburst.policy.tolerance import TIME_STEP_SECONDS, TOLERANCE, slack_of


class Policy(Protocol):
    """The interface of `decide`."""

    def __call__(self, snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]: ...


def drf(snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]:
    """Weighted DRF among all queues, recomputed at every moment (Ghodsi et al., NSDI 2011)."""
    declared, columns = _admit_all(snapshot, config, now)
    wanted = _wanted(snapshot, declared)
    return _result(snapshot, config, columns, _divide(wanted, declared, snapshot.live_capacity, snapshot.live_capacity), now), memory


def strict_priority(snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]:
    """Latency queues first, by DRF among them; throughput queues share the rest (BoPF §5.1)."""
    declared, columns = _admit_all(snapshot, config, now)
    wanted = _wanted(snapshot, declared)
    first = _divide(np.where(declared.latency[:, None], wanted, 0.0), declared, snapshot.live_capacity, snapshot.live_capacity)
    left = np.maximum(snapshot.live_capacity - first.sum(axis=0), 0.0)
    second = _divide(np.where(declared.latency[:, None], 0.0, wanted), declared, snapshot.live_capacity, left)
    return _result(snapshot, config, columns, first + second, now), memory


def naive_bopf(snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]:
    """BoPF without the soft class: a queue that fails the resource condition is elastic (BoPF §5.1)."""
    return decide(snapshot, memory, dataclasses.replace(config, soft_class=False), now)


def capacity_fifo(snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]:
    """First come, first served in creation order, each as far as capacity suffices."""
    declared, columns = _admit_all(snapshot, config, now)
    wanted = _wanted(snapshot, declared)
    multiple = take_in_order(wanted, snapshot.live_capacity, slack_of(snapshot.live_capacity))
    return _result(snapshot, config, columns, wanted * multiple[:, None], now), memory


def static_partition(snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]:
    """Each queue has its weighted part of every resource and nothing else; its unused part stays idle."""
    declared, columns = _admit_all(snapshot, config, now)
    wanted = _wanted(snapshot, declared)
    weight = np.where(declared.suspended, 0.0, declared.weight)
    part = snapshot.live_capacity * (weight / max(math.fsum(weight), TOLERANCE))[:, None]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        multiple = np.min(np.where(wanted > part, part / wanted, 1.0), axis=1)
    return _result(snapshot, config, columns, wanted * multiple[:, None], now, share_leftovers=False), memory


def m_bvt(snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]:
    """Borrowed virtual time for many resources (BoPF §2.3 after Duda and Cheriton, SOSP 1999).

    Effective virtual time E = A - W. A is raised to the least virtual time of backlogged queues when a queue wakes, and advances by
    dominant share x dt / weight. The warp W of a latency queue is max_k d_k / (C_k w), of others zero. Queues of least E share everything
    by DRF; queues with a larger E get the rest. A is kept in the memory's `ledger` (value, rate, as of).
    """
    declared, columns = _admit_all(snapshot, config, now)
    wanted = _wanted(snapshot, declared)
    awake = row_any_above(wanted, 0.0)
    virtual = _virtual_times(snapshot, memory, awake, now)
    effective = virtual - _warps(declared, snapshot.live_capacity)
    allocation = np.zeros_like(wanted)
    levels = np.unique(np.round(effective[awake], 9))
    for level in levels:
        group = awake & (np.round(effective, 9) == level)
        left = np.maximum(snapshot.live_capacity - allocation.sum(axis=0), 0.0)
        allocation += _divide(np.where(group[:, None], wanted, 0.0), declared, snapshot.live_capacity, left)
    speed = dominant_share(allocation, snapshot.live_capacity) / declared.weight
    boundary = now + _time_to_meet(effective, speed, awake)
    columns.ledger_value[:], columns.ledger_rate[:], columns.ledger_as_of[:] = virtual, speed, now
    result = _result(snapshot, config, columns, allocation, now, boundary)
    remembered = {
        spec.name: QueueMemory(
            spec, GuaranteeClass.ELASTIC, row, ledger_value=float(virtual[row]), ledger_rate=float(speed[row]), ledger_as_of=now,
            period_started=now if awake[row] else math.inf,
        )
        for row, spec in enumerate(snapshot.queues)
    }  # fmt: skip
    return result, Memory(remembered, memory.next_admission_order)


def earliest_deadline_first(snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]:
    """Latency queues by the deadline of their burst, each as far as capacity suffices (Liu and Layland, JACM 1973); the rest by DRF.

    A burst begins when an idle queue gets demand and ends when it has none: work that is left when the next burst arrives keeps its
    deadline, and precedes every later one. Ties: creation order. The beginning is kept in the memory's
    `period_started`, infinite for an idle queue.
    """
    declared, columns = _admit_all(snapshot, config, now)
    wanted = _wanted(snapshot, declared)
    known = [memory.queues.get(spec.name) for spec in snapshot.queues]
    began = np.array([now if item is None or math.isinf(item.period_started) else item.period_started for item in known])
    began[~row_any_above(wanted, 0.0)] = math.inf
    latency = np.flatnonzero(declared.latency)
    ordered = latency[np.argsort(began[latency] + _deadlines(declared, began)[latency], kind="stable")]
    first = np.zeros_like(wanted)
    first[ordered] = wanted[ordered] * take_in_order(wanted[ordered], snapshot.live_capacity, slack_of(snapshot.live_capacity))[:, None]
    left = np.maximum(snapshot.live_capacity - first.sum(axis=0), 0.0)
    second = _divide(np.where(declared.latency[:, None], 0.0, wanted), declared, snapshot.live_capacity, left)
    remembered = {
        spec.name: QueueMemory(spec, GuaranteeClass.ELASTIC, row, period_started=float(began[row]))
        for row, spec in enumerate(snapshot.queues)
    }
    return _result(snapshot, config, columns, first + second, now), Memory(remembered, memory.next_admission_order)


def dress(snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]:
    """BoPF with DRESS among the throughput queues, with its defaults if `config` has no settings for it."""
    return decide(snapshot, memory, config if config.dress is not None else dataclasses.replace(config, dress=DressConfig()), now)


POLICIES: Mapping[str, Policy] = {
    "bopf": decide, "drf": drf, "sp": strict_priority, "n-bopf": naive_bopf, "m-bvt": m_bvt, "capacity": capacity_fifo, "dress": dress,
    "static": static_partition, "edf": earliest_deadline_first,
}  # fmt: skip
# Policies without classes that still place the tasks of latency queues before those of others.
LATENCY_FIRST: frozenset[Policy] = frozenset({strict_priority, earliest_deadline_first})


def _virtual_times(snapshot: ClusterSnapshot, memory: Memory, awake: np.ndarray, now: float) -> FloatArray:
    """A of each queue now; one that wakes up starts no earlier than the least of those already backlogged."""
    known = [memory.queues.get(spec.name) for spec in snapshot.queues]
    virtual = np.array([0.0 if item is None else item.ledger(now) for item in known])
    was_awake = np.array([item is not None and math.isfinite(item.period_started) for item in known], dtype=bool)
    backlogged = awake & was_awake
    if backlogged.any():
        wakes = awake & ~was_awake
        virtual[wakes] = np.maximum(virtual[wakes], virtual[backlogged].min())
    return virtual


def _deadlines(declared: Declared, began: FloatArray) -> FloatArray:
    """(N,) seconds from a burst's beginning to its deadline; of a schedule, those of the last burst that arrived by `began`."""
    deadline = declared.deadline.copy()
    flat = declared.schedules
    for row in np.flatnonzero(flat.count):
        whole = slice(flat.start[row], flat.start[row] + flat.count[row])
        at = np.searchsorted(flat.arrival[whole], began[row] + TIME_STEP_SECONDS, side="right") - 1
        deadline[row] = flat.deadline[whole][max(at, 0)]
    return deadline


def _warps(declared: Declared, capacity: FloatArray) -> FloatArray:
    """W = max_k d_k / (C_k w) of each latency queue."""
    demand = declared.demand.copy()
    flat = declared.schedules
    for row in np.flatnonzero(flat.count):
        demand[row] = flat.demand[flat.start[row] : flat.start[row] + flat.count[row]].max(axis=0)
    warp: FloatArray = dominant_share(demand, capacity) / declared.weight
    return warp


def _time_to_meet(effective: FloatArray, speed: FloatArray, awake: np.ndarray) -> float:
    """Return the seconds until a queue catches up with the group ahead of it; infinite if none ever does.

    Among queues with equal E the fastest is sorted last and the slowest first, so that only neighbours need to be compared.
    """
    order = np.lexsort((speed[awake], effective[awake]))
    at, moving = effective[awake][order], speed[awake][order]
    gap, closing = np.diff(at), moving[:-1] - moving[1:]
    meets = (gap > 1e-9) & (closing > 0)
    return float(np.min(gap[meets] / closing[meets])) if meets.any() else math.inf


def _admit_all(snapshot: ClusterSnapshot, config: PolicyConfig, now: float) -> tuple[Declared, Columns]:
    check(snapshot, config, now)
    declared = compile_queues(snapshot.queues, snapshot.resources, config.max_cycle_seconds)
    columns = blank_columns(declared, snapshot.queues)
    columns.guarantee[~declared.suspended] = ELASTIC
    return declared, columns


def _wanted(snapshot: ClusterSnapshot, declared: Declared) -> FloatArray:
    wanted = np.where(declared.suspended[:, None], 0.0, snapshot.demand)
    if declared.limit is None:
        return wanted
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        multiple = np.min(np.where(wanted > declared.limit, declared.limit / wanted, 1.0), axis=1)
    limited: FloatArray = wanted * multiple[:, None]
    return limited


def _divide(wanted: FloatArray, declared: Declared, capacity: FloatArray, left: FloatArray) -> FloatArray:
    uncapped = np.full(len(wanted), math.inf)
    return wanted * fill(wanted, uncapped, declared.weight, capacity, left)[:, None]


def _result(
    snapshot: ClusterSnapshot, config: PolicyConfig, columns: Columns, allocation: FloatArray, now: float, boundary: float = math.inf,
    *, share_leftovers: bool = True,
) -> RoundResult:  # fmt: skip
    """Round to whole units and return a result in which nothing is marked spare and nothing is charged."""
    if share_leftovers:
        wanted = _wanted(snapshot, columns.declared)
        no_rows = np.zeros(len(allocation), dtype=bool)
        rounding = Rounding(
            allocation, no_rows, wanted, snapshot.unit, snapshot.live_capacity, np.zeros(0, dtype=np.int64), columns.declared.name_rank,
            no_rows, columns.declared.weight,
        )  # fmt: skip
        allocation, _ = rounding.round_to_units(allocation, Turns.none(len(allocation)), now)
        allocation = Lender(
            wanted, snapshot.usage, snapshot.unit, columns.declared.weight, snapshot.live_capacity, columns.declared.limit,
            snapshot.waiting, no_rows, no_rows, np.zeros(len(allocation)),
        ).lend(allocation)  # fmt: skip
    nothing = np.zeros(len(allocation))
    view = Round(snapshot, config, columns, allocation, allocation, allocation, nothing, nothing, nothing, None, now)
    classes = tuple(None if spec.suspended else GuaranteeClass.ELASTIC for spec in snapshot.queues)
    return RoundResult(
        now=now, queues=snapshot.queues, classes=classes, allocation=allocation, guaranteed=allocation, level=allocation,
        charge_rate=nothing, events=(), next_boundary=max(boundary, now + TIME_STEP_SECONDS), decisions=QueueDecisions(view),
        windows=Windows(view),
    )  # fmt: skip
