"""The papers' claims on small versions of their experiments; `make reproduce` runs the whole ones."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from fairburst.cli import reproduce as command
from fairburst.cli.main import main
from fairburst.sim.plots import can_plot
from fairburst.sim.reproductions import EXPERIMENTS, suite
from fairburst.sim.reproductions.alpha import MEAN_RATE, demands, replay, suffices
from fairburst.sim.reproductions.result import Options, Reproduction

pytestmark = pytest.mark.slow
needs_plots = pytest.mark.skipif(not can_plot(), reason="matplotlib isn't installed (extra sim)")


def quick(name: str) -> Reproduction:
    return EXPERIMENTS[name].run(Options(seed=1, quick=True), lambda part, what: None)


def verdicts(result: Reproduction) -> dict[str, str]:
    return {row.label: row.verdict for row in result.rows}


def test_the_command_offers_every_experiment() -> None:
    assert tuple(EXPERIMENTS) == command.NAMES


def test_a_suite_that_was_stopped_runs_what_is_not_there_from_this_program_with_this_seed(tmp_path: Path) -> None:
    names, options = ("bopf-motivation", "bopf-multi"), Options(seed=1, quick=True)
    made_by = suite.origin(options)
    assert suite.missing(names, made_by, tmp_path) == list(names)
    suite.save(Reproduction("bopf-motivation", "", 1, []), made_by, tmp_path)
    assert suite.missing(names, made_by, tmp_path) == ["bopf-multi"]
    assert suite.missing(names, suite.origin(Options(seed=2, quick=True)), tmp_path) == list(names)
    assert suite.missing(names, suite.origin(Options(seed=1)), tmp_path) == list(names)
    assert suite.missing(names, made_by | {"program": "another"}, tmp_path) == list(names)
    (tmp_path / "bopf-motivation.json").write_text('{"program": ')
    assert suite.missing(names, made_by, tmp_path) == list(names)


def test_the_suite_wants_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "all", "--quick"]) == 2
    assert "expected --save DIR with all" in capsys.readouterr().err


def test_bursts_that_outgrow_their_promise_hurt_batch_under_strict_priority_only() -> None:
    result = quick("bopf-protection")
    assert verdicts(result)["SP / BoPF at x 8"] == "holds"
    assert set(result.data["utilisation_at_largest"]) == {"drf", "sp", "bopf"}
    use = result.data["utilisation_at_largest"]["bopf"]
    assert 0 < use["latency queues with guarantees"]["cpu"] < use["all"]["cpu"]


def test_three_latency_queues_come_out_hard_soft_elastic() -> None:
    seen = verdicts(quick("bopf-multi"))
    for name, granted in (("lq-0", "Hard"), ("lq-1", "Soft"), ("lq-2", "Elastic")):
        assert seen[f"class of {name} is {granted}"] == "holds"
    assert seen["lq-0: drf / bopf"] == seen["lq-1: n-bopf / bopf"] == seen["tq-0: sp / bopf"] == "holds"


def test_large_bursts_are_cut_back_when_the_declared_demand_has_been_served() -> None:
    bopf = quick("bopf-motivation").data["policies"]["bopf"]
    assert bopf["completion_seconds"][:2] == [130.0, 130.0]
    assert bopf["seconds_above_three_quarters"] == pytest.approx([300.0, 300.0], abs=12)


def test_latency_jobs_keep_their_times_beside_batch_queues() -> None:
    seen = verdicts(quick("bopf-lq-times"))
    assert seen["BoPF / SP at 8 TQ"] == "holds"
    assert seen["DRF at 8 TQ / at 1 TQ"] == "holds"


def test_longer_batch_tasks_delay_latency_jobs_that_cannot_evict() -> None:
    assert verdicts(quick("bpf-nonpreemption"))["TPC-H: 50 s / 5 s tasks"] == "holds"


def test_the_strategys_request_serves_the_confidence_and_the_mean_does_not() -> None:
    result = quick("bopf-alpha")
    assert all(row.verdict != "does not hold" for row in result.rows), result.rows


def test_a_request_a_little_too_small_is_found_out() -> None:
    """The binomial test has teeth: a request for 90 % of the bursts does not pass for 95 %."""
    rates = demands(3, 0.2, np.ones((3, 3)), 300)
    request = np.full(3, float(np.quantile(rates[:, 0], 0.88)))
    assert not suffices(replay(rates, request))
    assert suffices(replay(rates, np.full(3, 2 * MEAN_RATE)))


@needs_plots
def test_plots_and_json_are_the_same_each_time_alone_and_in_the_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    assert main(["reproduce", "bopf-motivation", "--quick", "-o", "json", "--save", str(alone)]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((alone / "bopf-motivation.json").read_text())
    with ThreadPoolExecutor(1) as executor:
        done = dict(suite.run_all(["bopf-motivation"], Options(quick=True), together, executor))
    assert list(done) == ["bopf-motivation"]
    names = sorted(path.name for path in alone.iterdir())
    assert {"use-bopf-memory.svg", "use-bopf-memory.png"} <= set(names)
    assert names == sorted(path.name for path in together.iterdir())
    for name in names:
        assert (alone / name).read_bytes() == (together / name).read_bytes(), name
