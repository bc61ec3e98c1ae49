"""PAF's figures, the profile of its authors' simulator worked out by hand, and files of jobs that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.cli.main import main
from fairburst.policy.arrays import FloatArray
from fairburst.policy.paf.curves import progress_rates
from fairburst.sim.errors import TraceError
from fairburst.sim.paf_profile import SlotJob, adjust, fair_as_the_authors, fair_max_min, least_amounts, simulate
from fairburst.sim.paf_workload import AUTHORS, LONGEST_FIRST, PAPER, draw, makespan, profiled, read_jobs
from fairburst.sim.reproductions import EXPERIMENTS
from fairburst.sim.reproductions.paf import CURVES_FILE, SPARKBENCH, read_curves
from fairburst.sim.reproductions.paf_clusters import as_operator, fitted, run
from fairburst.sim.reproductions.paf_fits import read_runs
from fairburst.sim.reproductions.result import Options, Reproduction

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data folder is not beside the checkout")


def quick(name: str, trace: Path | None = None) -> Reproduction:
    return EXPERIMENTS[name].run(Options(seed=1, quick=True, trace=trace), lambda part, what: None)


def verdicts(result: Reproduction) -> dict[str, str]:
    return {row.label: row.verdict for row in result.rows}


def slot_job(name: str, weight: float, seconds: list[float], warmup: float = 1.0, curve: list[float] | None = None) -> SlotJob:
    tasks = np.array(seconds)
    if curve is None:
        return profiled(name, weight, warmup, tasks)
    return SlotJob(name, weight, warmup, max(seconds), tasks, np.array(curve))


class TestFigures:
    def test_figure_4_mean_progress_rises_by_moving_eight_slots_and_algorithm_1_does_no_worse(self) -> None:
        result = quick("paf-fig4")
        means = result.data["mean_progress"]
        assert means["fair"] < means["8 moved"] <= means["0.90"]
        assert {row.label for row in result.rows if row.verdict == "differs"} <= {
            "mean progress, fair", "slots moved by Algorithm 1, α .90",
        }  # fmt: skip

    def test_figure_6_ends_with_4_and_8_slots(self) -> None:
        assert set(verdicts(quick("paf-fig6")).values()) == {"holds"}

    def test_figures_7_to_9_take_slots_from_the_heavy_flat_job_within_both_knobs(self) -> None:
        result = quick("paf-fig7")
        seen, means = verdicts(result), result.data["mean_progress"]
        for knob in ("0.99", "0.90"):
            assert seen[f"progress that KMeans keeps, α {knob}"] == "holds"
        assert [seen[f"fair slots of {name}"] for name in SPARKBENCH] == ["holds"] * 3
        assert means["fair"] < means["0.99"] < means["0.90"]

    @needs_data
    def test_the_coefficients_are_those_of_the_authors_curves(self) -> None:
        points = read_curves(DATA / "paf-sparkbench" / CURVES_FILE)
        for name, curve in SPARKBENCH.items():
            assert progress_rates(curve, 32) == pytest.approx(np.minimum(points[name], 1.0), abs=1e-8)
        assert quick("paf-fig4", DATA / "paf-sparkbench").data["slots"] == quick("paf-fig4").data["slots"]

    @needs_data
    def test_fits_of_measured_runs_predict_the_one_left_out_within_a_tenth(self) -> None:
        seen = verdicts(quick("paf-fits", DATA / "dos-group-runtime-prediction"))
        assert seen["median over jobs"] == "holds"
        assert sum(verdict == "holds" for label, verdict in seen.items() if "median error, left out" in label) == 6

    def test_three_clusters_gain_and_keep_the_knob_on_the_curves(self) -> None:
        result = quick("paf-fig10")
        seen = verdicts(result)
        assert seen["8000 slots: gain, α 0.99"] == seen["8000 slots: gain, α 0.90"] == "holds"
        assert seen["gain with the fewest slots / with the most, α .90"] == "holds"
        assert all(verdict == "holds" for label, verdict in seen.items() if "worst giver on the curves" in label)


class TestProfile:
    """workloads.md §4: the rules, on examples small enough to be worked out on paper."""

    def test_slots_come_a_millisecond_apart_and_go_for_good_to_the_job_that_holds_least_for_its_weight(self) -> None:
        """Slots at 1.000 to 1.003 s go to a (tie), b, a (1/2 below 1/1), a (2/2 ties with 1/1, a first). a's four tasks of 10 s: three
        start at once, the fourth warm on its first slot: 1.000 to 16.000. b's two on one slot: 1.001 to 16.001."""
        jobs = [slot_job("a", 2.0, [10.0] * 4, 2.0), slot_job("b", 1.0, [10.0] * 2, 2.0)]
        found = simulate(jobs, 4, np.array([2.0, 1.0]))
        assert found == pytest.approx([10.0 / 15.0, 10.0 / 15.0])

    def test_a_target_of_nothing_comes_last_and_a_job_without_slots_makes_no_progress(self) -> None:
        jobs = [slot_job("a", 1.0, [10.0]), slot_job("b", 1.0, [10.0])]
        assert simulate(jobs, 1, np.array([0.0, 0.5])).tolist() == [0.0, 1.0]
        assert simulate(jobs, 2, np.array([0.0, 0.5])).tolist() == [1.0, 1.0]

    def test_a_slot_is_not_passed_on_when_its_job_has_no_tasks_left(self) -> None:
        jobs = [slot_job("a", 1.0, [1.0]), slot_job("b", 1.0, [10.0, 10.0])]
        assert simulate(jobs, 2, np.array([1.0, 1.0])) == pytest.approx([1.0, 0.5])

    def test_fair_shares_differ_by_the_weight_of_saturated_jobs(self) -> None:
        jobs = [slot_job("small", 1.0, [1.0] * 2), slot_job("large", 1.0, [1.0] * 20)]
        assert fair_as_the_authors(jobs, 12).tolist() == [2.0, 6.0]
        assert fair_max_min(jobs, 12) == pytest.approx([2.0, 10.0])

    def test_the_least_amount_is_the_longest_unbroken_run_of_steps_down(self) -> None:
        """From 4.5 slots, read at 4: 1.0, then 0.95, 0.8 (below .9), 0.92: the dip ends the run although one slot would do."""
        job = slot_job("a", 1.0, [1.0] * 6, curve=[0.0, 0.92, 0.8, 0.95, 1.0, 1.0, 1.0])
        assert least_amounts([job], np.array([4.5]), 0.9).tolist() == [3.5]
        assert least_amounts([job], np.array([4.5]), 0.5).tolist() == [1.5]

    def test_moves_are_whole_slots_on_fractional_amounts(self) -> None:
        flat = slot_job("flat", 1.0, [1.0] * 8, curve=[0.0, 0.96, 0.97, 0.98, 0.985, 0.99, 0.993, 0.996, 1.0])
        steep = slot_job("steep", 1.0, [1.0] * 8, curve=[0.0, *(each / 8 for each in range(1, 9))])
        found = adjust([flat, steep], np.array([4.5, 3.5]), 0.9)
        assert found.tolist() == [1.5, 6.5]
        assert adjust([flat, steep], np.array([4.5, 3.5]), 0.99).tolist() == [3.5, 4.5]

    @given(
        st.lists(
            st.tuples(st.integers(1, 5), st.lists(st.integers(0, 10), min_size=1, max_size=8), st.integers(0, 80)), min_size=1, max_size=6
        ),
        st.sampled_from([1.0, 0.99, 0.9, 0.3]),
    )
    def test_on_any_curves_it_ends_conserves_slots_and_keeps_the_knob(self, drawn: list[tuple[int, list[int], int]], knob: float) -> None:
        jobs = [
            slot_job(str(number), float(weight), [1.0] * len(values), curve=[0.0, *(value / 10 for value in values)])
            for number, (weight, values, _) in enumerate(drawn)
        ]
        fair = np.array([min(share / 10, len(values)) for _, values, share in drawn])
        found = adjust(jobs, fair, knob)
        assert found.sum() == pytest.approx(fair.sum())
        for job, before, after in zip(jobs, fair.tolist(), found.tolist(), strict=True):
            assert after < job.parallelism + 1
            if after < before:
                assert job.curve[int(after + 1e-9)] >= knob * job.curve[int(before)]


