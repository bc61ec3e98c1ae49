"""Curves learned from runs: the fit and what it refuses, the store's bounds, and exploration that keeps α."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.curves.explore import ENOUGH_POINTS, next_parallelism, safe_slots
from fairburst.curves.fit import Fit, Refusal, RefusalReason, coefficients_of, fit_runs, left_out_errors, runtime
from fairburst.curves.observations import FAMILIES, POINTS, RUNS_EACH, Observations, as_values, from_values, record
from fairburst.curves.runs import Run
from fairburst.policy.paf.curves import progress_rates

KMEANS = (0.3888010442, -0.0079845533, 2.994443945, 0.2277799129)


def seconds_of(coefficients: tuple[float, float, float, float], slots: float) -> float:
    a0, a1, a2, a3 = coefficients
    return 100.0 * (a0 + a1 * slots + a2 / slots + a3 * math.log(slots))


def runs_of(coefficients: tuple[float, float, float, float], *slots: int) -> list[Run]:
    return [Run(each, seconds_of(coefficients, each)) for each in slots]


class TestFit:
    def test_points_of_an_ernest_curve_give_it_back_negative_coefficients_included(self) -> None:
        found = fit_runs(runs_of(KMEANS, 1, 2, 4, 8, 16, 32))
        assert isinstance(found, Fit)
        rates = progress_rates(found.curve, 32)
        want = np.array([seconds_of(KMEANS, x) for x in range(1, 33)])
        assert rates[1:] == pytest.approx(want.min() / want, abs=1e-6)
        assert found.shortest_seconds == pytest.approx(want.min())
        assert (found.curve.lowest, found.curve.highest) == (1, 32)
        assert found.goodness.left_out_error == pytest.approx(0.0, abs=1e-6)

    def test_a_non_negative_fit_follows_such_a_curve_visibly_worse(self) -> None:
        """workloads.md §4: fits on real data have negative coefficients."""
        runs = runs_of((1.312223283, -0.008145661955, 4.237077865, -0.05322643054), 1, 2, 4, 8, 16, 32)
        free, constrained = fit_runs(runs), fit_runs(runs, non_negative=True)
        assert isinstance(free, Fit)
        assert isinstance(constrained, Fit)
        assert constrained.goodness.median_error > 0.01 > free.goodness.median_error
        assert min(constrained.curve.a0, constrained.curve.a1, constrained.curve.a2, constrained.curve.a3) >= 0

    @given(st.lists(st.floats(0.0, 5.0), min_size=4, max_size=4), st.lists(st.integers(1, 200), min_size=5, max_size=9, unique=True))
    def test_any_exact_ernest_runtimes_are_given_back_at_the_points_between(self, terms: list[float], slots: list[int]) -> None:
        coefficients = (terms[0] + 0.1, terms[1] / 100, terms[2], terms[3] / 10)
        ordered = np.array(sorted(slots), dtype=np.float64)
        seconds = np.array([seconds_of(coefficients, x) for x in ordered])
        found = runtime(coefficients_of(ordered, seconds), ordered)
        assert found == pytest.approx(seconds, rel=1e-3)

    @pytest.mark.parametrize("spread", [0.02, 0.05])
    def test_five_noisy_runs_come_within_a_tenth_of_the_true_curve(self, spread: float) -> None:
        """Between the fewest and the most slots; the median of 40 draws."""
        worst = []
        for seed in range(40):
            noise = np.random.default_rng(seed).normal(1.0, spread, 5)
            runs = [Run(slots, seconds_of(KMEANS, slots) * factor) for slots, factor in zip((4, 8, 12, 16, 24), noise, strict=True)]
            found = fit_runs(runs, most_error=1.0)
            assert isinstance(found, Fit)
            true = np.array([seconds_of(KMEANS, x) for x in range(4, 25)])
            worst.append(float(np.abs(progress_rates(found.curve, 24)[4:] / (true.min() / true) - 1).max()))
        assert float(np.median(worst)) <= 0.1

    @pytest.mark.parametrize(
        ("runs", "reason"),
        [
            pytest.param([], RefusalReason.TOO_FEW_POINTS, id="no runs"),
            pytest.param([Run(8, 10.0), Run(8, 11.0)], RefusalReason.TOO_FEW_POINTS, id="one data point, twice"),
            pytest.param([Run(8, 10.0), Run(4, math.nan)], RefusalReason.NOT_FINITE, id="NaN"),
            pytest.param([Run(8, 10.0), Run(4, math.inf)], RefusalReason.NOT_FINITE, id="infinite"),
            pytest.param([Run(8, 10.0), Run(0, 10.0)], RefusalReason.NOT_FINITE, id="no slots"),
            pytest.param([Run(8, 10.0), Run(4, -1.0)], RefusalReason.NOT_FINITE, id="negative time"),
            pytest.param([Run(each, 10.0) for each in (1, 2, 4, 8, 16)], RefusalReason.NEVER_RISES, id="always the same time"),
            pytest.param([Run(each, 10.0 * each) for each in (1, 2, 4, 8)], RefusalReason.NEVER_RISES, id="slower with every slot"),
            pytest.param([Run(1, 100.0), Run(2, 10.0), Run(60, 9.0), Run(64, 100.0)], RefusalReason.OUT_OF_RANGE, id="below zero between"),
            pytest.param([Run(x, 100.0 / x * (1 + 2 * (x % 2))) for x in range(1, 13)], RefusalReason.POOR_FIT, id="zigzag"),
        ],
    )
    def test_what_gives_no_curve_is_refused_with_the_reason(self, runs: list[Run], reason: RefusalReason) -> None:
        found = fit_runs(runs)
        assert isinstance(found, Refusal)
        assert found.reason == reason.value
        assert "expected" in found.message
        assert "found" in found.message

    def test_two_points_make_amdahls_law(self) -> None:
        found = fit_runs([Run(1, 110.0), Run(10, 20.0)])
        assert isinstance(found, Fit)
        assert progress_rates(found.curve, 10)[5] == pytest.approx(20 / 30)

    def test_a_cliff_at_few_slots_is_outside_the_valid_range(self) -> None:
        """Runs out of memory with 4 slots: no Ernest curve falls as steeply and is as flat afterwards."""
        runs = [Run(4, 3_000.0), *(Run(slots, 250.0 + 400.0 / slots) for slots in range(8, 64, 4))]
        found = fit_runs(runs)
        assert isinstance(found, Fit)
        assert found.curve.lowest == 8
        assert found.goodness.worst_error > 0.2

    def test_left_out_errors_are_those_of_fits_without_the_point(self) -> None:
        slots, seconds = np.array([1.0, 2, 4, 8, 16]), np.array([100.0, 55, 30, 20, 14])
        others = np.array([True, True, False, True, True])
        want = abs(runtime(coefficients_of(slots[others], seconds[others]), slots[2:3])[0] / 30 - 1)
        assert left_out_errors(slots, seconds)[2] == pytest.approx(want)


class TestObservations:
    @given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 20), st.floats(0.1, 1e6)), max_size=80))
    def test_the_store_stays_bounded_and_survives_json(self, recorded: list[tuple[str, int, float]]) -> None:
        observations = Observations()
        for now, (family, slots, seconds) in enumerate(recorded):
            observations = record(observations, family, Run(slots, seconds), float(now))
            runs = observations.of(family)
            assert runs[-1] == Run(slots, seconds)
            assert len({run.parallelism for run in runs}) <= POINTS
            assert all(sum(run.parallelism == each for run in runs) <= RUNS_EACH for each in range(1, 21))
        assert from_values(json.loads(json.dumps(as_values(observations)))) == observations

    def test_many_runs_at_one_parallelism_push_no_other_point_out(self) -> None:
        observations = Observations()
        for now, slots in enumerate([4, 8, *[16] * 50]):
            observations = record(observations, "f", Run(slots, 10.0), float(now))
        assert {run.parallelism for run in observations.of("f")} == {4, 8, 16}

    def test_the_least_and_most_slots_are_kept_when_points_are_forgotten(self) -> None:
        observations = Observations()
        for now, slots in enumerate([1, 64, *range(10, 30)]):
            observations = record(observations, "f", Run(slots, 10.0), float(now))
        assert {1, 64, 29} <= {run.parallelism for run in observations.of("f")}

    def test_the_family_not_seen_for_longest_is_forgotten(self) -> None:
        observations = Observations()
        for number in range(FAMILIES + 1):
            observations = record(observations, f"f{number:03d}", Run(1, 1.0), float(number))
        assert len(observations.families) == FAMILIES
        assert observations.of("f000") == ()
        assert len(json.dumps(as_values(observations))) < 1_000_000

    def test_the_many_families_of_one_namespace_push_out_its_own(self) -> None:
        """A Job's family is a label: with 256 of them one tenant had made fairburst forget what it had learned of all others."""
        observations = record(Observations(), "quiet/nightly", Run(4, 10.0), 0.0)
        for number in range(2 * FAMILIES):
            observations = record(observations, f"loud/{number:03d}", Run(1, 1.0), 1.0 + number)
        assert len(observations.families) == FAMILIES
        assert observations.of("quiet/nightly") == (Run(4, 10.0),)
        assert observations.of(f"loud/{2 * FAMILIES - 1:03d}") == (Run(1, 1.0),)
        assert observations.of("loud/000") == ()

    def test_recording_changes_no_value_that_is_held(self) -> None:
        before = record(Observations(), "f", Run(1, 1.0), 0.0)
        record(before, "f", Run(2, 1.0), 1.0)
        assert before.of("f") == (Run(1, 1.0),)

    @pytest.mark.parametrize(
        "damaged",
        [
            None, 7, [], {"f": 3}, {"f": {"seen": "x", "runs": []}}, {"f": {"seen": 0}}, {3: {"seen": 0, "runs": [[1, 1.0]]}},
            {"f": {"seen": 0, "runs": [[1], [1, "x"], [0, 1.0], None]}}, {"f": {"seen": math.nan, "runs": [[1, 1.0]]}},
            {"f": {"seen": 0, "runs": [[1, math.nan]]}},
        ],
    )  # fmt: skip
    def test_damaged_values_are_left_out(self, damaged: object) -> None:
        assert from_values(damaged).of("f") == ()

    def test_a_run_that_cannot_be_is_not_recorded(self) -> None:
        assert record(Observations(), "f", Run(0, 1.0), 0.0) == Observations()


