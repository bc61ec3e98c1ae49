"""The one tolerance of the core.

Sums of float64 differ in the last bits with the order of summation; a comparison that would flip on such a difference
allows this relative error. Amounts are at most about 1e18 (bytes), float64 has 53 bits: 1e-9 is far above rounding noise
and far below one millicore or one byte of anything that runs.
"""

from __future__ import annotations

from fairburst.policy.arrays import BoolArray, FloatArray

TOLERANCE = 1e-9

# Amounts up to this (a billionth of a core or byte) count as zero, and LARGEST is larger than any real cluster. Between the two, products
# and quotients of amounts stay far inside float64.
SMALLEST = 1e-9
LARGEST = 1e24
# A value that grows more slowly than this counts as constant: LARGEST divided by it is just inside float64.
SLOWEST = 1e-283

# Time moves in steps no finer than this: epoch seconds in float64 have a resolution of 0.24 microseconds, and a round
# scheduled closer than a millisecond ahead would find the same state again.
TIME_STEP_SECONDS = 1e-3

# No time or duration is longer than this (30,000 years): windows are counted in 64-bit integers.
LONGEST_SECONDS = 1e12


def at_most(left: float, right: float) -> bool:
    """Return whether left <= right within the tolerance."""
    return left <= right + TOLERANCE * max(abs(left), abs(right))


def exceeds(left: FloatArray, right: FloatArray) -> BoolArray:
    """Return where left > right by more than summation noise."""
    larger: BoolArray = left > right * (1 + TOLERANCE) + TOLERANCE
    return larger


def slack_of(capacity: FloatArray) -> FloatArray:
    """(K,) amount by which a sum over queues may exceed `capacity` by summation noise alone."""
    return capacity * TOLERANCE
