"""Kubernetes alone: without anything, with a static quota a namespace, and with a priority class for the bursts."""

from __future__ import annotations

from typing_extensions import override

from benchmarks.peers.contender import Contender, JsonObject, Site, in_groups
from benchmarks.peers.scenarios import Queue, Scenario

URGENT = "urgent"


class StaticQuota(Contender):
    """Each burst queue has its declared places in its quota; batch queues divide the rest equally."""

    name = "static-quota"
    about = "a fixed ResourceQuota a namespace: the declared burst, and an equal part of the rest for each batch queue"

    @override
    async def start(self, site: Site) -> None:
        limits = static_limits(site.scenario)
        await in_groups([site.client.create(f"/api/v1/namespaces/{name}/resourcequotas", _quota(limits[name])) for name in limits])


class Priority(Contender):
    """Bursts have a higher PriorityClass than batch work."""

    def __init__(self, preempts: bool) -> None:
        self.name = "priority-preempts" if preempts else "priority"
        self.about = f"a PriorityClass for the bursts, {'with' if preempts else 'without'} preemption"
        self.evicts = preempts
        self._policy = "PreemptLowerPriority" if preempts else "Never"

    @override
    async def start(self, site: Site) -> None:
        body = {"metadata": {"name": URGENT}, "value": 1000, "preemptionPolicy": self._policy}
        await site.client.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)

    @override
    def dress(self, queue: Queue, job: JsonObject) -> JsonObject:
        if queue.promise is not None:
            job["spec"]["template"]["spec"]["priorityClassName"] = URGENT
        return job


def static_limits(scenario: Scenario) -> dict[str, int]:
    """Return the places of each queue: its declared places, else an equal part of the undeclared ones."""
    declared = {queue.name: queue.promise.pods for queue in scenario.queues if queue.promise is not None}
    batch = [queue.name for queue in scenario.queues if queue.promise is None]
    left = max(len(batch), scenario.places - sum(declared.values()))
    return declared | {name: left // len(batch) for name in batch}


def _quota(places: int) -> JsonObject:
    hard = {"requests.cpu": str(places), "requests.memory": f"{places}Gi"}
    return {"metadata": {"name": "fixed"}, "spec": {"hard": hard}}


CONTENDERS = {
    "bare": Contender,
    "static-quota": StaticQuota,
    "priority": lambda: Priority(False),
    "priority-preempts": lambda: Priority(True),
}
