"""Generated lists against the published statistics of the lists they stand in for."""

from __future__ import annotations

import pytest

from fairburst.sim.errors import ScenarioError
from fairburst.sim.generate import FIXED, JOBS, STATISTICS, describe, generate
from fairburst.sim.table4 import WORKLOADS, latency_jobs

SEEDS = (1, 2, 3)


@pytest.mark.parametrize("benchmark_name", STATISTICS)
@pytest.mark.parametrize("seed", SEEDS)
class TestStatistics:
    def test_jobs_have_the_tables_quantiles(self, benchmark_name: str, seed: int) -> None:
        jobs, want = generate(benchmark_name, seed), STATISTICS[benchmark_name]
        have = describe(jobs)
        assert len(jobs) == JOBS
        for what, points, tolerance in (
            ("stages", want.stages, 0.05),
            ("tasks", want.tasks, 0.05),
            ("critical_path", want.critical_path, 0.06),
        ):
            for name, (_, value) in zip(("min", "median", "p90", "max"), points, strict=True):
                assert have[what][name] == pytest.approx(value, rel=tolerance, abs=0.5), (what, name)
        assert have["stages"]["mean"] == pytest.approx(want.stages_mean, rel=0.1)
        assert have["critical_path"]["mean"] == pytest.approx(want.critical_path_mean, rel=0.15)

    def test_task_times_have_the_tables_quantiles(self, benchmark_name: str, seed: int) -> None:
        have, want = describe(generate(benchmark_name, seed))["seconds"], STATISTICS[benchmark_name].seconds
        for level, value in want[:-1]:
            # few queries, so that a bin of times holds few stages: within a quarter, or 4 s
            assert have[f"p{round(level * 100)}"] == pytest.approx(value, rel=0.25, abs=4), level
        assert have["p100"] <= want[-1][1]

    def test_demands_have_the_tables_mean_and_maximum(self, benchmark_name: str, seed: int) -> None:
        have, want = describe(generate(benchmark_name, seed)), STATISTICS[benchmark_name]
        for name, mean, highest in zip(("cpu", "memory"), want.mean_demand, want.highest_demand, strict=True):
            assert have[name]["mean"] == pytest.approx(mean, rel=0.02)
            assert have[name]["max"] == highest

    def test_only_the_published_jobs_pass_the_limits_of_latency_jobs(self, benchmark_name: str, seed: int) -> None:
        found = latency_jobs(generate(benchmark_name, seed), WORKLOADS[benchmark_name], most=JOBS)
        assert sorted(job.name for job in found) == sorted(job.name for job, copies in FIXED[benchmark_name] for _ in range(copies))

    def test_a_latency_job_fills_one_resource_at_its_widest(self, benchmark_name: str, seed: int) -> None:
        for job in latency_jobs(generate(benchmark_name, seed), WORKLOADS[benchmark_name], most=JOBS):
            peak = max(job.peak) * WORKLOADS[benchmark_name].latency_tasks
            assert peak == pytest.approx(1000, rel=0.05)


def test_same_seed_same_list_and_another_seed_another() -> None:
    assert generate("bb", 4) == generate("bb", 4)
    assert generate("bb", 4) != generate("bb", 5)


def test_unknown_benchmark_and_too_few_jobs_are_named() -> None:
    with pytest.raises(ScenarioError, match="expected a benchmark among bb, tpcds, tpch, found 'tpcx'"):
        generate("tpcx", 1)
    with pytest.raises(ScenarioError, match="expected at least 50 jobs"):
        generate("bb", 1, jobs=3)
