"""The α-strategy (BoPF §3.5): the request for a burst whose demand is a distribution, which suffices with a given confidence.

Decides a demand vector; admission then treats it like any other. The paper's "F^-1(d) >= α^(1/K)" means that d_k is the α^(1/K) quantile
of resource k: with K independent resources the product of the marginal confidences is then α. K counts resources that vary at all.
The confidence is called `confidence` everywhere else in this code; α belongs to two papers.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.errors import InvalidSpecError
from fairburst.policy.extras import scipy


class Correlation(enum.Enum):
    """Assumed correlation between the demands of different resources in one burst."""

    INDEPENDENT = "Independent"
    PERFECT = "Perfect"
    MEASURED = "Measured"


@dataclass(frozen=True, slots=True)
class Request:
    """demand: (K,) to request. quantile: the common marginal quantile it stands for. cost: max_k request / mean - 1."""

    demand: FloatArray
    quantile: float
    cost: float


def request_normal(
    mean: FloatArray, deviation: FloatArray, confidence: float, assumption: Correlation, correlation: FloatArray | None = None
) -> Request:
    """Return the request for normally distributed demand.

    mean, deviation: (K,), resource units or resource-seconds. correlation: (K, K), needed for MEASURED.
    Raises InvalidSpecError for a confidence outside (0, 1), negative numbers, or a matrix that is no correlation matrix.
    """
    _check(mean, deviation, confidence)
    if correlation is not None:
        _check_correlation(correlation, len(mean))
    varying = np.flatnonzero(deviation > 0)
    quantile = _common_quantile(varying, confidence, assumption, correlation)
    demand = np.maximum(mean + deviation * scipy().stats.norm.ppf(quantile), 0.0)
    return _request(demand, mean, quantile)


def request_empirical(samples: FloatArray, confidence: float, assumption: Correlation) -> Request:
    """Return the request from (n, K) observed bursts: order statistics for the marginals, joint frequencies for MEASURED.

    With MEASURED the request is the smallest common rank at which at least `confidence` of the samples fit in every resource.
    """
    if samples.ndim != 2 or len(samples) == 0 or not np.isfinite(samples).all() or (samples < 0).any():
        raise InvalidSpecError(
            f"samples: expected (bursts, resources) finite amounts >= 0, at least one burst, found shape {samples.shape}"
        )
    _check(samples.mean(axis=0), samples.std(axis=0), confidence)
    count = len(samples)
    varying = int((samples.std(axis=0) > 0).sum())
    ordered = np.sort(samples, axis=0)
    if assumption is Correlation.MEASURED:
        # the rank at which a sample first fits in all resources is its worst rank
        rank = np.max([np.searchsorted(ordered[:, k], samples[:, k], side="left") for k in range(samples.shape[1])], axis=0)
        position = int(np.sort(rank)[min(count - 1, int(np.ceil(confidence * count - 1e-9)) - 1)])
        return _request(ordered[position], samples.mean(axis=0), (position + 1) / count)
    quantile = confidence ** (1 / max(varying, 1)) if assumption is Correlation.INDEPENDENT else confidence
    position = min(count - 1, int(np.ceil(quantile * count - 1e-9)) - 1)
    return _request(ordered[position], samples.mean(axis=0), quantile)


def joint_confidence(quantile: float, correlation: FloatArray) -> float:
    """Return the probability that K standard normals with this correlation all stay below their common quantile."""
    level = np.full(len(correlation), scipy().stats.norm.ppf(quantile))
    joint = scipy().stats.multivariate_normal(
        np.zeros(len(correlation)), correlation, allow_singular=True, seed=0, maxpts=200_000, abseps=1e-7
    )
    return float(joint.cdf(level))


def _common_quantile(varying: np.ndarray, confidence: float, assumption: Correlation, correlation: FloatArray | None) -> float:
    independent = float(confidence ** (1.0 / max(len(varying), 1)))
    match assumption:
        case Correlation.INDEPENDENT:
            return independent
        case Correlation.PERFECT:
            return confidence
        case Correlation.MEASURED:
            if correlation is None:
                raise InvalidSpecError("expected a correlation matrix for measured correlation, found none")
            matrix = correlation[np.ix_(varying, varying)]
            if len(varying) < 2:
                return confidence
            # by the union bound, the quantile 1 - (1 - α)/K suffices for any correlation
            lowest, highest = confidence, 1 - (1 - confidence) / len(varying) + 1e-9
            if joint_confidence(lowest, matrix) >= confidence - 1e-6:
                return confidence
            return float(
                scipy().optimize.brentq(lambda quantile: joint_confidence(quantile, matrix) - confidence, lowest, highest, xtol=1e-6)
            )


def _check_correlation(correlation: FloatArray, count: int) -> None:
    symmetric = correlation.ndim == 2 and correlation.shape[0] == correlation.shape[1] and np.allclose(correlation, correlation.T)
    if not symmetric or not np.allclose(np.diag(correlation), 1.0) or np.linalg.eigvalsh(correlation).min() < -1e-9:
        raise InvalidSpecError(
            f"expected a correlation matrix (symmetric, ones on the diagonal, no negative eigenvalue), found {correlation}"
        )
    if len(correlation) != count:
        raise InvalidSpecError(f"expected a correlation matrix of {count} resources, found {len(correlation)}")


def _check(mean: FloatArray, deviation: FloatArray, confidence: float) -> None:
    if not 0 < confidence < 1:
        raise InvalidSpecError(f"expected a confidence between 0 and 1, both excluded, found {confidence}")
    if mean.shape != deviation.shape or not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
        raise InvalidSpecError(f"expected means and deviations of one shape, finite, found {mean} and {deviation}")
    if (mean < 0).any() or (deviation < 0).any():
        raise InvalidSpecError(f"expected means and deviations >= 0, found {mean} and {deviation}")


def _request(demand: FloatArray, mean: FloatArray, quantile: float) -> Request:
    over = np.divide(demand, mean, out=np.ones_like(demand), where=mean > 0)
    return Request(demand, quantile, float(over.max() - 1) if over.size else 0.0)
