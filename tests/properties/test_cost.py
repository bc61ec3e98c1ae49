"""A round's cost is bounded by what there is to decide on, never by how large its numbers are (docs/decisions/0280)."""

from __future__ import annotations

import dataclasses
import random
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

from fairburst.policy.decide import decide
from fairburst.policy.model import (
    Burst,
    ClusterSnapshot,
    Memory,
    Periodic,
    PolicyConfig,
    QueueKind,
    QueueSpec,
    Sporadic,
    WaitingPods,
)
from tests.support.policy import RESOURCES, snapshot, throughput

MOST_CALLS = 200_000  # of functions in one round; ten queues take about two thousand
FOUND = (62, 112, 122, 352, 558, 578, 788, 100_047)  # seeds whose rounds took minutes, or never ended


def magnitude(source: random.Random) -> float:
    """Draw an amount: none, a usual one, or any that the operator lets through."""
    return source.choice((0.0, 10 ** source.uniform(-9, 18), 10 ** source.uniform(-3, 6), float(source.randint(1, 10)), 1.0))


def queue(source: random.Random, row: int, resources: tuple[str, ...]) -> QueueSpec:
    name, weight = f"q{row}", float(source.choice((1, 1, 2, 1e6)))
    limits = {resources[source.randrange(len(resources))]: magnitude(source)} if source.random() < 0.3 else {}
    if source.random() < 0.5:
        return throughput(name, 0.0, weight, **limits)
    duration = source.choice((1.0, 30.0, 1e5))
    deadline = duration * source.choice((1, 1, 2, 10))
    amounts = {one: max(magnitude(source), 1e-3) for one in source.sample(resources, source.randint(1, len(resources)))}
    periodic = Periodic(deadline * source.choice((1, 3)), source.choice((None, 5.0)))
    arrival = source.choice((Sporadic(deadline * source.choice((1, 3))), periodic))
    return QueueSpec(name, QueueKind.LATENCY, (0.0, name), weight, Burst(amounts, duration, deadline), arrival)


def waiting(source: random.Random, queues: int, width: int) -> WaitingPods | None:
    rows = sorted(source.randrange(queues) for _ in range(source.randint(0, 6)))
    lines = [([magnitude(source) for _ in range(width)], float(source.choice((1, 3, 1000, 1e7, 1e15)))) for _ in rows]
    if not rows or source.random() < 0.3:
        return None
    request, count = zip(*lines, strict=True)
    return WaitingPods(np.array(rows), np.array(request), np.array(count), source.random() < 0.5)


def calls_of(given: ClusterSnapshot, memory: Memory, now: float) -> tuple[int, Memory]:
    """Decide, and return the number of calls of functions and the memory. Too many calls are an error."""
    calls = 0

    def count(_: FrameType, event: str, __: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}
        assert calls <= MOST_CALLS

    sys.setprofile(count)
    try:
        _, after = decide(given, memory, PolicyConfig(), now)
    finally:
        sys.setprofile(None)
    return calls, after


@pytest.mark.parametrize("seed", [*FOUND, *range(200_000, 200_100)])
def test_no_number_makes_a_round_long(seed: int) -> None:
    """Found by fuzzed objects: pods were added one by one where 2^60 of them fitted."""
    source = random.Random(seed)
    count, width = source.randint(1, 10), source.randint(1, 4)
    resources = RESOURCES[:width]
    capacity = np.array([magnitude(source) for _ in range(width)])
    queues = tuple(queue(source, row, resources) for row in range(count))
    memory, now = Memory(), 0.0
    for _ in range(4):
        unit, demand, usage = (np.array([[magnitude(source) for _ in range(width)] for _ in range(count)]) for _ in range(3))
        usage = np.minimum(demand, usage) * source.choice((0, 1))
        given = dataclasses.replace(snapshot(queues, capacity.tolist(), demand, usage, unit), waiting=waiting(source, count, width))
        calls, memory = calls_of(given, memory, now)
        assert calls > 10
        now += source.choice((1.0, 10.0, 1e4))
