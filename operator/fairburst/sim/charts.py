"""What a figure shows, as values: drawn by `plots.py` where matplotlib is installed, written out as numbers otherwise."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass


class ChartKind(enum.Enum):
    """How the series are drawn. STACK: areas on each other, steps in time. CDF: series of samples. BARS: x are category names."""

    LINES = "lines"
    STEPS = "steps"
    STACK = "stack"
    CDF = "cdf"
    BARS = "bars"


@dataclass(frozen=True, slots=True)
class Series:
    """One curve or group of bars. For CDF only `y` counts: the samples."""

    label: str
    x: Sequence[float | str]
    y: Sequence[float]


@dataclass(frozen=True, slots=True)
class Span:
    """A marked interval on the x axis: a window, from opening to deadline."""

    begin: float
    end: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure. `logarithmic`: both axes."""

    name: str
    title: str
    kind: ChartKind
    x_label: str
    y_label: str
    series: Sequence[Series]
    spans: Sequence[Span] = ()
    logarithmic: bool = False
