"""DRESS in the simulator: the toy example of Fig. 1, and its inputs."""

from __future__ import annotations

import numpy as np
import pytest

from fairburst.sim.reproductions import EXPERIMENTS
from fairburst.sim.reproductions.dress import JOBS, PROGRAMS, generated
from fairburst.sim.reproductions.dress_estimator import varied
from fairburst.sim.reproductions.result import Options
from fairburst.sim.workload import DagJob, Stage


def test_the_toy_ends_ten_seconds_earlier_and_waits_less_than_the_papers_mean() -> None:
    rows = {row.label: row.ours for row in EXPERIMENTS["dress-fig1"].run(Options(), lambda part, what: None).rows}
    assert rows["FCFS, job 3 of 8 s, makespan, s"] == 40.0
    assert rows["FCFS, job 3 of 8 s, mean wait, s"] == 16.0
    assert rows["DRESS, job 3 of 8 s, makespan, s"] == 30.0
    assert rows["DRESS, job 3 of 8 s, mean wait, s"] == 4.0
    assert rows["DRESS, job 3 of 10 s, makespan, s"] == 32.0


@pytest.mark.parametrize("small", [2, 4, 6, 8])
def test_generated_jobs_have_the_papers_shape(small: int) -> None:
    jobs = generated(3, small, tuple(PROGRAMS), lambda program: program == "sort")
    assert [time for time, _ in jobs] == [5.0 * number for number in range(JOBS)]
    widths = [job.peak[0] for _, job in jobs]
    assert sum(width < 10 for width in widths) == small
    assert all((width < 10) == job.name.startswith("small") for width, (_, job) in zip(widths, jobs, strict=True))


def test_injected_heading_and_trailing_tasks_keep_the_number_of_tasks_and_the_order_of_stages() -> None:
    job = DagJob("q", (Stage("a", 20, 10.0, (1.0,)), Stage("b", 3, 5.0, (1.0,), (0,))))
    result = varied(job, np.random.default_rng(1))
    assert sum(stage.tasks for stage in result.stages if stage.name.startswith("a~")) == 20
    heading, trailing = (next(stage for stage in result.stages if stage.name == f"a~{name}") for name in ("heading", "trailing"))
    assert (heading.tasks, trailing.tasks) == (1, 1)
    assert heading.seconds == pytest.approx(0.7)
    assert trailing.seconds == pytest.approx(13.8)
    last = result.stages[-1]
    assert set(last.parents) == set(range(len(result.stages) - 1))
