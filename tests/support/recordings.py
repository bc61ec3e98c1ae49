"""Recordings for tests: a busy simulated minute, written by the recorder that the operator uses."""

from __future__ import annotations

from pathlib import Path

from fairburst.policy.model import Sporadic
from fairburst.recording.writer import Recorder
from fairburst.sim.cluster import one_machine
from fairburst.sim.engine import Observer, run
from fairburst.sim.scenario import Scenario, Submission
from fairburst.sim.sink import Record
from fairburst.sim.workload import DagJob, Stage
from tests.support.policy import latency, throughput

MEGABYTE = 1_000_000


def busy_minute() -> Scenario:
    """A hard queue with two bursts, and two throughput queues that want more than the capacity."""
    queues = (throughput("one/q", 0.0), throughput("two/q", 1.0, 2.0), latency("serving/q", 2.0, [8.0, 8.0], 8.0, Sporadic(30.0)))
    work = [("one/q", 0.0, 150, 4.0), ("two/q", 5.0, 250, 3.0), ("serving/q", 10.0, 16, 4.0), ("serving/q", 45.0, 16, 4.0)]
    jobs = [
        Submission(at, queue, DagJob(f"job-{number}", (Stage("s", tasks, seconds, (1.0, 1.0)),)))
        for number, (queue, at, tasks, seconds) in enumerate(work)
    ]
    return Scenario(one_machine(("cpu", "memory"), (16.0, 16.0)), queues, jobs, until=70.0)


def record(path: Path, *, max_bytes: int = 64 * MEGABYTE, files: int = 2, observer: Observer | None = None) -> Record:
    """Run the busy minute with every decision recorded."""
    recorder = Recorder(path, max_bytes, files, backlog=100_000)
    recorder.start()
    try:
        return run(busy_minute(), recorder.decide, observer=observer)
    finally:
        recorder.stop()
