"""Random workloads calibrated to the published statistics of the BoPF authors' three workloads, reproducible by seed.

tests/sim/test_generate.py checks the generated jobs against `STATISTICS`. The method has four steps:

- Stage counts, task counts and critical paths per job come from stratified sampling: the distribution is cut into as many equal slices as
  there are jobs, with one draw from each, so that their quantiles match the table.
- Relative task times within a job are log-normal, scaled to the drawn critical path.
- Tasks are assigned to stages by iterative proportional fitting between the tasks of each job and the tasks in each bin of times, so that
  the task-weighted distribution of times matches the table too.
- The latency jobs are the published ones, as often as in the authors' lists. No other job passes the limits for latency jobs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from fairburst.sim.errors import ScenarioError
from fairburst.sim.table4 import WORKLOADS
from fairburst.sim.workload import DagJob, Stage

Quantiles = tuple[tuple[float, float], ...]
JOBS = 399


@dataclass(frozen=True, slots=True)
class Statistics:
    """(level, value) pairs; level 0 is the minimum, 1 the maximum. `seconds` is weighted by tasks. Demands: of one task, in machines."""

    stages: Quantiles
    tasks: Quantiles
    critical_path: Quantiles
    critical_path_mean: float
    stages_mean: float
    seconds: Quantiles
    mean_demand: tuple[float, float]
    highest_demand: tuple[float, float]


STATISTICS = {
    "bb": Statistics(
        stages=((0, 2), (0.5, 7), (0.9, 19), (1, 25)),
        stages_mean=9.2,
        tasks=((0, 7), (0.5, 382), (0.9, 2527), (1, 4003)),
        critical_path=((0, 11), (0.5, 50), (0.9, 219), (1, 919)),
        critical_path_mean=128,
        seconds=((0.1, 1), (0.25, 2), (0.5, 3), (0.75, 6), (0.9, 14), (0.95, 25), (0.99, 84), (1, 552)),
        mean_demand=(0.266, 0.223),
        highest_demand=(0.41, 0.34),
    ),
    "tpcds": Statistics(
        stages=((0, 5), (0.5, 8), (0.9, 17.6), (1, 32)),
        stages_mean=10.6,
        tasks=((0, 22), (0.5, 152), (0.9, 568), (1, 1002)),
        critical_path=((0, 17), (0.5, 75), (0.9, 284), (1, 317)),
        critical_path_mean=118,
        seconds=((0.1, 2), (0.25, 3), (0.5, 16), (0.75, 45), (0.9, 64), (0.95, 153), (0.99, 214), (1, 263)),
        mean_demand=(0.199, 0.161),
        highest_demand=(0.39, 0.42),
    ),
    "tpch": Statistics(
        stages=((0, 2), (0.5, 8), (0.9, 12), (1, 14)),
        stages_mean=7.9,
        tasks=((0, 69), (0.5, 194), (0.9, 449), (1, 600)),
        critical_path=((0, 41), (0.5, 102), (0.9, 365), (1, 672)),
        critical_path_mean=187,
        seconds=((0.1, 6), (0.25, 13), (0.5, 29), (0.75, 52), (0.9, 86), (0.95, 101), (0.99, 138), (1, 335)),
        mean_demand=(0.210, 0.185),
        highest_demand=(0.29, 0.26),
    ),
}


def _stage(name: str, tasks: int, seconds: float, cpu: float, memory: float, *parents: int) -> Stage:
    return Stage(name, tasks, seconds, (cpu, memory), parents)


# The latency jobs. Their stages, tasks and critical paths are published, for BigBench all values. The other values are chosen so that
# after the authors' multiplication the job's peak fills one resource of 1,000 units.
QUERY27 = DagJob("BB query27", (_stage("Map_1", 6, 25, 0.21, 0.33), _stage("Reducer_2", 1, 2, 0.29, 0.22, 0)))
QUERY21 = DagJob(
    "TPC-DS query21",
    (
        _stage("Map_1", 3, 6, 0.20, 0.16), _stage("Map_2", 2, 5, 0.20, 0.16), _stage("Map_3", 1, 3, 0.20, 0.16),
        _stage("Reducer_4", 6, 5, 0.20, 0.16, 0, 1, 2), _stage("Reducer_5", 6, 4, 0.20, 0.16, 3), _stage("Reducer_6", 4, 2, 0.20, 0.16, 4),
    ),
)  # fmt: skip
QUERY22 = DagJob(
    "TPC-H query22",
    (
        _stage("Map_1", 44, 14, 0.21, 0.185), _stage("Map_2", 36, 10, 0.21, 0.185), _stage("Map_3", 5, 8, 0.21, 0.185),
        _stage("Reducer_4", 50, 10, 0.21, 0.185, 0, 1), _stage("Reducer_5", 35, 8, 0.21, 0.185, 1, 2),
        _stage("Reducer_6", 30, 8, 0.21, 0.185, 3, 4), _stage("Reducer_7", 20, 6, 0.21, 0.185, 5),
        _stage("Reducer_8", 5, 3, 0.21, 0.185, 6),
    ),
)  # fmt: skip
QUERY6 = DagJob("TPC-H query6", (_stage("Map_1", 68, 40, 0.21, 0.26), _stage("Reducer_2", 1, 5, 0.21, 0.185, 0)))
FIXED: dict[str, tuple[tuple[DagJob, int], ...]] = {
    "bb": ((QUERY27, 28),),
    "tpcds": ((QUERY21, 8),),
    "tpch": ((QUERY22, 26), (QUERY6, 23)),
}
# Number of distinct queries in each list. The authors' lists repeat few queries many times (in 399 jobs, query27 28 times, query21 8 times,
# query22 and query6 26 and 23 times). Without repetition a few huge jobs would have much of the work, and queues would end far apart.
DISTINCT = {"bb": 14, "tpcds": 50, "tpch": 22}
# Variation of the task times within a job (standard deviation of their logarithm).
SPREAD = {"bb": 1.4, "tpcds": 1.3, "tpch": 0.7}


def generate(benchmark: str, seed: int, jobs: int = JOBS) -> list[DagJob]:
    """Return `jobs` jobs like the authors' list for a benchmark ("bb", "tpcds" or "tpch"). The same seed gives the same list."""
    if benchmark not in STATISTICS:
        raise ScenarioError(f"expected a benchmark among {', '.join(STATISTICS)}, found {benchmark!r}")
    if jobs < 50:
        raise ScenarioError(f"expected at least 50 jobs, for fewer have no quantiles, found {jobs}")
    rng = np.random.default_rng(seed)
    fixed = [(job, max(1, round(copies * jobs / JOBS))) for job, copies in FIXED[benchmark]]
    drawn = _draw(rng, benchmark, DISTINCT[benchmark] - len(fixed), [job for job, _ in fixed])
    left = jobs - sum(copies for _, copies in fixed)
    whole, more = divmod(left, len(drawn))
    lucky = set(rng.permutation(len(drawn))[:more].tolist())
    everything = [job for job, copies in fixed for _ in range(copies)]
    everything += [job for number, job in enumerate(drawn) for _ in range(whole + (number in lucky))]
    return [everything[position] for position in rng.permutation(jobs)]


