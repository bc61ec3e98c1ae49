"""Sends the writes of one round in order. A later round may overtake it, and may cut it short: it then writes what has not begun."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeVar

from fairburst.kube.api.outcome import succeeded
from fairburst.kube.enforce.quota_plan import QuotaKey, QuotaWrite
from fairburst.kube.enforce.suspend import JobStart
from fairburst.kube.jobs.parallelism_plan import ParallelismWrite
from fairburst.kube.object_writes import ObjectWrites
from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.usage.demand import Owner
from fairburst.telemetry.metrics import Metrics

CONCURRENT_WRITES = 32
STARTS_AT_ONCE = 16

Item = TypeVar("Item")
Work = TypeVar("Work", Owner, JobStart)
QuotaWritten = Callable[[QuotaWrite, float, bool | None], None]  # the time, and whether it succeeded; None: it was not sent
NotResynced = Callable[[Owner, bool], None]  # whether the write was sent, and failed


@dataclass(slots=True)
class Channel:
    """What the rounds of a process share. `on_answer` is called after each write."""

    writes: ObjectWrites
    metrics: Metrics
    on_answer: Callable[[], None]
    limit: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONCURRENT_WRITES))


class Sending:
    """The writes of a plan, apart from statuses and events.

    cut_short: whether those that have not begun are left to a later round. spared: whether it is not cut short any more.
    """

    def __init__(self, plan: RoundPlan, channel: Channel, quota_written: QuotaWritten, not_resynced: NotResynced) -> None:
        self.cut_short = self.spared = False
        self._plan = plan
        self._channel = channel
        self._quota_written, self._not_resynced = quota_written, not_resynced
        self._left = Counter(plan.writes())
        self._under_way = Counter[tuple[str, str]]()  # by kind and namespace, too
        self._unenforced = Counter(write.namespace for write in plan.quota_writes)
        self._resizes = {(write.namespace, write.name) for write in plan.elastic.writes}

    @property
    def busy(self) -> set[str]:
        """The namespaces in which a later round changes nothing: neither quotas nor labels nor sizes of Jobs."""
        return {namespace for kind, namespace in self._writes() if kind not in {"resync", "start"}}

    @property
    def starting(self) -> set[str]:
        """The namespaces in which a later round starts no work."""
        return {namespace for kind, namespace in self._writes() if kind == "start"} | self.unenforced

    @property
    def unenforced(self) -> set[str]:
        """The namespaces in which a later round resyncs no controller: a quota is to be written there first."""
        return {namespace for kind, namespace in self._writes() if kind == "quota" and self._unenforced[namespace] > 0}

    def _writes(self) -> Collection[tuple[str, str]]:
        return self._under_way if self.cut_short else self._left

    def overtake(self) -> None:
        """Let a later round begin. New sizes of Jobs that have not been answered are not told."""
        self._plan.elastic.not_written(self._resizes)

    async def run(self) -> bool:
        """Send; return whether all was sent and succeeded."""
        done = await self._all()
        self._channel.metrics.round_seconds.observe(time.monotonic() - self._plan.started)
        return done

    async def _all(self) -> bool:
        plan, writes = self._plan, self._channel.writes
        released = dict[str, list[QuotaKey]]({namespace: [] for namespace in plan.releases})
        for key in plan.quota_deletions:
            released.get(key[0], []).append(key)
        done = await self._each("label", plan.labels.items(), writes.label)
        done &= await self._each("release", released.items(), writes.release)
        done &= await self._resize([write for write in plan.elastic.writes if write.shrinks])
        growing = {(write.namespace, write.name): write for write in plan.elastic.writes if not write.shrinks}
        for owner in [owner for owner in plan.resyncs if owner.kind == "Job" and (owner.namespace, owner.name) in growing]:
            plan.resyncs.remove(owner)  # its new size is valid for its present version only
            self._not_resynced(owner, False)
        after = {write.namespace for write in plan.quota_writes}
        parts = await together(
            self._quota_steps(),
            self._resyncs([owner for owner in plan.resyncs if owner.namespace not in after]),
            self._starts([start for start in plan.starts if start.namespace not in after]),
        )
        done &= await self._each("quota", [key for key in plan.quota_deletions if key[0] not in released], writes.delete_further_quota)
        done &= await self._resize(growing.values())
        done &= await self._starts([start for start in plan.starts if self._unenforced[start.namespace] > 0])
        return done and all(parts)

    async def _quota_steps(self) -> bool:
        """Send the quota writes, step after step. Resync and start the work of each namespace once its last quota is enforced.

        Return whether all of that was sent and succeeded.
        """
        plan, following = self._plan, list[asyncio.Task[bool]]()
        resyncs, starts = _by_namespace(plan.resyncs), _by_namespace(plan.starts)
        async with asyncio.TaskGroup() as tasks:  # no quota waits for them

            def follow(namespace: str) -> None:
                self._unenforced[namespace] -= 1
                if self._unenforced[namespace] <= 0 and (namespace in resyncs or namespace in starts):
                    following.append(tasks.create_task(self._resyncs(resyncs.get(namespace, []))))
                    following.append(tasks.create_task(self._starts(starts.get(namespace, []))))

            done = True
            for _, step in groupby(plan.quota_writes, key=lambda write: write.order):
                done &= all(await together(*(self._quota(write, follow) for write in step)))
        for owner in plan.resyncs:  # a quota that was not written would refuse their pods again
            if self._unenforced[owner.namespace] > 0:
                self._not_resynced(owner, False)
        return done and all(task.result() for task in following)

    async def _quota(self, write: QuotaWrite, follow: Callable[[str], None]) -> bool | None:
        """Write a quota, and `follow` once it is enforced. Return as `_one` does."""
        at: float | None = None

        def enforced() -> None:
            nonlocal at
            at = time.monotonic()
            follow(write.namespace)

        done = await self._one("quota", write, lambda one: self._channel.writes.quota(one, enforced))
        self._quota_written(write, time.monotonic() if at is None else at, done)
        return done

    async def _resize(self, writes: Collection[ParallelismWrite]) -> bool:
        """Send new sizes of Jobs; return whether all were sent and succeeded."""
        done = await together(*(self._one("parallelism", write, self._channel.writes.parallelism) for write in writes))
        for write, ok in zip(writes, done, strict=True):
            if ok:
                self._resizes.discard((write.namespace, write.name))
            else:
                self._plan.elastic.not_written([(write.namespace, write.name)])
        return all(done)

    async def _starts(self, starts: Sequence[JobStart]) -> bool:
        """Start held work, a few at once so that no quota waits behind all of it; return whether all has started."""
        waiting = iter(starts)

        async def one_by_one() -> bool:
            return all([await self._one("start", start, self._channel.writes.start) for start in waiting])

        return all(await together(*(one_by_one() for _ in starts[:STARTS_AT_ONCE])))

    async def _resyncs(self, owners: Sequence[Owner]) -> bool:
        """Resync controllers; return whether all were sent and succeeded."""
        done = await together(*(self._one("resync", owner, self._channel.writes.resync) for owner in owners))
        for owner, ok in zip(owners, done, strict=True):
            if not ok:
                self._not_resynced(owner, ok is not None)
        return all(done)

    async def _each(self, kind: str, items: Iterable[Item], send: Callable[[Item], Awaitable[None]]) -> bool:
        """Send items concurrently; return whether all were sent and succeeded."""
        return all(await together(*(self._one(kind, item, send) for item in items)))

    async def _one(self, kind: str, item: Item, send: Callable[[Item], Awaitable[None]]) -> bool | None:
        """Send one write; return whether it succeeded, None if it is left to a later round."""
        async with self._channel.limit:
            if self.cut_short:
                return None
            with self._under_way_as(kind, item[0] if isinstance(item, tuple) else item.namespace):  # type: ignore[attr-defined]
                done = await succeeded(kind, send(item), self._channel.metrics)
        self._channel.on_answer()
        return done

    @contextmanager
    def _under_way_as(self, kind: str, namespace: str) -> Iterator[None]:
        write = kind, namespace
        self._under_way[write] += 1
        try:
            yield
        finally:
            for counted in (self._under_way, self._left):
                counted[write] -= 1
                if counted[write] <= 0:
                    del counted[write]


def _by_namespace(items: Iterable[Work]) -> dict[str, list[Work]]:
    found = dict[str, list[Work]]()
    for item in items:
        found.setdefault(item.namespace, []).append(item)
    return found


async def together(*parts: Awaitable[Any]) -> list[Any]:
    """Await all parts; raise the first unexpected error once all have ended: no write may run on by itself."""
    done = await asyncio.gather(*parts, return_exceptions=True)
    for one in done:
        if isinstance(one, BaseException):
            raise one
    return done
