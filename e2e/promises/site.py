"""What the tests of the promises share: the cluster, the release of the chart in it, and short ways to queues, pods and Jobs.

Sizes are relative to the cluster: a task asks for a fifth of what is free on a worker, so ten run at once on two, and no node has a
remainder that counts as capacity but holds nobody. Starting a container takes a real node half a second of processor time, so there are
few of them, and they last.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import yaml

from e2e.cluster import Cluster, ClusterError
from e2e.harness import samples_by_name
from e2e.kind.cluster import KindCluster
from e2e.promises.reading import JsonObject, Reader
from e2e.waiting import until
from e2e.workload.driver import WORKLOAD_IMAGE
from fairburst.quantity import parse_quantity
from tests.support.helm import Helm, Values

RELEASE, HOME = "fairburst", "fairburst-system"
REPLICAS = f"app.kubernetes.io/name=fairburst,app.kubernetes.io/instance={RELEASE}"  # labels
PLACES_OF_A_NODE = 5
OPERATORS_MILLICORES = 200  # of both replicas, which may come to be on one worker
# Real kubelets on a machine shared with others: what takes two seconds may take twenty.
PATIENCE_SECONDS = 120.0
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
# A node that one test stops must not be missing from what the next ones are promised for ten minutes; a floor of one cpu, the default,
# is a quarter of the smallest clusters that this runs on; and nobody waits a minute here until work is old enough to be evicted.
MINIMUM_RUN_SECONDS = 1
SUITE_CONFIG: Values = {
    "pool": {"capacityWindowSeconds": 5},
    "enforcement": {"floors": {"cpu": "100m", "memory": "32Mi"}},
    "reclaim": {"minimumRunSeconds": MINIMUM_RUN_SECONDS},
}


@dataclass(frozen=True)
class Site:
    """`nodes`: None in a cluster that is not ours. `image`: the operator's image as the chart's values name it."""

    cluster: Cluster
    helm: Helm
    nodes: KindCluster | None
    image: Values

    # The release

    def install(self, config: Values | None = None, *arguments: str) -> str:
        """Install the release, or bring it to these values; what Helm said. Returns when its pods are ready."""
        values = {"image": self.image, "config": SUITE_CONFIG if config is None else config, "networkPolicy": {"metricsFrom": []}}
        said = self.helm.on_chart("upgrade", RELEASE, "--install", *arguments, values=values, namespace=HOME)
        self.rolled_out()
        return said

    def installed(self) -> str:
        """What stands for the release as it is now, and is another after every change of its Deployment; empty if there is none."""
        about = self.get("deployment", RELEASE, HOME).get("metadata", {})
        return "/".join(str(about[key]) for key in ("uid", "generation") if key in about)

    def rolled_out(self) -> None:
        """Wait until as many replicas as there should be are ready, all of them new, and one leads."""
        self.cluster.kubectl("rollout", "status", f"deployment/{RELEASE}", "-n", HOME, "--timeout=180s", timeout=200)
        until(lambda: self.leader() in self.operators(), PATIENCE_SECONDS, "a running replica to lead")

    def operators(self) -> Sequence[str]:
        """Names of the operator's pods that are not on their way out."""
        found = self.list("pods", HOME, REPLICAS)
        return [one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]]

    def dismiss(self) -> None:
        """Take all replicas away, and wait until their processes have ended: one on its way out still writes what it was about to."""
        self.cluster.kubectl("scale", f"deployment/{RELEASE}", "-n", HOME, "--replicas=0")
        until(lambda: not self.list("pods", HOME, REPLICAS), PATIENCE_SECONDS, "the operator to be away")

    def leader(self) -> str:
        """Name of the pod that holds the Lease; empty if nobody does."""
        holder = self.get("lease", "fairburst-default", HOME).get("spec", {}).get("holderIdentity") or ""
        return str(holder).rpartition("_")[0]

    def metrics(self, pod: str) -> dict[str, float]:
        """Every sample of one replica, through the API server; names as in `samples_by_name`."""
        return samples_by_name(self.cluster.kubectl("get", "--raw", f"/api/v1/namespaces/{HOME}/pods/{pod}:9090/proxy/metrics"))

    # Sizes

    def capacity(self) -> dict[str, float]:
        """What the operator shares out now, by resource; a replica that has just begun to lead is given the time for a round."""

        def measured() -> dict[str, float] | None:
            found = self.metrics(self.leader())
            wanted = {resource: found.get(f'fairburst_capacity_live{{resource="{resource}"}}', 0.0) for resource in ("cpu", "memory")}
            return wanted if all(wanted.values()) else None

        return until(measured, PATIENCE_SECONDS, "the leader to know the capacity")

    def workers(self) -> Sequence[JsonObject]:
        """Nodes on which anybody's pods may run."""
        return [one for one in self.list("nodes") if not one["spec"].get("taints") and not one["spec"].get("unschedulable")]

    @cached_property
    def slot(self) -> dict[str, str]:
        """Requests of one task, the same all the time: asked for first where no test's pods run."""
        return {"cpu": f"{(min(self.free_millicores(without=HOME)) - OPERATORS_MILLICORES) // PLACES_OF_A_NODE}m", "memory": "32Mi"}

    def places(self, task: dict[str, str] | None = None) -> int:
        """How many tasks, of a slot unless told, fit on the workers beside what runs there now."""
        cpu = round(1000 * cores((task or self.slot)["cpu"]))
        return sum(free // cpu for free in self.free_millicores())

    def free_millicores(self, without: str = "") -> Sequence[int]:
        """What is free on each worker now, or would be if the pods of one namespace were not there."""
        used: Counter[str] = Counter()
        for one in self.list("pods"):
            if one["status"]["phase"] not in {"Succeeded", "Failed"} and one["metadata"]["namespace"] != without:
                used[one["spec"].get("nodeName", "")] += round(1000 * sum(map(cpu_of, one["spec"]["containers"])))
        return [round(1000 * cores(one["status"]["allocatable"]["cpu"])) - used[one["metadata"]["name"]] for one in self.workers()]

    # Objects

    def create(self, *objects: JsonObject) -> None:
        self.cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all(objects))

    def get(self, kind: str, name: str, namespace: str = "") -> JsonObject:
        """The object; empty if there is none."""
        return self._reader.get(kind, name, namespace)

    def list(self, kind: str, namespace: str = "", labels: str = "") -> Sequence[JsonObject]:
        """All of a namespace, or of all namespaces, that have these labels."""
        return self._reader.list(kind, namespace, labels)

    @cached_property
    def _reader(self) -> Reader:
        return Reader(self.cluster.kubeconfig)

    def patch(self, kind: str, name: str, namespace: str, change: JsonObject) -> None:
        self.cluster.kubectl("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(change))

    def admitted(self, kind: str, namespace: str, spec: JsonObject) -> JsonObject:
        """Declare a queue, called as its namespace is; its status once the operator has decided and enforces it."""
        self.create(queue(kind, namespace, spec))
        return self.decided(kind, namespace)

    def decided(self, kind: str, namespace: str) -> JsonObject:
        """The status of a queue once it has a class, and what enforces it is in place."""

        def status() -> JsonObject | None:
            found: JsonObject = self.get(kind, namespace, namespace).get("status") or {}
            enforced = any(one["type"] == "Enforced" and one["status"] == "True" for one in found.get("conditions", ()))
            return found if "class" in found and (enforced or found["class"] == "Rejected") else None

        return until(status, PATIENCE_SECONDS, f"a decision on {kind} {namespace}")

    def stored(self, body: JsonObject) -> JsonObject:
        """An object as the API server would store it; empty where it would refuse it."""
        try:
            found: JsonObject = json.loads(
                self.cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(body))
            )
        except ClusterError:
            return {}
        return found

    def gates_of(self, body: JsonObject) -> Sequence[str]:
        """The gates that a pod would be stored with."""
        return [one["name"] for one in self.stored(body).get("spec", {}).get("schedulingGates", ())]

    def running(self, namespace: str) -> Sequence[JsonObject]:
        """Pods of a namespace whose containers run."""
        return [one for one in self.list("pods", namespace) if one["status"]["phase"] == "Running"]

    def held(self, namespace: str) -> int:
        """Places that a namespace's pods hold: bound to a node, and not ended."""
        pods = self.list("pods", namespace)
        return sum("nodeName" in one["spec"] and one["status"]["phase"] in {"Pending", "Running"} for one in pods)

    def wait_running(self, namespace: str, pods: int) -> None:
        until(lambda: len(self.running(namespace)) >= pods, PATIENCE_SECONDS, f"{pods} pods of {namespace} to run")

    def wait_done(self, namespace: str, name: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until a Job has all its completions."""
        until(lambda: self.get("job", name, namespace)["status"].get("completionTime"), seconds, f"Job {namespace}/{name} to be done")

    def quota_level(self, namespace: str) -> float:
        """CPUs that the namespace's quota admits; 0 where there is none."""
        hard = self.get("resourcequota", "fairburst", namespace).get("spec", {}).get("hard", {})
        return cores(hard.get("requests.cpu", "0"))

    def forget(self, *namespaces: str) -> None:
        """Delete namespaces with all that is in them, Jobs first so that nothing follows, and wait for their room."""
        for name in namespaces:
            everything = ("job,deployment,pods,lq,tq", "--all", "--cascade=background", "--grace-period=1")
            self.cluster.kubectl("delete", *everything, "-n", name, "--wait=false")
        left = ("pods", "lq", "tq")
        until(
            lambda: not any(self.list(kind, name) for kind in left for name in namespaces),
            PATIENCE_SECONDS,
            f"{', '.join(left)} of {', '.join(namespaces)} to go",
        )
        self.cluster.kubectl("delete", "namespace", *namespaces, "--ignore-not-found", "--wait=false")

    def wait_free(self, *namespaces: str) -> None:
        """Wait until namespaces of these names can be made: those of an earlier test take some seconds to go."""
        self.cluster.kubectl("wait", "--for=delete", *(f"namespace/{name}" for name in namespaces), "--timeout=120s", timeout=150)


def cores(quantity: str) -> float:
    return float(parse_quantity(quantity))


def cpu_of(container: JsonObject) -> float:
    """Cores that a container asks for."""
    return cores(container.get("resources", {}).get("requests", {}).get("cpu", "0"))


def namespace_object(name: str, labels: dict[str, str] | None = None) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}}}


