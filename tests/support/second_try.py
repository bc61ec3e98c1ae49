"""Run pytest, run failed tests a second time under the load of the first try, and keep a record of every first failure.

`python -m tests.support.second_try LABEL PYTEST-ARGUMENTS...`. The exit status is pytest's, with one addition: a test that needed its
second try in the previous run of the same label as well fails the run (docs/decisions/0004-what-fails-runs-once-more.md).

The record is in `first-failures/LABEL.jsonl` in the cache folder, so that it outlives a checkout.
`python -m tests.support.second_try --show` prints the last run of every label.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.cluster.cache import cache_folder
from tests.support.first_failures import VARIABLE

TESTS_FAILED = 1  # pytest's exit status; any other one says that a second try would show nothing
KEPT_RUNS = 50
LINE = "=" * 78
BUSY_LOOP = "while True: pass"


@dataclass(frozen=True)
class FirstFailure:
    """A test that failed at first: its error then, and whether it failed again."""

    test: str
    error: str
    failed_again: bool


@dataclass(frozen=True)
class Run:
    """One run of a label: when (seconds since the epoch), of which commit, and its first failures."""

    at: float
    commit: str
    failures: tuple[FirstFailure, ...]

    @property
    def flaky(self) -> set[str]:
        """Tests that failed at first and passed then."""
        return {one.test for one in self.failures if not one.failed_again}


def record_of(label: str) -> Path:
    """The file that keeps the runs of a label, one JSON object a line."""
    return cache_folder() / "first-failures" / f"{label}.jsonl"


def past_runs(record: Path) -> list[Run]:
    """The runs that are on file, oldest first."""
    if not record.exists():
        return []
    runs = []
    for line in record.read_text().splitlines():
        value = json.loads(line)
        runs.append(Run(value["at"], value["commit"], tuple(FirstFailure(**one) for one in value["failures"])))
    return runs


def keep(record: Path, run: Run) -> None:
    """Add a run to the file, and drop those older than the last `KEPT_RUNS`."""
    runs = [*past_runs(record), run][-KEPT_RUNS:]
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text("".join(json.dumps(asdict(one)) + "\n" for one in runs))


def pytest_run(arguments: Sequence[str]) -> tuple[int, dict[str, str]]:
    """Run pytest. Return its exit status and the error of each failed test."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "failures"
        file.touch()
        command = [sys.executable, "-m", "pytest", "-p", "tests.support.first_failures", *arguments]
        status = subprocess.run(command, env=os.environ | {VARIABLE: str(file)}, check=False).returncode
        lines = [json.loads(line) for line in file.read_text().splitlines()]
    return status, {line["test"]: line["error"] for line in lines}


def workers(arguments: Sequence[str]) -> int:
    """Return how many tests the first try ran in parallel (`-n N`)."""
    return int(arguments[arguments.index("-n") + 1]) if "-n" in arguments else 1


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep `processes` processors busy."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def run(label: str, arguments: Sequence[str]) -> int:
    """Run both tries of a label's tests. Return the exit status."""
    status, errors = pytest_run(arguments)
    if status != TESTS_FAILED:
        keep(record_of(label), Run(time.time(), commit(), ()))
        return status
    print(f"\n{LINE}\nFAILED AT FIRST (above): once more, under the same load\n{LINE}", flush=True)
    with load(workers(arguments) - 1):
        status, again = pytest_run(["-v", *arguments, "--last-failed", "--last-failed-no-failures", "none"])
    failures = tuple(FirstFailure(test, error, test in again) for test, error in sorted(errors.items()))
    now = Run(time.time(), commit(), failures)
    before = past_runs(record_of(label))
    keep(record_of(label), now)
    repeated = now.flaky & (before[-1].flaky if before else set())
    for test in sorted(repeated):
        print(f"NEEDED ITS SECOND TRY IN TWO RUNS IN A ROW, mend it: {test}", flush=True)
    return status or (TESTS_FAILED if repeated else 0)


def commit() -> str:
    """Return the checkout's commit; empty outside of a checkout."""
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()


def show() -> None:
    """Print the first failures of the last run of every label."""
    for record in sorted((cache_folder() / "first-failures").glob("*.jsonl")):
        runs = past_runs(record)
        if runs and runs[-1].failures:
            print(f"\n{LINE}\nfirst failures of {record.stem} at {runs[-1].commit} (kept in {record}):")
            for one in runs[-1].failures:
                print(f"- {one.test}: {'failed again' if one.failed_again else 'passed the second time'}\n{one.error}\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--show"]:
        show()
    else:
        sys.exit(run(sys.argv[1], sys.argv[2:]))
