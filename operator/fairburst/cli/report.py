"""`fairburst report`: a week of each queue from recordings, as a table, JSON, CSV or a page."""

from __future__ import annotations

import csv
import html
import io
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fairburst.cli.arguments import positive, readable_file, writable_file
from fairburst.cli.errors import CommandError
from fairburst.cli.output import Table, print_table, print_value

if TYPE_CHECKING:
    from fairburst.recording.lines import RecordedRound
    from fairburst.recording.usage import UsageReport

ReportForm = Literal["table", "wide", "json", "yaml", "csv"]
PARTS = ("used", "entitled", "borrowed", "lent", "wanted")
DAY_SECONDS = 86_400.0
COLUMNS = ("queue", "hours", "used", "entitled", "borrowed", "lent", "wanted", "met", "missed")
MEANINGS = {
    "hours": "for which the queue was there",
    "used": "part of the pool that its pods had, on average",
    "entitled": "its weight's part of the pool",
    "borrowed": "what it used beyond that",
    "lent": "what it left of that and others used",
    "wanted": "part of the pool that it wanted",
    "met": "bursts that had their demand by the deadline",
    "missed": "bursts that had not",
}


def _all_readable(files: list[Path]) -> list[Path]:
    return [path for path in (readable_file(file) for file in files) if path is not None]


def report(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", callback=_all_readable, help="Recordings of one operator, in any order."),
    ],
    days: Annotated[float, typer.Option("--days", callback=positive, help="The last days of the recordings.")] = 7.0,
    page: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", callback=writable_file, help="Write a page, which needs nothing else.")
    ] = None,
    output: Annotated[ReportForm, typer.Option("--output", "-o", help="Form of the output.")] = "table",
) -> None:
    """Say what each queue used, was entitled to, lent and borrowed, and how its bursts went, from recordings."""
    from fairburst.recording.reader import RecordingReader  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.recording.usage import usage_report  # noqa: PLC0415

    spans = sorted(_span(path) for path in files)
    last = max((end for _, end, _ in spans), default=0.0)

    def rounds() -> Iterator[RecordedRound]:
        for _, _, path in spans:
            for _, recorded in RecordingReader(path).rounds():
                yield recorded

    found = usage_report(rounds(), last - days * DAY_SECONDS)
    if found.queues and found.started == found.ended and not any(one.seconds for one in found.queues.values()):
        raise CommandError(
            "expected two rounds or more, found one; a round counts for the time until the next one. Let the operator record its rounds "
            "(recording.file in its configuration); `fairburst snapshot save` saves a single one"
        )
    listed = rows(found)
    if page is not None:
        page.write_text(to_page(found, listed), encoding="utf-8")
    if output == "csv":
        sys.stdout.write(to_csv(listed))
    elif output in {"json", "yaml"}:
        value = {"started": _time(found.started), "ended": _time(found.ended), "unknownSeconds": found.unknown_seconds, "queues": listed}
        print_value(value, output)
    else:
        sys.stdout.write(f"{_headline(found)}\n")
        print_table(Table(COLUMNS, [_texts(one) for one in listed], right=frozenset(COLUMNS[1:])), output)


def _span(path: Path) -> tuple[float, float, Path]:
    """Return the times of the first and last round of a file, and its path."""
    from fairburst.recording.reader import RecordingReader  # noqa: PLC0415

    times = [recorded.now for _, recorded in RecordingReader(path).rounds()]
    return (times[0], times[-1], path) if times else (0.0, 0.0, path)


def rows(found: UsageReport) -> list[dict[str, Any]]:
    """Return a line for each queue. Parts of the pool are averages over the time in which the queue existed."""
    listed = []
    for name, one in sorted(found.queues.items()):
        parts = {part: getattr(one, part) / one.seconds if one.seconds else 0.0 for part in PARTS}
        listed.append({"queue": name, "hours": one.seconds / 3600, **parts, "met": one.met, "missed": one.missed})
    return listed


def to_csv(listed: Sequence[dict[str, Any]]) -> str:
    """Return the lines as CSV, with parts as fractions."""
    output = io.StringIO()
    writer = csv.DictWriter(output, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: f"{value:.6g}" if isinstance(value, float) else value for name, value in one.items()} for one in listed)
    return output.getvalue()


def to_page(found: UsageReport, listed: Sequence[dict[str, Any]]) -> str:
    """Return one page of HTML without scripts and without external files."""
    heads = "".join(f'<th title="{html.escape(MEANINGS.get(name, ""))}">{name}</th>' for name in COLUMNS)
    lines = []
    for one in listed:
        cells = "".join(f"<td>{html.escape(text)}</td>" for text in _texts(one))
        widths = {part: min(100.0, 100 * one[part]) for part in ("used", "entitled")}
        bar = f'<td class="bar"><i style="width:{widths["used"]:.1f}%"></i><b style="left:{widths["entitled"]:.1f}%"></b></td>'
        lines.append(f"<tr>{cells}{bar}</tr>")
    meanings = "".join(f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in MEANINGS.items())
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Queues</title><style>{_STYLE}</style><h1>Queues</h1><p>{html.escape(_headline(found))}</p>"
        f"<table><thead><tr>{heads}<th>used, and entitled (mark)</th></tr></thead><tbody>{''.join(lines)}</tbody></table>"
        f"<dl>{meanings}</dl></html>\n"
    )


_STYLE = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{padding:.35rem .6rem;text-align:right;"
    "border-bottom:1px solid #8884}th:first-child,td:first-child{text-align:left}.bar{position:relative;min-width:9rem}"
    ".bar i{display:block;height:.8rem;background:#2a7de1}.bar b{position:absolute;top:.2rem;bottom:.2rem;width:2px;background:#d9480f}"
    "dt{font-weight:600;float:left;clear:left;width:6rem}dd{margin:0 0 0 6.5rem}"
)


def _texts(one: dict[str, Any]) -> tuple[str, ...]:
    parts = tuple(f"{one[name]:.1%}" for name in PARTS)
    return (one["queue"], f"{one['hours']:.1f}", *parts, str(one["met"]), str(one["missed"]))


def _headline(found: UsageReport) -> str:
    if not found.queues:
        return "The recordings have no rounds."
    gaps = f", of which {found.unknown_seconds / 3600:.1f} hours without rounds" if found.unknown_seconds else ""
    hours = (found.ended - found.started) / 3600
    return f"{len(found.queues)} queues from {_time(found.started)} to {_time(found.ended)}: {hours:.1f} hours{gaps}."


def _time(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M") if abs(seconds) < float("inf") else None
