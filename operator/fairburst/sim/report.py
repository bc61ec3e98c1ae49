"""Results as files: tables in CSV or Parquet, and one self-contained HTML page."""

from __future__ import annotations

import csv
import dataclasses
import html
import importlib.util
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairburst.sim.charts import Chart
from fairburst.sim.figures import comparison_charts, run_charts, summaries
from fairburst.sim.plots import can_plot, svg_text
from fairburst.sim.sink import Record

_STYLE = """body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1b1f24}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .7rem;text-align:right;border-bottom:1px solid #d5d9de}
td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:auto}"""


def save_tables(folder: Path, records: Mapping[str, Record]) -> list[Path]:
    """Write the queues and the jobs of all runs: Parquet if pyarrow is installed, otherwise CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    queues = [dataclasses.asdict(row) for record in records.values() for row in summaries(record)]
    jobs = [{"policy": policy} | dataclasses.asdict(job) for policy, record in records.items() for job in record.jobs]
    return [_save(folder / "queues", queues), _save(folder / "jobs", jobs)]


def _save(stem: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    if importlib.util.find_spec("pyarrow") is not None:
        import pyarrow  # noqa: PLC0415  an optional extra
        import pyarrow.parquet  # noqa: PLC0415

        path = stem.with_suffix(".parquet")
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
        return path
    path = stem.with_suffix(".csv")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def save_page(path: Path, title: str, records: Mapping[str, Record], notes: Sequence[str] = ()) -> None:
    """Write one self-contained HTML page, with tables and, if matplotlib is installed, charts."""
    charts = [*comparison_charts(records), *(chart for record in records.values() for chart in run_charts(record))]
    body = [f"<h1>{html.escape(title)}</h1>", *(f"<p>{html.escape(note)}</p>" for note in notes)]
    body += [_queue_table(record) for record in records.values()]
    body += [_figure(chart) for chart in charts] if can_plot() else ["<p>No figures: matplotlib isn't installed.</p>"]
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
    page = f'<!doctype html><html lang="en">{head}{"".join(body)}</html>'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _figure(chart: Chart) -> str:
    return f"<figure>{svg_text(chart)}</figure>"


def _queue_table(record: Record) -> str:
    rows = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>" for cells in queue_rows(record))
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in QUEUE_HEAD)
    use = ", ".join(f"{name} {part:.1%}" for name, part in record.utilisation.items())
    guaranteed = ", ".join(f"{name} {part:.1%}" for name, part in record.guaranteed_utilisation.items())
    line = f"<p>Utilisation: {use}; by latency queues with guarantees: {guaranteed}."
    line += f" {record.tasks_started:,} tasks in {record.end:,.0f} s.</p>"
    return f"<h2>{html.escape(record.policy)}</h2><table><tr>{head}</tr>{rows}</table>{line}"


QUEUE_HEAD = ("queue", "class", "jobs", "ended", "mean s", "median s", "p95 s", "met", "share", "fair share")


def queue_rows(record: Record) -> list[list[str]]:
    """Return the summary as rows of cells, with the columns of QUEUE_HEAD."""
    return [
        [
            row.queue, row.guarantee, str(row.jobs), str(row.ended), _seconds(row.mean_completion), _seconds(row.median_completion),
            _seconds(row.p95_completion), "-" if math.isnan(row.deadlines_met) else f"{row.deadlines_met:.0%}", f"{row.share:.3f}",
            f"{row.fair_share:.3f}",
        ]
        for row in summaries(record)
    ]  # fmt: skip


def _seconds(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}"
