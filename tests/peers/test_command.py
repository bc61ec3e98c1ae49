"""The command's order of runs, and that one failure costs no other run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.peers import __main__ as command
from benchmarks.peers import results
from benchmarks.peers.contender import Contender, PeerError
from benchmarks.peers.machine import Spent
from benchmarks.peers.run import Run
from benchmarks.peers.scenarios import Scenario


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The requested runs. Those of priority fail."""
    asked: list[tuple[str, str]] = []

    def run(contender: Contender, scenario: Scenario, name: str, keep: Path | None = None) -> Run:
        asked.append((scenario.name, contender.name))
        if contender.name == "priority":
            raise PeerError("not today")
        return Run({"bound": 1.5, "pods": 10.0}, Counter(), Spent(), 0.5)

    monkeypatch.setattr(command, "run", run)
    return asked


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["peers", *words])
    monkeypatch.setattr(command, "end_in_good_order", lambda: None)
    return command.main()


def test_the_order_rotates_from_repeat_to_repeat(runs: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--contender", "bare", "--contender", "kueue", "--contender", "fairburst-quota", "--scenario", "s9"]
    assert call(monkeypatch, *words, "--repeats", "2", "--size", "0.1") == 0
    names = [name for _, name in runs]
    assert names == ["bare", "kueue", "fairburst-quota", "kueue", "fairburst-quota", "bare"]


def test_a_failure_is_told_and_the_others_run(
    runs: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results.csv"
    words = ["--contender", "priority", "--contender", "bare", "--scenario", "s9", "--repeats", "1", "--out", str(out)]
    assert call(monkeypatch, *words) == 1
    assert "not today" in capsys.readouterr().err
    assert [line.key for line in results.read(out)] == [("s9-4", "bare")]
    assert len(runs) == 2


def test_who_does_not_play_a_scenario_is_left_out(runs: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(monkeypatch, "--contender", "bare", "--contender", "kueue", "--scenario", "s6", "--repeats", "1", "--size", "0.1") == 0
    assert runs == [("s6", "kueue")]
