"""Demand categories (DRESS §IV-C): whether a job is small. The unit is the job, not the pod, and the category is fixed at submission."""

from __future__ import annotations

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.dress.values import DemandCategory
from fairburst.policy.tolerance import TOLERANCE


def size_limit(pool: FloatArray, size_threshold: float) -> FloatArray:
    """Return the largest request of a small job in each resource, (R,): θ x Tot_R.

    The paper's text says θ x A_c. In a congested cluster A_c is near 0, so every job would be large. fairburst therefore uses Tot_R.
    """
    return pool * size_threshold


def is_small(request: FloatArray, pool: FloatArray, size_threshold: float) -> BoolArray:
    """Return, for requests (..., R), whether each is at most θ of the pool (R,) in every resource. A request is a job's full request."""
    small: BoolArray = np.all(request <= size_limit(pool, size_threshold) * (1.0 + TOLERANCE), axis=-1)
    return small


def category_of(request: FloatArray, pool: FloatArray, size_threshold: float) -> DemandCategory:
    """Return SMALL if the request's dominant share of the pool is at most θ, otherwise LARGE.

    Parameters
    ----------
    request : (R,) resource units, the job's full request (of one pod x parallelism)
    pool : (R,) resource units, Tot_R
    size_threshold : θ, fraction

    Returns
    -------
    SMALL or LARGE. A job that requests nothing is small. A job that requests a resource the pool lacks is large.
    """
    return DemandCategory.SMALL if is_small(request, pool, size_threshold) else DemandCategory.LARGE
