"""Charts as values. `plots.py` draws them if matplotlib is installed; otherwise they are written as numbers."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass


class ChartKind(enum.Enum):
    """Form in which series are drawn. STACK: stacked areas, steps in time. CDF: series of samples. BARS: x holds category names."""

    LINES = "lines"
    STEPS = "steps"
    STACK = "stack"
    CDF = "cdf"
    BARS = "bars"


@dataclass(frozen=True, slots=True)
class Series:
    """One curve or group of bars. A CDF uses only `y`, its samples."""

    label: str
    x: Sequence[float | str]
    y: Sequence[float]


@dataclass(frozen=True, slots=True)
class Span:
    """A marked interval on the x axis, such as a window from opening to deadline."""

    begin: float
    end: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure. logarithmic: whether both axes are."""

    name: str
    title: str
    kind: ChartKind
    x_label: str
    y_label: str
    series: Sequence[Series]
    spans: Sequence[Span] = ()
    logarithmic: bool = False
