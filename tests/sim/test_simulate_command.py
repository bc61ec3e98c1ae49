"""`fairburst simulate` from the command line: what it prints, what it saves, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairburst.cli import simulate as command
from fairburst.cli.main import main
from fairburst.policy.baselines import POLICIES
from fairburst.sim.plots import can_plot
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
    assert set(command.TRACE_FORMATS) == set(FORMATS) | {"generated"}


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


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        pytest.param(["--policies", "drf,fifo"], 2, "expected some of bopf, drf", id="policy"),
        pytest.param(["--nodes", "0"], 1, "--nodes: expected at least 1, found 0", id="nodes"),
        pytest.param(["--trace", "none.jsonl"], 1, "expected a readable file none.jsonl", id="file"),
        pytest.param(["--profile", "bopf-table4", "--policies", "m-bvt"], 1, "expected policies among drf, sp, bopf", id="profile"),
    ],
)
def test_what_makes_no_sense_is_refused(
    trace: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, complaint: str
) -> None:
    assert simulate("--trace", str(trace), *arguments) == code
    assert complaint in capsys.readouterr().err
