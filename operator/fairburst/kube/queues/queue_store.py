"""The newest known version of each queue object, from watches and lists that may arrive in any order."""

from __future__ import annotations

import threading
import time

from fairburst.kube.api.client import JsonObject
from fairburst.kube.queues.edit_limit import EditLimit
from fairburst.kube.queues.queue_set import ObjectKey


class QueueStore:
    """The newest known version of each queue object. Any thread may offer one; an older version never replaces a newer one.

    Versions are compared as integers: all queue objects live in the same etcd, whose revision they carry.
    """

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, JsonObject] = {}
        self.edits = EditLimit()
        self._in: dict[str, dict[ObjectKey, JsonObject]] = {}  # the same objects by namespace
        self._deleted: dict[ObjectKey, int] = {}
        self._lock = threading.Lock()

    def copy(self) -> dict[ObjectKey, JsonObject]:
        """Return a copy of the objects, because any thread may write at any time."""
        with self._lock:
            return dict(self.objects)

    def copy_of(self, namespace: str) -> dict[ObjectKey, JsonObject]:
        """Return a copy of the objects in one namespace. Its cost does not grow with the other namespaces."""
        with self._lock:
            return dict(self._in.get(namespace, {}))

    def offer(self, kind: str, obj: JsonObject) -> bool:
        """Store an object that exists; return True if it is new or changed."""
        key, version = _key(kind, obj), version_of(obj)
        with self._lock:
            known = self.objects.get(key)
            if version is not None and version <= self._deleted.get(key, -1):
                return False
            if known is not None and not _newer(version, known):
                return False
            self._put(key, _kept(obj))
            self._deleted.pop(key, None)
            return True

    def delete(self, kind: str, obj: JsonObject) -> bool:
        """Remove an object by its last version; return True if it was known."""
        key, version = _key(kind, obj), version_of(obj)
        with self._lock:
            known = self.objects.get(key)
            if known is not None and not _newer(version, known, or_same=True):
                return False
            if version is not None:
                self._deleted[key] = max(version, self._deleted.get(key, -1))
            return self._remove(key)

    def newest(self) -> int:
        """Return the highest version that any object has had; -1 if none is known."""
        with self._lock:
            versions = [version for obj in self.objects.values() if (version := version_of(obj)) is not None]
            return max(versions + list(self._deleted.values()), default=-1)

    def reset(self, kind: str, items: list[JsonObject]) -> bool:
        """Replace one kind by a complete list, older versions included, because etcd was restored from a snapshot. Return True if anything
        changed.
        """
        found = {_key(kind, item): _kept(item) for item in items}
        with self._lock:
            known = {key: obj for key, obj in self.objects.items() if key[0] == kind}
            for key in known.keys() - found.keys():
                self._remove(key)
            for key, obj in found.items():
                self._put(key, obj)
            self._deleted = {key: at for key, at in self._deleted.items() if key[0] != kind}
        return known != found

    def replace(self, kind: str, items: list[JsonObject], list_version: int | None) -> bool:
        """Merge a complete list of one kind as of `list_version`: offer all, drop missing objects that are not newer. Return True if
        anything changed.
        """
        present = {_key(kind, item) for item in items}
        news = [self.offer(kind, item) for item in items]
        with self._lock:
            known = {key: version_of(obj) for key, obj in self.objects.items() if key[0] == kind and key not in present}
            gone = [key for key, version in known.items() if _at_most(version, list_version)]
            for key in gone:
                self._remove(key)
            # No older list can arrive any more, so objects deleted by then need no guard.
            self._deleted = {key: at for key, at in self._deleted.items() if key[0] != kind or not _at_most(at, list_version)}
        return bool(gone) or any(news)

    def in_force(self, now: float) -> tuple[dict[ObjectKey, JsonObject], float]:
        """Return a copy of the objects as the rounds should see them, and when an edit that waits takes effect (monotonic seconds)."""
        with self._lock:
            due = self.edits.release(now)
            return dict(self.edits.in_force), due

    def _put(self, key: ObjectKey, obj: JsonObject) -> None:
        self.objects[key] = obj
        self._in.setdefault(key[1], {})[key] = obj
        self.edits.put(key, obj, time.monotonic())

    def _remove(self, key: ObjectKey) -> bool:
        self.edits.remove(key)
        there = self._in.get(key[1], {})
        there.pop(key, None)
        if not there:
            self._in.pop(key[1], None)
        return self.objects.pop(key, None) is not None


def _kept(obj: JsonObject) -> JsonObject:
    """Return the object without its managed fields, which are larger than the rest and are not read."""
    metadata = obj.get("metadata") or {}
    if "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _key(kind: str, obj: JsonObject) -> ObjectKey:
    metadata = obj.get("metadata") or {}
    return kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def version_of(obj: JsonObject) -> int | None:
    """Return resourceVersion as a number, or None if it is not one, which its contract allows."""
    text = str((obj.get("metadata") or {}).get("resourceVersion") or "")
    return int(text) if text.isdecimal() else None


def _newer(version: int | None, known: JsonObject, *, or_same: bool = False) -> bool:
    """Return False only if both versions are numbers and the first is older or, without `or_same`, equal."""
    known_version = version_of(known)
    if version is None or known_version is None:
        return True
    return version >= known_version if or_same else version > known_version


def _at_most(version: int | None, limit: int | None) -> bool:
    return version is None or limit is None or version <= limit
