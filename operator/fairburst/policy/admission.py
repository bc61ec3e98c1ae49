"""Admission (BoPF §3.3): the class of each queue, and its changes, by the conditions of conditions.py."""

from __future__ import annotations

import math
import operator
from dataclasses import replace

import numpy as np

from fairburst.policy import window_start
from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.conditions import AdmissionState, loads
from fairburst.policy.continuation import continued, move_index
from fairburst.policy.declared import CodeArray, compile_queues
from fairburst.policy.hard_queue import HardQueue
from fairburst.policy.model import (
    Burst,
    ClusterSnapshot,
    EventKind,
    Memory,
    PolicyConfig,
    QueueKind,
    QueueMemory,
    QueueSpec,
    RoundEvent,
    Schedule,
)
from fairburst.policy.pod_demand import same_declaration, with_pod_demand
from fairburst.policy.profile import HardQueues
from fairburst.policy.round_memory import restore
from fairburst.policy.table import CLASS_NAMES, CLASS_OF_CODE, ELASTIC, HARD, NOT_ADMITTED, SOFT, Columns, blank_columns
from fairburst.policy.tolerance import TOLERANCE


def needs_admission(snapshot: ClusterSnapshot, columns: Columns, config: PolicyConfig) -> bool:
    """Return whether an input of admission may have changed since the memory was made."""
    if columns.seen is not snapshot.queues or columns.admitted_for != _basis(snapshot, config):
        return True
    return columns.pod_demand is not None and columns.pod_demand.differs(snapshot.unit)


def _basis(snapshot: ClusterSnapshot, config: PolicyConfig) -> tuple[object, ...]:
    return (snapshot.resources, snapshot.committed_capacity.tobytes(), config)


def _same_objects(one: tuple[QueueSpec, ...], other: tuple[QueueSpec, ...]) -> bool:
    return one is other or (len(one) == len(other) and all(map(operator.is_, one, other)))


