"""A test that fails at first in `make test` runs once more, on record, and fails the run the second time in a row (docs/decisions/0004).

These tests write the tests that the real pytest runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.second_try import FirstFailure, past_runs

ROOT = Path(__file__).resolve().parents[2]
PASSES = "def test_it(): pass\n"
FAILS = "def test_it(): assert 1 == 2, 'as ever'\n"
# Fails at its first run in a folder, and passes at the next.
FAILS_AT_FIRST = """
from pathlib import Path
def test_it():
    seen = Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("the machine was slow")
"""


@dataclass
class Checkout:
    folder: Path

    def write(self, body: str) -> None:
        (self.folder / "test_sample.py").write_text(body)
        (self.folder / "test_sample.seen").unlink(missing_ok=True)

    def run(self, *arguments: str) -> tuple[int, str]:
        outer = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}  # these tests may have workers, too
        own = {"FAIRBURST_CACHE": str(self.folder / "cache"), "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        environment = outer | own  # loading plugins would take longer than all else
        command = [sys.executable, "-m", "tests.support.second_try", *arguments]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout

    def tests(self) -> tuple[int, str]:
        return self.run("sample", "test_sample.py", "--rootdir", str(self.folder))

    @property
    def last(self) -> tuple[FirstFailure, ...]:
        return past_runs(self.folder / "cache" / "first-failures" / "sample.jsonl")[-1].failures


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_tests_that_pass_run_once_and_leave_no_failure_on_record(checkout: Checkout) -> None:
    checkout.write(PASSES)
    status, printed = checkout.tests()
    assert (status, "FAILED AT FIRST" in printed, checkout.last) == (0, False, ())


def test_a_test_that_fails_twice_fails_the_run_with_its_error_on_record(checkout: Checkout) -> None:
    checkout.write(FAILS)
    status, _ = checkout.tests()
    assert status == 1
    (failure,) = checkout.last
    assert (failure.test, failure.failed_again) == ("test_sample.py::test_it", True)
    assert "as ever" in failure.error


def test_a_test_that_passes_the_second_time_passes_the_run_with_its_first_error_on_record(checkout: Checkout) -> None:
    checkout.write(FAILS_AT_FIRST)
    status, printed = checkout.tests()
    assert (status, "FAILED AT FIRST" in printed) == (0, True)
    (failure,) = checkout.last
    assert not failure.failed_again
    assert "the machine was slow" in failure.error
    _, shown = checkout.run("--show")
    assert "test_sample.py::test_it: passed the second time" in shown
    assert "the machine was slow" in shown


def test_a_test_that_needs_its_second_try_in_two_runs_in_a_row_fails_the_second_run(checkout: Checkout) -> None:
    checkout.write(FAILS_AT_FIRST)
    assert checkout.tests()[0] == 0
    checkout.write(FAILS_AT_FIRST)
    status, printed = checkout.tests()
    assert status == 1
    assert "IN TWO RUNS IN A ROW, mend it: test_sample.py::test_it" in printed


def test_a_clean_run_between_two_second_tries_is_forgiven(checkout: Checkout) -> None:
    for body in (FAILS_AT_FIRST, PASSES, FAILS_AT_FIRST):
        checkout.write(body)
        assert checkout.tests()[0] == 0


def test_a_run_that_pytest_cannot_begin_is_not_tried_again(checkout: Checkout) -> None:
    status, printed = checkout.run("sample", "no_such_file.py")
    assert status == 4
    assert "FAILED AT FIRST" not in printed


def test_the_second_try_has_as_many_busy_processes_beside_it_as_the_first_had_other_workers(checkout: Checkout) -> None:
    """Counted from within the test: processes that run the busy loop under the same parent as pytest."""
    checkout.write("""
import os, subprocess
from pathlib import Path
def test_it():
    seen = Path(__file__).with_suffix(".seen")
    parent = os.getppid()
    if "PYTEST_XDIST_WORKER" in os.environ:  # worker, pytest, the runner
        parent = int(Path(f"/proc/{parent}/stat").read_text().rsplit(")", 1)[1].split()[1])
    listed = subprocess.run(["ps", "--ppid", str(parent), "-o", "args="], capture_output=True, text=True).stdout
    busy = listed.count("while True: pass")
    assert seen.exists() or seen.touch()
    Path(__file__).with_suffix(".busy").write_text(str(busy))
""")
    status, _ = checkout.run("sample", "-p", "xdist", "-n", "2", "test_sample.py", "--rootdir", str(checkout.folder))
    assert (status, (checkout.folder / "test_sample.busy").read_text()) == (0, "1")
