"""Profile `bopf-table4`: the rules of the BoPF authors' simulator, from stage lists to the factors of Table 4 (BoPF §5.3).

The module lays out the jobs for the loop of `table4_loop`, runs it and reads completion times. It has the rules for the inputs: the choice
of latency jobs, the multipliers, the slots of the throughput queues. Amounts are in hundredths, times in whole seconds.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np

from fairburst.sim import table4_loop
from fairburst.sim.errors import ScenarioError
from fairburst.sim.workload import DagJob

POLICIES = {"drf": table4_loop.DRF, "sp": table4_loop.STRICT_PRIORITY, "bopf": table4_loop.BOPF}
THROUGHPUT_QUEUES = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class Workload:
    """The use of one benchmark: the limits for latency jobs and their multipliers.

    A latency job has a critical path below `critical_path_below` seconds and fewer than `tasks_below` tasks, both unscaled.
    """

    name: str
    title: str
    critical_path_below: float
    tasks_below: int
    latency_tasks: float
    latency_seconds: float


WORKLOADS = {
    "bb": Workload("bb", "BB", 50, 80, 500, 1),
    "tpcds": Workload("tpcds", "TPC-DS", 30, 50, 800, 1),
    "tpch": Workload("tpch", "TPC-H", 50, 250, 56, 0.5),
}


@dataclass(frozen=True, slots=True)
class Rules:
    """Parameters of the experiment. Capacity in units, the same for cpu and memory; times in seconds.

    share_grain: shares compare in steps of 1 / share_grain; the authors' rounding to two decimals is 100, a finer one shows its effect.
    exact_shares: round shares half up exactly; the authors' doubles round 14.5, 28.5 and 57.5 % down (BoPF 5.3, their released simulator).
    fullest_resource: a burst's budget is spent when one resource is; by the authors' rule, and in the decision core, when all are.
    most_bursts: number of latency jobs after which unfinished batch work counts as starving and the run ends with an error.
    """

    capacity: float = 1000.0
    slots: int = 500
    throughput_tasks: float = 40
    latency_jobs: int = 25
    period: int = 1000
    on_seconds: int = 25
    share_grain: int = 100
    exact_shares: bool = False
    fullest_resource: bool = False
    most_bursts: int = 16_384


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one run. Completion is end - first task start in seconds, NaN if the job had not ended at the stop.

    latency: in order of arrival. throughput: in order of queue, then of slot.
    """

    latency: tuple[float, ...]
    throughput: tuple[float, ...]
    stopped_at: int
    tasks_started: int
    scheduling_steps: int

    @property
    def latency_mean(self) -> float:
        return _mean(self.latency)

    @property
    def throughput_mean(self) -> float:
        return _mean(self.throughput)


def latency_jobs(jobs: Sequence[DagJob], workload: Workload, most: int = 25) -> list[DagJob]:
    """Return the first jobs of the file within the workload's limits. Raises ScenarioError if there are none."""
    chosen = [job for job in jobs if job.critical_path_seconds < workload.critical_path_below and job.tasks < workload.tasks_below]
    if not chosen:
        raise ScenarioError(
            f"{workload.title}: expected at least one job with a critical path below {workload.critical_path_below:g} s and fewer than "
            f"{workload.tasks_below} tasks, to be the latency jobs, found none among {len(jobs)}"
        )
    return chosen[:most]


def throughput_slots(jobs: Sequence[DagJob], queues: int, slots: int = 500) -> list[list[DagJob]]:
    """Return each throughput queue's jobs: slot i belongs to queue i mod n; after each pass over the list one slot stays empty."""
    result: list[list[DagJob]] = [[] for _ in range(queues)]
    for slot in range(slots):
        position = slot % (len(jobs) + 1)
        if position < len(jobs):
            result[slot % queues].append(jobs[position])
    return result


