"""A control plane with an operator, and tenants that try to gain by what they write, each with an account and a queue."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import NotInTimeError
from tests.support import work
from tests.support.accounts import Account, service_account
from tests.support.live_cluster import OperatedCluster
from tests.support.objects import latency_spec
from tests.support.queues import queue

JsonObject = dict[str, Any]
PATIENCE_SECONDS = 120.0
HOME = "accounts"  # the namespace of the tenants' service accounts
RBAC = "rbac.authorization.k8s.io/v1"


@dataclass(frozen=True)
class Tenant:
    """A namespace with a queue and an account that has the cluster role `edit` and may resize pods there."""

    name: str
    account: Account

    def __call__(self, *arguments: str, body: JsonObject | None = None) -> str:
        """Run kubectl in the tenant's namespace. Raises ClusterError with the API server's words."""
        return self.account(*arguments, "-n", self.name, body=body)

    def create(self, *objects: JsonObject) -> None:
        self("create", "-f", "-", body={"apiVersion": "v1", "kind": "List", "items": objects})

    def evict(self, name: str, grace_seconds: int) -> None:
        """Send an eviction of one of its own pods with a grace period of its choice."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": self.name}}
        path = f"/api/v1/namespaces/{self.name}/pods/{name}/eviction"
        self("create", "--raw", path, "-f", "-", body=body | {"deleteOptions": {"gracePeriodSeconds": grace_seconds}})


class Arena(OperatedCluster):
    """A cluster with an operator. Tenants are made on demand; pods run until they are deleted, unless an annotation says otherwise."""

    patience_seconds = PATIENCE_SECONDS

    def __init__(self, cluster: Cluster, operator: OperatorProcess) -> None:
        super().__init__(cluster, operator)
        self.create(work.namespace(HOME))

    def tenant(self, kind: str = "ThroughputQueue", **spec: Any) -> Tenant:
        """A tenant whose queue has been decided on and whose quota is written."""
        tenant = self.outsider()
        self.govern(tenant.name, kind, spec)
        return tenant

    def outsider(self) -> Tenant:
        """A tenant of a namespace that has no queue."""
        name = self.new_namespace("tenant")
        account = service_account(self.cluster, name, HOME)
        rules = [{"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["get", "patch", "update"]}]
        role = {"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "resizes", "namespace": name}, "rules": rules}
        self.create(role, binding(name, "ClusterRole", "edit"), binding(name, "Role", "resizes"))
        return Tenant(name, account)

    def seconds_to_serve(self, tenant: Tenant, patience_seconds: float) -> float:
        """Create the tenant's queue, and return the time until its quota is there, to a fiftieth of a second or so."""
        began = time.monotonic()
        self.create(queue("ThroughputQueue", {}, tenant.name))
        while not self.hard(tenant.name):
            if time.monotonic() > began + patience_seconds:
                raise NotInTimeError(f"no quota for {tenant.name} in {patience_seconds:g} s")
            time.sleep(0.02)
        return time.monotonic() - began

    def act_as_kubelet(self, where: str) -> None:
        """End the namespace's pods whose grace period is over, as a kubelet does and KWOK does not."""
        now = datetime.now(UTC).isoformat()
        for one in self.items("pods", where):
            if one["metadata"].get("deletionTimestamp", "9") < now and one["status"]["phase"] == "Running":
                self.patch("pod", one["metadata"]["name"], where, {"status": {"phase": "Failed"}}, "status")

    def report_resources(self, where: str, name: str, container: JsonObject, **pod: Any) -> None:
        """Add to the statuses of a pod and of its one container, as a kubelet that resizes pods does and KWOK does not."""
        status = self.get("pod", name, where)["status"]
        [known] = status["containerStatuses"]
        self.patch("pod", name, where, {"status": {"containerStatuses": [known | container], **pod}}, "status")


def binding(tenant: str, kind: str, role: str) -> JsonObject:
    """Bind a tenant's account to a role in its namespace."""
    subject = {"kind": "ServiceAccount", "name": tenant, "namespace": HOME}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
    metadata = {"name": role, "namespace": tenant}
    return {"apiVersion": RBAC, "kind": "RoleBinding", "metadata": metadata, "roleRef": reference, "subjects": [subject]}


def bursty(cpu: int, seconds: int = 120, **more: Any) -> JsonObject:
    """Spec of a LatencyQueue with sporadic bursts of one-cpu pods that last `seconds`."""
    return latency_spec(str(cpu), seconds, 6 * seconds, **more)


def pod(name: str, cpu: str = "1", memory: str = "128Mi", **spec: Any) -> JsonObject:
    """A pod for a tenant's own namespace; `spec` goes into its spec."""
    return work.pod("", name, work.pod_spec(cpu, memory, **spec))


def job(
    name: str, pods: int, *, annotations: dict[str, str] | None = None, cpu: str = "1", memory: str = "128Mi", **spec: Any
) -> JsonObject:
    """A Job for a tenant's own namespace; `spec` goes into the pods'."""
    return work.job("", name, pods, work.pod_spec(cpu, memory, **spec), pod_metadata={"annotations": annotations or {}})
