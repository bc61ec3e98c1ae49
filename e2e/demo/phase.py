"""One phase of the demo: run the workload and draw the table meanwhile."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster import Cluster
from e2e.demo.scenario import Scenario, plans, queue_objects
from e2e.demo.table import Screen, rows
from e2e.harness import OperatorProcess
from e2e.workload.driver import WorkloadDriver
from e2e.workload.metrics import WorkloadRecord
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError

WARM_UP_SECONDS = 20.0  # left out of averages
REFRESH_SECONDS = 1.0
ADMISSION_SECONDS = 60.0
DRAIN_SECONDS = 45.0
QUEUES_PATH = "/apis/fairburst.dev/v1alpha1"
MANAGED_LABEL = "fairburst.dev/managed=true"

Statuses = dict[str, Mapping[str, Any]]


class DemoError(Exception):
    """The demo can't continue."""


@dataclass(frozen=True, slots=True)
class Phase:
    """The record of one phase. idle: mean idle fraction of the cluster's cpu after the warm-up, by the operator's causes; empty without
    the operator."""

    record: WorkloadRecord
    idle: Mapping[str, float]


async def run_phase(
    of: Scenario, kubeconfig: Path, title: str, screen: Screen, *, start_at: float, operator: OperatorProcess | None
) -> Phase:  # fmt: skip
    """Run the workload from `start_at` (seconds since the epoch) and clean up after it. With an operator, show its statuses."""
    operated = operator is not None
    async with await ApiClient.connect(str(kubeconfig)) as client:
        driver = WorkloadDriver(client, "with" if operated else "without", *plans(of), of.capacity)
        try:
            async with asyncio.TaskGroup() as group:
                drawing = group.create_task(_draw(of, client, driver, title=title, screen=screen, operated=operated))
                idle = group.create_task(_idle(of, driver, operator, screen))
                record = await driver.run(of.seconds, start_at=start_at, drain_seconds=DRAIN_SECONDS)
                drawing.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        await driver.cleanup()
        return Phase(record, idle.result())


async def _idle(of: Scenario, driver: WorkloadDriver, operator: OperatorProcess | None, screen: Screen) -> Mapping[str, float]:
    """Return the mean idle fractions of the cluster's cpu by cause, from the end of the warm-up to the end of the phase."""
    if operator is None:
        return {}
    readings = []
    for at in (WARM_UP_SECONDS, of.seconds):
        await asyncio.sleep(max(0.0, at - driver.now))
        try:
            readings.append(await asyncio.to_thread(operator.idle_seconds))
        except OSError as error:
            screen.say(f"the operator did not say why cpu is idle: {error}")
            return {}
    before, after = readings
    return {cause: (seconds - before.get(cause, 0.0)) / (of.seconds - WARM_UP_SECONDS) for cause, seconds in after.items()}


async def _draw(of: Scenario, client: ApiClient, driver: WorkloadDriver, *, title: str, screen: Screen, operated: bool) -> None:
    screen.begin()
    statuses: Statuses = {}
    while True:
        if operated:
            try:
                statuses = await queue_statuses(client)
            except ApiError as error:
                screen.say(f"no status this time: {error}")
        if driver.now >= 0:
            seen = driver.progress
            table = rows(of, seen.held(), seen.wanted(), seen.bursts, now=driver.now, statuses=statuses, clock=dt.datetime.now(dt.UTC))
            waiting = "" if driver.now < of.seconds else ", waiting for open bursts"
            screen.draw(f"{title}, {driver.now:3.0f} s{waiting}", table, driver.now)
        await asyncio.sleep(REFRESH_SECONDS)


async def queue_statuses(client: ApiClient) -> Statuses:
    """Return the status of every queue of the cluster by namespace."""
    lists = [await client.get_json(f"{QUEUES_PATH}/{plural}") for plural in ("latencyqueues", "throughputqueues")]
    return {queue["metadata"]["namespace"]: queue.get("status") or {} for items in lists for queue in items["items"]}


def declare_queues(of: Scenario, cluster: Cluster, started: float) -> None:
    """Label the namespaces as managed and create their queues."""
    cluster.kubectl("label", "--overwrite", "namespace", *of.queues, MANAGED_LABEL)
    objects = {"apiVersion": "v1", "kind": "List", "items": queue_objects(of, started)}
    cluster.kubectl("apply", "-f", "-", input=json.dumps(objects), timeout=60)


async def wait_for_admission(queues: Sequence[str], kubeconfig: Path) -> Statuses:
    """Return the statuses once the operator has decided on every queue and has enforced each with its priority class and quota.

    Raises DemoError, which names the missing queues and shows their statuses.
    """
    deadline = time.monotonic() + ADMISSION_SECONDS
    async with await ApiClient.connect(str(kubeconfig)) as client:
        while True:
            statuses = await queue_statuses(client)
            waiting = [queue for queue in queues if not _decided(statuses.get(queue, {}))]
            if not waiting:
                return statuses
            if time.monotonic() > deadline:
                said = json.dumps({queue: statuses.get(queue, {}).get("conditions") for queue in waiting}, indent=1)
                raise DemoError(f"after {ADMISSION_SECONDS:g} s no class for {', '.join(waiting)}; their conditions: {said}")
            await asyncio.sleep(0.5)


def _decided(status: Mapping[str, Any]) -> bool:
    ready = any(c["type"] == "Enforced" and c["status"] == "True" for c in status.get("conditions") or [])
    return bool(status.get("class")) and (ready or status["class"] == "Rejected")
