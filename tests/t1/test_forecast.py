"""The forecaster of an operator on a real control plane: it scores itself on twenty Jobs in a queue, and ends with the operator."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import until
from tests.support.live_cluster import LiveCluster
from tests.support.queues import queue
from tests.support.work import job, namespace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PATIENCE_SECONDS = 240.0
JOBS, PODS = 20, 4
JsonObject = dict[str, Any]


def short_job(number: int) -> JsonObject:
    """Four pods of one cpu that run for 6 to 12 s."""
    return job("batch", f"job-{number:02}", PODS, seconds=round(6 + number * 7 % 20 * 0.3, 1))


def command_line(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def forecasters_of(pid: int) -> list[int]:
    """Return the forecaster processes that this operator has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent == pid and "fairburst.forecast" in command_line(folder.name):
            found.append(int(folder.name))
    return found


@pytest.fixture(scope="module")
def operator(fresh_cluster: Callable[..., Cluster]) -> Iterator[OperatorProcess]:
    cluster = fresh_cluster(nodes=2, node_cpu="8", node_memory="64Gi")
    settings = {"forecast": {"intervalSeconds": 5, "corePercent": 50}}
    with OperatorProcess(cluster, settings, "forecast") as made:
        yield made


def test_the_forecasts_of_twenty_jobs_are_scored_and_no_process_outlives_the_operator(operator: OperatorProcess) -> None:
    cluster = LiveCluster(operator.cluster)
    cluster.create(namespace("batch"), queue("ThroughputQueue", {"enforcement": "Suspend"}, "batch"))
    until(lambda: cluster.stored(short_job(99))["spec"].get("suspend"), PATIENCE_SECONDS, "the policies to hold Jobs")
    cluster.create(*map(short_job, range(JOBS)))
    until(lambda: forecasters_of(operator.pid), PATIENCE_SECONDS, "the forecaster's process")
    (process,) = forecasters_of(operator.pid)
    until(lambda: os.getpriority(os.PRIO_PROCESS, process) == 19, PATIENCE_SECONDS, "the lowest priority")

    def done() -> bool:
        return all(one["status"].get("succeeded") == PODS for one in cluster.items("jobs", "batch"))

    until(done, PATIENCE_SECONDS, "all Jobs to end")
    cluster.create(*map(short_job, range(JOBS, 2 * JOBS)))  # the next question scores the last forecasts

    def outcomes(level: int) -> tuple[float, float]:
        found = operator.metrics()
        of = 'fairburst_forecast_outcomes_total{interval="%d",outcome="%s"}'
        return found.get(of % (level, "inside"), 0.0), found.get(of % (level, "outside"), 0.0)

    until(lambda: sum(outcomes(90)) >= JOBS / 2, PATIENCE_SECONDS, "half of the Jobs to be scored")
    wide, narrow = outcomes(90), outcomes(50)
    spent = operator.metrics()["fairburst_forecast_processor_seconds_total"]
    print(f"inside, outside: 90 % {wide}, 50 % {narrow}; processor time {spent:.1f} s")
    assert sum(wide) == sum(narrow)
    assert narrow[0] <= wide[0]
    assert not [name for name in operator.metrics() if "task_restarts" in name and "forecaster" in name]
    os.kill(operator.pid, signal.SIGKILL)
    until(lambda: not command_line(str(process)), PATIENCE_SECONDS, "the forecaster to end")
