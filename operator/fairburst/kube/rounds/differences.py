"""Changes since the last round, and namespaces that are due without a change. Pure."""

from __future__ import annotations

import heapq
import math
import operator
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

Key = TypeVar("Key")

_NEVER = (math.inf, math.inf)
PATIENCE_SECONDS = 1.0  # by which a look may be late that no work waits for


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
    """The times at which namespaces are looked at without a change. Monotonic seconds; O(log N) an entry.

    A round looks at all namespaces whose time has come. It starts when one of them can wait no longer, so that looks that can wait share a
    round (docs/decisions/0285-looks-that-can-wait-share-a-round.md).
    """

    def __init__(self) -> None:
        self._due: dict[str, tuple[float, float]] = {}  # the earliest and the latest time
        self._earliest: list[tuple[float, str]] = []  # heaps; entries that differ from `_due` are ignored
        self._latest: list[tuple[float, str]] = []

    def put(self, namespace: str, at: float, patience: float = 0.0) -> None:
        """Look at the namespace at `at`, or up to `patience` seconds later; earlier if an earlier time is set."""
        former = self._due.get(namespace, _NEVER)
        due = min(at, former[0]), min(at + patience, former[1])
        if due != former:
            self._due[namespace] = due
            heapq.heappush(self._earliest, (due[0], namespace))
            heapq.heappush(self._latest, (due[1], namespace))

    def take(self, now: float) -> set[str]:
        """Remove and return the namespaces whose time has come."""
        due = set[str]()
        while self._earliest and self._earliest[0][0] <= now:
            at, namespace = heapq.heappop(self._earliest)
            if self._due.get(namespace, _NEVER)[0] == at:
                del self._due[namespace]
                due.add(namespace)
        return due

    def next(self) -> float:
        """Return when a namespace can wait no longer; infinite if there is none."""
        while self._latest and self._due.get(self._latest[0][1], _NEVER)[1] != self._latest[0][0]:
            heapq.heappop(self._latest)
        return self._latest[0][0] if self._latest else math.inf
