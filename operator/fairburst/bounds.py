"""The bounds of every value that comes from outside, applied once, where it enters.

Amounts, counts and durations beyond them are cut: a larger one would have the same effect on any real cluster, so the object that holds it
is not wrong. Times beyond them are refused where a user declares them, since a window cannot be moved, and cut where Kubernetes reports
them. Within the bounds sums, products and conversions of all that a cluster holds stay finite and can be written back.
"""

from __future__ import annotations

from datetime import UTC, datetime

# Resource units: 2^61, a quarter of the largest Kubernetes quantity, so that a level, what lags behind it and one pod more can be written.
MOST_AMOUNT = 2.0**61
# Pods of one object. A Job may ask for two billion; no cluster has a tenth of this.
MOST_PODS = 10**7
# Seconds of any duration: a year, the longest that a queue may declare.
LONGEST_SECONDS = 31_536_000
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)
EARLIEST_EPOCH, LATEST_EPOCH = EARLIEST.timestamp(), LATEST.timestamp()


def bounded_amount(amount: float) -> float:
    """An amount of a resource between zero and `MOST_AMOUNT`."""
    return min(max(amount, 0.0), MOST_AMOUNT)


def bounded_count(count: int) -> int:
    """A number of pods between zero and `MOST_PODS`."""
    return min(max(count, 0), MOST_PODS)


def bounded_duration(seconds: float) -> float:
    """A duration between zero and `LONGEST_SECONDS`."""
    return min(max(seconds, 0.0), LONGEST_SECONDS)


def bounded_epoch(seconds: float) -> float:
    """A time, seconds since the epoch, between 1970 and 3000."""
    return min(max(seconds, EARLIEST_EPOCH), LATEST_EPOCH)
