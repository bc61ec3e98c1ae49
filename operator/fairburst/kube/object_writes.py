"""How each object of a round is written: one method for each kind of write. Decides nothing.

Answers of the API server go into the caches at once, so that the next round does not repeat a write whose watch event has not arrived yet.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import Conflict, NotFound
from fairburst.kube.api.quota_objects import ResourceQuota
from fairburst.kube.enforce.controller_resync import resync_annotations
from fairburst.kube.enforce.namespace_labels import UNMANAGED, Labels
from fairburst.kube.enforce.quota_plan import QuotaKey, QuotaWrite
from fairburst.kube.enforce.quota_scope import leaves_to
from fairburst.kube.enforce.suspend import JobStart
from fairburst.kube.jobs.parallelism_plan import ParallelismWrite
from fairburst.kube.names import POOL_LABEL, QUOTA_NAME
from fairburst.kube.queues.job_annotations import FIELD_MANAGER
from fairburst.kube.usage.demand import Owner
from fairburst.kube.workloads.registry import KINDS

Seen = Callable[[dict[str, Any]], None]


class ObjectWrites:
    """Writes through one client. `namespace_seen`, `quota_seen` and `job_seen` (Jobs and JobSets) take the objects that the server answers
    with."""

    def __init__(self, client: ApiClient, pool: str, *, namespace_seen: Seen, quota_seen: Seen, job_seen: Seen) -> None:
        self._client = client
        self._pool = pool
        self._namespace_seen = namespace_seen
        self._quota_seen = quota_seen
        self._job_seen = job_seen

    async def label(self, wanted: tuple[str, Labels]) -> None:
        namespace, labels = wanted
        self._namespace_seen(await self._client.merge_patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": dict(labels)}}))

    async def release(self, released: tuple[str, Sequence[QuotaKey]]) -> None:
        """Release a namespace that has left enforcement: delete its quotas, then the labels that select its pods for the policies. The
        labels go last, because they say that a quota without a label is an operator's."""
        namespace, quotas = released
        for key in quotas:
            with contextlib.suppress(NotFound):  # deleted by hand, or by an earlier attempt
                await self._delete_quota(key)
        await self.label((namespace, UNMANAGED))

    async def quota(self, write: QuotaWrite, enforced: Callable[[], None]) -> None:
        """Write status.hard, which admission enforces, then spec.hard: kube-controller-manager finds it copied and writes nothing. In
        between call `enforced`.

        If it counts the quota again between the two, it restores the former limits, and copies these after the second write. A quota that
        is new, or is to count other pods, has its spec first, because its status depends on that.
        """
        if write.replace:
            await self._delete_quota(write.key)
        if write.create or write.rescope:
            await self._declare(write)
            self._quota_seen(await self._enforce(write))
            enforced()
        else:
            await self._enforce(write)
            enforced()
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

    async def delete_further_quota(self, key: QuotaKey) -> None:
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

    async def parallelism(self, write: ParallelismWrite) -> None:
        """Resize a Job. If it has changed since we looked, leave it to the next round."""
        path = KINDS["Job"].path(write.namespace, write.name)
        self._job_seen(await self._client.merge_patch(path, write.patch(), {"fieldManager": FIELD_MANAGER}))

    async def start(self, start: JobStart) -> None:
        """Start a held Job. If it has changed since we looked, leave it to the next round."""
        path = KINDS[start.kind].path(start.namespace, start.name)
        self._job_seen(await self._client.merge_patch(path, start.patch(time.time()), {"fieldManager": FIELD_MANAGER}))

    async def resync(self, owner: Owner) -> None:
        path = KINDS[owner.kind].path(owner.namespace, owner.name)
        await self._client.merge_patch(path, {"metadata": {"annotations": resync_annotations(owner, time.time())}})


def quota_body(write: QuotaWrite, pool: str) -> dict[str, Any]:
    """Return the whole ResourceQuota object for a creation.

    It has no owner: the garbage collector would delete it with its queue, and the namespace would have no quota until the next round.
    """
    metadata: dict[str, Any] = {"name": write.name, "namespace": write.namespace, "labels": {POOL_LABEL: pool}}
    if noted := {name: text for name, text in write.notes.items() if text is not None}:
        metadata["annotations"] = noted
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": dict(write.hard), "scopeSelector": write.scope.body()},
    }


def _limits(write: QuotaWrite) -> dict[str, str | None]:
    """Return the limits as a merge patch: None removes one."""
    return {**write.hard, **dict.fromkeys(write.stale_keys)}


def _quotas_of(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/resourcequotas"
