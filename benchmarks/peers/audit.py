"""The lives of pods and Jobs, read from the API server's audit log. Times are in seconds since the epoch, exact to a microsecond.

Every contender is measured by the same log, from outside: a pod is bound when the API server has answered its binding, runs and ends when
KWOK has patched its status, and is killed if a client deletes or evicts it before its end.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec

# Every request except the nodes' and controllers' leases, and probes of the API server itself.
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "nonResourceURLs": ["*"]},
        {"level": "None", "resources": [{"group": "coordination.k8s.io"}]},
        {"level": "Metadata"},
    ],
}
LONGEST_LINE = 1 << 20  # of the log, in bytes
KUBELET = "kwok"  # the user that plays the kubelets
FEEDER = "admin"  # the user that creates the workload


class User(msgspec.Struct):
    username: str = ""


class Reference(msgspec.Struct):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class Answer(msgspec.Struct):
    code: int = 0


class Event(msgspec.Struct, rename="camel"):
    """One answered request."""

    verb: str
    user: User
    request_received_timestamp: str
    stage_timestamp: str
    object_ref: Reference = msgspec.field(default_factory=Reference)
    response_status: Answer = msgspec.field(default_factory=Answer)

    @property
    def done(self) -> bool:
        return 200 <= self.response_status.code < 300


@dataclass(slots=True)
class PodLife:
    """One pod. A time is None until it has happened; a pod ends by itself or is killed."""

    queue: str
    job: str
    bound: float | None = None
    running: float | None = None
    ended: float | None = None
    killed: float | None = None

    @property
    def released(self) -> float | None:
        """Return when its place was given back."""
        return self.ended if self.killed is None else self.killed


@dataclass(slots=True)
class JobLife:
    """One Job of the workload: when its creation was received (infinite if that is not in the log yet), and its pods."""

    created: float = math.inf
    pods: list[PodLife] = field(default_factory=list)
    bound: int = 0
    ended: int = 0


@dataclass(slots=True)
class Record:
    """A run by its log. `requests`: answered requests by user and verb. `refused`: pod creations that a quota refused."""

    pods: dict[tuple[str, str], PodLife] = field(default_factory=dict)
    jobs: dict[tuple[str, str], JobLife] = field(default_factory=dict)
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: int = 0

    def see(self, event: Event) -> None:
        """Add one event. The API server logs a request after its answer, so the request's effects may precede it in the log."""
        self.requests[event.user.username.rsplit(":", 1)[-1], event.verb] += 1
        what = event.object_ref
        if what.resource == "jobs" and event.verb == "create" and not what.subresource and event.done:
            if event.user.username == FEEDER:
                self._job(what.namespace, what.name).created = seconds(event.request_received_timestamp)
        elif what.resource == "pods":
            self._see_pod(event, what)

    def _see_pod(self, event: Event, what: Reference) -> None:
        created = event.verb == "create"
        if created and not what.subresource:
            self.refused += event.response_status.code == 403
        elif not event.done:
            return
        elif created and what.subresource == "binding":
            pod = self._pod(what)
            pod.bound = seconds(event.stage_timestamp)
            self._job(pod.queue, pod.job).bound += 1
        elif event.verb == "patch" and what.subresource == "status" and event.user.username == KUBELET:
            self._advance(self._pod(what), seconds(event.stage_timestamp))
        elif event.verb == "delete" or (created and what.subresource == "eviction"):
            known = self.pods.get((what.namespace, what.name))
            if known is not None and known.released is None:
                known.killed = seconds(event.request_received_timestamp)

    def _advance(self, pod: PodLife, at: float) -> None:
        """Apply the kubelet's next patch of a pod's status: Running, then Succeeded. It also patches a killed pod at its end."""
        if pod.running is None:
            pod.running = at
        elif pod.released is None:
            pod.ended = at
            self._job(pod.queue, pod.job).ended += 1

    def _pod(self, what: Reference) -> PodLife:
        key = what.namespace, what.name
        if key not in self.pods:
            self.pods[key] = PodLife(what.namespace, what.name.rsplit("-", 1)[0])
            self._job(what.namespace, self.pods[key].job).pods.append(self.pods[key])
        return self.pods[key]

    def _job(self, queue: str, name: str) -> JobLife:
        return self.jobs.setdefault((queue, name), JobLife())

    def requests_by(self) -> Counter[str]:
        """Return the number of requests by user."""
        total: Counter[str] = Counter()
        for (user, _), count in self.requests.items():
            total[user] += count
        return total


class AuditLog:
    """The log of a running API server, read as it grows."""

    def __init__(self, path: Path, record: Record | None = None) -> None:
        self.path = path
        self.record = Record() if record is None else record
        self._offset = 0

    def skip(self) -> None:
        """Ignore all present events. The API server may have written a part of the next one, which is not ignored."""
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LONGEST_LINE))
            last = file.read()
        self._offset = size - len(last) + last.rfind(b"\n") + 1

    def new_events(self) -> Iterator[Event]:
        """Return the events since the last call. An unfinished last line waits for the next one."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        return events(whole.splitlines())

    def read(self) -> Record:
        """Add the events since the last call, and return the record."""
        for event in self.new_events():
            self.record.see(event)
        return self.record


_event = msgspec.json.Decoder(Event)


def events(lines: Iterable[bytes]) -> Iterator[Event]:
    """Decode lines of an audit log."""
    return (_event.decode(line) for line in lines if line)


def seconds(timestamp: str) -> float:
    """Return an RFC 3339 time in seconds since the epoch."""
    return datetime.fromisoformat(timestamp).timestamp()
