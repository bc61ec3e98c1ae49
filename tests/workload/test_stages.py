"""Readers of traces, and the generator that stands in for TPC-H."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from e2e.workload.stages import (
    GIB,
    DagJob,
    Machine,
    Stage,
    TraceError,
    data_folder,
    generated_tpch_jobs,
    read_stage_list,
    reshaped,
    topological_order,
    tpch_jobs,
)

TWO_JOBS = """\
# 0: BB query27
2 job-0
Map 25 0.21 0.33 0 0 0 0 6
Reduce 2 0.29 0.22 0 0 0 0 1
1
Map Reduce ata
# 1: TPC-H query6
3 job-1 12.5 analysts
a 1.5 0.25 0.5 0.0 0.1 0 0 4
b 3 0.5 0.25 0 0 0 0 2
c 4 1 1 0 0 0 0 1
2
a c ata
b c ata
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "trace.txt"
        path.write_text(text)
        return path

    return write


def test_stage_list_gives_jobs_with_absolute_demands_and_parents(write):
    first, second = read_stage_list(write(TWO_JOBS), Machine(cpu=10, memory=100))
    assert first == DagJob(
        "0: BB query27",
        (Stage("Map", 6, 25.0, 2.1, 33.0), Stage("Reduce", 1, 2.0, 2.9, 22.0, (0,))),
    )
    assert (second.arrival, second.queue) == (12.5, "analysts")
    assert [stage.parents for stage in second.stages] == [(), (), (0, 1)]
    assert second.critical_path_seconds() == 7.0


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param("2 job-0", "two job-0", ":2: expected the number of stages as a whole number of at least 1, found 'two'", id="count"),
        pytest.param(
            "Map 25 0.21", "Map soon 0.21", ":3: expected the duration in seconds as a number of at least 0, found 'soon'", id="time"
        ),
        pytest.param(
            "Map 25 0.21", "Map nan 0.21", ":3: expected the duration in seconds as a number of at least 0, found 'nan'", id="nan"
        ),
        pytest.param(
            "0.29 0.22", "2.9 0.22", ":4: expected the cpu demand as a fraction of one machine, from 0 to 1, found '2.9'", id="demand"
        ),
        pytest.param("0 0 0 0 6", "0 0 0 6", ":3: expected a stage line", id="field missing"),
        pytest.param(
            "0 0 0 0 6", "0 0 0 0 0", ":3: expected the number of tasks as a whole number of at least 1, found '0'", id="no tasks"
        ),
        pytest.param("Reduce 2", "Map 2", ":4: expected a stage name that is new in its job, found 'Map'", id="same name"),
        pytest.param(
            "Map Reduce ata", "Map Shuffle ata", ":6: expected one of this job's stages (Map, Reduce), found 'Shuffle'", id="edge"
        ),
        pytest.param("Map Reduce ata", "Map Reduce oto", ":6: expected the edge kind `ata` (all to all), found 'oto'", id="edge kind"),
        pytest.param(
            "Map Reduce ata", "Map Map ata", ":2: expected edges without a cycle, found stages Map wait for each other", id="cycle"
        ),
        pytest.param("3 job-1 12.5", "3 job-1 later", ":8: expected the arrival in seconds as a number of at least 0", id="arrival"),
        pytest.param("b c ata\n", "", ": expected an edge line `<parent> <child> ata`, found the end of the file", id="cut off"),
    ],
)
def test_malformed_stage_list_names_file_line_expected_and_found(write, old, new, want):
    path = write(TWO_JOBS.replace(old, new, 1))
    with pytest.raises(TraceError) as error:
        read_stage_list(path)
    assert str(error.value).startswith(f"{path}{want}")


