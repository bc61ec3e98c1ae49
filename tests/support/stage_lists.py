"""Stage lists: files of generated jobs for the simulator to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from fairburst.sim.stage_list import RESOURCES
from fairburst.sim.workload import DagJob


def write_stage_list(path: Path, jobs: Sequence[DagJob]) -> None:
    """Write a file for `read_stage_list`. Resources that a job lacks are written as 0."""
    path.write_text("".join(f"{line}\n" for number, job in enumerate(jobs) for line in _lines(number, job)))


def _lines(number: int, job: DagJob) -> Iterable[str]:
    yield f"# {number}: {job.name}"
    yield f"{len(job.stages)} {number}"
    for stage in job.stages:
        demand = (*stage.demand, *(0.0,) * (len(RESOURCES) - len(stage.demand)))
        yield f"{stage.name} {stage.seconds:.12g} {' '.join(f'{amount:.12g}' for amount in demand)} {stage.tasks}"
    edges = [(job.stages[parent].name, stage.name) for stage in job.stages for parent in stage.parents]
    yield str(len(edges))
    yield from (f"{parent} {child} ata" for parent, child in edges)
