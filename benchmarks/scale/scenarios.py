"""Workloads of the comparison: namespaces, their Jobs, and the nodes that they need. Pure and seeded: both runs get the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from e2e.workload.metrics import Amounts
from e2e.workload.plans import LatencyPlan, PlannedBurst, ThroughputPlan
from e2e.workload.stages import GIB, DagJob, Stage

NODE_CPU, NODE_MEMORY_GIB = 32, 64
TASKS_A_SECOND = 8  # tasks that start and end a second: the load that two cores can carry besides other work
WIDEST = 12
LONG = 3600.0
SETTLED_LAST = 11  # pods of a Job in the scenario of many queues
CHURN_TASK_SECONDS = 10.0
CHURN_SECONDS = 25.0  # of churn before a burst


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload. `pods`: total number to bind or to finish, None for endless work.

    `hard`: cores and GiB of one burst of a hard queue; bursts are declared to last `burst_seconds` and to come at least `apart_seconds`
    apart. `finish`: the run ends with the last pod's end, otherwise with its binding.
    """

    nodes: int
    places: int
    latency: list[LatencyPlan]
    throughput: list[ThroughputPlan]
    pods: int | None = None
    hard: float = 0.0
    burst_seconds: int = 60
    apart_seconds: int = 3600
    finish: bool = False

    @property
    def cluster(self) -> dict[str, Any]:
        """Return the nodes that it needs, as options of `Cluster.start`."""
        return {"nodes": self.nodes, "node_cpu": str(NODE_CPU), "node_memory": f"{NODE_MEMORY_GIB}Gi"}

    @property
    def capacity(self) -> Amounts:
        """Return the amounts of all places."""
        return Amounts(self.places, self.places * GIB * NODE_MEMORY_GIB / NODE_CPU)

    @property
    def queues(self) -> list[str]:
        """Return the namespaces, in the order of their queues."""
        return [*(plan.namespace for plan in self.latency), *(plan.namespace for plan in self.throughput)]


