"""Abuses of a stolen operator token on a real control plane: none works outside of managed namespaces, and few within.

The abuses are the operator's own kinds of writes, sent by its own user with its own rights, to other places or to other fields. Every
other test of the operator runs under these policies, which shows that its own writes pass.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.config import parse_config
from fairburst.kube.names import GATE, HELD_ANNOTATION, MANAGED_LABEL, POOL_LABEL
from tests.support import work
from tests.support.accounts import Account
from tests.support.job_sizes import container
from tests.support.live_cluster import install, refusal

pytestmark = pytest.mark.t1

JsonObject = dict[str, Any]
OUTSIDE, MANAGED = "outside", "managed"


def pod(name: str, *gates: str) -> JsonObject:
    spec: JsonObject = {
        "containers": [{"name": "c", "image": "work", **container()}],
        "schedulingGates": [{"name": gate} for gate in gates],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "shop"}}, "spec": spec}


def job(name: str, **annotations: str) -> JsonObject:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "work", **container()}]}}
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"suspend": True, "template": template}}


def deployment(name: str) -> JsonObject:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "work", **container()}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def quota(name: str, **labels: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "labels": labels}, "spec": {"hard": {"pods": "7"}}}


@pytest.fixture(scope="module")
def thief(fresh_cluster: Callable[..., Cluster]) -> Account:
    """A managed and an unmanaged namespace with the same objects. No operator runs."""
    cluster = fresh_cluster(nodes=1)
    install(cluster, parse_config(""))
    for namespace in (OUTSIDE, MANAGED):
        work.create(cluster, work.namespace(namespace))
        objects = [pod("free"), pod("gated", "example.com/own", GATE), job("work"), job("held", **{HELD_ANNOTATION: "true"})]
        for one in [*objects, deployment("web"), quota("theirs"), quota("fairburst", **{POOL_LABEL: "default"})]:
            work.create(cluster, one | {"metadata": one["metadata"] | {"namespace": namespace}})
    cluster.kubectl("label", "namespace", MANAGED, f"{MANAGED_LABEL}=true")
    made = Account(cluster, f"--kubeconfig={cluster.user_kubeconfig('fairburst')}")
    until(lambda: acts(made), PATIENCE_SECONDS, "the policies to be known to the API server")
    return made


def acts(thief: Account) -> bool:
    """Return whether every policy refuses: the API server notices each by itself. The attempts change nothing."""
    tries = [
        lambda: thief.patch("deployment", "web", OUTSIDE, {"metadata": {"annotations": {"fairburst.dev/resynced-at": "now"}}}),
        lambda: thief.patch("job", "work", OUTSIDE, {"metadata": {"annotations": {"fairburst.dev/x": "y"}}}),
        lambda: thief.patch("pod", "free", OUTSIDE, {"metadata": {"annotations": {"x": "y"}}}),
        lambda: thief.patch("namespace", "kube-public", "", {"metadata": {"labels": {"x": "y"}}}),
        lambda: thief("create", "-f", "-", body=event_about("Pod", "v1", OUTSIDE)),
        lambda: thief("create", "-n", OUTSIDE, "-f", "-", body=quota("probe")),
        lambda: thief("create", "--raw", f"/api/v1/namespaces/{OUTSIDE}/pods/none/eviction", "-f", "-", body=eviction("none", OUTSIDE)),
    ]
    return all("the operator's account" in refusal(each) for each in tries)


def eviction(name: str, namespace: str) -> JsonObject:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}


def event_about(kind: str, api_version: str, namespace: str) -> JsonObject:
    involved = {"apiVersion": api_version, "kind": kind, "name": "x", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "forged", "namespace": namespace},
        "involvedObject": involved,
        "reason": "x",
    }


def patch(kind: str, name: str, namespace: str | None, body: Any, form: str = "merge") -> tuple[list[str], None]:
    where = ["-n", namespace] if namespace else []
    return ["patch", kind, name, *where, f"--type={form}", "-p", json.dumps(body)], None


def create(body: JsonObject, namespace: str) -> tuple[list[str], JsonObject]:
    return ["create", "-n", namespace, "-f", "-"], body


UNGATE = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
IMAGE = {"spec": {"containers": [{"name": "c", "image": "miner"}]}}
TEMPLATE_IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "miner"}]}}}}
ELSEWHERE = {"spec": {"template": {"spec": {"nodeSelector": {"node-role.kubernetes.io/control-plane": ""}}}}}
EVICT = ["create", "--raw", f"/api/v1/namespaces/{OUTSIDE}/pods/free/eviction", "-f", "-"]
BY_POLICY = [
    pytest.param(*patch("pod", "free", OUTSIDE, IMAGE, "strategic"), id="another image into a pod"),
    pytest.param(*patch("pod", "free", OUTSIDE, {"metadata": {"labels": {"app": "bank"}}}), id="another Service's label onto a pod"),
    pytest.param(*patch("pod", "free", OUTSIDE, {"spec": {"activeDeadlineSeconds": 1}}), id="an end to a pod"),
    pytest.param(*patch("pod", "free", OUTSIDE, {"metadata": {"finalizers": ["x.y/z"]}}), id="a pod that cannot be deleted"),
    pytest.param(*patch("pod", "gated", OUTSIDE, UNGATE, "json"), id="another's scheduling gate off a pod"),
    pytest.param(EVICT, eviction("free", OUTSIDE), id="an eviction"),
    pytest.param(*patch("job", "work", OUTSIDE, {"spec": {"suspend": False}}), id="a start of a Job that its user suspended"),
    pytest.param(*patch("job", "held", OUTSIDE, {"spec": {"parallelism": 500}}), id="a larger Job"),
    pytest.param(*patch("job", "work", OUTSIDE, {"spec": {"activeDeadlineSeconds": 1}}), id="an end to a Job"),
    pytest.param(*patch("deployment", "web", OUTSIDE, {"spec": {"replicas": 100}}), id="more replicas"),
    pytest.param(*patch("deployment", "web", OUTSIDE, TEMPLATE_IMAGE, "strategic"), id="another image into a Deployment"),
    pytest.param(*create(quota("mine"), OUTSIDE), id="a quota in a namespace that is not managed"),
    pytest.param(*patch("resourcequota", "theirs", OUTSIDE, {"spec": {"hard": {"pods": "0"}}}), id="a smaller quota of another's"),
    pytest.param(["delete", "resourcequota", "theirs", "-n", OUTSIDE], None, id="another's quota deleted"),
    pytest.param(["delete", "resourcequota", "theirs", "-n", MANAGED], None, id="another's quota deleted in a managed namespace"),
    pytest.param(*patch("namespace", "kube-system", None, {"metadata": {"labels": {MANAGED_LABEL: "true"}}}), id="kube-system managed"),
    pytest.param(
        *patch("namespace", OUTSIDE, None, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}),
        id="a namespace without Pod Security",
    ),
    pytest.param(*patch("namespace", OUTSIDE, None, {"metadata": {"annotations": {"x": "y"}}}), id="annotations on a namespace"),
    pytest.param(*create(event_about("Pod", "v1", OUTSIDE), OUTSIDE), id="a forged Event on a pod"),
    pytest.param(*patch("pod", "free", MANAGED, IMAGE, "strategic"), id="another image into a pod of a managed namespace"),
    pytest.param(*patch("job", "work", MANAGED, ELSEWHERE), id="a Job of a managed namespace sent to other nodes"),
    pytest.param(*patch("deployment", "web", MANAGED, {"spec": {"replicas": 100}}), id="more replicas in a managed namespace"),
]
BY_RBAC = [
    pytest.param(["get", "secrets", "-A"], None, id="secrets"),
    pytest.param(["get", "configmaps", "-n", "kube-system"], None, id="configuration of the system"),
    pytest.param(*create(pod("mine"), OUTSIDE), id="a pod"),
    pytest.param(["delete", "pod", "free", "-n", OUTSIDE], None, id="a pod deleted"),
    pytest.param(["delete", "namespace", OUTSIDE], None, id="a namespace deleted"),
    pytest.param(["create", "token", "default", "-n", "kube-system"], None, id="another account's token"),
    pytest.param(["delete", "validatingadmissionpolicy", "--all"], None, id="the policies deleted"),
    pytest.param(["create", "clusterrolebinding", "mine", "--clusterrole=cluster-admin", "--user=fairburst"], None, id="all rights"),
]


@pytest.mark.parametrize(("arguments", "body"), BY_POLICY)
def test_a_write_elsewhere_or_to_other_fields_is_refused_by_policy(thief: Account, arguments: list[str], body: JsonObject | None) -> None:
    assert "the operator's account" in refusal(lambda: thief(*arguments, body=body))


@pytest.mark.parametrize(("arguments", "body"), BY_RBAC)
def test_whatever_the_operator_does_not_do_is_refused_by_rbac(thief: Account, arguments: list[str], body: JsonObject | None) -> None:
    assert "forbidden" in refusal(lambda: thief(*arguments, body=body)).lower()


def test_what_the_operator_does_is_let_through(thief: Account) -> None:
    """Its writes in a managed namespace, and elsewhere the release of held objects."""
    own_gate = [{"op": "remove", "path": "/spec/schedulingGates/1"}]
    resynced = {"metadata": {"annotations": {"fairburst.dev/resynced-at": "now"}}}
    start = {"metadata": {"annotations": {HELD_ANNOTATION: None}}, "spec": {"suspend": False}}
    for namespace in (MANAGED, OUTSIDE):
        thief.patch("pod", "gated", namespace, own_gate, form="json")
        thief.patch("job", "held", namespace, start)
        thief("delete", "resourcequota", "fairburst", "-n", namespace)
    thief.patch("deployment", "web", MANAGED, resynced)
    thief.patch("job", "work", MANAGED, {"spec": {"suspend": False, "parallelism": 2}} | resynced)
    thief("create", "-n", MANAGED, "-f", "-", body=quota("fairburst", **{POOL_LABEL: "default"}))
    thief.patch("namespace", MANAGED, "", {"metadata": {"labels": {"fairburst.dev/holds": "Pods"}}})
