"""PAF on SparkBench's curves: Fig. 4 (two jobs, 32 slots), Fig. 6 (its two-job example), Figs. 7 to 9 (three jobs, 128 slots).

Each experiment is one division by the operator's `policy.paf.divide`; the figures are read off the curves.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fairburst.curves.fit import ernest_terms
from fairburst.policy.paf.curves import Curve, ErnestCurve, PointsCurve, progress_rates
from fairburst.policy.paf.divide import SlotRules, divide_slots
from fairburst.policy.paf.jobs import ElasticJob, SlotDecision
from fairburst.sim.charts import Chart, ChartKind, Series
from fairburst.sim.errors import TraceError
from fairburst.sim.reproductions.result import Options, Progress, Reproduction, Row, holds, within

# Least squares of 1/p on the authors' curves for 32 slots (PAF-SparkBench, Apache-2.0), which match to 1e-11.
SPARKBENCH = {
    "kmeans": ErnestCurve(0.3888010442, -0.0079845533, 2.994443945, 0.2277799129),
    "pagerank": ErnestCurve(1.152457959, -0.005561989393, 6.162364992, -0.04820522689),
    "svdplusplus": ErnestCurve(1.312223283, -0.008145661955, 4.237077865, -0.05322643054),
}
CURVES_FILE = "paf_progress_curves_32slots.csv"
# Curves of the shape in Fig. 6, which gives no numbers: concave, with three straight pieces each.
FIGURE_6: Mapping[str, Curve] = {
    "job-1": PointsCurve((0, 4, 6, 12), (0.0, 0.80, 0.86, 1.0)),
    "job-2": PointsCurve((0, 6, 8, 12), (0.0, 0.60, 0.76, 0.96)),
}


def fig4(options: Options, progress: Progress) -> Reproduction:
    """Reproduce Fig. 4: KMeans and PageRank on 32 slots. The paper moves eight slots by hand; Algorithm 1 runs on the same curves."""
    progress(0.0, "two jobs")
    curves = {name: curve for name, curve in _curves(options).items() if name in {"kmeans", "pagerank"}}
    kmeans, pagerank = (progress_rates(curve, 32) for curve in curves.values())
    decisions = divide(curves, {}, 32, 0.90)
    moved = decisions[0].fair - decisions[0].given
    fair, by_hand = float(kmeans[16] + pagerank[16]) / 2, float(kmeans[8] + pagerank[24]) / 2
    ours = _mean(decisions, fair=False)
    cause = "the authors' fitted curves; the paper's are measured runs"
    lost, won = kmeans[9] - kmeans[8], pagerank[24] - pagerank[23]
    rows = [
        Row("fair slots of each", 16, decisions[0].fair, holds(all(decision.fair == 16 for decision in decisions))),
        Row("mean progress, fair", 0.80, fair, *within(0.80, fair, 0.05, cause)),
        Row("mean progress, 8 slots moved", 0.88, by_hand, *within(0.88, by_hand, 0.05, cause)),
        Row("gain, 8 slots moved", 0.10, by_hand / fair - 1, holds(by_hand > fair), cause),
        Row("KMeans keeps, 8 slots moved", 0.85 / 0.87, kmeans[8] / kmeans[16], *within(0.85 / 0.87, kmeans[8] / kmeans[16], 0.1, cause)),
        Row(
            "PageRank / fair, 8 slots moved", 0.9 / 0.73, pagerank[24] / pagerank[16], *within(0.9 / 0.73, pagerank[24] / pagerank[16], 0.1)
        ),
        Row("slots moved by Algorithm 1, α .90", 8, moved, *within(8, moved, 0.0, f"the 8th would lose {lost:.4f} and win {won:.4f}")),
        Row("mean progress, Algorithm 1", 0.88, ours, holds(ours >= max(by_hand, fair)), "at least that of 8 slots"),
    ]
    data = {
        "slots": _slots(decisions),
        "mean_progress": {"fair": fair, "8 moved": by_hand, "0.90": ours},
    }
    charts = [_curve_chart("fig4-curves", "Progress with 0 to 32 slots (Fig. 1)", curves, 32)]
    return Reproduction("paf-fig4", "two jobs on 32 slots (PAF Fig. 4)", options.seed, rows, data, charts)


def fig6(options: Options, progress: Progress) -> Reproduction:
    """Reproduce Fig. 6: 6 and 6 slots become 4 and 8."""
    progress(0.0, "two jobs")
    decisions = divide(FIGURE_6, {}, 12, 0.9)
    given = [decision.given for decision in decisions]
    bound = divide(FIGURE_6, {}, 12, 0.96)
    rows = [
        Row("fair slots of each", 6, decisions[0].fair, holds(all(decision.fair == 6 for decision in decisions))),
        Row("slots of job 1", 4, given[0], holds(given[0] == 4)),
        Row("slots of job 2", 8, given[1], holds(given[1] == 8)),
        Row("slots of job 1 where α stops it after one", 5, bound[0].given, holds(bound[0].given == 5)),
    ]
    note = "Fig. 6 has no numbers: curves of its shape, so that job 1 loses less than job 2 gains for two slots and no third."
    charts = [_curve_chart("fig6-curves", "Curves of the shape of Fig. 6", FIGURE_6, 12)]
    return Reproduction("paf-fig6", "the two-job example (PAF Fig. 6)", options.seed, rows, {"slots": _slots(decisions)}, charts, [note])


def fig7(options: Options, progress: Progress) -> Reproduction:
    """Reproduce Figs. 7 to 9: three jobs of weights 12, 3 and 1 on 128 slots."""
    progress(0.0, "three jobs")
    curves = {name: stretched(curve, 4.0) for name, curve in _curves(options).items()}
    weights = {"kmeans": 12.0, "pagerank": 3.0, "svdplusplus": 1.0}
    paper = {0.99: (0.68, None), 0.90: (0.75, 61)}
    divisions = {knob: divide(curves, weights, 128, knob) for knob in paper}
    fair = divisions[0.90]
    before = _mean(fair, fair=True)
    cause = "curves stretched from 32 to 128 slots; those of Fig. 7 are not published"
    rows = [
        Row(f"fair slots of {decision.job}", want, decision.fair, holds(decision.fair == want))
        for decision, want in zip(fair, (96, 24, 8), strict=True)
    ]
    rows.append(Row("mean progress, fair", 0.59, before, *within(0.59, before, 0.05, cause)))
    for knob, (mean, moved) in paper.items():
        decisions = divisions[knob]
        after, gone = _mean(decisions, fair=False), decisions[0].fair - decisions[0].given
        rows.append(Row(f"mean progress, α {knob:.2f}", mean, after, *within(mean, after, 0.05, cause)))
        if moved is not None:
            rows.append(Row(f"slots given by KMeans, α {knob:.2f}", moved, gone, *within(moved, gone, 0.05, cause)))
        kept = _kept(decisions[0])
        rows.append(Row(f"progress that KMeans keeps, α {knob:.2f}", knob, kept, holds(kept >= knob)))
    data = {
        "mean_progress": {"fair": before, **{f"{knob:.2f}": _mean(decisions, fair=False) for knob, decisions in divisions.items()}},
        "slots": {f"{knob:.2f}": _slots(decisions) for knob, decisions in divisions.items()},
    }
    charts = [_curve_chart("fig7-curves", "Progress with 0 to 128 slots (Fig. 7)", curves, 128), *_bars(divisions)]
    return Reproduction("paf-fig7", "three jobs on 128 slots (PAF Figs. 7 to 9)", options.seed, rows, data, charts)


def divide(curves: Mapping[str, Curve], weights: Mapping[str, float], slots: int, fairness_knob: float) -> tuple[SlotDecision, ...]:
    """Divide the slots of one queue among one job per curve, each with up to all slots. Decisions are in the order of `curves`."""
    one = np.ones(1)
    jobs = [ElasticJob(name, "queue", weights.get(name, 1.0), 1, slots, 0, one, curve) for name, curve in curves.items()]
    return divide_slots(jobs, {"queue": one * slots}, SlotRules(fairness_knob)).decisions


def stretched(curve: ErnestCurve, factor: float) -> ErnestCurve:
    """Return the curve of a job with `factor` times the tasks: its progress with x slots is that of the original with x / factor."""
    return ErnestCurve(curve.a0 - curve.a3 * math.log(factor), curve.a1 / factor, curve.a2 * factor, curve.a3)


def _curves(options: Options) -> Mapping[str, ErnestCurve]:
    """Return the coefficients above, or with --trace new fits to the curves in that folder."""
    if options.trace is None:
        return SPARKBENCH
    points = read_curves(options.trace / CURVES_FILE)
    return {name: _through(points[name]) for name in SPARKBENCH}


def _through(progress: Sequence[float]) -> ErnestCurve:
    """Fit a curve by least squares of 1/p. progress: with 0, 1, 2 ... slots."""
    slots = np.arange(1, len(progress), dtype=np.float64)
    a0, a1, a2, a3 = np.linalg.lstsq(ernest_terms(slots), 1 / np.array(progress[1:]), rcond=None)[0].tolist()
    return ErnestCurve(a0, a1, a2, a3)


def read_curves(path: Path) -> dict[str, list[float]]:
    """Read progress with 0, 1, 2 ... slots by job, from a CSV file with a column `slots` and one per job. Raises TraceError."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        curves = {name: [float(row[name]) for row in rows] for name in SPARKBENCH}
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{path}: expected columns slots, {', '.join(SPARKBENCH)} of numbers, {error!r}") from error
    if len(rows) < 5 or any(min(points[1:]) <= 0 for points in curves.values()):
        raise TraceError(f"{path}: expected progress above 0 with at least 4 numbers of slots")
    return curves


