"""The stage-list text format of the BoPF authors' workloads.

A job has these lines: `# <n>: <BENCH> <query>`; `<stages> <job id> [arrival s] [queue]`; for each stage `<name> <duration s> <cpu>
<memory> <r3> <r4> <r5> <r6> <tasks>`; `<edges>`; for each edge `<parent> <child> ata`. Demands are fractions of one machine.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from fairburst.sim.errors import TraceError
from fairburst.sim.workload import DagJob, Stage, topological_order

RESOURCES = ("cpu", "memory", "disk-in", "disk-out", "network-in", "network-out")


def read_stage_list(path: Path) -> list[DagJob]:
    """Read all jobs of a file, with demands over RESOURCES. Raises TraceError with file, line, what was expected and what was found."""
    return _Reader(path).jobs()


class _Reader:
    """A cursor over the file's lines, so that every error can name its line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = [(number, text.strip()) for number, text in enumerate(read_text(path).splitlines(), 1) if text.strip()]
        self.next = 0

    def jobs(self) -> list[DagJob]:
        jobs = []
        while self.next < len(self.lines):
            jobs.append(self.job())
        if not jobs:
            raise TraceError(f"{self.path}: expected at least one job, found an empty file")
        return jobs

    def job(self) -> DagJob:
        title = None
        while self.next < len(self.lines) and self.lines[self.next][1].startswith("#"):
            title = self.lines[self.next][1].lstrip("# ")
            self.next += 1
        line, fields = self.take("a line `<number of stages> <job id> [arrival s] [queue]`", 2, 4)
        count = self.whole(line, "the number of stages", fields[0], at_least=1)
        arrival = self.number(line, "the arrival in seconds", fields[2]) if len(fields) > 2 else None
        names: dict[str, int] = {}
        stages = [self.stage(names) for _ in range(count)]
        return DagJob(title or fields[1], tuple(self.edges(line, stages, names)), arrival, fields[3] if len(fields) > 3 else None)

    def stage(self, names: dict[str, int]) -> Stage:
        line, fields = self.take("a stage line `<name> <duration s> <cpu> <mem> <r3> <r4> <r5> <r6> <tasks>`", 9, 9)
        if fields[0] in names:
            self.fail(line, "a stage name that is new in its job", repr(fields[0]))
        names[fields[0]] = len(names)
        return Stage(
            name=fields[0],
            tasks=self.whole(line, "the number of tasks", fields[8], at_least=1),
            seconds=self.number(line, "the duration in seconds", fields[1]),
            demand=tuple(self.fraction(line, f"the {name} demand", field) for name, field in zip(RESOURCES, fields[2:8], strict=True)),
        )

    def edges(self, job_line: int, stages: list[Stage], names: Mapping[str, int]) -> list[Stage]:
        line, fields = self.take("the number of edges", 1, 1)
        parents: list[list[int]] = [[] for _ in stages]
        for _ in range(self.whole(line, "the number of edges", fields[0], at_least=0)):
            line, fields = self.take("an edge line `<parent> <child> ata`", 3, 3)
            for name in fields[:2]:
                if name not in names:
                    self.fail(line, f"one of this job's stages ({', '.join(names)})", repr(name))
            if fields[2] != "ata":
                self.fail(line, "the edge kind `ata` (all to all)", repr(fields[2]))
            if names[fields[0]] not in parents[names[fields[1]]]:
                parents[names[fields[1]]].append(names[fields[0]])
        linked = [dataclasses.replace(stage, parents=tuple(parents[index])) for index, stage in enumerate(stages)]
        try:
            topological_order(linked)
        except ValueError as cycle:
            self.fail(job_line, "edges without a cycle", str(cycle))
        return linked

    def take(self, expected: str, least: int, most: int) -> tuple[int, list[str]]:
        if self.next >= len(self.lines):
            raise TraceError(f"{self.path}: expected {expected}, found the end of the file")
        line, text = self.lines[self.next]
        self.next += 1
        fields = text.split()
        if text.startswith("#") or not least <= len(fields) <= most:
            self.fail(line, expected, repr(text[:120]))
        return line, fields

    def number(self, line: int, what: str, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            self.fail(line, f"{what} as a number of at least 0", repr(text))
        return value

    def fraction(self, line: int, what: str, text: str) -> float:
        value = self.number(line, what, text)
        if value > 1:
            self.fail(line, f"{what} as a fraction of one machine, from 0 to 1", repr(text))
        return value

    def whole(self, line: int, what: str, text: str, *, at_least: int) -> int:
        if not (text.isascii() and text.isdigit() and int(text) >= at_least):
            self.fail(line, f"{what} as a whole number of at least {at_least}", repr(text))
        return int(text)

    def fail(self, line: int, expected: str, found: str) -> NoReturn:
        raise TraceError(f"{self.path}:{line}: expected {expected}, found {found}")


def read_text(path: Path) -> str:
    """Return the file's text. Raises TraceError if it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TraceError(f"expected a readable file {path}, found: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"expected UTF-8 text in {path}, found byte {error.object[error.start]:#04x} at offset {error.start}") from error
