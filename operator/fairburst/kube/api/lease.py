"""Leader election by a Lease: only its holder writes. `Candidacy` has the rules on plain numbers; `LeaderElection` applies them.

Times are monotonic seconds of one process; clocks of different machines are never compared. A holder writes only for `renew_deadline`
seconds after it *sent* its last successful renewal. Another replica takes the Lease only after it has *seen* the Lease unchanged for
`lease` seconds. The first time is shorter than the second, so that the last write has time to end. The replicas need not know each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import math
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fairburst.kube.api.answers import Answers
from fairburst.kube.api.client import ApiClient, JsonObject
from fairburst.kube.api.errors import ApiError, Conflict, NotFound
from fairburst.telemetry.log import event

logger = logging.getLogger(__name__)

API_VERSION = "coordination.k8s.io/v1"
LONGEST_LEASE_SECONDS = 60.0  # upper bound for the duration that another holder's Lease declares
JITTER = 0.2  # as in client-go, so that replicas that start together do not send their requests together
LEAST_PAUSE = 0.1  # fraction of the retry time, after a turn that took longer than the retry time


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Times of the election in seconds; retry < renew_deadline < lease.

    lease: how long other replicas wait for a silent holder. renew_deadline: how long a holder writes after its last renewal.
    retry: time between two renewals or two reads.
    """

    lease: float
    renew_deadline: float
    retry: float


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease as stored. `holder` is empty once it was released; `version` is the object's resourceVersion.

    `acquired` and `renewed` are times of the holder's clock, for display only.
    """

    holder: str
    seconds: float
    acquired: str | None
    renewed: str | None
    transitions: int
    version: str


class Candidacy:
    """One replica's knowledge of the Lease, and the decisions that follow from it."""

    def __init__(self, identity: str, times: LeaseTimes) -> None:
        self.identity, self._times = identity, times
        self.known = False  # whether the Lease was ever read, or found to be missing
        self._stored: LeaseRecord | None = None  # as last seen
        self._last: LeaseRecord | None = None  # as last seen, or as seen before it was deleted
        self._seen_at = -math.inf  # time at which this replica first saw the present state
        self._renewed_at = -math.inf
        self._resigned = False
        self.vacant_since = math.inf  # upper bound of the time from which no process led before this replica did

    @property
    def holder(self) -> str:
        """The holder as last seen; empty if there is none."""
        return "" if self._stored is None else self._stored.holder

    @property
    def writes_until(self) -> float:
        """The end of this replica's right to write; minus infinity if it has none."""
        return self._renewed_at + self._times.renew_deadline

    def leads(self, now: float) -> bool:
        """Return whether this replica may write."""
        return now < self.writes_until

    def read(self, record: LeaseRecord | None, now: float) -> None:
        """Note the stored Lease, None if there is none. If this replica is not its holder, its right to write ends at once."""
        if not self.known or record != self._stored:
            self._seen_at = now
        self.known, self._stored, self._last = True, record, record or self._last
        if self.holder != self.identity:
            self._renewed_at = -math.inf

    def claim(self, now: float) -> LeaseRecord | None:
        """Return the record to write so that this replica becomes or stays holder, or None. Version "" means that it creates the Lease."""
        if self._resigned or not self.known or not (self.leads(now) or now >= self.free_at):
            return None
        stays, last = self.holder == self.identity, self._last
        return LeaseRecord(
            holder=self.identity,
            seconds=self._times.lease,
            acquired=last.acquired if last is not None and stays else None,
            renewed=None,
            transitions=0 if last is None else last.transitions + (not stays),
            version="" if self._stored is None else self._stored.version,
        )

    @property
    def free_at(self) -> float:
        """Time from which this replica may take an unchanged Lease. The holder of a deleted Lease may not know yet of the deletion."""
        if self._last is None or (self._stored is not None and self.holder in {"", self.identity}):
            return -math.inf
        seconds = self._stored.seconds if self._stored is not None and self._stored.seconds else self._times.lease
        return self._seen_at + min(seconds, LONGEST_LEASE_SECONDS)

    def written(self, record: LeaseRecord, sent_at: float, now: float) -> None:
        """Note that the server has stored a write. The right to write counts from `sent_at`."""
        if not self.leads(now):
            self.vacant_since = self._seen_at if self.holder else now  # a Lease that was released had a leader until just before
        self.read(record, now)
        if not self._resigned and record.holder == self.identity:
            self._renewed_at = max(self._renewed_at, sent_at)

    def resign(self) -> LeaseRecord | None:
        """Give up the right to write and all candidacy; return the record that releases the Lease, or None if another replica holds it."""
        self._resigned, self._renewed_at = True, -math.inf
        if self._stored is None or self.holder != self.identity:
            return None
        return LeaseRecord("", 1.0, self._stored.acquired, None, self._stored.transitions, self._stored.version)

    def pause(self, began: float, now: float, jitter: float) -> float:
        """Return the seconds until the next turn, at most until the right to write or the Lease ends.

        began: start of the last turn. The retry time counts from it, because a pause after each slow answer would leave no time for other
        writes. jitter: in [0, 1].
        """
        wait = max(LEAST_PAUSE * self._times.retry, self._times.retry * (1 + JITTER * jitter) - (now - began))
        ends = self.writes_until if self.leads(now) else self.free_at
        return min(wait, ends - now) if ends > now else wait


