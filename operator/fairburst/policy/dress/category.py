"""Demand categories (DRESS §IV-C): whether a job counts as small. Jobs are sorted, not pods, and once: when they are submitted."""

from __future__ import annotations

import numpy as np

from fairburst.policy.dress.values import DemandCategory
from fairburst.policy.model import FloatArray
from fairburst.policy.tolerance import TOLERANCE


def size_limit(pool: FloatArray, size_threshold: float) -> FloatArray:
    """(R,) the most that a small job requests of each resource: θ x Tot_R.

    The text says θ x A_c. In a congested cluster A_c is near 0 and every job would be large, so Tot_R it is.
    """
    return pool * size_threshold


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
    limit = size_limit(pool, size_threshold)
    return DemandCategory.SMALL if bool(np.all(request <= limit * (1.0 + TOLERANCE))) else DemandCategory.LARGE
