"""The tables of docs/benchmarks.md are the saved figures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.measure import REGISTRY, Measurement, figure
from benchmarks.page import MARKED, PAGE, rendered, table_of
from benchmarks.results import RESULTS, Circumstances, Saved, read, save

WHEN = Circumstances("2026-01-02", 2, 0.5)


def test_the_tables_of_the_page_are_made_from_the_saved_figures() -> None:
    """`python -m benchmarks.page` writes what is committed."""
    assert rendered(PAGE.read_text(), read(RESULTS)) == PAGE.read_text()


def test_every_saved_benchmark_is_shown() -> None:
    shown = {found["name"] for found in MARKED.finditer(PAGE.read_text())}
    assert {one.benchmark for one in read(RESULTS)} == shown


def test_a_missed_target_is_bold_and_a_spread_is_shown() -> None:
    kept = figure("met", 0.25, "ratio", 0.2, at_least=True)
    missed = Measurement("missed | slow", 12_345.0, "us", 10.0, 3, 11_000.0, 13_000.0)
    table = table_of([Saved("some", WHEN.day, WHEN.cores, WHEN.load, one) for one in (kept, missed)])
    assert "| met | 0.25 | at least 0.2 |" in table
    assert r"| missed \| slow | **12,300 µs (11,000 to 13,000)** | at most 10 µs |" in table
    assert "*2026-01-02, 2 cores, load 0.5 at the start.*" in table


def test_saving_a_benchmark_again_replaces_its_figures_and_keeps_its_place(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "results.jsonl"
    save(path, "first", [figure("a", 1.0, "s"), figure("b", 2.0, "s")], WHEN)
    save(path, "second", [figure("c", 3.0, "s", 2.0)], WHEN)
    save(path, "first", [figure("a", 4.0, "s")], WHEN)
    assert [(one.benchmark, one.figure.name, one.figure.value) for one in read(path)] == [("first", "a", 4.0), ("second", "c", 3.0)]
    assert read(path)[1].figure == figure("c", 3.0, "s", 2.0)


def test_a_table_without_saved_figures_is_named() -> None:
    with pytest.raises(LookupError, match="nothing_yet"):
        rendered("<!-- figures: nothing_yet -->\n<!-- end -->\n", [])


def test_the_command_saves_the_figures_of_each_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.jsonl"
    monkeypatch.setattr(command, "RESULTS", path)
    monkeypatch.setitem(REGISTRY, "zz_saved", lambda: iter([figure("saved", 1.0, "ms", 2.0)]))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "zz_saved", "--save"])
    assert command.main() == 0
    assert [(one.benchmark, one.figure.name) for one in read(path)] == [("zz_saved", "saved")]
