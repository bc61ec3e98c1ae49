"""Drawing of charts as SVG and PNG with matplotlib (extra `sim`)."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairburst.sim.charts import Chart, ChartKind
from fairburst.sim.errors import ScenarioError


def can_plot() -> bool:
    """Return whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def save_charts(charts: Sequence[Chart], folder: Path) -> list[Path]:
    """Write each chart as `<name>.svg` and `<name>.png` and return the paths. Raises ScenarioError without matplotlib."""
    if not can_plot():
        raise ScenarioError("expected matplotlib for plots, found none; install fairburst[sim]")
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for chart in charts:
        figure = _draw(chart)
        for suffix in ("svg", "png"):
            path = folder / f"{chart.name}.{suffix}"
            figure.savefig(path, dpi=110, metadata={"Date": None} if suffix == "svg" else None)
            paths.append(path)
    return paths


def svg_text(chart: Chart) -> str:
    """Return the chart as an <svg> element for a page."""
    buffer = io.StringIO()
    _draw(chart).savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _draw(chart: Chart) -> Any:
    import matplotlib  # noqa: PLC0415  an optional extra, and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415

    matplotlib.rcParams["svg.hashsalt"] = "fairburst"  # the same values give the same bytes
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    axes = figure.add_subplot()
    {
        ChartKind.LINES: _lines, ChartKind.STEPS: _steps, ChartKind.STACK: _stack, ChartKind.CDF: _cdf, ChartKind.BARS: _bars,
    }[chart.kind](axes, chart)  # fmt: skip
    for span in chart.spans:
        axes.axvspan(span.begin, span.end, color="black", alpha=0.07, lw=0)
        axes.axvline(span.end, color="black", lw=0.6, ls=":")
    if chart.logarithmic:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
    axes.set(title=chart.title, xlabel=chart.x_label, ylabel=chart.y_label)
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)
    return figure


def _lines(axes: Any, chart: Chart) -> None:
    for series in chart.series:
        axes.plot(series.x, series.y, marker="o", ms=3, ls="--" if "paper" in series.label else "-", label=series.label)


def _steps(axes: Any, chart: Chart) -> None:
    for series in chart.series:
        axes.step(series.x, series.y, where="post", label=series.label)


def _stack(axes: Any, chart: Chart) -> None:
    axes.stackplot(chart.series[0].x, [series.y for series in chart.series], labels=[series.label for series in chart.series], step="post")


def _cdf(axes: Any, chart: Chart) -> None:
    for series in chart.series:
        values = np.sort(np.asarray(series.y, dtype=float))
        axes.step(values, (np.arange(len(values)) + 1) / max(len(values), 1), where="post", label=series.label)
    axes.set_ylim(0, 1.02)


def _bars(axes: Any, chart: Chart) -> None:
    names = list(chart.series[0].x)
    width = 0.8 / len(chart.series)
    for number, series in enumerate(chart.series):
        axes.bar(np.arange(len(names)) + (number - (len(chart.series) - 1) / 2) * width, series.y, width, label=series.label)
    axes.set_xticks(np.arange(len(names)), [str(name) for name in names])
