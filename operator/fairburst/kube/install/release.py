"""Permanent release of all held work: the policies stop holding, gates are removed and Jobs start.

`fairburst uninstall` uses it. The running operator does the same for a queue that leaves its mode.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.decoding import list_decoder
from fairburst.kube.api.errors import ApiError, NotFound
from fairburst.kube.api.informer import PAGE_SIZE
from fairburst.kube.api.objects import Object, Pod
from fairburst.kube.enforce.gate import ungate_patch
from fairburst.kube.enforce.namespace_labels import UNMANAGED, Labels
from fairburst.kube.enforce.suspend import JobStart, unheld_starts
from fairburst.kube.names import GROUP, HELD_ANNOTATION, MANAGED_LABEL, NAMESPACE_LABELS, PLURALS, POOL_LABEL, VERSION
from fairburst.kube.queues.job_annotations import FIELD_MANAGER
from fairburst.kube.queues.queue_set import pool_name
from fairburst.kube.usage.gated_pods import GatedPod, gated_pod
from fairburst.kube.workloads.kind import Suspendable
from fairburst.kube.workloads.registry import KINDS

Kind = TypeVar("Kind", bound=Object)
Item = TypeVar("Item")

SETTLES_SECONDS = 1.0  # until every API server applies the changed labels and statuses to new pods
PASSES = 5  # a pod that changes during its patch is patched again
CONCURRENT_PATCHES = 32
OPERATORS_LABELS = frozenset(NAMESPACE_LABELS) - {MANAGED_LABEL}  # an administrator may set `managed` before there is a queue


@dataclass
class Undone:
    """The objects that were undone, as `deleted kind namespace/name`, and those left, with the reason."""

    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def step(self, verb: str, what: str) -> AsyncIterator[None]:
        """Run the step for one object. A refusal by the API server is recorded and the caller continues. Raises if there is no answer."""
        try:
            yield
        except NotFound:
            return
        except ApiError as error:
            if not error.status:
                raise
            self.left.append(f"{what}: {error}")
            return
        if verb:
            self.done.append(f"{verb} {what}")

    def refused(self, what: str) -> bool:
        """Return whether the object, called as in `step`, was left."""
        return any(one.startswith(f"{what}: ") for one in self.left)

    def unfinished(self, namespace: str) -> bool:
        """Return whether the namespace's labels, or an object in it, were left."""
        names = (one.partition(": ")[0].partition(" ")[2] for one in self.left)
        return any(name.partition("/")[0] == namespace for name in names)


async def release(client: ApiClient, pool: str, report: Undone) -> frozenset[str]:
    """Release everything; return the pool's namespaces, which keep its label until `disclaim`.

    A missing object is no error. Raises ApiError if a collection cannot be listed.
    """
    queues = [queue for kind in PLURALS for queue in await _queues(client, kind)]
    holding = [queue for queue in queues if pool_name(queue) == pool and (queue.get("status") or {}).get("holds")]
    for queue in holding:
        await _hold_nothing(client, queue, report)
    found = await client.get_json("/api/v1/namespaces")
    managed = _of_pool(found["items"], queues, pool)
    await claim(client, managed, pool, report)
    if holding:
        await asyncio.sleep(SETTLES_SECONDS)
    elsewhere = {queue["metadata"]["namespace"] for queue in queues if pool_name(queue) != pool} - managed
    for _ in range(PASSES):
        pods = [pod for pod in await _pages(client, "/api/v1/pods", Pod) if pod.metadata.deletion_timestamp is None]
        gated = [held for pod in pods if (held := gated_pod(pod)) is not None and held.key[0] not in elsewhere]
        jobs = unheld_starts(await _noted(client), lambda _: False, left_alone=elsewhere)
        report.left = [one for one in report.left if not one.startswith(("pods ", "jobs ", "jobsets "))]  # they are retried
        if not gated and not jobs:
            break
        await _each(gated, lambda pod: _ungate(client, pod, report))
        await _each(jobs, lambda job: _start(client, job, report))
    return managed


