"""Intervals from forward runs, and their calibration by the outcomes of earlier forecasts (normalised conformal prediction).

The runs give likely waits. They lack some influences, such as the actions of users, so their spread may be too narrow or too wide. Each
outcome therefore gets a score: its distance from the median in units of the forecast's own width, on a logarithmic scale of waits. The
next intervals reach as far as the recent scores. Without outcomes, they are twice as wide as the runs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fairburst.policy.arrays import FloatArray

LEVELS = (0.5, 0.9)
RECENT = 300  # scores that count
_PRIOR = 19  # scores before the first outcome, which also count later
_STEP = 0.02  # change of the level asked of the scores by one outcome
_SUREST = 0.995
_PRIOR_WIDTH = 2.0  # spread of these scores relative to the runs, which lack changes that no draw foresees
_SPREAD = 1.645  # standard deviations between the median and the 95 % quantile of a normal distribution
_NARROWEST = 0.02  # width of a forecast whose runs all agree, as a logarithm: one in fifty
_ENDLESS = 100.0  # logarithm of a wait without an end: its exponential is longer than any time
_SECOND = 1.0  # waits are compared as log(wait + 1 s)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds to the start: the median and, by level, the ends of the interval. Infinite: after the end of the runs."""

    median: float
    intervals: dict[float, tuple[float, float]]

    def covers(self, level: float, wait: float) -> bool:
        """Return whether the wait lies in the interval of that level."""
        low, high = self.intervals[level]
        return low - 1e-6 <= wait <= high + 1e-6


@dataclass(slots=True)
class Calibration:
    """The scores of the last outcomes, and the number of all outcomes that the intervals covered.

    asked: by level, the fraction of the scores that an interval covers. It grows with each outcome outside the interval and shrinks with
    each inside (adaptive conformal inference, Gibbs and Candès 2021), so that the coverage stays right when the runs get better or worse.
    """

    scores: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    outcomes: int = 0
    asked: dict[float, float] = field(default_factory=lambda: {level: level for level in LEVELS})
    covered: dict[float, int] = field(default_factory=lambda: dict.fromkeys(LEVELS, 0))

    def forecast(self, waits: FloatArray) -> Forecast:
        """Return the intervals for the (runs,) waits of the forward runs, which are in ascending order."""
        median, width = _centre(waits)
        if math.isinf(median):
            return Forecast(median, dict.fromkeys(LEVELS, (_quantile(waits, 0.05), math.inf)))
        known = np.array([*self.scores, *_prior()])
        more = 1 + 1 / len(known)  # another score exceeds the largest of n with probability 1 / (n + 1)
        intervals: dict[float, tuple[float, float]] = {}
        inner = (math.inf, 0.0)
        for level in LEVELS:
            part = min(self.asked[level] * more, _SUREST)
            low, high = np.quantile(known, [(1 - part) / 2, (1 + part) / 2])
            inner = min(inner[0], _wait(median + low * width)), max(inner[1], _wait(median + high * width))
            intervals[level] = inner  # each interval contains the narrower ones
        return Forecast(_wait(median), intervals)

    def came_out(self, waits: FloatArray, forecast: Forecast, wait: float) -> None:
        """Learn that the job started after `wait` seconds."""
        self.outcomes += 1
        for level in LEVELS:
            covered = forecast.covers(level, wait)
            self.covered[level] += covered
            self.asked[level] = min(max(self.asked[level] + _STEP * (level - covered), _STEP), _SUREST)
        median, width = _centre(waits)
        if math.isfinite(median):
            self.scores.append((_log(wait) - median) / width)

    def coverage(self, level: float) -> float:
        """Return the fraction of all outcomes that the intervals of this level covered; NaN before the first."""
        return self.covered[level] / self.outcomes if self.outcomes else math.nan


def raw(waits: FloatArray) -> Forecast:
    """Return the intervals of the runs without calibration."""
    ends = {level: (_quantile(waits, (1 - level) / 2), _quantile(waits, (1 + level) / 2)) for level in LEVELS}
    return Forecast(_quantile(waits, 0.5), ends)


def _centre(waits: FloatArray) -> tuple[float, float]:
    """Return the logarithms of the median and of the width, which is half the distance of the runs' 5 % and 95 % quantiles."""
    low, median, high = (_log(_quantile(waits, part)) for part in (0.05, 0.5, 0.95))
    if math.isinf(high):
        finite = waits[np.isfinite(waits)]
        high = _log(2 * float(finite[-1])) if len(finite) else math.inf
    return median, max((high - low) / 2, _NARROWEST) if math.isfinite(median) else _NARROWEST


def _prior() -> Sequence[float]:
    """Return quantiles of a normal distribution that is wider than the forecast."""
    from statistics import NormalDist  # noqa: PLC0415

    return [NormalDist(0, _PRIOR_WIDTH / _SPREAD).inv_cdf((number + 0.5) / _PRIOR) for number in range(_PRIOR)]


def _quantile(waits: FloatArray, part: float) -> float:
    """Return a quantile that is a value of the sample, so that infinite waits stay infinite."""
    return float(waits[min(len(waits) - 1, int(part * len(waits)))])


def _log(wait: float) -> float:
    return math.log(max(wait, 0.0) + _SECOND)


def _wait(logarithm: float) -> float:
    return max(0.0, math.exp(logarithm) - _SECOND) if logarithm < _ENDLESS else math.inf
