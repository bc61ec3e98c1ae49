"""Shared parts of the promise tests: the cluster, the release of the chart in it, and shortcuts to queues, pods and Jobs.

Sizes are relative to the cluster. A task requests a fifth of a worker's free resources, so ten run at once on two workers, and no node has
a remainder that counts as capacity but fits no pod. A container start takes a real node half a second of processor time, so the tests use
few containers, which last.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import yaml

from e2e.cluster import Cluster, ClusterError
from e2e.harness import samples_by_name
from e2e.kind.cluster import KindCluster
from e2e.objects import JsonObject, objects_of
from e2e.waiting import until
from e2e.workload.job_object import WORKLOAD_IMAGE
from fairburst.quantity import parse_quantity
from tests.support.helm import Helm, Values

RELEASE, HOME = "fairburst", "fairburst-system"
REPLICAS = f"app.kubernetes.io/name=fairburst,app.kubernetes.io/instance={RELEASE}"  # labels
PLACES_OF_A_NODE = 5
OPERATORS_MILLICORES = 200  # of both replicas, which may be on the same worker
# Real kubelets on a shared machine: an action of two seconds may take twenty.
PATIENCE_SECONDS = 120.0
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
# A node that one test stops must not lower the promises of later tests for ten minutes. The default floor of one cpu is a quarter of the
# smallest test cluster. The tests must not wait a minute until work is old enough to be evicted, and a victim may need longer than the
# default grace of 30 s on a busy machine.
MINIMUM_RUN_SECONDS = 1
SUITE_CONFIG: Values = {
    "pool": {"capacityWindowSeconds": 5},
    "enforcement": {"floors": {"cpu": "100m", "memory": "32Mi"}},
    "reclaim": {"minimumRunSeconds": MINIMUM_RUN_SECONDS, "longestGraceSeconds": 120},
}


@dataclass(frozen=True)
class Site:
    """The cluster and the release. `nodes`: None in an external cluster. `image`: the operator's image as the chart's values name it."""

    cluster: Cluster
    helm: Helm
    nodes: KindCluster | None
    image: Values

    # The release

    def install(self, config: Values | None = None, *arguments: str) -> str:
        """Install the release, or update it to these values. Return Helm's output once its pods are ready."""
        values = {"image": self.image, "config": SUITE_CONFIG if config is None else config, "networkPolicy": {"metricsFrom": []}}
        said = self.helm.on_chart("upgrade", RELEASE, "--install", *arguments, values=values, namespace=HOME)
        self.rolled_out()
        return said

    def installed(self) -> str:
        """Return a value that identifies the present release and changes with its Deployment; empty if there is none."""
        about = self.get("deployment", RELEASE, HOME).get("metadata", {})
        return "/".join(str(about[key]) for key in ("uid", "generation") if key in about)

    def rolled_out(self) -> None:
        """Wait until the desired number of replicas is ready, all of them new, and one leads."""
        self.cluster.kubectl("rollout", "status", f"deployment/{RELEASE}", "-n", HOME, "--timeout=180s", timeout=200)
        until(lambda: self.leader() in self.operators(), PATIENCE_SECONDS, "a running replica to lead")

    def operators(self) -> Sequence[str]:
        """Return the names of the operator's pods that are not being deleted."""
        found = self.list("pods", HOME, REPLICAS)
        return [one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]]

    def dismiss(self) -> None:
        """Remove all replicas, and wait until their processes have ended: a terminating one still completes its writes."""
        self.cluster.kubectl("scale", f"deployment/{RELEASE}", "-n", HOME, "--replicas=0")
        until(lambda: not self.list("pods", HOME, REPLICAS), PATIENCE_SECONDS, "the operator to be away")

    def leader(self) -> str:
        """Return the name of the pod that holds the Lease; empty if there is no holder."""
        holder = self.get("lease", "fairburst-default", HOME).get("spec", {}).get("holderIdentity") or ""
        return str(holder).rpartition("_")[0]

    def metrics(self, pod: str) -> dict[str, float]:
        """Return every sample of one replica, through the API server, named as by `samples_by_name`."""
        return samples_by_name(self.cluster.kubectl("get", "--raw", f"/api/v1/namespaces/{HOME}/pods/{pod}:9090/proxy/metrics"))

    def megabytes(self, pod: str, figure: str = "VmRSS") -> float:
        """Return the resident memory of a pod's Python process, now or at most (VmHWM), in millions of bytes."""
        status = self.cluster.kubectl("exec", pod, "-n", HOME, "--", "python", "-c", "print(open('/proc/1/status').read())")
        return int(dict(re.findall(r"(\w+):\s+(\d+) kB", status))[figure]) * 1024 / 1e6

    # Sizes

    def capacity(self) -> dict[str, float]:
        """Return the capacity that the operator divides now, by resource. Wait for a round if a replica has just begun to lead."""

        def measured() -> dict[str, float] | None:
            found = self.metrics(self.leader())
            wanted = {resource: found.get(f'fairburst_capacity_live{{resource="{resource}"}}', 0.0) for resource in ("cpu", "memory")}
            return wanted if all(wanted.values()) else None

        return until(measured, PATIENCE_SECONDS, "the leader to know the capacity")

    def workers(self) -> Sequence[JsonObject]:
        """Return the nodes on which ordinary pods may run."""
        return [one for one in self.list("nodes") if not one["spec"].get("taints") and not one["spec"].get("unschedulable")]

    @cached_property
    def slot(self) -> dict[str, str]:
        """Return the requests of one task, constant for the run. The first call happens while no test's pods run."""
        return {"cpu": f"{(min(self.free_millicores(without=HOME)) - OPERATORS_MILLICORES) // PLACES_OF_A_NODE}m", "memory": "32Mi"}

    def places(self, task: dict[str, str] | None = None) -> int:
        """Return how many tasks, of a slot by default, fit on the workers in addition to the running pods."""
        cpu = round(1000 * cores((task or self.slot)["cpu"]))
        return sum(free // cpu for free in self.free_millicores())

    def free_millicores(self, without: str = "") -> Sequence[int]:
        """Return the free cpu on each worker, counting the pods of one namespace as absent."""
        used: Counter[str] = Counter()
        for one in self.list("pods"):
            if one["status"]["phase"] not in {"Succeeded", "Failed"} and one["metadata"]["namespace"] != without:
                used[one["spec"].get("nodeName", "")] += round(1000 * sum(map(cpu_of, one["spec"]["containers"])))
        return [round(1000 * cores(one["status"]["allocatable"]["cpu"])) - used[one["metadata"]["name"]] for one in self.workers()]

    # Objects

    def create(self, *objects: JsonObject) -> None:
        self.cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all(objects))

    def get(self, kind: str, name: str, namespace: str = "") -> JsonObject:
        """Return the object; empty if there is none."""
        return objects_of(self.cluster.kubeconfig).get(kind, name, namespace)

    def list(self, kind: str, namespace: str = "", labels: str = "") -> Sequence[JsonObject]:
        """Return all objects of a namespace, or of all namespaces, that have these labels."""
        return objects_of(self.cluster.kubeconfig).list(kind, namespace, labels)

    def patch(self, kind: str, name: str, namespace: str, change: JsonObject) -> None:
        self.cluster.kubectl("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(change))

    def admitted(self, kind: str, namespace: str, spec: JsonObject) -> JsonObject:
        """Create a queue with its namespace's name. Return its status once the operator has decided on it and enforces it."""
        self.create(queue(kind, namespace, spec))
        return self.decided(kind, namespace)

    def decided(self, kind: str, namespace: str) -> JsonObject:
        """Return the status of a queue once it has a class and is enforced."""

        def status() -> JsonObject | None:
            found: JsonObject = self.get(kind, namespace, namespace).get("status") or {}
            enforced = any(one["type"] == "Enforced" and one["status"] == "True" for one in found.get("conditions", ()))
            return found if "class" in found and (enforced or found["class"] == "Rejected") else None

        return until(status, PATIENCE_SECONDS, f"a decision on {kind} {namespace}")

    def stored(self, body: JsonObject) -> JsonObject:
        """Return an object as the API server would store it; empty if it would refuse it."""
        try:
            found: JsonObject = json.loads(
                self.cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(body))
            )
        except ClusterError:
            return {}
        return found

    def gates_of(self, body: JsonObject) -> Sequence[str]:
        """Return the gates with which a pod would be stored."""
        return [one["name"] for one in self.stored(body).get("spec", {}).get("schedulingGates", ())]

    def running(self, namespace: str) -> Sequence[JsonObject]:
        """Return the pods of a namespace whose containers run."""
        return [one for one in self.list("pods", namespace) if one["status"]["phase"] == "Running"]

    def held(self, namespace: str) -> int:
        """Return the places that a namespace's pods hold: bound to a node, and not ended."""
        pods = self.list("pods", namespace)
        return sum("nodeName" in one["spec"] and one["status"]["phase"] in {"Pending", "Running"} for one in pods)

    def wait_running(self, namespace: str, pods: int) -> None:
        until(lambda: len(self.running(namespace)) >= pods, PATIENCE_SECONDS, f"{pods} pods of {namespace} to run")

    def wait_done(self, namespace: str, name: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until a Job has all its completions."""
        until(lambda: self.get("job", name, namespace)["status"].get("completionTime"), seconds, f"Job {namespace}/{name} to be done")

    def quota_level(self, namespace: str) -> float:
        """Return the CPUs that the namespace's quota admits; 0 without a quota."""
        hard = self.get("resourcequota", "fairburst", namespace).get("spec", {}).get("hard", {})
        return cores(hard.get("requests.cpu", "0"))

    def forget(self, *namespaces: str) -> None:
        """Delete namespaces with their contents, Jobs first so that no new pods appear, and wait for their room."""
        for name in namespaces:
            everything = ("job,deployment,pods,latq,thrq", "--all", "--cascade=background", "--grace-period=1")
            self.cluster.kubectl("delete", *everything, "-n", name, "--wait=false")
        left = ("pods", "latq", "thrq")
        until(
            lambda: not any(self.list(kind, name) for kind in left for name in namespaces),
            PATIENCE_SECONDS,
            f"{', '.join(left)} of {', '.join(namespaces)} to go",
        )
        self.cluster.kubectl("delete", "namespace", *namespaces, "--ignore-not-found", "--wait=false")

    def wait_free(self, *namespaces: str) -> None:
        """Wait until namespaces of these names can be created: deleting those of an earlier test takes some seconds."""
        self.cluster.kubectl("wait", "--for=delete", *(f"namespace/{name}" for name in namespaces), "--timeout=120s", timeout=150)


def cores(quantity: str) -> float:
    return float(parse_quantity(quantity))


def cpu_of(container: JsonObject) -> float:
    """Return the cores that a container requests."""
    return cores(container.get("resources", {}).get("requests", {}).get("cpu", "0"))


def namespace_object(name: str, labels: dict[str, str] | None = None) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}}}


