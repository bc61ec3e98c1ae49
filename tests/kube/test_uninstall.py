"""After the operator is gone for good, nobody stays capped by what it wrote."""

from __future__ import annotations

from fairburst.config import parse_config
from fairburst.kube.uninstall import uninstall
from tests.support.fake_api import FakeApi

QUOTAS, MAPS = "/api/v1/resourcequotas", "/api/v1/configmaps"


async def test_quotas_and_memory_are_deleted_once_and_named() -> None:
    async with FakeApi(QUOTAS, MAPS) as api:
        for namespace in ("clickstream", "nightly"):
            api.put(QUOTAS, {"metadata": {"namespace": namespace, "name": "fairburst", "labels": {"fairburst.dev/pool": "gpu"}}})
        for name in ("fairburst-memory-gpu", "fairburst-memory-default", "somebody-elses"):
            api.put(MAPS, {"metadata": {"namespace": "here", "name": name}})
        config = parse_config("{namespace: here, pool: {name: gpu}}")
        async with api.client() as client:
            deleted = await uninstall(client, config)
            again = await uninstall(client, config)
        asked = [query for method, path, query in api.requests if method == "GET" and path == QUOTAS]
    assert deleted == ["resourcequotas clickstream/fairburst", "resourcequotas nightly/fairburst", "configmaps here/fairburst-memory-gpu"]
    assert again == []
    assert sorted(name for _, name in api.objects[MAPS]) == ["fairburst-memory-default", "somebody-elses"]
    assert asked[0]["labelSelector"] == "fairburst.dev/pool=gpu", "the API server leaves out other pools and other people's quotas"
