"""An ordinary tenant beside hostile ones: a hard LatencyQueue and a ThroughputQueue, which are to be served whatever the others write."""

from __future__ import annotations

from fairburst.kube.names import API_VERSION, QUOTA_NAME
from fairburst.quantity import parse_exact
from tests.simulation.api_server import ApiServer
from tests.simulation.resources import LATENCY_QUEUES, NAMESPACES, QUEUES, QUOTAS, THROUGHPUT_QUEUES, Object

BURSTS, BATCH = "ordinary-bursts", "ordinary-batch"  # namespaces
_GUARANTEED_CPU = 4
_BURST = {"resources": {"cpu": str(_GUARANTEED_CPU), "memory": "4Gi"}, "durationSeconds": 5}


class Ordinary:
    """The tenant. `edit` changes its ThroughputQueue; `problems` says what it was promised and does not have.

    declared: the pool declares its capacity. Otherwise pods outside the queues lower it, and with it the promises.
    """

    def __init__(self, server: ApiServer, *, declared: bool) -> None:
        self._server, self._declared = server, declared
        self._queues = {
            BURSTS: self._create(BURSTS, LATENCY_QUEUES, {"burst": _BURST, "arrival": {"sporadic": {"minInterarrivalSeconds": 10}}}),
            BATCH: self._create(BATCH, THROUGHPUT_QUEUES, {"weight": 1}),
        }

    def _create(self, namespace: str, collection: str, spec: Object) -> str:
        self._server.create(NAMESPACES, {"metadata": {"name": namespace, "labels": {}}, "status": {"phase": "Active"}})
        meta = {"name": "queue", "namespace": namespace}
        self._server.create(collection, {"apiVersion": API_VERSION, "kind": QUEUES[collection], "metadata": meta, "spec": spec})
        return collection

    def _queue(self, namespace: str) -> Object:
        found = self._server.get(self._queues[namespace], namespace, "queue")
        assert found is not None
        return found

    def edit(self, weight: int) -> None:
        """Give the ThroughputQueue another weight."""
        self._server.update(THROUGHPUT_QUEUES, self._queue(BATCH), {"spec": {"weight": weight}})

    def problems(self) -> list[str]:
        """Return what is not as it should be, a sentence each."""
        found = []
        for namespace in self._queues:
            queue = self._queue(namespace)
            seen = queue.get("status", {}).get("observedGeneration")
            if seen != queue["metadata"]["generation"]:
                found.append(f"the status of {namespace} is of generation {seen}, the spec of {queue['metadata']['generation']}")
        if not self._declared:
            return found
        if (given := self._queue(BURSTS).get("status", {}).get("class")) != "Hard":
            found.append(f"the class of {BURSTS} is {given}")
        quota = self._server.get(QUOTAS, BURSTS, QUOTA_NAME)
        if quota is None or parse_exact(quota["spec"]["hard"]["requests.cpu"]) < _GUARANTEED_CPU:
            found.append(f"{BURSTS} has a quota of {quota and quota['spec']['hard']}")
        return found
