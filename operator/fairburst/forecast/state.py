"""The state from which a forecast runs: running and waiting work, and the operator's memory, as far as they are known at that time."""

from __future__ import annotations

from dataclasses import dataclass

from fairburst.policy.model import Memory, PolicyConfig, QueueSpec
from fairburst.sim.cluster import Cluster

ENDLESS_SECONDS = 1e9  # for pods of services, which hold their room beyond every forecast


@dataclass(frozen=True, slots=True)
class StageState:
    """The unfinished part of a stage of a job (a Kubernetes Job has one).

    tasks: of the whole stage. waiting: not started. running: (count, time at which they started). seconds: of one task, None until a task
    of the stage has ended. waves: number of tasks that run in a place, one after the other (a Job with fewer pods than completions).
    """

    tasks: int
    waiting: int
    running: tuple[tuple[int, float], ...]
    demand: tuple[float, ...]
    seconds: float | None
    parents: tuple[int, ...] = ()
    waves: int = 1


@dataclass(frozen=True, slots=True)
class JobState:
    """One unfinished job. stages: the unfinished ones; `parents` are indices into them. has_started: whether a task has run.

    whole: its waiting tasks start together, once all of them fit into the queue's allocation.
    """

    name: str
    queue: str
    arrival: float
    stages: tuple[StageState, ...]
    has_started: bool
    whole: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """The state at one time. jobs: in the order in which each queue starts them. now: seconds of the simulator's clock.

    factors: by resource, from natural units to those of this state (units.py); empty if they are the same.
    """

    cluster: Cluster
    queues: tuple[QueueSpec, ...]
    config: PolicyConfig
    memory: Memory
    jobs: tuple[JobState, ...]
    now: float
    factors: tuple[float, ...] = ()
