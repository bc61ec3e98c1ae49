"""Changes since the last round, and namespaces that are due without a change. Pure."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Mapping
from typing import Any, Generic, TypeVar

Key = TypeVar("Key")

_NEVER = (math.inf, math.inf)
BLOCK = 256  # objects that are compared at once
PATIENCE_SECONDS = 1.0  # by which a look may be late that no work waits for
UNSURE_SECONDS = 1.0  # after a write, its arrival is checked once more: after this time, or twice as much
WRITES_A_SECOND = 100.0  # that a busy API server answers: a look before the answer would find the same again


class Differences(Generic[Key]):
    """Finds entries of a store that are new, gone or changed since the last look. A store replaces an object when it changes.

    O(N) comparisons of identity, within lists, which compare the same object ten times as fast as a loop does. One that was replaced by an
    equal one has not changed. Values of different keys differ, as objects with names do.
    """

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self._values: list[Any] = []

    def since_last(self, store: Mapping[Key, Any]) -> set[Key]:
        """Return the keys whose value differs from the one at the last call."""
        values = list(store.values())
        if values == self._values:
            return set()
        former_keys, former, keys = self._keys, self._values, list(store)
        self._keys, self._values = keys, values
        if keys != former_keys:
            seen = dict(zip(former_keys, former, strict=True))
            return {key for key, value in store.items() if _differs(value, seen.get(key))} | (seen.keys() - store.keys())
        changed = set[Key]()
        for start in range(0, len(keys), BLOCK):
            block = slice(start, start + BLOCK)
            if values[block] != former[block]:
                triples = zip(keys[block], values[block], former[block], strict=True)
                changed.update(key for key, value, before in triples if _differs(value, before))
        return changed


def _differs(value: object, former: object) -> bool:
    return value is not former and value != former


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

    def put_written(self, writes: Collection[tuple[str, str]], now: float) -> None:
        """Look again at the namespaces of these writes, given by kind and namespace, when all of them should have been answered."""
        answered = now + max(UNSURE_SECONDS, len(writes) / WRITES_A_SECOND)
        for _, namespace in writes:
            self.put(namespace, answered, UNSURE_SECONDS)

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