class TestSimulatorAgainstSteps:
    """The event heap against a loop that looks at everything every millisecond."""

    @given(
        st.lists(st.tuples(st.integers(1, 4), st.lists(st.integers(1, 6), min_size=1, max_size=5)), min_size=1, max_size=3),
        st.integers(1, 7),
    )  # fmt: skip
    def test_same_progress(self, drawn: list[tuple[int, list[int]]], slots: int) -> None:
        # an eighth of a millisecond more than whole ones: no task ends just when a slot becomes free, where the rules leave the order open
        jobs = [slot_job(str(n), float(w), [(each + 1 / 8) / 1000 for each in seconds]) for n, (w, seconds) in enumerate(drawn)]
        priority = np.array([job.weight for job in jobs])
        assert simulate(jobs, slots, priority) == pytest.approx(by_steps(jobs, slots, priority), rel=1e-9)


def by_steps(jobs: list[SlotJob], slots: int, priority: FloatArray) -> list[float]:
    """In eighths of a millisecond; without warm-up, so that every time is a whole number of them."""
    ticks = [[round(each * 8000) for each in job.task_seconds] for job in jobs]
    started, held, first, end = [0] * len(jobs), [0] * len(jobs), [-1] * len(jobs), [0] * len(jobs)
    owner, busy_until = [-1] * slots, [8000 + 8 * number for number in range(slots)]
    for now in range(8000, 8000 + 8 * slots + sum(map(sum, ticks))):
        for slot in range(slots):
            if busy_until[slot] != now:
                continue
            if owner[slot] < 0:
                open_jobs = [row for row in range(len(jobs)) if started[row] < len(ticks[row])]
                if not open_jobs:
                    continue
                owner[slot] = min(open_jobs, key=lambda row: (held[row] / priority[row], row))
                held[owner[slot]] += 1
            row = owner[slot]
            if started[row] < len(ticks[row]):
                first[row] = now if first[row] < 0 else first[row]
                busy_until[slot] = now + ticks[row][started[row]]
                end[row] = max(end[row], busy_until[slot])
                started[row] += 1
    return [
        job.alone_seconds * 8000 / (end[row] - first[row]) if first[row] >= 0 else 0.0 for row, job in enumerate(jobs)
    ]  # fmt: skip


