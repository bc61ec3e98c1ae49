"""After the operator is gone for good, nobody stays capped by what it wrote."""

from __future__ import annotations

from fairburst.config import parse_config
from fairburst.kube.install.uninstall import uninstall
from fairburst.kube.queues.job_annotations import Mark, mark_annotations
from tests.support.fake_api import FakeApi

QUOTAS, MAPS, JOBS = "/api/v1/resourcequotas", "/api/v1/configmaps", "/apis/batch/v1/jobs"


async def test_quotas_and_memory_are_deleted_once_and_named() -> None:
    async with FakeApi(QUOTAS, MAPS, JOBS) as api:
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


async def test_jobs_that_were_resized_get_their_parallelism_back() -> None:
    """Only this pool's: those in namespaces with its quota."""
    async with FakeApi(QUOTAS, MAPS, JOBS) as api:
        api.put(QUOTAS, {"metadata": {"namespace": "nightly", "name": "fairburst", "labels": {"fairburst.dev/pool": "default"}}})
        notes = mark_annotations(Mark(8, 3, 0.0))
        for namespace in ("nightly", "elsewhere"):
            metadata = {"namespace": namespace, "name": "train", "annotations": {"other": "x", **notes}}
            api.put(JOBS, {"metadata": metadata, "spec": {"parallelism": 3}})
        async with api.client() as client:
            undone = await uninstall(client, parse_config(""))
    assert undone == ["jobs nightly/train", "resourcequotas nightly/fairburst"], "what was given back comes first"
    given_back, others = api.objects[JOBS]["nightly", "train"], api.objects[JOBS]["elsewhere", "train"]
    assert (given_back["spec"]["parallelism"], given_back["metadata"]["annotations"]) == (8, {"other": "x"})
    assert others["spec"]["parallelism"] == 3
