"""What the operator wrote outside of its installation, undone: what it holds back is let go, Jobs that were resized get their
parallelism back, and the pool's quotas in every namespace and the memory and the Lease in its own are deleted.

For when the operator is gone for good; one that still runs would write them again. Queues and the labels of namespaces stay, since
people made them.
"""

from __future__ import annotations

import msgspec

from fairburst.config import Config
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import NotFound
from fairburst.kube.api.lease import API_VERSION as LEASE_API
from fairburst.kube.api.objects import Job
from fairburst.kube.api.saved import job_runs_name, memory_name
from fairburst.kube.install.let_go import let_go
from fairburst.kube.jobs.parallelism_plan import plan_restores
from fairburst.kube.names import POOL_LABEL
from fairburst.kube.queues.job_annotations import FIELD_MANAGER


async def uninstall(client: ApiClient, config: Config) -> list[str]:
    """Undo it all; what was done, as `deleted kind namespace/name`. Raises ApiError; what is gone already is no error."""
    pool = config.pool.name
    done = [f"let go {name}" for name in await let_go(client, pool)]
    quotas = await client.get_json("/api/v1/resourcequotas", {"labelSelector": f"{POOL_LABEL}={pool}"})
    found = [("resourcequotas", quota["metadata"]["namespace"], quota["metadata"]["name"]) for quota in quotas["items"]]
    found += [("configmaps", config.namespace, name) for name in (memory_name(pool), job_runs_name(pool))]
    found.append(("leases", config.namespace, config.lease_name))
    for namespace in sorted({namespace for _, namespace, _ in found}):
        done += [f"gave back {job}" for job in await _give_back(client, namespace)]
    done += [f"deleted {kind} {namespace}/{name}" for kind, namespace, name in found if await _delete(client, kind, namespace, name)]
    return done


async def _give_back(client: ApiClient, namespace: str) -> list[str]:
    """Before the quotas go, for they say which namespaces were this pool's."""
    listed = await client.get_json(f"/apis/batch/v1/namespaces/{namespace}/jobs")
    writes = plan_restores([msgspec.convert(item, Job) for item in listed["items"]])
    for write in writes:
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{write.name}"
        await client.merge_patch(path, write.patch(), {"fieldManager": FIELD_MANAGER})
    return [f"jobs {write.namespace}/{write.name}" for write in writes]


async def _delete(client: ApiClient, kind: str, namespace: str, name: str) -> bool:
    group = f"/apis/{LEASE_API}" if kind == "leases" else "/api/v1"
    try:
        await client.delete(f"{group}/namespaces/{namespace}/{kind}/{name}")
    except NotFound:
        return False
    return True
