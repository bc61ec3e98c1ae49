"""The state that a forecast runs forward from: what runs, what waits, and the operator's memory. Only what can be known at that time."""

from __future__ import annotations

from dataclasses import dataclass

from fairburst.policy.model import Memory, PolicyConfig, QueueSpec
from fairburst.sim.cluster import Cluster

ENDLESS_SECONDS = 1e9  # pods of services: they hold their room for as long as anyone looks ahead


@dataclass(frozen=True, slots=True)
class StageState:
    """Rest of a stage of a job (a Kubernetes Job has one).

    tasks: of the whole stage. waiting: not started. running: (count, time at which they started). seconds: of one task, known once a task
    of the stage has ended; None before. waves: how often a place of it is used, one task after the other (a Job with fewer pods at once
    than completions).
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
    """One job that has not ended. stages: those that have not ended; `parents` are indices into them. has_started: any task has run.

    whole: its waiting tasks start together, once all of them fit into the queue's allocation, or not at all.
    """

    name: str
    queue: str
    arrival: float
    stages: tuple[StageState, ...]
    has_started: bool
    whole: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Everything at one time. jobs: in the order in which each queue starts them. now: seconds of the simulator's clock.

    factors: by resource, what amounts elsewhere are multiplied by to be in the units of this state (units.py); none where they are.
    """

    cluster: Cluster
    queues: tuple[QueueSpec, ...]
    config: PolicyConfig
    memory: Memory
    jobs: tuple[JobState, ...]
    now: float
    factors: tuple[float, ...] = ()
