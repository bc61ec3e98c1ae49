"""The reserve ratio δ (DRESS §IV-C, Algorithm 3), for resource vectors, with the printed algorithm's mistakes mended.

δ x Tot_R is for small jobs, the rest for large ones. With one resource this is the paper's algorithm. With several, a surplus counts as far
as every resource has it, a shortage as far as the worst resource needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.tolerance import slack_of

Vector = list[float]


@dataclass(frozen=True, slots=True, eq=False)
class Balance:
    """What Algorithm 3 looks at. (R,) resource units each unless said otherwise.

    total: Tot_R. small_free, large_free: A_c1, A_c2, which add up to what is free. small_release, large_release: F_1, F_2 over the next
    time unit. small_requests, large_requests: (n, R), what pending jobs request.
    """

    total: FloatArray
    small_free: FloatArray
    large_free: FloatArray
    small_release: FloatArray
    large_release: FloatArray
    small_requests: FloatArray
    large_requests: FloatArray


@dataclass(frozen=True, slots=True)
class Adjustment:
    """The new δ, which branch was taken, and a sentence with the numbers."""

    reserve_ratio: float
    reason: str
    message: str


def split_free(reserve_ratio: float, total: FloatArray, free: FloatArray, small_used: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(A_c1, A_c2): of what is free, small jobs have what their reserve leaves them, large jobs the rest (A_c = A_c1 + A_c2, §IV-C)."""
    small = np.minimum(free, np.maximum(reserve_ratio * total - small_used, 0.0))
    return small, free - small


def adjust_reserve(reserve_ratio: float, balance: Balance, min_reserve: float = 0.0) -> Adjustment:
    """One run of Algorithm 3.

    Parameters
    ----------
    reserve_ratio : δ before, in [0, 1]
    balance : what is free, expected and wanted
    min_reserve : floor of δ; without one (0, the paper) line 8 drives δ to 0 while no small job waits

    Returns
    -------
    Adjustment; δ in [min_reserve, 1]. With nothing in the pool (Tot_R = 0) δ is unchanged.

    Notes
    -----
    Checked against a plain transcription in tests/properties/test_reserve_ratio.py. O(n R + n log n).
    """
    total = balance.total
    if not (total > 0).any():
        return Adjustment(reserve_ratio, "EmptyPool", "The elastic pool is empty; the reserve ratio stays.")
    slack = slack_of(total)
    small_wanted, large_wanted = balance.small_requests.sum(axis=0), balance.large_requests.sum(axis=0)
    # F_1 and F_2 are sums of f only: equation 1 puts A_c inside F, and line 7 would add it again
    small_surplus = balance.small_free + balance.small_release - small_wanted
    large_surplus = balance.large_free + balance.large_release - large_wanted
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
    """δ such that the large part holds `request`: what keeps a stream of small jobs from starving the oldest large job (ours).

    What running small jobs hold above the new δ comes to the large part as they end, so the job waits for running work and no more. It
    goes below min_reserve where it must: the bound on the wait is the stronger promise.
    """
    return min(reserve_ratio, max(0.0, 1.0 - _most(request, total)))


def _leftover_for_small(balance: Balance, slack: FloatArray) -> float:
    """Lines 13-24: fill both parts with the smallest requests first, then let small jobs use what is left over of both.

    Returns by how much δ grows.
    """
    total, noise = balance.total.tolist(), slack.tolist()
    small = _by_share(balance.small_requests, balance.total)
    large = _by_share(balance.large_requests, balance.total)
    small_left = (balance.small_free + balance.small_release).tolist()
    large_left = (balance.large_free + balance.large_release).tolist()  # line 14 adds F_1 twice; the second is F_2
    unassigned = _assign(small, small_left, noise)  # lines 15-17, from the first job on
    _assign(large, large_left, noise)  # lines 18-20; line 20 subtracts r_2, meant is r_j
    grown = 0.0
    # line 21 tests j and starts after the end: it begins at the first small job that was not assigned
    for request in unassigned:
        both = [one + other for one, other in zip(small_left, large_left, strict=True)]
        if not _fits(request, both, noise):
            continue
        # lines 23-24 take all of r_i from A_c2, which may make it negative, and overcount: A_c1 is used first, δ grows by the rest
        taken = [min(max(left, 0.0), need) for left, need in zip(small_left, request, strict=True)]
        moved = [need - part for need, part in zip(request, taken, strict=True)]
        small_left = [left - part for left, part in zip(small_left, taken, strict=True)]
        large_left = [left - part for left, part in zip(large_left, moved, strict=True)]
        grown += max((part / whole for part, whole in zip(moved, total, strict=True) if whole > 0), default=0.0)
    return grown


def _assign(requests: Sequence[Vector], left: Vector, noise: Vector) -> list[Vector]:
    """Take each request that fits from `left`, in place; an exact fit is a fit (lines 16, 19 and 22 print > and <). Returns the others."""
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
    """The requests in ascending order of dominant share (line 13: of r_i)."""
    if len(requests) == 0:
        return []
    share = np.divide(requests, total, out=np.zeros_like(requests), where=total > 0).max(axis=1)
    result: list[Vector] = requests[np.argsort(share, kind="stable")].tolist()
    return result


def _least(amount: FloatArray, total: FloatArray) -> float:
    """The part of the pool that `amount` is in every resource."""
    return float((amount[total > 0] / total[total > 0]).min())


def _most(amount: FloatArray, total: FloatArray) -> float:
    """The part of the pool that `amount` is in its dominant resource."""
    return float((amount[total > 0] / total[total > 0]).max(initial=0.0))
