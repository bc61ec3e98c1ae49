"""Builders for the core's inputs, and a fluid driver: virtual time around `decide`, work as a liquid that flows at the granted rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.decide import decide
from fairburst.policy.model import (
    Arrival,
    Burst,
    ClusterSnapshot,
    Memory,
    Periodic,
    PolicyConfig,
    QueueKind,
    QueueSpec,
    RoundEvent,
    RoundResult,
    Sporadic,
    Window,
)

START = 1_000_000.0
RESOURCES = ("cpu", "memory", "nvidia.com/gpu", "ephemeral-storage", "hugepages-2Mi", "example.com/fpga")


def throughput(name: str, order: float = 0.0, weight: float = 1.0, *, suspended: bool = False, **limits: float) -> QueueSpec:
    """A throughput queue; keyword arguments are its limits by resource."""
    return QueueSpec(name, QueueKind.THROUGHPUT, (order, name), weight, limits=limits, suspended=suspended)


def latency(
    name: str, order: float, resources: Sequence[float], duration: float, arrival: Arrival, deadline: float | None = None,
    weight: float = 1.0, *, suspended: bool = False,
) -> QueueSpec:  # fmt: skip
    """A latency queue whose burst needs `resources` (in the order of RESOURCES) for `duration` seconds."""
    burst = Burst(dict(zip(RESOURCES, resources, strict=False)), duration, duration if deadline is None else deadline)
    return QueueSpec(name, QueueKind.LATENCY, (order, name), weight, burst, arrival, suspended=suspended)


def bursting(name: str = "l/q", order: float = 1.0) -> QueueSpec:
    """A sporadic latency queue: 8 of 10 cores for 10 s, once in 100 s."""
    return latency(name, order, [8.0], 10, Sporadic(100))


def snapshot(
    queues: tuple[QueueSpec, ...], capacity: Sequence[float], demand: object, usage: object = None, unit: object = None,
    committed: Sequence[float] | None = None,
) -> ClusterSnapshot:  # fmt: skip
    """A snapshot; usage defaults to nothing, units to divisible, committed to live capacity."""
    shape = (len(queues), len(capacity))
    live = np.array(capacity, dtype=np.float64)
    return ClusterSnapshot(
        resources=RESOURCES[: len(capacity)],
        live_capacity=live,
        committed_capacity=live if committed is None else np.array(committed, dtype=np.float64),
        queues=queues,
        demand=np.array(demand, dtype=np.float64).reshape(shape),
        usage=np.zeros(shape) if usage is None else np.array(usage, dtype=np.float64).reshape(shape),
        unit=np.zeros(shape) if unit is None else np.array(unit, dtype=np.float64).reshape(shape),
    )


class Pool:
    """Some queues on `capacity` cores; each call of `at` is a round in which `wants` is wanted and `uses` is used, one number a queue."""

    def __init__(self, *queues: QueueSpec, capacity: float = 10.0) -> None:
        self.queues, self.capacity, self.memory = queues, capacity, Memory()

    def at(self, seconds: float, wants: list[float] | None = None, uses: list[float] | None = None) -> RoundResult:
        nothing = [0.0] * len(self.queues)
        value = snapshot(self.queues, [self.capacity], wants or nothing, uses or nothing)
        result, self.memory = decide(value, self.memory, PolicyConfig(), START + seconds)
        return result

    def window(self, row: int) -> Window:
        window = self.memory.queues[self.queues[row].name].window
        assert window is not None
        return window


@dataclass
class Work:
    """One burst of real work: wants `rate` until `rate x seconds` has been done. Infinite seconds: a backlog that never ends.

    `gives_up`: at its deadline its owner drops the unfinished work.
    """

    queue: str
    arrival: float
    rate: FloatArray
    seconds: float
    deadline: float = float("inf")
    finished: float = float("inf")
    gives_up: bool = False

    def wants(self, now: float, left: float) -> bool:
        return self.arrival <= now + 1e-9 and left > 1e-9 and not (self.gives_up and now >= self.deadline - 1e-9)

    @property
    def met(self) -> bool:
        return self.finished <= self.deadline + 1e-3


@dataclass
class History:
    """The integrals of granted dominant share by queue (all, and without spare), every result and every event of a run."""

    total: dict[str, float] = field(default_factory=dict)
    guaranteed: dict[str, float] = field(default_factory=dict)
    results: list[RoundResult] = field(default_factory=list)
    snapshots: list[ClusterSnapshot] = field(default_factory=list)
    events: list[tuple[float, RoundEvent]] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)


def run_fluid(
    queues: tuple[QueueSpec, ...], capacity: Sequence[float], work: Sequence[Work], start: float, until: float,
    config: PolicyConfig | None = None, longest_step: float = 10.0,
) -> History:  # fmt: skip
    """Let work flow at exactly the granted rates, round after round at boundaries, arrivals and completions."""
    config = config or PolicyConfig()
    total = np.array(capacity, dtype=np.float64)
    history = History(total={spec.name: 0.0 for spec in queues}, guaranteed={spec.name: 0.0 for spec in queues})
    row_of = {spec.name: row for row, spec in enumerate(queues)}
    left = {id(item): item.seconds for item in work}
    now, usage = start, np.zeros((len(queues), len(capacity)))
    while now < until:
        active = [item for item in work if item.wants(now, left[id(item)])]
        demand = np.zeros_like(usage)
        for item in active:
            demand[row_of[item.queue]] += item.rate
        given = snapshot(queues, capacity, demand, usage)
        result, history.memory = decide(given, history.memory, config, now)
        history.events += [(now, event) for event in result.events]
        if not np.allclose(result.allocation, usage, rtol=1e-12, atol=0):
            # the pods follow at once: decide again with what now runs, so that charges start at this instant
            usage = result.allocation.copy()
            given = snapshot(queues, capacity, demand, usage)
            result, history.memory = decide(given, history.memory, config, now)
            history.events += [(now, event) for event in result.events]
        history.results.append(result)
        history.snapshots.append(given)
        flow = {id(item): _flow(result.allocation[row_of[item.queue]], demand[row_of[item.queue]]) for item in active}
        ends = [now + left[id(item)] / flow[id(item)] for item in active if flow[id(item)] > 0]
        arrivals = [item.arrival for item in work if item.arrival > now + 1e-9]
        dropped = [item.deadline for item in active if item.gives_up]
        then = min([until, now + longest_step, result.next_boundary, *ends, *arrivals, *dropped])
        then = max(then, now + 1e-3)
        for spec, row in zip(queues, range(len(queues)), strict=True):
            history.total[spec.name] += float((result.allocation[row] / total).max()) * (then - now)
            history.guaranteed[spec.name] += float((result.guaranteed[row] / total).max()) * (then - now)
        for item in active:
            left[id(item)] -= flow[id(item)] * (then - now)
            if left[id(item)] <= 1e-9:
                item.finished = then
        now = then
    return history


def _flow(granted: FloatArray, wanted: FloatArray) -> float:
    """Fraction of full speed: the scarcest resource decides."""
    needs = wanted > 0
    return float(np.min(granted[needs] / wanted[needs])) if needs.any() else 0.0


def bursts_of(spec: QueueSpec, capacity: Sequence[float], start: float, until: float, scale: float = 1.0) -> list[Work]:
    """Work that comes exactly as declared (demand scaled by `scale`), due by the declared deadline."""
    assert spec.burst is not None
    rate = np.array([spec.burst.resources.get(name, 0.0) for name in RESOURCES[: len(capacity)]]) * scale
    match spec.arrival:
        case Periodic(period, first, _):
            begin, every = (start if first is None else first), period
        case Sporadic(every):
            begin = start
        case _:
            raise AssertionError("schedules are written out by the test")
    times = np.arange(begin, until, every)
    return [Work(spec.name, float(at), rate, spec.burst.duration_seconds, float(at) + spec.burst.deadline_seconds) for at in times]


def backlog(name: str, rate: Sequence[float], arrival: float = 0.0) -> Work:
    """Work that never ends."""
    return Work(name, arrival, np.array(rate, dtype=np.float64), float("inf"))
