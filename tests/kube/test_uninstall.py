"""After an uninstallation no namespace stays capped by what the operator wrote."""

from __future__ import annotations

import asyncio

import pytest

from fairburst.cli.main import main
from fairburst.config import parse_config
from fairburst.kube.install.release import Undone
from fairburst.kube.install.uninstall import uninstall
from fairburst.kube.names import GATE, HELD_ANNOTATION, HOLDS_LABEL, MANAGED_LABEL, POOL_LABEL, PRIORITY_LABEL
from fairburst.kube.queues.job_annotations import Mark, mark_annotations
from tests.support.fake_api import FakeApi
from tests.support.objects import stored_queue

QUOTAS, MAPS, JOBS, PODS = "/api/v1/resourcequotas", "/api/v1/configmaps", "/apis/batch/v1/jobs", "/api/v1/pods"
THROUGHPUT = "/apis/fairburst.dev/v1alpha1/throughputqueues"
NAMESPACES = "/api/v1/namespaces"
LEASES = "/apis/coordination.k8s.io/v1/leases"


async def test_quotas_and_memory_are_deleted_once_and_named() -> None:
    async with FakeApi(NAMESPACES, QUOTAS, MAPS, JOBS, PODS, LEASES) as api:
        api.put(LEASES, {"metadata": {"namespace": "here", "name": "fairburst-gpu"}})
        for namespace in ("clickstream", "nightly"):
            api.put(QUOTAS, {"metadata": {"namespace": namespace, "name": "fairburst", "labels": {"fairburst.dev/pool": "gpu"}}})
        for name in ("fairburst-memory-gpu", "fairburst-memory-default", "of-another-tool"):
            api.put(MAPS, {"metadata": {"namespace": "here", "name": name}})
        config = parse_config("{namespace: here, pool: {name: gpu}}")
        async with api.client() as client:
            deleted = (await uninstall(client, config)).done
            again = (await uninstall(client, config)).done
        asked = [query for method, path, query in api.requests if method == "GET" and path == QUOTAS]
    quotas = ["resourcequotas clickstream/fairburst", "resourcequotas nightly/fairburst"]
    want = [*quotas, "configmaps here/fairburst-memory-gpu", "leases here/fairburst-gpu"]
    assert deleted == [f"deleted {one}" for one in want]
    assert again == []
    assert sorted(name for _, name in api.objects[MAPS]) == ["fairburst-memory-default", "of-another-tool"]
    assert asked[0]["labelSelector"] == "fairburst.dev/pool=gpu", "the API server leaves out other pools and other people's quotas"


async def test_jobs_that_were_resized_get_their_parallelism_back() -> None:
    """Only objects of this pool, which are in namespaces with its quota."""
    async with FakeApi(NAMESPACES, QUOTAS, MAPS, JOBS, PODS) as api:
        api.put(QUOTAS, {"metadata": {"namespace": "nightly", "name": "fairburst", "labels": {"fairburst.dev/pool": "default"}}})
        notes = mark_annotations(Mark(8, 3, 0.0))
        for namespace in ("nightly", "elsewhere"):
            metadata = {"namespace": namespace, "name": "train", "annotations": {"other": "x", **notes}}
            api.put(JOBS, {"metadata": metadata, "spec": {"parallelism": 3}})
        async with api.client() as client:
            undone = (await uninstall(client, parse_config(""))).done
    assert undone == ["gave back jobs nightly/train", "deleted resourcequotas nightly/fairburst"], "what was given back comes first"
    given_back, others = api.objects[JOBS]["nightly", "train"], api.objects[JOBS]["elsewhere", "train"]
    assert (given_back["spec"]["parallelism"], given_back["metadata"]["annotations"]) == (8, {"other": "x"})
    assert others["spec"]["parallelism"] == 3


def labels(pool: str) -> dict[str, str]:
    """Return the labels of a namespace in Gate mode: the operator's and one of its owner."""
    return {"team": "a", MANAGED_LABEL: "true", POOL_LABEL: pool, PRIORITY_LABEL: "large", HOLDS_LABEL: "Pods"}


