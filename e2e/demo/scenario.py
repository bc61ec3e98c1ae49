"""What the demo runs: five queues, what they declare, and the work that they are fed. Pure, and the same in both phases.

The declared bursts are honest and can be kept without evicting anybody: a burst may have to wait until running tasks end, so the longest
task, its own tasks and the time to create its pods all fit into the declared time.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.workload.arrivals import sporadic_arrivals
from e2e.workload.driver import LatencyPlan, PlannedBurst, ThroughputPlan
from e2e.workload.metrics import Amounts, fair_shares
from e2e.workload.stages import DagJob, Stage, generated_tpch_jobs, read_stage_list, reshaped

SEED = 20
SLOTS = 160  # tasks that fill the cluster: with tasks of 8 to 12 s that is about 16 pods a second, which two cores can carry
SHORTEST_TASK_SECONDS = 8.0
LONGEST_TASK_SECONDS = 12.0
WIDEST_STAGE, WIDEST_HELD_STAGE = 60, 12  # tasks; the least fair share is 17 of the 160 that fill the cluster
BURST_TASK_SECONDS = 10.0
# Longest batch task (12 s) + burst task (10 s) + 8 s to create and bind the pods, which busy machines need.
BURST_SECONDS = 30
PERIOD_SECONDS = 60
JITTER_SECONDS = 2  # the driver is punctual, but not to the millisecond: the quota is there this much ahead


@dataclass(frozen=True, slots=True)
class LatencyQueue:
    """A queue with bursts of `pods` at `arrivals`. Periodic if it declares a first arrival, else sporadic."""

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
    """All of it, for a cluster of `capacity` and phases of `seconds`. `task`: what every task of every queue asks for. `widest`: most tasks
    of a stage of batch work. `mode`: how the queues are enforced."""

    capacity: Amounts
    seconds: float
    task: Amounts
    latency: tuple[LatencyQueue, ...]
    throughput: tuple[ThroughputQueue, ...]
    trace: Path | None = None
    mode: str = "Quota"
    widest: int = WIDEST_STAGE

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


def scenario(capacity: Amounts, seconds: float, trace: Path | None = None, seed: int = SEED, mode: str = "Quota") -> Scenario:
    """The demo's queues for a cluster of this size. Held Jobs start whole, so in Suspend mode no stage is wider than any queue's share."""
    last = seconds - BURST_SECONDS  # a burst's deadline should lie within the phase
    periodic = tuple(float(at) for at in range(25, int(last) + 1, PERIOD_SECONDS))
    sporadic = sporadic_arrivals(seed, first=45, min_interarrival_seconds=PERIOD_SECONDS, mean_extra_seconds=8, until=last + 0.1)
    return Scenario(
        capacity=capacity,
        seconds=seconds,
        task=capacity.times(1 / SLOTS),
        latency=(
            LatencyQueue("clickstream", 2, SLOTS * 7 // 16, periodic, periodic=True),
            LatencyQueue("alerts", 1, SLOTS * 3 // 16, tuple(sporadic), periodic=False),
        ),
        throughput=(ThroughputQueue("bronze", 1), ThroughputQueue("silver", 2), ThroughputQueue("gold", 3)),
        trace=trace,
        mode=mode,
        widest=WIDEST_HELD_STAGE if mode == "Suspend" else WIDEST_STAGE,
    )


def arithmetic(of: Scenario) -> list[str]:
    """The admission conditions of BoPF section 3.3 as the declared bursts stand to them, a line each.

    Tasks ask for cpu and memory in the cluster's own proportion, so that one resource speaks for both.
    """
    capacity, lines, total_rate = of.capacity.cpu, [], 0.0
    for queue in of.latency:
        rate = queue.pods * of.task.cpu
        total_rate += rate
        demand, fair = rate * BURST_SECONDS, capacity * PERIOD_SECONDS * of.shares[queue.name]
        lines.append(
            f"{queue.name}: declares {rate:g} cpu for {BURST_SECONDS} s = {demand:g} cpu-seconds a period, fair share {capacity:g} cpu x "
            f"{PERIOD_SECONDS} s x {queue.weight}/{sum(of.weights.values()):g} = {fair:.0f}: {'fits' if demand <= fair else 'DOES NOT FIT'}"
        )
    fits = "fits" if total_rate <= capacity else "DOES NOT FIT"
    lines.append(f"both bursts at once: {total_rate:g} of {capacity:g} cpu: {fits}")
    return lines


def plans(of: Scenario, seed: int = SEED) -> tuple[list[LatencyPlan], list[ThroughputPlan]]:
    """The work, anew for each phase; the same each time."""
    latency = [
        LatencyPlan(queue.name, [PlannedBurst(at, _burst_job(of, queue), BURST_SECONDS) for at in queue.arrivals]) for queue in of.latency
    ]
    # Enough tasks that every queue could fill most of the cluster alone, whatever the others do.
    throughput = [
        ThroughputPlan(queue.name, jobs, active_jobs=24, backlog_tasks=SLOTS)
        for queue, jobs in zip(of.throughput, _batch(of, seed), strict=True)
    ]
    return latency, throughput


def _burst_job(of: Scenario, queue: LatencyQueue) -> DagJob:
    return DagJob(f"{queue.name}-burst", (Stage("burst", queue.pods, BURST_TASK_SECONDS, of.task.cpu, of.task.memory),))


def _batch(of: Scenario, seed: int) -> list[Iterator[DagJob]]:
    """Endless work for each throughput queue, in the order of the queues."""
    if of.trace is None:
        streams: list[Iterable[DagJob]] = [generated_tpch_jobs(seed + number) for number, _ in enumerate(of.throughput)]
    else:
        streams = [itertools.cycle(jobs) for jobs in _dealt(read_stage_list(of.trace), [queue.name for queue in of.throughput])]
    return [map(lambda job: _fitted(job, of), stream) for stream in streams]  # noqa: C417 - a generator expression would bind `of` late


def _dealt(jobs: Sequence[DagJob], queues: Sequence[str]) -> list[list[DagJob]]:
    """A trace's jobs by arrival, each to the queue it names, the others in turn; a queue that gets none shares all."""
    ordered = sorted(jobs, key=lambda job: job.arrival or 0.0)
    turn = itertools.cycle(queues)
    dealt: dict[str, list[DagJob]] = {queue: [] for queue in queues}
    for job in ordered:
        dealt[job.queue if job.queue in dealt else next(turn)].append(job)
    return [dealt[queue] or ordered for queue in queues]


