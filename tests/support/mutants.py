"""Run the mutants that `make mutate` has generated against the tests that reach them; in the copy under build/mutation/mutants.

mutmut generates the mutants and notes which test calls which function. Its own runner starts pytest again for each mutant, and most of
its time goes into collecting tests. Here they are collected once; each mutant is a fork in which the tests run one after the other
until one fails, those first that killed other mutants of the same function, then the fastest.

    python -m tests.support.mutants RESULTS [MODULE ...]    # MODULE: bopf, drf, ...; RESULTS: JSON lines

Mutants listed there as killed are not run again. MUTATION_LONGEST_TEST leaves longer tests out (in seconds under mutmut's trampolines):
most mutants need no long test, so a first pass without them and a second with all, for what is left, is faster than one pass.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

SURVIVED, OUT_OF_TIME = "", "out of time"
UNCHANGED = "unchanged"  # the control: no mutant has this name, so that every test has to pass


@dataclass
class Ground:
    """Mutants by name, the tests that reach each function, and how long they take."""

    mutants: list[str]
    tests_of: dict[str, list[str]]
    seconds: dict[str, float]
    longest: float
    killers: defaultdict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))

    @classmethod
    def read(cls, modules: Sequence[str], known: set[str], longest: float) -> Ground:
        stats = json.loads(Path("mutmut-stats.json").read_text())
        mutants = [
            name
            for module in modules
            for name in json.loads(Path(f"src/fairburst/policy/{module}.py.meta").read_text())["exit_code_by_key"]
            if name not in known
        ]
        return cls(mutants, stats["tests_by_mangled_function_name"], stats["duration_by_test"], longest)

    def order(self, mutant: str) -> list[str]:
        """Tests worth running against `mutant`, likely killers first."""
        if mutant == UNCHANGED:
            return [test for test, seconds in self.seconds.items() if seconds <= self.longest]
        function = function_of(mutant)
        likely = self.killers[function]
        rest = sorted(self.tests_of.get(function, []), key=lambda test: self.seconds.get(test, 0.0))
        return [*likely, *(test for test in rest if test not in likely and self.seconds.get(test, 0.0) <= self.longest)]


def function_of(mutant: str) -> str:
    return mutant.rpartition("__mutmut_")[0]


class Loop:
    """In place of pytest's loop over the collected tests: one fork a mutant, `children` at a time."""

    def __init__(self, ground: Ground, results: Path, children: int) -> None:
        self.ground, self.results, self.children = ground, results, children

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        running: dict[int, tuple[str, int]] = {}
        for mutant in [UNCHANGED, *self.ground.mutants]:
            if len(running) >= self.children:
                self._reap(running)
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(reader)
                self._try(mutant, [items[test] for test in self.ground.order(mutant) if test in items], writer)
            os.close(writer)
            running[pid] = (mutant, reader)
        while running:
            self._reap(running)
        return True

    def _try(self, mutant: str, items: Sequence[pytest.Item], writer: int) -> None:
        """Run in the child. It never returns."""
        gc.disable()  # it would copy the pages that the child shares with its parent, and the child is short-lived
        from mutmut.mutation.trampoline import set_mutant_under_test  # only `make mutate` installs it

        set_mutant_under_test(mutant)
        for item in items:
            # a mutant that loops forever is ended by the alarm, in processor time
            signal.setitimer(signal.ITIMER_VIRTUAL, 2.0 + 5.0 * self.ground.seconds.get(item.nodeid, 0.0))
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=None)):
                os.write(writer, item.nodeid.encode())
                os._exit(1)
        os._exit(0)

    def _reap(self, running: dict[int, tuple[str, int]]) -> None:
        pid, status = os.wait()
        mutant, reader = running.pop(pid)
        with os.fdopen(reader, "rb") as pipe:
            killer = pipe.read().decode()
        if killer:
            self.ground.killers[function_of(mutant)][killer] = None
        code = os.waitstatus_to_exitcode(status)
        verdict = killer or (SURVIVED if code == 0 else OUT_OF_TIME)
        if mutant == UNCHANGED:
            if verdict != SURVIVED:
                raise AssertionError(f"expected every test to pass without a mutant, found {verdict}")
            return
        with self.results.open("a") as file:
            file.write(json.dumps({"mutant": mutant, "killed_by": verdict}) + "\n")


def read_results(results: Path) -> Iterator[tuple[str, str]]:
    """Return (mutant, its killer or SURVIVED), the newest last."""
    if results.exists():
        for line in results.read_text().splitlines():
            entry = json.loads(line)
            yield entry["mutant"], entry["killed_by"]


def main(results: Path, modules: Sequence[str]) -> None:
    longest = float(os.environ.get("MUTATION_LONGEST_TEST", "inf"))
    known = {mutant for mutant, killer in read_results(results) if killer != SURVIVED}
    ground = Ground.read(modules, known, longest)
    loop = Loop(ground, results, int(os.environ.get("MUTATION_CHILDREN", "2")))
    arguments = ["-q", "-p", "no:cacheprovider", "--tb=no", "tests/policy", "tests/properties"]
    pytest.main(arguments, plugins=[loop])
    verdicts = dict(read_results(results))
    survivors = [mutant for mutant, killer in verdicts.items() if killer == SURVIVED]
    print(f"{len(verdicts)} mutants, {len(survivors)} survive")
    print("\n".join(survivors))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
