"""Queues in Gate mode on a real control plane: pods wait behind our gate, are released by the allocation, and none stays behind."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import Cluster, ClusterError
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.kube.names import GATE, LARGE_CLASS, SMALL_CLASS
from tests.support import live_cluster
from tests.support.live_cluster import OperatedCluster
from tests.support.objects import latency_spec
from tests.support.queues import queue
from tests.support.work import job, namespace, pod, pod_spec

pytestmark = pytest.mark.slow

JsonObject = dict[str, Any]
NODES, NODE_CPU = 2, 8
CPUS = NODES * NODE_CPU


BATCH = ("prioritized", "first", "second", "batch", "teams", "shared", "to-quota", "to-observe", "uninstalled")
# In this order: the first burst is hard, the second does not fit as well and is soft.
BURSTS = {"bursts": latency_spec("6", 60, 600), "deleted-in-burst": latency_spec("16", 20, 600)}
QUEUES: dict[str, tuple[str, JsonObject]] = {where: ("LatencyQueue", spec) for where, spec in BURSTS.items()}
QUEUES |= {where: ("ThroughputQueue", {}) for where in BATCH}


def whole_job(where: str, name: str, pods: int) -> JsonObject:
    """A Job whose pods ask to start together."""
    return job(where, name, pods, pod_metadata={"annotations": {"fairburst.dev/group-size": str(pods)}})


class GatedQueues(OperatedCluster):
    """A queue in Gate mode in each of QUEUES."""

    def __init__(self, cluster: Cluster, operator: OperatorProcess) -> None:
        """Wait until new pods are gated and the quotas have no limits."""
        super().__init__(cluster, operator)
        for where, (kind, spec) in QUEUES.items():
            self.create(namespace(where), queue(kind, {"enforcement": "Gate", **spec}, where))
        for where in QUEUES:
            self.until(lambda where=where: self.gates_of(pod(where, "probe")) == [GATE], f"the policy to gate pods in {where}")  # type: ignore[misc]
            self.until(lambda where=where: self.enforced_cpu(where) == math.inf, f"the quota of {where} to have no limits")  # type: ignore[misc]

    def gates_of(self, obj: JsonObject) -> list[str]:
        """The gates that the API server would store a pod with; "refused" where it would not."""
        try:
            return gates(self.stored(obj))
        except ClusterError:
            return ["refused"]

    def pods(self, where: str) -> dict[str, JsonObject]:
        return {item["metadata"]["name"]: item for item in self.items("pods", where)}

    def gated(self, where: str) -> list[str]:
        return sorted(name for name, one in self.pods(where).items() if gates(one))

    def wait_all_run(self, where: str, *names: str) -> None:
        self.until(lambda: set(names) <= set(self.running(where)), f"{names} to run in {where}")

    def empty(self, where: str) -> None:
        """Delete the queue and its pods, so that the room is others' again."""
        self.cluster.kubectl("delete", f"{live_cluster.QUEUES},pod", "--all", "-n", where, "--grace-period=0", "--force", timeout=90)


def gates(stored: JsonObject) -> list[str]:
    return [gate["name"] for gate in stored["spec"].get("schedulingGates", ())]


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Iterator[GatedQueues]:
    cluster = fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi")
    with OperatorProcess(cluster, {"log": {"level": "DEBUG"}}, "gate") as operator:
        yield GatedQueues(cluster, operator)


OTHERS = {"schedulingGates": [{"name": "others.example/hold"}]}
SYSTEM = {"priorityClassName": "system-node-critical"}
OUR_CLASSES = ("fairburst-hard", "fairburst-soft", SMALL_CLASS, LARGE_CLASS)  # one of them is what the queue's policy would give
OWNED = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": True}]}


