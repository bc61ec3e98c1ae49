"""The stage-list text format: reading, and refusals with their messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairburst.sim.errors import TraceError
from fairburst.sim.generate import generate
from fairburst.sim.stage_list import read_stage_list
from tests.support.stage_lists import write_stage_list

QUERY27 = """\
# 0: BB query27
2 q27 12.5 bursty
Map_1 25.0 0.21 0.33 0 0 0 0 6
Reducer_2 2 0.29 0.22 0 0 0.1 0 1
1
Map_1 Reducer_2 ata
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "jobs.txt"
    path.write_text(text)
    return path


def test_reads_jobs_stages_edges_and_all_six_resources(tmp_path: Path) -> None:
    (job,) = read_stage_list(write(tmp_path, QUERY27))
    assert (job.name, job.arrival, job.queue, job.tasks, job.critical_path_seconds) == ("0: BB query27", 12.5, "bursty", 7, 27.0)
    assert job.stages[0].demand == (0.21, 0.33, 0, 0, 0, 0)
    assert job.stages[1].demand[4] == 0.1
    assert job.stages[1].parents == (0,)


def test_writing_is_the_inverse_of_reading(tmp_path: Path) -> None:
    write_stage_list(tmp_path / "one.txt", generate("tpcds", 1))
    once = read_stage_list(tmp_path / "one.txt")
    assert [(stage.name, stage.tasks, stage.seconds, stage.demand[:2], stage.parents) for job in once for stage in job.stages] == [
        (stage.name, stage.tasks, stage.seconds, stage.demand, stage.parents) for job in generate("tpcds", 1) for stage in job.stages
    ]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        pytest.param("0.21", "x", ":3: expected the cpu demand as a number of at least 0, found 'x'", id="demand not a number"),
        pytest.param(
            "0.33", "1.33", ":3: expected the memory demand as a fraction of one machine, from 0 to 1, found '1.33'", id="demand above 1"
        ),
        pytest.param("25.0", "nan", ":3: expected the duration in seconds as a number", id="duration not a number"),
        pytest.param(" 6\n", " 0\n", ":3: expected the number of tasks as a whole number of at least 1, found '0'", id="no tasks"),
        pytest.param("2 q27", "3 q27", ":5: expected a stage line", id="too few stages"),
        pytest.param("Reducer_2 2", "Map_1 2", ":4: expected a stage name that is new in its job, found 'Map_1'", id="stage twice"),
        pytest.param("Map_1 Reducer_2 ata", "Map_1 Reducer_3 ata", ":6: expected one of this job's stages", id="unknown stage in an edge"),
        pytest.param("ata", "oto", ":6: expected the edge kind `ata`", id="unknown edge kind"),
        pytest.param("1\nMap_1 Reducer_2 ata", "1\nMap_1 Map_1 ata", ":2: expected edges without a cycle", id="cycle"),
        pytest.param("1\nMap_1 Reducer_2 ata\n", "", "expected the number of edges, found the end of the file", id="cut off"),
        pytest.param(QUERY27, "", "expected at least one job, found an empty file", id="empty"),
    ],
)
def test_a_malformed_file_is_refused_with_file_line_and_expectation(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in QUERY27
    path = write(tmp_path, QUERY27.replace(old, new))
    with pytest.raises(TraceError) as caught:
        read_stage_list(path)
    assert str(path) in str(caught.value)
    assert complaint in str(caught.value)


def test_a_missing_file_and_one_that_is_no_text_are_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"expected a readable file .*none\.txt, found: No such file"):
        read_stage_list(tmp_path / "none.txt")
    (tmp_path / "jobs.txt").write_bytes(b"# \xff\xfe")
    with pytest.raises(TraceError, match="expected UTF-8 text"):
        read_stage_list(tmp_path / "jobs.txt")
