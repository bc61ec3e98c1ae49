"""A mode of enforcement and a kind of work need their module and a line in a registry, and no other change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def outcome() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.additions"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_crd_permits_and_describes_a_registered_mode(outcome: dict[str, Any]) -> None:
    assert outcome["enum"][-1] == "Toy"
    assert outcome["description"].endswith(" Toy: as a toy.")


def test_a_queue_in_a_registered_mode_is_held_as_the_mode_says_and_its_condition_tells(outcome: dict[str, Any]) -> None:
    """100 gated pods of one core on 64 cores: 64 are released. The quota has no limits."""
    assert outcome["condition"] == ["True", "Toy", "it is held as a toy is."]
    assert outcome["holds"] == "Pods"
    assert outcome["gated"] == 100 - 64
    assert outcome["quota"] == {}


def test_a_registered_kind_is_watched_permitted_and_counts_all_its_pods(outcome: dict[str, Any]) -> None:
    """A toy that wants 120 pods of which 100 exist."""
    assert outcome["watched"] == "/apis/toys.example.com/v1/toys"
    assert outcome["rules"] == [
        {"apiGroups": ["toys.example.com"], "resources": ["toys"], "verbs": ["get", "list", "watch", "patch"]},
    ]
    assert outcome["demand"] == "120"
