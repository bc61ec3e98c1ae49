"""Places for pods: a limit of each queue's pods, so that pods without requests can't fill the nodes. Pure.

A node holds a limited number of pods, whatever they request. Places are no resource of the decision; they follow it. A hard queue keeps the
same fraction of all places as its promised rate is of capacity. The rest is divided by weight among queues that demand pods
(docs/decisions/0130).
"""

from __future__ import annotations

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.tolerance import TOLERANCE

RESERVED_PART = 0.5  # of all places, at most, for the bursts of hard queues, including bursts that never overlap
KEPT_PART = 0.5  # of its fair share of the other places, for a queue that demands fewer now


def slot_limits(total: float, promised: FloatArray, weight: FloatArray, wanted: FloatArray) -> FloatArray:
    """Divide places for pods among queues.

    Parameters
    ----------
    total : places of the pool's nodes, without those of unmanaged pods
    promised : (N,) dominant share of capacity that a hard queue's rate is; zero for others
    weight : (N,) > 0
    wanted : (N,) pods that exist and that controllers still want to create

    Returns
    -------
    (N,) whole numbers of pods; their sum never exceeds `total`.

    Notes
    -----
    Weighted max-min fairness over `wanted`, where each queue counts with at least a part of its fair share; the rest is divided by weight,
    so that a queue may grow before the next round. O(N log N).
    """
    reserved = reserved_places(total, promised)
    free, parts = total - reserved.sum(), weight / weight.sum()
    need = np.maximum(wanted - reserved, KEPT_PART * free * parts)
    filled = _max_min(free, need, parts)
    limits: FloatArray = np.floor(reserved + filled + max(free - filled.sum(), 0.0) * parts + TOLERANCE)
    return limits


def reserved_places(total: float, promised: FloatArray) -> FloatArray:
    """(N,) places that hard queues keep for their bursts; arguments as in `slot_limits`."""
    reserved: FloatArray = total * promised
    most = RESERVED_PART * total
    if reserved.sum() > most:
        reserved *= most / reserved.sum()
    return reserved


def _max_min(capacity: float, need: FloatArray, parts: FloatArray) -> FloatArray:
    """(N,) the most equal division by `parts` in which no queue has more than it needs."""
    order = np.argsort(need / parts, kind="stable")
    needed, weight = need[order], parts[order]
    before = np.concatenate(([0.0], np.cumsum(needed)[:-1]))
    rest = np.cumsum(weight[::-1])[::-1]
    # The level per weight at which capacity is exhausted if the queues before this one have all their need.
    level = (capacity - before) / rest
    short = needed / weight > level
    common = level[int(np.argmax(short))] if short.any() else np.inf
    given: FloatArray = np.minimum(need, parts * common)
    return given
