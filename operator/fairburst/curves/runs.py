"""A completed run of a job: how many slots it had, and how long it took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Run:
    """parallelism: slots, at least 1. seconds: from first start to end."""

    parallelism: int
    seconds: float

    @property
    def plausible(self) -> bool:
        """Whether the numbers can be those of a run."""
        return self.parallelism >= 1 and math.isfinite(self.seconds) and self.seconds > 0


def medians(runs: Sequence[Run]) -> tuple[FloatArray, FloatArray]:
    """(P,) distinct parallelism, ascending, and the median seconds of each: one odd run among several does not count."""
    by_parallelism: dict[int, list[float]] = {}
    for run in runs:
        by_parallelism.setdefault(run.parallelism, []).append(run.seconds)
    slots = sorted(by_parallelism)
    return np.array(slots, dtype=np.float64), np.array([float(np.median(by_parallelism[each])) for each in slots])
