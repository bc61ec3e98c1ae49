"""The wheel without any extra: most commands work, the others name the extra that they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = ("scipy", "kubernetes", "numba", "matplotlib", "pyarrow")
RUN = f"""\
import sys
sys.modules.update(dict.fromkeys({EXTRAS!r}))  # as if none were installed
from fairburst.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def without_extras(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", RUN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, cwd=ROOT)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["simulate", "--trace", "bb", "--trace-format", "generated", "--task-factor", "0.01", "--until", "50"], id="simulate"),
        pytest.param(["plan", "--from", "examples/snapshot.jsonl", "--capacity", "+20%"], id="plan"),
        pytest.param(["manifests"], id="manifests"),
        pytest.param(["reproduce", "bopf-motivation", "--quick"], id="reproduce"),
        pytest.param(["reproduce", "bopf-errors", "--quick"], id="reproduce, at length", marks=pytest.mark.slow),
    ],
)
def test_a_command_that_needs_no_extra_works_without_any(arguments: list[str]) -> None:
    done = without_extras(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_a_command_that_asks_a_cluster_by_kubeconfig_names_the_extra(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text("{}")
    done = without_extras("get", "--kubeconfig", str(kubeconfig))
    assert done.returncode != 0
    assert done.stderr.strip().endswith("found none; install it: pip install 'fairburst[cluster]'")
    assert len(done.stderr.splitlines()) == 1


def test_an_experiment_that_needs_scipy_names_the_extra() -> None:
    done = without_extras("reproduce", "bopf-alpha", "--quick")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("found none; install it: pip install 'fairburst[operator]'")
