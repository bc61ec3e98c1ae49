"""`fairburst simulate` from the command line: its output, its files and its refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from fairburst.cli import simulate as command
from fairburst.cli.main import main
from fairburst.policy.baselines import POLICIES
from fairburst.sim.plots import can_plot
from fairburst.sim.table4 import POLICIES as TABLE4_POLICIES
from fairburst.sim.trace import FORMATS

TRACE = """\
{"fairburst-trace": 1, "resources": ["cpu", "memory"]}
{"name": "report", "queue": "reports", "arrival": 5, "stages": [{"name": "s", "tasks": 10, "seconds": 4, "demand": [1, 1]}]}
{"name": "batch", "stages": [{"name": "m", "tasks": 400, "seconds": 7, "demand": [1, 2]}]}
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_text(TRACE)
    return path


def test_choices_are_those_that_exist() -> None:
    assert set(command.POLICIES) == set(POLICIES)
    assert set(get_args(command.TraceFormat)) == set(FORMATS) | {"generated"}


def simulate(*arguments: str) -> int:
    return main(["simulate", "--capacity", "40,80", "--throughput-queues", "2", "--period", "60", "--on-seconds", "8", *arguments])


def test_json_has_every_queue_under_every_policy(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policies = ["drf", "bopf", "sp", "n-bopf", "m-bvt", "capacity"]
    assert simulate("--trace", str(trace), "--policies", ",".join(policies), "--output", "json") == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result["policies"]) == policies
    for outcome in result["policies"].values():
        assert [queue["queue"] for queue in outcome["queues"]] == ["reports", "tq-0", "tq-1", "lq"]
        assert outcome["queues"][0]["ended"] == 1
        assert 0 < outcome["utilisation"]["cpu"] <= 1
    assert result["policies"]["bopf"]["queues"][-1]["guarantee"] == "Hard"


def test_saves_tables_and_one_page_that_needs_nothing_else(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("--trace", str(trace), "--save", str(tmp_path / "out")) == 0
    assert "bopf: 4" in capsys.readouterr().out
    page = (tmp_path / "out" / "report.html").read_text()
    assert 'src="' not in page
    assert 'rel="stylesheet"' not in page
    assert (page.count("<svg") > 4) == can_plot()
    assert {path.stem for path in (tmp_path / "out").iterdir()} == {"jobs", "queues", "report"}


def test_the_papers_profile_runs_the_same_trace_by_its_own_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--trace", "tpch", "--trace-format", "generated", "--profile", "bopf-table4", "--output", "json"]) == 0
    result = json.loads(capsys.readouterr().out)["policies"]
    assert result["bopf"]["lq_mean_seconds"] < result["drf"]["lq_mean_seconds"]


def test_the_papers_profile_takes_the_policies_that_it_has() -> None:
    assert set(command.TABLE4_POLICIES) == set(TABLE4_POLICIES)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["--policies", "drf,fifo"], "expected some of bopf, drf", id="policy"),
        pytest.param(["--nodes", "0"], "greater than or equal to 1", id="nodes"),
        pytest.param(["--throughput-queues", "0"], "greater than or equal to 1", id="queues"),
        pytest.param(["--trace", "none.jsonl"], "expected a readable file none.jsonl", id="file"),
        pytest.param(["--trace-format", "generated"], "expected one of bb, tpcds, tpch", id="generated"),
        pytest.param(["--profile", "bopf-table4", "--policies", "m-bvt"], "expected policies among drf, sp, bopf", id="profile"),
        pytest.param(["--profile", "bopf-table4", "--save", "out"], "expected none with --profile bopf-table4", id="profile and save"),
        pytest.param(["--until", "-1"], "expected a number above 0, found -1", id="until"),
        pytest.param(["--until", "nan"], "expected a number above 0, found nan", id="until nan"),
        pytest.param(["--period", "-5"], "expected a number of at least 0, found -5", id="period"),
        pytest.param(["--deadline", "0"], "expected a number above 0, found 0", id="deadline"),
        pytest.param(["--seed", "-1"], "greater than or equal to 0", id="seed"),
        pytest.param(["--capacity", "40,x"], "expected amounts above 0 separated by commas, found '40,x'", id="capacity"),
        pytest.param(["--save", f"{__file__}/out"], "expected a folder that can be written, found the file", id="save below a file"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_work(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], complaint: str
) -> None:
    monkeypatch.setattr("fairburst.cli.simulate._realistic", None)
    monkeypatch.setattr("fairburst.cli.simulate._table4", None)
    assert simulate("--trace", str(trace), *arguments) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("fairburst simulate: ")
    assert complaint in said[0]
    assert said[1:] == ["Try `fairburst simulate --help`."]