def run(
    jobs: Sequence[DagJob], workload: Workload, policy: str, throughput_queues: int, rules: Rules | None = None, *,
    compiled: bool | None = None,
) -> Outcome:  # fmt: skip
    """Run one policy. compiled: None uses numba if it is installed. The result does not depend on it."""
    rules = rules or Rules()
    if throughput_queues < 1:
        raise ScenarioError(f"expected at least one throughput queue, found {throughput_queues}")
    batch = throughput_slots(jobs, throughput_queues, rules.slots)
    bursts = latency_jobs(jobs, workload, rules.latency_jobs)
    return run_jobs(batch, bursts, workload, policy, rules, compiled=compiled)


def run_jobs(
    batch: Sequence[Sequence[DagJob]], bursts: Sequence[DagJob], workload: Workload, policy: str, rules: Rules, *,
    compiled: bool | None = None,
) -> Outcome:  # fmt: skip
    """Run as `run` does, with given jobs for each throughput queue and given latency jobs, which repeat."""
    use = has_numba() if compiled is None else compiled
    loop: Callable[..., int] = _compiled_loop() if use else table4_loop.run_steps
    _check_fit(batch, bursts, rules)
    count = min(64, rules.most_bursts)
    while True:
        layout = _Layout.of(batch, bursts, count, workload, rules)
        state = layout.state(as_lists=not use)
        code = loop(
            POLICIES[policy],
            len(batch) + 1,
            rules.period,
            rules.on_seconds,
            rules.share_grain,
            int(rules.exact_shares),
            int(rules.fullest_resource),
            _hundredths(rules.capacity),
            *state.values(),
        )
        if code == table4_loop.DONE:
            return layout.outcome(state)
        if count == rules.most_bursts:
            raise ScenarioError(f"{policy}: expected the throughput jobs to end some time, found them starving after {count} latency jobs")
        count = min(4 * count, rules.most_bursts)


def has_numba() -> bool:
    """Return whether numba, which compiles the loop, is installed."""
    return importlib.util.find_spec("numba") is not None


@functools.cache
def _compiled_loop() -> Callable[..., int]:
    import numba  # noqa: PLC0415  an optional extra, and slow to import

    function = table4_loop.run_steps
    try:
        compiled: Callable[..., int] = numba.njit(cache=True)(function)
    except RuntimeError:  # there is no folder for the compiled code, so it is compiled in each process
        compiled = numba.njit()(function)
    return compiled