def _mean(decisions: Sequence[SlotDecision], *, fair: bool) -> float:
    return float(np.mean([decision.predicted_fair if fair else decision.predicted for decision in decisions]))


def _kept(decision: SlotDecision) -> float:
    return (decision.predicted or 0.0) / (decision.predicted_fair or 1.0)


def _slots(decisions: Sequence[SlotDecision]) -> dict[str, dict[str, int]]:
    return {decision.job: {"fair": decision.fair, "given": decision.given} for decision in decisions}


def _curve_chart(name: str, title: str, curves: Mapping[str, Curve], slots: int) -> Chart:
    x = list(range(slots + 1))
    series = [Series(each, x, progress_rates(curve, slots).tolist()) for each, curve in curves.items()]
    return Chart(name, title, ChartKind.LINES, "slots", "progress rate", series)


def _bars(divisions: Mapping[float, Sequence[SlotDecision]]) -> list[Chart]:
    jobs = [decision.job for decision in next(iter(divisions.values()))]
    first = next(iter(divisions.values()))
    slots = [Series("fair", jobs, [float(decision.fair) for decision in first])]
    rates = [Series("fair", jobs, [decision.predicted_fair or 0.0 for decision in first])]
    for knob, decisions in divisions.items():
        slots.append(Series(f"α {knob:.2f}", jobs, [float(decision.given) for decision in decisions]))
        rates.append(Series(f"α {knob:.2f}", jobs, [decision.predicted or 0.0 for decision in decisions]))
    return [
        Chart("fig8-slots", "Slots (Fig. 8)", ChartKind.BARS, "", "slots", slots),
        Chart("fig9-progress", "Progress (Fig. 9)", ChartKind.BARS, "", "progress rate", rates),
    ]
