"""Admission against an enumeration in rational arithmetic: every queue in turn, every instant at which a window begins.

The reference shares nothing with the code: no tolerance, no floats, no profile. Windows, demands and capacities are decimals that float64
cannot hold, drawn so that both sides of a condition are often equal.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest

from fairburst.policy.decide import decide
from fairburst.policy.model import (
    Burst,
    GuaranteeClass,
    Memory,
    Periodic,
    PolicyConfig,
    QueueKind,
    QueueSpec,
    Schedule,
    ScheduledBurst,
    Sporadic,
)
from tests.support.policy import RESOURCES, latency, snapshot, throughput

HARD, SOFT, ELASTIC = GuaranteeClass.HARD, GuaranteeClass.SOFT, GuaranteeClass.ELASTIC
CI_CASES, MANY_CASES = 1_000, 100_000
EPOCH = 1_800_000_000


@dataclass(frozen=True)
class Declared:
    """One queue in rationals. `bursts`: (arrival or None, amounts, duration, deadline, gap); `period` and `jitter` only where periodic."""

    spec: QueueSpec
    weight: Fraction
    bursts: list[tuple[Fraction | None, list[Fraction], Fraction, Fraction, Fraction | None]]
    period: Fraction | None = None
    jitter: Fraction = Fraction(0)

    @cached_property
    def rates(self) -> list[list[Fraction]]:
        """The guaranteed rate of each burst, per resource."""
        return [[amount * duration / deadline for amount in amounts] for _, amounts, duration, deadline, _ in self.bursts]

    def rate_at(self, instant: Fraction) -> list[Fraction]:
        """The most that it may hold at an instant, per resource: it is in one window at a time."""
        if self.period is None and self.bursts[0][0] is None:
            return self.rates[0]
        for (arrival, _, _, deadline, _), rate in zip(self.bursts, self.rates, strict=True):
            assert arrival is not None
            if self.period is None and arrival <= instant < arrival + deadline:
                return rate
            if self.period is not None:
                # the instant lies in [arrival + n period - jitter, arrival + n period + jitter + deadline) for some whole n
                least = math.floor((instant - arrival - self.jitter - deadline) / self.period) + 1
                if arrival + least * self.period - self.jitter <= instant:
                    return rate
        return [Fraction(0)] * len(self.bursts[0][1])

    def instants(self, origin: Fraction, finish: Fraction) -> list[Fraction]:
        """Every moment from origin to finish at which one of its windows begins."""
        if self.period is None:
            return [burst[0] for burst in self.bursts if burst[0] is not None]
        first = self.bursts[0][0]
        assert first is not None
        lowest = math.ceil((origin - first + self.jitter) / self.period)
        highest = math.floor((finish - first + self.jitter) / self.period)
        return [first + n * self.period - self.jitter for n in range(lowest, highest + 1)]


def load_fits(queue: Declared, capacity: list[Fraction], divisor: Fraction, max_cycle: Fraction) -> bool:
    """d_k <= C_k min(gap, max_cycle) w / divisor for every burst and resource."""
    return all(
        amount * duration <= c * (max_cycle if gap is None else min(gap, max_cycle)) * queue.weight / divisor
        for _, amounts, duration, _, gap in queue.bursts
        for amount, c in zip(amounts, capacity, strict=True)
        if amount > 0
    )


def windows_fit(queues: list[Declared], capacity: list[Fraction]) -> bool:
    """Return True if the rates fit at every instant. Their sum only rises where a window begins."""
    starts = [arrival for queue in queues for arrival, *_ in queue.bursts if arrival is not None]
    origin = min(starts, default=Fraction(0))
    cycle = Fraction(1)
    for queue in queues:
        if queue.period is not None:
            cycle = Fraction(math.lcm((cycle * 1000).numerator, (queue.period * 1000).numerator), 1000)
    finish = max([*starts, origin]) + cycle
    instants = {origin} | {at for queue in queues for at in queue.instants(origin, finish)}
    return all(
        sum(column, Fraction(0)) <= c
        for instant in instants
        for column, c in zip(zip(*(queue.rate_at(instant) for queue in queues), strict=True), capacity, strict=True)
    )


def reference(queues: list[Declared], capacity: list[Fraction], expected: Fraction, max_cycle: Fraction) -> list[GuaranteeClass | None]:
    """LQADMIT and TQADMIT (BoPF, Algorithm 1) with weights, in creation order."""
    classes: list[GuaranteeClass | None] = []
    for queue in queues:
        admitted = [other for other, given in zip(queues, classes, strict=False) if given is not None]
        guaranteed = [other for other, given in zip(queues, classes, strict=False) if given in {HARD, SOFT}]
        divisor = max(sum((other.weight for other in admitted), queue.weight), expected)
        if not all(load_fits(other, capacity, divisor, max_cycle) for other in guaranteed):
            classes.append(None)
        elif queue.spec.kind is QueueKind.THROUGHPUT or not load_fits(queue, capacity, divisor, max_cycle):
            classes.append(ELASTIC)
        else:
            hard = [other for other, given in zip(queues, classes, strict=False) if given is HARD]
            classes.append(HARD if windows_fit([*hard, queue], capacity) else SOFT)
    return classes


def tenths(rng: np.random.Generator, low: int, high: int) -> Fraction:
    return Fraction(int(rng.integers(low, high + 1)), 10)


def random_queue(rng: np.random.Generator, name: str, order: int, width: int) -> Declared:
    weight = Fraction(int(rng.choice([5, 10, 10, 10, 30])), 10)
    if rng.random() < 0.2:
        return Declared(throughput(name, float(order), float(weight)), weight, [])
    duration = tenths(rng, 1, 12)
    deadline = duration * int(rng.choice([1, 1, 2]))
    amounts = [tenths(rng, 0, 60) for _ in range(width)]
    kind = rng.integers(5)
    if kind == 0:
        at, bursts = Fraction(EPOCH), []
        for _ in range(int(rng.integers(1, 4))):
            bursts.append((at, [amount * int(rng.integers(1, 3)) for amount in amounts], duration, deadline))
            at += Fraction(math.ceil(2 * deadline) + int(rng.integers(0, 8)), 2)  # times since the epoch hold halves, not tenths
        gaps = [after[0] - before[0] for before, after in itertools.pairwise(bursts)]
        items = tuple(ScheduledBurst(float(at), _burst(of, duration, deadline)) for at, of, duration, deadline in bursts)
        spec = QueueSpec(name, QueueKind.LATENCY, (float(order), name), float(weight), None, Schedule(items))
        return Declared(spec, weight, [(*one, gap) for one, gap in zip(bursts, [*gaps, None], strict=True)])
    periods = [Fraction(tenths, 10) for tenths in (12, 24, 24, 36, 48)]
    period = periods[int(rng.integers(next(at for at, one in enumerate(periods) if one >= deadline), len(periods)))]
    jitter = min(Fraction(int(rng.choice([0, 0, 1, 3])), 10), period / 2)
    if kind == 1:
        arrival, first, placed = Sporadic(float(period)), None, None
    else:
        first, placed = EPOCH + tenths(rng, 0, 48), period
        arrival = Periodic(float(period), float(first), float(jitter))
    spec = latency(name, float(order), [float(amount) for amount in amounts], float(duration), arrival, float(deadline), float(weight))
    return Declared(spec, weight, [(first, amounts, duration, deadline, period)], placed, jitter if placed else Fraction(0))


def _burst(amounts: list[Fraction], duration: Fraction, deadline: Fraction) -> Burst:
    return Burst({name: float(amount) for name, amount in zip(RESOURCES, amounts, strict=False)}, float(duration), float(deadline))


def check(seed: int) -> list[GuaranteeClass | None]:
    rng = np.random.default_rng([18, seed])
    width = int(rng.integers(1, 3))
    capacity = [tenths(rng, 20, 200) for _ in range(width)]
    queues = [random_queue(rng, f"q{row}", row, width) for row in range(rng.integers(1, 8))]
    expected, max_cycle = Fraction(int(rng.choice([1, 1, 4]))), Fraction(int(rng.choice([3, 3600])))
    given = snapshot(tuple(queue.spec for queue in queues), [float(c) for c in capacity], np.zeros((len(queues), width)))
    config = PolicyConfig(expected_queues=float(expected), max_cycle_seconds=float(max_cycle))
    result, _ = decide(given, Memory(), config, float(EPOCH))
    want = reference(queues, capacity, expected, max_cycle)
    assert list(result.classes) == want, seed
    return want


def test_every_class_is_the_reference_s() -> None:
    seen: list[GuaranteeClass | None] = []
    for seed in range(CI_CASES):
        seen += check(seed)
    assert {HARD, SOFT, ELASTIC, None} <= set(seen)
    assert seen.count(SOFT) > CI_CASES / 20


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(20))
def test_every_class_is_the_reference_s_in_many_cases(part: int) -> None:
    for seed in range(CI_CASES + part, CI_CASES + MANY_CASES, 20):
        check(seed)
