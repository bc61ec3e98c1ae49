"""The α-strategy (BoPF §3.5) against closed forms: the request under each assumption, its cost, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from fairburst.policy.errors import InvalidSpecError
from fairburst.policy.uncertainty import Correlation, joint_confidence, request_empirical, request_normal

INDEPENDENT, PERFECT, MEASURED = Correlation.INDEPENDENT, Correlation.PERFECT, Correlation.MEASURED
MEAN, DEVIATION = np.array([0.9, 200.0, 50.0]), np.array([0.4, 80.0, 20.0])


def alike(count: int, correlation: float) -> np.ndarray:
    """The matrix in which any two resources have the same correlation."""
    matrix: np.ndarray = np.full((count, count), correlation) + np.eye(count) * (1 - correlation)
    return matrix


def all_below(quantile: float, count: int, correlation: float) -> float:
    """P(all of `count` equally correlated standard normals <= their common quantile): given what they share they are independent."""
    level = scipy.stats.norm.ppf(quantile)

    def given_shared(shared: float) -> float:
        rest = (level - math.sqrt(correlation) * shared) / math.sqrt(1 - correlation)
        return float(scipy.stats.norm.pdf(shared) * scipy.stats.norm.cdf(rest) ** count)

    return float(scipy.integrate.quad(given_shared, -9, 9, epsabs=1e-12)[0])


class TestNormalDemand:
    def test_the_request_is_the_quantile_of_each_resource(self) -> None:
        """ "F^-1(d) >= α^(1/K)": d_k is the α^(1/K) quantile of resource k."""
        request = request_normal(MEAN, DEVIATION, 0.95, INDEPENDENT)
        z = scipy.stats.norm.ppf(0.95 ** (1 / 3))
        assert request.demand == pytest.approx(MEAN + DEVIATION * z)
        assert request.cost == pytest.approx(0.4 / 0.9 * z)

    def test_a_single_resource_needs_the_confidence_itself_whatever_is_assumed(self) -> None:
        for assumption in Correlation:
            request = request_normal(MEAN[:1], DEVIATION[:1], 0.9, assumption, np.eye(1))
            assert request.quantile == 0.9

    def test_resources_that_never_vary_count_nowhere(self) -> None:
        mean, deviation = np.append(MEAN, 7.0), np.append(DEVIATION, 0.0)
        alone = request_normal(MEAN, DEVIATION, 0.95, INDEPENDENT)
        beside = request_normal(mean, deviation, 0.95, INDEPENDENT)
        assert (beside.quantile, beside.demand.tolist()) == (alone.quantile, [*alone.demand.tolist(), 7.0])
        matrix = alike(4, 0.5)
        matrix[3, :3] = matrix[:3, 3] = 0.0
        measured = request_normal(mean, deviation, 0.95, MEASURED, matrix)
        assert measured.quantile == request_normal(MEAN, DEVIATION, 0.95, MEASURED, alike(3, 0.5)).quantile

    def test_a_resource_nobody_needs_is_no_cost(self) -> None:
        request = request_normal(np.array([0.0, 10.0]), np.array([0.0, 2.0]), 0.9, PERFECT)
        assert request.demand[0] == 0.0
        assert request.cost == pytest.approx(0.2 * scipy.stats.norm.ppf(0.9))

    def test_a_low_confidence_never_requests_less_than_nothing(self) -> None:
        assert request_normal(np.array([1.0]), np.array([10.0]), 0.1, PERFECT).demand.tolist() == [0.0]

    @pytest.mark.parametrize("count", [2, 3, 5])
    @pytest.mark.parametrize("correlation", [0.3, 0.8])
    def test_measured_correlation_meets_the_confidence_in_closed_form(self, count: int, correlation: float) -> None:
        mean, deviation = np.full(count, 10.0), np.full(count, 3.0)
        request = request_normal(mean, deviation, 0.9, MEASURED, alike(count, correlation))
        assert all_below(request.quantile, count, correlation) == pytest.approx(0.9, abs=1e-5)

    def test_perfect_correlation_measured_is_perfect_correlation(self) -> None:
        """Its matrix is singular, and no less a correlation matrix."""
        request = request_normal(MEAN, DEVIATION, 0.9, MEASURED, np.ones((3, 3)))
        assert request.quantile == 0.9

    def test_the_numerical_case_gives_the_same_bytes_every_time(self) -> None:
        assert len({joint_confidence(0.9, alike(5, 0.5)) for _ in range(3)}) == 1


class TestObservedBursts:
    SAMPLES = np.array([[1.0, 40.0], [2.0, 30.0], [3.0, 20.0], [4.0, 10.0]])

    def test_perfect_correlation_requests_the_rank_of_the_confidence(self) -> None:
        request = request_empirical(self.SAMPLES, 0.5, PERFECT)
        assert (request.demand.tolist(), request.quantile) == ([2.0, 20.0], 0.5)
        assert request.cost == pytest.approx(2 / 2.5 - 1)

    def test_independence_requests_the_rank_of_the_root(self) -> None:
        """Two resources that vary: 0.5 needs the 0.707 quantile of each, rank three of four."""
        request = request_empirical(self.SAMPLES, 0.5, INDEPENDENT)
        assert (request.demand.tolist(), request.quantile) == ([3.0, 30.0], pytest.approx(math.sqrt(0.5)))

    def test_measured_requests_the_first_rank_at_which_enough_bursts_fit_whole(self) -> None:
        """Ranks run against each other: at rank three the middle two of the four fit in both resources, below it none."""
        request = request_empirical(self.SAMPLES, 0.5, MEASURED)
        assert (request.demand.tolist(), request.quantile) == ([3.0, 30.0], 0.75)
        assert request.cost == pytest.approx(0.2)
        assert request_empirical(self.SAMPLES, 0.75, MEASURED).demand.tolist() == [4.0, 40.0]

    def test_equal_observations_share_the_lowest_rank(self) -> None:
        samples = np.array([[1.0], [2.0], [2.0], [2.0]])
        request = request_empirical(samples, 0.6, MEASURED)
        assert (request.demand.tolist(), request.quantile) == ([2.0], 0.5)

    def test_the_highest_confidence_requests_the_largest_burst_seen(self) -> None:
        for assumption in Correlation:
            assert request_empirical(self.SAMPLES, 0.99, assumption).demand.tolist() == [4.0, 40.0]

    def test_a_resource_that_never_varied_does_not_raise_the_others(self) -> None:
        samples = np.column_stack([self.SAMPLES[:, 0] / 100, np.full(4, 5.0)])
        request = request_empirical(samples, 0.5, INDEPENDENT)
        assert (request.demand.tolist(), request.quantile) == ([0.02, 5.0], 0.5)

    def test_a_small_variation_is_a_variation(self) -> None:
        assert request_empirical(self.SAMPLES / 100, 0.5, INDEPENDENT).quantile == pytest.approx(math.sqrt(0.5))

    def test_the_highest_confidence_in_one_resource_measured_requests_the_largest_burst_seen(self) -> None:
        assert request_empirical(self.SAMPLES[:, :1], 0.99, MEASURED).demand.tolist() == [4.0]

    def test_one_burst_of_which_a_resource_was_unused_is_a_history(self) -> None:
        for assumption in Correlation:
            assert request_empirical(np.array([[3.0, 0.0]]), 0.9, assumption).demand.tolist() == [3.0, 0.0]


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("mean", "deviation", "want"),
        [
            pytest.param([1.0, 1.0], [1.0], "of one shape, finite, found", id="shapes"),
            pytest.param([math.nan], [1.0], "of one shape, finite, found", id="mean NaN"),
            pytest.param([1.0], [math.inf], "of one shape, finite, found", id="deviation infinite"),
            pytest.param([-1.0], [1.0], "means and deviations >= 0, found", id="negative mean"),
            pytest.param([1.0], [-1.0], "means and deviations >= 0, found", id="negative deviation"),
        ],
    )
    def test_impossible_means_and_deviations(self, mean: list[float], deviation: list[float], want: str) -> None:
        with pytest.raises(InvalidSpecError, match=want):
            request_normal(np.array(mean), np.array(deviation), 0.9, PERFECT)

    @pytest.mark.parametrize(
        "matrix",
        [
            pytest.param(np.ones(2), id="no matrix"),
            pytest.param(np.ones((2, 3)), id="not square"),
            pytest.param(np.array([[1.0, 0.5], [0.2, 1.0]]), id="not symmetric"),
            pytest.param(np.array([[2.0, 0.5], [0.5, 2.0]]), id="diagonal is not one"),
            pytest.param(alike(3, -0.9), id="negative eigenvalue"),
        ],
    )
    def test_what_is_no_correlation_matrix(self, matrix: np.ndarray) -> None:
        with pytest.raises(InvalidSpecError, match=r"expected a correlation matrix \(symmetric, ones on the diagonal"):
            request_normal(MEAN[: len(matrix)], DEVIATION[: len(matrix)], 0.9, MEASURED, matrix)

    @pytest.mark.parametrize("count", [2, 4])
    def test_a_matrix_of_other_resources(self, count: int) -> None:
        with pytest.raises(InvalidSpecError, match=f"expected a correlation matrix of 3 resources, found {count}"):
            request_normal(MEAN, DEVIATION, 0.9, MEASURED, np.eye(count))

    def test_measured_without_a_matrix(self) -> None:
        with pytest.raises(InvalidSpecError, match=r"^expected a correlation matrix for measured correlation, found none$"):
            request_normal(MEAN, DEVIATION, 0.9, MEASURED)

    @pytest.mark.parametrize(
        "samples",
        [
            pytest.param(np.ones(3), id="one dimension"),
            pytest.param(np.ones((0, 2)), id="no burst"),
            pytest.param(np.array([[1.0, math.nan]]), id="NaN"),
            pytest.param(np.array([[1.0, math.inf]]), id="infinite"),
            pytest.param(np.array([[1.0, -1.0]]), id="negative"),
        ],
    )
    def test_impossible_samples(self, samples: np.ndarray) -> None:
        with pytest.raises(
            InvalidSpecError, match=r"samples: expected \(bursts, resources\) finite amounts >= 0, at least one burst, found"
        ):
            request_empirical(samples, 0.9, PERFECT)


class TestTheStrategyOnThreeResources:
    mean, deviation = np.array([100.0, 200.0, 50.0]), np.array([40.0, 80.0, 20.0])

    def test_independent_resources_need_the_kth_root(self) -> None:
        request = request_normal(self.mean, self.deviation, 0.95, Correlation.INDEPENDENT)
        assert request.quantile == pytest.approx(0.95 ** (1 / 3))
        assert joint_confidence(request.quantile, np.eye(3)) == pytest.approx(0.95, abs=1e-4)

    def test_perfect_correlation_saves_a_tenth_as_the_paper_says(self) -> None:
        """BoPF §3.5: deviation of 40 % of the mean, three resources: about 10 % less."""
        independent = request_normal(self.mean, self.deviation, 0.95, Correlation.INDEPENDENT)
        perfect = request_normal(self.mean, self.deviation, 0.95, Correlation.PERFECT)
        assert 1 - perfect.demand / independent.demand == pytest.approx([0.1] * 3, abs=0.03)

    @pytest.mark.parametrize("correlation", [-0.4, 0.0, 0.5, 0.9])
    def test_measured_correlation_meets_the_confidence_in_a_monte_carlo_run(self, correlation: float) -> None:
        matrix = alike(3, correlation)
        request = request_normal(self.mean, self.deviation, 0.95, Correlation.MEASURED, matrix)
        rng = np.random.default_rng(7)
        covariance = matrix * np.outer(self.deviation, self.deviation)
        bursts = rng.multivariate_normal(self.mean, covariance, 200_000)
        assert (bursts <= request.demand).all(axis=1).mean() == pytest.approx(0.95, abs=3e-3)

    def test_independence_over_provisions_positive_and_under_provisions_negative_correlation(self) -> None:
        for correlation, sign in ((0.5, 1), (-0.4, -1)):
            matrix = alike(3, correlation)
            independent, measured = (
                request_normal(self.mean, self.deviation, 0.9, assumption, matrix).cost
                for assumption in (Correlation.INDEPENDENT, Correlation.MEASURED)
            )
            assert (independent - measured) * sign >= -1e-6

    def test_samples_meet_the_confidence_they_were_asked_for(self) -> None:
        rng = np.random.default_rng(11)
        samples = rng.lognormal(0, 0.5, (2000, 2))
        request = request_empirical(samples, 0.9, Correlation.MEASURED)
        assert 0.9 <= (samples <= request.demand).all(axis=1).mean() <= 0.91

    @pytest.mark.parametrize("confidence", [0.0, 1.0, math.nan])
    def test_impossible_confidence_is_refused(self, confidence: float) -> None:
        with pytest.raises(InvalidSpecError, match="confidence"):
            request_normal(self.mean, self.deviation, confidence, Correlation.PERFECT)
