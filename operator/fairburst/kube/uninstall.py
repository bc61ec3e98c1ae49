"""What the operator wrote outside of its installation, deleted: the pool's quotas in every namespace, and the memory in its own.

For when the operator is gone for good; one that still runs would write them again. Queues and the labels of namespaces stay, since
people made them.
"""

from __future__ import annotations

from fairburst.config import Config
from fairburst.kube.client import ApiClient
from fairburst.kube.errors import NotFound
from fairburst.kube.quota_plan import POOL_LABEL

_MEMORY = ("fairburst-memory-{pool}", "fairburst-job-runs-{pool}")  # names of ConfigMaps, see committed.py and learned_curves.py


async def uninstall(client: ApiClient, config: Config) -> list[str]:
    """Delete them all, and return what was deleted as `kind namespace/name`. Raises ApiError; what is gone already is no error."""
    pool = config.pool.name
    quotas = await client.get_json("/api/v1/resourcequotas", {"labelSelector": f"{POOL_LABEL}={pool}"})
    found = [("resourcequotas", quota["metadata"]["namespace"], quota["metadata"]["name"]) for quota in quotas["items"]]
    found += [("configmaps", config.namespace, name.format(pool=pool)) for name in _MEMORY]
    return [f"{kind} {namespace}/{name}" for kind, namespace, name in found if await _delete(client, kind, namespace, name)]


async def _delete(client: ApiClient, kind: str, namespace: str, name: str) -> bool:
    try:
        await client.delete(f"/api/v1/namespaces/{namespace}/{kind}/{name}")
    except NotFound:
        return False
    return True
