"""Five minutes of the operator under load, recorded; decided again from the recording; and run again in the simulator.

Issue 5: "a five-minute T1 run replayed in the simulator from its recorded snapshots gives the same classes and shares within 2 %".
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.workload.driver import WorkloadDriver
from e2e.workload.metrics import Amounts, WorkloadRecord
from e2e.workload.plans import LatencyPlan
from fairburst.cli.main import main
from fairburst.kube.api.client import ApiClient
from tests.support.five_minutes import CONFIG, NODE_CPU, NODE_MEMORY, NODES, SECONDS, WITHIN, compare, plans, queue_documents

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Run:
    """The plan and its record. `started`: seconds since the epoch."""

    planned: Sequence[LatencyPlan]
    started: float
    record: WorkloadRecord
    recording: Path


@pytest.fixture(scope="module")
def run(fresh_cluster: Callable[..., Cluster], tmp_path_factory: pytest.TempPathFactory) -> Run:
    recording = tmp_path_factory.mktemp("recording") / "rounds.jsonl"
    cluster = fresh_cluster(nodes=NODES, node_cpu="32", node_memory="64Gi")
    # Like the simulator's `bopf`: without small jobs, and therefore without lead time.
    plain = CONFIG | {"smallJobs": {"enabled": False}}
    with OperatorProcess(cluster, plain | {"recording": {"file": str(recording), "maxMegabytes": 1000}}, "replay"):
        started, planned = float(round(time.time()) + 45), plans()
        for plan in planned:
            cluster.kubectl("create", "namespace", plan.namespace)
        for document in queue_documents(started):  # one by one, since queues are admitted in order of creation, in whole seconds
            admit(cluster, document)
        record = asyncio.run(drive(cluster, planned, started))
    return Run(planned, started, record, recording)


CLASSES = {"serving": "Hard", "reports": "Soft"}


def admit(cluster: Cluster, document: dict[str, Any]) -> None:
    """Create the queue, and wait for the class that it is meant to get."""
    namespace, kind = document["metadata"]["namespace"], document["kind"].lower()
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump(document))
    want = f"--for=jsonpath={{.status.class}}={CLASSES.get(namespace, 'Elastic')}"
    cluster.kubectl("wait", f"{kind}/queue", "-n", namespace, want, "--timeout=60s", timeout=70)
    time.sleep(1.0)


async def drive(cluster: Cluster, planned: Sequence[LatencyPlan], started: float) -> WorkloadRecord:
    capacity = Amounts(NODES * NODE_CPU, NODES * NODE_MEMORY)
    async with await ApiClient.connect(str(cluster.kubeconfig)) as client:
        return await WorkloadDriver(client, "run", planned, [], capacity).run(SECONDS, start_at=started, drain_seconds=0.0)


def test_every_recorded_round_is_decided_again_as_it_was(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(run.recording), "--output", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["rounds"] > 1000
    assert said["seconds"] > SECONDS
    assert said["differences"] == []


def test_the_simulator_gives_the_same_classes_and_shares(run: Run) -> None:
    found = compare(run.recording, run.started, run.planned, fmean(run.record.overheads))
    print(f"\n{fmean(run.record.overheads):.2f} s beside the work\n{found.table()}")
    assert found.simulated_classes == found.recorded_classes
    assert found.simulated_shares == pytest.approx(found.recorded_shares, abs=WITHIN)
