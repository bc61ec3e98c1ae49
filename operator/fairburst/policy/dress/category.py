"""Demand categories (DRESS §IV-C): whether a job counts as small. Jobs are sorted, not pods, and once: when they are submitted."""

from __future__ import annotations

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.dress.values import DemandCategory
from fairburst.policy.tolerance import TOLERANCE


def size_limit(pool: FloatArray, size_threshold: float) -> FloatArray:
    """(R,) the most that a small job requests of each resource: θ x Tot_R.

    The text says θ x A_c. In a congested cluster A_c is near 0 and every job would be large, so Tot_R it is.
    """
    return pool * size_threshold


def is_small(request: FloatArray, pool: FloatArray, size_threshold: float) -> BoolArray:
    """(...) whether each request of (..., R), a job's full request, is at most θ of the pool (R,) in every resource."""
    small: BoolArray = np.all(request <= size_limit(pool, size_threshold) * (1.0 + TOLERANCE), axis=-1)
    return small


def category_of(request: FloatArray, pool: FloatArray, size_threshold: float) -> DemandCategory:
    """Small if the request's dominant share of the pool is at most θ.

    Parameters
    ----------
    request : (R,) resource units, the job's full request (of one pod x parallelism)
    pool : (R,) resource units, Tot_R
    size_threshold : θ, fraction

    Returns
    -------
    SMALL or LARGE; a job that asks for nothing is small, one that asks for what the pool has none of is large.
    """
    return DemandCategory.SMALL if is_small(request, pool, size_threshold) else DemandCategory.LARGE
