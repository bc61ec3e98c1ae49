"""Choice of the parallelism for a job family's next run, so that its curve becomes known at no less than α of its fair progress.

Two assumptions replace a curve that is not known yet. Both hold for x below the fair share f. First, no job speeds up more than linearly:
p(x) >= p(f) x / f. Second, more slots are not slower than fewer slots that were measured: p(x) >= p(y) for every measured y <= x. A value
of x is safe to try if either assumption gives at least α p(f). Above the fair share, only spare slots are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fairburst.curves.runs import Run, medians

ENOUGH_POINTS = 5  # four coefficients, and one point to check them


def next_parallelism(runs: Sequence[Run], fair: int, minimum: int, maximum: int, spare: int, fairness_knob: float) -> int:
    """Return the slots for the next run: the untried number that is furthest from all tried ones, or `fair` if there is none.

    runs: the family's runs so far. spare: slots beyond the fair ones that no other job uses. The distance is a ratio of slots. The result
    lies between `minimum` and `maximum`, is at most fair + spare, and is safe under the module's two assumptions.
    """
    tried = sorted({run.parallelism for run in runs if run.plausible})
    if not tried or len(tried) >= ENOUGH_POINTS:
        return fair
    lowest = max(minimum, safe_slots(runs, fair, fairness_knob), 1)
    choice = [x for x in range(lowest, min(maximum, fair + max(spare, 0)) + 1) if x not in tried]
    return max(choice, key=lambda x: (round(min(abs(math.log(x / each)) for each in tried), 9), -x), default=fair)


def safe_slots(runs: Sequence[Run], fair: int, fairness_knob: float) -> int:
    """Return the fewest slots that keep α of the fair progress under the module's two assumptions."""
    safe = max(math.ceil(fairness_knob * fair - 1e-9), min(fair, 1))
    slots, seconds = medians([run for run in runs if run.plausible])
    at_fair = {int(each): float(value) for each, value in zip(slots, seconds, strict=True)}.get(fair)
    if at_fair is None:
        return safe
    for each, value in zip(slots.tolist(), seconds.tolist(), strict=True):
        if each < safe and at_fair / value >= fairness_knob:
            return int(each)
    return safe
