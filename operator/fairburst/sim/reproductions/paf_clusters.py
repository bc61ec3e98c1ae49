"""PAF's large simulation (§V-B, Figs. 10 to 12): fair, α .99 and α .90 on 8,000, 2,000 and 800 slots, by the authors' rules.

Jobs are drawn from the ranges in the paper or read from a file. The scheduler knows a drawn job only by the Ernest fit to its time with
1, 2, 4, ... slots (§IV-A). Its run is simulated task by task.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairburst.curves.fit import coefficients_of, runtime
from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.paf.transfer import transfer_slots
from fairburst.sim.charts import Chart, ChartKind, Series
from fairburst.sim.paf_profile import FairShare, SlotJob, adjust, fair_as_the_authors, fair_max_min, simulate
from fairburst.sim.paf_workload import AUTHORS, LONGEST_FIRST, PAPER, Drawn, draw, read_jobs
from fairburst.sim.reproductions.result import Options, Progress, Reproduction, Row, holds

KNOBS = (0.99, 0.90)
CLUSTERS = (8000, 2000, 800)
SEEDS = 5  # number of drawn workloads, starting with the given seed, so that no result depends on a single one
# Least gain that counts as reproduced at 8,000 slots, and the paper's gain.
GAINS = {0.99: (0.11, 0.13), 0.90: (0.14, 0.15)}
SORTED = "longest tasks first, "  # the authors' task lists are sorted so; the paper does not say
FAIR_SHARES: Mapping[str, FairShare] = {"authors": fair_as_the_authors, "max_min": fair_max_min}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One workload on one cluster. fair: (N,) simulated progress under fair sharing. adjusted: (N,) simulated progress under PAF, by α.

    worst_giver, worst_giver_on_curve: by α; least progress under PAF / fair of the jobs with a target below their fair share, 1 without
    such jobs; simulated and read off the curves.
    """

    fair: FloatArray
    adjusted: Mapping[float, FloatArray]
    worst_giver: Mapping[float, float]
    worst_giver_on_curve: Mapping[float, float]

    def mean(self, knob: float | None = None) -> float:
        """Return the mean progress, fair or under α."""
        return float((self.fair if knob is None else self.adjusted[knob]).mean())

    def gain(self, knob: float) -> float:
        """Return the relative gain of the mean progress."""
        return self.mean(knob) / self.mean() - 1.0

    def clipped_gain(self, knob: float) -> float:
        """Return the relative gain with each job's progress limited to 1."""
        return float(np.minimum(self.adjusted[knob], 1.0).mean() / np.minimum(self.fair, 1.0).mean()) - 1.0


Division = Callable[[Sequence[SlotJob], FloatArray, float], FloatArray]


def as_operator(jobs: Sequence[SlotJob], fair: FloatArray, fairness_knob: float) -> FloatArray:
    """(N,) targets by the operator's division (whole slots, any curve) instead of the authors' single moves."""
    whole = np.floor(fair + 1e-9).astype(np.int64)
    least = np.minimum(whole, 1)
    one = np.ones((len(jobs), 1))
    curves = [job.curve[: job.parallelism + 1] for job in jobs]
    return transfer_slots(curves, whole, least, one, np.array([float(int(fair.sum()))]), fairness_knob).astype(np.float64)


def run(jobs: Sequence[SlotJob], slots: int, share: FairShare, division: Division = adjust) -> Outcome:
    """Run fair sharing and both α on one cluster."""
    fair = share(jobs, float(slots))
    base = simulate(jobs, slots, np.array([job.weight for job in jobs]))
    adjusted, worst, on_curve = {}, {}, {}
    for knob in KNOBS:
        target = division(jobs, fair, knob)
        adjusted[knob] = simulate(jobs, slots, target)
        gives = target < (np.floor(fair) if division is as_operator else fair)
        worst[knob] = _least(adjusted[knob], base, gives)
        on_curve[knob] = _least(_read(jobs, target), _read(jobs, fair), gives)
    return Outcome(base, adjusted, worst, on_curve)


def _least(after: FloatArray, before: FloatArray, gives: BoolArray) -> float:
    some: BoolArray = gives & (before > 0)
    return float((after[some] / before[some]).min()) if some.any() else 1.0


def _read(jobs: Sequence[SlotJob], amount: FloatArray) -> FloatArray:
    return np.array([job.curve[int(own)] for job, own in zip(jobs, amount, strict=True)])


def fitted(job: SlotJob) -> SlotJob:
    """Return the job as the scheduler knows it: with an Ernest curve through its times with 1, 2, 4, ... and all slots.

    With fewer than four such points, the job keeps its curve.
    """
    most = job.parallelism
    slots = sorted({2**power for power in range(12) if 2**power < most} | {most})
    if len(slots) < 4:
        return job
    seconds = job.alone_seconds / job.curve[slots]
    times = runtime(coefficients_of(np.array(slots, dtype=np.float64), seconds), np.arange(1.0, most + 1))
    least = float(seconds.min()) / 2  # lower bound for a fit that falls far below all measurements
    times = np.maximum(times, least)
    return dataclasses.replace(job, curve=np.concatenate(([0.0], times.min() / times)))


