"""Scores of the two release estimators. Each predicts, then its prediction is compared with the actual release; the better one is used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.dress.memory import DressMemory, Prediction
from fairburst.policy.dress.release import actual_release
from fairburst.policy.dress.values import SETTLE_SECONDS, EstimatorScore, TaskTable

RECENT = 20  # horizons over which a score forgets: a few minutes
FEWEST_HORIZONS = 5  # scored horizons that the learned estimator needs before it is trusted


def compare(memory: DressMemory, tasks: TaskTable, pool: FloatArray, now: float) -> DressMemory:
    """Score the prediction if it is due. Drop it after a clock stepped back or the resources changed."""
    prediction = memory.prediction
    if prediction is None:
        return memory
    if now < prediction.made_at or len(prediction.phases) != len(pool):
        return replace(memory, prediction=None)
    if now < prediction.due + SETTLE_SECONDS:
        return memory
    actual = actual_release(tasks, prediction.made_at, prediction.due)
    return replace(
        memory,
        prediction=None,
        phases_score=_scored(memory.phases_score, np.array(prediction.phases), actual, pool),
        learned_score=_scored(memory.learned_score, np.array(prediction.learned), actual, pool),
    )


def _scored(score: EstimatorScore, predicted: FloatArray, actual: FloatArray, pool: FloatArray) -> EstimatorScore:
    """Add one horizon: the dominant error as a fraction of the pool, and its sign."""
    share = np.divide(predicted - actual, pool, out=np.zeros(len(pool)), where=pool > 0)
    worst = float(share[np.argmax(np.abs(share))])
    weight = 1.0 / min(score.count + 1, RECENT)
    return EstimatorScore(
        score.absolute_error + weight * (abs(worst) - score.absolute_error), score.bias + weight * (worst - score.bias), score.count + 1
    )


def predict(memory: DressMemory, phases: FloatArray, learned: FloatArray, now: float, ahead: float) -> DressMemory:
    """Record both estimates, unless a prediction is pending. A single pending prediction bounds the memory."""
    if memory.prediction is not None:
        return memory
    return replace(memory, prediction=Prediction(now, now + ahead, tuple(phases.tolist()), tuple(learned.tolist())))


def learned_is_better(memory: DressMemory) -> bool:
    """Return whether the learned estimator has beaten the paper's on recent history."""
    score = memory.learned_score
    return score.count >= FEWEST_HORIZONS and score.absolute_error < memory.phases_score.absolute_error
