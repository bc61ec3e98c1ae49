"""Fit of the four-term Ernest form (PAF §IV-A) to completed runs: T(x) = b0 + b1 x + b2 / x + b3 ln x, progress = shortest T / T(x).

The module computes the coefficients and the goodness of the fit, and decides whether the curve may be used. It minimises the squares of
ln T, so that errors count as ratios, as α does: a time twice too long weighs as much as one half as long. The fit is unconstrained by
default, because curves of real jobs have negative b1 and b3, which a non-negative fit cannot follow.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.curves.runs import Run, medians
from fairburst.policy.arrays import FloatArray
from fairburst.policy.extras import scipy
from fairburst.policy.paf.curves import ErnestCurve, problem

# Largest leave-one-out median relative error of a usable curve. PAF moves slots for gains of about this size.
MOST_ERROR = 0.2
# Terms that a number of distinct points can tell apart: two give Amdahl's law, three add the logarithm, four or more give all terms.
_TERMS = {2: (0, 2), 3: (0, 2, 3)}
_ALL_TERMS = (0, 1, 2, 3)
_LEAST_RATIO = 1e-3  # lower bound of fitted to measured time, so that the logarithm exists; a fit below it is useless anyway


class RefusalReason(enum.Enum):
    """Reasons to refuse a curve."""

    TOO_FEW_POINTS = "TooFewPoints"
    NOT_FINITE = "NotFinite"
    NEVER_RISES = "NeverRises"
    OUT_OF_RANGE = "PoleOrNegative"
    POOR_FIT = "PoorFit"


@dataclass(frozen=True, slots=True)
class Goodness:
    """Errors of a fit, relative to the measured seconds.

    points: distinct parallelisms. median_error, worst_error: errors of the fit itself. left_out_error: median over the points of the error
    of a fit without that point, or None with fewer than five points (four terms fit four points exactly).
    """

    points: int
    median_error: float
    worst_error: float
    left_out_error: float | None


@dataclass(frozen=True, slots=True)
class Fit:
    """A usable curve. shortest_seconds: run time at which progress is 1."""

    curve: ErnestCurve
    shortest_seconds: float
    goodness: Goodness


@dataclass(frozen=True, slots=True)
class Refusal:
    """A curve that may not be used. reason: a value of RefusalReason. message: a sentence with the numbers."""

    reason: str
    message: str
    goodness: Goodness | None = None


def fit_runs(runs: Sequence[Run], *, non_negative: bool = False, most_error: float = MOST_ERROR) -> Fit | Refusal:
    """Fit one job family's runs; return the curve, valid between the fewest and the most slots seen, or the reason for its refusal.

    most_error: relative. A curve with a larger median error is refused. The valid range starts above the last point at which a run took
    longer than predicted by more than this error.
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
    """Return the least slots from which on no run took longer than predicted by more than `most_error`.

    A job that runs out of memory with few slots has a cliff that no Ernest curve can follow, and PAF would drive the job over it.
    """
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
    """(4,) coefficients b0 ... b3 of the least squares of ln T; terms that the points cannot tell apart are zero.

    slots, seconds: (P,) distinct points, P >= 2. The search starts at the linear least squares of relative errors, which is exact on exact
    curves.
    """
    columns = list(_TERMS.get(len(slots), _ALL_TERMS))
    terms = ernest_terms(slots)[:, columns]
    relative = terms / seconds[:, None]
    ones = np.ones_like(seconds)
    start = scipy().optimize.nnls(relative, ones)[0] if non_negative else np.linalg.lstsq(relative, ones, rcond=None)[0]
    found = scipy().optimize.least_squares(
        lambda coefficients: np.log(np.maximum(relative @ coefficients, _LEAST_RATIO)), start, x_scale="jac",
        bounds=(0.0 if non_negative else -np.inf, np.inf),
    )  # fmt: skip
    coefficients = np.zeros(4)
    coefficients[columns] = found.x
    return coefficients


def runtime(coefficients: FloatArray, slots: FloatArray) -> FloatArray:
    """(P,) seconds that the curve predicts for these slots."""
    seconds: FloatArray = ernest_terms(slots) @ coefficients
    return seconds


def left_out_errors(slots: FloatArray, seconds: FloatArray, *, non_negative: bool = False) -> FloatArray:
    """(P,) relative error of each point's time as predicted from all other points; P >= 3."""
    errors = np.empty(len(slots))
    for place in range(len(slots)):
        others = np.arange(len(slots)) != place
        fitted = coefficients_of(slots[others], seconds[others], non_negative=non_negative)
        errors[place] = abs(runtime(fitted, slots[place : place + 1])[0] / seconds[place] - 1.0)
    return errors


def ernest_terms(slots: FloatArray) -> FloatArray:
    """(P, 4) terms 1, x, 1/x and ln x of the Ernest form."""
    return np.stack([np.ones_like(slots), slots, 1.0 / slots, np.log(slots)], axis=1)


def _goodness(slots: FloatArray, seconds: FloatArray, coefficients: FloatArray, non_negative: bool) -> Goodness:
    errors = np.abs(runtime(coefficients, slots) / seconds - 1.0)
    left_out = float(np.median(left_out_errors(slots, seconds, non_negative=non_negative))) if len(slots) > len(_ALL_TERMS) else None
    return Goodness(len(slots), float(np.median(errors)), float(errors.max()), left_out)


def _refuse(reason: RefusalReason, message: str, goodness: Goodness | None = None) -> Refusal:
    return Refusal(reason.value, message, goodness)
