"""Results as a CSV file: one line a run, with the machine, its load and the versions. A figure that a scenario lacks is empty."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.run import Run

# Unit by figure, in the order of the columns.
FIGURES = {
    "bound": "s",
    "bound_p95": "s",
    "done": "s",
    "done_p95": "s",
    "pod_wait": "s",
    "pod_wait_p95": "s",
    "hits": "",
    "hits_honest": "",
    "fairness_error": "",
    "excess_greedy": "",
    "share_latency": "",
    "use": "",
    "lost_seconds": "place-s",
    "bound_per_second": "1/s",
    "last_bound": "s",
    "makespan": "s",
    "small_job": "s",
    "large_job": "s",
    "requests_per_pod": "",
    "refused": "",
    "pods": "",
}
ABOUT = ("scenario", "title", "nodes", "places", "size", "contender", "version", "repeat", "kubernetes", "machine", "load", "day")
BY_WHOM = ("requests", "processor_seconds", "peak_mib")


@dataclass(frozen=True, slots=True)
class Line:
    """One run in the file."""

    about: dict[str, str]
    figures: dict[str, float]
    by_whom: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """The scenario and the contender."""
        return self.about["scenario"], self.about["contender"]


def line(about: dict[str, str], run: Run) -> Line:
    """Return a run as a line."""
    requests = {user: float(count) for user, count in run.requests.items()}
    return Line(about, run.figures, {"requests": requests, "processor_seconds": run.spent.seconds, "peak_mib": run.spent.peak_mib})


def append(path: Path, lines: Iterable[Line]) -> None:
    """Add lines to the file, with the columns' names if it is new."""
    fresh = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if fresh:
            writer.writerow([*ABOUT, *FIGURES, *BY_WHOM])
        for each in lines:
            numbers = [_written(each.figures.get(name)) for name in FIGURES]
            by_whom = [
                " ".join(f"{who}={_written(value)}" for who, value in sorted(each.by_whom.get(name, {}).items())) for name in BY_WHOM
            ]
            writer.writerow([*(each.about.get(name, "") for name in ABOUT), *numbers, *by_whom])


def read(path: Path) -> list[Line]:
    """Return the lines of the file."""
    with path.open(newline="") as file:
        return [_line(row) for row in csv.DictReader(file)]


def _line(row: dict[str, str]) -> Line:
    numbers = {name: float(row[name]) for name in FIGURES if row.get(name)}
    by_whom = {name: _pairs(row.get(name) or "") for name in BY_WHOM}
    return Line({name: row[name] for name in ABOUT}, numbers, by_whom)


def _pairs(text: str) -> dict[str, float]:
    return {who: float(value) for who, value in (pair.rsplit("=", 1) for pair in text.split())}


def _written(value: float | None) -> str:
    if value is None or math.isnan(value):
        return ""
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
