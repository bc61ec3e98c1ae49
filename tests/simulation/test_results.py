"""A long run continues where it was stopped, and prints its progress."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.results import ROOT, SHOWN_SECONDS, Results, shown, sources


def test_finished_parts_are_there_in_the_next_run_and_half_written_lines_are_not(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    first = Results(file)
    first.add("1", {"seed": 1, "broken": []})
    first.add("2", {"seed": 2, "broken": ["two writers"]})
    with file.open("a") as stream:
        stream.write('{"key": "3", "sour')
    assert Results(file).finished == {"1": {"seed": 1, "broken": []}, "2": {"seed": 2, "broken": ["two writers"]}}


def test_results_of_other_sources_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    Results(file, of="older").add("1", {"seed": 1})
    assert Results(file).finished == {}
    assert Results(file, of="older").finished == {"1": {"seed": 1}}
    assert len(sources()) == 16


def test_progress_is_said_every_half_minute_with_what_broke() -> None:
    clock, said = itertools.count(0.0, SHOWN_SECONDS / 2), io.StringIO()
    results = list(shown([True, False, True, False], 4, "seeds", is_bad=bool, file=said, clock=lambda: next(clock)))
    assert results == [True, False, True, False]
    assert said.getvalue() == "2 of 4 seeds, 1 broke, 0.07 a second, 0 min left\n4 of 4 seeds, 2 broke, 0.07 a second, 0 min left\n"


@pytest.mark.slow
def test_a_second_run_of_the_same_seeds_runs_none_and_reports_the_same(tmp_path: Path) -> None:
    def run() -> tuple[int, str]:
        command = [sys.executable, "-m", "tests.simulation", "1-2", "--results", str(tmp_path / "seeds.jsonl")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False, cwd=ROOT)
        return done.returncode, done.stdout.rpartition(";")[0]

    first = run()
    assert first[0] == 0, first[1]
    assert len((tmp_path / "seeds.jsonl").read_text().splitlines()) == 2
    assert run() == first
    assert len((tmp_path / "seeds.jsonl").read_text().splitlines()) == 2
