"""Queues in Gate mode on a real control plane: pods wait behind our gate, go by the allocation, and none stays behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.kube.names import GATE
from fairburst.quantity import parse_quantity

pytestmark = pytest.mark.slow

JsonObject = dict[str, Any]
NODES, NODE_CPU = 2, 8
CPUS = NODES * NODE_CPU


def queue(kind: str, where: str, spec: JsonObject | None = None) -> JsonObject:
    return {
        "apiVersion": "fairburst.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "queue", "namespace": where},
        "spec": {"enforcement": "Gate", **(spec or {})},
    }


def pod(where: str, name: str, cpu: str = "1", metadata: JsonObject | None = None, spec: JsonObject | None = None) -> JsonObject:
    """A pod that runs until it is deleted."""
    container = {"name": "work", "image": "work", "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": where, **(metadata or {})},
        "spec": {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 0, **(spec or {})},
    }


class Site:
    """A cluster, an operator, and namespaces with a queue each."""

    def __init__(self, cluster: Cluster, operator: OperatorProcess) -> None:
        self.cluster, self.operator = cluster, operator

    def create(self, *objects: JsonObject) -> None:
        self.cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all(objects), timeout=60)

    def queue(self, where: str, kind: str = "ThroughputQueue", **spec: Any) -> str:
        """A namespace with a queue in Gate mode, once new pods there are gated and its quota is a ceiling."""
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}}, queue(kind, where, spec))
        until(lambda: self.get(kind, "queue", where).get("status", {}).get("holds") == "Pods", PATIENCE_SECONDS, f"{where} to hold pods")
        until(lambda: self.gates_of(pod(where, "probe")) == [GATE], PATIENCE_SECONDS, f"the policy to gate pods in {where}")
        until(lambda: self.quota(where)["hard"] >= CPUS, PATIENCE_SECONDS, f"the quota of {where} to be a ceiling")
        return where

    def gates_of(self, obj: JsonObject) -> list[str]:
        """The gates that the API server would store a pod with."""
        stored = json.loads(self.cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(obj)))
        return [gate["name"] for gate in stored["spec"].get("schedulingGates", ())]

    def get(self, kind: str, name: str, where: str) -> JsonObject:
        found: JsonObject = json.loads(self.cluster.kubectl("get", kind, name, "-n", where, "-o", "json"))
        return found

    def pods(self, where: str) -> dict[str, JsonObject]:
        items = json.loads(self.cluster.kubectl("get", "pods", "-n", where, "-o", "json"))["items"]
        return {item["metadata"]["name"]: item for item in items}

    def gated(self, where: str) -> list[str]:
        return sorted(name for name, one in self.pods(where).items() if gates(one))

    def running(self, where: str) -> list[str]:
        return sorted(name for name, one in self.pods(where).items() if one["status"]["phase"] == "Running")

    def wait_running(self, where: str, *names: str) -> None:
        until(lambda: set(names) <= set(self.running(where)), PATIENCE_SECONDS, f"{names} to run in {where}")

    def quota(self, where: str) -> dict[str, float]:
        """Enforced limit and what is charged, cpu."""
        found = json.loads(
            self.cluster.kubectl("get", "resourcequota", "fairburst", "-n", where, "-o", "json", "--ignore-not-found") or "{}"
        )
        status = found.get("status", {})
        return {key: parse_quantity(status.get(key, {}).get("requests.cpu", "0")) for key in ("hard", "used")}

    def patch(self, kind: str, name: str, where: str, change: JsonObject) -> None:
        self.cluster.kubectl("patch", kind, name, "-n", where, "--type=merge", "-p", json.dumps(change))

    def empty(self, where: str) -> None:
        """Delete the queue and its pods, so that the room is others' again."""
        self.cluster.kubectl("delete", "namespace", where, "--wait=true", timeout=90)


def gates(stored: JsonObject) -> list[str]:
    return [gate["name"] for gate in stored["spec"].get("schedulingGates", ())]


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Iterator[Site]:
    cluster = fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi")
    with OperatorProcess(cluster, {"log": {"level": "DEBUG"}}, "gate") as operator:
        yield Site(cluster, operator)


OTHERS = {"schedulingGates": [{"name": "others.example/hold"}]}
SYSTEM = {"priorityClassName": "system-node-critical"}
OWNED = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": True}]}


def test_new_pods_get_the_gate_once_and_those_of_the_system_do_not(site: Site) -> None:
    where = site.queue("stamped")
    ours = [{"name": GATE}]
    table = {
        "plain": (pod(where, "a"), [GATE]),
        "gated by others": (pod(where, "a", spec=OTHERS), ["others.example/hold", GATE]),
        "gated already": (pod(where, "a", spec={"schedulingGates": ours}), [GATE]),
        "bound to a node": (pod(where, "a", spec={"nodeName": "node-000"}), []),
        "of the system": (pod(where, "a", spec=SYSTEM), []),
        "of a DaemonSet": (pod(where, "a", metadata=OWNED), []),
    }
    assert {case: site.gates_of(obj) for case, (obj, _) in table.items()} == {case: want for case, (_, want) in table.items()}
    assert site.gates_of(pod("default", "a")) == [], "a namespace without a queue"
    site.empty(where)


def test_pods_go_by_the_allocation_the_oldest_first_and_their_quota_refuses_none(site: Site) -> None:
    """Two equal queues want three times the pool: each runs its half, the rest waits, and each end lets the next one go."""
    first, second = site.queue("first"), site.queue("second")
    for batch in ("a", "b", "c"):  # creation times are whole seconds; within one, names decide
        site.create(*(pod(where, f"{batch}-{number:02}") for where in (first, second) for number in range(CPUS // 2)))
    for where in (first, second):
        until(lambda where=where: len(site.running(where)) == CPUS // 2, PATIENCE_SECONDS, f"half of the pool to run in {where}")  # type: ignore[misc]
        assert len(site.gated(where)) == CPUS
        quota = site.quota(where)
        assert quota["used"] == 3 * CPUS / 2, "all were admitted"
        assert quota["hard"] >= 2 * quota["used"], "a ceiling above what exists"
    site.cluster.kubectl("delete", "pod", "-n", second, *site.running(second)[:3], "--wait=true")
    until(lambda: len(site.running(second)) == CPUS // 2, PATIENCE_SECONDS, "the next three to run")
    assert len(site.gated(second)) == CPUS - 3
    created = {name: (one["metadata"]["creationTimestamp"], name) for name, one in site.pods(second).items()}
    gone, waiting = [created[name] for name in site.running(second)], [created[name] for name in site.gated(second)]
    assert max(gone) < min(waiting), "in the order of their creation"
    site.empty(second)
    until(lambda: len(site.running(first)) == CPUS, PATIENCE_SECONDS, "the other queue to have the whole pool")
    site.empty(first)
