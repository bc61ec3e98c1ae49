"""The outcome of `.ci/e2e` on a machine: a skip, a failure or a success; it ends all that it began (docs/decisions/0071).

The script is real. It calls stubs that record their arguments and exit as the case says.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.waiting import PATIENCE_SECONDS, until

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "e2e"
SKIP = 77  # exit status: neither success nor failure
SKIPPED = "E2E SKIPPED, NOTHING WAS SHOWN ON REAL NODES"
NOTED = 'echo "$(basename "$0") $*" >> "$CALLS"\n'
STUBS = {
    "bin/id": "echo 0\n",
    # There is a daemon once the kit has been up; a container that is run says whether it reaches a package index.
    "bin/docker": '[ "$1" = info ] && exec [ -e "$CALLS.up" ]; exit "${INDEX:-0}"\n',
    "shared/kindkit/kindkit": 'if [ "$1" = up ]; then touch "$CALLS.up"; exit "${KIT:-0}"; fi\n',
    "repo/.venv/bin/python": 'case "$*" in *e2e.cluster.cache*) echo /nowhere ;; *"e2e.kind up"*) exit "${UP:-0}" ;; esac\n',
}
MAKEFILE = ".venv/.installed:\n.PHONY: e2e\ne2e:\n\techo make e2e >> $(CALLS); $(TESTS)\n"
OUT_OF_TIME = {"E2E_SECONDS": "7", "E2E_TESTS_SECONDS": "4", "TESTS": "sleep 600"}


@dataclass(frozen=True)
class Machine:
    folder: Path

    @property
    def calls(self) -> list[str]:
        """Return the arguments of the calls to stubs, in order."""
        noted = self.folder / "calls"
        return noted.read_text().splitlines() if noted.exists() else []

    def start(self, **case: str) -> subprocess.Popen[str]:
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        environment = {"PATH": path, "CALLS": str(self.folder / "calls"), "TESTS": "true"} | case
        return subprocess.Popen([str(self.folder / "repo" / ".ci" / "e2e")], env=environment, stdout=subprocess.PIPE, text=True)

    def outcome(self, **case: str) -> tuple[int, str]:
        """Status and what was printed."""
        with self.start(**case) as process:
            printed, _ = process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode, printed

    @property
    def ended(self) -> bool:
        """Return True if the last two calls ended the cluster and the kit's daemon."""
        return [call.split(" --name")[0] for call in self.calls[-2:]] == ["python -m e2e.kind down", "kindkit down"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    for name, body in STUBS.items():
        stub = tmp_path / name
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text(f"#!/bin/sh\n{NOTED}{body}")
        stub.chmod(0o755)
    (tmp_path / "repo" / ".ci").mkdir()
    shutil.copy(SCRIPT, tmp_path / "repo" / ".ci" / "e2e")
    (tmp_path / "repo" / "Makefile").write_text(MAKEFILE)
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        pytest.param({"KIT": "1"}, "the kit has not made a Docker daemon and a node image", id="no Docker can be made"),
        pytest.param({"INDEX": "1"}, "cannot reach a package index", id="images cannot be built"),
        pytest.param({"UP": "3"}, "there is no kind cluster whose nodes run containers", id="nodes do not run"),
        pytest.param({"E2E_SECONDS": "1100"}, "the tests alone may take 1200", id="no time is left"),
        pytest.param(OUT_OF_TIME, "not done when the time was up", id="time is up"),
    ],
)
def test_what_says_nothing_about_fairburst_is_a_skip_with_its_reason(machine: Machine, case: dict[str, str], why: str) -> None:
    status, printed = machine.outcome(**case)
    assert status == SKIP
    assert f"{SKIPPED}: " in printed
    assert why in printed


def test_without_docker_and_without_the_kit_it_is_a_skip(machine: Machine) -> None:
    shutil.rmtree(machine.folder / "shared")
    status, printed = machine.outcome()
    assert (status, "no kit at ../shared/kindkit/kindkit" in printed) == (SKIP, True)
    assert "make e2e" not in machine.calls


@pytest.mark.parametrize(
    ("case", "want_status"),
    [
        pytest.param({}, 0, id="tests that pass"),
        pytest.param({"TESTS": "exit 1"}, 2, id="tests that fail, as make says it"),
        pytest.param({"UP": "1"}, 1, id="an image that does not build"),
    ],
)
def test_success_and_failure_are_told_apart_and_everything_is_ended(machine: Machine, case: dict[str, str], want_status: int) -> None:
    status, printed = machine.outcome(**case)
    assert status == want_status
    assert SKIPPED not in printed
    assert machine.ended


def test_it_ends_everything_when_it_is_told_to_stop(machine: Machine) -> None:
    with machine.start(TESTS="sleep 600") as process:
        until(lambda: "make e2e" in machine.calls, PATIENCE_SECONDS, "the tests to begin")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 143
    assert machine.ended