def _draw(rng: Generator, benchmark: str, count: int, fixed: Sequence[DagJob]) -> list[DagJob]:
    """Draw `count` queries that match the table's quantiles together with the fixed ones."""
    statistics, everything = STATISTICS[benchmark], count + len(fixed)
    stages = np.round(_remaining(statistics.stages, statistics.stages_mean, [len(job.stages) for job in fixed], everything)).astype(int)
    tasks = np.round(_remaining(statistics.tasks, None, [job.tasks for job in fixed], everything)).astype(int)
    lengths = [job.critical_path_seconds for job in fixed]
    paths = np.round(_remaining(statistics.critical_path, statistics.critical_path_mean, lengths, everything))
    # the number of stages correlates loosely with tasks and path length
    stages = stages[rng.permutation(count)]
    tasks, paths = tasks[_loosely(rng, stages)], paths[_loosely(rng, stages)]
    tasks = np.maximum(_keep_out(tasks, paths, benchmark), stages)
    shapes = [_layers(rng, int(number)) for number in stages]
    seconds = [_seconds(rng, shape, float(path), statistics, SPREAD[benchmark]) for shape, path in zip(shapes, paths, strict=True)]
    split = _fit_tasks(rng, seconds, tasks, statistics, fixed)
    demands = _demands(rng, split, statistics, fixed)
    return [
        DagJob(
            f"{WORKLOADS[benchmark].title} like {number}",
            tuple(
                Stage(f"{'Reducer' if parents else 'Map'}_{index + 1}", int(own_tasks), float(own_seconds), demand, parents)
                for index, (own_tasks, own_seconds, demand, parents) in enumerate(zip(*columns, strict=True))
            ),
        )
        for number, columns in enumerate(zip(split, seconds, demands, shapes, strict=True))
    ]


