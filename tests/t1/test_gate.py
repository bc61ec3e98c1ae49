"""Queues in Gate mode on a real control plane: pods wait behind our gate, go by the allocation, and none stays behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster, ClusterError
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.kube.names import GATE
from fairburst.quantity import parse_quantity

pytestmark = pytest.mark.slow

JsonObject = dict[str, Any]
NODES, NODE_CPU = 2, 8
CPUS = NODES * NODE_CPU


def bursty(cpu: str, seconds: int) -> tuple[str, JsonObject]:
    """A queue with a burst that may come at any time, for what it declares."""
    burst = {"resources": {"cpu": cpu, "memory": f"{cpu}Gi"}, "durationSeconds": seconds}
    return "LatencyQueue", {"burst": burst, "arrival": {"sporadic": {"minInterarrivalSeconds": 600}}}


BATCH = ("prioritized", "first", "second", "batch", "teams", "shared", "to-quota", "to-observe", "uninstalled")
# In this order: the first burst is hard, the second does not fit beside it and is soft.
QUEUES: dict[str, tuple[str, JsonObject]] = {"bursts": bursty("6", 60), "deleted-in-burst": bursty("16", 20)}
QUEUES |= {where: ("ThroughputQueue", {}) for where in BATCH}


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


def job(where: str, name: str, pods: int) -> JsonObject:
    """A Job whose pods ask to start together."""
    template = pod(where, name, metadata={"annotations": {"fairburst.dev/group-size": str(pods)}})
    body = {"parallelism": pods, "template": {"metadata": {"annotations": template["metadata"]["annotations"]}, "spec": template["spec"]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": where}, "spec": body}


class Site:
    """A cluster, an operator, and namespaces with a queue each."""

    def __init__(self, cluster: Cluster, operator: OperatorProcess) -> None:
        self.cluster, self.operator = cluster, operator

    def create(self, *objects: JsonObject) -> None:
        self.cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all(objects), timeout=60)

    def queues(self) -> None:
        """All namespaces with their queues, once new pods there are gated and the quotas are ceilings."""
        for where, (kind, spec) in QUEUES.items():
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}}, queue(kind, where, spec))
        for where in QUEUES:
            until(lambda where=where: self.gates_of(pod(where, "probe")) == [GATE], PATIENCE_SECONDS, f"the policy to gate pods in {where}")  # type: ignore[misc]
            until(lambda where=where: self.quota(where)["hard"] >= CPUS, PATIENCE_SECONDS, f"the quota of {where} to be a ceiling")  # type: ignore[misc]

    def gates_of(self, obj: JsonObject) -> list[str]:
        """The gates that the API server would store a pod with; "refused" where it would not."""
        try:
            stored = json.loads(self.cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(obj)))
        except ClusterError:
            return ["refused"]
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

    def empty(self, where: str) -> None:
        """Delete the queue and its pods, so that the room is others' again."""
        self.cluster.kubectl("delete", "latencyqueue,throughputqueue,pod", "--all", "-n", where, "--grace-period=0", "--force", timeout=90)


def gates(stored: JsonObject) -> list[str]:
    return [gate["name"] for gate in stored["spec"].get("schedulingGates", ())]


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Iterator[Site]:
    cluster = fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi")
    with OperatorProcess(cluster, {"log": {"level": "DEBUG"}}, "gate") as operator:
        made = Site(cluster, operator)
        made.queues()
        yield made


OTHERS = {"schedulingGates": [{"name": "others.example/hold"}]}
SYSTEM = {"priorityClassName": "system-node-critical"}
OWNED = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": True}]}


def test_new_pods_get_the_gate_once_and_those_of_the_system_do_not(site: Site) -> None:
    where = "prioritized"
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
    first, second = "first", "second"
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


def test_a_burst_goes_at_once_while_batch_waits_and_nothing_goes_while_the_operator_is_absent(site: Site) -> None:
    batch, bursts = "batch", "bursts"
    until(lambda: site.get("LatencyQueue", "queue", bursts)["status"].get("class") == "Hard", PATIENCE_SECONDS, "the class")
    site.create(*(pod(batch, f"b{number:02}") for number in range(CPUS)))
    until(lambda: len(site.running(batch)) == CPUS, PATIENCE_SECONDS, "batch to fill the pool, of which nobody else wants anything")
    site.create(*(pod(bursts, f"u{number}") for number in range(6)))
    until(lambda: site.gated(bursts) == [], PATIENCE_SECONDS, "the burst to be released")
    site.create(*(pod(batch, f"c{number:02}") for number in range(4)))
    site.cluster.kubectl("delete", "pod", "-n", batch, *site.running(batch)[:6])
    until(lambda: len(site.running(bursts)) == 6, PATIENCE_SECONDS, "the burst to run in the place of batch pods that ended")
    assert len(site.gated(batch)) == 4, "the places that became free were the burst's"
    site.operator.kill()
    site.cluster.kubectl("delete", "pod", "-n", bursts, *site.running(bursts))
    site.create(pod(batch, "late"))
    until(
        lambda: site.running(bursts) == [] and len(site.gated(batch)) == 5,
        PATIENCE_SECONDS,
        "room, and one pod more that is gated all the same",
    )
    site.operator.start()
    until(lambda: site.gated(batch) == [], PATIENCE_SECONDS, "the operator to let them go when it is back")
    for where in (batch, bursts):
        site.empty(where)


