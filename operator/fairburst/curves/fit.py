"""Fitting the four-term Ernest form (PAF §IV-A) to completed runs: T(x) = b0 + b1 x + b2 / x + b3 ln x, progress = shortest T / T(x).

Decides coefficients, how good they are, and whether they may be used. Errors count as ratios, as α does: least squares of ln T, so that
twice too long and half as long weigh the same. Unconstrained by default: curves of real jobs have negative b1 and b3, which a
non-negative fit can't follow.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # not its parts, which it loads when first asked for: half a second of start-up and 70 MB that few clusters need

from fairburst.curves.runs import Run, medians
from fairburst.policy.arrays import FloatArray
from fairburst.policy.paf.curves import ErnestCurve, problem

# Median relative error, runs left out one by one, above which a curve says too little: it moves slots for gains of about that size.
MOST_ERROR = 0.2
# Terms that so many distinct points can tell: two Amdahl's law, three the logarithm as well; four and more all.
_TERMS = {2: (0, 2), 3: (0, 2, 3)}
_ALL_TERMS = (0, 1, 2, 3)
_LEAST_RATIO = 1e-3  # of fitted to measured time: below it a fit is as wrong as it can be, and a logarithm exists


class RefusalReason(enum.Enum):
    """Why there is no curve."""

    TOO_FEW_POINTS = "TooFewPoints"
    NOT_FINITE = "NotFinite"
    NEVER_RISES = "NeverRises"
    OUT_OF_RANGE = "PoleOrNegative"
    POOR_FIT = "PoorFit"


@dataclass(frozen=True, slots=True)
class Goodness:
    """How well a fit describes what it was made of; errors are relative to the measured seconds.

    points: distinct parallelism. median_error, worst_error: of the fit itself. left_out_error: median over points of the error of a fit
    without that point; None with fewer than five points (four terms fit four points exactly).
    """

    points: int
    median_error: float
    worst_error: float
    left_out_error: float | None


@dataclass(frozen=True, slots=True)
class Fit:
    """A curve that may be used. shortest_seconds: what progress 1 stands for."""

    curve: ErnestCurve
    shortest_seconds: float
    goodness: Goodness


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a curve may not be used: `reason` is a value of RefusalReason, `message` a sentence with the numbers."""

    reason: str
    message: str
    goodness: Goodness | None = None


def fit_runs(runs: Sequence[Run], *, non_negative: bool = False, most_error: float = MOST_ERROR) -> Fit | Refusal:
    """The curve of these runs of one job family, valid between the least and most slots seen; or why there is none.

    most_error: relative; a curve whose median error is larger is refused, and points at the low end where a run took longer than predicted
    by more are outside the valid range.
    """
    if not all(run.plausible for run in runs):
        odd = next(run for run in runs if not run.plausible)
        return _refuse(RefusalReason.NOT_FINITE, f"expected slots >= 1 and seconds above 0, found {odd.parallelism} and {odd.seconds}")
    slots, seconds = medians(runs)
    if len(slots) < 2:
        return _refuse(RefusalReason.TOO_FEW_POINTS, f"expected runs with at least 2 different numbers of slots, found {len(slots)}")
    coefficients = coefficients_of(slots, seconds, non_negative=non_negative)
    goodness = _goodness(slots, seconds, coefficients, non_negative)
    lowest = _lowest_kept(slots, seconds, coefficients, most_error)
    predicted = runtime(coefficients, np.arange(lowest, slots[-1] + 1))
    a0, a1, a2, a3 = (coefficients / abs(predicted.min() or 1.0)).tolist()
    curve = ErnestCurve(a0, a1, a2, a3, lowest=lowest, highest=int(slots[-1]))
    found = _problem(curve, predicted, goodness, most_error)
    return Fit(curve, float(predicted.min()), goodness) if found is None else _refuse(*found, goodness)


