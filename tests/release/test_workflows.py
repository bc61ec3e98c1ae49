"""The workflows for a public forge: valid by actionlint, and they run commands that exist."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.build import ensure_tools
from e2e.cluster.versions import actionlint

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


MOST_MINUTES = {"nightly": 350}  # others keep a person waiting


def jobs(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return found


@pytest.mark.slow
def test_actionlint_finds_nothing() -> None:
    program = ensure_tools((actionlint(),))["actionlint"]
    done = subprocess.run([program, *WORKFLOWS], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_make_target_exists(path: Path) -> None:
    wanted = set(re.findall(r"\bmake ([\w.-]+)", json.dumps(jobs(path))))
    defined = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert wanted, "a workflow that runs none of our commands tests nothing of ours"
    assert wanted - {".venv"} <= defined


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_job_has_a_time_limit_and_the_rights_that_it_uses_and_no_more(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= MOST_MINUTES.get(path.stem, 90), name
        assert set(job.get("permissions", {})) <= {"contents", "id-token", "attestations"}, name


def test_a_release_publishes_only_what_was_tested() -> None:
    release = jobs(ROOT / ".github" / "workflows" / "release.yml")
    publishing = {name for name in release if name != "test"}
    assert publishing == {"wheel", "image-and-chart"}
    assert {release[name]["needs"] for name in publishing} == {"test"}