class LeaderElection:
    """Runs one replica's candidacy. `leading` is set while the replica may write, `standing_by` while it may not.

    `client` must not be shared: a renewal must neither wait behind other writes nor be stopped by this fence. Create it and use it in one
    event loop. `home`: the loop in which others wait for `leading` and `standing_by` and whose `answers` it shares, if that is another one.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes,
        home: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.leading, self.standing_by = asyncio.Event(), asyncio.Event()
        self.standing_by.set()
        # A request that has reached the server at the deadline gets this long to end.
        self.server_seconds = times.lease - times.renew_deadline
        self._client, self._name, self._times = client, name, times
        self._collection = f"/apis/{API_VERSION}/namespaces/{namespace}/leases"
        self._candidacy = Candidacy(identity, times)
        self._changed = asyncio.Event()
        self._turns = asyncio.Lock()
        self._problem: str | None = None
        self._published: object = None
        self._home = home

    def share(self, answers: Answers) -> None:
        """Note the outcomes of this election's requests in `answers`: they are the first to end an outage."""
        if self._home is None:
            self._client.answers = answers
        else:
            self._client.answers.on_return = functools.partial(self._home.call_soon_threadsafe, answers.heard)

    @property
    def unread(self) -> str | None:
        """Why the holder is unknown, or None once it is known. A standby that cannot read the Lease cannot take over."""
        return None if self._candidacy.known else self._problem or "the lease has not been read yet"

    @property
    def vacant_since(self) -> float:
        """Monotonic time from which no process may have led before this one did: the last renewal that it saw of the former leader."""
        return self._candidacy.vacant_since

    def seconds_left(self) -> float:
        """Return how long this replica may still write; zero or less if it may not."""
        return self._candidacy.writes_until - time.monotonic()

    async def run(self) -> None:
        """Run until cancelled. The caller should then call `resign` and `release` if this replica led."""
        listener = asyncio.create_task(self._listen(), name="lease-watch")
        try:
            while True:
                self._changed.clear()
                async with self._turns:
                    began = time.monotonic()
                    await self._turn()
                self._publish()
                pause = self._candidacy.pause(began, time.monotonic(), random.random())  # noqa: S311 (jitter, not a secret)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._changed.wait()
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)

    async def resign(self) -> None:
        """Start no further write. This replica keeps the Lease until `release`, so that no other one starts writing."""
        self._candidacy.resign()
        self._publish()

    async def release(self) -> None:
        """Release the Lease. Call it only once no write of this replica is under way."""
        try:
            async with asyncio.timeout(self._times.renew_deadline), self._turns:  # a renewal under way may change the stored record
                record = self._candidacy.resign()
                if record is None:
                    return
                await self._client.replace(f"{self._collection}/{self._name}", self._body(record))
        except (ApiError, TimeoutError) as error:
            event(logger, logging.WARNING, "lease not released, it expires", lease=self._name, problem=str(error))
        else:
            event(logger, logging.INFO, "lease released", lease=self._name)

    async def _turn(self) -> None:
        """Read the Lease unless leading; then write it if due. A hanging API server costs one turn, not the right to write."""
        try:
            async with asyncio.timeout(self._times.renew_deadline / 2):
                if not self._candidacy.leads(time.monotonic()):
                    self._publish()  # before the read, which may restore leadership: another replica may have led in between
                    await self._read()
                claim = self._candidacy.claim(time.monotonic())
                if claim is not None:
                    await self._write(claim)
        except (ApiError, TimeoutError) as error:
            self._note(str(error) or "no answer in time")
        else:
            self._note(None)

    async def _read(self) -> None:
        try:
            record = _record_of(await self._client.get_json(f"{self._collection}/{self._name}"))
        except NotFound:
            record = None
        self._candidacy.read(record, time.monotonic())

    async def _write(self, claim: LeaseRecord) -> None:
        sent_at = time.monotonic()
        try:
            if claim.version:
                stored = await self._client.replace(f"{self._collection}/{self._name}", self._body(claim))
            else:
                stored = await self._client.create(self._collection, self._body(claim))
        except Conflict:  # another replica was faster, or the answer to this replica's write was lost
            await self._read()
        except NotFound:
            self._candidacy.read(None, time.monotonic())
        else:
            self._candidacy.written(_record_of(stored), sent_at, time.monotonic())

    def _body(self, record: LeaseRecord) -> JsonObject:
        now = _micro_time(time.time())
        spec: JsonObject = {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": round(record.seconds),
            "acquireTime": record.acquired or now,
            "renewTime": now,
            "leaseTransitions": record.transitions,
        }
        metadata = {"name": self._name} | ({"resourceVersion": record.version} if record.version else {})
        return {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": spec}

    async def _listen(self) -> None:
        """Wake the loop when the Lease changes, so that a released Lease is taken at once. Without this the next turn would notice it."""
        params = {"watch": "true", "fieldSelector": f"metadata.name={self._name}"}
        while True:
            with contextlib.suppress(ApiError):
                async for _ in self._client.stream_batches(self._collection, params, inactivity_seconds=self._times.lease):
                    if not self._candidacy.leads(time.monotonic()):
                        self._changed.set()
            await asyncio.sleep(self._times.retry)

    def _publish(self) -> None:
        leads = self._candidacy.leads(time.monotonic())
        if self._home is None:
            self._show(leads)
        else:
            self._home.call_soon_threadsafe(self._show, leads)
        published = leads, self._candidacy.holder
        if self._candidacy.known and published != self._published:
            self._published = published
            event(logger, logging.INFO, "leading" if leads else "standing by", lease=self._name, holder=self._candidacy.holder)

    def _show(self, leads: bool) -> None:
        for flag, value in ((self.leading, leads), (self.standing_by, not leads)):
            flag.set() if value else flag.clear()

    def _note(self, problem: str | None) -> None:
        """Log a problem if it is new."""
        if problem is not None and problem != self._problem:
            event(logger, logging.WARNING, "lease not read or renewed", lease=self._name, problem=problem)
        self._problem = problem


def _record_of(obj: Mapping[str, Any]) -> LeaseRecord:
    spec = obj.get("spec") or {}
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        seconds=float(spec.get("leaseDurationSeconds") or 0),
        acquired=spec.get("acquireTime"),
        renewed=spec.get("renewTime"),
        transitions=int(spec.get("leaseTransitions") or 0),
        version=str(obj["metadata"].get("resourceVersion") or ""),
    )


def _micro_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