def quantile(points: Quantiles, level: float) -> float:
    """Return the value at `level`, interpolated on a logarithmic scale because all distributions are skewed to the right."""
    levels, values = zip(*points, strict=True)
    return float(np.exp(np.interp(level, levels, np.log(values))))


def _remaining(points: Quantiles, mean: float | None, fixed: Sequence[float], jobs: int) -> np.ndarray:
    """Return ascending values for the queries that are not fixed, so that all `jobs` match the quantiles and about the mean."""
    values = np.array([quantile(points, level) for level in (np.arange(jobs) + 0.5) / jobs])
    if mean is not None:
        values = _with_mean(values, points, mean)
    for level, value in points:  # with few queries, the query that covers a level of the table gets its value
        position = level * jobs
        for covering in {math.ceil(position) - 1, math.floor(position)}:
            values[min(max(covering, 0), jobs - 1)] = value
    kept = list(values)
    for value in sorted(fixed):
        kept.pop(int(np.argmin(np.abs(np.array(kept) - value))))
    return np.array(kept)


def _with_mean(values: np.ndarray, points: Quantiles, mean: float) -> np.ndarray:
    """Bend the values between the given quantiles, which stay, until the mean is right: u -> u^power within each slice."""
    levels = (np.arange(len(values)) + 0.5) / len(values)
    edges, heights = (np.array(column) for column in zip(*points, strict=True))
    piece = np.clip(np.searchsorted(edges, levels, side="right") - 1, 0, len(edges) - 2)
    inside = (levels - edges[piece]) / (edges[piece + 1] - edges[piece])

    def bent(power: float) -> np.ndarray:
        lower, upper = np.log(heights[piece]), np.log(heights[piece + 1])
        return np.asarray(np.exp(lower + (upper - lower) * inside**power))

    low, high = 0.05, 20.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if bent(middle).mean() > mean else (low, middle)
    return bent(math.sqrt(low * high))


def _loosely(rng: Generator, key: np.ndarray) -> np.ndarray:
    """Return a permutation of ranks with a correlation of about 0.5 to the ranks of `key`."""
    rank = np.argsort(np.argsort(key + rng.random(len(key)))) / len(key)
    return np.asarray(np.argsort(np.argsort(rank + rng.normal(0, 0.5, len(key)))))


def _keep_out(tasks: np.ndarray, paths: np.ndarray, benchmark: str) -> np.ndarray:
    """Exchange task counts so that only the fixed jobs pass the limits for latency jobs."""
    limits = WORKLOADS[benchmark]
    tasks = tasks.copy()
    for row in np.flatnonzero((paths < limits.critical_path_below) & (tasks < limits.tasks_below)):
        others = np.flatnonzero((paths >= limits.critical_path_below) & (tasks >= limits.tasks_below))
        if others.size == 0:
            raise ScenarioError(f"{benchmark}: expected a job whose task count could be exchanged, found none")
        other = others[np.argmin(tasks[others])]
        tasks[row], tasks[other] = tasks[other], tasks[row]
    return tasks


