"""Pictures in the documentation: the recording of a terminal is one self-contained file; stored pictures are small and used."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.text import Text

from benchmarks.pictures.terminal import COLUMNS, Screen, record, svg, wrapped

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
RECORDING = IMAGES / "terminal.svg"
MOST_BYTES, MOST_BYTES_TOGETHER, MOST_BYTES_OF_A_RECORDING = 150_000, 1_200_000, 200_000
SCREENS = (
    Screen("fairburst status", (Text.from_ansi("\x1b[1mQUEUE\x1b[0m  a<b"), Text(""), Text.from_ansi("\x1b[32mgood\x1b[0m  &")), 0.5),
    Screen("fairburst get", (Text("x"),), 30.0),
)


def lines_of(drawing: str) -> list[str]:
    root = ElementTree.fromstring(drawing)  # noqa: S314  our own file
    return ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]


def test_a_recording_has_each_command_and_its_output() -> None:
    assert lines_of(svg(SCREENS, "two commands")) == ["$ fairburst status", "QUEUE  a<b", "good  &", "$ fairburst get", "x"]


def test_bold_and_colours_of_a_terminal_are_kept() -> None:
    drawn = svg(SCREENS, "two commands")
    assert '<tspan class="b">QUEUE</tspan>' in drawn
    assert '<tspan class="green">good</tspan>' in drawn


def test_a_line_wider_than_the_terminal_goes_on_in_the_next() -> None:
    assert [len(line) for line in wrapped("x" * 2 * COLUMNS + "y\nz")] == [COLUMNS, COLUMNS, 1, 1]


def test_each_screen_is_there_in_turn_and_its_output_after_the_command_is_typed() -> None:
    def frames(name: str) -> list[tuple[float, int]]:
        (found,) = re.findall(rf"@keyframes {name}\{{(.*?\}})\}}", svg(SCREENS, ""))
        return [(float(at), int(opacity)) for at, opacity in re.findall(r"([\d.]+)%\{opacity:(\d)\}", found)]

    (first, first_leaves), (_, second, second_leaves) = frames("s0"), frames("s1")
    assert (first, second_leaves) == ((0.0, 1), (100.0, 0))
    assert first_leaves[0] == second[0]
    assert second[0] < frames("o1")[1][0] < 100.0


def test_without_animation_the_first_screen_stands_still() -> None:
    plain = svg(SCREENS, "").partition("@media")[0]
    assert ".s{opacity:0}.s0{opacity:1}" in plain


def test_a_command_is_recorded_on_a_terminal_of_eighty_columns_whatever_it_ends_with(tmp_path: Path) -> None:
    program = "import os, sys; print(os.get_terminal_size().columns, sys.stdout.isatty()); sys.exit(4)"
    screen = record("what a user types", [sys.executable, "-c", program], {}, tmp_path)
    assert [line.plain for line in screen.lines] == [f"{COLUMNS} True"]


def test_the_stored_recording_needs_nothing_else_and_fits_eighty_columns() -> None:
    drawing = RECORDING.read_text(encoding="utf-8")
    assert len(drawing.encode()) < MOST_BYTES_OF_A_RECORDING
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|<script|@import|url\((?!#)", drawing)
    lines = lines_of(drawing)
    assert max(len(line) for line in lines) <= COLUMNS
    assert [line for line in lines if line.startswith("$ fairburst ")]


@pytest.mark.parametrize("picture", sorted(IMAGES.glob("*.png")), ids=lambda path: path.name)
def test_a_picture_is_small_and_on_the_dashboards_page(picture: Path) -> None:
    assert picture.stat().st_size < MOST_BYTES
    assert f'"images/{picture.name}"' in (ROOT / "docs" / "dashboard.md").read_text(encoding="utf-8")


def test_every_page_is_there_in_both_schemes_and_sizes_and_all_are_small_together() -> None:
    names = {path.stem for path in IMAGES.glob("*.png")}
    pages = ("now", "queue", "what-if", "job", "login")
    assert names == {f"{page}-{size}-{scheme}" for page in pages for size in ("desktop", "phone") for scheme in ("light", "dark")}
    assert sum(path.stat().st_size for path in IMAGES.iterdir()) < MOST_BYTES_TOGETHER


@pytest.mark.parametrize("page", ["README.md", "docs/dashboard.md"])
def test_a_page_shows_pictures_that_are_there_with_words_for_those_who_do_not_see_them(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    sources = re.findall(r'(?:src|srcset)="([^"]+)"', text)
    assert sources
    assert all(((ROOT / page).parent / source).exists() for source in sources)
    assert all(re.search(r'alt="[^"]{5,}"', image) for image in re.findall(r"<img [^>]*>", text))
