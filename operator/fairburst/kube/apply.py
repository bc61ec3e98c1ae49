"""Sending a round's writes: ordered, rate-limited by the client, each on its own. Decides nothing.

A write that fails is logged and counted, and comes back as a difference in the next round; nothing is retried blindly. What the
server answers is put into the caches at once, so that the next round does not repeat a write whose watch event is still on its way.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from itertools import groupby
from typing import Any, TypeVar

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError, Conflict, NotFound, NotLeading
from fairburst.kube.enforce.quota_plan import QuotaKey, QuotaWrite, quota_body
from fairburst.kube.enforce.suspend import JobStart
from fairburst.kube.enforce.wake import WOKEN_ANNOTATION
from fairburst.kube.engine import RoundPlan
from fairburst.kube.jobs.elasticity import JobEvent
from fairburst.kube.jobs.parallelism_plan import ParallelismWrite
from fairburst.kube.names import GROUP, HOLDS_LABEL, MANAGED_LABEL, POOL_LABEL, QUOTA_NAME
from fairburst.kube.queues.job_annotations import FIELD_MANAGER
from fairburst.kube.queues.queue_watch import PLURALS
from fairburst.kube.queues.roster import Member
from fairburst.kube.queues.schemas import API_VERSION, VERSION, from_epoch
from fairburst.kube.usage.demand import Owner
from fairburst.kube.views.status import StatusWrite
from fairburst.policy.model import RoundEvent
from fairburst.telemetry.log import event
from fairburst.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

CONCURRENT_WRITES = 32
CONTROLLER_PATHS = {
    "Job": "/apis/batch/v1/namespaces/{}/jobs/{}",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets/{}",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets/{}",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments/{}",
}

Item = TypeVar("Item")
Seen = Callable[[dict[str, Any]], None]


class Applier:
    """Sends plans through one client. `quota_seen`, `queue_seen` and `job_seen` take the objects that the server answers
    with."""

    def __init__(self, client: ApiClient, pool: str, metrics: Metrics, *, quota_seen: Seen, queue_seen: Seen, job_seen: Seen) -> None:
        self._client = client
        self._pool = pool
        self._metrics = metrics
        self._quota_seen = quota_seen
        self._queue_seen = queue_seen
        self._job_seen = job_seen
        self._limit = asyncio.Semaphore(CONCURRENT_WRITES)

    async def apply(
        self, plan: RoundPlan, quota_written: Callable[[QuotaWrite, float], None], status_written: Callable[[StatusWrite, float], None]
    ) -> bool:
        """Send everything; True if all of it succeeded. The callbacks learn of each write sent, successful or not."""
        done = await self._each("label", plan.labels, self._label)
        done &= await self._each("label", plan.hold_labels, self._hold_label)
        done &= await self._each("release", plan.releases, self._release)
        resized = plan.elastic.writes
        done &= await self._each("parallelism", [write for write in resized if write.shrinks], self._parallelism)
        for _, step in groupby(plan.quota_writes, key=lambda write: write.order):
            writes = list(step)
            done &= await self._each("quota", writes, self._quota)
            for write in writes:
                quota_written(write, time.monotonic())
        done &= await self._each("quota", plan.quota_deletions, self._delete_quota)
        done &= await self._each("parallelism", [write for write in resized if not write.shrinks], self._parallelism)
        done &= await self._each("start", plan.starts, self._start)
        done &= await self._each("wake", plan.wakes, self._wake)
        done &= await self._each("status", plan.statuses, self._status)
        for status in plan.statuses:
            status_written(status, time.monotonic())
        done &= await self._each("event", plan.elastic.events, self._job_event)
        return await self._each("event", plan.events, self._event) and done

    async def _each(self, kind: str, items: Iterable[Item], send: Callable[[Item], Awaitable[None]]) -> bool:
        """Send items side by side; True if none failed."""
        return all(await asyncio.gather(*(self._one(kind, item, send) for item in items)))

    async def _one(self, kind: str, item: Item, send: Callable[[Item], Awaitable[None]]) -> bool:
        try:
            async with self._limit:
                await send(item)
        except (NotFound, Conflict, NotLeading) as error:  # overtaken by a change whose event is still on its way, or by another leader
            event(logger, logging.DEBUG, "write overtaken", kind=kind, problem=str(error))
            self._metrics.writes.labels(kind, "overtaken").inc()
            return False
        except ApiError as error:
            event(logger, logging.WARNING, "write failed", kind=kind, problem=str(error))
            self._metrics.writes.labels(kind, "error").inc()
            return False
        self._metrics.writes.labels(kind, "ok").inc()
        return True

    async def _label(self, namespace: str) -> None:
        await self._client.merge_patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {MANAGED_LABEL: "true"}}})

    async def _hold_label(self, wanted: tuple[str, str | None]) -> None:
        namespace, value = wanted
        await self._client.merge_patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {HOLDS_LABEL: value}}})

    async def _release(self, namespace: str) -> None:
        """Let go of a namespace whose queue has left enforcement: the quota, then the label by which its pods are stamped."""
        await self._client.delete(f"/api/v1/namespaces/{namespace}/resourcequotas/{QUOTA_NAME}")
        await self._client.merge_patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {MANAGED_LABEL: None}}})

    async def _quota(self, write: QuotaWrite) -> None:
        """Write spec.hard, then status.hard: admission enforces the latter, and kube-controller-manager copies slowly when many change."""
        collection = f"/api/v1/namespaces/{write.namespace}/resourcequotas"
        path = f"{collection}/{write.name}"
        if write.replace:
            await self._client.delete(path)
        stale = dict.fromkeys(write.stale_keys)
        if write.create:
            await self._client.create(collection, quota_body(write, self._pool))
        else:
            labels = {POOL_LABEL: self._pool}
            await self._client.merge_patch(path, {"metadata": {"labels": labels}, "spec": {"hard": {**write.hard, **stale}}})
        enforced: dict[str, Any] = {"hard": {**write.hard, **stale}}
        if write.used or stale:
            enforced["used"] = {**write.used, **stale}
        self._quota_seen(await self._client.merge_patch(f"{path}/status", {"status": enforced}))

    async def _delete_quota(self, key: QuotaKey) -> None:
        namespace, name = key
        await self._client.delete(f"/api/v1/namespaces/{namespace}/resourcequotas/{name}")

    async def _parallelism(self, write: ParallelismWrite) -> None:
        """Resize a Job, unless it has changed since we looked: then the next round looks again."""
        path = CONTROLLER_PATHS["Job"].format(write.namespace, write.name)
        self._job_seen(await self._client.merge_patch(path, write.patch(), {"fieldManager": FIELD_MANAGER}))

    async def _start(self, start: JobStart) -> None:
        """Start a held Job, unless it has changed since we looked: then the next round looks again."""
        path = CONTROLLER_PATHS["Job"].format(start.namespace, start.name)
        self._job_seen(await self._client.merge_patch(path, start.patch(time.time()), {"fieldManager": FIELD_MANAGER}))

    async def _wake(self, owner: Owner) -> None:
        path = CONTROLLER_PATHS[owner.kind].format(owner.namespace, owner.name)
        await self._client.merge_patch(path, {"metadata": {"annotations": {WOKEN_ANNOTATION: from_epoch(time.time()).isoformat()}}})

    async def _status(self, write: StatusWrite) -> None:
        kind, namespace, name = write.member.key
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURALS[kind]}/{name}/status"
        self._queue_seen(await self._client.merge_patch(path, {"status": write.patch}))

    async def _event(self, item: tuple[Member, RoundEvent]) -> None:
        member, what = item
        kind, namespace, name = member.key
        involved = {"apiVersion": API_VERSION, "kind": kind, "namespace": namespace, "name": name, "uid": member.uid}
        await self._tell(involved, what.kind.value, what.message, warning=what.warning)

    async def _job_event(self, what: JobEvent) -> None:
        involved = {"apiVersion": "batch/v1", "kind": "Job", "namespace": what.namespace, "name": what.name, "uid": what.uid}
        await self._tell(involved, what.reason, what.message, warning=what.warning)

    async def _tell(self, involved: dict[str, str], reason: str, message: str, *, warning: bool) -> None:
        """Create an Event on an object."""
        namespace, name = involved["namespace"], involved["name"]
        now = from_epoch(time.time()).isoformat().replace("+00:00", "Z")
        await self._client.create(
            f"/api/v1/namespaces/{namespace}/events",
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"{name}.{uuid.uuid4().hex[:16]}", "namespace": namespace},
                "involvedObject": involved,
                "reason": reason,
                "message": message[:1024],
                "type": "Warning" if warning else "Normal",
                "eventTime": now,
                "firstTimestamp": now[:19] + "Z",
                "lastTimestamp": now[:19] + "Z",
                "count": 1,
                "action": "Decide",
                "reportingComponent": "fairburst.dev/operator",
                "reportingInstance": self._pool,
                "source": {"component": "fairburst"},
            },
        )
