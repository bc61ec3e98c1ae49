"""What promises need of the capacity, and the least that it has been: from the API server's objects, not from the operator's figures."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from fairburst.kube.names import MANAGED_LABEL
from tests.simulation import quotas
from tests.simulation.api_server import ApiServer
from tests.simulation.controllers import takes_pods
from tests.simulation.quotas import Amounts, exact
from tests.simulation.resources import LATENCY_QUEUES, NAMESPACES, NODES, PODS, QUEUES, Object

CLASSES = ("Elastic", "Soft", "Hard")


class Bounds:
    """Bounds of what a replica may have seen since the cluster began, whatever was late to reach it.

    most, least: of what the nodes offer. foreign: the most that pods outside managed namespaces have requested. weights: the largest sum
    of the queues' weights.
    """

    def __init__(self, server: ApiServer, expected_queues: int) -> None:
        self._server = server
        self.most: Amounts = {}
        self.least: Amounts = {}
        self.foreign: Amounts = {}
        self.weights = expected_queues  # the least sum that admission divides by

    def note_nodes(self) -> None:
        """Note what the nodes offer now. Those with which the cluster begins count together."""
        total = offered(self._server)
        self.most = {name: max(self.most.get(name, Fraction(0)), total.get(name, Fraction(0))) for name in self.most | total}
        begins = self._server.loop.now == 0
        self.least = total if begins else {name: min(amount, total.get(name, Fraction(0))) for name, amount in self.least.items()}

    def note_pods(self) -> None:
        """Note the requests of the foreign pods."""
        total: Amounts = {}
        for namespace in self._server.of(NAMESPACES):
            if not _is_managed(self._server, namespace):
                _add_pods(total, self._server.of(PODS, namespace["metadata"]["name"]))
        self.foreign = {name: max(self.foreign.get(name, Fraction(0)), total.get(name, Fraction(0))) for name in self.foreign | total}

    def note_weights(self) -> None:
        """Note the sum of the weights: of each queue the larger one of its spec's and its promise's."""
        self.weights = max(self.weights, sum(_weight(queue) for plural in QUEUES for queue in self._server.of(plural)))

    def left(self) -> Amounts:
        """Return the least capacity for promises that a replica may have measured."""
        return {name: amount - self.foreign.get(name, Fraction(0)) for name, amount in self.least.items()}

    def least_class(self, status: Mapping[str, Any], rates: Amounts) -> str:
        """Return the weakest class that a queue of this status may have got, `rates` being those of all hard queues with this one."""
        left = self.left()
        if not is_fair(status["promise"], left, self.weights):
            return "Elastic"
        return "Soft" if status["class"] == "Hard" and excess(rates, left) is not None else str(status["class"])


def is_weaker(one: str | None, other: str) -> bool:
    """Return whether the first class promises less than the second; none at all promises nothing."""
    return one not in CLASSES or CLASSES.index(one) < CLASSES.index(other)


def offered(server: ApiServer) -> Amounts:
    """Return the sum over the nodes that take pods."""
    total: Amounts = {}
    for node in server.of(NODES):
        for name, text in node["status"]["allocatable"].items() if takes_pods(node) else ():
            total[name] = total.get(name, Fraction(0)) + exact(str(text))
    return total


def hard_rates(statuses: Mapping[Any, Mapping[str, Any]]) -> Amounts:
    """Return the rates of all hard queues together, from their statuses."""
    total: Amounts = {}
    for status in statuses.values():
        burst = (status.get("promise") or {}).get("burst")
        if status.get("class") != "Hard" or burst is None:
            continue
        seconds = Fraction(burst["durationSeconds"], burst.get("deadlineSeconds") or burst["durationSeconds"])
        for name, text in burst["resources"].items():
            total[name] = total.get(name, Fraction(0)) + exact(str(text)) * seconds
    return total


def statuses_of(server: ApiServer) -> dict[str, Object]:
    """Return the statuses of the latency queues by uid."""
    return {queue["metadata"]["uid"]: queue.get("status") or {} for queue in server.of(LATENCY_QUEUES)}


def excess(rates: Amounts, capacity: Amounts) -> str | None:
    """Return the first resource of which more is promised than there is."""
    return next((name for name, rate in rates.items() if rate > capacity.get(name, 0)), None)


def is_fair(promise: Mapping[str, Any], capacity: Amounts, weights: int) -> bool:
    """Return whether the bursts of a promise fit in its queue's share of the capacity, by weight, over the time between two of them."""
    arrival, burst = promise["arrival"], promise["burst"]
    period = arrival.get("periodic", {}).get("periodSeconds") or arrival["sporadic"]["minInterarrivalSeconds"]
    share = Fraction(promise["weight"], max(weights, promise["weight"])) * period / burst["durationSeconds"]
    return all(exact(str(text)) <= share * capacity.get(name, 0) for name, text in burst["resources"].items())


def _is_managed(server: ApiServer, namespace: Mapping[str, Any]) -> bool:
    name = namespace["metadata"]["name"]
    if (namespace["metadata"].get("labels") or {}).get(MANAGED_LABEL) == "true":
        return True
    return any(queue["spec"].get("enforcement") != "Observe" for plural in QUEUES for queue in server.of(plural, name))


def _add_pods(total: Amounts, pods: list[Object]) -> None:
    for pod in pods:
        if pod["spec"].get("nodeName") and not quotas.is_released(pod):
            for name, amount in quotas.requests_of(pod).items():
                total[name] = total.get(name, Fraction(0)) + amount


def _weight(queue: Mapping[str, Any]) -> int:
    promise = (queue.get("status") or {}).get("promise") or {}
    return max(int(queue["spec"].get("weight", 1)), int(promise.get("weight", 0)))
