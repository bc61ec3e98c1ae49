"""Trace formats other than the stage list: the jobs that they give, and messages about malformed lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairburst.sim.errors import TraceError
from fairburst.sim.trace import Trace, in_queues, read_trace
from fairburst.sim.workload import DagJob, Stage

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the public traces aren't at {DATA}")

HEAD = '{"fairburst-trace": 1, "resources": ["cpu", "memory"]}\n'
JOB = '{"name": "j", "queue": "q", "arrival": 3.5, "stages": [{"name": "a", "tasks": 2, "seconds": 4, "demand": [1, 2]}, %s]}\n'
LAST = '{"name": "b", "tasks": 1, "seconds": 1.5, "demand": [0.5, 0], "parents": ["a"]}'


def test_native_gives_the_jobs_with_and_without_a_queue_and_an_arrival(tmp_path: Path) -> None:
    job = DagJob("j", (Stage("a", 2, 4.0, (1.0, 2.0)), Stage("b", 1, 1.5, (0.5, 0.0), (0,))), 3.5, "q")
    (tmp_path / "t.jsonl").write_text(HEAD + JOB % LAST + (JOB % LAST).replace('"j", "queue": "q", "arrival": 3.5', '"k"'))
    assert read_trace(tmp_path / "t.jsonl", "native") == Trace(("cpu", "memory"), (job, DagJob("k", job.stages)))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("", ":1: expected the header", id="empty"),
        pytest.param('{"fairburst-trace": 2, "resources": ["cpu"]}\n', ":1: expected version 1 of the format, found 2", id="newer version"),
        pytest.param(HEAD, "expected at least one job after the header", id="no jobs"),
        pytest.param(HEAD + "{\n", ":2: expected one JSON object a line", id="no JSON"),
        pytest.param(
            HEAD + JOB % LAST.replace('"tasks": 1', '"tasks": 0'), ":2: expected at least one task in stage 'b', found 0", id="no tasks"
        ),
        pytest.param(
            HEAD + JOB % LAST.replace("1.5", "NaN"), ":2: expected the seconds of stage 'b' as a number of at least 0", id="not a number"
        ),
        pytest.param(
            HEAD + JOB % LAST.replace("[0.5, 0]", "[1]"),
            ":2: expected 2 demands in stage 'b', one a resource, found 1",
            id="too few demands",
        ),
        pytest.param(
            HEAD + JOB % LAST.replace('["a"]', '["c"]'), ":2: expected parents of stage 'b' among a, b, found 'c'", id="unknown parent"
        ),
        pytest.param(HEAD + JOB % LAST.replace('["a"]', '["b"]'), ":2: expected parents without a cycle", id="cycle"),
        pytest.param(
            HEAD + (JOB % LAST).replace("arrival", "arival"),
            ":2: expected only name, queue, arrival, stages, found 'arival'",
            id="unknown key",
        ),
        pytest.param(HEAD + JOB % LAST + "x\n", ":3: expected one JSON object a line", id="nothing half read"),
    ],
)
def test_a_malformed_native_trace_is_refused_by_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    with pytest.raises(TraceError) as caught:
        read_trace(path, "native")
    assert str(caught.value).startswith(str(path))
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("trace_format", "text", "complaint"),
    [
        pytest.param(
            "swim",
            "job0\t1\t1\t5\t5\n",
            "t:1: expected job, submit time, gap and three sizes in bytes, tab separated, found 5 fields",
            id="swim",
        ),
        pytest.param("swim", "job0\t1\t1\t5\t5\t-1\n", "t:1: expected job", id="swim negative"),
        pytest.param("azure", "TIME,A,B\n", "t:1: expected the header TIMESTAMP,ContextTokens,GeneratedTokens", id="azure header"),
        pytest.param(
            "azure", "TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,2\n", "t:2: expected a time and two counts of tokens", id="azure time"
        ),
    ],
)
def test_malformed_lines_of_other_formats_are_named(tmp_path: Path, trace_format: str, text: str, complaint: str) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(TraceError) as caught:
        read_trace(tmp_path / "t", trace_format)
    assert complaint in str(caught.value)


def test_unknown_format_is_refused() -> None:
    with pytest.raises(TraceError, match="expected a trace format among native, stages"):
        read_trace(Path("x"), "csv")


@needs_data
def test_public_traces_are_read_whole() -> None:
    tpch = read_trace(DATA / "dagsched-tpch", "dagsched-tpch")
    assert len(tpch.jobs) == 22
    assert all(job.critical_path_seconds > 0 for job in tpch.jobs)
    assert len(read_trace(DATA / "swim" / "FB-2009_samples_24_times_1hr_0.tsv", "swim").jobs) == 5894
    requests = read_trace(next(DATA.glob("azure-*-inference/*_code.csv")), "azure").jobs
    assert len(requests) == 8819
    assert requests[0].arrival == 0.0
    assert 3400 < (requests[-1].arrival or 0) < 3700


def test_jobs_without_a_queue_are_dealt_out_in_turn() -> None:
    jobs = [DagJob(str(number), (), queue="own" if number == 1 else None) for number in range(4)]
    assert [name for name, _ in in_queues(jobs, 2)] == ["tq-0", "own", "tq-1", "tq-0"]
