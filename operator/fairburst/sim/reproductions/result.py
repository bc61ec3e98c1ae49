"""Results of reproductions: rows with the paper's value, ours, their ratio and a verdict; charts; the data."""

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
    """One figure of the paper and ours. paper: None if the paper states no number. cause: measured reason for a difference."""

    label: str
    paper: float | None
    ours: float
    verdict: str
    cause: str = ""

    @property
    def ratio(self) -> float | None:
        """Our value / the paper's."""
        return self.ours / self.paper if self.paper else None


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The result of one experiment. `data` goes to the top level of the JSON."""

    name: str
    title: str
    seed: int
    rows: Sequence[Row]
    data: Mapping[str, Any] = field(default_factory=dict)
    charts: Sequence[Chart] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run.

    trace: folder or file with inputs, for experiments that take one. compiled: None uses numba if it is installed. slots: of the cluster,
    for experiments that take it.
    """

    seed: int = 1
    trace: Path | None = None
    compiled: bool | None = None
    quick: bool = False
    slots: int | None = None


@dataclass(frozen=True, slots=True)
class Experiment:
    """A named experiment.

    seconds: processor time of the whole run on the machine of docs/reproduction.md. takes_trace: whether the experiment uses --trace.
    """

    title: str
    run: Callable[[Options, Progress], Reproduction]
    seconds: float
    takes_trace: bool = False


def within(paper: float, ours: float, tolerance: float, cause: str = "") -> tuple[str, str]:
    """Return (verdict, cause) for a figure that should agree within a relative `tolerance`. The cause is empty if it does."""
    if math.isfinite(ours) and abs(ours / paper - 1) <= tolerance:
        return f"within {tolerance:.0%}", ""
    return "differs", cause


def holds(condition: bool) -> str:
    """Return the verdict of a claim."""
    return "holds" if condition else "does not hold"


def as_json(result: Reproduction) -> dict[str, Any]:
    """Return the reproduction as plain values."""
    return {
        "name": result.name, "title": result.title, "seed": result.seed, **result.data,
        "rows": [
            {"label": row.label, "paper": row.paper, "ours": row.ours, "ratio": row.ratio, "verdict": row.verdict, "cause": row.cause}
            for row in result.rows
        ],
        "notes": list(result.notes),
    }  # fmt: skip


def as_text(result: Reproduction) -> str:
    """Return the reproduction as a readable table."""
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