async def test_pods_and_jobs_are_let_go_after_the_policies_were_told_to_hold_no_more() -> None:
    """Objects of another pool's queue stay, and so do other people's gates and suspensions."""
    async with FakeApi(NAMESPACES, QUOTAS, MAPS, JOBS, PODS, THROUGHPUT) as api:
        for namespace, pool in (("nightly", "default"), ("elsewhere", "gpu")):
            api.put(NAMESPACES, {"metadata": {"name": namespace, "labels": labels(pool)}})
            queue = stored_queue("ThroughputQueue", namespace, "queue", {"pool": pool}, status={"holds": "Pods", "class": "Elastic"})
            api.put(THROUGHPUT, queue)
            gates = [{"name": "others.example/hold"}, {"name": GATE}]
            api.put(PODS, {"metadata": {"namespace": namespace, "name": "waits"}, "spec": {"schedulingGates": gates}})
            held = {"namespace": namespace, "name": "held", "annotations": {HELD_ANNOTATION: "true"}}
            api.put(JOBS, {"metadata": held, "spec": {"suspend": True}})
            api.put(JOBS, {"metadata": {"namespace": namespace, "name": "theirs"}, "spec": {"suspend": True}})
        async with api.client() as client:
            undone = (await uninstall(client, parse_config(""))).done
            again = (await uninstall(client, parse_config(""))).done
        patches = [path for method, path, _ in api.requests if method == "PATCH"]
    assert (undone, again) == (["released pods nightly/waits", "released jobs nightly/held"], [])
    suspended = {key for key, job in api.objects[JOBS].items() if job["spec"]["suspend"]}
    assert suspended == {("nightly", "theirs"), ("elsewhere", "held"), ("elsewhere", "theirs")}
    assert api.objects[THROUGHPUT]["nightly", "queue"]["status"] == {"class": "Elastic"}
    assert api.objects[THROUGHPUT]["elsewhere", "queue"]["status"]["holds"] == "Pods"
    assert api.objects[PODS]["nightly", "waits"]["spec"]["schedulingGates"] == [{"name": "others.example/hold"}]
    assert len(api.objects[PODS]["elsewhere", "waits"]["spec"]["schedulingGates"]) == 2
    assert [path.rpartition("/")[2] for path in patches] == ["status", "nightly", "waits", "held", "nightly"]
    kept = {name: namespace["metadata"].get("labels") for (_, name), namespace in api.objects[NAMESPACES].items()}
    assert kept == {"nightly": {"team": "a"}, "elsewhere": labels("gpu")}, "the policies of the pool are bound by its labels"


async def test_work_is_let_go_where_a_queue_of_another_pool_is_in_the_namespace_but_not_in_force() -> None:
    async with FakeApi(NAMESPACES, QUOTAS, MAPS, JOBS, PODS, THROUGHPUT) as api:
        api.put(NAMESPACES, {"metadata": {"name": "nightly", "labels": labels("default")}})
        api.put(THROUGHPUT, stored_queue("ThroughputQueue", "nightly", "queue", {"pool": "default"}))
        api.put(THROUGHPUT, stored_queue("ThroughputQueue", "nightly", "stray", {"pool": "misspelt"}))
        api.put(PODS, {"metadata": {"namespace": "nightly", "name": "waits"}, "spec": {"schedulingGates": [{"name": GATE}]}})
        async with api.client() as client:
            undone = await uninstall(client, parse_config(""))
    assert undone.done == ["released pods nightly/waits"]


@pytest.mark.parametrize("namespace", [labels("default"), {"team": "a", HOLDS_LABEL: "Pods"}], ids=["labelled", "pool and managed lost"])
async def test_quotas_and_labels_go_although_labels_were_removed_by_hand(namespace: dict[str, str]) -> None:
    """Foreign quotas, and those where no operator has been, stay."""
    async with FakeApi(NAMESPACES, QUOTAS, MAPS, JOBS, PODS, THROUGHPUT) as api:
        api.put(NAMESPACES, {"metadata": {"name": "nightly", "labels": namespace}})
        api.put(NAMESPACES, {"metadata": {"name": "observed", "labels": {MANAGED_LABEL: "true"}}})
        for where in ("nightly", "observed"):
            api.put(THROUGHPUT, stored_queue("ThroughputQueue", where, "queue", {"pool": "default"}))
            for name in ("fairburst", "fairburst-queue-1", "foreign"):
                api.put(QUOTAS, {"metadata": {"namespace": where, "name": name}})
        async with api.client() as client:
            undone = await uninstall(client, parse_config(""))
    assert undone.done == ["deleted resourcequotas nightly/fairburst", "deleted resourcequotas nightly/fairburst-queue-1"]
    assert api.objects[NAMESPACES]["", "nightly"]["metadata"]["labels"] == {"team": "a"}
    assert api.objects[NAMESPACES]["", "observed"]["metadata"]["labels"] == {MANAGED_LABEL: "true"}