def _lowest_kept(slots: FloatArray, seconds: FloatArray, coefficients: FloatArray, most_error: float) -> int:
    """The least slots from which on the curve keeps what it promises: a job that runs out of memory with few slots has a cliff there
    that no Ernest curve can follow, and PAF would drive it over."""
    short = np.flatnonzero(runtime(coefficients, slots) < seconds * (1.0 - most_error))
    return int(slots[min(short[-1] + 1, len(slots) - 1) if short.size else 0])


def _problem(curve: ErnestCurve, predicted: FloatArray, goodness: Goodness, most_error: float) -> tuple[RefusalReason, str] | None:
    error = goodness.median_error if goodness.left_out_error is None else goodness.left_out_error
    if error > most_error:
        return (
            RefusalReason.POOR_FIT,
            f"expected a median error of at most {most_error:.0%}, found {error:.0%} over {goodness.points} points",
        )
    found = problem(curve, int(curve.highest or 0))
    if found is not None:
        return RefusalReason.OUT_OF_RANGE if predicted.min() <= 0 or "1/p" in found else RefusalReason.NEVER_RISES, found
    if predicted.argmin() == 0:
        message = f"expected a curve that rises, found the shortest time, {predicted[0]:.3g} s, at {curve.lowest} slots, the fewest"
        return RefusalReason.NEVER_RISES, message
    return None


def coefficients_of(slots: FloatArray, seconds: FloatArray, *, non_negative: bool = False) -> FloatArray:
    """(4,) b0 ... b3 of the least squares of ln T; terms that the points can't tell apart are zero.

    slots, seconds: (P,) distinct points, P >= 2. Starts at the linear least squares of relative errors, which is exact on exact curves.
    """
    columns = list(_TERMS.get(len(slots), _ALL_TERMS))
    terms = ernest_terms(slots)[:, columns]
    relative = terms / seconds[:, None]
    ones = np.ones_like(seconds)
    start = scipy.optimize.nnls(relative, ones)[0] if non_negative else np.linalg.lstsq(relative, ones, rcond=None)[0]
    found = scipy.optimize.least_squares(
        lambda coefficients: np.log(np.maximum(relative @ coefficients, _LEAST_RATIO)), start, x_scale="jac",
        bounds=(0.0 if non_negative else -np.inf, np.inf),
    )  # fmt: skip
    coefficients = np.zeros(4)
    coefficients[columns] = found.x
    return coefficients


def runtime(coefficients: FloatArray, slots: FloatArray) -> FloatArray:
    """(P,) seconds with these slots."""
    seconds: FloatArray = ernest_terms(slots) @ coefficients
    return seconds


def left_out_errors(slots: FloatArray, seconds: FloatArray, *, non_negative: bool = False) -> FloatArray:
    """(P,) relative error of the time of each point, predicted from all others; P >= 3."""
    errors = np.empty(len(slots))
    for place in range(len(slots)):
        others = np.arange(len(slots)) != place
        fitted = coefficients_of(slots[others], seconds[others], non_negative=non_negative)
        errors[place] = abs(runtime(fitted, slots[place : place + 1])[0] / seconds[place] - 1.0)
    return errors


def ernest_terms(slots: FloatArray) -> FloatArray:
    """(P, 4) the terms 1, x, 1/x and ln x of the Ernest form."""
    return np.stack([np.ones_like(slots), slots, 1.0 / slots, np.log(slots)], axis=1)


def _goodness(slots: FloatArray, seconds: FloatArray, coefficients: FloatArray, non_negative: bool) -> Goodness:
    errors = np.abs(runtime(coefficients, slots) / seconds - 1.0)
    left_out = float(np.median(left_out_errors(slots, seconds, non_negative=non_negative))) if len(slots) > len(_ALL_TERMS) else None
    return Goodness(len(slots), float(np.median(errors)), float(errors.max()), left_out)


def _refuse(reason: RefusalReason, message: str, goodness: Goodness | None = None) -> Refusal:
    return Refusal(reason.value, message, goodness)