def _layers(rng: Generator, count: int) -> list[tuple[int, ...]]:
    """Draw each stage's parents: about half of the stages are scans; a later stage joins one to three open ones, the last all of them."""
    scans = max(1, min(count - 1, round(count * rng.uniform(0.4, 0.6))))
    loose = list(range(scans))
    parents: list[tuple[int, ...]] = [()] * scans
    for index in range(scans, count):
        take = len(loose) if index == count - 1 else min(len(loose), int(rng.integers(1, 4)))
        parents.append(tuple(sorted(loose.pop(0) for _ in range(take))))
        loose.append(index)
    return parents


def _seconds(rng: Generator, parents: Sequence[tuple[int, ...]], path: float, statistics: Statistics, spread: float) -> np.ndarray:
    """(stages,) whole seconds from 1 to the table's maximum, with critical path `path`."""
    longest = statistics.seconds[-1][1]
    relative = np.exp(rng.normal(0, spread, len(parents)))
    low, high = 1e-6, 1e6
    for _ in range(80):
        middle = math.sqrt(low * high)
        if _path(np.clip(relative * middle, 1, longest), parents) > path:
            high = middle
        else:
            low = middle
    seconds = np.clip(np.round(relative * low), 1, longest)
    for _ in range(200):  # rounding may have changed the path by a few seconds
        off = path - _path(seconds, parents)
        if abs(off) < 0.5:
            break
        on_path = [index for index in _on_path(seconds, parents) if (seconds[index] > 1 if off < 0 else seconds[index] < longest)]
        if not on_path:
            break
        seconds[max(on_path, key=lambda index: seconds[index])] += math.copysign(1, off)
    return seconds


def _path(seconds: np.ndarray, parents: Sequence[tuple[int, ...]]) -> float:
    finish = [0.0] * len(parents)
    for index, above in enumerate(parents):
        finish[index] = seconds[index] + max((finish[parent] for parent in above), default=0.0)
    return max(finish)


def _on_path(seconds: np.ndarray, parents: Sequence[tuple[int, ...]]) -> list[int]:
    finish = [0.0] * len(parents)
    for index, above in enumerate(parents):
        finish[index] = seconds[index] + max((finish[parent] for parent in above), default=0.0)
    at = int(np.argmax(finish))
    result = [at]
    while parents[at]:
        at = max(parents[at], key=lambda parent: finish[parent])
        result.append(at)
    return result


