"""Dividing slots by what they are worth: 1,000 jobs on 100,000 slots, 200 on 8,000, concave curves and others, and the paper's heaps."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.measure import Measurement, benchmark, figure, timed, timed_once
from fairburst.policy.model import FloatArray
from fairburst.policy.paf.curves import ErnestCurve
from fairburst.policy.paf.divide import SlotRules, divide_slots
from fairburst.policy.paf.jobs import ElasticJob
from fairburst.policy.paf.transfer import transfer_slots

KNOB = 0.9


def make_curves(jobs: int, slots: int, *, concave: bool, seed: int = 1) -> list[FloatArray]:
    """Curves from a quarter of to three times the mean share; not concave: with noise of a hundredth, as profiles have."""
    rng = np.random.default_rng(seed)
    most = rng.integers(max(slots // jobs // 4, 1), slots // jobs * 3, jobs)
    curves = [(np.arange(each + 1) / each) ** rng.uniform(0.1, 0.9) for each in most]
    if concave:
        return curves
    return [np.concatenate(([0.0], np.clip(curve[1:] + rng.normal(0, 0.01, len(curve) - 1), 0, 1))) for curve in curves]


def plain_heaps(curves: Sequence[Sequence[float]], fair: Sequence[int], fairness_knob: float) -> list[int]:
    """Algorithm 1 as the paper prints it, in plain Python: two heaps, a slot at a time. Right for concave curves."""
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


@benchmark
def paf() -> Iterator[Measurement]:
    """Algorithm 1 for 1,000 jobs on 100,000 slots and 200 on 8,000."""
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
    """All of it: fair shares, evaluating Ernest curves, the transfer, a decision with its sentence for each job."""
    rng = np.random.default_rng(2)
    request = np.array([1.0, 4.0])
    batch = []
    for number in range(jobs):
        most = int(rng.integers(10, 200))
        curve = ErnestCurve(0.3, 0.0, 0.7 * most, 0.0)
        batch.append(ElasticJob(f"job-{number:04d}", "q", float(rng.integers(1, 12)), 1, most, 0, request, curve))
    available = {"q": request * slots}
    yield timed(f"paf: divide_slots, {jobs} jobs, {slots} slots", lambda: divide_slots(batch, available, SlotRules(KNOB)), repeats=11)
