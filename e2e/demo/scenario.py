"""The demo's input: five queues, their declarations, and their work. Pure, and the same in both phases.

The declared bursts are honest and can be met without evictions. A burst may have to wait until running tasks end, so the declared time
covers the longest task, the burst's own tasks and the creation of its pods.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.workload.arrivals import sporadic_arrivals
from e2e.workload.metrics import Amounts, fair_shares
from e2e.workload.plans import LatencyPlan, PlannedBurst, ThroughputPlan
from e2e.workload.stages import DagJob, Stage, generated_tpch_jobs, read_stage_list, reshaped

SEED = 20
JITTER_SECONDS = 2  # the driver is punctual, but not to the millisecond: the quota is written this much ahead


@dataclass(frozen=True, slots=True)
class Tempo:
    """How much happens at once, and how fast. Seconds except for the counts.

    slots: tasks that fill the cluster.
    widest: tasks of the widest stage.
    widest_held: the same if Jobs start whole, and so must fit the least fair share, a ninth.
    active_jobs: Jobs that a throughput queue runs at once.
    backlog: the least number of waiting tasks.
    """

    slots: int
    shortest_task: float
    longest_task: float
    burst_task: float
    burst: int
    period: int
    widest: int
    widest_held: int
    active_jobs: int
    backlog: int

    @property
    def spare(self) -> float:
        """The time that a burst has left to create and bind its pods, after the longest task's wait and with its own run."""
        return self.burst - self.longest_task - self.burst_task


# About 16 pods a second, which two cores can carry with simulated nodes, and 8 s to create and bind a burst's pods, which busy machines
# need.
PLAYED = Tempo(
    slots=160, shortest_task=8, longest_task=12, burst_task=10, burst=30, period=60, widest=60, widest_held=12, active_jobs=24, backlog=160
)
# About one pod a second: a container start takes a real node on two cores half a second of processor time.
REAL = Tempo(
    slots=16, shortest_task=12, longest_task=18, burst_task=10, burst=50, period=100, widest=6, widest_held=1, active_jobs=24, backlog=48
)


@dataclass(frozen=True, slots=True)
class LatencyQueue:
    """A queue with bursts of `pods` at `arrivals`. Periodic if it declares a first arrival, otherwise sporadic."""

    name: str
    weight: int
    pods: int
    arrivals: tuple[float, ...]
    periodic: bool

    @property
    def what(self) -> str:
        return "periodic" if self.periodic else "sporadic"


@dataclass(frozen=True, slots=True)
class ThroughputQueue:
    """A queue that always has more work than fits."""

    name: str
    weight: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """The whole demo, for a cluster of `capacity` and phases of `seconds`.

    task: requests of every task of every queue.
    widest: most tasks of a stage of batch work.
    mode, burst_mode: how the throughput queues and the latency queues are enforced.
    """

    capacity: Amounts
    seconds: float
    tempo: Tempo
    task: Amounts
    latency: tuple[LatencyQueue, ...]
    throughput: tuple[ThroughputQueue, ...]
    trace: Path | None = None
    mode: str = "Quota"
    burst_mode: str = "Quota"
    widest: int = PLAYED.widest

    @property
    def weights(self) -> dict[str, float]:
        bursty = {queue.name: float(queue.weight) for queue in self.latency}
        return bursty | {queue.name: float(queue.weight) for queue in self.throughput}

    @property
    def shares(self) -> dict[str, float]:
        return fair_shares(self.weights)

    @property
    def queues(self) -> list[str]:
        return list(self.weights)


