"""Tenants of a managed cluster, each with an account of its own, and the objects that they try to write.

`team` has the cluster role edit in its namespaces. `landlord` has more than edit gives, as people who run their own namespaces often
have: everything about queues (status included) and quotas but the admin verbs, and changes to its namespaces. `steward` administers queues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from e2e.cluster import Cluster
from fairburst.kube.jobs.job_size import SIZE_LABEL
from fairburst.kube.names import GATE, HELD_ANNOTATION, MANAGED_LABEL
from fairburst.kube.queues.job_annotations import ORIGINAL
from tests.support.accounts import service_account
from tests.support.job_sizes import THRESHOLD, container, job_manifest
from tests.support.live_cluster import LiveCluster, refusal
from tests.support.objects import latency_spec
from tests.support.prioritized_objects import namespace_labels, sized_quota
from tests.support.queues import queue

JsonObject = dict[str, Any]
BATCH, BURSTS, FLOOR, OTHERS = "batch", "bursts", "floor", "others"  # the last is another tenant's
TEAMS = (BATCH, BURSTS, FLOOR)
LARGE = {"className": "fairburst-large", "value": -2, "preemptionPolicy": "Never"}
SMALL = {"className": "fairburst-small", "value": -1, "preemptionPolicy": "Never"}
HARD = {"className": "fairburst-hard", "value": 2000, "preemptionPolicy": "Never"}
BURST = latency_spec("8", 10, 60)
LANDLORDS = [
    {
        "apiGroups": ["fairburst.dev"],
        "resources": ["*"],
        "verbs": ["get", "list", "create", "update", "patch", "delete", "deletecollection"],
    },
    {"apiGroups": [""], "resources": ["resourcequotas", "resourcequotas/status"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods/ephemeralcontainers", "pods/status"], "verbs": ["*"]},
    {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["*"]},
]


class TenantCluster(LiveCluster):
    """A cluster with fairburst installed and no operator: managed namespaces, with a queue of each kind and with none, and the accounts."""

    def __init__(self, cluster: Cluster) -> None:
        """The kubeconfig's own user must have a token: a client certificate would go before that of an account."""
        super().__init__(cluster)
        for name in (*TEAMS, OTHERS):
            cluster.kubectl("create", "namespace", name)
            cluster.kubectl("label", "namespace", name, f"{MANAGED_LABEL}=true")
        self.team, self.landlord, self.steward = (service_account(cluster, name, OTHERS) for name in ("team", "landlord", "steward"))
        self._grant_rights()
        self._create_queues()
        for where in TEAMS:
            self.admin("create", "-n", where, "-f", "-", body=sized_quota(where, THRESHOLD))
        self.admin("create", "-n", BATCH, "-f", "-", body=gated("waiting", "example.com/own", GATE))
        self.admin("create", "-n", BATCH, "-f", "-", body=job("held", suspend=True, **{HELD_ANNOTATION: "true"}))
        self.until(self._everything_acts, "roles, queues and policies to be known everywhere")

    def _grant_rights(self) -> None:
        namespaces = ["namespaces", "namespaces/status", "namespaces/finalize"]
        rule = {"apiGroups": [""], "resources": namespaces, "resourceNames": TEAMS, "verbs": ["get", "update", "patch"]}
        self.create(cluster_role("landlords", LANDLORDS), cluster_role("own-namespaces", [rule]))
        for who, role in (
            ("team", "edit"), ("landlord", "edit"), ("landlord", "landlords"), ("steward", "fairburst-queues-admin.default"),
        ):  # fmt: skip
            to = ["create", "rolebinding", f"{who}-{role}".replace(".", "-"), f"--clusterrole={role}", f"--serviceaccount={OTHERS}:{who}"]
            for where in TEAMS:
                self.cluster.kubectl(*to, "-n", where)
        to = ["create", "clusterrolebinding", "own-namespaces", "--clusterrole=own-namespaces", f"--serviceaccount={OTHERS}:landlord"]
        self.cluster.kubectl(*to)

    def _create_queues(self) -> None:
        """Create the queues, with the status and the labels that an operator would have written."""
        for kind, where, spec, status in (
            ("ThroughputQueue", BATCH, {}, {"podPriority": LARGE, "smallPodPriority": SMALL, "sizeThreshold": THRESHOLD}),
            ("LatencyQueue", BURSTS, BURST, {"podPriority": HARD}),
            ("ThroughputQueue", OTHERS, {}, {}),
        ):
            self.create(queue(kind, spec, where))
            if status:
                labels = (f"{key}={value}" for key, value in namespace_labels(status).items())
                self.admin("label", "namespace", where, "--overwrite", *labels)
            self.patch(kind, "queue", where, {"status": status}, "status")

    def _everything_acts(self) -> bool:
        """Return whether all roles and policies are in force: each takes effect by itself, within a second or so."""
        team, landlord = self.team, self.landlord
        if refusal(lambda: team.patch("thrq", "queue", BATCH, {"metadata": {"labels": {"seen": "yes"}}})):
            return False
        prioritized = team.create(pod(), BURSTS)["spec"].get("priorityClassName")
        floor = team.create(pod(class_name="fairburst-hard"), FLOOR)["spec"].get("priorityClassName")
        sized = team.create(job_manifest() | {"metadata": {"generateName": "j-"}}, BATCH)["metadata"].get("labels", {}).get(SIZE_LABEL)
        probes: tuple[Callable[[], object], ...] = (
            lambda: team.create(pod(labels={SIZE_LABEL: "small"}), BATCH),
            lambda: team.create(job_manifest() | {"metadata": {"generateName": "j-", "annotations": {ORIGINAL: "9"}}}, BATCH),
            lambda: landlord.create(quota("fairburst-small"), BATCH),
            lambda: landlord.patch("thrq", "queue", BATCH, {"spec": {"weight": 2}}),
            lambda: landlord.patch("thrq", "queue", BATCH, {"status": {"share": "1%"}}, "status"),
            lambda: landlord.patch("namespace", BATCH, "", {"metadata": {"labels": {MANAGED_LABEL: "no"}}}),
        )
        refused = [refusal(probe) for probe in probes]
        if not all(refused):  # not yet: undo the probes that were accepted
            self.patch("thrq", "queue", BATCH, {"spec": {"weight": 1}})
            self.admin("label", "namespace", BATCH, f"{MANAGED_LABEL}=true", "--overwrite")
            self.admin("delete", "resourcequota", "fairburst-small", "-n", BATCH, "--ignore-not-found")
        return (prioritized, floor, sized) == ("fairburst-hard", "fairburst-large", "small") and all(refused)

    def events(self, where: str, involved: str) -> str:
        """Return the messages of all Events on an object."""
        return "\n".join(one["message"] for one in self.items("events", where) if one["involvedObject"]["name"] == involved)


