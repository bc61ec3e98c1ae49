"""How good the two release estimators are: each predicts, waits, and is compared with what happened; the better one is used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.dress.memory import DressMemory, Prediction
from fairburst.policy.dress.release import actual_release
from fairburst.policy.dress.values import SETTLE_SECONDS, EstimatorScore, TaskTable

RECENT = 20  # horizons over which a score forgets: a few minutes
FEWEST_HORIZONS = 5  # the learned estimator must have been right for this long before it is trusted


def compare(memory: DressMemory, tasks: TaskTable, pool: FloatArray, now: float) -> DressMemory:
    """Score the prediction that has come due, if one has; a clock that stepped back or a change of resources drops it."""
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
    """Note what both say now, unless one prediction waits already: one at a time keeps the memory bounded."""
    if memory.prediction is not None:
        return memory
    return replace(memory, prediction=Prediction(now, now + ahead, tuple(phases.tolist()), tuple(learned.tolist())))


def learned_is_better(memory: DressMemory) -> bool:
    """Whether the learned estimator has beaten the paper's on recent history."""
    score = memory.learned_score
    return score.count >= FEWEST_HORIZONS and score.absolute_error < memory.phases_score.absolute_error
