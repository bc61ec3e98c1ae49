"""The papers' experiments as scenarios: batch jobs in n throughput queues from time 0, and periodic bursts of a latency queue."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fairburst.policy.model import Burst, Periodic, PolicyConfig, QueueKind, QueueSpec
from fairburst.sim.cluster import Cluster
from fairburst.sim.engine import EPOCH
from fairburst.sim.errors import ScenarioError
from fairburst.sim.scenario import BurstPlan, Scenario, Submission
from fairburst.sim.trace import in_queues
from fairburst.sim.workload import DagJob, scaled

LATENCY_QUEUE = "lq"


def throughput_spec(name: str, order: float, weight: float = 1.0) -> QueueSpec:
    """Return the declaration of a throughput queue."""
    return QueueSpec(name, QueueKind.THROUGHPUT, (order, name), weight)


def latency_spec(
    name: str, order: float, resources: Sequence[str], amounts: Sequence[float], on_seconds: float, period: float, first: float = 0.0,
    deadline: float | None = None,
) -> QueueSpec:  # fmt: skip
    """Return the declaration of a latency queue: `amounts` for `on_seconds`, periodically, `first` seconds after the start."""
    burst = Burst(dict(zip(resources, amounts, strict=True)), on_seconds, on_seconds if deadline is None else deadline)
    return QueueSpec(name, QueueKind.LATENCY, (order, name), burst=burst, arrival=Periodic(period, EPOCH + first))


def in_resources(job: DagJob, width: int) -> DagJob:
    """Return the job with its first `width` demands; missing ones are zero."""
    stages = tuple(
        type(stage)(stage.name, stage.tasks, stage.seconds, (*stage.demand, *(0.0,) * width)[:width], stage.parents) for stage in job.stages
    )
    return DagJob(job.name, stages, job.arrival, job.queue)


def fill_capacity(job: DagJob, capacity: Sequence[float], part: float = 1.0) -> DagJob:
    """Scale the task counts so that the job's peak takes `part` of the scarcest resource ("one resource is full", BoPF §5.1)."""
    factors = [amount * part / most for amount, most in zip(capacity, job.peak, strict=True) if most > 0]
    if not factors:
        raise ScenarioError(f"{job.name}: expected a demand for at least one of the counted resources, found none")
    return scaled(job, tasks=min(factors))


def short_jobs(jobs: Sequence[DagJob], below_seconds: float = 30.0, most: int = 25) -> list[DagJob]:
    """Return the jobs that may be bursts: completion below 30 s (BoPF §5.1), or else the single shortest job."""
    chosen = [job for job in jobs if job.critical_path_seconds < below_seconds]
    return chosen[:most] if chosen else [min(jobs, key=lambda job: job.critical_path_seconds)]


def batch_with_bursts(
    cluster: Cluster, batch: Sequence[DagJob], throughput_queues: int, bursts: Sequence[DagJob], *, period: float, on_seconds: float,
    first: float = 0.0, deadline: float | None = None, count: int | None = None, until: float = math.inf,
    start_delay_seconds: float = 0.0, config: PolicyConfig | None = None, preemptive: bool = False, round_seconds: float = 0.0,
) -> Scenario:  # fmt: skip
    """Return a scenario with `batch` in throughput queues and `bursts` in a latency queue.

    Batch jobs go to the queue that they name, or to the throughput queues in turn. The bursts repeat. Their declared demand is the whole
    capacity for `on_seconds`.
    """
    dealt = list(in_queues(batch, max(throughput_queues, 1)))
    names = sorted({name for name, _ in dealt} | {f"tq-{number}" for number in range(throughput_queues)})
    queues = [throughput_spec(name, float(number)) for number, name in enumerate(names)]
    plans = []
    if bursts:
        queues.append(
            latency_spec(
                LATENCY_QUEUE, float(len(queues)), cluster.resources, cluster.capacity.tolist(), on_seconds, period, first, deadline
            )
        )
        plans.append(BurstPlan(LATENCY_QUEUE, first, period, bursts, count))
    return Scenario(
        cluster, tuple(queues), [Submission(job.arrival or 0.0, name, job) for name, job in dealt], plans,
        config=config or PolicyConfig(), until=until, start_delay_seconds=start_delay_seconds, preemptive=preemptive,
        round_seconds=round_seconds,
    )  # fmt: skip