def settle(snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[Columns, int, list[RoundEvent]]:
    """Admission for one round: keep, demote, promote, then decide candidates in creation order.

    Returns the new columns, the next admission order, and events. Windows of queues whose class or promise changed start again.
    """
    return _Settlement(snapshot, memory, config, now).run()


class _Settlement:
    """One admission round. A class only because its steps share the state, the two tables and the list of events."""

    def __init__(self, snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> None:
        self.memory, self.config, self.now = memory, config, now
        self.capacity = snapshot.committed_capacity
        self.resources = snapshot.resources
        self.declared = snapshot.queues
        self.calendars = {one.name: one for one in snapshot.queues if isinstance(one.arrival, Schedule) and one.arrival.calendar}
        self.continued: set[int] = set()  # rows whose calendar lists later arrivals than at the last admission
        counted = with_pod_demand(snapshot.queues, self._former_specs, self.resources, self.capacity, snapshot.unit)
        self.specs, self.pod_demand = counted.specs, counted.added
        self.basis = _basis(snapshot, config)
        self.events: list[RoundEvent] = []
        self.next_order = memory.next_admission_order
        old = memory.columns
        reuse = old is not None and old.declared.resources == snapshot.resources and old.declared.max_cycle == config.max_cycle_seconds
        if old is not None and reuse and _same_objects(old.declared.queues, self.specs):
            self.offered = old.declared
        else:
            self.offered = compile_queues(self.specs, snapshot.resources, config.max_cycle_seconds)
        self.offered_load = loads(self.offered, self.capacity)
        self.in_force, self.load, self.weight = self.offered, self.offered_load, self.offered.weight
        self.columns = blank_columns(self.offered, self.declared)
        self.promises: list[QueueSpec] = list(self.specs)
        self.refused: dict[int, QueueSpec] = {}
        self.changed: set[int] = set()
        self.was_refused: dict[int, QueueSpec] = {}
        self.was_rejected: set[int] = set()

    def run(self) -> tuple[Columns, int, list[RoundEvent]]:
        self._recall()
        before = self.columns.guarantee.copy()
        if self.changed:
            self.in_force = compile_queues(tuple(self.promises), self.resources, self.config.max_cycle_seconds)
            self.load = loads(self.in_force, self.capacity)
        self.weight = self.in_force.weight.copy()
        state = self._keep()
        while True:
            self._promote_all(state)
            state, released = self._decide_candidates(state)
            if not released:
                break
        self._record_changes(before)
        return self._finish()

    def _recall(self) -> None:
        """Restore the remembered queues, and find the specs that differ from the promise in force."""
        known: dict[str, int] = {}
        former: dict[str, tuple[QueueSpec, QueueSpec | None]] = {}
        for row, spec in enumerate(self.specs):
            remembered = self._remembered(spec.name)
            if remembered is not None and remembered[0].order == spec.order and remembered[0].kind is spec.kind:
                known[spec.name], former[spec.name] = row, remembered
        restore(self.memory, known, self.columns)
        for name, row in known.items():
            spec = self.specs[row]
            promise, refused = former[name]
            if name in self.calendars:
                self._go_on(row, promise)
            if refused is not None:
                self.was_refused[row] = refused
            if self.columns.guarantee[row] == NOT_ADMITTED:
                if not promise.suspended and promise == spec:
                    self.was_rejected.add(row)
            elif spec.suspended:
                self._release(row)
            elif spec is not promise and spec != promise:
                self._offer_change(row, spec, promise)

    def _go_on(self, row: int, promise: QueueSpec) -> None:
        """Renumber the window of a queue with a calendar by the list of arrivals that is in force now."""
        kept = self._kept(promise.name)
        if kept is None or kept[0] is promise or not isinstance(kept[0].arrival, Schedule) or not isinstance(promise.arrival, Schedule):
            return
        self.continued.add(row)
        move_index(self.columns, row, kept[0].arrival, promise.arrival)

    def _remembered(self, name: str) -> tuple[QueueSpec, QueueSpec | None] | None:
        """Return the queue's promise, with the present arrivals of its calendar, and its refused change."""
        kept = self._kept(name)
        if kept is None or name not in self.calendars:
            return kept
        spec, (promise, refused) = self.calendars[name], kept
        return continued(promise, spec), None if refused is None else continued(refused, spec)

    def _kept(self, name: str) -> tuple[QueueSpec, QueueSpec | None] | None:
        columns = self.memory.columns
        if columns is None:
            memory: QueueMemory | None = self.memory.queues.get(name)
            return None if memory is None else (memory.promise, memory.refused)
        row = columns.declared.row_of.get(name)
        return None if row is None else (columns.declared.queues[row], columns.refused.get(row))

    def _former_specs(self, name: str) -> tuple[QueueSpec, ...]:
        """Return the refused change of the queue's promise, and the promise in force."""
        promise, refused = self._remembered(name) or (None, None)
        return tuple([spec for spec in (refused, promise) if spec is not None])

    def _release(self, row: int) -> None:
        """Take class and weight from a held queue, which keeps its ledger. It is a candidate again when it is resumed."""
        self.columns.guarantee[row] = NOT_ADMITTED
        window_start.forget(self.columns, row)

    def _offer_change(self, row: int, spec: QueueSpec, promise: QueueSpec) -> None:
        if is_smaller(spec, promise):
            if same_declaration(self.declared[row], promise):
                return  # only its pods' needs have changed
            self.events.append(RoundEvent(spec.name, EventKind.PROMISE_CHANGED, "The smaller promise is in force at once."))
            return
        self.promises[row] = promise
        self.changed.add(row)

    def _member(self, row: int) -> HardQueue:
        """Return the promise in force of one row."""
        return HardQueue(self.in_force if row in self.changed else self.offered, row)

    def _admitted(self) -> IntArray:
        """Return the rows of admitted queues in admission order."""
        rows = np.flatnonzero(self.columns.guarantee != NOT_ADMITTED)
        ordered: IntArray = rows[np.argsort(self.columns.admission_order[rows], kind="stable")]
        return ordered

    def _fair(self, admitted: IntArray) -> BoolArray:
        """Condition (2) for each of the admitted queues. A burst of a resource that the pool no longer counts is no part of any share."""
        total = max(math.fsum(self.weight[admitted].tolist()), self.config.expected_queues)
        fair: BoolArray = self.offered.latency[admitted] & (self.load[admitted] * total <= 1.0 + TOLERANCE)
        if self.offered.unknown or self.in_force.unknown:
            fair &= np.array([row not in self._member(row).declared.unknown for row in admitted.tolist()], dtype=bool)
        return fair

    def _keep(self) -> AdmissionState:
        """Return the state of the admitted queues. If not all promises can be kept, the latest queues lose their guarantees first."""
        columns = self.columns
        state = AdmissionState(self.capacity, self.config)
        admitted = self._admitted()
        fair = self._fair(admitted)
        guarantees = np.where(fair, columns.guarantee[admitted], ELASTIC)
        members = [self._member(row) for row in admitted.tolist()]
        hard = [member for member, guarantee in zip(members, guarantees.tolist(), strict=True) if guarantee == HARD]
        together = HardQueues.of(hard, self.capacity, self.config.max_profile_events)
        if together.holds():
            state.hard = together
            columns.guarantee[admitted] = guarantees
            state.grant_all(members, self.weight[admitted], self.load[admitted], guarantees)
            return state
        # later arrivals of a calendar never cost another queue a promise that it was given meanwhile
        for member, kept in sorted(zip(members, guarantees.tolist(), strict=True), key=lambda one: one[0].row in self.continued):
            fits = kept != HARD or state.hard.fits(member)
            guarantee = kept if fits else SOFT if self.config.soft_class else ELASTIC
            columns.guarantee[member.row] = guarantee
            state.grant(member, float(self.weight[member.row]), float(self.load[member.row]), guarantee)
        return state

    def _promote_all(self, state: AdmissionState) -> None:
        """Give each admitted queue, in admission order, the best class whose conditions hold."""
        weaker = self.offered.latency & (self.columns.guarantee != HARD)
        if not weaker.any():
            return
        admitted = self._admitted()
        for row in admitted[self._fair(admitted) & weaker[admitted]].tolist():
            self._promote(state, self._member(row), float(self.load[row]))

    def _promote(self, state: AdmissionState, member: HardQueue, load: float) -> None:
        fits = state.hard.fits(member)
        if not fits and not self.config.soft_class:
            return
        if self.columns.guarantee[member.row] == ELASTIC:
            state.guaranteed_load[member.name] = load
            state.largest = max(state.largest, (load, member.name))
            self.columns.guarantee[member.row] = SOFT
        if fits:
            state.harden(member)
            self.columns.guarantee[member.row] = HARD

    def _decide_candidates(self, state: AdmissionState) -> tuple[AdmissionState, bool]:
        """Decide new, rejected and changed queues in creation order. Return whether a change took effect, so that all are tried again."""
        pending = [
            row
            for row, spec in enumerate(self.specs)
            if not spec.suspended and (self.columns.guarantee[row] == NOT_ADMITTED or row in self.changed)
        ]
        pending.sort(key=lambda row: (self.specs[row].order, self.specs[row].name))
        released = False
        for row in pending[self._admit_at_once(pending, state) :]:
            if row in self.changed:
                changed = self._decide_change(row, state)
                released |= changed is not None
                state = state if changed is None else changed
                continue
            member, load = HardQueue(self.offered, row), float(self.load[row])
            weight = float(self.weight[row])
            guarantee = state.consider(member, weight, load)
            if guarantee != NOT_ADMITTED:
                state.grant(member, weight, load, guarantee)
                self._admit(np.array([row]), np.array([guarantee]))
        return state, released

    def _admit_at_once(self, pending: list[int], state: AdmissionState) -> int:
        """Admit the first candidates together, up to the first change, rejection or profile. Return their number."""
        unchanged = next((position for position, row in enumerate(pending) if row in self.changed), len(pending))
        rows = np.array(pending[:unchanged], dtype=np.int64)
        granted = state.decided_at_once(self.offered, rows, self.load)
        rows = rows[: len(granted)]
        state.grant_all([HardQueue(self.offered, row) for row in rows.tolist()], self.weight[rows], self.load[rows], granted)
        self._admit(rows, granted)
        return len(granted)

    def _admit(self, rows: IntArray, guarantees: IntArray) -> None:
        self.columns.guarantee[rows] = guarantees
        self.columns.admission_order[rows] = np.arange(self.next_order, self.next_order + rows.size)
        self.next_order += rows.size

    def _decide_change(self, row: int, state: AdmissionState) -> AdmissionState | None:
        """Test a changed promise as a new candidate, without the old one. If it is refused, keep the old one and return None."""
        spec, promise = self.specs[row], self.promises[row]
        without = state.without(spec.name, promise.weight)
        member, load = HardQueue(self.offered, row), float(self.offered_load[row])
        guarantee = without.consider(member, spec.weight, load)
        if guarantee == NOT_ADMITTED:
            return None
        without.grant(member, spec.weight, load, guarantee)
        self.promises[row], self.weight[row] = spec, spec.weight
        self.changed.discard(row)
        self.load[row] = load
        self.columns.guarantee[row] = guarantee
        if same_declaration(self.declared[row], promise):
            return without  # only its pods' needs have changed, not its declaration
        self.events.append(RoundEvent(spec.name, EventKind.PROMISE_CHANGED, "The changed promise is in force."))
        if spec.arrival != promise.arrival:
            window_start.postpone(self.columns, row, self.in_force, self.now)
        return without

    def _record_changes(self, before: CodeArray) -> None:
        """Add an event for each queue that was admitted, rejected or refused a change, or whose class has changed."""
        after = self.columns.guarantee
        for row in self._admitted().tolist():
            name, former, granted = self.specs[row].name, int(before[row]), int(after[row])
            if former == NOT_ADMITTED:
                self.events.append(RoundEvent(name, EventKind.ADMITTED, f"Admitted as {CLASS_NAMES[granted]}."))
            elif granted != former:
                self._report_class_change(row, former, granted)
        for row, spec in enumerate(self.specs):
            if after[row] == NOT_ADMITTED and not spec.suspended and row not in self.was_rejected:
                message = "Not admitted; its admission says why."
                self.events.append(RoundEvent(spec.name, EventKind.REJECTED, message, warning=True))
        for row in sorted(self.changed):
            self.refused[row] = self.specs[row]
            if self.was_refused.get(row) != self.specs[row]:
                message = "The changed promise was refused; the earlier one stays in force."
                self.events.append(RoundEvent(self.specs[row].name, EventKind.PROMISE_CHANGE_REJECTED, message, warning=True))

    def _report_class_change(self, row: int, before: int, after: int) -> None:
        weaker = after < before
        cause = "capacity or membership no longer allows" if weaker else "capacity or membership now allows"
        message = f"Class {CLASS_NAMES[before]} became {CLASS_NAMES[after]}: {cause} {'the former' if weaker else 'it'}."
        self.events.append(RoundEvent(self.specs[row].name, EventKind.CLASS_CHANGED, message, warning=weaker))

    def _finish(self) -> tuple[Columns, int, list[RoundEvent]]:
        promises = tuple(self.promises)
        same = all(promise is spec for promise, spec in zip(promises, self.specs, strict=True))
        declared = self.offered if same else compile_queues(promises, self.resources, self.config.max_cycle_seconds)
        classes = tuple([CLASS_OF_CODE[code] for code in self.columns.guarantee.tolist()])
        columns = replace(
            self.columns, declared=declared, seen=self.declared, admitted_for=self.basis, refused=self.refused, classes=classes,
            pod_demand=self.pod_demand,
        )  # fmt: skip
        self._account_share(columns)
        window_start.begin(columns, self.now)
        return columns, self.next_order, self.events

    def _account_share(self, columns: Columns) -> None:
        """Set the rate at which F grows, the queue's share. Record the part earned so far where it has changed."""
        admitted = columns.guarantee != NOT_ADMITTED
        share = shares(columns)
        changed = share != columns.fair_rate
        columns.fair_value[changed] = columns.fair(self.now)[changed]
        columns.fair_as_of[changed] = self.now
        columns.fair_rate[changed] = share[changed]
        fresh = admitted & (columns.period_started == 0.0)
        columns.period_started[fresh] = self.now
        columns.ledger_as_of[fresh] = self.now
        columns.fair_value[fresh] = 0.0
        columns.fair_as_of[fresh] = self.now


def shares(columns: Columns) -> FloatArray:
    """(N,) w / sum of admitted weights; zero for queues without weight."""
    admitted = columns.guarantee != NOT_ADMITTED
    weight = np.where(admitted, columns.declared.weight, 0.0)
    total = math.fsum(weight)
    return weight / total if total > 0 else weight


def is_smaller(spec: QueueSpec, promise: QueueSpec) -> bool:
    """Return whether the bursts of `spec` fit inside those of `promise`: d no larger, windows inside, rate no higher, the rest the same."""
    if spec.kind is not promise.kind or spec.weight != promise.weight:
        return False
    if spec.kind is QueueKind.THROUGHPUT:
        return True
    new, old = _bursts(spec), _bursts(promise)
    if [at for at, _ in new] != [at for at, _ in old]:
        return False
    if not isinstance(spec.arrival, Schedule) and spec.arrival != promise.arrival:
        return False
    return all(
        one.deadline_seconds <= other.deadline_seconds
        and all(
            amount * one.duration_seconds <= other.resources.get(name, 0.0) * other.duration_seconds
            and amount * one.duration_seconds / one.deadline_seconds
            <= other.resources.get(name, 0.0) * other.duration_seconds / other.deadline_seconds
            for name, amount in one.resources.items()
        )
        for (_, one), (_, other) in zip(new, old, strict=True)
    )


def _bursts(spec: QueueSpec) -> list[tuple[float, Burst]]:
    if isinstance(spec.arrival, Schedule):
        return [(item.arrival, item.burst) for item in spec.arrival.bursts]
    return [(0.0, spec.burst)] if spec.burst is not None else []
