"""An API server in memory: objects with versions, lists in pages, watches that resume, patches, quota admission, evictions.

`handle` and the methods that the controllers use finish within the call; nothing here waits. Stored objects are never changed in place.
`observers` see every write and its author.

Not modelled: validation, access rights, server-side apply, several API servers, managed fields.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from fairburst.config import Config
from fairburst.kube.admission.mutation import asked_queue, first_template, governing, job_patch, pod_patch
from fairburst.kube.api.errors import DOES_NOT_APPLY
from fairburst.kube.names import HOLDS_LABEL, MANAGED_LABEL
from tests.simulation import quotas
from tests.simulation.resources import JOBS, KINDS, LEASES, NAMESPACES, PODS, QUEUES, Key, Object, Refused, place_of, refusal, selector
from tests.simulation.virtual_time import EPOCH, VirtualLoop
from tests.support.fake_api import json_patch, merge_patch

BOOKMARK_SECONDS = 55.0
_MOST_HISTORY = 20_000


@dataclass
class Answer:
    """A response: status code and body, or a watch."""

    status: int
    body: Object | bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    watch: Watch | None = None

    def bytes(self) -> bytes:
        """Return the body as it is sent."""
        return self.body if isinstance(self.body, bytes) else msgspec.json.encode(self.body)


@dataclass(frozen=True)
class Write:
    """One write as it was stored. `old` is None for a creation, `new` for a deletion."""

    who: str
    method: str
    path: str
    collection: str
    old: Object | None
    new: Object | None

    @property
    def namespace(self) -> str:
        """The namespace of the object, or the name of a namespace object."""
        metadata = (self.new or self.old or {})["metadata"]
        return str(metadata["name"] if self.collection == NAMESPACES else metadata.get("namespace", ""))


class Watch:
    """One watcher, with the lines that it has yet to read."""

    def __init__(self, server: ApiServer, collection: str, namespace: str, selects: Callable[[Object], bool]) -> None:
        self.collection, self.namespace, self.selects = collection, namespace, selects
        self.lines: deque[bytes] = deque()
        self.ended = False
        self.on_lines: Callable[[], None] = lambda: None
        self._server = server

    def take(self) -> list[bytes]:
        """Return the lines that wait, and remove them."""
        lines = list(self.lines)
        self.lines.clear()
        return lines

    def put(self, line: bytes) -> None:
        """Add a line."""
        self.lines.append(line)
        self.on_lines()

    def end(self) -> None:
        """End the response without an error."""
        self.ended = True
        self._server.watches[self.collection].pop(self, None)
        self.on_lines()

    def close(self) -> None:
        """Forget the watcher, which has closed its connection."""
        self._server.watches[self.collection].pop(self, None)

    def event_line(self, kind: str, old: Object | None, new: Object, lines: dict[str, bytes] | None = None) -> bytes | None:
        """Return the line that reports a change to this watcher, or None. `lines` caches the lines of this change by event type."""
        told = self._told(kind, old, new)
        if told is None or lines is None:
            return None if told is None else _line(told, new)
        return lines.get(told) or lines.setdefault(told, _line(told, new))

    def _told(self, kind: str, old: Object | None, new: Object) -> str | None:
        if self.namespace and new["metadata"].get("namespace") != self.namespace:
            return None
        was = old is not None and self.selects(old)
        if kind == "DELETED":
            return kind if was else None
        if self.selects(new):
            return "MODIFIED" if was else "ADDED"
        return "DELETED" if was else None


def _line(kind: str, obj: Object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


class ApiServer:
    """The server. The admission policies of the installation follow `config`.

    webhook_down: the installation has a webhook instead of policies, which does not answer. refused_jobs: the Jobs that were refused
    for it.
    """

    def __init__(self, loop: VirtualLoop, config: Config, source: random.Random) -> None:
        self.loop, self.config = loop, config
        self.objects: dict[str, dict[Key, Object]] = {collection: {} for collection in KINDS}
        self.watches: dict[str, dict[Watch, None]] = {collection: {} for collection in KINDS}  # in order of arrival
        self.observers: list[Callable[[Write], None]] = []
        self.requests: list[Callable[[str, str, str, Any], None]] = []
        self.webhook_down, self.refused_jobs = False, list[Object]()
        self.version = 1000
        self.compacted = 0
        self._history: dict[str, deque[tuple[int, str, Object | None, Object]]] = {
            collection: deque(maxlen=_MOST_HISTORY) for collection in KINDS
        }
        self._pages: dict[str, tuple[int, list[Object]]] = {}
        self._tokens, self._uids = itertools.count(), itertools.count(1)
        self._source = source
        self._places: dict[str, tuple[str, str, str, str]] = {}

    # What controllers and the world use ------------------------------------------------------------------------------

    def now(self) -> str:
        """Return the server's time in the form of timestamps."""
        seconds = int(EPOCH + self.loop.now)
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")

    def get(self, collection: str, namespace: str, name: str) -> Object | None:
        """Return one object."""
        return self.objects[collection].get((namespace, name))

    def of(self, collection: str, namespace: str | None = None) -> list[Object]:
        """Return the objects of a namespace, or of all."""
        found = self.objects[collection].values()
        return [one for one in found if namespace is None or one["metadata"].get("namespace") == namespace]

    def create(self, collection: str, obj: Object, who: str = "world") -> Object:
        """Admit an object and store it. Raises Refused."""
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        if key in self.objects[collection]:
            raise Refused(409, "AlreadyExists", f"{key[1]} already exists")
        if key[0] and collection != LEASES:
            self._is_open(key[0])
        obj = self._mutated(collection, obj, None)
        if collection == PODS:
            quotas.charge(self, obj)
        stored = {
            "kind": KINDS[collection],
            **obj,
            "metadata": {**obj["metadata"], "uid": f"uid-{next(self._uids)}", "creationTimestamp": self.now(), "generation": 1},
        }
        return self._store(who, "POST", collection, None, stored)

    def _is_open(self, name: str) -> None:
        """Raise Refused where a namespace takes no new objects."""
        namespace = self.objects[NAMESPACES].get(("", name))
        if namespace is None:
            raise Refused(404, "NotFound", f"namespaces {name} not found")
        if "deletionTimestamp" in namespace["metadata"]:
            raise Refused(403, "Forbidden", f"unable to create new content in namespace {name} because it is being terminated")

    def put(self, collection: str, obj: Object) -> Object:
        """Store an object as it is, without admission and quotas."""
        return self._store("world", "POST", collection, None, {"kind": KINDS[collection], **obj})

    def update(self, collection: str, old: Object, change: Mapping[str, Any], who: str = "world") -> Object:
        """Merge `change` into the stored object."""
        metadata = old["metadata"]
        current = self.objects[collection].get((metadata.get("namespace", ""), metadata["name"]))
        if current is None:
            raise Refused(404, "NotFound", metadata["name"])
        return self._store(who, "PATCH", collection, current, merge_patch(current, dict(change)))

    def remove(self, collection: str, obj: Object, who: str = "world") -> None:
        """Delete an object at once."""
        metadata = obj["metadata"]
        old = self.objects[collection].pop((metadata.get("namespace", ""), metadata["name"]), None)
        if old is None:
            return
        self.version += 1
        gone = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.version)}}
        self._publish(collection, "DELETED", old, gone)
        self._observe(Write(who, "DELETE", "", collection, old, None))

    def delete_pod(self, pod: Object, who: str = "world", *, evicted: bool = False) -> None:
        """Delete a pod as the API does: at once where no kubelet runs it, otherwise after its grace period."""
        spec = pod["spec"]
        if not spec.get("nodeName") or pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
            self.remove(PODS, pod, who)
        elif pod["metadata"].get("deletionTimestamp") is None:
            grace = spec.get("terminationGracePeriodSeconds", 30)
            end = datetime.fromtimestamp(int(EPOCH + self.loop.now) + grace, UTC).isoformat().replace("+00:00", "Z")
            change: Object = {"metadata": {"deletionTimestamp": end, "deletionGracePeriodSeconds": grace}}
            if evicted:
                change["status"] = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]}
            self.update(PODS, pod, change, who)

    def delete_namespace(self, name: str, who: str) -> None:
        """Begin to delete a namespace: it takes no new objects, and the namespace controller removes it with all that it has."""
        namespace = self.get(NAMESPACES, "", name)
        if namespace is not None:
            self.update(NAMESPACES, namespace, {"metadata": {"deletionTimestamp": self.now()}, "status": {"phase": "Terminating"}}, who)

    def compact(self) -> None:
        """Forget history: a watch that resumes from before gets 410."""
        self.compacted = self.version
        self._pages.clear()

    def send_error(self, collection: str) -> None:
        """Send an ERROR event into every watch of a collection, and end it."""
        for watch in list(self.watches[collection]):
            watch.put(_line("ERROR", refusal(410, "Expired", "too old resource version")))
            watch.end()

    def bookmark(self) -> None:
        """Send the current version to every watch."""
        for collection, watches in self.watches.items():
            for watch in watches:
                watch.put(_line("BOOKMARK", {"kind": KINDS[collection], "metadata": {"resourceVersion": str(self.version)}}))

    # Requests --------------------------------------------------------------------------------------------------------

    def handle(self, method: str, path: str, params: Mapping[str, str], content_type: str, body: Any, who: str) -> Answer:
        """Answer a request."""
        for observer in self.requests:
            observer(who, method, path, body)
        place = self._places.get(path) or self._places.setdefault(path, place_of(path))
        collection, namespace, name, _ = place
        if collection not in self.objects:
            return Answer(404, refusal(404, "NotFound", "the server could not find the requested resource"))
        try:
            if method == "GET":
                return self._read(collection, namespace, name, params)
            return self._written(method, path, place, content_type, body, who)
        except Refused as error:
            return Answer(error.code, refusal(error.code, error.reason, str(error)))

    def _read(self, collection: str, namespace: str, name: str, params: Mapping[str, str]) -> Answer:
        if name:
            return Answer(200, self._existing(collection, namespace, name))
        selects = selector(params.get("fieldSelector", ""))
        if params.get("watch") == "true":
            return Answer(200, watch=self._watch(collection, namespace, selects, params))
        return Answer(200, self._list(collection, namespace, selects, params))

    def _list(self, collection: str, namespace: str, selects: Callable[[Object], bool], params: Mapping[str, str]) -> Object:
        token = params.get("continue")
        if token is not None:
            if token not in self._pages:
                raise Refused(410, "Expired", "the provided continue parameter is too old")
            version, items = self._pages.pop(token)
        else:
            version, items = self.version, [one for one in self.of(collection, namespace or None) if selects(one)]
        limit = int(params.get("limit", "0")) or len(items)
        metadata = {"resourceVersion": str(version)}
        if items[limit:]:
            metadata["continue"] = f"page-{next(self._tokens)}"
            self._pages[metadata["continue"]] = version, items[limit:]
        return {"kind": f"{KINDS[collection]}List", "metadata": metadata, "items": items[:limit]}

    def _watch(self, collection: str, namespace: str, selects: Callable[[Object], bool], params: Mapping[str, str]) -> Watch:
        watch = Watch(self, collection, namespace, selects)
        since = int(params.get("resourceVersion") or self.version)
        if since < self.compacted:
            watch.put(_line("ERROR", refusal(410, "Expired", f"too old resource version: {since}")))
            watch.ended = True
            return watch
        for version, kind, old, new in self._history[collection]:
            line = watch.event_line(kind, old, new) if version > since else None
            if line is not None:
                watch.put(line)
        self.watches[collection][watch] = None
        seconds = float(params.get("timeoutSeconds") or self._source.uniform(300, 600))
        self.loop.call_later(seconds, watch.end)
        return watch

    def _written(self, method: str, path: str, place: tuple[str, str, str, str], content_type: str, body: Any, who: str) -> Answer:
        collection, namespace, name, subresource = place
        if method == "POST" and subresource == "eviction":
            return self._evicted(namespace, name, body, who)
        if method == "POST":
            metadata = {**body["metadata"], **({"namespace": namespace} if namespace else {})}
            return Answer(201, self.create(collection, {**body, "metadata": metadata}, who))
        old = self._existing(collection, namespace, name)
        if method == "DELETE":
            self.delete_pod(old, who) if collection == PODS else self.remove(collection, old, who)
            return Answer(200, {"kind": "Status", "status": "Success"})
        wanted = body.get("metadata", {}).get("resourceVersion") if isinstance(body, dict) else None
        if wanted is not None and wanted != old["metadata"]["resourceVersion"]:
            raise Refused(409, "Conflict", f"{name}: the object has been modified; please apply your changes to the latest version")
        if method == "PUT":
            new = {**body, "kind": old["kind"], "metadata": {**old["metadata"], **body["metadata"]}}
        elif "json-patch" in content_type:
            try:
                new = json_patch(old, body)
            except (LookupError, ValueError) as error:
                raise Refused(422, "Invalid", DOES_NOT_APPLY) from error
        else:
            new = merge_patch(old, body)
        if subresource == "status":
            new = {**old, "status": new.get("status", {})}
        elif collection in QUEUES:
            new = {**new, "status": old.get("status", {})}
        return Answer(200, self._store(who, method, collection, old, new))

    def _evicted(self, namespace: str, name: str, body: Object, who: str) -> Answer:
        pod = self._existing(PODS, namespace, name)
        uid = body.get("deleteOptions", {}).get("preconditions", {}).get("uid")
        if uid is not None and uid != pod["metadata"]["uid"]:
            raise Refused(409, "Conflict", f"{name}: the UID in the precondition does not match")
        self.delete_pod(pod, who, evicted=True)
        return Answer(201, {"kind": "Status", "status": "Success"})

    def _existing(self, collection: str, namespace: str, name: str) -> Object:
        found = self.objects[collection].get((namespace, name))
        if found is None:
            raise Refused(404, "NotFound", f"{collection} {namespace}/{name} not found")
        return found

    # Storage ---------------------------------------------------------------------------------------------------------

    def _mutated(self, collection: str, obj: Object, before: Object | None) -> Object:
        """Return a pod or a Job of a managed namespace as the installation's admission policies change it."""
        if collection not in {PODS, JOBS}:
            return obj
        namespace = self.objects[NAMESPACES].get(("", obj["metadata"].get("namespace", "")))
        if namespace is None or (namespace["metadata"].get("labels") or {}).get(MANAGED_LABEL) != "true":
            return obj
        if self.webhook_down:
            return self._past_the_webhook(collection, obj, namespace["metadata"]["labels"])
        queues = {(kind, *key): queue for plural, kind in QUEUES.items() for key, queue in self.objects[plural].items()}
        where, pool = obj["metadata"]["namespace"], self.config.pool.name
        asked = asked_queue(queues, obj if collection == PODS else first_template(obj), where, pool)
        queue = governing(queues, where, pool)
        patch = pod_patch(obj, asked, self.config) if collection == PODS else job_patch(obj, before, queue, self.config, asked)
        return json_patch(obj, patch) if patch else obj

    def _past_the_webhook(self, collection: str, obj: Object, labels: Mapping[str, str]) -> Object:
        """By the failure policies of `kube/install/webhook.py`. Raises Refused in a namespace whose pods are gated."""
        if labels.get(HOLDS_LABEL) != "Pods":
            return obj
        if collection == JOBS:
            self.refused_jobs.append(obj)
        raise Refused(500, "InternalError", "failed calling webhook: x509: certificate signed by unknown authority")

    def _store(self, who: str, method: str, collection: str, old: Object | None, new: Object) -> Object:
        if old is not None and new == old:
            return old
        self.version += 1
        metadata = {**new["metadata"], "resourceVersion": str(self.version)}
        if old is not None and collection in {JOBS, *QUEUES} and new.get("spec") != old.get("spec"):
            metadata["generation"] = old["metadata"]["generation"] + 1
        stored = {**new, "metadata": metadata}
        self.objects[collection][metadata.get("namespace", ""), metadata["name"]] = stored
        self._publish(collection, "ADDED" if old is None else "MODIFIED", old, stored)
        self._observe(Write(who, method, "", collection, old, stored))
        return stored

    def _publish(self, collection: str, kind: str, old: Object | None, new: Object) -> None:
        self._history[collection].append((self.version, kind, old, new))
        lines: dict[str, bytes] = {}
        for watch in list(self.watches[collection]):
            line = watch.event_line(kind, old, new, lines)
            if line is not None:
                watch.put(line)

    def _observe(self, write: Write) -> None:
        for observer in self.observers:
            observer(write)
