"""Whole horizons with integer pods against the task-by-task loop of Ghodsi et al. (NSDI 2011, Algorithm 1): nothing starves or idles long.

200 cases in CI; FAIRBURST_HORIZON_CASES sets another number (100,000 for a night).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
import pytest

from fairburst.policy.arrays import FloatArray
from tests.support.pod_runs import NEARLY, PodRun, Pods
from tests.support.policy import throughput
from tests.support.strategies import START

CASES = int(os.environ.get("FAIRBURST_HORIZON_CASES", "200"))
CHUNK = 25
LONG = 100_000.0


def random_run(seed: int) -> PodRun:
    """Up to 5 queues with up to 3 runs of pods each; every fourth case has pods that fill the cluster, every fifth unlike mixes only."""
    rng = np.random.default_rng(seed)
    width, count = int(rng.integers(1, 4)), int(rng.integers(1, 6))
    capacity = rng.integers(6, 30, width).astype(np.float64)
    queues, pods = [], []
    for row in range(count):
        queues.append(throughput(f"q{row}", float(row), float(rng.choice([1.0, 2.0]))))
        lines = []
        for number in range(int(rng.integers(1, 4))):
            request = np.minimum(rng.integers(0, 6, width).astype(np.float64), capacity)
            if seed % 5 == 0:
                request = np.where(np.arange(width) == (row + number) % width, 4.0, 1.0)
            if seed % 4 == 0 and row == 0:
                request = capacity.copy()
            request[0] = max(request[0], 1.0)
            lines.append(Pods(request, float(rng.choice([30, 60, 120])), float(rng.integers(1, 9)), float(rng.choice([0, 0, 90]))))
        pods.append(lines)
    return PodRun(tuple(queues), capacity, pods)


def end_of(run: PodRun) -> float:
    """Seconds until the last pod has ended, by `decide`."""
    work = sum(float(np.max(one.request / run.capacity)) * one.seconds * one.count for lines in run.pods for one in lines)
    expected: FloatArray = np.zeros_like(run.capacity)
    for lines in run.pods:
        for one in lines:
            expected += one.request * one.seconds * one.count
    for horizon in (work + 600.0, 4 * work + LONG):
        fresh = PodRun(run.queues, run.capacity, run.pods, run.config)
        fresh.run(START, horizon)
        if np.allclose(fresh.received.sum(axis=0), expected, rtol=1e-6):
            return fresh.last_use - START
    raise AssertionError(f"pods wait for ever: used {fresh.received.sum(axis=0)}, expected {expected}")


def end_of_the_loop(run: PodRun) -> float:
    """The same by the loop: whenever a pod ends or comes, the queue of the lowest weighted dominant share starts one that fits."""
    usage, now, ends = np.zeros((len(run.queues), len(run.capacity))), 0.0, list[tuple[float, int, int]]()
    waits = [[one.count for one in lines] for lines in run.pods]
    while True:
        _start_by_share(run, usage, waits, ends, now)
        coming = [one.since for lines in run.pods for one in lines if one.since > now + NEARLY]
        times = [end for end, _, _ in ends] + coming
        if not times:
            return now
        now = min(times)
        for ended in [one for one in ends if one[0] <= now + NEARLY]:
            ends.remove(ended)
            usage[ended[1]] -= run.pods[ended[1]][ended[2]].request


def _start_by_share(run: PodRun, usage: FloatArray, waits: Sequence[list[float]], ends: list[tuple[float, int, int]], now: float) -> None:
    while True:
        free, best = run.capacity - usage.sum(axis=0), (math.inf, -1, -1)
        for row, lines in enumerate(run.pods):
            share = float((usage[row] / run.capacity).max()) / run.queues[row].weight
            for number, one in enumerate(lines):
                ready = waits[row][number] > 0 and one.since <= now + NEARLY and (one.request <= free + NEARLY).all()
                if ready and share < best[0]:
                    best = (share, row, number)
        _, row, number = best
        if row < 0:
            return
        usage[row] += run.pods[row][number].request
        waits[row][number] -= 1
        ends.append((now + run.pods[row][number].seconds, row, number))


@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_all_pods_end_about_when_the_loop_ends_them(first: int) -> None:
    ratios = []
    for seed in range(first, min(first + CHUNK, CASES)):
        run = random_run(seed)
        ours, theirs = end_of(run), end_of_the_loop(run)
        longest = max(one.seconds for lines in run.pods for one in lines)
        assert ours <= theirs * 1.5 + 2 * longest, (seed, ours, theirs)
        ratios.append(ours / theirs)
    assert np.mean(ratios) <= 1.05, ratios
