"""Coverage of `fairburst eta`: replays real and generated traces, and forecasts several times when the waiting jobs will start.

    python -m benchmarks.eta [--seeds 21,22] [--only swim-2009]

Prints the table of docs/benchmarks.md. The traces of SWIM and Azure are read from ../shared/data; the stage lists are generated. A seed
chooses the part of the trace, the queue of each job, and how much longer or shorter each stage runs than in the trace. Forecasts were
developed with seeds 1 to 12; the table uses others.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fairburst.forecast.coverage import Asked, compared, measure
from fairburst.sim.cluster import one_machine
from fairburst.sim.experiment import in_resources, throughput_spec
from fairburst.sim.generate import generate
from fairburst.sim.scenario import Scenario, Submission
from fairburst.sim.trace import read_trace
from fairburst.sim.workload import DagJob, with_stages

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
QUEUES = 4
NOISE = 0.3  # standard deviation of the logarithm of a stage's duration


@dataclass(frozen=True, slots=True)
class Workload:
    """A trace, the number of its jobs to replay, and their load: work over capacity and time."""

    file: str
    trace_format: str
    jobs: int
    load: float


WORKLOADS = {
    "swim-2009": Workload("swim/FB-2009_samples_24_times_1hr_0.tsv", "swim", 500, 0.95),
    "swim-2010": Workload("swim/FB-2010_samples_24_times_1hr_0.tsv", "swim", 500, 0.95),
    "azure-code": Workload("azure-*-inference/*_code.csv", "azure", 2000, 0.98),
    "azure-conv": Workload("azure-*-inference/*_conv.csv", "azure", 4000, 0.98),
    "stages-bb": Workload("bb", "generated", 150, 0.9),
    "stages-tpcds": Workload("tpcds", "generated", 150, 0.9),
}


def scenario(workload: Workload, seed: int) -> Scenario:
    """Return four queues with weights 1, 2, 1, 2 on one machine, which is sized for the workload's load."""
    draw = np.random.default_rng(seed)
    jobs = [in_resources(job, 2) for job in _part(workload, seed, draw)]
    jobs = [
        with_stages(job, lambda stage: replace(stage, seconds=stage.seconds * float(np.exp(NOISE * draw.standard_normal()))))
        for job in jobs
    ]
    work = np.sum([job.work for job in jobs], axis=0)
    if jobs[0].arrival is None:
        length = 20 * max(job.critical_path_seconds for job in jobs)
        at = np.sort(draw.uniform(0, length, len(jobs)))
    else:
        at = np.array([job.arrival or 0.0 for job in jobs])
        at -= at[0]
        length = float(at[-1])
    largest = np.max([stage.demand for job in jobs for stage in job.stages], axis=0)
    capacity = np.maximum(work / length / workload.load, largest)
    queues = tuple(throughput_spec(f"tq-{number}", float(number), 1.0 + number % 2) for number in range(QUEUES))
    submissions = [Submission(float(when), f"tq-{int(draw.integers(QUEUES))}", job) for when, job in zip(at, jobs, strict=True)]
    return Scenario(one_machine(("cpu", "memory"), capacity.tolist()), queues, submissions, until=3 * length)


def _part(workload: Workload, seed: int, draw: np.random.Generator) -> list[DagJob]:
    if workload.trace_format == "generated":
        return list(generate(workload.file, seed))[: workload.jobs]
    jobs = read_trace(next(DATA.glob(workload.file)), workload.trace_format).jobs
    first = int(draw.integers(0, max(1, len(jobs) - workload.jobs)))
    return list(jobs[first : first + workload.jobs])


def replayed(name: str, seed: int, questions: int, at_once: int, runs: int) -> list[Asked]:
    """Return the questions of one replay."""
    made = scenario(WORKLOADS[name], seed)
    _, asked = measure(made, every=made.until / 3 / questions, jobs_at_once=at_once, runs=runs, seed=seed)
    return asked


def main() -> int:
    """Print one row for each trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="21,22", help="comma separated")
    parser.add_argument("--only", choices=sorted(WORKLOADS))
    parser.add_argument("--questions", type=int, default=8, help="times at which is asked, in a replay")
    parser.add_argument("--at-once", type=int, default=8, help="jobs that are asked for at one time")
    parser.add_argument("--runs", type=int, default=12, help="forward runs for a question")
    given = parser.parse_args()
    print(
        "| trace | questions | 90 % covered | 50 % covered | uncalibrated 90 %, 50 % | median wait | width of 90 % | error of the median |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in [given.only] if given.only else list(WORKLOADS):
        started = time.process_time()
        asked: list[Asked] = []
        for seed in (int(text) for text in given.seeds.split(",")):
            found = replayed(name, seed, given.questions, given.at_once, given.runs)
            offset = 1e9 * seed  # replays follow each other in time, so that the calibration learns across them, as on one cluster
            asked += [replace(one, time=one.time + offset) for one in found]
        result = compared(asked)
        print(
            f"| {name} | {result.outcomes} | {result.calibrated[0.9]:.0%} | {result.calibrated[0.5]:.0%} | "
            f"{result.raw[0.9]:.0%}, {result.raw[0.5]:.0%} | {result.median_wait:.1f} s | {result.median_width:.1f} s | "
            f"{result.median_error:.1f} s |",
            flush=True,
        )
        sys.stderr.write(f"{name}: {time.process_time() - started:.0f} s of processor time\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
