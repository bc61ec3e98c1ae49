"""A real control plane as its administrator uses it: create, read and change objects, and wait for the results."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import Cluster, ClusterError
from e2e.harness import OperatorProcess, apply_manifests
from e2e.objects import METADATA, objects_of
from e2e.waiting import PATIENCE_SECONDS, Answer, NotInTimeError, until
from fairburst.config import Config
from fairburst.kube.api.client import ApiClient
from fairburst.kube.install.manifests import Subject, all_manifests
from fairburst.kube.names import QUOTA_NAME
from fairburst.quantity import parse_quantity
from tests.support import work
from tests.support.queues import queue

JsonObject = dict[str, Any]
QUEUES = "latencyqueues,throughputqueues"


class LiveCluster:
    """Shortcuts to a cluster. Test modules subclass it for their own needs."""

    patience_seconds = PATIENCE_SECONDS

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.objects = objects_of(cluster.kubeconfig)

    # Writes

    def admin(self, *arguments: str, body: JsonObject | None = None) -> str:
        """Run kubectl as the administrator, with an object as its input."""
        return self.cluster.kubectl(*arguments, input=None if body is None else json.dumps(body), timeout=120)

    def create(self, *objects: JsonObject) -> None:
        work.create(self.cluster, *objects)

    def patch(self, kind: str, name: str, where: str, change: JsonObject, subresource: str = "") -> None:
        self.objects.patch(kind, name, where, change, subresource)

    def delete(self, kind: str, name: str, where: str) -> None:
        """Ask for the deletion of an object, and wait for nothing."""
        self.objects.delete(kind, name, where)

    def delete_jobs(self, where: str) -> None:
        """Delete all Jobs of a namespace, and wait until their pods are gone."""
        self.cluster.kubectl("delete", "job", "--all", "-n", where, "--cascade=foreground", timeout=90)

    def delete_pods(self, where: str) -> None:
        self.cluster.kubectl("delete", "pod", "--all", "-n", where, "--grace-period=0", "--force", timeout=90)

    # Reads

    def get(self, kind: str, name: str, where: str = "") -> JsonObject:
        """Return an object; empty if there is none."""
        return self.objects.get(kind, name, where)

    def items(self, kinds: str, where: str = "", labels: str = "") -> list[JsonObject]:
        """Return the objects of a namespace, or of all namespaces, that have these labels."""
        return [one for kind in kinds.split(",") for one in self.objects.list(kind, where, labels)]

    def stored(self, obj: JsonObject) -> JsonObject:
        """Return an object as the API server would store it. Raise ClusterError with its words if it would refuse it."""
        return self.objects.create(obj, dryRun="All")

    def priority_of(self, pod: JsonObject) -> str | None:
        """Return the name of the priority class with which a pod would be stored."""
        given: str | None = self.stored(pod)["spec"].get("priorityClassName")
        return given

    def status(self, where: str, name: str = "queue") -> JsonObject:
        """Return the status of a queue; empty before its first round."""
        return next((one.get("status") or {} for one in self.items(QUEUES, where) if one["metadata"]["name"] == name), {})

    def statuses(self) -> dict[str, JsonObject]:
        """Return the status of every queue, by namespace."""
        return {one["metadata"]["namespace"]: one.get("status") or {} for one in self.items(QUEUES)}

    def condition(self, where: str, type_: str, name: str = "queue") -> JsonObject:
        """Return one condition of a queue; empty if it has none of that type."""
        return next((one for one in self.status(where, name).get("conditions", ()) if one["type"] == type_), {})

    def hard(self, where: str) -> dict[str, str]:
        """Return the limits in the spec of the namespace's quota; empty if there is no quota."""
        hard: dict[str, str] = (self.get("resourcequota", QUOTA_NAME, where).get("spec") or {}).get("hard", {})
        return hard

    def enforced_cpu(self, where: str, key: str = "hard") -> float:
        """Return the cpu that the namespace's quota admits, infinite if it has no limits, or by the key "used" what it counts; 0 if there
        is no quota."""
        quota = self.get("resourcequota", QUOTA_NAME, where)
        status = quota.get("status", {})
        if key == "hard" and quota and not quota["spec"].get("hard") and not status.get("hard"):
            return math.inf
        return float(parse_quantity(status.get(key, {}).get("requests.cpu", "0")))

    def running(self, where: str) -> list[str]:
        """Return the names of the pods that run and have not been asked to end."""
        # Only these, and only their names: a namespace may have thousands of ended pods, and tests ask several times a second.
        pods = [one["metadata"] for one in self.objects.list("pods", where, fields="status.phase=Running", accept=METADATA)]
        return sorted(one["name"] for one in pods if "deletionTimestamp" not in one)

    def occupying(self, where: str) -> int:
        """Return how many of a namespace's pods occupy a node."""
        return len(on_nodes(self.items("pods", where)))

    # Waits

    def until(self, check: Callable[[], Answer | None], what: str, seconds: float | None = None) -> Answer:
        return until(check, self.patience_seconds if seconds is None else seconds, what)

    def wait_running(self, where: str, count: int, what: str = "") -> None:
        try:
            self.until(lambda: len(self.running(where)) == count, what or f"{count} running pods in {where}")
        except NotInTimeError as error:
            raise NotInTimeError(f"{error}; {self.described(where)}") from None

    def described(self, where: str) -> str:
        """Return a description of the namespace's pods, Jobs, queues and quotas with their Events, for the message of a failed wait."""
        about = [(one["metadata"], one["status"]["phase"]) for one in self.items("pods", where)]
        pods = {metadata["name"]: (phase, metadata.get("deletionTimestamp")) for metadata, phase in about}
        found = [
            self.cluster.kubectl("get", f"job,resourcequota,{QUEUES}", "-n", where, "-o", "yaml"),
            self.cluster.kubectl("get", "events", "-n", where),
        ]
        return "\n".join([f"{len(self.running(where))} run; pods {pods}", *found])

    def wait_class(self, where: str, class_: str = "") -> None:
        """Wait until the namespace's queue has a class, or this one."""

        def decided() -> bool:
            found = self.status(where).get("class")
            return found == class_ if class_ else bool(found)

        self.until(decided, f"the class {class_ or 'of the queue'} in {where}")


