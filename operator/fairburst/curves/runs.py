"""Completed runs of a job: slots and run time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Run:
    """One completed run. parallelism: slots, at least 1. seconds: from the first start to the end."""

    parallelism: int
    seconds: float

    @property
    def plausible(self) -> bool:
        """Return whether a real run can have these numbers."""
        return self.parallelism >= 1 and math.isfinite(self.seconds) and self.seconds > 0


def medians(runs: Sequence[Run]) -> tuple[FloatArray, FloatArray]:
    """(P,) distinct parallelisms, ascending, and (P,) median seconds of each. The median ignores one outlier among several runs."""
    by_parallelism: dict[int, list[float]] = {}
    for run in runs:
        by_parallelism.setdefault(run.parallelism, []).append(run.seconds)
    slots = sorted(by_parallelism)
    return np.array(slots, dtype=np.float64), np.array([float(np.median(by_parallelism[each])) for each in slots])
