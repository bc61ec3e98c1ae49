"""Intervals from forward runs, and their calibration by how former forecasts came out (normalised conformal prediction).

The runs say which waits are likely. What they leave out, such as users who act, makes them too sure or not sure enough. So each outcome is
scored: how far it lay from the median, in units of the forecast's own width, on a logarithmic scale of waits. The intervals of the next
forecasts reach as far as the scores of the last ones did. Before there are outcomes, the intervals are twice as wide as the runs.
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
_PRIOR = 19  # scores that count until there are outcomes, and among them
_STEP = 0.02  # by how much one outcome moves the level that is asked of the scores
_SUREST = 0.995
_PRIOR_WIDTH = 2.0  # how much wider than the runs outcomes are taken to spread then: runs leave out changes that no draw foresees
_SPREAD = 1.645  # standard deviations between the median and the 95 % quantile of a normal distribution
_NARROWEST = 0.02  # width of a forecast whose runs all agree, as a logarithm: one in fifty
_SECOND = 1.0  # waits are compared as log(wait + 1 s)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds to the start: the median and, by level, the ends of the interval. Infinite: later than the runs reached."""

    median: float
    intervals: dict[float, tuple[float, float]]

    def covers(self, level: float, wait: float) -> bool:
        """Whether the wait lies in the interval of that level."""
        low, high = self.intervals[level]
        return low - 1e-6 <= wait <= high + 1e-6


@dataclass(slots=True)
class Calibration:
    """The scores of the last outcomes, and how many of all outcomes the intervals covered.

    asked: by level, the part of the scores that an interval reaches over. It grows with each outcome outside and shrinks with each inside
    (adaptive conformal inference, Gibbs and Candès 2021), so that intervals cover what they say while the runs get better or worse.
    """

    scores: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    outcomes: int = 0
    asked: dict[float, float] = field(default_factory=lambda: {level: level for level in LEVELS})
    covered: dict[float, int] = field(default_factory=lambda: dict.fromkeys(LEVELS, 0))

    def forecast(self, waits: FloatArray) -> Forecast:
        """The intervals for the (runs,) waits of the forward runs, in ascending order."""
        median, width = _centre(waits)
        if math.isinf(median):
            return Forecast(median, dict.fromkeys(LEVELS, (_quantile(waits, 0.05), math.inf)))
        known = np.array([*self.scores, *_prior()])
        more = 1 + 1 / len(known)  # a further score lies beyond the largest of n with the chance 1 / (n + 1)
        intervals: dict[float, tuple[float, float]] = {}
        inner = (math.inf, 0.0)
        for level in LEVELS:
            part = min(self.asked[level] * more, _SUREST)
            low, high = np.quantile(known, [(1 - part) / 2, (1 + part) / 2])
            inner = min(inner[0], _wait(median + low * width)), max(inner[1], _wait(median + high * width))
            intervals[level] = inner  # each holds the narrower ones
        return Forecast(_wait(median), intervals)

    def came_out(self, waits: FloatArray, forecast: Forecast, wait: float) -> None:
        """The job has started after `wait` seconds."""
        self.outcomes += 1
        for level in LEVELS:
            covered = forecast.covers(level, wait)
            self.covered[level] += covered
            self.asked[level] = min(max(self.asked[level] + _STEP * (level - covered), _STEP), _SUREST)
        median, width = _centre(waits)
        if math.isfinite(median):
            self.scores.append((_log(wait) - median) / width)

    def coverage(self, level: float) -> float:
        """The part of all outcomes that the intervals of this level covered; NaN before the first."""
        return self.covered[level] / self.outcomes if self.outcomes else math.nan


def raw(waits: FloatArray) -> Forecast:
    """The intervals that the runs give without calibration."""
    ends = {level: (_quantile(waits, (1 - level) / 2), _quantile(waits, (1 + level) / 2)) for level in LEVELS}
    return Forecast(_quantile(waits, 0.5), ends)


def _centre(waits: FloatArray) -> tuple[float, float]:
    """Median and width of the forecast as logarithms: half the distance of the runs' 5 % and 95 % quantiles."""
    low, median, high = (_log(_quantile(waits, part)) for part in (0.05, 0.5, 0.95))
    if math.isinf(high):
        finite = waits[np.isfinite(waits)]
        high = _log(2 * float(finite[-1])) if len(finite) else math.inf
    return median, max((high - low) / 2, _NARROWEST) if math.isfinite(median) else _NARROWEST


def _prior() -> Sequence[float]:
    """Quantiles of a normal distribution, somewhat wider than the forecast."""
    from statistics import NormalDist  # noqa: PLC0415

    return [NormalDist(0, _PRIOR_WIDTH / _SPREAD).inv_cdf((number + 0.5) / _PRIOR) for number in range(_PRIOR)]


def _quantile(waits: FloatArray, part: float) -> float:
    """A value of the sample, so that infinite waits stay infinite."""
    return float(waits[min(len(waits) - 1, int(part * len(waits)))])


def _log(wait: float) -> float:
    return math.log(max(wait, 0.0) + _SECOND)


def _wait(logarithm: float) -> float:
    return max(0.0, math.exp(logarithm) - _SECOND)