class OperatedCluster(LiveCluster):
    """A cluster with an operator, and with namespaces that `clear` deletes after a test."""

    def __init__(self, cluster: Cluster, operator: OperatorProcess) -> None:
        super().__init__(cluster)
        self.operator = operator
        self._numbers = itertools.count()
        self._made: list[str] = []

    def rounds(self, count: int) -> None:
        """Wait until so many more rounds have ended."""
        before = self.operator.metrics()["fairburst_rounds_total"]
        self.until(lambda: self.operator.metrics()["fairburst_rounds_total"] >= before + count, f"{count} rounds")

    def new_namespace(self, prefix: str) -> str:
        """Create a namespace that `clear` deletes, and return its name."""
        name = f"{prefix}-{next(self._numbers)}"
        self.create(work.namespace(name))
        self._made.append(name)
        return name

    def govern(self, where: str, kind: str, spec: JsonObject) -> None:
        """Create the namespace's queue, and wait until it has a class and its quota is written."""
        self.create(queue(kind, spec, where))
        self.wait_class(where)
        self.until(lambda: self.hard(where), f"the quota of {where}")

    def clear(self) -> None:
        """Delete the namespaces, and wait until their pods are gone."""
        if not self._made:
            return
        for where in self._made:
            self.cluster.kubectl("delete", f"{QUEUES},job,deployment,daemonset", "--all", "-n", where, "--cascade=background")
        self.until(lambda: not any(self._has_pods(where) for where in self._made), "all pods to be gone")
        self.cluster.kubectl("delete", "namespace", *self._made, "--wait=false")
        self._made = []

    def _has_pods(self, where: str) -> bool:
        self.cluster.kubectl("delete", "pod", "--all", "-n", where, "--grace-period=0", "--force", "--wait=false")
        return bool(self.items("pods", where))

    def uninstall(self, folder: Path) -> list[str]:
        """Stop the operator and run `fairburst uninstall` as the administrator. Return the lines that name what it released, sorted."""
        self.operator.stop()
        config = folder / "admin.yaml"
        config.write_text(yaml.safe_dump({"kubeconfig": str(self.cluster.kubeconfig)}))
        command = [sys.executable, "-m", "fairburst", "uninstall", "--config", str(config)]
        printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        return sorted(line for line in printed.splitlines() if line.startswith("released"))


def install(cluster: Cluster, config: Config, user: str = "fairburst") -> list[JsonObject]:
    """Apply all objects of an installation, without an operator. Return them once the queue kinds are served."""
    manifests = all_manifests(config, Subject(user=user))
    apply_manifests(cluster, manifests)
    return manifests


def remove_policies(cluster: Cluster, manifests: list[JsonObject]) -> None:
    """Delete the policies among an installation's objects, so that other tests on the cluster are not subject to them."""
    for one in manifests:
        if "AdmissionPolicy" in one["kind"]:
            objects_of(cluster.kubeconfig).delete(one["kind"], one["metadata"]["name"])


async def burst_at_once(cluster: Cluster, where: str, pods: Sequence[JsonObject]) -> None:
    """Create pods concurrently, by a client that does not retry."""
    async with await ApiClient.connect(str(cluster.kubeconfig)) as client:
        await asyncio.gather(*(client.create(f"/api/v1/namespaces/{where}/pods", body) for body in pods))


def on_nodes(pods: list[JsonObject]) -> list[JsonObject]:
    """Return the pods that have a node and have not ended, including those that have been asked to end."""
    return [one for one in pods if one["spec"].get("nodeName") and one["status"]["phase"] in {"Pending", "Running"}]


def refusal(attempt: Callable[[], object]) -> str:
    """Return the API server's words if it refuses an attempt, else an empty text."""
    try:
        attempt()
    except ClusterError as error:
        return str(error)
    return ""