def queue(kind: str, namespace: str, spec: JsonObject) -> JsonObject:
    metadata = {"name": namespace, "namespace": namespace}
    return {"apiVersion": "fairburst.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def task_spec(requests: dict[str, str], seconds: float, grace_seconds: int = 5) -> JsonObject:
    """A pod that uses nothing of what it asks for, ends after `seconds`, and ends at once when it is asked to."""
    # As process 1 a plain sleep ignores SIGTERM and would take its whole grace period to go.
    command = ["sh", "-c", f"trap exit TERM; sleep {seconds:g} & wait"]
    container = {"name": "task", "image": WORKLOAD_IMAGE, "command": command, "resources": {"requests": requests}}
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace_seconds,
        "automountServiceAccountToken": False,
        "containers": [container],
    }


def pod(namespace: str, name: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def job(namespace: str, name: str, spec: JsonObject, parallelism: int, completions: int | None = None) -> JsonObject:
    body = {"parallelism": parallelism, "completions": completions or parallelism, "backoffLimit": 100, "template": {"spec": spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": namespace}, "spec": body}


def times(requests: dict[str, str], count: float) -> dict[str, str]:
    """The requests of `count` tasks together."""
    cpu, memory = (float(parse_quantity(requests[resource])) * count for resource in ("cpu", "memory"))
    return {"cpu": f"{round(cpu * 1000)}m", "memory": str(round(memory))}


def burst(requests: dict[str, str], pods: int, seconds: int, interarrival: int) -> JsonObject:
    """A queue whose burst of so many tasks may come at any time, and is armed at once."""
    return {
        "burst": {"resources": times(requests, pods), "durationSeconds": seconds},
        "arrival": {"sporadic": {"minInterarrivalSeconds": interarrival}},
    }


def condition(status: JsonObject, kind: str) -> JsonObject:
    """The condition of that type."""
    (found,) = [one for one in status["conditions"] if one["type"] == kind]
    return dict(found)


def instant(timestamp: str) -> dt.datetime:
    """A time as objects hold it."""
    return dt.datetime.fromisoformat(timestamp)


def started_at(one: JsonObject) -> str:
    """When a pod's container started, whole seconds as the kubelet tells them; empty if it has not."""
    for status in one["status"].get("containerStatuses", ()):
        for state in ("running", "terminated"):
            if state in status["state"]:
                return str(status["state"][state]["startedAt"])
    return ""
