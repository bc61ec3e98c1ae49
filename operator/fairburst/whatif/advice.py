"""The smallest change that would admit a queue, improve its class, or start its next pod, found by deciding again, never by formula.

A change counts only if no other queue is promised less by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import Burst, ClusterSnapshot, GuaranteeClass, Periodic, QueueKind, QueueSpec, Schedule, Sporadic
from fairburst.policy.tolerance import TOLERANCE
from fairburst.whatif.rounds import RANK, DecidedRound, with_capacity, with_spec

LARGEST_FACTOR = 64.0  # larger changes are no useful advice
PRECISION = 0.004
MEBI = 2**20


@dataclass(frozen=True, slots=True, eq=False)
class Advice:
    """One change that was decided again, with the desired outcome.

    knob: the changed property: "weight", "deadline", "period", "demand", "limits", "suspended" or "capacity". factor: of the change.
    spec: the changed declaration; None if the capacity changes. gained: the class, or the room for the next pod.
    """

    knob: str
    factor: float
    spec: QueueSpec | None
    granted: GuaranteeClass | None
    after: DecidedRound

    @property
    def size(self) -> float:
        """Return the size of the change, to compare knobs: the logarithm of the factor."""
        return abs(math.log(self.factor)) if self.factor > 0 else 0.0


def better_class(before: DecidedRound, name: str) -> list[Advice]:
    """Return changes that give a queue the best class of its kind, the smallest first; none if it has that class or no change helps."""
    row = before.row(name)
    if row is None:
        return []
    spec = before.snapshot.queues[row]
    best = GuaranteeClass.HARD if spec.kind is QueueKind.LATENCY else GuaranteeClass.ELASTIC
    if before.result.classes[row] is best:
        return []

    def granted(after: DecidedRound) -> bool:
        return after.result.classes[row] is best and _in_force(after, row)

    return _search(before, row, granted)


def next_pod(before: DecidedRound, name: str) -> list[Advice]:
    """Return changes that raise a queue's level by one of its waiting pods; none if the level admits one, or no pod waits."""
    row = before.row(name)
    if row is None or not lacks_level(before, row):
        return []

    def admits(after: DecidedRound) -> bool:
        return _in_force(after, row) and not lacks_level(after, row)

    return [one for one in _search(before, row, admits) if one.knob in {"weight", "limits", "capacity", "suspended"}]


def lacks_level(one: DecidedRound, row: int) -> bool:
    """Return whether the queue demands another pod that its level does not admit."""
    if not one.waits(row):
        return False
    wanted = np.minimum(one.snapshot.demand[row], _with_next_pod(one.snapshot, row))
    return bool((one.result.level[row] < wanted * (1 - TOLERANCE)).any())


def _with_next_pod(snapshot: ClusterSnapshot, row: int) -> FloatArray:
    """Return (K,) the queue's usage plus one pod; its whole demand if the size of its pods is unknown."""
    unit = snapshot.unit[row]
    wanted: FloatArray = snapshot.usage[row] + unit if unit.any() else snapshot.demand[row]
    return wanted


def _in_force(after: DecidedRound, row: int) -> bool:
    """Return whether the declaration in the snapshot is the promised one. A refused change leaves the earlier one in force."""
    promised = after.following.promised(after.snapshot.queues[row].name)
    spec = after.snapshot.queues[row]
    return promised is None or (promised.promise.weight, promised.promise.arrival) == (spec.weight, spec.arrival)


def _search(before: DecidedRound, row: int, reached: Callable[[DecidedRound], bool]) -> list[Advice]:
    found = []
    for knob, change, allowed in _knobs(before, row):
        one = _smallest(before, row, knob, change, allowed, reached)
        if one is not None:
            found.append(_without_idle_changes(before, row, one, reached))
    return sorted(found, key=lambda one: (one.knob == "capacity", one.size))


Change = Callable[[float], QueueSpec | ClusterSnapshot | None]  # None: the factor changes nothing, or is not permitted


def _knobs(before: DecidedRound, row: int) -> Iterator[tuple[str, Change, tuple[float, ...]]]:
    """Yield each knob with its function of a factor, and the factors to try, from smaller to larger changes."""
    spec, snapshot = before.snapshot.queues[row], before.snapshot
    up = tuple(2.0**power for power in range(1, round(math.log2(LARGEST_FACTOR)) + 1))
    down = tuple(1 / factor for factor in up)
    if spec.suspended:
        yield "suspended", lambda _: replace(spec, suspended=False), (1.0,)
        return
    yield "weight", lambda factor: _weighted(spec, factor), up
    if spec.weight > 1:
        yield "weight", lambda factor: _weighted(spec, factor), down
    if spec.limits:
        yield "limits", lambda factor: replace(spec, limits={name: _whole(name, most * factor) for name, most in spec.limits.items()}), up
    if spec.kind is QueueKind.LATENCY:
        yield "demand", lambda factor: _demanding(spec, factor), down
        if spec.burst is not None:
            yield "deadline", lambda factor: _due(spec, factor), up
            yield "period", lambda factor: _every(spec, factor), up
    yield "capacity", lambda factor: with_capacity(snapshot, np.full(len(snapshot.resources), factor)), up


def _smallest(
    before: DecidedRound, row: int, knob: str, change: Change, factors: tuple[float, ...], reached: Callable[[DecidedRound], bool]
) -> Advice | None:
    """Return the smallest change of one knob that reaches the goal: the first factor that does, then bisection to half a percent."""

    def tried(factor: float) -> Advice | None:
        changed = change(factor)
        return None if changed is None else _tried(before, row, knob, factor, changed, reached)

    failed, found = 1.0, None
    for factor in factors:
        found = tried(factor)
        if found is not None:
            break
        failed = factor
    if found is None:
        return None
    while abs(math.log(found.factor / failed)) > PRECISION:
        middle = math.sqrt(found.factor * failed)
        better = tried(middle)
        if better is None:
            failed = middle
        else:
            found = better
    return found


