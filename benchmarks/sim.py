"""Speed of the simulator: one run of Table 4 and all 36, compiled and plain; the realistic engine; cost per event as jobs grow; memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

from benchmarks.measure import Measurement, benchmark, figure, timed
from fairburst.sim import table4
from fairburst.sim.cluster import one_machine
from fairburst.sim.engine import run
from fairburst.sim.experiment import batch_with_bursts
from fairburst.sim.generate import generate
from fairburst.sim.workload import scaled


@benchmark
def sim_table4() -> Iterator[Measurement]:
    """Measure one Table 4 run (499 jobs, 17 million task starts, 1 latency queue, 8 throughput queues), and all 36."""
    jobs, workload = generate("bb", 1), table4.WORKLOADS["bb"]
    if table4.has_numba():
        yield timed("sim table 4, one run, compiled", lambda: table4.run(jobs, workload, "bopf", 8), unit="s", target=2.0, repeats=5)
    begin = time.perf_counter()
    table4.run(jobs, workload, "bopf", 8, compiled=False)
    yield figure("sim table 4, one run, plain", time.perf_counter() - begin, "s")
    if table4.has_numba():
        begin = time.perf_counter()
        for name, each in table4.WORKLOADS.items():
            listed = generate(name, 1)
            for queues in table4.THROUGHPUT_QUEUES:
                for policy in ("drf", "bopf"):
                    table4.run(listed, each, policy, queues)
        yield figure("sim table 4, all 36 runs on one core", time.perf_counter() - begin, "s", 60.0)


@benchmark
def sim_realistic() -> Iterator[Measurement]:
    """Measure the same input through policy.decide, rounds every second, and the peak memory of the process."""
    jobs, workload = generate("bb", 1), table4.WORKLOADS["bb"]
    batch = [scaled(job, 40) for queue in table4.throughput_slots(jobs, 8) for job in queue]
    bursts = [scaled(job, workload.latency_tasks, workload.latency_seconds) for job in table4.latency_jobs(jobs, workload)]
    machine = one_machine(("cpu", "memory"), (1000.0, 1000.0))
    scenario = batch_with_bursts(machine, batch, 8, bursts, period=1000.0, on_seconds=25.0, round_seconds=1.0)
    begin = time.process_time()  # one process on one core: processor time excludes the machine's other load
    record = run(scenario, "bopf")
    yield figure("sim realistic, the Table 4 input, bopf, processor time", time.process_time() - begin, "s", 60.0)
    yield figure("sim realistic, tasks started", record.tasks_started, "tasks")
    yield figure("sim peak memory of the process", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB", 1024.0)


@benchmark
def sim_growth() -> Iterator[Measurement]:
    """Measure the cost per round of the realistic engine with 500, 5,000 and 50,000 jobs queued, relative to 500."""
    base = None
    for count in (500, 5_000, 50_000):
        jobs = generate("tpch", 1, jobs=500)
        batch = [jobs[number % len(jobs)] for number in range(count)]
        machine = one_machine(("cpu", "memory"), (100.0, 100.0))
        scenario = batch_with_bursts(machine, batch, 8, jobs[:1], period=300.0, on_seconds=20.0, until=1500.0, round_seconds=1.0)
        marks: list[float] = []
        record = run(scenario, "bopf", observer=lambda *_, seen=marks: seen.append(time.process_time()))
        cost = (marks[-1] - marks[0]) / (record.rounds - 1) * 1e6
        base = cost if base is None else base
        yield figure(f"sim {count} jobs: per round", cost, "us")
        yield figure(f"sim {count} jobs: per round, relative to 500", cost / base, "ratio", 1.5)