def _of_pool(namespaces: Iterable[Mapping[str, Any]], queues: Iterable[Mapping[str, Any]], pool: str) -> frozenset[str]:
    """Return the namespaces that the pool's operator has labelled. Where the pool's own label is missing, the queues say whose they are."""
    pools: dict[str, set[str]] = {}
    for queue in queues:
        pools.setdefault(queue["metadata"]["namespace"], set()).add(pool_name(queue))
    labels = {namespace["metadata"]["name"]: namespace["metadata"].get("labels") or {} for namespace in namespaces}
    return frozenset(
        name
        for name, present in labels.items()
        if present.get(POOL_LABEL) == pool
        or (POOL_LABEL not in present and pools.get(name) == {pool} and any(label in present for label in OPERATORS_LABELS))
    )


async def _queues(client: ApiClient, kind: str) -> list[dict[str, Any]]:
    try:
        listed = await client.get_json(f"/apis/{GROUP}/{VERSION}/{PLURALS[kind]}")
    except NotFound:  # the CRD was deleted, and the queues with it
        return []
    return [item | {"kind": kind} for item in listed["items"]]


async def _hold_nothing(client: ApiClient, queue: Mapping[str, Any], report: Undone) -> None:
    metadata = queue["metadata"]
    path = f"/apis/{GROUP}/{VERSION}/namespaces/{metadata['namespace']}/{PLURALS[queue['kind']]}/{metadata['name']}/status"
    async with report.step("", f"{PLURALS[queue['kind']]} {metadata['namespace']}/{metadata['name']}"):
        await client.merge_patch(path, {"status": {"holds": None}})


async def claim(client: ApiClient, namespaces: Iterable[str], pool: str, report: Undone) -> None:
    """Leave only the pool's label of the operator's labels, and set it where it was lost.

    The others bind the admission policies, also those that hold new work. By the pool's a further run finds the namespace, if this one
    cannot undo everything there.
    """
    await _label(client, namespaces, {**UNMANAGED, POOL_LABEL: pool}, report)


async def disclaim(client: ApiClient, namespaces: Iterable[str], report: Undone) -> None:
    """Remove the operator's labels from the namespaces in which nothing is left."""
    await _label(client, [name for name in namespaces if not report.unfinished(name)], UNMANAGED, report)


async def _label(client: ApiClient, namespaces: Iterable[str], labels: Labels, report: Undone) -> None:
    async def one(name: str) -> None:
        async with report.step("", f"namespaces {name}"):
            await client.merge_patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": dict(labels)}})

    await _each(namespaces, one)


async def _noted(client: ApiClient) -> list[Suspendable]:
    """Return every object that carries our note of being held."""
    jobs = list[Any]()
    for kind in KINDS.values():
        if kind.suspends:
            with contextlib.suppress(NotFound):  # its CRD is not installed
                jobs += await _pages(client, kind.collection, kind.item)
    return [job for job in jobs if HELD_ANNOTATION in (job.metadata.annotations or {})]


async def _pages(client: ApiClient, path: str, kind: type[Kind]) -> list[Kind]:
    """Return all of a collection, page by page: there may be tens of thousands of pods."""
    found, token, decoder = list[Kind](), "", list_decoder(kind)
    while True:
        page = decoder.decode(await client.get(path, {"limit": str(PAGE_SIZE)} | ({"continue": token} if token else {})))
        found += page.items or ()
        token = page.metadata.continue_token
        if not token:
            return found


async def _each(items: Iterable[Item], send: Callable[[Item], Awaitable[None]]) -> None:
    """Call `send` for each item, concurrently."""
    limit = asyncio.Semaphore(CONCURRENT_PATCHES)

    async def one(item: Item) -> None:
        async with limit:
            await send(item)

    await asyncio.gather(*map(one, items))


async def _ungate(client: ApiClient, pod: GatedPod, report: Undone) -> None:
    namespace, name = pod.key
    async with report.step("released", f"pods {namespace}/{name}"):
        await client.json_patch(f"/api/v1/namespaces/{namespace}/pods/{name}", ungate_patch(pod))


async def _start(client: ApiClient, job: JobStart, report: Undone) -> None:
    kind = KINDS[job.kind]
    async with report.step("released", f"{kind.plural} {job.namespace}/{job.name}"):
        await client.merge_patch(kind.path(job.namespace, job.name), job.patch(time.time()), {"fieldManager": FIELD_MANAGER})
