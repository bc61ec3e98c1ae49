"""`fairburst recommend` against a fake API server: declarations from the pods of a namespace, and messages if it finds no bursts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fairburst.cli.errors import FAILED
from fairburst.cli.main import main
from tests.cli.test_ask import CORE, LEASES, LQ, TQ, WORK, Served
from tests.cli.test_eta import PODS, pod
from tests.support.objects import stored_queue

PERIOD, LENGTH, WIDTH = 600, 60, 4


def bursts(served: Served, count: int) -> None:
    """Every ten minutes four pods of one core for a minute, the last ended a minute ago."""
    for burst in range(count):
        started = (count - 1 - burst) * PERIOD + 2 * LENGTH
        for number in range(WIDTH):
            served.put(PODS, pod(f"burst-{burst}", number, started, started - LENGTH))


def served_with(folder: Path, *collections: str) -> Iterator[Served]:
    found = Served(folder, *collections)
    status = {"allocatable": {"cpu": "32", "memory": "64Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}
    found.put("/api/v1/nodes", {"metadata": {"name": "node-0", "labels": {}}, "status": status})
    for namespace in ("batch", "other"):
        found.put("/api/v1/namespaces", {"metadata": {"name": namespace}, "status": {"phase": "Active"}})
    yield found
    found.stop()


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Served]:
    yield from served_with(tmp_path, LQ, TQ, LEASES, *CORE, *WORK)


@pytest.fixture
def without_fairburst(tmp_path: Path) -> Iterator[Served]:
    yield from served_with(tmp_path, LEASES, *CORE, *WORK)


def test_periodic_bursts_become_a_declaration_with_its_class(installed: Served, capsys: pytest.CaptureFixture[str]) -> None:
    bursts(installed, 8)
    assert main(["recommend", "batch", *installed.arguments, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["bursts"], found["class"]) == (7, "Hard")  # the first may be incomplete
    spec = found["manifest"]["spec"]
    assert spec["burst"]["resources"]["cpu"] == "4"
    assert spec["burst"]["durationSeconds"] == LENGTH
    assert spec["arrival"]["periodic"]["periodSeconds"] == pytest.approx(PERIOD, abs=2)


def test_what_is_printed_can_be_applied(installed: Served, capsys: pytest.CaptureFixture[str]) -> None:
    bursts(installed, 8)
    assert main(["recommend", "batch", *installed.arguments]) == 0
    said = capsys.readouterr().out
    manifest = yaml.safe_load(said)
    assert said.startswith("# 7 bursts were seen: 4 cpu")
    installed.put(LQ, stored_queue("LatencyQueue", "batch", "bursts", manifest["spec"]))
    assert main(["explain", "batch/bursts", *installed.arguments]) == 0
    assert "LatencyQueue batch/bursts: Hard" in capsys.readouterr().out


def test_a_queue_that_is_there_is_replaced_in_the_question(installed: Served, capsys: pytest.CaptureFixture[str]) -> None:
    installed.put(TQ, stored_queue("ThroughputQueue", "batch", "tq"))
    bursts(installed, 8)
    assert main(["recommend", "batch", *installed.arguments, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["class"] == "Hard"


def test_a_cluster_without_fairburst_gets_the_declaration_without_class(
    without_fairburst: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    bursts(without_fairburst, 8)
    assert main(["recommend", "batch", *without_fairburst.arguments, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["class"] is None
    assert found["manifest"]["spec"]["burst"]["resources"]["cpu"] == "4"


@pytest.mark.parametrize(("count", "want"), [(0, "of which 0 pods are known"), (3, "2 whole bursts were seen; 5 are needed")])
def test_too_little_history_is_said_with_what_to_do(installed: Served, capsys: pytest.CaptureFixture[str], count: int, want: str) -> None:
    bursts(installed, count)
    assert main(["recommend", "batch", *installed.arguments]) == FAILED
    said = capsys.readouterr().err
    assert want in said
    assert "enforcement: Observe" in said


def test_steady_work_is_no_burst(installed: Served, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(40):
        installed.put(PODS, pod(f"steady-{number}", 0, 60 * (number + 2), 60 * (number + 1)))
    assert main(["recommend", "batch", *installed.arguments]) == FAILED
    assert "no LatencyQueue fits namespace batch" in capsys.readouterr().err
