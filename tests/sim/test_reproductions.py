"""The papers' claims on small versions of their experiments; `make reproduce` runs the whole ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fairburst.cli import reproduce as command
from fairburst.cli.main import main
from fairburst.sim.plots import can_plot
from fairburst.sim.reproductions import EXPERIMENTS
from fairburst.sim.reproductions.alpha import MEAN_RATE, demands, replay, suffices
from fairburst.sim.reproductions.result import Options, Reproduction

needs_plots = pytest.mark.skipif(not can_plot(), reason="matplotlib isn't installed (extra sim)")


def quick(name: str) -> Reproduction:
    return EXPERIMENTS[name].run(Options(seed=1, quick=True), lambda part, what: None)


def verdicts(result: Reproduction) -> dict[str, str]:
    return {row.label: row.verdict for row in result.rows}


def test_the_command_offers_every_experiment() -> None:
    assert tuple(EXPERIMENTS) == command.NAMES


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
def test_plots_and_json_are_saved_and_are_the_same_each_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("one", "two"):
        assert main(["reproduce", "bopf-motivation", "--quick", "--json", "--save", str(tmp_path / folder)]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert printed[0] == printed[1] == json.loads((tmp_path / "one" / "bopf-motivation.json").read_text())
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert {"use-bopf-memory.svg", "use-bopf-memory.png"} <= set(names)
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