class TestWorkload:
    def test_longest_first_is_another_order_of_the_same_tasks(self) -> None:
        for random_order, ordered in zip(draw(AUTHORS, 3)[:20], draw(LONGEST_FIRST, 3)[:20], strict=True):
            assert ordered.job.task_seconds.tolist() == sorted(random_order.job.task_seconds.tolist(), reverse=True)
            assert (ordered.job.weight, ordered.job.warmup_factor, ordered.shape) == (
                random_order.job.weight, random_order.job.warmup_factor, random_order.shape,
            )  # fmt: skip
            assert ordered.job.curve[1] == pytest.approx(
                makespan(ordered.job.task_seconds, len(ordered.job.task_seconds), 1.0)
                / makespan(ordered.job.task_seconds, 1, ordered.job.warmup_factor)
            )

    @pytest.mark.parametrize("pools", [AUTHORS, PAPER], ids=["authors", "paper"])
    def test_jobs_are_drawn_from_the_stated_ranges_and_are_the_same_for_a_seed(self, pools: Any) -> None:
        drawn, again = draw(pools, 3), draw(pools, 3)
        assert len(drawn) == 200
        for first, second in zip(drawn, again, strict=True):
            assert first.job.task_seconds.tolist() == second.job.task_seconds.tolist()
            assert pools.weight[0] <= first.job.weight <= pools.weight[1]
            assert pools.parallelism[0] <= first.job.parallelism <= pools.parallelism[1]
            assert pools.warmup_factor[0] <= first.job.warmup_factor <= pools.warmup_factor[1]
            assert pools.shape[0] <= first.shape <= pools.shape[1]

    def test_a_job_alone_with_fewer_slots_packs_its_tasks(self) -> None:
        """Fig. 3: six tasks on three slots, the last three warm."""
        tasks = np.array([4.0, 2.0, 2.0, 4.0, 4.0, 2.0])
        assert makespan(tasks, 6, 2.0) == 4.0
        assert makespan(tasks, 3, 2.0) == 5.0
        assert profiled("job", 1.0, 2.0, tasks).curve[[0, 3, 6]].tolist() == [0.0, 0.8, 1.0]

    def test_the_fitted_curve_is_the_schedulers_view_and_the_operators_division_keeps_the_knob_on_it(self) -> None:
        jobs = [fitted(each.job) for each in draw(AUTHORS, 2)[:40]]
        outcome = run(jobs, 800, fair_as_the_authors, as_operator)
        for knob, kept in outcome.worst_giver_on_curve.items():
            assert kept >= knob - 1e-9