def work(queues: int, task_seconds: float, *, places: int | None = None) -> Workload:
    """Return queues that always have work: two of three run several Jobs at a time, every third one Job after the other.

    A queue of the last kind has nothing to run between two Jobs. Task lengths vary by a fifth; Jobs have 2 to 12 tasks of a core each.
    """
    room = max(round(TASKS_A_SECOND * task_seconds), queues) if places is None else places
    room = NODE_CPU * max(2, -(-room // NODE_CPU))
    plans = []
    for number in range(queues):
        alone = number % 3 == 2
        backlog = 3 * room // queues + 2 * WIDEST
        plans.append(ThroughputPlan(_name(number), _jobs(number, task_seconds), 1 if alone else 16, backlog))
    return Workload(room // NODE_CPU, room, [], plans)


def many_queues(queues: int) -> Workload:
    """Return one Job of 11 pods in nine of ten queues, all at once, with room for all pods."""
    used = [_name(number) for number in range(queues) if number % 10]
    stage = Stage("work", SETTLED_LAST, LONG, 0.25, 0.25 * GIB)
    nodes = max(2, -(-len(used) * SETTLED_LAST // (3 * NODE_CPU)))
    plans = [ThroughputPlan(name, [DagJob("work", (stage,))], 1, 1) for name in used]
    idle = [ThroughputPlan(_name(number), []) for number in range(0, queues, 10)]
    return Workload(nodes, nodes * NODE_CPU, [], [*plans, *idle], pods=len(used) * SETTLED_LAST)


def burst(queues: int, *, churn: bool = False) -> Workload:
    """Return 400 pods of ten armed hard queues, among `queues` queues without demand. The cluster is idle.

    `churn`: the others run Jobs one after the other, as many tasks at a time as end in ten seconds. The burst has room beside them.
    """
    bursts, pods, others = 10, 40, max(0, queues - 10)
    stage = Stage("burst", pods, LONG, 1.0, GIB)
    at = CHURN_SECONDS if churn else 5.0
    latency = [LatencyPlan(f"hard-{number}", [PlannedBurst(at, DagJob("burst", (stage,)), 300.0)]) for number in range(bursts)]
    plans = _churn(others) if churn else [ThroughputPlan(_name(number), []) for number in range(others)]
    return Workload(20, 20 * NODE_CPU, latency, plans, pods=bursts * pods, hard=pods)


def steady(queues: int, seconds: float) -> Workload:
    """Return a tenth of the queues with a burst of 20 pods a minute each, in turn, while the others run Jobs. There is room for all."""
    bursts, pods, apart = max(1, queues // 10), 20, 60
    job = DagJob("burst", (Stage("burst", pods, 5.0, 1.0, GIB),))
    firsts = [CHURN_SECONDS + apart * number / bursts for number in range(bursts)]
    latency = [LatencyPlan(f"hard-{number}", _every(apart + 1.0, first, seconds, job)) for number, first in enumerate(firsts)]
    nodes = 2 + -(-(bursts * pods + round(TASKS_A_SECOND * CHURN_TASK_SECONDS)) // NODE_CPU)
    return Workload(nodes, nodes * NODE_CPU, latency, _churn(queues - bursts), hard=pods, burst_seconds=10, apart_seconds=apart)


def many_bursts(queues: int, seconds: float) -> Workload:
    """Return hard queues with one burst of two small pods each, one after the other all the time. There is room for all bursts at once."""
    pods, each = 2, 0.1
    job = DagJob("burst", (Stage("burst", pods, 5.0, each, each * GIB),))
    firsts = [5.0 + (seconds - 30.0) * number / queues for number in range(queues)]
    latency = [LatencyPlan(f"hard-{number}", [PlannedBurst(first, job, 20.0)]) for number, first in enumerate(firsts)]
    nodes = 2 + round(queues * pods * each / NODE_CPU)
    return Workload(nodes, nodes * NODE_CPU, latency, [], hard=pods * each, burst_seconds=10)


def _every(apart: float, first: float, end: float, job: DagJob) -> list[PlannedBurst]:
    return [PlannedBurst(first + apart * number, job, 20.0) for number in range(int((end - first) // apart) + 1)]


def _churn(queues: int) -> list[ThroughputPlan]:
    """Return queues that run Jobs one after the other, as many tasks at a time as end in ten seconds; further queues are idle."""
    running = round(TASKS_A_SECOND * CHURN_TASK_SECONDS)
    busy = min(queues, running)
    tasks = [running // busy + (number < running % busy) for number in range(busy)]
    plans = [ThroughputPlan(_name(number), _jobs(number, CHURN_TASK_SECONDS, count), 1, 1) for number, count in enumerate(tasks)]
    return [*plans, *(ThroughputPlan(_name(number), []) for number in range(busy, queues))]


def small_jobs(queues: int, jobs: int) -> Workload:
    """Return Jobs of one pod of one second, spread over the queues and created at once, with room for all of them."""
    stage = Stage("work", 1, 1.0, 0.25, 0.25 * GIB)
    each = [jobs // queues + (number < jobs % queues) for number in range(queues)]
    plans = [ThroughputPlan(_name(number), [DagJob("work", (stage,))] * count, count, jobs) for number, count in enumerate(each)]
    return Workload(20, 20 * NODE_CPU, [], plans, pods=jobs, finish=True)


def _name(number: int) -> str:
    return f"q-{number}"


def _jobs(number: int, task_seconds: float, tasks: int | None = None) -> Iterator[DagJob]:
    """Return Jobs whose tasks' lengths vary by a fifth; each has so many `tasks`, or 2 to 12."""
    chance = random.Random(number)
    while True:
        seconds = round(task_seconds * chance.uniform(0.8, 1.2), 2)
        yield DagJob("work", (Stage("work", tasks or chance.randint(2, WIDEST), seconds, 1.0, GIB),))
