"""Read the memory in queues' statuses, once for each object, and forget deleted objects of the same name. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fairburst.kube.queues.queue_set import KINDS, ObjectKey, is_observed, pool_name
from fairburst.kube.views.conditions import was_observed
from fairburst.kube.views.status_memory import memory_of
from fairburst.kube.wall_clock import SMALLEST_STEP_SECONDS
from fairburst.policy.clock_step import shifted_queue
from fairburst.policy.model import Memory, QueueMemory


class QueueRecall:
    """Notes the objects, by uid, whose memory has been read."""

    def __init__(self, pool: str, *, observing: bool = False) -> None:
        self._pool = pool
        self._observing = observing
        self._uids: dict[ObjectKey, str] = {}

    def read(
        self,
        queues: Mapping[ObjectKey, Mapping[str, Any]],
        changed: Collection[ObjectKey],
        memory: Memory,
        excluded: dict[str, tuple[int, str]],
        wall: float,
    ) -> Memory:
        """Return the memory with the statuses of `changed` queues that this process has not read before.

        `excluded`: queues by uid that are not decided on until they change; those that have changed are dropped from it. `wall`: seconds
        since the epoch; accounts that were written by a clock ahead of it are shifted to it.
        """
        read, forgotten = dict[str, QueueMemory](), set[str]()
        for key in changed:
            obj = queues.get(key)
            if obj is None or (is_observed(obj) and not self._observing):
                if self._uids.pop(key, None) is not None and _remembers(memory, key):
                    forgotten.add(_qualified(key))
            else:
                self._read_one(key, obj, memory, excluded, read, forgotten)
        read = {name: _of_the_present(entry, wall) for name, entry in read.items()}
        if not read and not forgotten:
            return memory
        known = {name: memory.entry(name) for name in memory.queues if name not in forgotten} | read
        following = 1 + max((entry.admission_order for entry in known.values()), default=-1)
        return Memory(known, max(memory.next_admission_order, following), dress=memory.dress)

    def forget(self, key: ObjectKey) -> None:
        """Read the object's status again before its next decision."""
        self._uids.pop(key, None)

    def _read_one(
        self,
        key: ObjectKey,
        obj: Mapping[str, Any],
        memory: Memory,
        excluded: dict[str, tuple[int, str]],
        read: dict[str, QueueMemory],
        forgotten: set[str],
    ) -> None:
        uid = obj["metadata"].get("uid", "")
        if uid in excluded:
            if excluded[uid][0] == int(obj["metadata"].get("generation", 0)):
                return
            del excluded[uid]
        if self._uids.get(key) == uid:
            return
        self._uids[key] = uid
        remembered = memory_of(obj) if self._observing or not was_observed(obj) else None
        if remembered is not None and pool_name(obj) == self._pool:
            read[_qualified(key)] = remembered
        elif _remembers(memory, key):
            forgotten.add(_qualified(key))


def _of_the_present(entry: QueueMemory, wall: float) -> QueueMemory:
    ahead = entry.ledger_as_of - wall
    return shifted_queue(entry, -ahead) if ahead >= SMALLEST_STEP_SECONDS else entry


def _qualified(key: ObjectKey) -> str:
    return f"{key[1]}/{key[2]}"


def _remembers(memory: Memory, key: ObjectKey) -> bool:
    """Return whether the memory is of this object, and not of one of the other kind with the same name."""
    promised = memory.promised(_qualified(key))
    return promised is not None and promised.promise.kind is KINDS[key[0]]
