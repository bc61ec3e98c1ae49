"""Speed of the decision core (targets on 2 cores): rounds, admission, growth, memory, and the factor over plain Python."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.measure import Measurement, benchmark, figure, timed, timed_once
from fairburst.policy.conditions import AdmissionState, loads
from fairburst.policy.decide import decide
from fairburst.policy.declared import Declared, compile_queues
from fairburst.policy.drf import fill
from fairburst.policy.hard_queue import HardQueue
from fairburst.policy.model import (
    Burst,
    ClusterSnapshot,
    GuaranteeClass,
    Memory,
    Periodic,
    PolicyConfig,
    QueueKind,
    QueueSpec,
    Schedule,
    Sporadic,
)
from fairburst.policy.profile import HardQueues
from fairburst.policy.schedule import BurstTable
from fairburst.policy.table import OPEN

NOW = 1_800_000_000.0
RESOURCES = ("cpu", "memory", "nvidia.com/gpu", "ephemeral-storage", "example.com/in", "example.com/out")
CONFIG = PolicyConfig()


def make_queues(count: int, width: int) -> tuple[QueueSpec, ...]:
    """Return half latency queues (periodic, sporadic), half throughput queues. Small bursts, so all are admitted and most are hard."""
    specs = []
    for number in range(count):
        name, order = f"ns-{number:06d}/queue", (float(number), f"ns-{number:06d}/queue")
        if number % 2:
            specs.append(QueueSpec(name, QueueKind.THROUGHPUT, order, 1.0 + number % 3))
            continue
        burst = Burst({resource: 1.0 + (number + k) % 5 for k, resource in enumerate(RESOURCES[:width])}, 30.0, 40.0)
        arrival = Sporadic(600.0) if number % 4 else Periodic(600.0, NOW + number % 500, 5.0)
        specs.append(QueueSpec(name, QueueKind.LATENCY, order, 1.0, burst, arrival))
    return tuple(specs)


def make_snapshot(count: int, width: int, active: bool, seed: int = 1) -> ClusterSnapshot:
    rng = np.random.default_rng(seed)
    queues = make_queues(count, width)
    capacity = np.full(width, count * 8.0)
    shape = (count, width)
    unit = rng.integers(1, 4, shape).astype(np.float64) if active else np.zeros(shape)
    demand = unit * rng.integers(1, 12, (count, 1)) if active else np.zeros(shape)
    usage = np.minimum(demand, unit * 3)
    demand, usage, unit = (np.asfortranarray(matrix) for matrix in (demand, usage, unit))
    return ClusterSnapshot(RESOURCES[:width], capacity, capacity, queues, demand, usage, unit)


def settled(snapshot: ClusterSnapshot) -> Memory:
    """Return the memory after two rounds: all queues admitted, windows open."""
    _, memory = decide(snapshot, Memory(), CONFIG, NOW)
    return decide(snapshot, memory, CONFIG, NOW + 1)[1]


@benchmark
def decide_round() -> Iterator[Measurement]:
    """Measure one decide for 20,000 queues x 6 resources: all active, none active."""
    yield from round_of(20_000, 10.0, 0.2)


def round_of(count: int, target: float | None, quiet_target: float | None) -> Iterator[Measurement]:
    snapshot = make_snapshot(count, 6, True)
    memory = settled(snapshot)
    last: list[object] = [None]  # every driver keeps the last result until the next one; else the allocator returns its memory each time

    def round_() -> None:
        last[0] = decide(snapshot, memory, CONFIG, NOW + 2)

    active = timed(f"decide {count} queues x 6, all active", round_, target=target)
    yield active
    slow = timed_once(f"divide among {count} queues x 6 in plain Python", plain_round(snapshot, memory))
    yield from (
        slow,
        figure("plain Python (filling and rounding alone) / our whole round", slow.value / active.value, "ratio", 5.0, at_least=True),
    )
    idle = make_snapshot(count, 6, False)
    remembered = settled(idle)
    quiet = timed(f"decide {count} queues x 6, nothing active", lambda: decide(idle, remembered, CONFIG, NOW + 2), target=quiet_target)
    yield quiet
    demand, usage = idle.demand.tolist(), idle.usage.tolist()
    looked = timed_once("see in plain Python that nothing is active", lambda: any(map(any, demand)) or any(map(any, usage)))
    yield from (looked, figure("nothing active: plain Python / ours", looked.value / quiet.value, "ratio", 5.0, at_least=True))


@benchmark
def decide_pods() -> Iterator[Measurement]:
    """Measure one decide for 1,000 queues whose demand is 50,000 pods. Building the arrays is excluded and reported separately."""
    yield from round_of_pods(1_000, 50_000, 5.0)


def round_of_pods(count: int, pods: int, target: float | None) -> Iterator[Measurement]:
    rng = np.random.default_rng(5)
    queue_of, running = rng.integers(0, count, pods), rng.random(pods) < 0.5
    charge = np.zeros((pods, 6))
    charge[:, :2] = rng.integers(1, 5, (pods, 2)) * (0.25, 2.0**29)

    def build() -> ClusterSnapshot:
        demand, usage, unit = (np.zeros((count, 6), order="F") for _ in range(3))
        np.add.at(demand, queue_of, charge)
        np.add.at(usage, queue_of[running], charge[running])
        np.maximum.at(unit, queue_of, charge)
        capacity = np.maximum(charge.sum(axis=0) * 0.6, count)
        return ClusterSnapshot(RESOURCES, capacity, capacity, queues, demand, usage, unit)

    queues = make_queues(count, 6)
    yield timed(f"build the arrays of {pods} pods", build, repeats=3)
    snapshot = build()
    memory = settled(snapshot)
    what = f"decide {count} queues with {pods} pods as demand"
    ours = timed(what, lambda: decide(snapshot, memory, CONFIG, NOW + 2), target=target)
    slow = timed_once(f"divide among {count} queues in plain Python", plain_round(snapshot, memory))
    yield from (ours, slow, figure(f"{count} queues: plain Python / our whole round", slow.value / ours.value, "ratio", 2.0, at_least=True))


@benchmark
def decide_growth() -> Iterator[Measurement]:
    """Measure the growth of one round from 1,000 to 100,000 queues against n log n."""
    yield from growth_over((1_000, 3_000, 10_000, 30_000, 100_000), 1.5)


def growth_over(counts: Sequence[int], target: float | None) -> Iterator[Measurement]:
    base = None
    for count in counts:
        snapshot = make_snapshot(count, 6, True)
        memory = settled(snapshot)
        result = timed(f"decide {count} queues x 6", lambda s=snapshot, m=memory: decide(s, m, CONFIG, NOW + 2), repeats=7)  # type: ignore[misc]
        yield result
        per = result.value / (count * math.log(count))
        base = per if base is None else base
        yield figure(f"decide {count}: time / (n log n), relative to {counts[0]}", per / base, "ratio", target)


@benchmark
def decide_memory() -> Iterator[Measurement]:
    """Measure the peak memory of one round over 20,000 queues x 6, specs and snapshot included."""
    yield from memory_of(20_000, 150.0)


def memory_of(count: int, target: float | None) -> Iterator[Measurement]:
    tracemalloc.start()
    snapshot = make_snapshot(count, 6, True)
    decide(snapshot, settled(snapshot), CONFIG, NOW + 2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    yield figure(f"decide {count} queues x 6, peak memory", peak / 2**20, "MB", target)


@benchmark
def progressive_filling() -> Iterator[Measurement]:
    """Measure weighted DRF of 5,000 queues x 6."""
    rng = np.random.default_rng(3)
    demand = np.asfortranarray(rng.integers(1, 40, (5_000, 6)).astype(np.float64))
    weight = rng.integers(1, 4, 5_000).astype(np.float64)
    capacity = demand.sum(axis=0) * 0.4
    uncapped = np.full(5_000, math.inf)
    lists = demand.tolist(), weight.tolist(), capacity.tolist(), capacity.tolist()
    fast = timed("fill 5000 queues x 6", lambda: fill(demand, uncapped, weight, capacity, capacity))
    slow = timed("fill 5000 queues x 6, plain Python", lambda: plain_fill(*lists), repeats=1)
    yield from (fast, slow, figure("fill: plain Python / ours", slow.value / fast.value, "ratio", 10.0, at_least=True))


def plain_fill(demand: list[list[float]], weight: list[float], left: list[float], capacity: list[float]) -> list[float]:
    """Return each queue's multiple of its demand under weighted DRF.

    Walk the levels at which queues are satisfied, in ascending order, until a resource is exhausted. The queues that use it stop there and
    the others continue. O(n log n + n K), and K more passes.
    """
    share = [max(d / c for d, c in zip(row, capacity, strict=True)) for row in demand]
    multiple = [0.0] * len(demand)
    active = sorted((i for i in range(len(demand)) if share[i] > 0), key=lambda i: share[i] / weight[i])
    left, level, columns = list(left), 0.0, range(len(capacity))
    while active:
        velocity = {i: [d * weight[i] / share[i] for d in demand[i]] for i in active}
        speed = [sum(v[k] for v in velocity.values()) for k in columns]
        full: list[int] = []
        for position, i in enumerate(active):
            until = share[i] / weight[i]
            step = min((left[k] / speed[k] for k in columns if speed[k] > 1e-9), default=math.inf)
            if level + step < until:
                level += step
                left = [max(0.0, left[k] - step * speed[k]) for k in columns]
                full = [k for k in columns if speed[k] > 1e-9 and left[k] <= 1e-9 * capacity[k]]
                active = active[position:]
                break
            left = [left[k] - (until - level) * speed[k] for k in columns]
            speed = [speed[k] - velocity[i][k] for k in columns]
            level, multiple[i] = until, 1.0
        else:
            return multiple
        for i in active:
            multiple[i] = min(1.0, level * weight[i] / share[i])
        active = [i for i in active if not any(demand[i][k] > 0 for k in full)]
    return multiple


def plain_round(snapshot: ClusterSnapshot, memory: Memory) -> Callable[[], None]:
    """Return a function for the division alone, without windows, ledgers and admission: hard rates, filling, whole units."""
    columns = memory.columns
    if columns is None:
        raise AssertionError("expected a memory that came out of a round, found one without columns")
    demand, unit, rate = snapshot.demand.tolist(), snapshot.unit.tolist(), columns.declared.rate.tolist()
    weight, capacity = columns.declared.weight.tolist(), snapshot.live_capacity.tolist()
    opened = (columns.state == OPEN).tolist()

    def run() -> None:
        hard = [[min(r, d) for r, d in zip(rate[i], demand[i], strict=True)] if is_open else None for i, is_open in enumerate(opened)]
        left = list(capacity)
        for row in hard:
            if row is not None:
                left = [amount - one for amount, one in zip(left, row, strict=True)]
        wanted = [row if hard[i] is None else [0.0] * len(capacity) for i, row in enumerate(demand)]
        multiple = plain_fill(wanted, weight, left, capacity)
        for i, row in enumerate(wanted):
            whole = [math.floor(d * multiple[i] / u) * u if u > 0 else d * multiple[i] for d, u in zip(row, unit[i], strict=True)]
            left = [amount - one for amount, one in zip(left, whole, strict=True)]

    return run


def make_load(latency_queues: int, throughput_queues: int, bursts: int = 0) -> tuple[QueueSpec, ...]:
    """Return the paper's load (BoPF §5.2.4) with bursts that all fit: (1), (2) and (3a) decide every candidate.

    With `bursts`, each latency queue has that many explicitly scheduled ones, as the columns of a loader. Otherwise they are periodic.
    """
    specs = []
    for number in range(latency_queues + throughput_queues):
        name = f"ns-{number:06d}/queue"
        order = (float(number), name)
        if number >= latency_queues:
            specs.append(QueueSpec(name, QueueKind.THROUGHPUT, order))
        elif bursts:
            specs.append(QueueSpec(name, QueueKind.LATENCY, order, arrival=Schedule(burst_table(number, bursts))))
        else:
            burst = Burst({"cpu": 1.0 + number % 3, "memory": 2.0**30}, 20.0, 40.0)
            specs.append(QueueSpec(name, QueueKind.LATENCY, order, 1.0, burst, Periodic(600.0, NOW + number % 500)))
    return tuple(specs)


def burst_table(number: int, bursts: int) -> BurstTable:
    """Return arrivals ten minutes apart, plus or minus two, with a different demand for each burst."""
    rng = np.random.default_rng(number)
    arrival = NOW + 600.0 * np.arange(bursts) + rng.uniform(0.0, 120.0, bursts)
    amounts = np.stack([rng.uniform(0.5, 1.0 + number % 3, bursts), np.full(bursts, 2.0**30)], axis=1)
    return BurstTable(("cpu", "memory"), arrival, np.full(bursts, 20.0), np.full(bursts, 40.0), amounts)


@benchmark
def admission_scheduled() -> Iterator[Measurement]:
    """Measure 10,000 latency queues with 500 explicitly scheduled bursts each and 10,000 throughput queues (BoPF §5.2.4).

    "read" is the loader's work once per schedule, given the columns: it checks every number and finds the heaviest burst. "load" is
    everything from the tuple of specs to the arrays of the conditions. "decide" is every condition of every candidate.
    """
    yield from scheduled_admission(10_000, 10_000, 500)


def scheduled_admission(latency_queues: int, throughput_queues: int, bursts: int) -> Iterator[Measurement]:
    queues = make_load(latency_queues, throughput_queues, bursts)
    resources, capacity = RESOURCES[:2], np.array([3.0 * len(queues), len(queues) * 2.0**31])
    yield timed_once(f"admission: read {latency_queues * bursts} scheduled bursts, once", lambda: read_schedules(queues))
    what = f"admission: load {len(queues)} specs with {latency_queues * bursts} bursts"
    yield timed(what, lambda: compile_queues(queues, resources, 3600.0), target=60.0, repeats=7)
    declared = compile_queues(queues, resources, 3600.0)
    everybody = np.arange(len(queues))
    state = AdmissionState(capacity, CONFIG)

    def decide_all() -> int:
        return len(state.decided_at_once(declared, everybody, loads(declared, capacity)))

    if decide_all() != len(queues):
        raise AssertionError(f"expected all {len(queues)} candidates decided at once, found {decide_all()}")
    yield timed(f"admission: {len(queues)} candidates with {latency_queues * bursts} bursts once loaded", decide_all, target=1.0)
    ours = timed("admission: the same, again", decide_all).value
    slow = timed_once("admission: the same in plain Python", lambda: plain_admission(declared, capacity.tolist()))
    yield from (slow, figure("admission: plain Python / ours", slow.value / ours, "ratio", 10.0, at_least=True))


def read_schedules(queues: tuple[QueueSpec, ...]) -> None:
    for spec in queues:
        if isinstance(spec.arrival, Schedule):
            table = BurstTable.of(spec.arrival.bursts)
            if table.problem:
                raise AssertionError(f"{spec.name}: {table.problem}")
            table.heaviest(CONFIG.max_cycle_seconds)


def plain_admission(declared: Declared, capacity: list[float]) -> list[str]:
    """Evaluate (1), (2) and (3a) candidate by candidate, from the same loaded numbers."""
    latency, weight = declared.latency.tolist(), declared.weight.tolist()
    worst, rate = declared.worst.tolist(), declared.highest_rate.tolist()
    total, largest, hard, classes = 0.0, 0.0, [0.0] * len(capacity), []
    for row, is_latency in enumerate(latency):
        load = max(w / c for w, c in zip(worst[row], capacity, strict=True)) / weight[row]
        divisor = max(total + weight[row], 1.0)
        if largest * divisor > 1.0 + 1e-9:
            classes.append("rejected")
            continue
        total += weight[row]
        if not is_latency or load * divisor > 1.0 + 1e-9:
            classes.append("elastic")
            continue
        largest = max(largest, load)
        fits = all(h + r <= c * (1 + 1e-9) for h, r, c in zip(hard, rate[row], capacity, strict=True))
        if fits:
            hard = [h + r for h, r in zip(hard, rate[row], strict=True)]
        classes.append("hard" if fits else "soft")
    return classes


@benchmark
def admission() -> Iterator[Measurement]:
    """Measure 10,000 periodic latency queues and 10,000 throughput queues: the first round, and one additional queue."""
    yield from periodic_admission(10_000)


def periodic_admission(count: int) -> Iterator[Measurement]:
    queues = make_load(count, count)
    resources, capacity = RESOURCES[:2], np.array([count * 3.0, count * 2.0**31])
    yield timed(f"admission: load {2 * count} specs", lambda: compile_queues(queues, resources, 3600.0), target=60.0, repeats=7)
    nothing = np.zeros((len(queues), 2))
    snapshot = ClusterSnapshot(resources, capacity, capacity, queues, nothing, nothing, nothing)
    yield timed(f"admission: first round over {2 * count} new queues, all in", lambda: decide(snapshot, Memory(), CONFIG, NOW), repeats=3)
    declared = compile_queues(queues, resources, 3600.0)
    load = loads(declared, capacity)
    state = AdmissionState(capacity, CONFIG)
    for row in range(len(queues) - 1):
        entry = HardQueue(declared, row)
        guarantee = state.consider(entry, float(declared.weight[row]), float(load[row]))
        state.grant(entry, float(declared.weight[row]), float(load[row]), guarantee)
    last = HardQueue(declared, len(queues) - 1)
    more = timed("admission: one more queue", lambda: state.consider(last, 1.0, float(load[-1])), unit="us", target=50.0)
    slow = timed_once("admission: all of them again in plain Python", lambda: plain_admission(declared, capacity.tolist()))
    yield from (more, slow, figure("one more queue: plain Python / ours", slow.value * 1e3 / more.value, "ratio", 100.0, at_least=True))
    first = HardQueue(declared, 0)
    decide_first = lambda: state.consider(first, 1.0, float(load[0]))  # noqa: E731
    yield timed("admission: one more latency queue, (1) (2) (3a)", decide_first, unit="us", target=50.0)
    full = compile_queues(make_load(60, 0), resources, 3600.0)
    hard = [HardQueue(full, row) for row in range(59)]
    tight, candidate = np.array([40.0, 2.0**40]), HardQueue(full, 59)
    profiled, paired = HardQueues.of(hard, tight, 10_000), HardQueues.of(hard, tight, 0)
    yield timed("admission: (3b) exact profile, 59 hard queues", lambda: profiled.fits(candidate))
    yield timed("admission: (3c) pairwise bound, 59 hard queues", lambda: paired.fits(candidate))
    yield from one_change_among_staggered(2_000)


def one_change_among_staggered(count: int) -> Iterator[Measurement]:
    """Measure the round in which a throughput queue joins hard queues that together request far more than the capacity, two at a time."""
    apart = 3_000.0 / count
    burst = Burst({"cpu": 5.0, "memory": 7.0}, 1.5 * apart, 1.5 * apart)
    names = [f"ns-{row:05d}/queue" for row in range(count)]
    queues = tuple(
        QueueSpec(name, QueueKind.LATENCY, (float(row), name), 1.0, burst, Periodic(3_000.0, NOW + apart * row))
        for row, name in enumerate(names)
    )
    more = (*queues, QueueSpec("zz/queue", QueueKind.THROUGHPUT, (float(count), "zz/queue")))
    capacity = np.array([10.0, 14.0])

    def snapshot_of(specs: tuple[QueueSpec, ...]) -> ClusterSnapshot:
        nothing = np.zeros((len(specs), 2))
        return ClusterSnapshot(RESOURCES[:2], capacity, capacity, specs, nothing, nothing, nothing)

    result, memory = decide(snapshot_of(queues), Memory(), CONFIG, NOW)
    if set(result.classes) != {GuaranteeClass.HARD}:
        raise AssertionError("expected every staggered queue to be hard")
    change = lambda: decide(snapshot_of(more), memory, CONFIG, NOW + 1)  # noqa: E731
    yield timed(f"admission: one change among {count} staggered hard queues", change, target=20.0)