def test_new_pods_get_the_gate_once_and_those_of_the_system_do_not(site: GatedQueues) -> None:
    where = "prioritized"
    ours = [{"name": GATE}]
    table = {
        "plain": (pod(where, "a"), [GATE]),
        "gated by others": (pod(where, "a", pod_spec(**OTHERS)), ["others.example/hold", GATE]),
        "gated already": (pod(where, "a", pod_spec(schedulingGates=ours)), [GATE]),
        "bound to a node": (pod(where, "a", pod_spec(nodeName="node-000")), []),
        "of the system": (pod(where, "a", pod_spec(**SYSTEM)), []),
        "of a DaemonSet": (pod(where, "a", **OWNED), []),
        **{f"names {name}": (pod(where, "a", pod_spec(priorityClassName=name)), [GATE]) for name in OUR_CLASSES},
    }
    assert {case: site.gates_of(obj) for case, (obj, _) in table.items()} == {case: want for case, (_, want) in table.items()}
    assert site.gates_of(pod("default", "a")) == [], "a namespace without a queue"
    site.empty(where)


def test_pods_go_by_the_allocation_the_oldest_first_and_their_quota_refuses_none(site: GatedQueues) -> None:
    """Two equal queues want three times the pool: each runs its half, the rest waits, and each end releases the next pod."""
    first, second = "first", "second"
    for batch in ("a", "b", "c"):  # creation times are whole seconds, and within one second names decide
        site.create(*(pod(where, f"{batch}-{number:02}") for where in (first, second) for number in range(CPUS // 2)))
    for where in (first, second):
        until(lambda where=where: len(site.running(where)) == CPUS // 2, PATIENCE_SECONDS, f"half of the pool to run in {where}")  # type: ignore[misc]
        assert len(site.gated(where)) == CPUS
        assert len(site.pods(where)) == 3 * CPUS // 2, "all were admitted"
    site.cluster.kubectl("delete", "pod", "-n", second, *site.running(second)[:3], "--wait=true")
    until(lambda: len(site.running(second)) == CPUS // 2, PATIENCE_SECONDS, "the next three to run")
    assert len(site.gated(second)) == CPUS - 3
    created = {name: (one["metadata"]["creationTimestamp"], name) for name, one in site.pods(second).items()}
    gone, waiting = [created[name] for name in site.running(second)], [created[name] for name in site.gated(second)]
    assert max(gone) < min(waiting), "in the order of their creation"
    site.empty(second)
    until(lambda: len(site.running(first)) == CPUS, PATIENCE_SECONDS, "the other queue to have the whole pool")
    site.empty(first)


def test_a_burst_goes_at_once_while_batch_waits_and_nothing_goes_while_the_operator_is_absent(site: GatedQueues) -> None:
    batch, bursts = "batch", "bursts"
    site.wait_class(bursts, "Hard")
    site.create(*(pod(batch, f"b{number:02}") for number in range(CPUS)))
    until(lambda: len(site.running(batch)) == CPUS, PATIENCE_SECONDS, "batch to fill the pool, of which no other queue wants anything")
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


def test_groups_go_whole_and_half_created_ones_hold_up_nobody(site: GatedQueues) -> None:
    where = "teams"
    entry = {"labels": {"fairburst.dev/group": "team", "fairburst.dev/group-size": "8"}}
    site.create(*(pod(where, f"a{number:02}") for number in range(CPUS - 4)))
    site.create(*(pod(where, f"team-{number}", **entry) for number in range(7)))
    site.create(pod(where, "z-later"))
    site.wait_all_run(where, "z-later")
    assert len(site.gated(where)) == 7, "one is missing"
    site.create(pod(where, "team-7", **entry))
    site.create(*(pod(where, f"zz-{number}") for number in range(3)))
    until(lambda: len(site.gated(where)) == 11, PATIENCE_SECONDS, "three places are too few for eight, and no pod passes them now")
    site.cluster.kubectl("delete", "pod", "-n", where, *(f"a{number:02}" for number in range(5)))
    site.wait_all_run(where, *(f"team-{number}" for number in range(8)))
    site.delete_pods(where)
    site.create(*(pod(where, f"b{number:02}") for number in range(CPUS - 4)), whole_job(where, "whole", 6))
    until(lambda: len(site.pods(where)) == CPUS + 2, PATIENCE_SECONDS, "the Job's pods to be created")
    until(lambda: len(site.running(where)) == CPUS - 4, PATIENCE_SECONDS, "the pods before them to run")
    assert len(site.gated(where)) == 6, "four places are too few for a Job that asks to start whole"
    site.cluster.kubectl("delete", "pod", "-n", where, "b00", "b01")
    until(lambda: len(site.running(where)) == CPUS, PATIENCE_SECONDS, "it to run whole")
    site.cluster.kubectl("delete", "job", "whole", "-n", where, "--cascade=foreground", timeout=90)
    site.empty(where)


def test_gates_of_others_are_not_touched_and_gates_removed_by_hand_count_as_released(site: GatedQueues) -> None:
    where = "shared"
    site.create(pod(where, "held", pod_spec(**OTHERS)))
    until(lambda: gates(site.pods(where)["held"]) == ["others.example/hold"], PATIENCE_SECONDS, "our gate to go and theirs to stay")
    site.create(*(pod(where, f"p{number:02}") for number in range(CPUS + 1)))
    until(lambda: site.gated(where) == ["held", "p15", "p16"], PATIENCE_SECONDS, "fifteen to go beside the one that others hold")
    site.cluster.kubectl("patch", "pod", "p16", "-n", where, "--type=json", "-p", '[{"op": "remove", "path": "/spec/schedulingGates"}]')
    site.wait_all_run(where, "p16")
    site.cluster.kubectl("delete", "pod", "-n", where, "p00", "--grace-period=0", "--force")
    until(lambda: "p00" not in site.pods(where), PATIENCE_SECONDS, "an end")
    site.create(pod(where, "q"))
    until(lambda: len(site.gated(where)) == 3, PATIENCE_SECONDS, "the pool to be full still")
    site.cluster.kubectl("delete", "pod", "-n", where, "p01", "--grace-period=0", "--force")
    site.wait_all_run(where, "p15")
    site.empty(where)


def patched(site: GatedQueues, where: str, enforcement: str) -> None:
    site.patch("throughputqueue", "queue", where, {"spec": {"enforcement": enforcement}})


LEAVING: dict[str, Callable[[GatedQueues, str], object]] = {
    "to-quota": lambda site, where: patched(site, where, "Quota"),
    "to-observe": lambda site, where: patched(site, where, "Observe"),
    "deleted-in-burst": lambda site, where: site.cluster.kubectl("delete", "latencyqueue", "queue", "-n", where),
}


@pytest.mark.parametrize("where", LEAVING)
def test_no_pod_stays_gated_when_its_queue_leaves_gate_mode(site: GatedQueues, where: str) -> None:
    site.create(*(pod(where, f"p{number:02}") for number in range(2 * CPUS)))
    until(lambda: len(site.gated(where)) == CPUS, PATIENCE_SECONDS, "half to go")
    LEAVING[where](site, where)
    until(lambda: site.gated(where) == [], PATIENCE_SECONDS, "all to go")
    site.delete_pods(where)
    until(lambda: site.gates_of(pod(where, "new")) == [], PATIENCE_SECONDS, "new pods to get no gate")
    if where == "to-quota":  # and back
        patched(site, where, "Gate")
        until(lambda: site.enforced_cpu(where) == math.inf, PATIENCE_SECONDS, "a quota without limits")
        site.create(*(pod(where, f"q{number:02}") for number in range(CPUS + 3)))
        until(lambda: len(site.gated(where)) == 3, PATIENCE_SECONDS, "the rest to wait again")
    site.empty(where)


def test_uninstalling_lets_all_go_and_new_pods_get_no_gate(site: GatedQueues, tmp_path: Path) -> None:
    """This test must be the last: it ends the operator."""
    where = "uninstalled"
    site.create(*(pod(where, f"p{number:02}") for number in range(CPUS + 5)))
    until(lambda: len(site.gated(where)) == 5, PATIENCE_SECONDS, "five to wait")
    assert site.uninstall(tmp_path) == [f"released pods {where}/p{CPUS + n}" for n in range(5)]
    assert site.gated(where) == []
    assert site.gates_of(pod(where, "new")) == []