def _fitted(job: DagJob, of: Scenario) -> DagJob:
    """A TPC-H sized job compressed to minutes on this cluster: graph and relative widths stay, tasks become alike in size."""
    return reshaped(
        job,
        time_factor=0.33,
        task_factor=0.25,
        shortest=SHORTEST_TASK_SECONDS,
        longest=LONGEST_TASK_SECONDS,
        widest=of.widest,
        cpu=of.task.cpu,
        memory=of.task.memory,
    )


def queue_objects(of: Scenario, started: float) -> list[dict[str, Any]]:
    """The queues to declare; `started` is the start of the phase in seconds since the epoch."""
    return [_latency_object(of, queue, started) for queue in of.latency] + [
        _object("ThroughputQueue", queue.name, {"weight": queue.weight, "enforcement": of.mode}) for queue in of.throughput
    ]


def _latency_object(of: Scenario, queue: LatencyQueue, started: float) -> dict[str, Any]:
    resources = {"cpu": f"{round(queue.pods * of.task.cpu * 1000)}m", "memory": str(round(queue.pods * of.task.memory))}
    burst = {"resources": resources, "durationSeconds": BURST_SECONDS, "deadlineSeconds": BURST_SECONDS}
    arrival: dict[str, Any] = {"sporadic": {"minInterarrivalSeconds": PERIOD_SECONDS}}
    if queue.periodic:
        first = dt.datetime.fromtimestamp(started + (queue.arrivals or (0.0,))[0], dt.UTC)
        arrival = {
            "periodic": {
                "periodSeconds": PERIOD_SECONDS,
                "firstArrival": first.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "jitterSeconds": JITTER_SECONDS,
            }
        }
    return _object("LatencyQueue", queue.name, {"weight": queue.weight, "enforcement": of.mode, "burst": burst, "arrival": arrival})


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "fairburst.dev/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": name}, "spec": spec}