JOB: dict[str, Any] = {
    "id": "a", "weight": 2, "warmup_factor": 1.5, "alone_seconds": 10, "task_seconds": [10, 10, 10], "curve": [0, 0.4, 0.6, 1],
}  # fmt: skip


class TestTrace:
    def test_jobs_of_a_file_are_simulated_under_both_fair_shares(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "jobs.json"
        path.write_text(json.dumps({"jobs": [JOB, {**JOB, "id": "b", "weight": 1}]}))
        assert main(["reproduce", "paf-fig10", "--trace", str(path), "--slots", "4", "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert set(found["mean_progress"]) == {"fair", "0.99", "0.90"}
        assert set(found["worst_giver"]) == {"0.99", "0.90"}
        assert (found["slots"], found["jobs"]) == (4, 2)
        # slots to a, b, a, a (2/2 ties with 1/1): a needs 10 s for its three tasks; b's three, two of them warm, 10 + 2 x 10 / 1.5
        assert found["mean_progress"]["fair"] == pytest.approx((10 / 10.003 + 10 / (10 + 20 / 1.5)) / 2)

    @pytest.mark.parametrize(
        ("content", "want"),
        [
            pytest.param("{", "a JSON file", id="not JSON"),
            pytest.param("[]", "at least one job", id="no jobs"),
            pytest.param('{"jobs": []}', "at least one job", id="empty"),
            pytest.param('{"jobs": [7]}', "an object with an id", id="a number"),
            *[
                pytest.param(json.dumps({"jobs": [{**JOB, key: value}]}), want, id=f"{key} {value}")
                for key, value, want in (
                    ("weight", 0, "weight: expected a number above 0"), ("weight", True, "weight"), ("warmup_factor", -1, "warmup_factor"),
                    ("alone_seconds", "x", "alone_seconds"), ("task_seconds", 5, "task_seconds: expected a list"),
                    ("task_seconds", [1, None], "task_seconds"), ("task_seconds", [-1], "finite numbers >= 0"),
                    ("curve", [0], "progress with 0, 1"), ("curve", [0, float("nan")], "finite numbers"),
                )
            ],
            pytest.param(json.dumps({"jobs": [JOB, JOB]}), "distinct ids", id="an id twice"),
        ],
    )  # fmt: skip
    def test_anything_else_is_refused_with_the_place(self, content: str, want: str, tmp_path: Path) -> None:
        path = tmp_path / "jobs.json"
        path.write_text(content)
        with pytest.raises(TraceError, match=want):
            read_jobs(path)

    def test_other_files_are_refused_too(self, tmp_path: Path) -> None:
        with pytest.raises(TraceError, match="a JSON file"):
            read_jobs(tmp_path / "none.json")
        with pytest.raises(TraceError, match="expected CSV files"):
            quick("paf-fits", tmp_path)
        with pytest.raises(TraceError, match="columns slots"):
            read_curves(tmp_path / CURVES_FILE)
        for content, want in (
            ("Nodes,Runtime\n4,x\n", "Nodes and Runtime"),
            ("Nodes,Runtime\n4,-1\n", "above 0"),
            ("Nodes,Runtime\n4,1\n", "5"),
        ):
            (tmp_path / "runs.csv").write_text(content)
            with pytest.raises(TraceError, match=want):
                read_runs(tmp_path / "runs.csv")

    def test_slots_are_for_the_clusters_only(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["reproduce", "paf-fig4", "--slots", "4"]) == 2
        assert main(["reproduce", "paf-fig10", "--slots", "0"]) == 2
        assert "--slots" in capsys.readouterr().err
