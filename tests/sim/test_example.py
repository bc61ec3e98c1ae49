"""`fairburst simulate --example`: it prints the figures of its runs, and they support the claims of the README."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fairburst.cli.main import main
from fairburst.sim import example
from fairburst.sim.example import GREED, POLICIES, Outcome, conclusion, outcomes
from fairburst.sim.generate import generate
from fairburst.sim.workload import DagJob


def told(part: float, name: str) -> None:
    assert 0.0 <= part <= 1.0
    assert name in POLICIES.values()


@pytest.fixture(scope="module")
def found() -> list[Outcome]:
    return outcomes(1, told)


def test_honest_bursts_end_in_time_under_fairburst_and_not_under_fair_sharing(found: list[Outcome]) -> None:
    by_case = {(one.policy, one.greedy): one for one in found}
    assert by_case["fairburst", False].met == 1.0
    assert by_case["fair sharing", False].met < 0.6
    assert by_case["fairburst", False].batch_seconds <= 1.05 * by_case["fair sharing", False].batch_seconds


def test_a_greedy_queue_harms_batch_work_under_strict_priority_and_hardly_under_fairburst(found: list[Outcome]) -> None:
    by_case = {(one.policy, one.greedy): one for one in found}
    fair = by_case["fair sharing", True].batch_seconds
    assert by_case["strict priority", True].batch_seconds >= 1.2 * fair
    assert by_case["fairburst", True].batch_seconds <= 1.05 * fair


def test_the_sentences_hold_the_figures_of_the_runs() -> None:
    cases = [(name, greedy) for greedy in (False, True) for name in POLICIES.values()]
    seconds = dict(zip(cases, [(100.0, 600.0), (30.0, 610.0), (40.0, 630.0), (500.0, 700.0), (90.0, 1050.0), (480.0, 690.0)], strict=True))
    first, second = conclusion([Outcome(*case, 7, burst, 1.0, batch) for case, (burst, batch) in seconds.items()])
    assert first == "Bursts end after 40 s under fairburst and after 100 s under fair sharing; batch jobs take 5% longer."
    assert f"sends {GREED} times what it declared makes batch jobs take 50% longer under strict priority, and 0% longer" in second


def test_the_command_prints_the_runs_in_each_form(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def few(name: str, seed: int) -> list[DagJob]:
        return list(generate(name, seed))[:20]

    runs: list[Outcome] = []

    def once(seed: int, progress: Callable[[float, str], None]) -> list[Outcome]:
        runs[:] = runs or outcomes(seed, progress)
        return runs

    monkeypatch.setattr(example, "generate", few)
    monkeypatch.setattr(example, "outcomes", once)
    assert main(["simulate", "--example", "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [(one["policy"], one["greedy"]) for one in printed["runs"]] == [
        (name, greedy) for greedy in (False, True) for name in POLICIES.values()
    ]
    assert main(["simulate", "--example"]) == 0
    text = capsys.readouterr().out
    assert text.count("strict priority  ") == 2
    assert max(map(len, text.splitlines()[1:])) <= 80


@pytest.mark.parametrize("more", [["--trace", "bb"], ["--save", "somewhere"]])
def test_a_trace_and_a_folder_have_no_meaning_with_the_example(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--example", *more]) == 2
    assert f"expected none with --example, found {more[1]}" in " ".join(capsys.readouterr().err.split())


def test_without_a_trace_the_message_names_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate"]) == 2
    assert "expected a file, or --example, found neither" in capsys.readouterr().err
