"""Removal of everything that the operator wrote outside of its installation.

Held work is released, and resized Jobs get their parallelism back. The labels of the pool's namespaces, its quotas in them, and the memory
and the Lease in the operator's own namespace are deleted. Run it after the operator has been removed for good; a running operator would
write them again. Queues stay, because people created them, and so does a namespace's label `fairburst.dev/managed` without a pool's label.
"""

from __future__ import annotations

import msgspec

from fairburst.config import Config
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.lease import API_VERSION as LEASE_API
from fairburst.kube.api.objects import Job
from fairburst.kube.api.saved import job_runs_name, memory_name
from fairburst.kube.enforce.quota_plan import QuotaKey
from fairburst.kube.install.release import Undone, claim, disclaim, release
from fairburst.kube.jobs.parallelism_plan import plan_restores
from fairburst.kube.names import OUR_QUOTAS, POOL_LABEL
from fairburst.kube.queues.job_annotations import FIELD_MANAGER


async def uninstall(client: ApiClient, config: Config) -> Undone:
    """Undo everything. A missing object is no error. The result names objects that the API server refuses to change.

    A further run finishes what this one could not: a namespace keeps the pool's label until everything in it is undone.

    Raises ApiError if the quotas cannot be listed, or the API server does not answer.
    """
    pool, report = config.pool.name, Undone()
    managed = await release(client, pool, report)
    quotas = await _quotas(client, pool, managed)
    bare = {namespace for namespace, _ in quotas} - managed  # only the quotas show that these were the pool's
    await claim(client, bare, pool, report)
    unclaimed = {namespace for namespace in bare if report.refused(f"namespaces {namespace}")}
    for namespace in sorted({*managed, *bare, config.namespace}):
        await _give_back(client, namespace, report)
    found = [("resourcequotas", *key) for key in quotas]
    found += [("configmaps", config.namespace, name) for name in (memory_name(pool), job_runs_name(pool))]
    found.append(("leases", config.namespace, config.lease_name))
    for kind, namespace, name in found:
        if kind == "resourcequotas" and namespace in unclaimed:
            report.left.append(f"{kind} {namespace}/{name}: kept, because without it a further run would not find namespace {namespace}")
            continue
        group = f"/apis/{LEASE_API}" if kind == "leases" else "/api/v1"
        async with report.step("deleted", f"{kind} {namespace}/{name}"):
            await client.delete(f"{group}/namespaces/{namespace}/{kind}/{name}")
    await disclaim(client, {*managed, *bare}, report)
    return report


async def _quotas(client: ApiClient, pool: str, managed: frozenset[str]) -> list[QuotaKey]:
    """Return the pool's quotas by namespace and name. In its namespaces, one with our name that has lost its label is the pool's, too."""
    labelled = await client.get_json("/api/v1/resourcequotas", {"labelSelector": f"{POOL_LABEL}={pool}"})
    others = await client.get_json("/api/v1/resourcequotas", {"labelSelector": f"!{POOL_LABEL}"})
    keys = [[(quota["metadata"]["namespace"], quota["metadata"]["name"]) for quota in one["items"]] for one in (labelled, others)]
    return sorted({*keys[0], *(key for key in keys[1] if key[0] in managed and key[1] in OUR_QUOTAS)})


async def _give_back(client: ApiClient, namespace: str, report: Undone) -> None:
    """Restore the namespace's Jobs."""
    jobs = list[Job]()
    async with report.step("", f"jobs {namespace}/*"):
        listed = await client.get_json(f"/apis/batch/v1/namespaces/{namespace}/jobs")
        jobs = [msgspec.convert(item, Job) for item in listed["items"]]
    for write in plan_restores(jobs):
        async with report.step("gave back", f"jobs {write.namespace}/{write.name}"):
            path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{write.name}"
            await client.merge_patch(path, write.patch(), {"fieldManager": FIELD_MANAGER})
