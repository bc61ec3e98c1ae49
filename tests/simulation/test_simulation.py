"""A seed repeats itself, the operator keeps every invariant, and the simulation finds operators that are broken on purpose."""

from __future__ import annotations

import itertools
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.informer import Informer
from fairburst.kube.engine import Engine
from fairburst.kube.memories import Memories
from fairburst.kube.rounds import recall
from fairburst.kube.rounds.quotas import QuotaRounds
from fairburst.kube.rounds.statuses import StatusRounds
from fairburst.kube.views.status_plan import StatusPlanner
from fairburst.policy import division
from tests.simulation import fuzz as fuzzing
from tests.simulation import run as running
from tests.simulation.fault import Fault
from tests.simulation.faults import Chosen, FaultPlan
from tests.simulation.fuzz import fuzz
from tests.simulation.results import Results
from tests.simulation.run import simulate

REPOSITORY = Path(__file__).parents[2]


def run(*arguments: str) -> str:
    """Return the command's output. A seed that breaks an invariant fails the test."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def first_broken(seeds: Iterable[int], chosen: Chosen | None = None) -> str:
    """Return what broke in the first of these seeds in which an invariant broke, or an empty string."""
    logging.disable(logging.CRITICAL)
    try:
        return next(("; ".join(result.broken) for seed in seeds if (result := simulate(seed, chosen=chosen)).broken), "")
    finally:
        logging.disable(logging.NOTSET)


def damage(plan: FaultPlan, name: str) -> Fault:
    """Draw damage whose name begins so, after the cluster's first minute."""
    return next(fault for _ in itertools.count() if (fault := plan.damage.draw(60.0)).name.startswith(name))


@pytest.fixture(scope="module")
def few_seeds(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Results]:
    """Run the seeds 1 to 5 but 4, which has no fault of its own, and one in which watches are cut off together: the output, the results."""
    file = tmp_path_factory.mktemp("few") / "seeds.jsonl"
    return run("1-3,5,1036", "--results", str(file)), Results(file)


def test_a_few_seeds_break_nothing(few_seeds: tuple[str, Results]) -> None:
    printed, results = few_seeds
    assert "0 seeds broke an invariant" in printed
    assert len(results.finished) == 5


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_seeds_break_nothing() -> None:
    assert "200 seeds" in run("1-200", "--jobs", "2")


def test_a_seed_repeats_itself_in_another_process(few_seeds: tuple[str, Results]) -> None:
    """In the first process it ran after four others, in the second alone."""
    again = re.search("requests: (.*)", run("1036"))
    assert again is not None
    assert again[1] == few_seeds[1].finished["1036"]["digest"]


def test_another_seed_is_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without faults, which would differ by themselves. Clusters of these seeds are small, and a quarter of a quiet run suffices."""
    monkeypatch.setattr(running, "QUIET_RUN_SECONDS", 30.0)
    assert simulate(3, with_faults=False).digest != simulate(5, with_faults=False).digest


def test_a_quarter_of_a_minute_after_a_long_outage_all_is_well() -> None:
    results = [simulate(seed, chosen=lambda plan: [plan.down(20.0, 90.0)], converge_seconds=15.0) for seed in (1, 2, 3)]
    assert [result.broken for result in results] == [[], [], []]


@pytest.mark.parametrize("seed", [1, 2])
def test_hostile_objects_end_no_process_and_fail_no_round(seed: int) -> None:
    found = fuzz(seed, 4_000)
    assert not found.broken, found
    assert not found.problems, "errors that had to be contained"


def test_a_round_that_fails_on_an_object_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fragile(self: Any, view: Any, wall: float, now: float) -> Any:
        assert len(view.stored_pods) < 100
        raise NotImplementedError

    monkeypatch.setattr(Engine, "round", fragile)
    found = fuzz(1, 1_000)
    assert found.failed_rounds
    assert any("NotImplementedError" in problem for problem in found.problems)


def test_a_round_that_never_ends_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first one: each further one of the batch would take as long, and show the same."""
    give = division.give_leftover

    def spin(*_: Any) -> None:
        monkeypatch.setattr(division, "give_leftover", give)
        while True:
            pass

    monkeypatch.setattr(fuzzing, "MOST_SECONDS", 1.0)
    monkeypatch.setattr(division, "give_leftover", spin)
    found = fuzz(1, 1_000)
    assert re.fullmatch(r"more than 1 s of processor time in one batch, at .*test_simulation.py:\d+", found.slow[0])


def test_an_operator_that_leaves_a_queue_alone_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StatusRounds, "_plan", lambda self, *_: None)
    assert "the status of ordinary-batch is of generation None, the spec of 1" in fuzz(1, 500).unserved


def test_an_error_that_concerns_one_queue_alone_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is contained, and nothing else need be amiss."""

    def fragile(self: Any, *_: Any) -> Any:
        raise NotImplementedError

    monkeypatch.setattr(QuotaRounds, "_expiring", fragile)
    assert "an error was contained in batch-0: fairburst could not enforce this queue" in first_broken([1])


def test_an_operator_that_forgets_at_a_restart_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "memory_of", lambda obj: None)
    assert re.search("accounting lost|promise lost", first_broken((5, *range(1, 20))))  # the shortest run that shows it


def test_an_operator_that_leaves_its_memory_damaged_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def leave(self: Any) -> None:
        pass

    monkeypatch.setattr(Memories, "_restore", leave)
    assert "the memory is damaged" in first_broken((1, 2, 3), lambda plan: [damage(plan, "memory corrupt")])


def test_an_operator_that_keeps_unreadable_statuses_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StatusPlanner, "_is_readable", lambda self, entry, current: True)
    broken = first_broken((1, 2, 3), lambda plan: [damage(plan, "status of burst-0/queue scrambled"), plan._both_killed(70.0)])
    assert re.search("accounting lost|promise lost", broken)


def test_an_informer_that_misses_deletions_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def add_only(self: Any, found: Any) -> None:
        self._ahead.clear()
        for key, new in found.items():
            self._put(key, new)

    monkeypatch.setattr(Informer, "_reconcile", add_only)
    assert "not converged" in first_broken((3, *range(1, 20)))  # the shortest run that shows it


def test_an_informer_that_skips_events_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    take: Callable[[Any, bytes], bool] = Informer._apply
    lines = iter(range(10**9))
    monkeypatch.setattr(Informer, "_apply", lambda self, line: take(self, line) if next(lines) % 50 else False)
    assert "not converged" in first_broken((5, *range(1, 20)))  # the shortest run that shows it


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_write_without_the_fence_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fenced = ApiClient._write

    async def unfenced(self: Any, *request: Any) -> Any:
        fence, self.fence = self.fence, None
        try:
            return await fenced(self, *request)
        finally:
            self.fence = fence

    monkeypatch.setattr(ApiClient, "_write", unfenced)
    assert "two writers" in first_broken(range(1, 60))