def test_unreadable_or_empty_trace_is_a_trace_error(write, tmp_path):
    with pytest.raises(TraceError, match="expected at least one job, found an empty file"):
        read_stage_list(write("\n\n"))
    with pytest.raises(TraceError, match=r"expected a readable file .*absent.txt, found: No such file"):
        read_stage_list(tmp_path / "absent.txt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match=r"expected UTF-8 text in .*binary, found byte 0xff at offset 0"):
        read_stage_list(tmp_path / "binary")


def test_tpch_profiles_become_stage_graphs(tmp_path):
    profile = [
        {"stage_id": 0, "stage_name": "scan", "num_tasks": 8, "average_runtime_ms": 1500.0},
        {"stage_id": 1, "stage_name": "scan", "num_tasks": 4, "average_runtime_ms": 500.0},
        {"stage_id": 2, "stage_name": "join", "num_tasks": 2, "average_runtime_ms": 250.0},
    ]
    (tmp_path / "cloudlab_22query_tpch_profiles.json").write_text(json.dumps({"tpch_q3_50g_maxCores_50": profile}))
    (tmp_path / "queries.yaml").write_text("graphs: [{name: Q3, graph: [{name: 0, children: [2]}, {name: 1, children: [2]}, {name: 2}]}]")
    (job,) = tpch_jobs(tmp_path)
    assert [(stage.tasks, stage.seconds, stage.parents) for stage in job.stages] == [(8, 1.5, ()), (4, 0.5, ()), (2, 0.25, (0, 1))]
    with pytest.raises(TraceError, match="expected a profile tpch_q3_100g_maxCores_50, found none; sizes there: 50g_maxCores_50"):
        tpch_jobs(tmp_path, scale="100g")


def test_public_tpch_profiles_hold_22_queries():
    try:
        folder = data_folder()
    except TraceError as missing:
        pytest.skip(str(missing))
    jobs = tpch_jobs(folder / "dagsched-tpch")
    assert len(jobs) == 22
    assert {job.name: job.tasks for job in jobs}["q21"] == 1299
    assert all(topological_order(job.stages) for job in jobs)


def test_reshaping_bounds_durations_and_widths_but_keeps_the_graph():
    job = DagJob("j", (Stage("a", 300, 100.0, 4.0, 8 * GIB), Stage("b", 1, 1.0, 4.0, 8 * GIB, (0,))))
    small = reshaped(job, time_factor=0.1, task_factor=0.5, shortest=4, longest=9, widest=60, cpu=2.0, memory=4 * GIB)
    assert small.stages == (Stage("a", 60, 9.0, 2.0, 4 * GIB), Stage("b", 1, 4.0, 2.0, 4 * GIB, (0,)))


# --- the generator ---


@pytest.fixture(scope="module")
def generated() -> list[DagJob]:
    return list(itertools.islice(generated_tpch_jobs(seed=1), 399))


def test_same_seed_gives_the_same_jobs_and_another_seed_others():
    first, again, other = (list(itertools.islice(generated_tpch_jobs(seed), 20)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_generated_counts_stay_within_the_extremes_of_tpch(generated):
    assert all(2 <= len(job.stages) <= 14 for job in generated)
    assert all(69 <= job.tasks <= 600 for job in generated)
    assert all(job.critical_path_seconds() >= 41 for job in generated)


@pytest.mark.parametrize(
    ("quantity", "want"),
    [
        pytest.param(lambda job: len(job.stages), {0.5: 8, 0.9: 12}, id="stages per job"),
        pytest.param(lambda job: job.tasks, {0.5: 194, 0.9: 449}, id="tasks per job"),
        pytest.param(DagJob.critical_path_seconds, {0.5: 102}, id="critical path"),
    ],
)
def test_generated_jobs_have_the_quantiles_of_tpch(generated, quantity, want):
    found = np.quantile([quantity(job) for job in generated], list(want))
    assert found == pytest.approx(list(want.values()), rel=0.25)


def test_generated_task_times_have_the_quantiles_of_tpch(generated):
    stages = [stage for job in generated for stage in job.stages]
    times = np.repeat([stage.seconds for stage in stages], [stage.tasks for stage in stages])
    want = {0.25: 13, 0.5: 29, 0.75: 52, 0.9: 86, 0.95: 101, 0.99: 138}
    assert np.quantile(times, list(want)) == pytest.approx(list(want.values()), rel=0.3)


def test_generated_demands_have_the_means_of_tpch(generated):
    stages = [stage for job in generated for stage in job.stages]
    tasks = [stage.tasks for stage in stages]
    assert np.average([stage.cpu / 32 for stage in stages], weights=tasks) == pytest.approx(0.210, rel=0.05)
    assert np.average([stage.memory / (64 * GIB) for stage in stages], weights=tasks) == pytest.approx(0.185, rel=0.05)


def test_generated_graphs_end_in_one_stage_that_waits_for_all_others(generated):
    for job in generated[:50]:
        (last,) = set(range(len(job.stages))) - {parent for stage in job.stages for parent in stage.parents}
        reached, frontier = {last}, [last]
        while frontier:
            frontier = [parent for index in frontier for parent in job.stages[index].parents]
            reached.update(frontier)
        assert reached == set(range(len(job.stages)))
