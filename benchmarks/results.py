"""Saved figures: `docs/benchmarks/results.jsonl`, one JSON object a line, with the day, the cores and the load of the machine."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.measure import Measurement

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks" / "results.jsonl"


@dataclass(frozen=True, slots=True)
class Saved:
    """One figure and its circumstances. `load`: the machine's load average of the last minute when the benchmark began."""

    benchmark: str
    day: str
    cores: int
    load: float
    figure: Measurement


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The day, the number of cores that this process may use, and the machine's load average of the last minute."""

    day: str
    cores: int
    load: float

    @classmethod
    def now(cls) -> Circumstances:
        return cls(time.strftime("%Y-%m-%d", time.gmtime()), len(os.sched_getaffinity(0)), round(os.getloadavg()[0], 1))


def save(path: Path, benchmark: str, figures: Sequence[Measurement], when: Circumstances) -> None:
    """Replace the figures of one benchmark in the file. Benchmarks keep the order in which they were first saved."""
    kept = read(path) if path.exists() else []
    fresh = [Saved(benchmark, when.day, when.cores, when.load, figure) for figure in figures]
    place = next((number for number, one in enumerate(kept) if one.benchmark == benchmark), len(kept))
    others = [one for one in kept if one.benchmark != benchmark]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(_line(one) for one in [*others[:place], *fresh, *others[place:]]))


def read(path: Path) -> list[Saved]:
    """Return the figures of the file, in its order."""
    return [_saved(json.loads(line)) for line in path.read_text().splitlines()]


def of(benchmark: str, saved: Iterable[Saved]) -> list[Saved]:
    """Return the figures of one benchmark."""
    return [one for one in saved if one.benchmark == benchmark]


def _line(one: Saved) -> str:
    about = {"benchmark": one.benchmark, "day": one.day, "cores": one.cores, "load": one.load}
    return json.dumps(about | asdict(one.figure)) + "\n"


def _saved(value: dict[str, object]) -> Saved:
    about = {key: value.pop(key) for key in ("benchmark", "day", "cores", "load")}
    return Saved(**about, figure=Measurement(**value))  # type: ignore[arg-type]
