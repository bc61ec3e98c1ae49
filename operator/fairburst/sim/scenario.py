"""Scenarios for the engine, as values: a cluster, queues, arriving jobs and changes of the machines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from fairburst.policy.model import PolicyConfig, QueueKind, QueueSpec
from fairburst.sim.cluster import Cluster
from fairburst.sim.errors import ScenarioError
from fairburst.sim.workload import DagJob


@dataclass(frozen=True, slots=True)
class Submission:
    """One job that arrives in a queue. time: seconds from the start."""

    time: float
    queue: str
    job: DagJob


@dataclass(frozen=True, slots=True)
class BurstPlan:
    """Jobs that arrive in a queue every `period` seconds from `first` on. `jobs` repeats; count: total, None until the end."""

    queue: str
    first: float
    period: float
    jobs: Sequence[DagJob]
    count: int | None = None


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node's amounts from `time` on. lost: whether its running tasks are lost and run again, as after a failure; else they continue."""

    time: float
    node: int
    amounts: tuple[float, ...]
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """The input of a run, except the policy.

    queues: ascending by `order`.
    preemptive: whether tasks of queues above their allocation are evicted, youngest first, for amounts owed to others. Their work is lost.
    start_delay_seconds: from a task's start to the start of its work.
    round_seconds: rounds run only at multiples of this and handle all events since the last one; 0 runs a round at every event, like the
    operator's within 20 ms.
    until: latest end. The run ends when all jobs of throughput queues have ended, or all jobs without such queues.
    whole_jobs: whether a job of a throughput queue starts only when its peak demand is free, in order (Capacity FIFO in DRESS §I and §V;
    policy `dress` has a separate setting).
    small_work_seconds: if set, a job is small by its work, at most θ of the pool for this time, instead of by its request.
    """

    cluster: Cluster
    queues: tuple[QueueSpec, ...]
    submissions: Sequence[Submission] = ()
    bursts: Sequence[BurstPlan] = ()
    changes: Sequence[NodeChange] = ()
    config: PolicyConfig = field(default_factory=PolicyConfig)
    preemptive: bool = False
    start_delay_seconds: float = 0.0
    round_seconds: float = 0.0
    until: float = math.inf
    whole_jobs: bool = False
    small_work_seconds: float | None = None

    def check(self) -> None:
        """Raise ScenarioError if the parts do not fit together."""
        names = {spec.name for spec in self.queues}
        width = len(self.cluster.resources)
        jobs = [(item.queue, item.job) for item in self.submissions] + [(plan.queue, job) for plan in self.bursts for job in plan.jobs]
        largest = [max(column) for column in zip(*self.cluster.nodes, strict=True)]
        for queue, job in jobs:
            if queue not in names:
                raise ScenarioError(f"{job.name}: expected one of the queues {', '.join(sorted(names))}, found {queue!r}")
            for stage in job.stages:
                if len(stage.demand) != width or any(need > most for need, most in zip(stage.demand, largest, strict=True)):
                    raise ScenarioError(
                        f"{job.name}, stage {stage.name}: expected a demand for {', '.join(self.cluster.resources)} that fits on one node, "
                        f"found {stage.demand}"
                    )
        endless = [plan.queue for plan in self.bursts if plan.count is None]
        throughput = {spec.name for spec in self.queues if spec.kind is QueueKind.THROUGHPUT}
        if endless and math.isinf(self.until) and not any(queue in throughput for queue, _ in jobs):
            raise ScenarioError(f"queue {endless[0]}: expected an end (`until`, a count of bursts or batch work), found none")
