"""Pods on nodes that closed under them: cordoned, not ready, about to go. Decides nothing.

Such a node is in no capacity (capacity.py), so that what runs there takes nothing from other queues. Two kinds of pods there are charged to
their queue all the same: those that came later, because they tolerate every taint, and those that are about to end. For when these are gone
their controllers create others, and the quota must have fallen by then.
"""

from __future__ import annotations

from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.usage.pod_usage import Amounts
from fairburst.kube.usage.vector_sums import add_thousandths


class ClosedNodes:
    """By closed node, the uids of the pods that were there when it closed, or when this process looked first, and still are."""

    def __init__(self) -> None:
        self._pods: PodIndex | None = None
        self._there: dict[str, set[str]] = {}
        self._found: dict[str, Amounts] = {}
        self.changed_nodes: set[str] = set()

    def read(self, pods: PodIndex, closed: frozenset[str]) -> dict[str, Amounts]:
        """Return the requests by space, in resource units, of the pods that these nodes have closed under.

        Reads all pods where pods on these nodes have changed, none otherwise.
        """
        if pods is not self._pods:
            pods.watch_nodes(self)
        if pods is not self._pods or closed != self._there.keys() or not closed.isdisjoint(self.changed_nodes):
            self._look(pods, closed)
        self._pods = pods
        self.changed_nodes.clear()
        return self._found

    def _look(self, pods: PodIndex, closed: frozenset[str]) -> None:
        there: dict[str, set[str]] = {node: set() for node in closed}
        found: dict[str, Amounts] = {}
        for facts in pods.staying_on(closed) if closed else ():
            known = self._there.get(facts.node)
            if known is None or facts.uid in known:
                there[facts.node].add(facts.uid)
                add_thousandths(found.setdefault(facts.space, {}), pods.resources, facts.requests)
        self._there, self._found = there, found
