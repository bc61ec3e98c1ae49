"""Progress curves (PAF §II-A, §IV-A): values for the progress rate of a job with 0, 1, 2 ... slots, and the reasons to refuse one.

The module decides whether a curve may be used. It does not depend on the curve's source, such as a fit or measured points.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.errors import InvalidSpecError

# Largest rise that counts as rounding of the fitted data. A curve that rises by no more is flat.
SMALLEST_RISE = 1e-6
_MOST_KEPT = 1000  # slots of a curve whose rates are kept from round to round: 8 MB in all


@dataclass(frozen=True, slots=True)
class ErnestCurve:
    """p(x) = 1 / (a0 + a1 x + a2 / x + a3 ln x) for x >= 1, and p(0) = 0 (PAF §IV-A, after Ernest).

    lowest, highest: slots between which the curve was measured, if it was. Below `lowest`, progress falls in proportion to the slots, as no
    job speeds up more than linearly. Above `highest` it stays constant.
    """

    a0: float
    a1: float
    a2: float
    a3: float
    lowest: int | None = None
    highest: int | None = None


@dataclass(frozen=True, slots=True)
class PointsCurve:
    """Piecewise linear curve through (slots, progress) points with ascending slots, not necessarily monotone or concave.

    Below the first point, progress is proportional to the slots; above the last one it is constant.
    """

    slots: tuple[float, ...]
    progress: tuple[float, ...]


Curve: TypeAlias = ErnestCurve | PointsCurve


def progress_rates(curve: Curve, maximum: int) -> FloatArray:
    """(maximum + 1,) progress rates with 0 ... maximum slots, clipped to [0, 1].

    Raises InvalidSpecError for a curve that `problem` refuses.
    """
    found = problem(curve, maximum)
    if found is not None:
        raise InvalidSpecError(found)
    return rates(curve, maximum)


@functools.lru_cache(maxsize=1024)  # a job keeps its curve over many rounds
def problem(curve: Curve, maximum: int) -> str | None:
    """Return a sentence that says why the curve cannot be used up to `maximum` slots, or None if it can.

    Refused are numbers that are not finite, a pole or a negative value in range, fewer than two points, unsorted slots, and a curve that
    never rises. The cost does not depend on `maximum`.
    """
    found = _ernest_problem(curve, maximum) if isinstance(curve, ErnestCurve) else _points_problem(curve)
    if found is not None:
        return found
    progress = np.minimum(_at(curve, _places_of_extremes(curve, maximum)), 1.0)
    highest = float(progress.max())
    if maximum > 0 and highest <= SMALLEST_RISE:
        return f"expected a curve that rises, found none above {SMALLEST_RISE:g} up to {maximum} slots"
    if maximum > 1 and highest - progress[1] <= SMALLEST_RISE:
        return f"expected a curve that rises, found its highest progress, {progress[1]:.3g}, with one slot already"
    return None


def rates(curve: Curve, most: int) -> FloatArray:
    """(most + 1,) progress rates with 0 ... most slots, clipped to [0, 1], of a curve without a `problem`. Do not change the array."""
    return _kept_rates(curve, most) if most <= _MOST_KEPT else _rates(curve, most)


def progress_with(curve: Curve, slots: int) -> float:
    """Progress rate with this number of slots, clipped to [0, 1], of a curve without a `problem`."""
    return min(float(_at(curve, np.array([slots], dtype=np.float64))[0]), 1.0)


def _rates(curve: Curve, most: int) -> FloatArray:
    return np.minimum(_at(curve, np.arange(most + 1, dtype=np.float64)), 1.0)


@functools.lru_cache(maxsize=1024)
def _kept_rates(curve: Curve, most: int) -> FloatArray:
    found = _rates(curve, most)
    found.flags.writeable = False
    return found


def measured_between(curve: Curve) -> tuple[float, float]:
    """Return the lowest and the highest measured slots: 0 and infinity without limits."""
    if isinstance(curve, PointsCurve):
        return 0.0, math.inf
    return float(curve.lowest or 0), math.inf if curve.highest is None else float(curve.highest)


def _ernest_problem(curve: ErnestCurve, maximum: int) -> str | None:
    coefficients = (curve.a0, curve.a1, curve.a2, curve.a3)
    if not all(math.isfinite(each) for each in coefficients):
        return f"expected four finite coefficients, found {coefficients}"
    low, high = _measured_range(curve, maximum)
    if low < 1 or high < low:
        return f"expected 1 <= lowest <= highest slots, found {curve.lowest} and {curve.highest}"
    bottom = _lowest_of_form(coefficients, float(low), float(high))
    if bottom <= 0:
        return f"expected 1/p above 0 from {low} to {high} slots, found {bottom:.3g}: a pole or negative progress"
    return None


def _lowest_of_form(coefficients: tuple[float, float, float, float], low: float, high: float) -> float:
    """Return the least value of a0 + a1 x + a2 / x + a3 ln x on [low, high]: at an end, or at a root of a1 x² + a3 x - a2.

    The result is exact, so that a pole between two whole numbers of slots is found too.
    """
    a0, a1, a2, a3 = coefficients
    places = [low, high, *(root for root in _real_roots(a1, a3, -a2) if low < root < high)]
    return min(a0 + a1 * x + a2 / x + a3 * math.log(x) for x in places)


def _real_roots(square: float, linear: float, constant: float) -> list[float]:
    """Return the real roots of square x² + linear x + constant, by the formula without cancellation."""
    if square == 0:
        return [-constant / linear] if linear else []
    under = linear * linear - 4 * square * constant
    if under < 0:
        return []
    larger = -(linear + math.copysign(math.sqrt(under), linear)) / 2
    return [larger / square, constant / larger] if larger else [0.0]


def _points_problem(curve: PointsCurve) -> str | None:
    slots, progress = curve.slots, curve.progress
    if len(slots) != len(progress) or len(slots) < 2:
        return f"expected at least two points, each with slots and progress, found {len(slots)} and {len(progress)} numbers"
    if not all(math.isfinite(each) for each in (*slots, *progress)):
        return "expected finite points, found one that is not"
    if slots[0] < 0 or any(later <= earlier for earlier, later in itertools.pairwise(slots)):
        return f"expected ascending slots >= 0, found {slots}"
    if min(progress) < 0 or (slots[0] == 0 and progress[0] > 0):
        return f"expected progress >= 0, and 0 without slots, found {progress[0]:.3g} at {slots[0]:g} slots, lowest {min(progress):.3g}"
    return None


def _measured_range(curve: ErnestCurve, maximum: int) -> tuple[int, int]:
    low = 1 if curve.lowest is None else curve.lowest
    high = max(maximum, 1) if curve.highest is None else curve.highest
    return low, high


def _places_of_extremes(curve: Curve, maximum: int) -> FloatArray:
    """Return numbers of slots, 0 and 1 first, among which the highest progress with 0 ... maximum slots is found."""
    if isinstance(curve, PointsCurve):
        inner = list(curve.slots)
    else:
        low, high = _measured_range(curve, maximum)
        inner = [low, high, *_real_roots(curve.a1, curve.a3, -curve.a2)]
    whole = (place for one in inner if 0 < one < maximum for place in (math.floor(one), math.ceil(one)))
    return np.array([0, min(1, maximum), maximum, *whole], dtype=np.float64)


def _at(curve: Curve, slots: FloatArray) -> FloatArray:
    """Progress rates with these numbers of slots, not clipped, of a curve with valid parameters."""
    if isinstance(curve, PointsCurve):
        points, progress = np.array(curve.slots), np.array(curve.progress)
        first = points[0]
        values: FloatArray = np.interp(slots, points, progress)
        return np.where(slots < first, progress[0] * slots / first, values) if first > 0 else values
    low, high = _measured_range(curve, int(slots.max()))
    inside = np.minimum(np.maximum(slots, low), high)
    values = 1.0 / (curve.a0 + curve.a1 * inside + curve.a2 / inside + curve.a3 * np.log(inside))
    return np.where(slots < low, values * slots / low, values)
