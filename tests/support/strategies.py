"""Hypothesis strategies for the core: small integers plus a pool of nasty cases."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from fairburst.policy.model import Arrival, ClusterSnapshot, Periodic, QueueSpec, Schedule, ScheduledBurst, Sporadic
from tests.support.policy import RESOURCES, START, latency, snapshot, throughput

WEIGHTS = st.sampled_from([1.0, 1.0, 1.0, 2.0, 3.0, 0.5])


@st.composite
def capacities(draw: st.DrawFn, width: int | None = None) -> list[float]:
    width = draw(st.integers(1, 3)) if width is None else width
    return [float(draw(st.integers(1, 40))) for _ in range(width)]


@st.composite
def arrivals(draw: st.DrawFn, period: float) -> Arrival:
    kind = draw(st.sampled_from(["periodic", "floating", "sporadic"]))
    jitter = float(draw(st.sampled_from([0, 0, 1, 3])))
    if kind == "sporadic":
        return Sporadic(period)
    return Periodic(period, START + draw(st.integers(0, 30)) if kind == "periodic" else None, min(jitter, period / 2))


@st.composite
def latency_queues(draw: st.DrawFn, name: str, order: float, width: int) -> QueueSpec:
    duration = float(draw(st.integers(1, 10)))
    deadline = duration + draw(st.integers(0, 5))
    period = deadline + draw(st.sampled_from([0, 5, 20, 60]))
    resources = [float(draw(st.integers(0, 12))) for _ in range(width)]
    return latency(name, order, resources, duration, draw(arrivals(period)), deadline, draw(WEIGHTS))


@st.composite
def scheduled_queues(draw: st.DrawFn, name: str, order: float, width: int) -> QueueSpec:
    at, bursts = START, []
    for _ in range(draw(st.integers(1, 4))):
        at += draw(st.integers(0, 10))
        one = draw(latency_queues(name, order, width)).burst
        assert one is not None
        bursts.append(ScheduledBurst(at, one))
        at += one.deadline_seconds
    base = throughput(name, order, draw(WEIGHTS))
    return QueueSpec(name, latency(name, order, [1.0], 1, Sporadic(1)).kind, base.order, base.weight, None, Schedule(tuple(bursts)))


@st.composite
def queue_sets(draw: st.DrawFn, width: int, most: int = 6) -> tuple[QueueSpec, ...]:
    specs = []
    for number in range(draw(st.integers(1, most))):
        name = f"ns{draw(st.integers(0, 9))}-{number}/q"
        kind = draw(st.sampled_from(["throughput", "latency", "latency", "scheduled"]))
        match kind:
            case "throughput":
                limits = {RESOURCES[0]: float(draw(st.integers(0, 20)))} if draw(st.booleans()) else {}
                specs.append(throughput(name, float(number), draw(WEIGHTS), **limits))
            case "latency":
                specs.append(draw(latency_queues(name, float(number), width)))
            case _:
                specs.append(draw(scheduled_queues(name, float(number), width)))
    return tuple(specs)


@st.composite
def snapshots(draw: st.DrawFn, *, units: bool = True) -> ClusterSnapshot:
    capacity = draw(capacities())
    queues = draw(queue_sets(len(capacity)))
    shape = (len(queues), len(capacity))
    cells = shape[0] * shape[1]
    unit = np.zeros(shape)
    if units:
        unit = np.array(draw(st.lists(st.sampled_from([0.0, 1.0, 1.0, 2.0, 3.0]), min_size=cells, max_size=cells))).reshape(shape)
    pods = np.array(draw(st.lists(st.integers(0, 12), min_size=shape[0], max_size=shape[0])), dtype=np.float64)
    free = np.array(draw(st.lists(st.integers(0, 30), min_size=cells, max_size=cells)), dtype=np.float64).reshape(shape)
    demand = np.where(unit.any(axis=1, keepdims=True), unit * pods[:, None], free)
    return snapshot(queues, capacity, demand, demand * 0, unit)
