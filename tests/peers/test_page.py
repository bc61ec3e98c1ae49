"""The file of results, and the page made from it."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks.peers import page, results
from benchmarks.peers.plot import bars
from benchmarks.peers.results import Line


def line(contender: str, repeat: int = 1, scenario: str = "s9-4", **figures: float) -> Line:
    about = dict.fromkeys(results.ABOUT, "") | {
        "scenario": scenario,
        "size": "0.5",
        "contender": contender,
        "repeat": str(repeat),
        "load": "1.0",
        "title": "A burst",
        "nodes": "10",
        "places": "320",
    }
    return Line(
        about, {"pods": 10.0, **figures}, {"requests": {"kueue": 30.0}, "processor_seconds": {"kueue": 1.5}, "peak_mib": {"kueue": 60.0}}
    )


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    first, second = line("bare", bound=12.25, done=math.inf), line("kueue", bound=0.125)
    results.append(path, [first])
    results.append(path, [second])
    assert results.read(path) == [first, second]
    assert len(path.read_text().splitlines()) == 3


def test_the_repeats_give_least_median_and_most() -> None:
    table = page.spreads([line("bare", n, bound=value) for n, value in enumerate((3.0, 1.0, 2.0))])["s9-4"]
    spread = table["bare"]["bound"]
    assert (spread.least, spread.median, spread.most) == (1.0, 2.0, 3.0)
    assert spread.written() == "2.0 (1.0 to 3.0)"


def test_who_is_better_is_told_by_the_sense_of_the_figure() -> None:
    table = page.spreads([line("kueue", bound=30.0, use=0.99), line("fairburst-quota", bound=10.0, use=0.9)])["s9-4"]
    assert page.better_than_ours("s9-4", table) == ["cluster in use: `kueue` 99.0 %; fairburst 90.0 %"]


def test_small_differences_and_other_forms_of_fairburst_are_no_win() -> None:
    lines = [line("bare", bound=9.9), line("fairburst-gate", bound=5.0), line("fairburst-quota", bound=10.0)]
    assert page.better_than_ours("s9-4", page.spreads(lines)["s9-4"]) == []


def test_a_burst_that_never_ended_loses_against_any_that_did() -> None:
    lines = [line("bare", bound=900.0), line("fairburst-quota", bound=math.inf)]
    assert page.better_than_ours("s9-4", page.spreads(lines)["s9-4"]) == ["last pod bound (s): `bare` 900; fairburst never"]


def test_wins_of_others_come_before_the_results() -> None:
    made = page.page([line("kueue", bound=5.0), line("fairburst-quota", bound=10.0)])
    assert made.index("`kueue` 5.0") < made.index("## Results") < made.index("| `fairburst-quota` |")


def test_the_plot_is_small_and_well_formed() -> None:
    drawn = bars("a < b", [("bare", 1.0, 2.0, 3.0), ("kueue", 4.0, math.inf, math.inf), ("fairburst-quota", -1.0, -0.5, 0.0)])
    assert len(drawn) < 4000
    rectangles = ET.fromstring(drawn).findall("{http://www.w3.org/2000/svg}rect")  # noqa: S314 (our own text)
    widths = [float(each.attrib["width"]) for each in rectangles]
    assert widths[1] == max(widths)
    assert widths[0] == pytest.approx(4 * widths[2], abs=0.3)


def test_the_page_is_current() -> None:
    """`python -m benchmarks.peers.page` writes what is committed."""
    for path, text in page.files(results.read(page.RESULTS)).items():
        assert path.read_text() == text, f"{path.name} is not what its command makes"
    drawn = {path.name for path in page.RESULTS.parent.glob("*.svg")}
    assert drawn == set(page.plots(results.read(page.RESULTS)))
