"""Sends the writes of a round in order, rate-limited by the client. `status_writer.py` sends statuses and events. Decides nothing.

A failed write is counted and returns as a difference in the next round; the client refuses it until its pause is over. Answers of the API
server go into the caches at once, so that the next round does not repeat a write whose watch event has not arrived yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from itertools import groupby
from typing import Any, TypeVar

import msgspec

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import Conflict, NotFound
from fairburst.kube.api.outcome import succeeded
from fairburst.kube.api.quota_objects import ResourceQuota
from fairburst.kube.enforce.controller_resync import resync_annotations
from fairburst.kube.enforce.namespace_labels import UNMANAGED, Labels
from fairburst.kube.enforce.quota_plan import QuotaKey, QuotaWrite, quota_body
from fairburst.kube.enforce.quota_scope import leaves_to
from fairburst.kube.enforce.suspend import JobStart
from fairburst.kube.jobs.elasticity import ElasticPlan
from fairburst.kube.jobs.parallelism_plan import ParallelismWrite
from fairburst.kube.names import POOL_LABEL, QUOTA_NAME
from fairburst.kube.queues.job_annotations import FIELD_MANAGER
from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.usage.demand import Owner
from fairburst.kube.workloads.registry import KINDS
from fairburst.telemetry.metrics import Metrics

CONCURRENT_WRITES = 32
STARTS_AT_ONCE = 16
SLOW_SECONDS = 2.0  # a round that takes longer leaves its last writes to the next one, if a burst is under way or has become due
MOST_CUT_SHORT = 3  # rounds in a row, so that every write has its turn where the API server stays slow

Item = TypeVar("Item")
QuotaWritten = Callable[[QuotaWrite, float, bool], None]  # the time, and whether it succeeded
NotResynced = Callable[[Owner, bool], None]  # whether the write was sent, and failed
Seen = Callable[[dict[str, Any]], None]


class Applier:
    """Sends plans through one client. `namespace_seen`, `quota_seen` and `job_seen` (Jobs and JobSets) take the objects that the server
    answers with. `on_answer` is called after each write."""

    def __init__(
        self,
        client: ApiClient,
        pool: str,
        metrics: Metrics,
        *,
        namespace_seen: Seen,
        quota_seen: Seen,
        job_seen: Seen,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._pool = pool
        self._metrics = metrics
        self._namespace_seen = namespace_seen
        self._quota_seen = quota_seen
        self._job_seen = job_seen
        self._on_answer = on_answer
        self._limit = asyncio.Semaphore(CONCURRENT_WRITES)
        self._cut_short = 0

    async def apply(self, plan: RoundPlan, quota_written: QuotaWritten, not_resynced: NotResynced) -> bool:
        """Send everything but statuses and events; return whether all succeeded.

        `quota_written` receives each quota write that was tried, `not_resynced` each controller that was not resynced. Where answers take
        so long that a burst would wait for them, the last writes are left to the next round, which serves the burst first.
        """
        patient = self._cut_short >= MOST_CUT_SHORT
        due = math.inf if patient else time.monotonic() + max(plan.seconds_to_burst, SLOW_SECONDS)
        done = await self._each("label", plan.labels.items(), self._label)
        released = dict[str, list[QuotaKey]]({namespace: [] for namespace in plan.releases})
        for key in plan.quota_deletions:
            released.get(key[0], []).append(key)
        done &= await self._each("release", released.items(), self._release)
        done &= await self._resize(plan.elastic, [write for write in plan.elastic.writes if write.shrinks])
        growing = {(write.namespace, write.name): write for write in plan.elastic.writes if not write.shrinks}
        for owner in [owner for owner in plan.resyncs if owner.kind == "Job" and (owner.namespace, owner.name) in growing]:
            plan.resyncs.remove(owner)  # its new size is valid for its present version only
            not_resynced(owner, False)
        after = {write.namespace for write in plan.quota_writes}
        (unwritten, followed), *parts = await _together(
            self._quota_steps(plan, due, quota_written, not_resynced),
            self._resyncs([owner for owner in plan.resyncs if owner.namespace not in after], not_resynced),
            self._starts([start for start in plan.starts if start.namespace not in after], due),
        )
        self._cut_short = self._cut_short + 1 if time.monotonic() > due else 0
        if self._cut_short:
            plan.elastic.not_written(growing)
            return False
        done &= await self._each("quota", [key for key in plan.quota_deletions if key[0] not in released], self._delete_further_quota)
        done &= await self._resize(plan.elastic, growing.values())
        done &= await self._starts([start for start in plan.starts if start.namespace in unwritten], due)
        return done and followed and not unwritten and all(parts)

    async def _quota_steps(self, plan: RoundPlan, due: float, written: QuotaWritten, not_resynced: NotResynced) -> tuple[set[str], bool]:
        """Send the quota writes, step after step until `due`. Resync and start the work of each namespace after its last write.

        Return the namespaces with a quota that was not written, and whether no resync or start failed.
        """
        steps = [list(step) for _, step in groupby(plan.quota_writes, key=lambda write: write.order)]
        waiting, failed = {write.namespace for write in plan.quota_writes}, set[str]()
        following = list[asyncio.Task[bool]]()
        async with asyncio.TaskGroup() as tasks:  # no quota waits for them
            for number, writes in enumerate(steps, start=1):
                done = await _together(*(self._one("quota", write, self._quota) for write in writes))
                for write, ok in zip(writes, done, strict=True):
                    written(write, time.monotonic(), ok)
                    failed |= set() if ok else {write.namespace}
                ready = waiting - {write.namespace for step in steps[number:] for write in step} - failed
                waiting -= ready
                resyncs = self._resyncs([owner for owner in plan.resyncs if owner.namespace in ready], not_resynced)
                starts = self._starts([start for start in plan.starts if start.namespace in ready], due)
                following += [tasks.create_task(resyncs), tasks.create_task(starts)]
                if time.monotonic() > due:
                    break
        for owner in plan.resyncs:  # a quota that was not written would refuse their pods again
            if owner.namespace in waiting:
                not_resynced(owner, False)
        return waiting, all(task.result() for task in following)

    async def _resize(self, elastic: ElasticPlan, writes: Collection[ParallelismWrite]) -> bool:
        """Send new sizes of Jobs; return whether none failed."""
        done = await _together(*(self._one("parallelism", write, self._parallelism) for write in writes))
        elastic.not_written({(write.namespace, write.name) for write, ok in zip(writes, done, strict=True) if not ok})
        return all(done)

    async def _starts(self, starts: Sequence[JobStart], due: float) -> bool:
        """Start held work until `due`, a few at once so that no quota waits behind all of it; return whether all has started."""
        waiting = iter(starts)

        async def one_by_one() -> bool:
            done = True
            for start in waiting:
                done &= await self._one("start", start, self._start)
                if time.monotonic() > due:
                    break
            return done

        done = await _together(*(one_by_one() for _ in starts[:STARTS_AT_ONCE]))
        return all(done) and next(waiting, None) is None

    async def _resyncs(self, owners: Sequence[Owner], not_resynced: NotResynced) -> bool:
        """Resync controllers; return whether none failed."""
        done = await _together(*(self._one("resync", owner, self._resync) for owner in owners))
        for owner, ok in zip(owners, done, strict=True):
            if not ok:
                not_resynced(owner, True)
        return all(done)

    async def _each(self, kind: str, items: Iterable[Item], send: Callable[[Item], Awaitable[None]]) -> bool:
        """Send items concurrently; return whether none failed."""
        return all(await _together(*(self._one(kind, item, send) for item in items)))

    async def _one(self, kind: str, item: Item, send: Callable[[Item], Awaitable[None]]) -> bool:
        async with self._limit:
            done = await succeeded(kind, send(item), self._metrics)
        self._on_answer()
        return done

    async def _label(self, wanted: tuple[str, Labels]) -> None:
        namespace, labels = wanted
        self._namespace_seen(await self._client.merge_patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": dict(labels)}}))

    async def _release(self, released: tuple[str, Sequence[QuotaKey]]) -> None:
        """Release a namespace that has left enforcement: delete its quotas, then the labels that select its pods for the policies. The
        labels go last, because they say that a quota without a label is an operator's."""
        namespace, quotas = released
        for key in quotas:
            with contextlib.suppress(NotFound):  # deleted by hand, or by an earlier attempt
                await self._delete_quota(key)
        await self._label((namespace, UNMANAGED))

    async def _quota(self, write: QuotaWrite) -> None:
        """Write status.hard, which admission enforces, then spec.hard: kube-controller-manager finds it copied and writes nothing.

        If it counts the quota again between the two, it restores the former limits, and copies these after the second write. A quota that
        is new, or is to count other pods, has its spec first, because its status depends on that.
        """
        if write.replace:
            await self._delete_quota(write.key)
        if write.create or write.rescope:
            await self._declare(write)
            self._quota_seen(await self._enforce(write))
        else:
            await self._enforce(write)
            self._quota_seen(await self._declare(write))

    async def _declare(self, write: QuotaWrite) -> dict[str, Any]:
        """Write the quota's spec, label and annotations, and return the quota."""
        collection = _quotas_of(write.namespace)
        if write.create:
            return await self._client.create(collection, quota_body(write, self._pool))
        metadata: dict[str, Any] = {"labels": {POOL_LABEL: self._pool}, "ownerReferences": None}
        if write.notes:
            metadata["annotations"] = dict(write.notes)
        spec: dict[str, Any] = {"hard": _limits(write)}
        if write.rescope:  # the API server permits this change, though not one of `scopes`
            spec["scopeSelector"] = write.scope.body()
        return await self._client.merge_patch(f"{collection}/{write.name}", {"metadata": metadata, "spec": spec})

    async def _enforce(self, write: QuotaWrite) -> dict[str, Any]:
        """Write the quota's status, and return the quota."""
        enforced: dict[str, Any] = {"hard": _limits(write)}
        if write.used or write.stale_keys:
            enforced["used"] = {**write.used, **dict.fromkeys(write.stale_keys)}
        return await self._client.merge_patch(f"{_quotas_of(write.namespace)}/{write.name}/status", {"status": enforced})

    async def _delete_further_quota(self, key: QuotaKey) -> None:
        """Delete the quota of small jobs or of a lane, if the namespace quota counts its pods. The cache may not tell: after a take-over
        it can be older than the last leader's writes."""
        namespace, name = key
        with contextlib.suppress(NotFound):
            found = await self._client.get_json(f"{_quotas_of(namespace)}/{QUOTA_NAME}")
            if leaves_to(msgspec.convert(found, ResourceQuota), name):
                self._quota_seen(found)
                raise Conflict(409, "Conflict", f"expected that {QUOTA_NAME} counts the pods of {name}, found that it leaves them out")
        await self._delete_quota(key)

    async def _delete_quota(self, key: QuotaKey) -> None:
        namespace, name = key
        await self._client.delete(f"{_quotas_of(namespace)}/{name}")

    async def _parallelism(self, write: ParallelismWrite) -> None:
        """Resize a Job. If it has changed since we looked, leave it to the next round."""
        path = KINDS["Job"].path(write.namespace, write.name)
        self._job_seen(await self._client.merge_patch(path, write.patch(), {"fieldManager": FIELD_MANAGER}))

    async def _start(self, start: JobStart) -> None:
        """Start a held Job. If it has changed since we looked, leave it to the next round."""
        path = KINDS[start.kind].path(start.namespace, start.name)
        self._job_seen(await self._client.merge_patch(path, start.patch(time.time()), {"fieldManager": FIELD_MANAGER}))

    async def _resync(self, owner: Owner) -> None:
        path = KINDS[owner.kind].path(owner.namespace, owner.name)
        await self._client.merge_patch(path, {"metadata": {"annotations": resync_annotations(owner, time.time())}})


def _limits(write: QuotaWrite) -> dict[str, str | None]:
    """Return the limits as a merge patch: None removes one."""
    return {**write.hard, **dict.fromkeys(write.stale_keys)}


def _quotas_of(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/resourcequotas"


async def _together(*parts: Awaitable[Any]) -> list[Any]:
    """Await all parts; raise the first unexpected error once all have ended: no write may run on into the next round."""
    done = await asyncio.gather(*parts, return_exceptions=True)
    for one in done:
        if isinstance(one, BaseException):
            raise one
    return done