class TestExploration:
    """Exploration never violates α, for any job that speeds up at most linearly and is not slower with more slots."""

    @given(
        st.floats(0.0, 1.0), st.integers(1, 100), st.lists(st.integers(1, 100), max_size=6), st.sampled_from([0.5, 0.9, 0.99, 1.0]),
        st.integers(0, 20), st.integers(1, 120),
    )  # fmt: skip
    def test_progress_stays_at_or_above_the_knobs_part_of_the_fair_one(
        self, parallel_part: float, fair: int, tried: list[int], knob: float, spare: int, most: int
    ) -> None:
        """Amdahl's law with any parallel part: the families with the two assumptions that the papers use."""

        def seconds(slots: int) -> float:
            return 100.0 * (1.0 - parallel_part + parallel_part / slots)

        maximum = max(most, fair)
        chosen = next_parallelism([Run(each, seconds(each)) for each in tried], fair, 1, maximum, spare, knob)
        assert seconds(fair) / seconds(chosen) >= knob * (1 - 1e-9)
        assert 1 <= chosen <= min(maximum, fair + spare)

    def test_what_was_measured_as_harmless_may_be_gone_below_to(self) -> None:
        flat = [Run(16, 10.0), Run(8, 10.4)]
        assert safe_slots(flat, 16, 0.9) == 8
        assert safe_slots(flat, 16, 0.99) == 16
        assert safe_slots([], 16, 0.9) == 15

    def test_the_next_run_is_furthest_from_all_so_far(self) -> None:
        assert next_parallelism([Run(16, 10.0), Run(4, 10.1)], 16, 1, 32, 0, 0.9) == 8
        assert next_parallelism([Run(16, 10.0)], 16, 1, 32, 16, 0.99) == 32

    def test_there_is_nothing_to_explore_without_a_first_run_or_with_enough(self) -> None:
        assert next_parallelism([], 16, 1, 32, 16, 0.9) == 16
        enough = [Run(16 + each, 10.0) for each in range(ENOUGH_POINTS)]
        assert next_parallelism(enough, 16, 1, 64, 32, 0.9) == 16
