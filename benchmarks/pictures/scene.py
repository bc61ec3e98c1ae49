"""The scene of the pictures: ten nodes, four latency queues of all classes, five batch queues, and work that keeps them busy.

Control plane and operator are real, only the nodes are simulated (e2e/cluster). `Scene.run_for` sends the bursts when they are due.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import yaml

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess

API = "fairburst.dev/v1alpha1"
# namespace: cores of a burst, its seconds, the seconds from one burst to the next, its deadline
BURSTS = {
    "clickstream": (30, 20, 90, 45),
    "alerts": (24, 15, 120, 60),
    "pricing": (110, 20, 300, 45),
    "reporting": (100, 60, 300, 90),
}
PERIODIC, FIRST_SECONDS = "alerts", 60.0  # the other queues are sporadic
# namespace: weight, cores demanded, seconds of a task
BATCH = {"training": (3, 120, 15), "nightly-etl": (1, 40, 10), "ci-builds": (1, 6, 20)}
WHOLE, WHOLE_JOBS = "research", 100  # its Jobs start whole, in order
WAITING_JOB = (WHOLE, f"sweep-{WHOLE_JOBS}")
CORES_OF_A_POD = 2
TASK_SECONDS = 12  # of a burst's pods


class Scene:
    """A cluster in which the work runs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._due = dict.fromkeys(BURSTS, 0.0)
        self._sent = 0

    def until(self, done: Callable[[], Any], seconds: float) -> None:
        """Send bursts as they come due until `done`. Raises TimeoutError."""
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                raise TimeoutError(f"the scene did not come about within {seconds:g} s")
            self.step()

    def run_for(self, seconds: float) -> None:
        """Send bursts as they come due for that time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.step()

    def step(self) -> None:
        """Send the bursts that are due, and wait a little."""
        now = time.monotonic()
        for namespace, (cores, _, period, _) in BURSTS.items():
            if now >= self._due[namespace]:
                self._due[namespace] = period + (self._due[namespace] if namespace == PERIODIC else now + 1)
                self._sent += 1
                self._create(job(namespace, f"burst-{self._sent}", cores, TASK_SECONDS))
        time.sleep(0.5)

    def window_is(self, namespace: str, state: str) -> bool:
        """Return whether a latency queue's window is in that state."""
        status = json.loads(self.cluster.kubectl("get", "latencyqueue", "queue", "-n", namespace, "-o", "json")).get("status") or {}
        return bool((status.get("window") or {}).get("state") == state)

    def declare(self) -> None:
        """Create namespaces and queues, batch queues first, wait for each class, and start the batch work."""
        for namespace in (*BURSTS, *BATCH, WHOLE, "playground"):
            self._create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for namespace, (weight, cores, seconds) in BATCH.items():
            self._queue("ThroughputQueue", namespace, {"weight": weight})
            self._create(job(namespace, "work", cores, seconds, rounds=200))
        self._queue("ThroughputQueue", WHOLE, {"weight": 2, "enforcement": "Suspend"})
        self._queue("ThroughputQueue", "playground", {"weight": 1})
        self._create(without_requests("playground"))
        first = time.time() + FIRST_SECONDS
        for namespace, (cores, seconds, distance, deadline) in BURSTS.items():
            burst = {"resources": {"cpu": str(cores), "memory": f"{cores}Gi"}, "durationSeconds": seconds, "deadlineSeconds": deadline}
            arrival: dict[str, Any] = {"sporadic": {"minInterarrivalSeconds": distance}}
            if namespace == PERIODIC:
                written = datetime.fromtimestamp(first, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                arrival = {"periodic": {"periodSeconds": distance, "firstArrival": written, "jitterSeconds": 2}}
                self._due[namespace] = time.monotonic() + first - time.time()
            self._queue("LatencyQueue", namespace, {"burst": burst, "arrival": arrival})
        sweep = [job(WHOLE, f"sweep-{number}", 8, 20) for number in range(WHOLE_JOBS)]
        self._create({"apiVersion": "v1", "kind": "List", "items": sweep})

    def wait_in_line(self) -> None:
        """Create one more Job, the last in its queue."""
        self._create(job(*WAITING_JOB, 8, 20))

    def fairburst(self, *arguments: str) -> list[str]:
        """Return a command of the CLI against this cluster."""
        return [sys.executable, "-m", "fairburst", *arguments, "--kubeconfig", str(self.cluster.kubeconfig)]

    def answer(self, *arguments: str) -> str:
        """Run such a command and return what it prints."""
        return subprocess.run(self.fairburst(*arguments), capture_output=True, text=True, timeout=120, check=False).stdout

    def _queue(self, kind: str, namespace: str, spec: dict[str, Any]) -> None:
        self._create({"apiVersion": API, "kind": kind, "metadata": {"name": "queue", "namespace": namespace}, "spec": spec})
        self.cluster.kubectl("wait", f"{kind.lower()}/queue", "-n", namespace, "--for=jsonpath={.status.conditions}", "--timeout=30s")

    def _create(self, manifest: dict[str, Any]) -> None:
        self.cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(manifest))


def job(namespace: str, name: str, cores: int, seconds: int, rounds: int = 1) -> dict[str, Any]:
    """Return a Job whose pods have two cores and run for `seconds`; with `rounds`, as many times as many pods."""
    pods = cores // CORES_OF_A_POD
    requests = {"cpu": str(CORES_OF_A_POD), "memory": f"{CORES_OF_A_POD}Gi"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "parallelism": pods,
            "completions": pods * rounds,
            "ttlSecondsAfterFinished": 30,
            "template": {
                "metadata": {"annotations": {"run-seconds": f"{seconds}s"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "work", "image": "work", "resources": {"requests": requests}}]},
            },
        },
    }


def without_requests(namespace: str) -> dict[str, Any]:
    """Return a Deployment whose pods have no requests, which a quota refuses."""
    labels = {"app": "notebook"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "notebook", "image": "notebook"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "notebook", "namespace": namespace}, "spec": spec}


@contextmanager
def scene(name: str) -> Iterator[Scene]:
    """Start the cluster and the operator, and declare the queues."""
    with Cluster.start(name, nodes=6, node_cpu="16", node_memory="32Gi") as cluster:
        cluster.add_nodes(2, cpu="32", memory="128Gi", name_prefix="large")
        with OperatorProcess(cluster, {"leaderElection": {"enabled": True}}, "pictures"):
            found = Scene(cluster)
            found.declare()
            yield found
