"""`fairburst plan` on a control plane with an operator: the bursts that it foretells as met are those that the queues' statuses count."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess, run_command
from e2e.waiting import until
from fairburst.cli.errors import DONE, WORSE
from tests.support.live_cluster import LiveCluster
from tests.support.queues import queue
from tests.support.work import namespace, task_job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
PATIENCE_SECONDS = 240.0
INTERARRIVAL_SECONDS, HOURS = 110, "0.029"  # 104 s: one burst of each queue is due within them
BATCH_SECONDS, BATCH_CPU = 60, 20
BURSTS = {"tight": (40, 15, 36), "patient": (2, 10, 100)}  # cpu, duration, deadline; of 64 cpu


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Iterator[LiveCluster]:
    """Two nodes of 32 cpu, two hard queues, and a batch queue that may use 20 cpu and would use all."""
    cluster = fresh_cluster(nodes=2, node_cpu="32", node_memory="64Gi")
    with OperatorProcess(cluster, {}, "plan"):
        made = LiveCluster(cluster)
        made.create(namespace("batch"), queue("ThroughputQueue", {"limits": {"cpu": str(BATCH_CPU)}}, "batch"))
        for name, (cpu, duration, deadline) in BURSTS.items():
            burst = {"resources": {"cpu": str(cpu), "memory": f"{cpu}Gi"}, "durationSeconds": duration, "deadlineSeconds": deadline}
            spec = {"burst": burst, "arrival": {"sporadic": {"minInterarrivalSeconds": INTERARRIVAL_SECONDS}}}
            made.create(namespace(name), queue("LatencyQueue", spec, name))
            made.wait_class(name, "Hard")
        made.create(task_job("batch", "train", 200, 2000, run_seconds=f"{BATCH_SECONDS}s"))
        until(lambda: made.get("job", "train", "batch")["status"].get("succeeded"), PATIENCE_SECONDS, "a pod whose length is known")
        yield made


def told(site: LiveCluster, change: dict[str, Any], folder: Path, status: int) -> dict[str, dict[str, int]]:
    """Return the bursts due and met of each latency queue, before and after a queue is created or changed."""
    change["metadata"].pop("creationTimestamp")
    (folder / "queue.yaml").write_text(yaml.safe_dump(change))
    until(lambda: all(site.status(name)["window"]["state"] == "Armed" for name in BURSTS), PATIENCE_SECONDS, "bursts that may come")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KUBECONFIG", str(site.cluster.kubeconfig))
        done = run_command("plan", "-f", str(folder / "queue.yaml"), "--hours", HOURS, "-o", "json")
    assert done.returncode == status, (done.stdout, done.stderr)
    found = {one["queue"].partition("/")[0]: one["bursts"] for one in json.loads(done.stdout)}
    assert not found["tight"]["guessedLengths"]
    return {name: {side: (found[name][side]["met"], found[name][side]["due"]) for side in ("before", "after")} for name in BURSTS}


def counted(site: LiveCluster, round_: int) -> dict[str, tuple[int, int]]:
    """Let a burst come to each latency queue. Return the bursts met, and all, that the statuses have counted since."""
    before = {name: site.status(name).get("history", {}) for name in BURSTS}
    site.create(*(task_job(name, f"burst-{round_}", cpu, cpu, run_seconds=f"{length}s") for name, (cpu, length, _) in BURSTS.items()))

    def more(name: str, part: str) -> int:
        return int(site.status(name).get("history", {}).get(part, 0)) - int(before[name].get(part, 0))

    until(lambda: all(more(name, "bursts") for name in BURSTS), PATIENCE_SECONDS, "bursts to be counted")
    return {name: (more(name, "met"), more(name, "bursts")) for name in BURSTS}


def test_a_queue_without_work_leaves_all_bursts_met(site: LiveCluster, tmp_path: Path) -> None:
    foretold = told(site, queue("ThroughputQueue", {"weight": 2}, "more"), tmp_path, DONE)
    assert foretold == {name: {"before": (1, 1), "after": (1, 1)} for name in BURSTS}
    site.create(namespace("more"), queue("ThroughputQueue", {"weight": 2}, "more"))
    site.wait_class("more")
    happened = counted(site, 1)
    assert happened == {name: one["after"] for name, one in foretold.items()}


def test_batch_work_without_its_limit_makes_the_tight_burst_miss_and_not_the_patient_one(site: LiveCluster, tmp_path: Path) -> None:
    """This test must be the last, since it changes a queue. No queue's class changes."""
    foretold = told(site, queue("ThroughputQueue", {}, "batch"), tmp_path, WORSE)
    assert foretold == {"tight": {"before": (1, 1), "after": (0, 1)}, "patient": {"before": (1, 1), "after": (1, 1)}}
    site.patch("throughputqueue", "queue", "batch", {"spec": {"limits": None}})
    until(lambda: site.get("job", "train", "batch")["status"].get("active", 0) > 60, PATIENCE_SECONDS, "batch work on the whole pool")
    happened = counted(site, 2)
    assert happened == {name: one["after"] for name, one in foretold.items()}
