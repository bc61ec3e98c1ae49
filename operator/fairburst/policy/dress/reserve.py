"""The reserve ratio δ (DRESS §IV-C, Algorithm 3) for resource vectors, with the errors of the printed algorithm corrected.

Small jobs have δ x Tot_R, large jobs the rest. With one resource this is the paper's algorithm. With several, a surplus is the amount that
every resource has, and a shortage is the amount that the worst resource needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.tolerance import slack_of

Vector = list[float]


@dataclass(frozen=True, slots=True, eq=False)
class Balance:
    """The input of Algorithm 3. (R,) resource units each unless stated otherwise.

    total: Tot_R.
    small_free, large_free: A_c1, A_c2, which add up to the free resources.
    small_release, large_release: F_1, F_2 over the next time unit.
    small_wanted, large_wanted: the sums of the requests of pending jobs.
    requests: returns these requests, (n, R) of small and (m, R) of large jobs, in order of service. Called only if both are short.
    """

    total: FloatArray
    small_free: FloatArray
    large_free: FloatArray
    small_release: FloatArray
    large_release: FloatArray
    small_wanted: FloatArray
    large_wanted: FloatArray
    requests: Callable[[], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, slots=True)
class Adjustment:
    """The new δ, the branch taken, and a sentence with the numbers."""

    reserve_ratio: float
    reason: str
    message: str


def split_free(reserve_ratio: float, total: FloatArray, free: FloatArray, small_used: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (A_c1, A_c2): small jobs have the free part of their reserve, large jobs the rest (A_c = A_c1 + A_c2, §IV-C)."""
    small = np.minimum(free, np.maximum(reserve_ratio * total - small_used, 0.0))
    return small, free - small


def adjust_reserve(reserve_ratio: float, balance: Balance, min_reserve: float = 0.0) -> Adjustment:
    """Run Algorithm 3 once.

    Parameters
    ----------
    reserve_ratio : δ before, in [0, 1]
    balance : free resources, expected release and pending requests
    min_reserve : floor of δ; without one (0, the paper) line 8 drives δ to 0 while no small job waits

    Returns
    -------
    Adjustment, with δ in [min_reserve, 1]. An empty pool (Tot_R = 0) leaves δ unchanged.

    Notes
    -----
    Checked against a plain transcription in tests/properties/test_reserve_ratio.py. O(n R + n log n).
    """
    total = balance.total
    if not (total > 0).any():
        return Adjustment(reserve_ratio, "EmptyPool", "The elastic pool is empty; the reserve ratio stays.")
    slack = slack_of(total)
    # F_1 and F_2 are sums of f only. Equation 1 puts A_c inside F, and line 7 would add it again.
    small_surplus = balance.small_free + balance.small_release - balance.small_wanted
    large_surplus = balance.large_free + balance.large_release - balance.large_wanted
    if (small_surplus >= -slack).all():  # line 7
        given = max(_least(small_surplus, total), 0.0)
        ratio, reason = reserve_ratio - given, "SmallHasSurplus"
        message = f"Small jobs have {given:.1%} of the pool more than they want now."
    elif (large_surplus >= -slack).all():  # line 10
        given = max(_least(large_surplus, total), 0.0)
        ratio, reason = reserve_ratio + given, "LargeHasSurplus"
        message = f"Large jobs have {given:.1%} of the pool more than they want now."
    else:
        given = _leftover_for_small(balance, slack)
        ratio, reason = reserve_ratio + given, "BothShort"
        message = f"Both want more than there is; small jobs can use {given:.1%} of the pool that no large job fits in."
    ratio = min(max(ratio, min_reserve, 0.0), 1.0)
    return Adjustment(ratio, reason, f"{message} The reserve ratio goes from {reserve_ratio:.1%} to {ratio:.1%}.")


def cap_for_waiting(reserve_ratio: float, request: FloatArray, total: FloatArray) -> float:
    """Return the δ at which the large part holds `request`. This cap keeps a stream of small jobs from starving the oldest large job
    (ours).

    Running small jobs may hold more than the new δ. The large part receives the excess as they end, so the job waits only for running work.
    δ may fall below min_reserve here, because the bound on the wait is the stronger promise.
    """
    return min(reserve_ratio, max(0.0, 1.0 - _most(request, total)))


def _leftover_for_small(balance: Balance, slack: FloatArray) -> float:
    """Return by how much δ grows. Lines 13-24.

    Fill both parts with the smallest requests first. Small jobs then use the remainders of both.
    """
    total, noise = balance.total.tolist(), slack.tolist()
    small, large = (_by_share(requests, balance.total) for requests in balance.requests())
    small_left = (balance.small_free + balance.small_release).tolist()
    large_left = (balance.large_free + balance.large_release).tolist()  # line 14 adds F_1 twice; the second is F_2
    unassigned = _assign(small, small_left, noise)  # lines 15-17, from the first job on
    _assign(large, large_left, noise)  # lines 18-20; line 20 subtracts r_2, where r_j is meant
    grown = 0.0
    # Line 21 tests j, which starts after the end. The loop begins at the first unassigned small job.
    for request in unassigned:
        both = [one + other for one, other in zip(small_left, large_left, strict=True)]
        if not _fits(request, both, noise):
            continue
        # Lines 23-24 take all of r_i from A_c2, which may make it negative and counts too much. Here A_c1 is used first and δ grows by the
        # rest.
        taken = [min(max(left, 0.0), need) for left, need in zip(small_left, request, strict=True)]
        moved = [need - part for need, part in zip(request, taken, strict=True)]
        small_left = [left - part for left, part in zip(small_left, taken, strict=True)]
        large_left = [left - part for left, part in zip(large_left, moved, strict=True)]
        grown += max((part / whole for part, whole in zip(moved, total, strict=True) if whole > 0), default=0.0)
    return grown


def _assign(requests: Sequence[Vector], left: Vector, noise: Vector) -> list[Vector]:
    """Subtract each request that fits from `left`, in place, and return the others. An exact fit is a fit (lines 16, 19 and 22 print > and
    <).
    """
    others = []
    for request in requests:
        if _fits(request, left, noise):
            left[:] = [have - need for have, need in zip(left, request, strict=True)]
        else:
            others.append(request)
    return others


def _fits(request: Vector, left: Vector, noise: Vector) -> bool:
    return all(need <= have + slack for need, have, slack in zip(request, left, noise, strict=True))


def _by_share(requests: FloatArray, total: FloatArray) -> list[Vector]:
    """Return the requests in ascending order of dominant share (line 13: of r_i)."""
    if len(requests) == 0:
        return []
    share = np.divide(requests, total, out=np.zeros_like(requests), where=total > 0).max(axis=1)
    result: list[Vector] = requests[np.argsort(share, kind="stable")].tolist()
    return result


def _least(amount: FloatArray, total: FloatArray) -> float:
    """Return the largest fraction of the pool that `amount` covers in every resource."""
    return float((amount[total > 0] / total[total > 0]).min())


def _most(amount: FloatArray, total: FloatArray) -> float:
    """Return the fraction of the pool that `amount` takes in its dominant resource."""
    return float((amount[total > 0] / total[total > 0]).max(initial=0.0))