def reproduce(options: Options, progress: Progress) -> Reproduction:
    """Reproduce Figs. 10 to 12 on drawn jobs, or only Fig. 10 on the jobs of --trace with --slots."""
    if options.trace is not None:
        return _of_file(options, progress)
    seeds = 1 if options.quick else SEEDS
    pools = {"": AUTHORS} if options.quick else {"": AUTHORS, SORTED: LONGEST_FIRST, "paper's own pools, ": PAPER}
    workloads: dict[str, list[list[Drawn]]] = {}
    for place, (name, pool) in enumerate(pools.items()):
        progress(place / len(pools) / 2, f"{name}jobs of {seeds} seeds")
        workloads[name] = [draw(pool, options.seed + number) for number in range(seeds)]
    rows: list[Row] = []
    data: dict[str, Any] = {}
    done = 0
    for name, drawn in workloads.items():
        profiles = [[each.job for each in jobs] for jobs in drawn]
        known = [[fitted(job) for job in jobs] for jobs in profiles]
        outcomes: dict[int, list[Outcome]] = {}
        for slots in _clusters(options):
            progress(0.5 + done / 6 / len(pools), f"{name}{slots} slots")
            done += 1
            outcomes[slots] = [run(jobs, slots, fair_as_the_authors) for jobs in known]
        rows += _rows(name, outcomes)
        if not name:
            data = _data(outcomes, drawn, options)
            rows += _other_rows(profiles, known, outcomes)
        if name in {"", SORTED}:
            rows += _trends(name, drawn, next(iter(outcomes.values())))
    notes = [
        "Drawn jobs: the authors' are not part of the paper. Progress is not clipped: with warm slots a job can be faster than alone.",
        f"Means over {seeds} workloads, seeds {options.seed} to {options.seed + seeds - 1}; worst givers are the worst over all.",
    ]
    return Reproduction(
        "paf-fig10", "mean progress under fair sharing and PAF (Figs. 10 to 12)", options.seed, rows, data, _charts(data), notes
    )


def _clusters(options: Options) -> tuple[int, ...]:
    if options.slots is not None:
        return (options.slots,)
    return CLUSTERS[::2] if options.quick else CLUSTERS


def _of_file(options: Options, progress: Progress) -> Reproduction:
    assert options.trace is not None  # noqa: S101
    slots = CLUSTERS[0] if options.slots is None else options.slots
    jobs = read_jobs(options.trace)
    rows, shares = [], {}
    for number, (name, share) in enumerate(FAIR_SHARES.items()):
        progress(number / 2, f"{slots} slots, fair share {name}")
        outcome = run(jobs, slots, share)
        shares[name] = outcome
        rows += [
            Row(f"fair share {name}: mean progress, {label}", None, outcome.mean(knob), "-")
            for label, knob in (("fair", None), *((f"α {knob:.2f}", knob) for knob in KNOBS))
        ]
        for knob in KNOBS:
            kept = outcome.worst_giver_on_curve[knob]
            rows.append(Row(f"fair share {name}: worst giver on the curves, α {knob:.2f}", knob, kept, holds(kept >= knob - 1e-9)))
            rows.append(Row(f"fair share {name}: worst giver simulated, α {knob:.2f}", None, outcome.worst_giver[knob], "-"))
    data = {**_means(shares["authors"]), "slots": slots, "jobs": len(jobs), "max_min": _means(shares["max_min"])}
    return Reproduction("paf-fig10", f"mean progress on {slots} slots of the jobs given", options.seed, rows, data)


def _means(outcome: Outcome) -> dict[str, Any]:
    return {
        "mean_progress": {"fair": outcome.mean(), **{f"{knob:.2f}": outcome.mean(knob) for knob in KNOBS}},
        "worst_giver": {f"{knob:.2f}": outcome.worst_giver[knob] for knob in KNOBS},
        "worst_giver_on_curves": {f"{knob:.2f}": outcome.worst_giver_on_curve[knob] for knob in KNOBS},
    }


def _data(outcomes: Mapping[int, Sequence[Outcome]], drawn: Sequence[Sequence[Drawn]], options: Options) -> dict[str, Any]:
    """Return the first seed's figures at the top level, as with a file, and the figures of every seed and cluster below."""
    slots, first = next(iter(outcomes.items()))
    clusters = {str(size): {str(options.seed + n): _means(each) for n, each in enumerate(found)} for size, found in outcomes.items()}
    return {**_means(first[0]), "slots": slots, "jobs": len(drawn[0]), "clusters": clusters}


def _over(outcomes: Sequence[Outcome], figure: Callable[[Outcome], float]) -> float:
    return float(np.mean([figure(outcome) for outcome in outcomes]))


