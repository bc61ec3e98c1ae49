"""`python -m benchmarks.peers.page`: docs/peers.md and its plots, from docs/peers/results.csv. No figure is written by hand."""

from __future__ import annotations

import math
import statistics
import sys
import textwrap
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.contenders import contenders
from benchmarks.peers.plot import bars
from benchmarks.peers.results import Line, read
from benchmarks.peers.scenarios import SCENARIOS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, RESULTS = DOCS / "peers.md", DOCS / "peers" / "results.csv"
INTRODUCTION = Path(__file__).parent / "introduction.md"
CLEARLY = 0.02  # medians that differ by a smaller part count as equal


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of a table. `better`: 1 if more is better, -1 if less is, 0 if neither."""

    figure: str
    head: str
    better: int
    percent: bool = False


BURST = (
    Column("bound", "last pod bound (s)", -1),
    Column("done", "burst done (s)", -1),
    Column("pod_wait", "a pod's wait, median (s)", -1),
    Column("use", "cluster in use", 1, True),
    Column("lost_seconds", "work lost (place-s)", -1),
    Column("requests_per_pod", "API requests a pod", -1),
)
PERIODIC = (
    Column("hits", "deadline hits", 1, True),
    Column("done", "burst done, median (s)", -1),
    Column("done_p95", "p95 (s)", -1),
    Column("fairness_error", "batch fairness error", -1, True),
    Column("share_latency", "burst queue's share", 0, True),
    Column("use", "cluster in use", 1, True),
    Column("requests_per_pod", "API requests a pod", -1),
)
GREEDY = (
    Column("hits_honest", "the honest queue's hits", 1, True),
    Column("excess_greedy", "greedy above its fair share", 0, True),
    Column("fairness_error", "batch fairness error", -1, True),
    Column("use", "cluster in use", 1, True),
)
MIXED = (
    Column("small_job", "small Job, mean (s)", -1),
    Column("large_job", "large Job, mean (s)", -1),
    Column("makespan", "makespan (s)", -1),
    Column("use", "cluster in use", 1, True),
)
RATE = (
    Column("bound_per_second", "pods bound a second", 1),
    Column("last_bound", "last pod bound (s)", -1),
    Column("requests_per_pod", "API requests a pod", -1),
)
COLUMNS = {"s9": BURST, "s9e": BURST, "s11": BURST, "s10": PERIODIC, "s12": GREEDY, "s13": MIXED, "s14": PERIODIC}
OURS = {"s9e": "fairburst-quota-reclaim", "s5": "fairburst-suspend", "s6": "fairburst-suspend", "s7": "fairburst-suspend"}
OURS |= {"s8": "fairburst-suspend"}
PLOTTED = {"s9": "bound", "s9e": "bound", "s11": "bound", "s10": "fairness_error", "s12": "excess_greedy", "s13": "small_job"}
PLOTTED |= {"s14": "hits"}


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over the repeats."""

    least: float
    median: float
    most: float

    def written(self, percent: bool = False) -> str:
        if self.least == self.most:
            return _number(self.median, percent)
        return f"{_number(self.median, percent)} ({_number(self.least, percent)} to {_number(self.most, percent)})"


Table = dict[str, dict[str, Spread]]  # contender, figure


def spreads(lines: Sequence[Line]) -> dict[str, Table]:
    """Return every figure's spread by scenario and contender, in the order of the file."""
    values: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for each in lines:
        scenario, contender = each.key
        for figure, value in each.figures.items():
            values[scenario][contender][figure].append(value)
    return {
        scenario: {
            contender: {figure: Spread(min(found), statistics.median(found), max(found)) for figure, found in figures.items()}
            for contender, figures in by_contender.items()
        }
        for scenario, by_contender in values.items()
    }


def family(scenario: str) -> str:
    """Return a scenario's name without its number of queues or minutes."""
    return scenario.split("-", maxsplit=1)[0]


def columns(scenario: str) -> tuple[Column, ...]:
    return COLUMNS.get(family(scenario), RATE)


def better_than_ours(scenario: str, table: Table) -> list[str]:
    """Return a sentence for each figure in which other contenders are clearly better than fairburst in its default form."""
    ours = table.get(OURS.get(family(scenario), "fairburst-quota"))
    if ours is None:
        return []
    found = []
    for column in columns(scenario):
        mine = ours.get(column.figure)
        if mine is None or not column.better:
            continue
        theirs = [
            (name, figures[column.figure])
            for name, figures in table.items()
            if not name.startswith("fairburst") and column.figure in figures
        ]
        winners = [(name, spread) for name, spread in theirs if _clearly(spread.median, mine.median, column.better)]
        if winners:
            winners.sort(key=lambda winner: -column.better * winner[1].median)
            named = ", ".join(f"`{name}` {_number(spread.median, column.percent)}" for name, spread in winners)
            found.append(f"{column.head}: {named}; fairburst {_number(mine.median, column.percent)}")
    return found


