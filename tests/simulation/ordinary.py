"""An ordinary tenant beside hostile ones: a hard LatencyQueue and a ThroughputQueue, which are to be served whatever the others write."""

from __future__ import annotations

from fairburst.kube.names import QUOTA_NAME
from fairburst.quantity import parse_exact
from tests.simulation.api_server import ApiServer
from tests.simulation.resources import LATENCY_QUEUES, NAMESPACES, QUOTAS, THROUGHPUT_QUEUES, Object
from tests.simulation.scenario import DEFAULT_QUEUE, namespace, queue

BURSTS, BATCH = "ordinary-bursts", "ordinary-batch"  # namespaces
_GUARANTEED_CPU = 4
_BURST = {"resources": {"cpu": str(_GUARANTEED_CPU), "memory": "4Gi"}, "durationSeconds": 5}
_QUEUES: dict[str, tuple[str, Object]] = {
    BURSTS: (LATENCY_QUEUES, {"burst": _BURST, "arrival": {"sporadic": {"minInterarrivalSeconds": 10}}}),
    BATCH: (THROUGHPUT_QUEUES, {"weight": 1}),
}


class Ordinary:
    """The tenant. `edit` changes its ThroughputQueue; `problems` says what it was promised and does not have.

    declared: the pool declares its capacity. Otherwise pods outside the queues lower it, and with it the promises.
    """

    def __init__(self, server: ApiServer, *, declared: bool) -> None:
        self._server, self._declared = server, declared
        for where, (collection, spec) in _QUEUES.items():
            server.create(NAMESPACES, namespace(where))
            server.create(collection, queue(collection, where, DEFAULT_QUEUE, spec))

    def _queue(self, where: str) -> Object:
        found = self._server.get(_QUEUES[where][0], where, DEFAULT_QUEUE)
        assert found is not None
        return found

    def edit(self, weight: int) -> None:
        """Give the ThroughputQueue another weight."""
        self._server.update(THROUGHPUT_QUEUES, self._queue(BATCH), {"spec": {"weight": weight}})

    def problems(self) -> list[str]:
        """Return what is not as it should be, a sentence each."""
        found = []
        for where in _QUEUES:
            one = self._queue(where)
            seen, edited = one.get("status", {}).get("observedGeneration"), one["metadata"]["generation"]
            if seen != edited:
                found.append(f"the status of {where} is of generation {seen}, the spec of {edited}")
        if not self._declared:
            return found
        if (given := self._queue(BURSTS).get("status", {}).get("class")) != "Hard":
            found.append(f"the class of {BURSTS} is {given}")
        quota = self._server.get(QUOTAS, BURSTS, QUOTA_NAME)
        if quota is None or parse_exact(quota["spec"]["hard"]["requests.cpu"]) < _GUARANTEED_CPU:
            found.append(f"{BURSTS} has a quota of {quota and quota['spec']['hard']}")
        return found
