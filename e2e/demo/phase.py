"""One phase of the demo: run the workload and draw the table meanwhile."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from e2e.cluster import Cluster
from e2e.demo.scenario import Scenario, plans, queue_objects
from e2e.demo.table import Screen, rows
from e2e.workload.driver import WorkloadDriver
from e2e.workload.metrics import WorkloadRecord
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError

REFRESH_SECONDS = 1.0
ADMISSION_SECONDS = 60.0
DRAIN_SECONDS = 45.0
QUEUES_PATH = "/apis/fairburst.dev/v1alpha1"
MANAGED_LABEL = "fairburst.dev/managed=true"

Statuses = dict[str, Mapping[str, Any]]


class DemoError(Exception):
    """The demo can't continue."""


async def run_phase(of: Scenario, kubeconfig: Path, title: str, screen: Screen, *, start_at: float, operated: bool) -> WorkloadRecord:
    """Run the workload from `start_at` (seconds since the epoch) and clean up after it. `operated`: show the operator's statuses."""
    async with await ApiClient.connect(str(kubeconfig)) as client:
        driver = WorkloadDriver(client, "with" if operated else "without", *plans(of), of.capacity)
        try:
            async with asyncio.TaskGroup() as group:
                drawing = group.create_task(_draw(of, client, driver, title=title, screen=screen, operated=operated))
                record = await driver.run(of.seconds, start_at=start_at, drain_seconds=DRAIN_SECONDS)
                drawing.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        await driver.cleanup()
        return record


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