async def test_what_is_refused_is_named_and_all_else_is_undone() -> None:
    """One of three quotas may not be deleted and one of two Jobs may not be patched; neither stops the rest."""
    async with FakeApi(NAMESPACES, QUOTAS, MAPS, JOBS, PODS, LEASES) as api:
        for namespace in ("a", "b", "c"):
            api.put(QUOTAS, {"metadata": {"namespace": namespace, "name": "fairburst", "labels": {"fairburst.dev/pool": "default"}}})
        for namespace in ("a", "c"):
            metadata = {"namespace": namespace, "name": "train", "annotations": mark_annotations(Mark(8, 3, 0.0))}
            api.put(JOBS, {"metadata": metadata, "spec": {"parallelism": 3}})
        api.refuse("DELETE", "/namespaces/b/resourcequotas/fairburst", 403)
        api.refuse("PATCH", "/namespaces/a/jobs/train", 403)
        async with api.client() as client:
            undone = await uninstall(client, parse_config(""))
    assert undone.done == ["gave back jobs c/train", "deleted resourcequotas a/fairburst", "deleted resourcequotas c/fairburst"]
    assert [one.split(":")[0] for one in undone.left] == ["jobs a/train", "resourcequotas b/fairburst"]
    assert all("403 Forbidden" in one for one in undone.left)


@pytest.mark.parametrize("lost", ["nothing", "the quota's label", "the namespace's labels"])
@pytest.mark.parametrize(
    "refused",
    [
        "DELETE /namespaces/a/resourcequotas/fairburst",
        "PATCH /namespaces/a",
        "PATCH /namespaces/a/jobs/train",
        "GET /namespaces/a/jobs",
        "PATCH /pods/waits",
        "PATCH /jobs/held",
        "PATCH /throughputqueues/queue/status",
        "PATCH /namespaces/a, PATCH /namespaces/a/jobs/train",
    ],
)
@pytest.mark.parametrize("code", [403, 500])
async def test_a_second_run_finishes_what_the_first_could_not(refused: str, code: int, lost: str) -> None:
    """Whatever the first was refused: a quota, a namespace's labels, a Job's parallelism, a held pod or Job, or the status of a queue."""
    async with FakeApi(NAMESPACES, QUOTAS, MAPS, JOBS, PODS, LEASES, THROUGHPUT) as api:
        api.put(NAMESPACES, {"metadata": {"name": "a", "labels": {"team": "a"} if lost == "the namespace's labels" else labels("default")}})
        api.put(THROUGHPUT, stored_queue("ThroughputQueue", "a", "queue", {"pool": "default"}, status={"holds": "Pods"}))
        quota = {"namespace": "a", "name": "fairburst"}
        api.put(QUOTAS, {"metadata": quota | ({} if lost == "the quota's label" else {"labels": {POOL_LABEL: "default"}})})
        api.put(PODS, {"metadata": {"namespace": "a", "name": "waits"}, "spec": {"schedulingGates": [{"name": GATE}]}})
        api.put(JOBS, {"metadata": {"namespace": "a", "name": "held", "annotations": {HELD_ANNOTATION: "true"}}, "spec": {"suspend": True}})
        resized = {"namespace": "a", "name": "train", "annotations": mark_annotations(Mark(8, 3, 0.0))}
        api.put(JOBS, {"metadata": resized, "spec": {"parallelism": 3}})
        async with api.client() as client:
            for one in refused.split(", "):
                api.refuse(*one.split(), code)
            first = await uninstall(client, parse_config(""))
            api.permit_all()
            second = await uninstall(client, parse_config(""))
    assert first.left
    assert second.left == []
    assert api.objects[QUOTAS] == {}
    assert api.objects[NAMESPACES]["", "a"]["metadata"]["labels"] == {"team": "a"}
    assert api.objects[JOBS]["a", "train"]["spec"]["parallelism"] == 8
    assert not api.objects[JOBS]["a", "held"]["spec"]["suspend"]
    assert not api.objects[PODS]["a", "waits"]["spec"].get("schedulingGates")
    assert "holds" not in api.objects[THROUGHPUT]["a", "queue"]["status"]


def test_the_command_says_what_is_left_and_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def undo(*_: object) -> Undone:
        return Undone(["deleted resourcequotas a/fairburst"], ["resourcequotas b/fairburst: 403 Forbidden: no"])

    monkeypatch.setattr("fairburst.cli.uninstall._undo", undo)
    monkeypatch.setattr("fairburst.cli.cluster.Cluster.ask", lambda _, work: asyncio.run(work(None)))
    assert main(["uninstall"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "deleted resourcequotas a/fairburst\n"
    assert "1 objects are left" in printed.err
    assert "  resourcequotas b/fairburst: 403 Forbidden: no\n" in printed.err
