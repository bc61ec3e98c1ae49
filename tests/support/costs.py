"""The cost of work in processor time, beside processes of others."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

MOST_RATIOS = 4


def fastest(run: Callable[[], object], repeats: int = 5) -> float:
    """Return the least processor seconds of some runs, which busy neighbours change least."""
    samples = []
    for _ in range(repeats):
        begin = time.process_time()
        run()
        samples.append(time.process_time() - begin)
    return min(samples)


def ratios_of(many: Callable[[], object], few: Callable[[], object], most: float) -> list[float]:
    """Return ratios of the cost of `many` to that of `few`, measured in turn until one is below `most`, or a few times.

    Other processes take the cache from the larger work more than from the smaller one: the least ratio is the cost itself.
    """
    ratios = list[float]()
    while len(ratios) < MOST_RATIOS and min(ratios, default=math.inf) >= most:
        ratios.append(fastest(many) / fastest(few))
    return ratios
