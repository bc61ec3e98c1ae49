"""What a reproduction reports: rows of paper's value, ours, ratio and verdict; charts; the data itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairburst.sim.charts import Chart

Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of the paper beside ours. `paper` None: the paper states none, or only a picture. `cause`: why they differ, measured."""

    label: str
    paper: float | None
    ours: float
    verdict: str
    cause: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours / the paper's."""
        return self.ours / self.paper if self.paper else None


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The outcome of one experiment. `data` goes into the JSON at the top level."""

    name: str
    title: str
    seed: int
    rows: Sequence[Row]
    data: Mapping[str, Any] = field(default_factory=dict)
    charts: Sequence[Chart] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """What a run may be told. `trace`: a folder or file with inputs, where the experiment takes one. `compiled` None: if numba is there.
    `slots`: of the cluster, where the experiment takes it."""

    seed: int = 1
    trace: Path | None = None
    compiled: bool | None = None
    quick: bool = False
    slots: int | None = None


@dataclass(frozen=True, slots=True)
class Experiment:
    """A named experiment. `seconds`: processor time of the whole run where docs/reproduction.md was written. `takes_trace`: whether
    --trace means something to it."""

    title: str
    run: Callable[[Options, Progress], Reproduction]
    seconds: float
    takes_trace: bool = False


def within(paper: float, ours: float, tolerance: float, cause: str = "") -> tuple[str, str]:
    """(verdict, cause) of a figure that should agree within a relative `tolerance`; the cause only where it doesn't."""
    if math.isfinite(ours) and abs(ours / paper - 1) <= tolerance:
        return f"within {tolerance:.0%}", ""
    return "differs", cause


def holds(condition: bool) -> str:
    """Verdict of a claim."""
    return "holds" if condition else "does not hold"


def as_json(result: Reproduction) -> dict[str, Any]:
    """The reproduction as plain values."""
    return {
        "name": result.name, "title": result.title, "seed": result.seed, **result.data,
        "rows": [
            {"label": row.label, "paper": row.paper, "ours": row.ours, "ratio": row.ratio, "verdict": row.verdict, "cause": row.cause}
            for row in result.rows
        ],
        "notes": list(result.notes),
    }  # fmt: skip


def as_text(result: Reproduction) -> str:
    """The reproduction as a table to read."""
    lines = [f"{result.name}: {result.title} (seed {result.seed})", ""]
    width = max((len(row.label) for row in result.rows), default=0)
    lines.append(f"{'':<{width}}  {'paper':>9}  {'ours':>9}  {'ratio':>6}  verdict")
    for row in result.rows:
        paper = "-" if row.paper is None else f"{row.paper:.2f}"
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        lines.append(
            f"{row.label:<{width}}  {paper:>9}  {row.ours:>9.2f}  {ratio:>6}  {row.verdict}{': ' + row.cause if row.cause else ''}"
        )
    lines += ["", *result.notes] if result.notes else []
    return "\n".join(lines) + "\n"
