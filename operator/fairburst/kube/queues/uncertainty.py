"""The amounts that a queue with spec.uncertainty asks for: the declared burst as a distribution, by the α-strategy (BoPF section 3.5).

The declared amounts are the mean, unless the distribution comes from the bursts seen so far. Pure. The amounts asked for are rounded up to
whole steps of the declared ones, so that one more burst seldom changes what is promised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.bounds import MOST_AMOUNT
from fairburst.kube.queues.bursts import Burst, Uncertainty
from fairburst.policy.arrays import FloatArray
from fairburst.policy.uncertainty import Correlation, Request, request_empirical, request_normal
from fairburst.quantity import charged_quantity, format_quantity

FEWEST = 10  # bursts before a distribution is taken from them
STEP_PERCENT = 5
MOST_PERCENT = 10_000  # of the declared amounts: a burst of another size needs another declaration


@dataclass(frozen=True, slots=True)
class AskedFor:
    """The demand to request, in percent of the declared amount by resource.

    bursts: number of bursts from which it was learned; 0 if it follows from the declaration alone. correlation: the assumption in use.
    """

    percent: dict[str, int]
    bursts: int
    correlation: Correlation

    def burst(self, declared: Burst) -> Burst:
        """Return the burst that is asked for."""
        return declared.model_copy(
            update={"resources": {name: _part(name, text, self.percent[name]) for name, text in declared.resources.items()}}
        )


def asked_for(declared: Burst, uncertainty: Uncertainty, samples: Sequence[Sequence[float]]) -> AskedFor:
    """Return the demand to request, given the part of the declared demand that each burst seen so far took.

    samples: (n, K) parts of the declared resource-seconds, resources in the order of `declared`.
    """
    names = list(declared.resources)
    confidence = uncertainty.confidence_percent / 100
    assumption = Correlation(uncertainty.correlation or "Independent")
    seen = np.array(samples, dtype=np.float64).reshape(len(samples), len(names))
    learned = len(seen) >= FEWEST
    if assumption is Correlation.MEASURED and not learned:
        assumption = Correlation.INDEPENDENT  # until it has been measured
    deviation = uncertainty.standard_deviation_percent
    if uncertainty.from_history and learned:
        request = _learned(seen, confidence, assumption)
    elif deviation is not None:
        spread = np.array([deviation.get(name, 0) / 100 for name in names])
        measured = _correlation(seen) if assumption is Correlation.MEASURED else None
        learned = measured is not None
        request = request_normal(np.ones(len(names)), spread, confidence, assumption, measured)
    else:
        return AskedFor(dict.fromkeys(names, 100), 0, assumption)
    percent = [min(MOST_PERCENT, max(STEP_PERCENT, _up(100 * float(part)))) for part in request.demand]
    return AskedFor(dict(zip(names, percent, strict=True)), len(seen) if learned else 0, assumption)


def _learned(seen: FloatArray, confidence: float, assumption: Correlation) -> Request:
    """Return order statistics if enough bursts were seen for one to lie above the quantile; else a normal fit, at least the most seen."""
    quantile = confidence ** (1 / seen.shape[1]) if assumption is Correlation.INDEPENDENT else confidence
    if len(seen) * (1 - quantile) >= 1:
        return request_empirical(seen, confidence, assumption)
    measured = _correlation(seen) if assumption is Correlation.MEASURED else None
    fit = request_normal(seen.mean(axis=0), seen.std(axis=0, ddof=1), confidence, assumption, measured)
    return Request(np.maximum(fit.demand, seen.max(axis=0)), fit.quantile, fit.cost)


def _correlation(seen: FloatArray) -> FloatArray:
    """Return the (K, K) correlation of the bursts seen; a resource that never varies is uncorrelated with all others."""
    spread = seen.std(axis=0)
    varying = np.flatnonzero(spread > 1e-9 * np.maximum(seen.mean(axis=0), 1e-9))
    result = np.eye(seen.shape[1])
    if varying.size > 1:
        result[np.ix_(varying, varying)] = np.clip(np.corrcoef(seen[:, varying], rowvar=False), -1.0, 1.0)
        np.fill_diagonal(result, 1.0)
    return result


def _part(resource: str, declared: str, percent: int) -> str:
    """Return `percent` of a quantity, rounded up to whole millicores, bytes or devices."""
    smallest = 1000 if resource == "cpu" else 1
    amount = round(charged_quantity(resource, declared) * smallest) * percent / 100
    return format_quantity(resource, min(math.ceil(amount) / smallest, MOST_AMOUNT))


def _up(percent: float) -> int:
    return math.ceil(round(percent / STEP_PERCENT, 6)) * STEP_PERCENT
