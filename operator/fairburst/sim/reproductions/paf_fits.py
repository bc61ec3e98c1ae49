"""Fits of the Ernest form to measured runs (PAF §IV-A): each number of nodes is left out once and predicted from the others."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from fairburst.curves.fit import Fit, fit_runs, left_out_errors
from fairburst.curves.runs import Run, medians
from fairburst.sim.charts import Chart, ChartKind, Series
from fairburst.sim.errors import TraceError
from fairburst.sim.reproductions.result import Options, Progress, Reproduction, Row, holds

DATA = Path("../shared/data/dos-group-runtime-prediction")
MOST_ERROR = 0.10


def reproduce(options: Options, progress: Progress) -> Reproduction:
    """Compute the leave-one-out errors of every file in the folder of --trace."""
    folder = DATA if options.trace is None else options.trace
    files = sorted(folder.glob("*.csv"))
    if not files:
        raise TraceError(
            f"{folder}: expected CSV files with columns Nodes and Runtime (milliseconds), found none; name the folder with --trace"
        )
    rows, data, charts, middle = [], {}, [], []
    for number, file in enumerate(files):
        progress(number / len(files), file.name)
        runs, name = read_runs(file), file.stem
        slots, seconds = medians(runs)
        errors = left_out_errors(slots, seconds)
        constrained = left_out_errors(slots, seconds, non_negative=True)
        middle.append(float(np.median(errors)))
        rows.append(Row(f"{name}: median error, left out", MOST_ERROR, middle[-1], holds(middle[-1] <= MOST_ERROR)))
        rows.append(Row(f"{name}: worst error, left out", None, float(errors.max()), f"with {slots[int(errors.argmax())]:.0f} nodes"))
        rows.append(Row(f"{name}: median error, non-negative", None, float(np.median(constrained)), "-"))
        fit = fit_runs(runs)
        used = fit.goodness if isinstance(fit, Fit) else None
        data[name] = {
            "nodes": slots.tolist(), "seconds": seconds.tolist(), "left_out": errors.tolist(),
            "left_out_non_negative": constrained.tolist(),
            "refused": None if isinstance(fit, Fit) else fit.message,
            "valid_from": fit.curve.lowest if isinstance(fit, Fit) else None, "worst_in_fit": used.worst_error if used else None,
        }  # fmt: skip
        charts.append(
            Chart(f"fits-{name}", name, ChartKind.LINES, "nodes", "seconds", [Series("measured", slots.tolist(), seconds.tolist())])
        )
    overall = float(np.median(middle))
    rows.append(Row("median over jobs", MOST_ERROR, overall, holds(overall <= MOST_ERROR)))
    return Reproduction("paf-fits", "Ernest fits to measured runs, left out one by one", options.seed, rows, {"jobs": data}, charts)


def read_runs(path: Path) -> list[Run]:
    """Read runs from a CSV file with the columns Nodes and Runtime (milliseconds). Raises TraceError with the line."""
    runs = []
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            try:
                run = Run(int(row["Nodes"]), float(row["Runtime"]) / 1000.0)
            except (KeyError, TypeError, ValueError) as error:
                raise TraceError(f"{path}:{number}: expected Nodes and Runtime, found {row}") from error
            if not run.plausible:
                raise TraceError(f"{path}:{number}: expected numbers above 0, found {row}")
            runs.append(run)
    if len({run.parallelism for run in runs}) < 5:
        raise TraceError(f"{path}: expected runs with at least 5 different numbers of nodes")
    return runs