def _tried(
    before: DecidedRound, row: int, knob: str, factor: float, changed: QueueSpec | ClusterSnapshot, reached: Callable[[DecidedRound], bool]
) -> Advice | None:
    """Decide again with a change; return None if that does not reach the goal, or takes a promise from another queue."""
    spec = changed if isinstance(changed, QueueSpec) else None
    after = before.again(changed if isinstance(changed, ClusterSnapshot) else with_spec(before.snapshot, row, changed))
    if not reached(after) or _weakens(before, after, row):
        return None
    return Advice(knob, factor, spec, after.result.classes[row], after)


def _without_idle_changes(before: DecidedRound, row: int, one: Advice, reached: Callable[[DecidedRound], bool]) -> Advice:
    """Return the advice with the amounts of each resource as they were, if that reaches the goal too."""
    declared = before.snapshot.queues[row]
    for resource in before.snapshot.resources:
        if one.spec is None:
            break
        kept = _with_amounts_of(one.spec, declared, resource)
        if kept != one.spec:
            one = _tried(before, row, one.knob, one.factor, kept, reached) or one
    return one


def _with_amounts_of(spec: QueueSpec, source: QueueSpec, resource: str) -> QueueSpec:
    """Return a declaration with the bursts' and the limit's amount of one resource taken from another declaration of the same form."""

    def taken(amounts: Mapping[str, float], others: Mapping[str, float]) -> Mapping[str, float]:
        return {**amounts, resource: others[resource]} if resource in others else amounts

    def burst(one: Burst, other: Burst) -> Burst:
        return replace(one, resources=taken(one.resources, other.resources))

    spec = replace(spec, limits=taken(spec.limits, source.limits))
    if spec.burst is not None and source.burst is not None:
        spec = replace(spec, burst=burst(spec.burst, source.burst))
    if isinstance(spec.arrival, Schedule) and isinstance(source.arrival, Schedule):
        pairs = zip(spec.arrival.bursts, source.arrival.bursts, strict=True)
        spec = replace(
            spec, arrival=replace(spec.arrival, bursts=tuple(replace(one, burst=burst(one.burst, two.burst)) for one, two in pairs))
        )
    return spec


def _weakens(before: DecidedRound, after: DecidedRound, row: int) -> bool:
    pairs = enumerate(zip(before.result.classes, after.result.classes, strict=True))
    return any(RANK[now] < RANK[was] for other, (was, now) in pairs if other != row)


def _weighted(spec: QueueSpec, factor: float) -> QueueSpec | None:
    weight = float(math.ceil(spec.weight * factor) if factor > 1 else math.floor(spec.weight * factor))
    return replace(spec, weight=weight) if weight >= 1 and weight != spec.weight else None


def _whole(resource: str, value: float) -> float:
    """Round an amount down to one that people write: three digits of millicores or MiB, whole units of any other resource."""
    if resource == "cpu":
        return _three_digits(value * 1000) / 1000
    if resource in {"memory", "ephemeral-storage"} and value >= MEBI:
        return _three_digits(value / MEBI) * MEBI
    return float(math.floor(value + 1e-9))


def _three_digits(value: float) -> float:
    step = 10.0 ** max(0, math.floor(math.log10(value)) - 2) if value >= 1 else 1.0
    return math.floor(value / step + 1e-9) * step


def _amounts(resources: Mapping[str, float], factor: float) -> dict[str, float] | None:
    scaled = {name: _whole(name, value * factor) for name, value in resources.items()}
    return scaled if all(value > 0 for value in scaled.values()) else None


def _smaller(burst: Burst, factor: float) -> Burst | None:
    amounts = _amounts(burst.resources, factor)
    return None if amounts is None else replace(burst, resources=amounts)


def _demanding(spec: QueueSpec, factor: float) -> QueueSpec | None:
    """Return the queue with bursts of the same length and less demand."""
    if isinstance(spec.arrival, Schedule):
        bursts = [(one, _smaller(one.burst, factor)) for one in spec.arrival.bursts]
        if any(burst is None for _, burst in bursts):
            return None
        rescaled = tuple(replace(one, burst=burst) for one, burst in bursts if burst is not None)
        return replace(spec, arrival=replace(spec.arrival, bursts=rescaled))
    burst = None if spec.burst is None else _smaller(spec.burst, factor)
    return None if burst is None else replace(spec, burst=burst)


def _longest_deadline(spec: QueueSpec) -> float:
    match spec.arrival:
        case Periodic(period, _, jitter):
            return period - 2 * jitter
        case Sporadic(interarrival):
            return interarrival
        case _:
            return 0.0


def _due(spec: QueueSpec, factor: float) -> QueueSpec | None:
    """Return the queue with a later deadline, and so with a lower rate."""
    if spec.burst is None:
        return None
    later = float(math.ceil(spec.burst.deadline_seconds * factor))
    later = min(later, math.floor(_longest_deadline(spec)))
    return replace(spec, burst=replace(spec.burst, deadline_seconds=later)) if later > spec.burst.deadline_seconds else None


def _every(spec: QueueSpec, factor: float) -> QueueSpec | None:
    """Return the queue with less frequent bursts."""
    match spec.arrival:
        case Periodic(period, first, jitter):
            return replace(spec, arrival=Periodic(float(math.ceil(period * factor)), first, jitter))
        case Sporadic(interarrival):
            return replace(spec, arrival=Sporadic(float(math.ceil(interarrival * factor))))
        case _:
            return None
