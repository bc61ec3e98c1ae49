"""Jobs for the profile `paf-fig10`: read from a file, or drawn from the ranges in the paper (PAF §V-B)."""

from __future__ import annotations

import dataclasses
import heapq
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.sim.errors import TraceError
from fairburst.sim.paf_profile import SlotJob


@dataclass(frozen=True, slots=True)
class Pools:
    """Ranges for drawn jobs, both ends included. Values are uniform, and whole numbers except the shape and the mean.

    mean_seconds: mean time of a task, log-uniform. The papers use traces that are not published. A slot becomes free each millisecond, so
    that 20 s to 500 s are long compared with the 8 s in which 8,000 slots are handed out.
    longest_first: order of a job's tasks: longest first, as in the authors' input, instead of as drawn.
    """

    jobs: int
    weight: tuple[int, int]
    parallelism: tuple[int, int]
    warmup_factor: tuple[int, int]
    shape: tuple[float, float]
    mean_seconds: tuple[float, float] = (20.0, 500.0)
    longest_first: bool = False


AUTHORS = Pools(200, (1, 11), (10, 200), (1, 6), (1.6, 13.4))
LONGEST_FIRST = dataclasses.replace(AUTHORS, longest_first=True)
PAPER = Pools(200, (1, 20), (1, 200), (1, 8), (1.6, 16.0))


@dataclass(frozen=True, slots=True)
class Drawn:
    """A job, and the shape that its task times were drawn with."""

    job: SlotJob
    shape: float


def draw(pools: Pools, seed: int) -> list[Drawn]:
    """Draw jobs from the ranges. The same seed gives the same jobs, in either order of their tasks."""
    rng = np.random.default_rng(seed)
    drawn = []
    for number in range(pools.jobs):
        weight, parallelism, warmup = (
            int(rng.integers(low, high + 1)) for low, high in (pools.weight, pools.parallelism, pools.warmup_factor)
        )
        shape = float(rng.uniform(*pools.shape))
        mean = math.exp(rng.uniform(math.log(pools.mean_seconds[0]), math.log(pools.mean_seconds[1])))
        seconds = mean * (shape - 1) / shape * (1 + rng.pareto(shape, parallelism))
        if pools.longest_first:
            seconds = np.sort(seconds)[::-1]
        drawn.append(Drawn(profiled(f"job-{number:03d}", weight, warmup, seconds), shape))
    return drawn


def profiled(name: str, weight: float, warmup_factor: float, task_seconds: FloatArray) -> SlotJob:
    """Return the job with its curve: the time alone with as many slots as tasks (PAF §II-A) / the time with 1, 2, ... slots.

    Progress exceeds 1 where a long task finds a warm slot: fewer slots can be faster than all, so that such curves fall at the end.
    """
    times = np.array([makespan(task_seconds, slots, warmup_factor) for slots in range(1, len(task_seconds) + 1)])
    return SlotJob(name, weight, warmup_factor, float(times[-1]), task_seconds, np.concatenate(([0.0], times[-1] / times)))


def makespan(task_seconds: FloatArray, slots: int, warmup_factor: float) -> float:
    """Return the time of the tasks in index order on `slots` slots, all free at 0. Each slot is cold for its first task."""
    seconds = task_seconds.tolist()
    free = seconds[:slots]
    end = max(free)
    heapq.heapify(free)
    for each in seconds[slots:]:
        ends = free[0] + each / warmup_factor
        end = max(end, ends)
        heapq.heapreplace(free, ends)
    return float(end)


def read_jobs(path: Path) -> list[SlotJob]:
    """Read jobs from a JSON file {"jobs": [{"id", "weight", "warmup_factor", "alone_seconds", "task_seconds", "curve"}]}.

    Raises TraceError for anything else, with the job and what was expected. The file is refused as a whole.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TraceError(f"{path}: expected a JSON file, {error}") from error
    entries = content.get("jobs") if isinstance(content, Mapping) else None
    if not isinstance(entries, list) or not entries:
        raise TraceError(f'{path}: expected {{"jobs": [...]}} with at least one job')
    jobs = [_job(f"{path}: job {number}", entry) for number, entry in enumerate(entries)]
    if len({job.name for job in jobs}) != len(jobs):
        raise TraceError(f"{path}: expected distinct ids")
    return jobs


def _job(where: str, entry: object) -> SlotJob:
    if not isinstance(entry, Mapping) or "id" not in entry:
        raise TraceError(f"{where}: expected an object with an id")
    weight, warmup, alone = (_number(where, entry, key) for key in ("weight", "warmup_factor", "alone_seconds"))
    tasks, curve = _numbers(where, entry, "task_seconds"), _numbers(where, entry, "curve")
    if len(curve) < 2:
        raise TraceError(f"{where}: curve: expected progress with 0, 1, ... slots, found {len(curve)} numbers")
    return SlotJob(str(entry["id"]), weight, warmup, alone, tasks, curve)


def _number(where: str, entry: Mapping[str, Any], key: str) -> float:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value > 0):
        raise TraceError(f"{where}: {key}: expected a number above 0, found {value!r}")
    return float(value)


def _numbers(where: str, entry: Mapping[str, Any], key: str) -> FloatArray:
    values: Sequence[Any] | None = entry.get(key)
    if not isinstance(values, list) or not all(isinstance(each, int | float) and not isinstance(each, bool) for each in values):
        raise TraceError(f"{where}: {key}: expected a list of numbers")
    array = np.array(values, dtype=np.float64)
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise TraceError(f"{where}: {key}: expected finite numbers >= 0")
    return array
