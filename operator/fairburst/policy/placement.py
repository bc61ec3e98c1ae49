"""Placement of pods, as far as a queue's promise depends on it: batch work packed, a burst spread, and nodes kept for an expected burst.
Numbers in, numbers out; kube-scheduler decides which pods fit a node.

No paper has it. A burst can use capacity that lead time frees only in whole pods on single nodes (design §5, §6). In smaller pieces spread
over the cluster, it would be held for nothing.
"""

from __future__ import annotations

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.tolerance import TOLERANCE

BEST = 10  # the highest score that kube-scheduler takes from an extender; the lowest is 0


def whole_pods(room: FloatArray, unit: FloatArray) -> IntArray:
    """Return how many pods of one size each node's room holds.

    Parameters
    ----------
    room : (M, K) float array, resource units; below zero where a node is overcommitted
    unit : (K,) float array, resource units, of one pod; some entry is above zero

    Returns
    -------
    (M,) int array, zero or more.
    """
    asked = unit > 0
    pods: IntArray = np.floor(np.min(room[:, asked] / unit[asked], axis=1) * (1 + TOLERANCE) + TOLERANCE).astype(np.int64)
    return np.maximum(pods, 0)


def kept_nodes(pods: IntArray, running: FloatArray, wanted: int, kept: BoolArray) -> BoolArray:
    """Return the nodes to keep free of new batch work, so that a burst finds places for whole pods.

    Parameters
    ----------
    pods : (M,) int array, pods of the burst that each node holds once its batch work has ended; 0 for a node that is not available
    running : (M,) float array, fraction of each node that batch work has now
    wanted : pods of the burst that run at a time
    kept : (M,) bool array, nodes that were kept for it before

    Returns
    -------
    (M,) bool array, with `wanted` places in all, or every node that has one.

    Notes
    -----
    Nodes that are kept already come first, so that a node that has waited for its work to end is not exchanged for another; then those with
    the least running work, which are free soonest and cost the least idle time; ties by row. O(M log M).
    """
    order = np.lexsort((np.arange(len(pods)), running, ~kept))
    order = order[pods[order] > 0]
    before = np.cumsum(pods[order]) - pods[order]
    chosen = np.zeros(len(pods), dtype=np.bool_)
    chosen[order[before < wanted]] = True
    return chosen


def packing_scores(used: FloatArray, kept: BoolArray) -> IntArray:
    """Return scores of candidate nodes for a pod of batch work: the fullest is best, so that whole nodes stay free for bursts.

    Parameters
    ----------
    used : (M,) float array, fraction of each candidate that is taken
    kept : (M,) bool array, candidates kept for a burst, which are last

    Returns
    -------
    (M,) int array in [0, BEST]; one candidate has BEST, the fullest and among equals the first: pods are placed faster than we see them
    bound, and kube-scheduler's own preference for empty nodes would scatter those that come together over equals.
    """
    scores = np.where(kept, 0, _below_best(used))
    if not kept.all():
        scores[np.argmax(np.where(kept, -np.inf, used))] = BEST
    return scores


def spreading_scores(own: FloatArray) -> IntArray:
    """Return scores of candidate nodes for a pod of a burst: those with the least of the burst itself are best.

    Parameters
    ----------
    own : (M,) float array, fraction of each candidate that pods of the same queue have

    Returns
    -------
    (M,) int array in [0, BEST]; only the least loaded have BEST. Among equals kube-scheduler's own scores decide, which include
    pods that it has placed and that we have not seen yet.
    """
    most = float(own.max(initial=0.0))
    scores = _below_best(1.0 - own / most if most > 0 else np.ones_like(own))
    scores[own <= own.min(initial=np.inf) + TOLERANCE] = BEST
    return scores


def _below_best(merit: FloatArray) -> IntArray:
    """Return scores below BEST in proportion to the merit, which is in [0, 1] except for overcommitted nodes."""
    scores: IntArray = np.clip(merit * BEST, 0, BEST - 1).astype(np.int64)
    return scores
