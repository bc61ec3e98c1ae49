"""Hypothesis profiles, chosen by FAIRBURST_HYPOTHESIS: `ci` by default; `thorough`, `fuzz` and `mutation` for the make targets."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

QUIET = [HealthCheck.too_slow]
settings.register_profile("ci", max_examples=60, deadline=None, derandomize=True, suppress_health_check=QUIET)
settings.register_profile("thorough", max_examples=2000, deadline=None, suppress_health_check=QUIET)
# passes of some seconds each, again and again with new seeds: a test of a pass stays far from pytest's time limit on a busy machine
settings.register_profile("fuzz", max_examples=100, deadline=None, suppress_health_check=QUIET)
# a mutant is killed by the first test that fails: few examples of many tests find it sooner than many of one
settings.register_profile(
    "mutation", max_examples=12, deadline=None, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=[*QUIET, HealthCheck.differing_executors],  # mutmut runs pytest several times in one process
)  # fmt: skip


def load() -> None:
    settings.load_profile(os.environ.get("FAIRBURST_HYPOTHESIS", "ci"))


def horizons() -> settings:
    """For tests that simulate hundreds of rounds an example: a third of the profile's examples."""
    return settings(max_examples=max(5, settings.default.max_examples // 3))
