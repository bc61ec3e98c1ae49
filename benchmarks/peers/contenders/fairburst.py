"""fairburst in each mode, with and without reclaim."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from importlib.metadata import version

from typing_extensions import override

from benchmarks.peers.contender import CLIENT_BURST, CLIENT_QPS, JsonObject, PeerError, Site, in_groups
from benchmarks.peers.process import ControlledContender
from benchmarks.peers.scenarios import Queue
from e2e.harness import OperatorProcess

READY_SECONDS = 120.0


class Fairburst(ControlledContender):
    """Every queue is a LatencyQueue or a ThroughputQueue in one mode."""

    process = "fairburst"

    def __init__(self, mode: str, reclaim: bool = False) -> None:
        super().__init__()
        self.mode, self.evicts, self.gangs = mode, reclaim, mode in {"Gate", "Suspend"}
        self.name = f"fairburst-{mode.lower()}{'-reclaim' if reclaim else ''}"
        self.about = f"fairburst, {mode} mode{', reclaim: Evict' if reclaim else ''}"
        self.version = version("fairburst")
        self._gang = False

    @override
    async def start(self, site: Site) -> None:
        self._gang = site.scenario.gang
        config = {
            "log": {"level": "INFO"},
            "writes": {"perSecond": CLIENT_QPS, "burst": CLIENT_BURST},
            # No other contender spares young pods; the default minute would leave fairburst out of the comparison.
            "reclaim": {"minimumRunSeconds": 0},
        }
        self._controller = await asyncio.to_thread(OperatorProcess, site.cluster, config, "peers")
        await in_groups([site.client.create(*self._queue(queue, site.start)) for queue in site.scenario.queues])
        await _classes(site)

    def _queue(self, queue: Queue, start: float) -> tuple[str, JsonObject]:
        plural, kind = "throughputqueues", "ThroughputQueue"
        spec: JsonObject = {"enforcement": self.mode, "weight": queue.weight}
        if self.evicts:
            spec["reclaim"] = "Evict"
        promise = queue.promise
        if promise is not None:
            plural, kind = "latencyqueues", "LatencyQueue"
            resources = {"cpu": str(promise.pods), "memory": f"{promise.pods}Gi"}
            spec["burst"] = {"resources": resources, "durationSeconds": promise.seconds, "deadlineSeconds": promise.deadline}
            if promise.first_at is None:
                spec["arrival"] = {"sporadic": {"minInterarrivalSeconds": promise.period}}
            else:
                first = datetime.fromtimestamp(round(start + promise.first_at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                spec["arrival"] = {"periodic": {"periodSeconds": promise.period, "firstArrival": first}}
        body = {"apiVersion": "fairburst.dev/v1alpha1", "kind": kind, "metadata": {"name": queue.name}, "spec": spec}
        return f"/apis/fairburst.dev/v1alpha1/namespaces/{queue.name}/{plural}", body

    @override
    def dress(self, queue: Queue, job: JsonObject) -> JsonObject:
        if self._gang and self.mode == "Gate":
            template = job["spec"]["template"]["metadata"]
            template["annotations"]["fairburst.dev/group-size"] = str(job["spec"]["parallelism"])
        return job


async def _classes(site: Site) -> None:
    """Wait until every queue has its class."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        lists = [await site.client.get_json(f"/apis/fairburst.dev/v1alpha1/{plural}") for plural in ("latencyqueues", "throughputqueues")]
        statuses = [item.get("status") or {} for each in lists for item in each["items"]]
        waiting = sum(not status.get("class") for status in statuses)
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise PeerError(f"after {READY_SECONDS:g} s {waiting} queues have no class")
        await asyncio.sleep(0.2)


MODES = ("Quota", "Gate", "Suspend")
CONTENDERS = {
    f"fairburst-{mode.lower()}{'-reclaim' if reclaim else ''}": lambda mode=mode, reclaim=reclaim: Fairburst(mode, reclaim)
    for mode in MODES
    for reclaim in (False, True)
}
