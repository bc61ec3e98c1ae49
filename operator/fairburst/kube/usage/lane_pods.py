"""Pods with the class of a lane, by namespace, and how many live ones each controller has in each further queue's space. O(1) an event."""

from __future__ import annotations

from collections import Counter

from fairburst.kube.names import LANE_OF_CLASS
from fairburst.kube.usage.pod_sums import PodFacts


class LanePods:
    """See the module. A pod counts by its class, whether or not a queue has the lane."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, PodFacts]] = {}  # by namespace and name
        self._live: Counter[tuple[str, str]] = Counter()  # by space and uid of the controller

    def account(self, facts: PodFacts, sign: int) -> None:
        """Add a pod (+1) or remove it (-1)."""
        known = self._by_namespace.setdefault(facts.namespace, {})
        if sign > 0:
            known[facts.name] = facts
        else:
            del known[facts.name]
            if not known:
                del self._by_namespace[facts.namespace]
        if facts.space != facts.namespace and not (facts.ended or facts.terminating):
            key = facts.space, facts.owner
            self._live[key] += sign
            if not self._live[key]:
                del self._live[key]

    def all(self) -> list[PodFacts]:
        """Return the facts of all these pods."""
        return [facts for known in self._by_namespace.values() for facts in known.values()]

    def busy(self, namespace: str) -> set[int]:
        """Return the lanes whose class a pod of the namespace has."""
        named = {facts.lane_class for facts in self._by_namespace.get(namespace, {}).values()}
        return {LANE_OF_CLASS[name] for name in named if name}

    def live(self, space: str, owner: str) -> int:
        """Return how many live pods a controller has in a further queue's space."""
        return self._live[space, owner]
