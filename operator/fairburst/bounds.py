"""The bounds of every value from outside, applied once, when it is read.

Larger amounts, counts and durations are cut, because they have the same effect on any real cluster. Times out of bounds are refused if a
user declares them, since a window cannot be moved, and cut if Kubernetes reports them. Within the bounds, sums, products and conversions
over a whole cluster stay finite and can be written back.
"""

from __future__ import annotations

from datetime import UTC, datetime

# Resource units: 2^61, a quarter of the largest Kubernetes quantity, so that the sum of a level, its lag and one pod can be written.
MOST_AMOUNT = 2.0**61
# Pods of one object. A Job may ask for two billion; no cluster has a tenth of this.
MOST_PODS = 10**7
MOST_PARALLELISM = 100_000  # the maximum for a Job with indexed completion
MOST_WEIGHT = 1_000_000  # of a queue or of a Job in it
# Seconds of any duration: a year, the longest that a queue may declare.
LONGEST_SECONDS = 31_536_000
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)
EARLIEST_EPOCH, LATEST_EPOCH = EARLIEST.timestamp(), LATEST.timestamp()


def bounded_amount(amount: float) -> float:
    """Return an amount of a resource, cut to between zero and `MOST_AMOUNT`."""
    return min(max(amount, 0.0), MOST_AMOUNT)


def bounded_count(count: int) -> int:
    """Return a number of pods, cut to between zero and `MOST_PODS`."""
    return min(max(count, 0), MOST_PODS)


def bounded_duration(seconds: float) -> float:
    """Return a duration, cut to between zero and `LONGEST_SECONDS`."""
    return min(max(seconds, 0.0), LONGEST_SECONDS)


def bounded_epoch(seconds: float) -> float:
    """Return a time, seconds since the epoch, cut to between 1970 and 3000."""
    return min(max(seconds, EARLIEST_EPOCH), LATEST_EPOCH)
