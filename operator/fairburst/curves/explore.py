"""With how many slots a job family should run next, so that its curve becomes known, without taking it below α of its fair progress.

Two assumptions stand in for a curve that isn't known yet, both for x below the fair share f: no job speeds up more than linearly, so
p(x) >= p(f) x / f; and more slots are not slower than fewer that were measured, so p(x) >= p(y) for every measured y <= x. Where either
gives at least α p(f), x is safe to try. Above the fair share only slots that nobody else has are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fairburst.curves.runs import Run, medians

ENOUGH_POINTS = 5  # four coefficients and one point to check them


def next_parallelism(runs: Sequence[Run], fair: int, minimum: int, maximum: int, spare: int, fairness_knob: float) -> int:
    """Slots for the next run: one that was not tried and is furthest from all that were; `fair` if there is no such.

    runs: of the family so far. spare: slots beside the fair ones that nobody uses. The result is between `minimum` and `maximum`, at most
    fair + spare, and safe as the module's text says.
    """
    tried = sorted({run.parallelism for run in runs if run.plausible})
    if not tried or len(tried) >= ENOUGH_POINTS:
        return fair
    lowest = max(minimum, safe_slots(runs, fair, fairness_knob), 1)
    choice = [x for x in range(lowest, min(maximum, fair + max(spare, 0)) + 1) if x not in tried]
    return max(choice, key=lambda x: (round(min(abs(math.log(x / each)) for each in tried), 9), -x), default=fair)


def safe_slots(runs: Sequence[Run], fair: int, fairness_knob: float) -> int:
    """The fewest slots that keep α of the fair progress under the two assumptions."""
    safe = max(math.ceil(fairness_knob * fair - 1e-9), min(fair, 1))
    slots, seconds = medians([run for run in runs if run.plausible])
    at_fair = {int(each): float(value) for each, value in zip(slots, seconds, strict=True)}.get(fair)
    if at_fair is None:
        return safe
    for each, value in zip(slots.tolist(), seconds.tolist(), strict=True):
        if each < safe and at_fair / value >= fairness_knob:
            return int(each)
    return safe
