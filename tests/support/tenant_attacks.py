"""Attempts of tenants to take others' capacity or promises, each with the message by which the API server refuses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairburst.kube.jobs.job_size import SIZE_LABEL
from fairburst.kube.names import GATE, HELD_ANNOTATION, HOLDS_LABEL, MANAGED_LABEL, POOL_LABEL, RELEASED_ANNOTATION
from fairburst.kube.queues.job_annotations import ORIGINAL
from tests.support.queues import queue
from tests.support.tenants import (
    BATCH,
    BURST,
    BURSTS,
    FLOOR,
    HARD,
    OTHERS,
    TenantCluster,
    daemon_set,
    job,
    owner,
    placed,
    pod,
    quota,
    repelling,
)

JsonObject = dict[str, Any]


def weigh(weight: int) -> JsonObject:
    return {"spec": {"weight": weight}}


def finalize_without_label(site: TenantCluster) -> None:
    """The subresource that ends namespaces writes labels, too."""
    body = site.get("namespace", BATCH)
    body["metadata"]["labels"].pop(MANAGED_LABEL)
    site.landlord("replace", "--raw", f"/api/v1/namespaces/{BATCH}/finalize", "-f", "-", body=body)


def replace_without_gate(site: TenantCluster) -> None:
    body = site.get("pod", "waiting", BATCH)
    body["spec"]["schedulingGates"] = [{"name": "example.com/own"}]
    site.team("replace", "-f", "-", body=body)


def two_steps(site: TenantCluster) -> None:
    """A queue that belongs to something of the tenant's own could be deleted by deleting that."""
    mine = site.team.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "owner-"}}, BATCH)["metadata"]
    owned = {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": mine["name"], "uid": mine["uid"]}]}
    site.team.patch("thrq", "queue", BATCH, {"metadata": owned})


def small_job_that_grows(site: TenantCluster) -> None:
    """Kubernetes permits other resources in the template of a suspended Job."""
    name = site.team.create(job("grows", suspend=True), BATCH)["metadata"]["name"]
    grown = job("grows")["spec"]["template"]["spec"]["containers"]
    grown[0]["resources"] = {"requests": {"cpu": "64", "memory": "1Gi"}}
    try:
        site.team.patch("job", name, BATCH, {"spec": {"template": {"spec": {"containers": grown}}}})
    finally:
        site.team("delete", "job", name, "-n", BATCH)


NODE = "spec.nodeName: expected none in a managed namespace, found node-000"
REPELS = "spec.affinity.podAntiAffinity: expected required terms about the namespace of the pod alone"
LIE = {"metadata": {"labels": {SIZE_LABEL: "small"}}}
CLASS = "spec.priorityClassName: expected none"
SIZE = f"expected {SIZE_LABEL} to stay what it was"
STAYS = f"expected {GATE} to stay"
QUOTAS = "expected the quotas fairburst, fairburst-large, fairburst-small"
LABEL = f"expected {MANAGED_LABEL} to stay true, found"
STATUS = "expected the status to be left to the operator"
FORBIDDEN = "cannot {} resource"
Attack = Callable[[TenantCluster], object]
GATE_OFF = [{"op": "remove", "path": "/spec/schedulingGates/1"}]

ATTACKS: list[Any] = [
    # Pods
    pytest.param(lambda s: s.team.create(pod(class_name="system-node-critical"), BATCH), CLASS, id="the system's class"),
    pytest.param(lambda s: s.team.create(pod(class_name="system-cluster-critical"), FLOOR), CLASS, id="the system's class at the floor"),
    pytest.param(
        lambda s: s.team.create(pod(ownerReferences=[owner("DaemonSet", "apps/v1")]), BATCH),
        "expected a DaemonSet only on pods that its controller creates, found one on a pod created by system:serviceaccount:others:team",
        id="a pod that says it is a DaemonSet's",
    ),
    pytest.param(
        lambda s: s.team.patch("pod", "waiting", BATCH, {"metadata": {"ownerReferences": [owner("DaemonSet", "example.com/v1")]}}),
        "expected a DaemonSet only on pods that its controller creates, found one on a pod changed by system:serviceaccount:others:team",
        id="a pod that becomes a DaemonSet's",
    ),
    pytest.param(
        lambda s: s.team.create(pod(ownerReferences=[owner("Job", "batch/v1")], labels={SIZE_LABEL: "small"}), BATCH),
        f"expected no {SIZE_LABEL}",
        id="a pod that says it is a small Job's",
    ),
    pytest.param(lambda s: s.team.create(placed("node-000"), BATCH), NODE, id="a pod on a node of its choice, past the gate"),
    pytest.param(
        lambda s: s.team.create(repelling(namespaceSelector={}), BATCH), REPELS, id="a pod that keeps those of every namespace off its node"
    ),
    pytest.param(
        lambda s: s.team.create(repelling(namespaces=[BATCH, OTHERS]), BATCH), REPELS, id="a pod that keeps another tenant's off its node"
    ),
    pytest.param(lambda s: s.team.patch("pod", "waiting", BATCH, LIE), SIZE, id="size label of a pod"),
    pytest.param(lambda s: s.team.patch("pod", "waiting", BATCH, GATE_OFF, form="json"), STAYS, id="gate, by JSON patch"),
    pytest.param(
        lambda s: s.team.patch("pod", "waiting", BATCH, {"spec": {"schedulingGates": None}}), STAYS, id="all gates, by merge patch"
    ),
    pytest.param(replace_without_gate, STAYS, id="gate, by replacing the pod"),
    # DaemonSets
    pytest.param(
        lambda s: s.team.create(daemon_set("mine", ""), BATCH),
        "expected no DaemonSet in a managed namespace, found mine: its pods would be counted by no queue. Use a Deployment",
        id="a DaemonSet",
    ),
    # Jobs
    pytest.param(lambda s: s.team.create(job("marked", **{ORIGINAL: "500"}), BATCH), f"expected {ORIGINAL} to be left", id="mark of a Job"),
    pytest.param(
        lambda s: s.team.patch("job", "held", BATCH, {"metadata": {"annotations": {RELEASED_ANNOTATION: "now"}}}),
        f"expected {RELEASED_ANNOTATION} to be left",
        id="a Job that says it was released",
    ),
    pytest.param(lambda s: s.team.patch("job", "held", BATCH, {"spec": {"suspend": False}}), "stay suspended", id="resuming a held Job"),
    pytest.param(
        lambda s: s.team.patch("job", "held", BATCH, {"metadata": {"annotations": {HELD_ANNOTATION: None}}}),
        "stay suspended",
        id="making a held Job one's own",
    ),
    pytest.param(small_job_that_grows, "expected the containers of a small Job to stay what they were", id="a small Job that grows"),
    # Quotas
    pytest.param(
        lambda s: s.team.patch("quota", "fairburst", BATCH, {"spec": {"hard": {"pods": "999"}}}), FORBIDDEN, id="quota, with edit alone"
    ),
    pytest.param(lambda s: s.landlord.patch("quota", "fairburst", BATCH, {"spec": {"hard": {"pods": "999"}}}), QUOTAS, id="quota"),
    pytest.param(
        lambda s: s.landlord.patch("quota", "fairburst", BATCH, {"status": {"hard": {"pods": "999"}}}, "status"),
        QUOTAS,
        id="what the quota enforces",
    ),
    pytest.param(
        lambda s: s.landlord.patch("quota", "fairburst", BATCH, {"metadata": {"labels": {POOL_LABEL: None}}}), QUOTAS, id="pool label"
    ),
    pytest.param(lambda s: s.landlord("delete", "quota", "fairburst", "-n", BATCH), QUOTAS, id="deleting the quota"),
    pytest.param(lambda s: s.landlord("delete", "quota", "--all", "-n", BATCH), QUOTAS, id="deleting all quotas"),
    pytest.param(lambda s: s.landlord.create(quota("fairburst-small"), BATCH), QUOTAS, id="a quota under our name"),
    pytest.param(lambda s: s.landlord.create(quota("mine", **{POOL_LABEL: "default"}), BATCH), QUOTAS, id="a quota with our label"),
    # Queues
    pytest.param(
        lambda s: s.team.patch("thrq", "queue", BATCH, weigh(5)),
        "spec.weight: expected 1, found 5; another value takes the verb weigh on throughputqueues",
        id="weight",
    ),
    pytest.param(
        lambda s: s.team.patch("latq", "queue", BURSTS, weigh(5)), "takes the verb weigh on latencyqueues", id="weight of a latency queue"
    ),
    pytest.param(
        lambda s: s.team.patch("thrq", "queue", BATCH, {"spec": {"enforcement": "Observe"}}), "the verb enforce", id="leaving enforcement"
    ),
    pytest.param(
        lambda s: s.team.patch("thrq", "queue", BATCH, {"spec": {"reclaim": "Evict"}}),
        "spec.reclaim: expected Never, found Evict; another value takes the verb reclaim on throughputqueues",
        id="taking by eviction",
    ),
    pytest.param(
        lambda s: s.team.patch("latq", "queue", BURSTS, {"spec": {"reclaim": "Evict"}}),
        "takes the verb reclaim on latencyqueues",
        id="a burst that takes by eviction",
    ),
    pytest.param(
        lambda s: s.landlord.create(queue("ThroughputQueue", {"reclaim": "Evict"}, FLOOR), FLOOR),
        "the verb reclaim",
        id="a new queue that takes by eviction",
    ),
    pytest.param(lambda s: s.team.patch("thrq", "queue", BATCH, {"spec": {"pool": "gpu"}}), "pool", id="moving to another pool"),
    pytest.param(two_steps, "the verb remove", id="an owner to delete the queue with"),
    pytest.param(lambda s: s.team("delete", "thrq", "queue", "-n", BATCH), FORBIDDEN, id="deleting the queue, with edit alone"),
    pytest.param(lambda s: s.landlord("delete", "thrq", "queue", "-n", BATCH), "the verb remove", id="deleting the queue"),
    pytest.param(lambda s: s.landlord("delete", "thrq", "--all", "-n", BATCH), "the verb remove", id="deleting all queues"),
    pytest.param(
        lambda s: s.landlord.create(queue("ThroughputQueue", weigh(7)["spec"], FLOOR), FLOOR), "the verb weigh", id="a new heavy queue"
    ),
    pytest.param(
        lambda s: s.landlord.create(queue("ThroughputQueue", {"enforcement": "Observe"}, FLOOR), FLOOR),
        "the verb enforce",
        id="a new queue that nothing holds",
    ),
    pytest.param(
        lambda s: s.landlord.create(queue("ThroughputQueue", {"pool": "nobodys"}, FLOOR), FLOOR),
        "the verb assign",
        id="a new queue of a pool that no operator serves",
    ),
    pytest.param(lambda s: s.landlord.create(queue("LatencyQueue", BURST, OTHERS, "claim"), OTHERS), FORBIDDEN, id="another's namespace"),
    pytest.param(lambda s: s.landlord.create(queue("LatencyQueue", BURST, "kube-system"), "kube-system"), FORBIDDEN, id="kube-system"),
    pytest.param(
        lambda s: s.team.patch("latq", "queue", BURSTS, {"status": {"podPriority": HARD}}, "status"),
        FORBIDDEN,
        id="status, with edit alone",
    ),
    pytest.param(lambda s: s.landlord.patch("latq", "queue", BURSTS, {"status": {"class": "Hard"}}, "status"), STATUS, id="status"),
    pytest.param(lambda s: s.landlord.patch("thrq", "queue", BATCH, {"status": {"podPriority": HARD}}, "status"), STATUS, id="podPriority"),
    # Namespaces
    pytest.param(lambda s: s.team("label", "namespace", BATCH, f"{MANAGED_LABEL}-"), FORBIDDEN, id="managed label, with edit alone"),
    pytest.param(lambda s: s.landlord("label", "namespace", BATCH, f"{MANAGED_LABEL}-"), LABEL, id="taking the managed label off"),
    pytest.param(
        lambda s: s.landlord("label", "namespace", BATCH, f"{MANAGED_LABEL}=false", "--overwrite"), LABEL, id="changing the managed label"
    ),
    pytest.param(
        lambda s: s.landlord("label", "namespace", BATCH, f"{HOLDS_LABEL}=Pods"),
        f"expected {HOLDS_LABEL} to stay absent, found Pods",
        id="a label by which creations would wait for the webhook",
    ),
    pytest.param(finalize_without_label, LABEL, id="taking the managed label off by a subresource"),
]
