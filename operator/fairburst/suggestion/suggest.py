"""The declaration that fits the past bursts of a queue.

The demand follows BoPF §3.5 for uncertain bursts, from the bursts themselves (`policy/uncertainty.py`): 95 % of them had at most the
requested demand. Bursts at nearly equal distances are periodic, even if some are missing; all others are sporadic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import Arrival, Burst, Periodic, Sporadic
from fairburst.policy.uncertainty import Correlation, request_empirical
from fairburst.suggestion.bursts import SeenBursts

FEWEST_BURSTS = 5
CONFIDENCE = 0.95
MOST_JITTER = 0.25  # of the period; bursts that vary more are sporadic
MOST_MISSED = 0.5  # of the bursts that a period would have had


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggested declaration. seen: number of bursts behind it.

    burst, arrival: the declaration, with the margin. typical: amounts of a usual burst while it runs, by resource. every: seconds between
    bursts, the median for sporadic ones. varies: jitter of that in seconds, 0 for sporadic bursts.
    """

    seen: int
    burst: Burst
    arrival: Arrival
    typical: dict[str, float]
    every: float
    varies: float


def suggest(bursts: SeenBursts, resources: Sequence[str]) -> Suggestion | str:
    """Return the suggestion, or why there is none."""
    if len(bursts) < FEWEST_BURSTS:
        return f"{len(bursts)} whole bursts were seen; {FEWEST_BURSTS} are needed"
    duration = float(max(1, round(float(np.median(bursts.length)))))
    deadline = float(max(duration, math.ceil(_upper(bursts.length) - 0.5)))
    gaps = np.diff(bursts.begin)
    found = _period(gaps)
    arrival: Arrival
    if found is not None and deadline + 2 * math.ceil(found[1]) <= round(found[0]):
        every, varies = found
        arrival = Periodic(float(round(every)), None, float(math.ceil(varies)))
    else:
        every, varies = float(np.median(gaps)), 0.0
        shortest = float(math.floor(np.quantile(gaps, 1 - CONFIDENCE)))
        if deadline > np.median(gaps):
            return f"its work runs for {duration:.0f} s every {every:.0f} s, which is no burst; a ThroughputQueue suits it"
        arrival = Sporadic(max(shortest, deadline))
    request = request_empirical(bursts.demand, CONFIDENCE, Correlation.MEASURED)
    needed = {name: float(amount) / duration for name, amount in zip(resources, request.demand, strict=True) if amount > 0}
    median = np.median(bursts.demand, axis=0) / duration
    typical = {name: float(amount) for name, amount in zip(resources, median, strict=True) if name in needed}
    return Suggestion(len(bursts), Burst(needed, duration, deadline), arrival, typical, every, varies)


def _upper(values: FloatArray) -> float:
    """Return the value that `CONFIDENCE` of the values do not exceed."""
    ordered = np.sort(values)
    return float(ordered[min(len(ordered), math.ceil(CONFIDENCE * len(ordered))) - 1])


def _period(gaps: FloatArray) -> tuple[float, float] | None:
    """Return period and jitter of gaps that are nearly equal, or nearly whole multiples if bursts are missing; None of other gaps."""
    period = float(np.median(gaps))
    for _ in range(4):  # the median may stand for two periods
        skipped = np.maximum(1, np.round(gaps / period))
        period = float(np.median(gaps / skipped))
    if skipped.sum() > len(gaps) / MOST_MISSED:
        return None
    varies = _upper(np.abs(gaps - skipped * period))
    return (period, varies) if varies <= MOST_JITTER * period else None