def _rows(name: str, outcomes: Mapping[int, Sequence[Outcome]]) -> list[Row]:
    rows = []
    for slots, found in outcomes.items():
        label = f"{name}{slots} slots"
        paper = 0.78 if slots == CLUSTERS[0] and name in {"", SORTED} else None
        rows.append(Row(f"{label}: mean progress, fair", paper, _over(found, Outcome.mean), "-" if paper is None else "drawn jobs"))
        for knob in KNOBS:
            gain = _over(found, lambda outcome, knob=knob: outcome.gain(knob))  # type: ignore[misc]
            large = slots == CLUSTERS[0]
            least, want = GAINS[knob]
            rows.append(
                Row(f"{label}: gain, α {knob:.2f}", want if large else None, gain, holds(gain >= least) if large else holds(gain > 0))
            )
            kept = min(outcome.worst_giver_on_curve[knob] for outcome in found)
            rows.append(Row(f"{label}: worst giver on the curves, α {knob:.2f}", knob, kept, holds(kept >= knob - 1e-9)))
            rows.append(Row(f"{label}: worst giver simulated, α {knob:.2f}", None, min(o.worst_giver[knob] for o in found), "-"))
    if len(outcomes) > 1:
        most, least_slots = max(outcomes), min(outcomes)
        ratio = _over(outcomes[least_slots], lambda each: each.gain(0.90)) / _over(outcomes[most], lambda each: each.gain(0.90))
        rows.append(Row(f"{name}gain with the fewest slots / with the most, α .90", None, ratio, holds(ratio < 1)))
    return rows


def _other_rows(
    profiles: Sequence[Sequence[SlotJob]], known: Sequence[Sequence[SlotJob]], outcomes: Mapping[int, Sequence[Outcome]]
) -> list[Row]:
    """Return rows for the largest cluster: clipped, with the exact fair share, with unfitted curves, with the operator's division."""
    slots, found = next(iter(outcomes.items()))
    rows = [
        Row(f"{slots} slots, progress clipped to 1: gain, α {knob:.2f}", None, gain, holds(gain > 0))
        for knob in KNOBS
        for gain in [_over(found, lambda outcome, knob=knob: outcome.clipped_gain(knob))]  # type: ignore[misc]
    ]
    for label, share, division, workloads in (
        ("exact max-min fair share", fair_max_min, adjust, known),
        ("profiled curves, unfitted", fair_as_the_authors, adjust, profiles),
        ("profiled curves, the operator's division", fair_as_the_authors, as_operator, profiles),
        ("the operator's division", fair_as_the_authors, as_operator, known),
    ):
        found = [run(jobs, slots, share, division) for jobs in workloads]
        for knob in KNOBS:
            gain = _over(found, lambda outcome, knob=knob: outcome.gain(knob))  # type: ignore[misc]
            rows.append(Row(f"{slots} slots, {label}: gain, α {knob:.2f}", None, gain, holds(gain > 0)))
    return rows


def _trends(name: str, drawn: Sequence[Sequence[Drawn]], outcomes: Sequence[Outcome]) -> list[Row]:
    """Return rows for Figs. 11 and 12: mean gain of the jobs in each third of each property, at α .90."""
    gain = np.concatenate([outcome.adjusted[0.90] / outcome.fair - 1 for outcome in outcomes])
    jobs = [each for workload in drawn for each in workload]
    rows = []
    for label, value, rising in (
        ("Fig. 11a, shape β", np.array([each.shape for each in jobs]), True),
        ("Fig. 11b, warm-up factor", np.array([each.job.warmup_factor for each in jobs]), False),
        ("Fig. 12, parallelism / weight", np.array([each.job.parallelism / each.job.weight for each in jobs]), True),
    ):
        low, high = np.quantile(value, (1 / 3, 2 / 3))
        bins = [float(gain[mask].mean()) for mask in (value <= low, (value > low) & (value <= high), value > high)]
        rows += [
            Row(f"{name}{label}: gain, {third} third", None, own, "-")
            for third, own in zip(("lowest", "middle", "highest"), bins, strict=True)
        ]
        # a trend must include the middle third; half a percent between the outer thirds is not a trend
        steps = np.diff(bins) if rising else -np.diff(bins)
        trend = bool((steps >= -0.005).all() and steps.sum() > 0.01)
        rows.append(Row(f"{name}{label}: gain {'rises' if rising else 'falls'} from third to third", None, bins[2] - bins[0], holds(trend)))
    return rows


def _charts(data: Mapping[str, Any]) -> list[Chart]:
    clusters = data["clusters"]
    names = list(clusters)
    series = [
        Series(label, names, [float(np.mean([each["mean_progress"][key] for each in clusters[size].values()])) for size in names])
        for label, key in (("fair", "fair"), *((f"α {knob:.2f}", f"{knob:.2f}") for knob in KNOBS))
    ]
    return [Chart("fig10", "Mean progress (Fig. 10)", ChartKind.BARS, "slots", "progress rate", series)]
