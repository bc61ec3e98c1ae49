"""Choices that DRESS leaves open: the order of waiting jobs, the rule for small jobs, and the choice of a variant."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from fairburst.policy.dress.values import DemandCategory, DressConfig
from fairburst.sim.dress_jobs import DressJobs
from fairburst.sim.engine import run
from fairburst.sim.reproductions.dress import scenario
from fairburst.sim.reproductions.dress_sweep import PAPER, SETTINGS, VARIANTS, Result, may_be_chosen, shortfall
from fairburst.sim.workload import DagJob, Stage

SETTLED = DressConfig(max_wait_seconds=math.inf, min_reserve=0.0, initial_reserve=0.0)


def job(name: str, containers: int, seconds: float) -> DagJob:
    return DagJob(name, (Stage("run", containers, seconds, (1.0,)),))


def starts(config: DressConfig, jobs: list[tuple[float, DagJob]]) -> dict[str, float]:
    return {one.name: one.first_start for one in run(scenario(jobs, 10.0, config), "dress").jobs}


@pytest.mark.parametrize(("smallest_first", "first"), [(False, "wide"), (True, "narrow")])
def test_smallest_first_is_the_order_within_a_category(smallest_first: bool, first: str) -> None:
    jobs = [(0.0, job("blocker", 10, 20.0)), (1.0, job("wide", 8, 20.0)), (2.0, job("narrow", 5, 20.0))]
    begun = starts(dataclasses.replace(SETTLED, smallest_first=smallest_first), jobs)
    assert min(("wide", "narrow"), key=lambda name: begun[name]) == first
    assert begun[first] == pytest.approx(20.0, abs=1.1)


def test_the_bound_on_the_wait_is_for_the_oldest_large_job_in_either_order() -> None:
    jobs = [(0.0, job("blocker", 10, 20.0)), (1.0, job("wide", 8, 20.0)), *((2.0 + n, job(f"narrow-{n}", 5, 20.0)) for n in range(6))]
    config = dataclasses.replace(SETTLED, smallest_first=True, max_wait_seconds=30.0)
    assert starts(config, jobs)["wide"] < math.inf


@pytest.mark.parametrize(("work_seconds", "want"), [(None, ["narrow"]), (100.0, ["narrow", "short"]), (10.0, [])])
def test_a_job_can_be_small_by_its_work(work_seconds: float | None, want: list[str]) -> None:
    """At most a tenth of ten containers: one container by request; by work 100 or 10 container-seconds."""
    jobs = [job("narrow", 1, 60.0), job("short", 4, 20.0)]
    book, pool = DressJobs(SETTLED, work_seconds), np.array([10.0])
    small = [one.name for number, one in enumerate(jobs) if book.submit(number, "q", one, pool, 0.0).category is DemandCategory.SMALL]
    assert small == want


def test_a_variant_is_chosen_by_the_stated_criterion() -> None:
    reached = [Result(setting.reduction, 0.0, 1.0) for setting in SETTINGS]
    assert shortfall(reached) == 0.0
    assert shortfall([dataclasses.replace(one, reduction=one.reduction - 0.06) for one in reached]) == pytest.approx(0.06)
    assert shortfall([dataclasses.replace(one, reduction=one.reduction + 0.06) for one in reached]) == 0.0, "more is no credit elsewhere"
    assert may_be_chosen(reached)
    assert not may_be_chosen([*reached[:-1], dataclasses.replace(reached[-1], large_growth=0.17)])
    assert not may_be_chosen([dataclasses.replace(reached[0], makespan=1.06), *reached[1:]])
    assert PAPER in VARIANTS