def cluster_role(name: str, rules: list[JsonObject]) -> JsonObject:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def pod(name: str = "", class_name: str | None = None, **metadata: Any) -> JsonObject:
    spec: JsonObject = {"containers": [{"name": "c", "image": "work", **container()}]}
    if class_name is not None:
        spec["priorityClassName"] = class_name
    return {"apiVersion": "v1", "kind": "Pod", "metadata": ({"name": name} if name else {"generateName": "p-"}) | metadata, "spec": spec}


def repelling(**namespaces: Any) -> JsonObject:
    """A pod that no other may join on its node: by default none of its own namespace."""
    body, term = pod(), {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname", **namespaces}
    body["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return body


def gated(name: str, *gates: str) -> JsonObject:
    body = pod(name)
    body["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    return body


def placed(node: str) -> JsonObject:
    body = pod()
    body["spec"]["nodeName"] = node
    return body


def placed_job(name: str) -> JsonObject:
    body = job(name)
    body["spec"]["template"]["spec"]["nodeName"] = "node-000"
    return body


def owner(kind: str, api: str) -> JsonObject:
    """An ownerReference to something that need not exist."""
    return {"apiVersion": api, "kind": kind, "name": "mine", "uid": "8d5e9b2c-0000-4000-8000-000000000000", "controller": True}


def quota(name: str, **labels: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "labels": labels}, "spec": {"hard": {"pods": "900"}}}


def daemon_set(name: str, class_name: str) -> JsonObject:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod(class_name=class_name)["spec"]}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec}


def job(name: str, suspend: bool = False, class_name: str | None = None, **annotations: str) -> JsonObject:
    body = job_manifest(suspend=suspend)
    body["metadata"] = {"name": name, "annotations": annotations}
    if class_name is not None:
        body["spec"]["template"]["spec"]["priorityClassName"] = class_name
    return body