def queue(kind: str, namespace: str, spec: JsonObject) -> JsonObject:
    metadata = {"name": namespace, "namespace": namespace}
    return {"apiVersion": "fairburst.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def task_spec(requests: dict[str, str], seconds: float, grace_seconds: int = 5) -> JsonObject:
    """Return a pod that uses none of its requests, ends after `seconds`, and ends at once on SIGTERM."""
    # As process 1 a plain sleep ignores SIGTERM and would use its whole grace period.
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
    """Return the total requests of `count` tasks."""
    cpu, memory = (float(parse_quantity(requests[resource])) * count for resource in ("cpu", "memory"))
    return {"cpu": f"{round(cpu * 1000)}m", "memory": str(round(memory))}


def burst(requests: dict[str, str], pods: int, seconds: int, interarrival: int) -> JsonObject:
    """Return a queue whose burst of so many tasks may arrive at any time, and is armed at once."""
    return {
        "burst": {"resources": times(requests, pods), "durationSeconds": seconds},
        "arrival": {"sporadic": {"minInterarrivalSeconds": interarrival}},
    }


def condition(status: JsonObject, kind: str) -> JsonObject:
    """Return the condition of that type."""
    (found,) = [one for one in status["conditions"] if one["type"] == kind]
    return dict(found)


def instant(timestamp: str) -> dt.datetime:
    """Return a timestamp of an object as a datetime."""
    return dt.datetime.fromisoformat(timestamp)


def started_at(one: JsonObject) -> str:
    """Return when a pod's container started, in the kubelet's whole seconds; empty if it has not."""
    for status in one["status"].get("containerStatuses", ()):
        for state in ("running", "terminated"):
            if state in status["state"]:
                return str(status["state"][state]["startedAt"])
    return ""
