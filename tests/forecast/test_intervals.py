"""Intervals and their calibration: outcomes move them until they cover the stated share."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairburst.forecast.intervals import Calibration, raw


def outcomes(bias: float, narrow: float, count: int, seed: int) -> Calibration:
    """Forecasts whose runs are biased and too narrow (or too wide) by these factors, and the waits that come."""
    draw = np.random.default_rng(seed)
    calibration = Calibration()
    for _ in range(count):
        centre = math.exp(draw.uniform(1, 7))
        truth = centre * math.exp(0.5 * draw.standard_normal())
        waits = np.sort(bias * centre * np.exp(0.5 * narrow * draw.standard_normal(40)))
        told = calibration.forecast(waits)
        calibration.came_out(waits, told, truth)
    return calibration


@pytest.mark.parametrize(("bias", "narrow"), [(1.0, 1.0), (1.0, 0.3), (3.0, 1.0), (0.3, 0.5), (1.0, 3.0)])
def test_calibrated_intervals_cover_what_they_say_however_wrong_the_runs_are(bias: float, narrow: float) -> None:
    calibration = outcomes(bias, narrow, 800, seed=7)
    assert calibration.outcomes == 800
    assert 0.85 <= calibration.coverage(0.9) <= 0.95
    assert 0.40 <= calibration.coverage(0.5) <= 0.60


def test_runs_alone_are_too_sure_where_they_are_too_narrow() -> None:
    """The same forecasts without calibration: the test above can fail."""
    draw = np.random.default_rng(7)
    covered = 0
    for _ in range(400):
        truth = 100 * math.exp(0.5 * draw.standard_normal())
        covered += raw(np.sort(100 * np.exp(0.15 * draw.standard_normal(40)))).covers(0.9, truth)
    assert covered / 400 < 0.6


def test_intervals_follow_where_the_runs_get_worse() -> None:
    """Waits grow to five times what the runs say, and become as spread; the score of the past is too small all the time."""
    draw = np.random.default_rng(11)
    calibration = Calibration()
    for number in range(600):
        drift = 1 + 4 * number / 600
        waits = np.sort(100 * np.exp(0.2 * draw.standard_normal(40)))
        calibration.came_out(waits, calibration.forecast(waits), 100 * drift * math.exp(0.2 * drift * draw.standard_normal()))
    assert 0.85 <= calibration.coverage(0.9) <= 0.95
    assert 0.40 <= calibration.coverage(0.5) <= 0.60


def test_waits_far_longer_than_runs_that_all_agree_leave_other_forecasts_without_an_end() -> None:
    """Each such score is hundreds of the forecast's own widths."""
    calibration, agreeing, spread = Calibration(), np.full(40, 60.0), np.array([*[0.0] * 20, *[86_400.0] * 20])
    for _ in range(40):
        calibration.came_out(agreeing, calibration.forecast(agreeing), 86_400.0)
    assert calibration.forecast(spread).intervals[0.9][1] == math.inf


def test_before_any_outcome_the_intervals_are_twice_as_wide_as_the_runs() -> None:
    waits = np.sort(100 * np.exp(0.5 * np.random.default_rng(1).standard_normal(400)))
    told, plain = Calibration().forecast(waits), raw(waits)
    for level in (0.5, 0.9):
        width, narrower = (math.log(high / low) for low, high in (told.intervals[level], plain.intervals[level]))
        assert width == pytest.approx(2 * narrower, rel=0.15)
    assert told.median == pytest.approx(100, rel=0.1)


def test_an_interval_lies_within_the_one_that_is_surer() -> None:
    told = outcomes(2.0, 0.5, 50, seed=3).forecast(np.sort(np.random.default_rng(2).exponential(60, 40)))
    (low, high), (lower, higher) = told.intervals[0.5], told.intervals[0.9]
    assert 0 <= lower <= low <= high <= higher


def test_a_job_that_no_run_starts_is_said_to_start_later_than_can_be_told() -> None:
    told = Calibration().forecast(np.full(20, math.inf))
    assert math.isinf(told.median)
    assert told.intervals[0.9][1] == math.inf
    half = np.array([10.0] * 11 + [math.inf] * 9)
    assert math.isfinite(Calibration().forecast(half).median)