def test_groups_go_whole_and_half_created_ones_hold_up_nobody(site: Site) -> None:
    where = "teams"
    entry = {"labels": {"fairburst.dev/group": "team", "fairburst.dev/group-size": "8"}}
    site.create(*(pod(where, f"a{number:02}") for number in range(CPUS - 4)))
    site.create(*(pod(where, f"team-{number}", metadata=entry) for number in range(7)))
    site.create(pod(where, "z-later"))
    site.wait_running(where, "z-later")
    assert len(site.gated(where)) == 7, "one is missing"
    site.create(pod(where, "team-7", metadata=entry))
    site.create(*(pod(where, f"zz-{number}") for number in range(3)))
    until(lambda: len(site.gated(where)) == 11, PATIENCE_SECONDS, "three places are too few for eight, and nobody passes them now")
    site.cluster.kubectl("delete", "pod", "-n", where, *(f"a{number:02}" for number in range(5)))
    site.wait_running(where, *(f"team-{number}" for number in range(8)))
    site.cluster.kubectl("delete", "pod", "--all", "-n", where, "--grace-period=0", "--force", timeout=90)
    site.create(*(pod(where, f"b{number:02}") for number in range(CPUS - 4)), job(where, "whole", 6))
    until(lambda: len(site.pods(where)) == CPUS + 2, PATIENCE_SECONDS, "the Job's pods to be created")
    until(lambda: len(site.running(where)) == CPUS - 4, PATIENCE_SECONDS, "the pods before them to run")
    assert len(site.gated(where)) == 6, "four places are too few for a Job that asks to start whole"
    site.cluster.kubectl("delete", "pod", "-n", where, "b00", "b01")
    until(lambda: len(site.running(where)) == CPUS, PATIENCE_SECONDS, "it to run whole")
    site.cluster.kubectl("delete", "job", "whole", "-n", where, "--cascade=foreground", timeout=90)
    site.empty(where)


def test_gates_of_others_are_not_touched_and_gates_removed_by_hand_count_as_released(site: Site) -> None:
    where = "shared"
    site.create(pod(where, "held", spec=OTHERS))
    until(lambda: gates(site.pods(where)["held"]) == ["others.example/hold"], PATIENCE_SECONDS, "our gate to go and theirs to stay")
    site.create(*(pod(where, f"p{number:02}") for number in range(CPUS + 1)))
    until(lambda: site.gated(where) == ["held", "p15", "p16"], PATIENCE_SECONDS, "fifteen to go beside the one that others hold")
    site.cluster.kubectl("patch", "pod", "p16", "-n", where, "--type=json", "-p", '[{"op": "remove", "path": "/spec/schedulingGates"}]')
    site.wait_running(where, "p16")
    site.cluster.kubectl("delete", "pod", "-n", where, "p00", "--grace-period=0", "--force")
    until(lambda: "p00" not in site.pods(where), PATIENCE_SECONDS, "an end")
    site.create(pod(where, "q"))
    until(lambda: len(site.gated(where)) == 3, PATIENCE_SECONDS, "the pool to be full still")
    site.cluster.kubectl("delete", "pod", "-n", where, "p01", "--grace-period=0", "--force")
    site.wait_running(where, "p15")
    site.empty(where)


def patched(site: Site, where: str, enforcement: str) -> None:
    change = json.dumps({"spec": {"enforcement": enforcement}})
    site.cluster.kubectl("patch", "throughputqueue", "queue", "-n", where, "--type=merge", "-p", change)


LEAVING: dict[str, Callable[[Site, str], object]] = {
    "to-quota": lambda site, where: patched(site, where, "Quota"),
    "to-observe": lambda site, where: patched(site, where, "Observe"),
    "deleted-in-burst": lambda site, where: site.cluster.kubectl("delete", "latencyqueue", "queue", "-n", where),
}


@pytest.mark.parametrize("where", LEAVING)
def test_no_pod_stays_gated_when_its_queue_leaves_gate_mode(site: Site, where: str) -> None:
    site.create(*(pod(where, f"p{number:02}") for number in range(2 * CPUS)))
    until(lambda: len(site.gated(where)) == CPUS, PATIENCE_SECONDS, "half to go")
    LEAVING[where](site, where)
    until(lambda: site.gated(where) == [], PATIENCE_SECONDS, "all to go")
    site.cluster.kubectl("delete", "pod", "--all", "-n", where, "--grace-period=0", "--force", timeout=90)
    until(lambda: site.gates_of(pod(where, "new")) == [], PATIENCE_SECONDS, "new pods to get no gate")
    if where == "to-quota":  # and back
        patched(site, where, "Gate")
        until(lambda: site.quota(where)["hard"] >= CPUS, PATIENCE_SECONDS, "the ceiling")
        site.create(*(pod(where, f"q{number:02}") for number in range(CPUS + 3)))
        until(lambda: len(site.gated(where)) == 3, PATIENCE_SECONDS, "the rest to wait again")
    site.empty(where)


def test_uninstalling_lets_all_go_and_new_pods_get_no_gate(site: Site, tmp_path: Path) -> None:
    """Last in this module: its operator ends here."""
    where = "uninstalled"
    site.create(*(pod(where, f"p{number:02}") for number in range(CPUS + 5)))
    until(lambda: len(site.gated(where)) == 5, PATIENCE_SECONDS, "five to wait")
    site.operator.stop()
    config = tmp_path / "admin.yaml"
    config.write_text(yaml.safe_dump({"kubeconfig": str(site.cluster.kubeconfig)}))
    command = [sys.executable, "-m", "fairburst", "uninstall", "--config", str(config)]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert sorted(line for line in printed.splitlines() if line.startswith("released")) == [
        f"released pods {where}/p{CPUS + n}" for n in range(5)
    ]
    assert site.gated(where) == []
    assert site.gates_of(pod(where, "new")) == []
