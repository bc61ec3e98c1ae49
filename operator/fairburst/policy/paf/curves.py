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
    found = examine(curve, maximum)
    if isinstance(found, str):
        raise InvalidSpecError(found)
    return found


def problem(curve: Curve, maximum: int) -> str | None:
    """Return a sentence that says why the curve cannot be used up to `maximum` slots, or None if it can."""
    found = examine(curve, maximum)
    return found if isinstance(found, str) else None


@functools.lru_cache(maxsize=1024)  # a job keeps its curve over many rounds
def examine(curve: Curve, maximum: int) -> FloatArray | str:
    """Return the progress rates as a read-only array, or a sentence that says why the curve is refused.

    Refused are numbers that are not finite, a pole or a negative value in range, fewer than two points, unsorted slots, and a curve that
    never rises.
    """
    found = _ernest_problem(curve, maximum) if isinstance(curve, ErnestCurve) else _points_problem(curve)
    if found is not None:
        return found
    rates = np.minimum(_raw(curve, maximum), 1.0)
    highest = float(rates.max())
    if maximum > 0 and highest <= SMALLEST_RISE:
        return f"expected a curve that rises, found none above {SMALLEST_RISE:g} up to {maximum} slots"
    if maximum > 1 and highest - rates[1] <= SMALLEST_RISE:
        return f"expected a curve that rises, found its highest progress, {rates[1]:.3g}, with one slot already"
    rates.flags.writeable = False
    return rates


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


def _raw(curve: Curve, maximum: int) -> FloatArray:
    """(maximum + 1,) progress rates, not clipped, of a curve with valid parameters."""
    x = np.arange(maximum + 1, dtype=np.float64)
    if isinstance(curve, PointsCurve):
        slots, progress = np.array(curve.slots), np.array(curve.progress)
        first = slots[0]
        values: FloatArray = np.interp(x, slots, progress)
        return np.where(x < first, progress[0] * x / first, values) if first > 0 else values
    low, high = _measured_range(curve, maximum)
    inside = np.minimum(np.maximum(x, low), high)
    values = 1.0 / (curve.a0 + curve.a1 * inside + curve.a2 / inside + curve.a3 * np.log(inside))
    values[:low] *= x[:low] / low
    return values
