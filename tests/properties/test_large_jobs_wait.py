"""The bound on large jobs' waits, and idle capacity, in whole simulated runs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairburst.policy.dress.values import DressConfig, StartMode
from fairburst.policy.model import ClusterSnapshot, PolicyConfig, RoundResult
from fairburst.sim.cluster import one_machine
from fairburst.sim.engine import run
from fairburst.sim.experiment import throughput_spec
from fairburst.sim.scenario import Scenario, Submission
from fairburst.sim.workload import DagJob, Stage

CONTAINERS, LONGEST, MAX_WAIT, STEP = 20, 15, 40.0, 1.0


def stream(sizes: list[tuple[int, int]], large: int, at: float, mode: StartMode) -> Scenario:
    """Small jobs, one a second, over and over; one large job among them."""
    jobs = [
        Submission(float(second), "q", DagJob("small", (Stage("run", width, float(seconds), (1.0,)),)))
        for second in range(150)
        for width, seconds in [sizes[second % len(sizes)]]
    ]
    jobs.append(Submission(at, "q", DagJob("large", (Stage("run", large, 10.0, (1.0,)),))))
    config = DressConfig(max_wait_seconds=MAX_WAIT, step_seconds=STEP, start_mode=mode)
    return Scenario(
        one_machine(("containers",), (float(CONTAINERS),)), (throughput_spec("q", 0.0),), jobs, config=PolicyConfig(dress=config),
        whole_jobs=mode is StartMode.WHOLE_JOBS, until=200.0,
    )  # fmt: skip


small_jobs = st.lists(st.tuples(st.integers(1, 2), st.integers(1, LONGEST)), min_size=1, max_size=4)


class TestLargeJobsWait:
    """Issue: "large jobs' wait bounded by `maxWait` plus running work under any stream of small ones"."""

    @settings(max_examples=8)
    @given(small_jobs, st.integers(3, CONTAINERS), st.integers(0, 30), st.sampled_from(list(StartMode)))
    def test_a_large_job_starts_within_its_longest_wait_and_what_runs_then(
        self, sizes: list[tuple[int, int]], large: int, at: int, mode: StartMode
    ) -> None:
        record = run(stream(sizes, large, float(at), mode), "dress")
        job = next(job for job in record.jobs if job.name == "large")
        assert job.first_start - job.arrival <= MAX_WAIT + LONGEST + STEP


class TestNothingIsIdle:
    """Task by task: "leftover never idle while demand is unmet"."""

    @settings(max_examples=8)
    @given(small_jobs, st.integers(3, CONTAINERS))
    def test_after_each_round_either_all_is_used_or_nobody_waits_except_for_one_that_has_waited(
        self, sizes: list[tuple[int, int]], large: int
    ) -> None:
        def look(now: float, given_: ClusterSnapshot, result: RoundResult) -> None:
            if result.dress is None or result.small_level is None or result.dress.reason == "LargeWaited":
                return
            assert np.allclose(result.level.sum(), min(CONTAINERS, given_.demand.sum()))
            assert (result.small_level <= result.level + 1e-9).all()

        run(stream(sizes, large, 5.0, StartMode.TASK_BY_TASK), "dress", observer=look)
