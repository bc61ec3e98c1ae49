"""Slow, obvious references for the division of slots: the paper's heaps, and the best of all divisions."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

import numpy as np

from fairburst.policy.arrays import FloatArray, IntArray

Curves = Sequence[FloatArray]


def total(progress: Curves, slots: Sequence[int]) -> float:
    return float(sum(curve[own] for curve, own in zip(progress, slots, strict=True)))


def heaps(progress: Curves, fair: Sequence[int], minimum: Sequence[int], fairness_knob: float) -> list[int]:
    """Algorithm 1 as printed, a slot at a time, with a heap of givers (Y) and one of takers (J). For concave curves."""
    slots = list(fair)
    least = [
        min(x for x in range(low, own + 1) if curve[x] >= fairness_knob * curve[own])
        for curve, own, low in zip(progress, fair, minimum, strict=True)
    ]
    steps = [np.diff(curve).tolist() for curve in progress]
    givers = [(steps[row][own - 1], row) for row, own in enumerate(slots) if own > least[row]]
    takers = [(-steps[row][own], row) for row, own in enumerate(slots) if own < len(steps[row])]
    heapq.heapify(givers)
    heapq.heapify(takers)
    while givers and takers:
        loss, giver = givers[0]
        gain, taker = takers[0]
        if loss + 1e-12 >= -gain:
            break
        slots[giver] -= 1
        slots[taker] += 1
        if slots[giver] > least[giver]:
            heapq.heapreplace(givers, (steps[giver][slots[giver] - 1], giver))
        else:
            heapq.heappop(givers)
        if slots[taker] < len(steps[taker]):
            heapq.heapreplace(takers, (-steps[taker][slots[taker]], taker))
        else:
            heapq.heappop(takers)
    return slots


def brute_force(
    progress: Curves, fair: IntArray, minimum: IntArray, request: FloatArray, available: FloatArray, fairness_knob: float
) -> float:
    """Best sum of progress of all divisions that keep α and capacity."""
    choices = [
        [x for x in range(len(curve)) if x >= min(low, own) and curve[x] >= fairness_knob * curve[own]]
        for curve, own, low in zip(progress, fair.tolist(), minimum.tolist(), strict=True)
    ]
    limit = available * (1 + 1e-9)
    fitting = (each for each in itertools.product(*choices) if ((np.array(each)[:, None] * request).sum(axis=0) <= limit).all())
    return max(total(progress, each) for each in fitting)
