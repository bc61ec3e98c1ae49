"""v1beta1 and v1alpha1 are one API under two names: on a real API server, with an operator that reads and writes one of them.

The cluster is the module's own, because one test takes v1beta1 away again, as a downgrade does.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from benchmarks.peers.binaries import module_source
from e2e.cluster import Cluster, ClusterError
from e2e.harness import OperatorProcess
from e2e.objects import objects_of
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.kube.install.crd import all_crds
from fairburst.kube.names import GROUP, PLURALS, SERVED_VERSIONS, USERS_VERSION, VERSION
from tests.support import queues, work
from tests.support.queue_specs import BAD, BAD_THROUGHPUT
from tests.support.queues import changed, full_status, to_status

JsonObject = dict[str, Any]
KINDS = {"LatencyQueue": queues.LATENCY_SPEC, "ThroughputQueue": queues.THROUGHPUT_SPEC}
ELSEWHERE = {"pool": "no-operator-serves-it"}
# Short and plural names in the CRDs of volcano-sh/volcano (config/crd), argoproj/argo-workflows (manifests/base/crds), argoproj/argo-cd
# (manifests/crds), argoproj/argo-rollouts (manifests/crds) and knative/serving (config/core/300-resources), as of 2026.
NAMES_OF_OTHERS = frozenset(
    {
        *("q", "queue-v1beta1", "pg", "podgroup-v1beta1", "vcjob", "vj", "jf", "jt", "hn", "numatopo", "cronvcjob", "cvj"),
        *("wf", "wftmpl", "cwft", "clusterwftmpl", "cwf", "cronwf", "wfeb", "wfts", "wfat"),
        *("app", "apps", "appproj", "appprojs", "appset", "appsets", "ro", "exp", "at", "cat", "ar"),
        *("ksvc", "kservice", "rt", "rev", "config", "cfg", "dm", "kpa", "pa", "sks", "king", "kingress", "kcert", "img"),
    }
)


@pytest.fixture(scope="module")
def operated(fresh_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    cluster = fresh_cluster(nodes=2, node_cpu="400", node_memory="800Gi")
    with OperatorProcess(cluster, {}, "versions"):
        yield cluster


def make_namespace(cluster: Cluster, name: str) -> str:
    work.create(cluster, work.namespace(name))
    return name


def manifest(kind: str, version: str, where: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": "queue", "namespace": where}, "spec": spec}


def stored(cluster: Cluster, obj: JsonObject) -> JsonObject:
    """Return the object as the API server would store it."""
    return objects_of(cluster.kubeconfig).create(obj, dryRun="All")


def read(cluster: Cluster, kind: str, version: str, where: str) -> JsonObject:
    """Return the object in one version, without managed fields: these name the version through which each field was written."""
    path = f"/apis/{GROUP}/{version}/namespaces/{where}/{PLURALS[kind]}/queue"
    obj = objects_of(cluster.kubeconfig).request("GET", path)
    obj["metadata"].pop("managedFields", None)
    return obj


def other(version: str) -> str:
    return next(one for one in SERVED_VERSIONS if one != version)


@pytest.mark.parametrize("version", SERVED_VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_the_same_in_both_versions_the_status_included(operated: Cluster, kind: str, version: str) -> None:
    where = make_namespace(operated, f"same-{kind.lower()}-{version}")
    work.create(operated, manifest(kind, version, where, ELSEWHERE | KINDS[kind]))
    path = f"{PLURALS[kind]}.{version}.{GROUP}"
    status = to_status(full_status())
    operated.kubectl("patch", path, "queue", "-n", where, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    same, renamed = read(operated, kind, version, where), read(operated, kind, other(version), where)
    assert same["status"] == status
    assert same["spec"].items() >= KINDS[kind].items()
    assert (same.pop("apiVersion"), renamed.pop("apiVersion")) == (f"{GROUP}/{version}", f"{GROUP}/{other(version)}")
    assert same == renamed
    assert (same["metadata"]["generation"], same["metadata"]["uid"]) == (1, renamed["metadata"]["uid"])


@pytest.mark.parametrize("version", SERVED_VERSIONS)
def test_a_queue_of_either_version_is_served_and_a_change_through_the_other_too(operated: Cluster, version: str) -> None:
    where = make_namespace(operated, f"served-{version}")
    work.create(operated, manifest("ThroughputQueue", version, where, {"weight": 1}))

    def status() -> JsonObject:
        found: JsonObject = read(operated, "ThroughputQueue", version, where).get("status") or {}
        return found

    until(lambda: status().get("class") == "Elastic", PATIENCE_SECONDS, "an answer")
    assert {one["type"]: one["status"] for one in status()["conditions"]}["Ready"] == "True"
    kind = f"throughputqueues.{other(version)}.{GROUP}"
    operated.kubectl("patch", kind, "queue", "-n", where, "--type=merge", "-p", '{"spec": {"weight": 7}}')
    until(lambda: status()["promise"]["weight"] == 7, PATIENCE_SECONDS, "the changed weight")
    quota = ("get", "resourcequota", "fairburst", "-n", where, "--ignore-not-found", "-o", "name")
    until(lambda: operated.kubectl(*quota).strip(), PATIENCE_SECONDS, "the quota")


@pytest.mark.parametrize("kind", KINDS)
def test_both_versions_have_the_same_defaults(operated: Cluster, kind: str) -> None:
    first, second = (stored(operated, manifest(kind, version, "default", ELSEWHERE | KINDS[kind]))["spec"] for version in SERVED_VERSIONS)
    assert first == second


@pytest.mark.parametrize(
    ("kind", "spec", "changes"),
    [
        *(pytest.param("LatencyQueue", queues.LATENCY_SPEC, one.values[0], id=str(one.id)) for one in BAD[::3]),
        *(pytest.param("ThroughputQueue", queues.THROUGHPUT_SPEC, one.values[0], id=f"batch: {one.id}") for one in BAD_THROUGHPUT[::2]),
    ],
)
def test_both_versions_refuse_the_same_in_the_same_words(operated: Cluster, kind: str, spec: JsonObject, changes: JsonObject) -> None:
    said = []
    for version in SERVED_VERSIONS:
        with pytest.raises(ClusterError) as caught:
            stored(operated, manifest(kind, version, "default", changed(spec, changes)))
        said.append(str(caught.value).replace(version, "VERSION"))
    assert said[0] == said[1]
    assert "invalid" in said[0].lower() or "unknown field" in said[0]


@pytest.mark.parametrize("version", SERVED_VERSIONS)
def test_a_tenant_is_refused_through_either_version(operated: Cluster, version: str) -> None:
    where = make_namespace(operated, f"tenant-{version}")
    work.create(operated, manifest("ThroughputQueue", version, where, {}))
    operated.kubectl("create", "rolebinding", "edits", "-n", where, "--clusterrole=fairburst-queues-edit.default", "--user=tenant")
    patch = ["patch", f"throughputqueues.{version}.{GROUP}", "queue", "-n", where, "--type=merge", "--as=tenant"]
    with pytest.raises(ClusterError, match="weigh"):
        operated.kubectl(*patch, "-p", '{"spec": {"weight": 1000}}')


@pytest.mark.parametrize(("short", "kind"), [("latq", "LatencyQueue"), ("thrq", "ThroughputQueue")])
def test_get_prints_the_same_columns_in_both_versions_and_prefers_v1beta1(operated: Cluster, short: str, kind: str) -> None:
    where = make_namespace(operated, f"columns-{short}")
    work.create(operated, manifest(kind, VERSION, where, ELSEWHERE | KINDS[kind]))
    plain = [operated.kubectl("get", f"{PLURALS[kind]}.{version}.{GROUP}", "-n", where) for version in SERVED_VERSIONS]
    assert plain[0].splitlines()[0] == plain[1].splitlines()[0] == operated.kubectl("get", short, "-n", where).splitlines()[0]
    assert "EXPLANATION" in operated.kubectl("get", short, "-n", where, "-o", "wide").splitlines()[0]
    assert json.loads(operated.kubectl("get", short, "queue", "-n", where, "-o", "json"))["apiVersion"] == f"{GROUP}/{USERS_VERSION}"


def test_queues_are_stored_in_the_version_that_an_earlier_chart_knows(operated: Cluster) -> None:
    for plural in PLURALS.values():
        assert json.loads(operated.kubectl("get", "crd", f"{plural}.{GROUP}", "-o", "json"))["status"]["storedVersions"] == [VERSION]


def kueue_crds() -> list[JsonObject]:
    folder = module_source("kueue") / "config" / "components" / "crd" / "bases"
    return [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]


def names_of(crd: JsonObject) -> set[str]:
    names = crd["spec"]["names"]
    return {names["plural"], names["singular"], *names.get("shortNames", ())}


def test_our_names_are_those_of_no_other_batch_system() -> None:
    ours = {name for crd in all_crds().values() for name in names_of(crd)}
    assert ours == {"latencyqueues", "latencyqueue", "latq", "throughputqueues", "throughputqueue", "thrq"}
    assert not ours & NAMES_OF_OTHERS


def complaints(cluster: Cluster, *arguments: str) -> str:
    """Return the stderr of a kubectl command that succeeds."""
    command = [str(cluster._kubectl), "--kubeconfig", str(cluster.kubeconfig), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr


@pytest.mark.slow  # needs Kueue's module
def test_beside_kueue_every_short_name_means_one_kind_and_kubectl_warns_of_nothing(operated: Cluster) -> None:
    theirs = kueue_crds()
    assert len(theirs) > 5
    taken = {name for crd in theirs for name in names_of(crd)}
    assert "lq" in taken, "the name that we gave up"
    operated.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": theirs}))
    try:
        for crd in theirs:
            operated.kubectl("wait", "--for=condition=Established", f"crd/{crd['metadata']['name']}", "--timeout=60s", timeout=70)
        for name in sorted(name for crd in all_crds().values() for name in names_of(crd)):
            assert name not in taken
            assert complaints(operated, "get", name, "-A", "--ignore-not-found") == ""
    finally:
        # Their end is not awaited: the API server first asks the conversion webhook of Kueue, which does not run here.
        operated.kubectl("delete", "crd", "--wait=false", *(crd["metadata"]["name"] for crd in theirs))


def test_a_downgrade_to_a_chart_without_v1beta1_keeps_queues_that_were_created_through_it(operated: Cluster) -> None:
    """This test must be the last, since it takes v1beta1 away. Nothing is stored in v1beta1, so the API server permits that."""
    where = make_namespace(operated, "downgrade")
    obj = manifest("LatencyQueue", USERS_VERSION, where, ELSEWHERE | queues.LATENCY_SPEC)
    operated.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(obj))
    before = read(operated, "LatencyQueue", VERSION, where)
    name = f"latencyqueues.{GROUP}"
    versions = all_crds()[f"{GROUP}_latencyqueues.yaml"]["spec"]["versions"]
    patch = {"spec": {"versions": [one for one in versions if one["name"] == VERSION]}}
    operated.kubectl("patch", "crd", name, "--type=merge", "--patch-file=/dev/stdin", input=json.dumps(patch))
    served = f"/apis/{GROUP}/{USERS_VERSION}"
    until(lambda: "latencyqueues" not in operated.kubectl("get", "--raw", served), PATIENCE_SECONDS, "v1beta1 to be gone")
    assert read(operated, "LatencyQueue", VERSION, where) == before
    # By its full name: kubectl remembers for a while which versions were served.
    change = ["--type=merge", "-p", '{"spec": {"burst": {"durationSeconds": 26}}}']
    operated.kubectl("patch", f"latencyqueues.{VERSION}.{GROUP}", "queue", "-n", where, *change)
    assert read(operated, "LatencyQueue", VERSION, where)["spec"]["burst"]["durationSeconds"] == 26
