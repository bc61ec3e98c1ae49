"""The interface of a contender: it installs itself, declares the queues and adapts their Jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.scenarios import Queue, Scenario
from e2e.cluster import Cluster
from fairburst.kube.api.client import ApiClient

JsonObject = dict[str, Any]
# The limit of every client of the API server that is under test or that every pod depends on: requests a second, and burst.
CLIENT_QPS, CLIENT_BURST = 300, 500


class PeerError(Exception):
    """A contender can't be installed, did not become ready, or refuses the workload."""


@dataclass(frozen=True, slots=True)
class Site:
    """A started cluster with a namespace for each queue. `start`: when the workload begins, in seconds since the epoch."""

    cluster: Cluster
    client: ApiClient
    scenario: Scenario
    folder: Path
    start: float


class Contender:
    """Kubernetes without any additional controller. A contender overrides the methods in which it differs."""

    name = "bare"
    about = "kube-scheduler alone"
    version = ""
    evicts = False
    gangs = False

    def plays(self, scenario: Scenario) -> bool:
        """Return whether it takes part: in scenarios with eviction only if it evicts, in those with gangs only if it starts Jobs whole."""
        return scenario.evicts == self.evicts and (self.gangs or not scenario.gang)

    def cluster_options(self) -> JsonObject:
        """Return additional arguments of `Cluster.start`."""
        return {}

    async def start(self, site: Site) -> None:
        """Install and start it, and declare the scenario's queues. Return when it is ready for work."""

    def dress(self, queue: Queue, job: JsonObject) -> JsonObject:
        """Return the Job as a user of this contender submits it to the queue."""
        del queue
        return job

    def processes(self) -> dict[str, int]:
        """Return the process ids of its controllers, by name."""
        return {}

    def kill(self) -> None:
        """Kill its controllers at once."""

    async def revive(self) -> None:
        """Start its controllers again."""

    def stop(self) -> None:
        """End its controllers. Called in every case, and harmless if nothing was started."""


async def in_groups(actions: Sequence[Awaitable[Any]], size: int = 32) -> None:
    """Await all of them, `size` at a time."""
    for start in range(0, len(actions), size):
        await asyncio.gather(*actions[start : start + size])


def entitled_places(scenario: Scenario, *, reserves: bool) -> dict[str, int]:
    """Return the places of each queue for contenders that guarantee some at every moment; together the whole cluster.

    reserves: a burst queue has its declared burst, and the others divide the rest; otherwise all have equal parts.
    """
    reserved = {queue.name: queue.promise.pods for queue in scenario.queues if reserves and queue.promise is not None}
    rest = [queue.name for queue in scenario.queues if queue.name not in reserved]
    left = max(0, scenario.places - sum(reserved.values()))
    return reserved | {name: left // len(rest) + (number < left % len(rest)) for number, name in enumerate(rest)}
