"""Speed of slot transfers: 1,000 jobs on 100,000 slots, 200 on 8,000, concave and other curves, and the paper's heaps."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.measure import Measurement, benchmark, figure, timed, timed_once
from fairburst.policy.arrays import FloatArray, IntArray
from fairburst.policy.paf.curves import ErnestCurve
from fairburst.policy.paf.divide import SlotRules, divide_slots
from fairburst.policy.paf.jobs import ElasticJob
from fairburst.policy.paf.transfer import transfer_slots

KNOB = 0.9
KINDS = ("concave", "noise", "steps", "packing", "convex", "mixed")


def make_curves(jobs: int, slots: int, *, concave: bool, seed: int = 1) -> list[FloatArray]:
    """Return curves over a quarter to three times the mean share. If not concave, they have noise of a hundredth, as profiles do."""
    rng = np.random.default_rng(seed)
    most = rng.integers(max(slots // jobs // 4, 1), slots // jobs * 3, jobs)
    curves = [(np.arange(each + 1) / each) ** rng.uniform(0.1, 0.9) for each in most]
    if concave:
        return curves
    return [np.concatenate(([0.0], np.clip(curve[1:] + rng.normal(0, 0.01, len(curve) - 1), 0, 1))) for curve in curves]


def plain_heaps(curves: Sequence[Sequence[float]], fair: Sequence[int], fairness_knob: float) -> list[int]:
    """Run Algorithm 1 as printed, in plain Python: two heaps, one slot at a time. Correct for concave curves."""
    slots, least = list(fair), []
    for curve, own in zip(curves, fair, strict=True):
        low = own
        while low > 0 and curve[low - 1] >= fairness_knob * curve[own]:
            low -= 1
        least.append(low)
    givers = [(curves[row][own] - curves[row][own - 1], row) for row, own in enumerate(slots) if own > least[row]]
    takers = [(curves[row][own] - curves[row][own + 1], row) for row, own in enumerate(slots) if own + 1 < len(curves[row])]
    heapq.heapify(givers)
    heapq.heapify(takers)
    while givers and takers and givers[0][0] + 1e-12 < -takers[0][0]:
        giver, taker = givers[0][1], takers[0][1]
        slots[giver] -= 1
        slots[taker] += 1
        own, curve = slots[giver], curves[giver]
        if own > least[giver]:
            heapq.heapreplace(givers, (curve[own] - curve[own - 1], giver))
        else:
            heapq.heappop(givers)
        own, curve = slots[taker], curves[taker]
        if own + 1 < len(curve):
            heapq.heapreplace(takers, (curve[own] - curve[own + 1], taker))
        else:
            heapq.heappop(takers)
    return slots


def drawn_jobs(kind: str, seed: int, jobs: int = 40) -> tuple[list[FloatArray], IntArray, float]:
    """Return curves of a kind, fair slots, and a fairness knob. `packing`: tasks of equal length on x slots."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    curves: list[FloatArray] = []
    for _ in range(jobs):
        length = int(rng.integers(10, 60))
        x = np.arange(length + 1, dtype=np.float64)
        match str(rng.choice(KINDS[:-1])) if kind == "mixed" else kind:
            case "concave":
                curves.append((x / length) ** rng.uniform(0.1, 0.9))
            case "noise":
                curves.append(np.concatenate(([0.0], rng.random(length))))
            case "steps":
                size = int(rng.integers(2, 9))
                curves.append(np.minimum(x // size * size / length, 1.0) * rng.random())
            case "packing":
                curves.append(np.concatenate(([0.0], 1 / np.ceil(int(rng.integers(1, 60)) / x[1:]))))
            case _:
                curves.append((x / length) ** rng.uniform(1, 4))
    fair = np.array([int(rng.integers(0, len(curve))) for curve in curves])
    return curves, fair, float(rng.choice([0.5, 0.9, 0.99]))


def dynamic_programming(curves: Sequence[FloatArray], fair: Sequence[int], slots: int, fairness_knob: float) -> float:
    """Return the best sum of progress over all divisions of equal slots that keep α, in O(jobs x slots²)."""
    best = np.zeros(slots + 1)
    for curve, own in zip(curves, fair, strict=True):
        following = np.full(slots + 1, -np.inf)
        for x in range(min(len(curve) - 1, slots) + 1):
            if curve[x] >= fairness_knob * curve[own]:
                following[x:] = np.maximum(following[x:], best[: slots + 1 - x] + curve[x])
        best = following
    return float(best.max())


@benchmark
def paf_gap() -> Iterator[Measurement]:
    """Measure how far below the best division (dynamic programming) 40 jobs end, by shape of their curves; 15 draws each."""
    yield from gaps_of(15)


def gaps_of(draws: int, jobs: int = 40) -> Iterator[Measurement]:
    for kind in KINDS:
        gaps = []
        for seed in range(draws):
            curves, fair, knob = drawn_jobs(kind, seed, jobs)
            slots = int(fair.sum())
            given = transfer_slots(curves, fair, np.zeros_like(fair), np.ones((jobs, 1)), np.array([float(slots)]), knob)
            best = dynamic_programming(curves, fair.tolist(), slots, knob)
            gaps.append(1.0 - sum(float(curve[own]) for curve, own in zip(curves, given, strict=True)) / best if best else 0.0)
        yield figure(f"paf gap: {jobs} jobs, {kind} curves, mean", 100 * float(np.mean(gaps)), "%")
        yield figure(f"paf gap: {jobs} jobs, {kind} curves, worst", 100 * max(gaps), "%")


@benchmark
def paf() -> Iterator[Measurement]:
    """Measure Algorithm 1 for 1,000 jobs on 100,000 slots and 200 on 8,000."""
    yield from division_of(1_000, 100_000, 50.0)
    yield from division_of(200, 8_000, 5.0)
    yield from round_of_jobs(200, 8_000)


def division_of(jobs: int, slots: int, target: float | None) -> Iterator[Measurement]:
    fair = np.full(jobs, slots // jobs)
    one = np.ones((jobs, 1))
    for kind in ("concave", "other"):
        curves = make_curves(jobs, slots, concave=kind == "concave")
        own = np.minimum(fair, [len(curve) - 1 for curve in curves])
        capacity = np.array([float(own.sum())])
        ours = timed(
            f"paf: {jobs} jobs, {slots} slots, {kind} curves",
            lambda curves=curves, own=own, capacity=capacity: transfer_slots(curves, own, np.zeros_like(own), one, capacity, KNOB),  # type: ignore[misc]
            target=target, repeats=11,
        )  # fmt: skip
        yield ours
        if kind == "concave":
            lists = [curve.tolist() for curve in curves]
            plain = timed_once(f"paf: {jobs} jobs, {slots} slots, the paper's heaps", lambda: plain_heaps(lists, own.tolist(), KNOB))  # noqa: B023  called at once
            yield plain
            yield figure(f"paf: {jobs} jobs, {slots} slots, heaps / ours", plain.value / ours.value, "ratio")


def round_of_jobs(jobs: int, slots: int) -> Iterator[Measurement]:
    """Measure the whole round: fair shares, evaluation of Ernest curves, the transfer, a decision and its sentence for each job."""
    rng = np.random.default_rng(2)
    request = np.array([1.0, 4.0])
    batch = []
    for number in range(jobs):
        most = int(rng.integers(10, 200))
        curve = ErnestCurve(0.3, 0.0, 0.7 * most, 0.0)
        batch.append(ElasticJob(f"job-{number:04d}", "q", float(rng.integers(1, 12)), 1, most, 0, request, curve))
    available = {"q": request * slots}
    yield timed(f"paf: divide_slots, {jobs} jobs, {slots} slots", lambda: divide_slots(batch, available, SlotRules(KNOB)), repeats=11)