def _clearly(theirs: float, ours: float, better: int) -> bool:
    if math.isinf(theirs) or math.isinf(ours):
        return math.isfinite(theirs)
    return better * (theirs - ours) > CLEARLY * max(abs(theirs), abs(ours))


def page(lines: Sequence[Line]) -> str:
    """Return the page: the introduction, where others are better, then each scenario's table."""
    tables = spreads(lines)
    order = [name for name in SCENARIOS if name in tables]
    parts = [INTRODUCTION.read_text().rstrip(), "", "## Where another contender is better", ""]
    for name in order:
        for sentence in better_than_ours(name, tables[name]):
            parts.append(_wrapped(f"- *{name}.* {sentence}.", "  "))
    parts += ["", "## Results", ""]
    for name in order:
        parts += _section(name, tables[name], [each for each in lines if each.about["scenario"] == name])
    parts += ["## Contenders", "", "| name | set up as |", "| --- | --- |"]
    made = {name: make() for name, make in contenders().items()}
    used = {each.about["contender"] for each in lines}
    parts += [f"| `{name}` | {made[name].about} |" for name in made if name in used]
    return "\n".join(parts) + "\n"


def _section(name: str, table: Table, lines: Sequence[Line]) -> list[str]:
    about = lines[0].about
    shown = [column for column in columns(name) if any(column.figure in figures for figures in table.values())]
    loads = [float(each.about["load"]) for each in lines]
    repeats = {contender: sum(each.about["contender"] == contender for each in lines) for contender in table}
    counts = sorted(set(repeats.values()))
    where = f"{int(about['places']):,} places on {about['nodes']} nodes (size {about['size']})"
    runs = f"{where}; {_counted(counts)} each; load of the machine before a run {min(loads):.1f} to {max(loads):.1f}."
    out = [
        f"### {name}: {about['title']}",
        "",
        _wrapped(f"{runs} Median, and least to most."),
        "",
        "| contender | " + " | ".join(column.head for column in shown) + " |",
        "| --- |" + " ---: |" * len(shown),
    ]
    for contender, figures in table.items():
        cells = [figures[column.figure].written(column.percent) if column.figure in figures else "" for column in shown]
        out.append(f"| `{contender}` | " + " | ".join(cells) + " |")
    plotted = PLOTTED.get(family(name), "bound_per_second")
    if any(plotted in figures for figures in table.values()):
        out += ["", f"![{name}: {plotted} by contender](peers/{name}.svg)"]
    return [*out, "", _costs(lines), ""]


def _counted(counts: Sequence[int]) -> str:
    return "one run" if counts == [1] else f"{counts[0]} runs" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} runs"


def _costs(lines: Sequence[Line]) -> str:
    """Return a sentence on the processor time, memory and requests of each contender's own controller."""
    found = []
    for contender in dict.fromkeys(each.about["contender"] for each in lines):
        of = [each for each in lines if each.about["contender"] == contender]
        for process in ("kueue", "fairburst"):
            seconds = [each.by_whom["processor_seconds"].get(process) for each in of]
            known = [value for value in seconds if value is not None]
            if known:
                memory = statistics.median(each.by_whom["peak_mib"].get(process, math.nan) for each in of)
                user = "kueue-controller-manager" if process == "kueue" else process
                requests = statistics.median(each.by_whom["requests"].get(user, 0.0) / max(1.0, each.figures["pods"]) for each in of)
                found.append(f"`{contender}` {statistics.median(known):.1f} s, {memory:.0f} MiB, {requests:.1f} requests a pod")
    return _wrapped(f"The controllers' own processor time, peak memory and API requests: {'; '.join(found)}.") if found else ""


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def plots(lines: Sequence[Line]) -> dict[str, str]:
    """Return the SVG files by name."""
    made = {}
    for name, table in spreads(lines).items():
        figure = PLOTTED.get(family(name), "bound_per_second")
        column = next(each for each in columns(name) if each.figure == figure)
        values = {contender: figures[figure] for contender, figures in table.items() if figure in figures}
        factor = 100.0 if column.percent else 1.0
        unit = " (% of the cluster)" if column.percent else ""
        rows = [(contender, spread.least * factor, spread.median * factor, spread.most * factor) for contender, spread in values.items()]
        if rows:
            made[f"{name}.svg"] = bars(f"{name}: {column.head}{unit}", rows)
    return made


def _number(value: float, percent: bool = False) -> str:
    if math.isinf(value):
        return "never"
    if percent:
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def files(lines: Sequence[Line]) -> dict[Path, str]:
    """Return every file of the page with its text."""
    return {PAGE: page(lines)} | {RESULTS.parent / name: text for name, text in plots(lines).items()}


def main() -> int:
    for path, text in files(read(RESULTS)).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path.relative_to(DOCS.parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
