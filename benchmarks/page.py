"""`python -m benchmarks.page`: update the tables of docs/benchmarks.md from docs/benchmarks/results.jsonl.

The text of the page is written by hand. A table stands between `<!-- figures: NAME -->` and `<!-- end -->`; NAME is a benchmark of
`python -m benchmarks --list`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Measurement
from benchmarks.results import RESULTS, Saved, of, read

PAGE = RESULTS.parents[1] / "benchmarks.md"
MARKED = re.compile(r"(<!-- figures: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(page: str, saved: Sequence[Saved]) -> str:
    """Return the page with each of its tables made from the saved figures. Raises LookupError for a benchmark without figures."""

    def table(found: re.Match[str]) -> str:
        figures = of(found["name"], saved)
        if not figures:
            raise LookupError(f"docs/benchmarks.md shows figures of {found['name']}, and none is saved; run it with --save")
        return f"{found[1]}{table_of(figures)}{found[3]}"

    return MARKED.sub(table, page)


def table_of(saved: Sequence[Saved]) -> str:
    """Return one benchmark's figures as a Markdown table, missed targets in bold, and a line on the machine."""
    about = saved[0]
    rows = [f"| {_cell(one.figure.name)} | {_value(one.figure)} | {_target(one.figure)} |" for one in saved]
    machine = f"*{about.day}, {about.cores} cores, load {about.load:g} at the start.*"
    return "\n".join(["", "| case | value | target |", "| --- | ---: | ---: |", *rows, "", machine, "", ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _value(figure: Measurement) -> str:
    text = _amount(figure.value, figure.unit)
    if figure.min < figure.max:
        text += f" ({_number(figure.min)} to {_number(figure.max)})"
    return text if figure.ok else f"**{text}**"


def _target(figure: Measurement) -> str:
    if figure.target is None:
        return ""
    return f"at {'least' if figure.at_least else 'most'} {_amount(figure.target, figure.unit)}"


def _amount(value: float, unit: str) -> str:
    return _number(value) if unit == "ratio" else f"{_number(value)} {'µs' if unit == 'us' else unit}"


def _number(value: float) -> str:
    """Return three significant digits, without an exponent."""
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    text = f"{value:.3g}"
    return f"{float(text):.6f}".rstrip("0") if "e" in text else text


def main(page: Path = PAGE, results: Path = RESULTS) -> None:
    page.write_text(rendered(page.read_text(), read(results)))


if __name__ == "__main__":
    main()