def _cumulative(statistics: Statistics) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges of the bins of task times and the fraction of tasks up to each, just past the table's level.

    Times are whole seconds, so that small quantiles are atoms: the level must lie inside the atom, not at its end.
    """
    levels, values = zip(*statistics.seconds, strict=True)
    upto = [
        level + (after - level) * (0.45 if value <= 3 else 0.02)
        for level, value, after in zip(levels, values, (*levels[1:], 1.0), strict=True)
    ]
    upto[-1] = 1.0
    return np.array(values, dtype=float), np.array(upto)


def _fit_tasks(
    rng: Generator, seconds: Sequence[np.ndarray], tasks: np.ndarray, statistics: Statistics, fixed: Sequence[DagJob]
) -> list[np.ndarray]:
    """Return the tasks per stage: each job has its total, and each bin of times has the table's fraction of all tasks.

    The method is iterative proportional fitting.
    """
    edges, cumulative = _cumulative(statistics)
    job = np.repeat(np.arange(len(seconds)), [len(own) for own in seconds])
    time = np.concatenate(seconds)
    bins = np.searchsorted(edges, time, side="left")
    taken = np.zeros(len(edges))
    for one in fixed:
        for stage in one.stages:
            taken[np.searchsorted(edges, stage.seconds, side="left")] += stage.tasks
    total = tasks.sum() + taken.sum()
    want = np.maximum(np.diff(cumulative, prepend=0.0) * total - taken, 1.0)
    # within a bin, more tasks near its lower edge and near its upper edge are equally likely
    weight = rng.gamma(0.7, 1.0, len(time)) + 0.02
    for _ in range(300):
        weight *= (want / np.maximum(np.bincount(bins, weight, len(edges)), 1e-12))[bins]
        weight *= (tasks / np.bincount(job, weight, len(tasks)))[job]
        weight = np.maximum(weight, 1.0)
    return [_whole(weight[job == row], int(tasks[row])) for row in range(len(tasks))]


def _whole(weight: np.ndarray, total: int) -> np.ndarray:
    """Divide `total` into whole parts of at least one, in proportion to `weight`."""
    exact = weight / weight.sum() * (total - len(weight))
    parts = np.floor(exact).astype(int)
    for index in np.argsort(parts - exact)[: total - len(weight) - parts.sum()]:
        parts[index] += 1
    return np.asarray(parts + 1)


def _demands(rng: Generator, split: Sequence[np.ndarray], statistics: Statistics, fixed: Sequence[DagJob]) -> list[list[tuple[float, ...]]]:
    """Draw (cpu, memory) per stage in hundredths of a machine, with the table's mean over tasks and its maximum."""
    weight = np.concatenate(split)
    columns = []
    for column, (mean, highest) in enumerate(zip(statistics.mean_demand, statistics.highest_demand, strict=True)):
        given = math.fsum(stage.tasks * stage.demand[column] for job in fixed for stage in job.stages)
        fixed_tasks = sum(job.tasks for job in fixed)
        target = (mean * (weight.sum() + fixed_tasks) - given) / weight.sum()
        lowest = max(0.01, 2 * mean - highest - 0.02)
        level = rng.random(len(weight))
        low, high = 0.05, 20.0
        for _ in range(60):
            middle = math.sqrt(low * high)
            drawn = lowest + (highest - lowest) * level**middle
            low, high = (middle, high) if (drawn @ weight) / weight.sum() > target else (low, middle)
        drawn = np.round(lowest + (highest - lowest) * level ** math.sqrt(low * high), 2)
        drawn[np.argmax(level)] = highest
        columns.append(drawn)
    pairs = iter(zip(*(column.tolist() for column in columns), strict=True))
    return [[next(pairs) for _ in own] for own in split]


def describe(jobs: Sequence[DagJob]) -> dict[str, dict[str, float]]:
    """Compute the table's statistics for any list of jobs."""
    tasks = np.concatenate([[stage.tasks for stage in job.stages] for job in jobs])
    seconds = np.concatenate([[stage.seconds for stage in job.stages] for job in jobs])
    order = np.argsort(seconds, kind="stable")
    cumulative = np.cumsum(tasks[order]) / tasks.sum()

    def weighted(level: float) -> float:
        return float(seconds[order][np.searchsorted(cumulative, level - 1e-12)])

    def spread(values: Sequence[float]) -> dict[str, float]:
        return {
            "min": min(values), "median": float(np.median(values)), "mean": float(np.mean(values)),
            "p90": float(np.quantile(values, 0.9)), "max": max(values),
        }  # fmt: skip

    result = {
        "stages": spread([float(len(job.stages)) for job in jobs]),
        "tasks": spread([float(job.tasks) for job in jobs]),
        "critical_path": spread([job.critical_path_seconds for job in jobs]),
        "seconds": {f"p{level}": weighted(level / 100) for level in (10, 25, 50, 75, 90, 95, 99, 100)},
    }
    demand = np.array([stage.demand[:2] for job in jobs for stage in job.stages])
    for column, name in enumerate(("cpu", "memory")):
        mean = float(demand[:, column] @ tasks / tasks.sum())
        result[name] = {"mean": mean, "max": float(demand[:, column].max())}
    return result


__all__ = ["FIXED", "JOBS", "STATISTICS", "describe", "generate", "quantile"]
