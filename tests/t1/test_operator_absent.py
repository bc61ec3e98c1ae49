"""The operator is killed while one burst is armed, one open, one over and batch work shrunk. Some things still work, some wait.

Rows of the table "operator absent" in docs/queues.md: one cluster, one kill. Gated pods are in test_gate.py, held Jobs in test_suspend.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from tests.support import work
from tests.support.live_cluster import LiveCluster
from tests.support.objects import latency_spec
from tests.support.queues import queue
from tests.support.work import namespace, pod_spec

pytestmark = pytest.mark.long  # a minute and a half, most of it absence

JsonObject = dict[str, Any]
CPUS = 4 * 16
BURST, PART, ON_SECONDS = 20, 14, 20  # pods of one cpu: a part, too, is more than a fair share, or it would open no window
BATCH_WEIGHT, BATCH_SECONDS = 5, 30
NEXT_SECONDS = 75  # after which the queue whose burst is over may have its next one
INTERARRIVAL = {"armed": 600, "opened": 600, "over": NEXT_SECONDS}


def job(where: str, name: str, pods: int, seconds: int = 600, completions: int | None = None) -> JsonObject:
    return work.job(where, name, pods, pod_spec(memory="1Gi"), seconds=seconds, completions=completions)


class QueuesWithoutOperator(LiveCluster):
    """The cluster whose operator is away."""

    def pods(self, where: str) -> list[JsonObject]:
        """Return the pods that have not ended."""
        return [one for one in self.items("pods", where) if one["status"]["phase"] in {"Pending", "Running"}]

    def window(self, where: str) -> JsonObject:
        status = self.status(where)
        return {**status.get("window", {}), "class": status.get("class")}


def passed(time_text: str) -> bool:
    return not not_before(time_text, time.time())


def not_before(time_text: str, wall: float) -> bool:
    return datetime.fromisoformat(time_text).timestamp() >= wall


@dataclass
class Absence:
    """The state when the operator was killed, and at the end of its absence."""

    site: QueuesWithoutOperator
    operator: OperatorProcess
    quotas: dict[str, float]
    quotas_after: dict[str, float]
    pods_after: dict[str, list[JsonObject]]
    window_after: JsonObject
    killed: float


@pytest.fixture(scope="module")
def absence(fresh_cluster: Callable[..., Cluster]) -> Iterator[Absence]:
    """Killed with a burst armed, one open and one over, and batch work in a full cluster; away until the open one's deadline has passed
    and the third may have its next."""
    site = QueuesWithoutOperator(fresh_cluster(nodes=4, node_cpu="16", node_memory="64Gi"))
    config = {"enforcement": {"floors": {"cpu": "1", "memory": "1Gi"}}}
    with OperatorProcess(site.cluster, config, "absent") as operator:
        prepare(site)
        opened, over = site.window("opened")["deadline"], site.window("over")["armsAt"]
        operator.kill()
        killed = time.time()
        names = (*INTERARRIVAL, "batch")
        quotas = {where: site.enforced_cpu(where) for where in names}
        site.create(job("armed", "burst", BURST), job("opened", "more", BURST - PART), job("over", "next", BURST))
        until(lambda: len(site.running("armed")) == BURST, PATIENCE_SECONDS, "the armed queue's burst to run")
        until(lambda: len(site.pods("opened")) == BURST, PATIENCE_SECONDS, "the rest of the open burst to be admitted")
        until(lambda: passed(opened) and passed(over), PATIENCE_SECONDS, "the absence to be long enough")
        until(lambda: time.time() > killed + BATCH_SECONDS, PATIENCE_SECONDS, "most batch pods of before to end")
        until(lambda: len(site.pods("batch")) <= quotas["batch"], PATIENCE_SECONDS, "those to end that batch has above its level")
        pods = {where: site.pods(where) for where in names}
        yield Absence(site, operator, quotas, {where: site.enforced_cpu(where) for where in names}, pods, site.window("opened"), killed)


def prepare(site: QueuesWithoutOperator) -> None:
    for where in (*INTERARRIVAL, "batch"):
        site.create(namespace(where))
    site.create(*(queue("LatencyQueue", latency_spec(str(BURST), ON_SECONDS, between), where) for where, between in INTERARRIVAL.items()))
    site.create(queue("ThroughputQueue", {"weight": BATCH_WEIGHT}, "batch"))
    for where in INTERARRIVAL:
        site.wait_class(where, "Hard")
        until(lambda where=where: site.enforced_cpu(where) >= BURST, PATIENCE_SECONDS, f"{where} to be armed")  # type: ignore[misc]
    site.create(job("batch", "work", 2 * CPUS, BATCH_SECONDS, completions=10_000))
    until(lambda: len(site.running("batch")) >= CPUS - 4, PATIENCE_SECONDS, "batch to fill the cluster")
    site.create(job("over", "first", BURST, seconds=1))
    until(lambda: site.window("over").get("state") == "Open", PATIENCE_SECONDS, "the first burst's window to open")
    until(lambda: site.window("over").get("state") == "Closed", PATIENCE_SECONDS, "the first burst to be over")
    site.create(job("opened", "burst", PART))
    until(lambda: site.window("opened").get("state") == "Open", PATIENCE_SECONDS, "the second burst's window to open")
    until(lambda: site.enforced_cpu("batch") < CPUS - 2, PATIENCE_SECONDS, "batch to be shrunk for it")


def test_armed_its_burst_is_admitted_in_full_at_its_priority_and_runs_where_batch_ends(absence: Absence) -> None:
    burst = absence.pods_after["armed"]
    assert len(burst) == BURST
    assert {(pod["spec"]["priorityClassName"], pod["spec"]["priority"]) for pod in burst} == {("fairburst-hard", 2000)}


def test_open_the_rest_of_its_burst_is_admitted_and_its_window_does_not_close(absence: Absence) -> None:
    assert len(absence.pods_after["opened"]) == BURST
    assert absence.window_after["state"] == "Open"
    assert passed(absence.window_after["deadline"])
    assert absence.quotas_after["opened"] == absence.quotas["opened"] >= BURST


def test_over_what_lies_outside_of_windows_is_admitted_and_the_next_burst_waits(absence: Absence) -> None:
    assert 1 <= len(absence.pods_after["over"]) <= absence.quotas["over"] < BURST
    assert absence.quotas_after["over"] == absence.quotas["over"]


def test_shrunk_ended_pods_are_replaced_up_to_the_level_and_levels_do_not_move(absence: Absence) -> None:
    assert absence.quotas_after["batch"] == absence.quotas["batch"] < CPUS
    assert len(absence.pods_after["batch"]) <= absence.quotas["batch"]
    fresh = [pod for pod in absence.pods_after["batch"] if not_before(pod["metadata"]["creationTimestamp"], absence.killed)]
    assert len(fresh) >= CPUS - absence.quotas["batch"], "more than what ended above the level"


def test_back_windows_close_the_next_burst_is_admitted_and_batch_gets_what_is_left(absence: Absence) -> None:
    """This test must be the last: the operator comes back."""
    site = absence.site
    absence.operator.start()
    until(lambda: site.window("opened")["state"] != "Open", PATIENCE_SECONDS, "the window whose deadline has passed to close")
    until(lambda: len(site.pods("over")) == BURST, PATIENCE_SECONDS, "the next burst to be admitted in full")
    assert site.window("armed")["state"] == "Open"
    site.delete_jobs("armed")
    site.delete_jobs("opened")
    until(lambda: site.enforced_cpu("batch") > absence.quotas["batch"], PATIENCE_SECONDS, "batch to get back what the bursts have left")