def scenario(
    capacity: Amounts, seconds: float, trace: Path | None = None, tempo: Tempo = PLAYED, seed: int = SEED, mode: str = "Quota",
    burst_mode: str | None = None,
) -> Scenario:  # fmt: skip
    """Return the demo for a cluster of this size. Held Jobs start whole, so in Suspend mode no stage is wider than any queue's share.

    burst_mode: of the latency queues; `mode` if it is None.
    """
    last = seconds - tempo.burst  # a burst's deadline should lie within the phase
    periodic = tuple(float(at) for at in range(25, int(last) + 1, tempo.period))
    sporadic = sporadic_arrivals(seed, first=45, min_interarrival_seconds=tempo.period, mean_extra_seconds=8, until=last + 0.1)
    return Scenario(
        capacity=capacity,
        seconds=seconds,
        tempo=tempo,
        # Rounded down, as it will be written. Tasks whose requests are rounded up would not all fit.
        task=Amounts(math.floor(1000 * capacity.cpu / tempo.slots) / 1000, math.floor(capacity.memory / tempo.slots)),
        latency=(
            LatencyQueue("clickstream", 2, tempo.slots * 7 // 16, periodic, periodic=True),
            LatencyQueue("alerts", 1, tempo.slots * 3 // 16, tuple(sporadic), periodic=False),
        ),
        throughput=(ThroughputQueue("bronze", 1), ThroughputQueue("silver", 2), ThroughputQueue("gold", 3)),
        trace=trace,
        mode=mode,
        burst_mode=burst_mode or mode,
        widest=tempo.widest_held if mode == "Suspend" else tempo.widest,
    )


def arithmetic(of: Scenario) -> list[str]:
    """Return the admission conditions of BoPF section 3.3 with the declared bursts' numbers, a line each.

    Tasks request cpu and memory in the cluster's own proportion, so one resource represents both.
    """
    capacity, tempo, lines, total_rate = of.capacity.cpu, of.tempo, [], 0.0
    for queue in of.latency:
        rate = queue.pods * of.task.cpu
        total_rate += rate
        demand, fair = rate * tempo.burst, capacity * tempo.period * of.shares[queue.name]
        lines.append(
            f"{queue.name}: declares {rate:g} cpu for {tempo.burst} s = {demand:g} cpu-seconds a period, fair share {capacity:g} cpu x "
            f"{tempo.period} s x {queue.weight}/{sum(of.weights.values()):g} = {fair:.0f}: {'fits' if demand <= fair else 'DOES NOT FIT'}"
        )
    fits = "fits" if total_rate <= capacity else "DOES NOT FIT"
    lines.append(f"both bursts at once: {total_rate:g} of {capacity:g} cpu: {fits}")
    return lines


def plans(of: Scenario, seed: int = SEED) -> tuple[list[LatencyPlan], list[ThroughputPlan]]:
    """Return fresh plans for a phase. The work is the same each time."""
    latency = [
        LatencyPlan(queue.name, [PlannedBurst(at, _burst_job(of, queue), of.tempo.burst) for at in queue.arrivals]) for queue in of.latency
    ]
    # Enough tasks that every queue could fill most of the cluster alone, regardless of the others.
    throughput = [
        ThroughputPlan(queue.name, jobs, active_jobs=of.tempo.active_jobs, backlog_tasks=of.tempo.backlog)
        for queue, jobs in zip(of.throughput, _batch(of, seed), strict=True)
    ]
    return latency, throughput


def _burst_job(of: Scenario, queue: LatencyQueue) -> DagJob:
    return DagJob(f"{queue.name}-burst", (Stage("burst", queue.pods, of.tempo.burst_task, of.task.cpu, of.task.memory),))


def _batch(of: Scenario, seed: int) -> list[Iterator[DagJob]]:
    """Return endless work for each throughput queue, in the order of the queues."""
    if of.trace is None:
        streams: list[Iterable[DagJob]] = [generated_tpch_jobs(seed + number) for number, _ in enumerate(of.throughput)]
    else:
        streams = [itertools.cycle(jobs) for jobs in _dealt(read_stage_list(of.trace), [queue.name for queue in of.throughput])]
    return [map(lambda job: _fitted(job, of), stream) for stream in streams]  # noqa: C417 - a generator expression would bind `of` late


def _dealt(jobs: Sequence[DagJob], queues: Sequence[str]) -> list[list[DagJob]]:
    """Distribute a trace's jobs by arrival: each to its named queue, the others in turn. A queue without jobs shares all of them."""
    ordered = sorted(jobs, key=lambda job: job.arrival or 0.0)
    turn = itertools.cycle(queues)
    dealt: dict[str, list[DagJob]] = {queue: [] for queue in queues}
    for job in ordered:
        dealt[job.queue if job.queue in dealt else next(turn)].append(job)
    return [dealt[queue] or ordered for queue in queues]


def _fitted(job: DagJob, of: Scenario) -> DagJob:
    """Compress a TPC-H sized job to minutes on this cluster. Its graph and relative widths stay; its tasks become similar in size."""
    return reshaped(
        job,
        time_factor=0.33,
        task_factor=0.25,
        shortest=of.tempo.shortest_task,
        longest=of.tempo.longest_task,
        widest=of.widest,
        cpu=of.task.cpu,
        memory=of.task.memory,
    )


def queue_objects(of: Scenario, started: float) -> list[dict[str, Any]]:
    """Return the queue objects; `started` is the start of the phase in seconds since the epoch."""
    return [_latency_object(of, queue, started) for queue in of.latency] + [
        _object("ThroughputQueue", queue.name, {"weight": queue.weight, "enforcement": of.mode}) for queue in of.throughput
    ]


def _latency_object(of: Scenario, queue: LatencyQueue, started: float) -> dict[str, Any]:
    resources = {"cpu": f"{round(queue.pods * of.task.cpu * 1000)}m", "memory": str(round(queue.pods * of.task.memory))}
    burst = {"resources": resources, "durationSeconds": of.tempo.burst, "deadlineSeconds": of.tempo.burst}
    arrival: dict[str, Any] = {"sporadic": {"minInterarrivalSeconds": of.tempo.period}}
    if queue.periodic:
        first = dt.datetime.fromtimestamp(started + (queue.arrivals or (0.0,))[0], dt.UTC)
        arrival = {
            "periodic": {
                "periodSeconds": of.tempo.period,
                "firstArrival": first.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "jitterSeconds": JITTER_SECONDS,
            }
        }
    return _object("LatencyQueue", queue.name, {"weight": queue.weight, "enforcement": of.burst_mode, "burst": burst, "arrival": arrival})


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "fairburst.dev/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": name}, "spec": spec}
