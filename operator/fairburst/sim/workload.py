"""DAG jobs as values: stages of identical tasks, their order, their shortest completion. Independent of queues and policies."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Stage:
    """`tasks` identical tasks of `seconds` each. demand: resource units of one task, in the order of the trace's resources.

    parents: indices into the job's stages. The stage starts when all of them have ended.
    """

    name: str
    tasks: int
    seconds: float
    demand: tuple[float, ...]
    parents: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DagJob:
    """Stages in any order whose `parents` form a DAG. arrival (seconds from the start) and queue: None if the trace names none."""

    name: str
    stages: tuple[Stage, ...]
    arrival: float | None = None
    queue: str | None = None

    @property
    def tasks(self) -> int:
        return sum(stage.tasks for stage in self.stages)

    @property
    def critical_path_seconds(self) -> float:
        """Seconds that the job takes with unlimited resources."""
        finish: dict[int, float] = {}
        for index in topological_order(self.stages):
            stage = self.stages[index]
            finish[index] = stage.seconds + max((finish[parent] for parent in stage.parents), default=0.0)
        return max(finish.values())

    @property
    def work(self) -> tuple[float, ...]:
        """(K,) resource-seconds of all tasks together."""
        return tuple(
            math.fsum(stage.tasks * stage.seconds * amount for stage, amount in zip(self.stages, column, strict=True))
            for column in zip(*(stage.demand for stage in self.stages), strict=True)
        )

    @property
    def peak(self) -> tuple[float, ...]:
        """(K,) largest use at one time with unlimited resources."""
        begin: list[float] = [0.0] * len(self.stages)
        for index in topological_order(self.stages):
            begin[index] = max((begin[parent] + self.stages[parent].seconds for parent in self.stages[index].parents), default=0.0)
        width = len(self.stages[0].demand)
        return tuple(
            max(
                math.fsum(
                    other.tasks * other.demand[column]
                    for at, other in zip(begin, self.stages, strict=True)
                    if at <= instant < at + other.seconds
                )
                for instant in begin
            )
            for column in range(width)
        )


class LinkedStage(Protocol):
    """A stage by name with its parents: indices into its job's stages."""

    @property
    def name(self) -> str: ...
    @property
    def parents(self) -> Sequence[int]: ...


def topological_order(stages: Sequence[LinkedStage]) -> list[int]:
    """Return the indices with every parent before its children. Raises ValueError that names the stages of a cycle."""
    order: list[int] = []
    placed: set[int] = set()
    waiting = list(range(len(stages)))
    while waiting:
        ready = [index for index in waiting if placed.issuperset(stages[index].parents)]
        if not ready:
            raise ValueError(f"stages {', '.join(stages[index].name for index in waiting)} wait for each other")
        order += ready
        placed.update(ready)
        waiting = [index for index in waiting if index not in placed]
    return order


def scaled(job: DagJob, tasks: float = 1.0, seconds: float = 1.0, demand: float = 1.0) -> DagJob:
    """Return the job with task counts x `tasks` (truncated, at least 1), durations x `seconds`, demands x `demand`."""
    return with_stages(
        job,
        lambda stage: dataclasses.replace(
            stage,
            tasks=max(1, int(stage.tasks * tasks + 1e-9)),
            seconds=stage.seconds * seconds,
            demand=tuple(amount * demand for amount in stage.demand),
        ),
    )


def with_stages(job: DagJob, change: Callable[[Stage], Stage]) -> DagJob:
    """Return the job with `change` applied to every stage."""
    return dataclasses.replace(job, stages=tuple(change(stage) for stage in job.stages))
