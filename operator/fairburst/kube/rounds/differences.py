"""Changes since the last round, and namespaces that are due without a change. Pure."""

from __future__ import annotations

import heapq
import math
import operator
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

Key = TypeVar("Key")


class Differences(Generic[Key]):
    """Finds entries of a store that are new, gone or replaced since the last look. A store replaces an object when it changes.

    O(N) comparisons of identity.
    """

    def __init__(self) -> None:
        self._seen: dict[Key, Any] = {}

    def since_last(self, store: Mapping[Key, Any]) -> set[Key]:
        """Return the keys whose value is another object than at the last call."""
        seen = self._seen
        if len(seen) == len(store) and all(map(operator.is_, seen.values(), store.values())):
            return set()
        changed = {key for key, value in store.items() if seen.get(key) is not value}
        changed |= seen.keys() - store.keys()
        self._seen = dict(store)
        return changed


class Agenda:
    """The times at which namespaces are looked at without a change. Monotonic seconds; O(log N) an entry."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def put(self, namespace: str, at: float) -> None:
        """Look at the namespace at `at`, or earlier if an earlier time is set."""
        if at < self._due.get(namespace, math.inf):
            self._due[namespace] = at
            heapq.heappush(self._heap, (at, namespace))

    def take(self, now: float) -> set[str]:
        """Remove and return the namespaces that are due."""
        due = set[str]()
        while self._heap and self._heap[0][0] <= now:
            at, namespace = heapq.heappop(self._heap)
            if self._due.get(namespace) == at:
                del self._due[namespace]
                due.add(namespace)
        return due

    def next(self) -> float:
        """Return when the next namespace is due; infinite if none is."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf
