"""Tenants who try to gain by what they write: a control plane, an operator that runs, and each tenant's own account and queue."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from e2e.cluster import Cluster, ClusterError
from e2e.harness import OperatorProcess
from e2e.waiting import until

JsonObject = dict[str, Any]
PATIENCE_SECONDS = 120.0
HOME = "accounts"  # the namespace of the tenants' service accounts
API = "fairburst.dev/v1alpha1"


@dataclass(frozen=True)
class Tenant:
    """A namespace with a queue and an account that has the cluster role `edit` and may resize pods there."""

    cluster: Cluster
    name: str
    token: str = field(repr=False)

    def __call__(self, *arguments: str, body: JsonObject | None = None) -> str:
        """Run kubectl as this tenant. Raises ClusterError with the API server's words."""
        text = None if body is None else json.dumps(body)
        return self.cluster.kubectl(*arguments, "-n", self.name, f"--token={self.token}", input=text, timeout=120)

    def create(self, *objects: JsonObject) -> None:
        self("create", "-f", "-", body={"apiVersion": "v1", "kind": "List", "items": list(objects)})

    def evict(self, name: str, grace_seconds: int) -> None:
        """Send an eviction of one of its own pods with a grace period of its choice."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": self.name}}
        path = f"/api/v1/namespaces/{self.name}/pods/{name}/eviction"
        self("create", "--raw", path, "-f", "-", body=body | {"deleteOptions": {"gracePeriodSeconds": grace_seconds}})


class Arena:
    """A cluster with an operator. Tenants are made on demand; pods run until they are deleted, unless an annotation says otherwise."""

    def __init__(self, cluster: Cluster, operator: OperatorProcess) -> None:
        self.cluster, self.operator = cluster, operator
        self._numbers = itertools.count()
        self._made: list[str] = []
        cluster.kubectl("create", "namespace", HOME)

    def tenant(self, kind: str = "ThroughputQueue", **spec: Any) -> Tenant:
        """A tenant whose queue has been decided on and whose quota is written."""
        tenant = self.outsider()
        metadata = {"name": "queue", "namespace": tenant.name}
        self.admin("create", "-f", "-", body={"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec})
        until(lambda: self.status(tenant).get("class"), PATIENCE_SECONDS, f"the class in {tenant.name}")
        until(lambda: self.quota(tenant), PATIENCE_SECONDS, f"the quota of {tenant.name}")
        return tenant

    def outsider(self) -> Tenant:
        """A tenant of a namespace that has no queue."""
        name = f"tenant-{next(self._numbers)}"
        self.cluster.kubectl("create", "namespace", name)
        self.cluster.kubectl("create", "serviceaccount", name, "-n", HOME)
        self.cluster.kubectl("create", "rolebinding", "edit", "-n", name, "--clusterrole=edit", f"--serviceaccount={HOME}:{name}")
        resizes = ["create", "role", "resizes", "-n", name, "--verb=get,patch,update", "--resource=pods/resize"]
        self.cluster.kubectl(*resizes)
        self.cluster.kubectl("create", "rolebinding", "resizes", "-n", name, "--role=resizes", f"--serviceaccount={HOME}:{name}")
        self._made.append(name)
        token = self.cluster.kubectl("create", "token", name, "-n", HOME, "--duration=2h").strip()
        return Tenant(self.cluster, name, token)

    def admin(self, *arguments: str, body: JsonObject | None = None) -> str:
        return self.cluster.kubectl(*arguments, input=None if body is None else json.dumps(body), timeout=120)

    def listed(self, kind: str, tenant: Tenant) -> list[JsonObject]:
        found: list[JsonObject] = json.loads(self.cluster.kubectl("get", kind, "-n", tenant.name, "-o", "json"))["items"]
        return found

    def status(self, tenant: Tenant) -> JsonObject:
        """Status of the tenant's queue."""
        [found] = self.listed("latencyqueues,throughputqueues", tenant)
        status: JsonObject = found.get("status", {})
        return status

    def quota(self, tenant: Tenant) -> dict[str, str]:
        """What the namespace's quota permits; empty without one."""
        found = [one for one in self.listed("resourcequotas", tenant) if one["metadata"]["name"] == "fairburst"]
        return found[0]["spec"]["hard"] if found else {}

    def condition(self, tenant: Tenant, type_: str) -> JsonObject:
        """One condition of the tenant's queue; empty without it."""
        return next((one for one in self.status(tenant).get("conditions", ()) if one["type"] == type_), {})

    def occupying(self, tenant: Tenant) -> int:
        """Pods of the tenant that have a node and have not ended, those that are asked to end among them."""
        return sum(
            1 for one in self.listed("pods", tenant) if one["spec"].get("nodeName") and one["status"]["phase"] in {"Pending", "Running"}
        )

    def running(self, tenant: Tenant) -> int:
        """Pods of the tenant that run and have not been asked to end."""
        pods = self.listed("pods", tenant)
        return sum(1 for one in pods if one["status"]["phase"] == "Running" and "deletionTimestamp" not in one["metadata"])

    def wait_running(self, tenant: Tenant, count: int, what: str, seconds: float = PATIENCE_SECONDS) -> None:
        until(lambda: self.running(tenant) == count, seconds, what)

    def rounds(self, count: int) -> None:
        """Wait until so many more rounds have ended."""
        before = self.operator.metrics()["fairburst_rounds_total"]
        until(lambda: self.operator.metrics()["fairburst_rounds_total"] >= before + count, PATIENCE_SECONDS, f"{count} rounds")

    def act_as_kubelet(self, tenant: Tenant) -> None:
        """End the tenant's pods whose grace period is over, as a kubelet does and KWOK does not."""
        now = datetime.now(UTC).isoformat()
        ended = json.dumps({"status": {"phase": "Failed"}})
        for one in self.listed("pods", tenant):
            if one["metadata"].get("deletionTimestamp", "9") < now and one["status"]["phase"] == "Running":
                name = one["metadata"]["name"]
                self.cluster.kubectl("patch", "pod", name, "-n", tenant.name, "--subresource=status", "--type=merge", "-p", ended)

    def clear(self) -> None:
        """Delete every tenant and wait until its pods are gone."""
        for name in self._made:
            self.cluster.kubectl("delete", "latencyqueue,throughputqueue,job,deployment,daemonset", "--all", "-n", name)
        until(lambda: not any(self._still_there(name) for name in self._made), PATIENCE_SECONDS, "all pods to be gone")
        if self._made:
            self.cluster.kubectl("delete", "namespace", *self._made, "--wait=false")
        self._made = []

    def _still_there(self, name: str) -> bool:
        self.cluster.kubectl("delete", "pod", "--all", "-n", name, "--grace-period=0", "--force", "--wait=false")
        return bool(json.loads(self.cluster.kubectl("get", "pods", "-n", name, "-o", "json"))["items"])


def bursty(cpu: int, seconds: int = 120, **more: Any) -> JsonObject:
    """Spec of a LatencyQueue with sporadic bursts of one-cpu pods that last `seconds`."""
    burst = {"resources": {"cpu": str(cpu), "memory": f"{cpu}Gi"}, "durationSeconds": seconds}
    return {"burst": burst, "arrival": {"sporadic": {"minInterarrivalSeconds": 6 * seconds}}, **more}


def pod(name: str = "", cpu: str = "1", memory: str = "128Mi", **spec: Any) -> JsonObject:
    """A pod that runs until it is deleted, and then goes at once."""
    container = {"name": "work", "image": "work", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    body = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    metadata = {"name": name} if name else {"generateName": "pod-"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def job(
    name: str, pods: int, *, annotations: dict[str, str] | None = None, cpu: str = "1", memory: str = "128Mi", **spec: Any
) -> JsonObject:
    """A Job of pods that run until they are deleted; `spec` goes into the pods'."""
    template = {"metadata": {"annotations": annotations or {}}, "spec": pod(cpu=cpu, memory=memory, **spec)["spec"]}
    body = {"parallelism": pods, "completions": pods, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}


def refusal(tenant: Tenant, *arguments: str, body: JsonObject | None = None) -> str:
    """The API server's words to what a tenant asks; empty where it is permitted."""
    try:
        tenant(*arguments, body=body)
    except ClusterError as error:
        return str(error)
    return ""