@dataclass(frozen=True)
class _Layout:
    """All jobs in the loop's arrays, by queue, then by arrival. latency: number of latency jobs, which come last."""

    arrays: dict[str, Any]
    tasks: list[int]
    latency: int

    @classmethod
    def of(cls, batch: Sequence[Sequence[DagJob]], bursts: Sequence[DagJob], count: int, workload: Workload, rules: Rules) -> _Layout:
        jobs: list[tuple[int, int, DagJob, float, float]] = []
        begin = [0]
        for queue, queued in enumerate(batch):
            jobs += [(queue, 0, job, rules.throughput_tasks, 1.0) for job in queued]
            begin.append(len(jobs))
        factors = (workload.latency_tasks, workload.latency_seconds)
        jobs += [(len(batch), number * rules.period, bursts[number % len(bursts)], *factors) for number in range(count)]
        begin.append(len(jobs))
        job_stage, stage_job, tasks, seconds, cpu, memory, waits = [0], [], [], [], [], [], []
        child_begin, children = [0], []
        for number, (_, _, job, task_factor, time_factor) in enumerate(jobs):
            first = job_stage[-1]
            below: list[list[int]] = [[] for _ in job.stages]
            for index, stage in enumerate(job.stages):
                stage_job.append(number)
                tasks.append(max(1, math.floor(stage.tasks * task_factor)))
                seconds.append(whole_seconds(stage.seconds, time_factor))
                cpu.append(_hundredths(stage.demand[0]))
                memory.append(_hundredths(stage.demand[1]))
                waits.append(len(stage.parents))
                for parent in stage.parents:
                    below[parent].append(first + index)
            for listed in below:
                children += listed
                child_begin.append(len(children))
            job_stage.append(first + len(job.stages))
        arrays = {
            "job_begin": begin, "job_arrival": [arrival for _, arrival, *_ in jobs], "job_stage": job_stage, "stage_job": stage_job,
            "stage_seconds": seconds, "stage_cpu": cpu, "stage_memory": memory, "child_begin": child_begin,
            "children": [*children, -1], "waits_for": waits, "queue_of_job": [queue for queue, *_ in jobs],
        }  # fmt: skip
        return cls(arrays, tasks, count)

    def state(self, *, as_lists: bool) -> dict[str, Any]:
        """Return the loop's arguments after `capacity`, in order: the laid-out arrays, and the arrays that the loop writes."""
        arrays = self.arrays
        stages, jobs, queues = len(arrays["stage_job"]), len(arrays["job_arrival"]), len(arrays["job_begin"]) - 1
        wheel = max(arrays["stage_seconds"]) + 1
        batches = sum(map(min, self.tasks, arrays["stage_seconds"])) + 1
        steps = arrays["job_arrival"][-1] + 3
        first_of_job = [arrays["job_stage"][number] for number in range(jobs)]
        written: dict[str, list[int]] = {
            "runnable": [0] * stages, "offered_from": first_of_job, "offered_to": list(first_of_job),
            "not_started": list(self.tasks), "not_ended": list(self.tasks), "last_batch": [-1] * stages,
            "last_start": [-1] * stages, "job_left": [after - before for before, after in _pairs(arrays["job_stage"])],
            "first_start": [-1] * jobs, "end": [-1] * jobs, "wheel_head": [-1] * wheel, "batch_next": [*range(1, batches), -1],
            "batch_stage": [0] * batches, "batch_count": [0] * batches, "cursor": list(arrays["job_begin"][:-1]),
            "usage_cpu": [0] * queues, "usage_memory": [0] * queues, "share": [0] * queues, "out": [0] * queues,
            "dirty": [0] * (stages + 1), "log_cpu": [0] * steps, "log_memory": [0] * steps, "answer": [0, 0, 0],
        }  # fmt: skip
        everything = {"wheel": wheel} | {name: list(values) for name, values in arrays.items()} | written
        if as_lists:
            return everything
        return {name: value if isinstance(value, int) else np.array(value, dtype=np.int64) for name, value in everything.items()}

    def outcome(self, state: dict[str, Any]) -> Outcome:
        begun, ended = [int(value) for value in state["first_start"]], [int(value) for value in state["end"]]
        completion = [float(end - start) if end >= 0 else math.nan for start, end in zip(begun, ended, strict=True)]
        steps, tasks, stop = (int(value) for value in state["answer"])
        first = len(completion) - self.latency
        arrived = first + sum(arrival < stop for arrival in self.arrays["job_arrival"][first:])
        return Outcome(tuple(completion[first:arrived]), tuple(completion[:first]), stop, tasks, steps)


def _pairs(values: Sequence[int]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(values))


def _check_fit(batch: Sequence[Sequence[DagJob]], bursts: Sequence[DagJob], rules: Rules) -> None:
    """Raise ScenarioError for a task larger than the machine, which would wait for ever."""
    for job in (*(job for queued in batch for job in queued), *bursts):
        for stage in job.stages:
            if len(stage.demand) < 2 or max(stage.demand[:2]) > rules.capacity:
                raise ScenarioError(
                    f"{job.name}, stage {stage.name}: expected cpu and memory demands of at most {rules.capacity:g}, found {stage.demand}"
                )


def whole_seconds(seconds: float, factor: float) -> int:
    """Return seconds x factor, rounded half up, at least 1."""
    return max(1, _half_up(Decimal(repr(seconds)) * Decimal(repr(factor))))


def _half_up(value: Decimal) -> int:
    return int(value.quantize(Decimal(1), rounding=ROUND_HALF_UP))


@functools.lru_cache(maxsize=4096)
def _hundredths(amount: float) -> int:
    """Convert an amount exactly: 0.285 counts as that decimal, not as its nearest binary fraction."""
    return _half_up(Decimal(repr(amount)) * 100)


def _mean(values: Sequence[float]) -> float:
    ended = [value for value in values if not math.isnan(value)]
    return math.fsum(ended) / len(ended) if ended else math.nan
