"""A kube-scheduler that really asks our extender: where pods go, what room is kept, and what happens when the extender is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess, free_port
from e2e.waiting import PATIENCE_SECONDS, until
from tests.support.helm import Helm, the
from tests.support.live_cluster import OperatedCluster
from tests.support.objects import latency_spec
from tests.support.queues import queue
from tests.support.scheduling import asking, nodes_of
from tests.support.work import create, namespace, pod, task_job

pytestmark = pytest.mark.slow

JsonObject = dict[str, Any]
NODES, NODE_CPU = 4, 8
QUEUES: dict[str, tuple[str, JsonObject]] = {
    "burst": ("LatencyQueue", latency_spec("16", 60, 600)),
    "batch": ("ThroughputQueue", {"reserve": "Off"}),
}
PRIORITIES = {"burst": "fairburst-hard", "batch": "fairburst-large", "unmanaged": None}


class PlacedCluster(OperatedCluster):
    """A cluster whose scheduler asks an extender, and namespaces: one with a burst, one with batch work, one unmanaged."""

    def __init__(self, cluster: Cluster, operator: OperatorProcess, extender: OperatorProcess) -> None:
        super().__init__(cluster, operator)
        self.extender = extender
        self.create(*map(namespace, PRIORITIES))
        self.create(*(queue(kind, spec, where) for where, (kind, spec) in QUEUES.items()))
        probes = {where: pod(where, "probe") for where in PRIORITIES}
        self.until(lambda: {where: self.priority_of(one) for where, one in probes.items()} == PRIORITIES, "the priority of each")

    def work(self, where: str, name: str, pods: int) -> None:
        self.create(task_job(where, name, pods, pods))

    def wait_bound(self, where: str, pods: int) -> None:
        self.until(lambda: self.occupying(where) == pods, f"{pods} pods of {where} to be bound")

    def empty(self, *namespaces: str) -> None:
        for where in namespaces:
            self.delete_jobs(where)
            self.delete_pods(where)

    def answers(self, result: str) -> float:
        samples = self.extender.metrics()
        return sum(value for name, value in samples.items() if name.startswith("fairburst_extender_requests_total") and result in name)


def bound_to_what_the_chart_grants(cluster: Cluster, folder: Path) -> None:
    """Bind the extender's user to the chart's role for it, and to no other."""
    role = the(Helm(folder).render({"extender": {"enabled": True}}), "ClusterRole", "fairburst-extender.default")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "extender"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "extender"}],
    }
    create(cluster, role, binding)


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlacedCluster]:
    port = free_port()
    cluster = fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi", scheduler_configuration=asking(port))
    bound_to_what_the_chart_grants(cluster, tmp_path_factory.mktemp("helm"))
    with (
        OperatorProcess(cluster, {"log": {"level": "DEBUG"}}, "operator") as operator,
        OperatorProcess(cluster, {}, "extender", command="extender", port=port, subject_user="extender", install=False) as extender,
    ):
        yield PlacedCluster(cluster, operator, extender)


def test_batch_work_is_packed_a_burst_is_spread_and_others_are_placed_as_ever(site: PlacedCluster) -> None:
    site.work("batch", "packed", NODE_CPU - 1)
    site.wait_bound("batch", NODE_CPU - 1)
    assert len(nodes_of(site.cluster, "batch")) == 1, "all on one node, which kube-scheduler by itself would not do"
    ours = site.answers("ours")
    assert ours > 0
    site.work("unmanaged", "others", NODES)
    site.wait_bound("unmanaged", NODES)
    assert len(nodes_of(site.cluster, "unmanaged")) > 1
    assert site.answers("ours") == ours
    site.work("burst", "spread", 2 * NODES)
    site.wait_bound("burst", 2 * NODES)
    free = NODES - 1  # nodes with room for two pods of the burst; the packed one has at most one place
    assert len(nodes_of(site.cluster, "burst")) >= free
    assert max(nodes_of(site.cluster, "burst").values()) <= 4
    site.empty("batch", "unmanaged", "burst")


def test_a_node_with_room_is_kept_from_batch_work_while_room_is_held_and_goes_to_it_afterwards(site: PlacedCluster) -> None:
    """The operator is stopped meanwhile: the test writes the held room into the status itself, and deletes the quota."""
    site.work("batch", "running", 2)
    site.wait_bound("batch", 2)
    site.operator.kill()
    site.cluster.kubectl("delete", "resourcequota", "fairburst", "-n", "batch")
    amounts = {"cpu": str((NODES - 1) * NODE_CPU), "memory": f"{(NODES - 1) * NODE_CPU}Gi"}
    holding = {"reason": "Holding", "message": "Held.", "needed": amounts, "podSize": {"cpu": "1", "memory": "1Gi"}}
    say(site, holding)
    until(lambda: site.extender.metrics()["fairburst_extender_nodes_kept"] == NODES - 1, PATIENCE_SECONDS, "nodes to be kept")
    site.work("batch", "more", NODE_CPU)
    site.wait_bound("batch", NODE_CPU)
    refused = until(lambda: refusal(site), PATIENCE_SECONDS, "two pods to be told why they wait")
    assert "kept free for a burst" in refused
    assert "burst/queue" not in refused
    assert len(nodes_of(site.cluster, "batch")) == 1
    site.work("burst", "comes", 2 * NODES)
    site.wait_bound("burst", 2 * NODES)
    say(site, holding | {"reason": "EnoughExpected"})
    until(lambda: site.extender.metrics()["fairburst_extender_nodes_kept"] == 0, PATIENCE_SECONDS, "no node to be kept")
    site.empty("burst")  # kube-scheduler retries refused pods when a pod ends
    site.wait_bound("batch", NODE_CPU + 2)
    site.operator.start()
    site.empty("batch")


def say(site: PlacedCluster, lead_time: JsonObject) -> None:
    site.patch("latencyqueue", "queue", "burst", {"status": {"leadTime": lead_time}}, "status")


def refusal(site: PlacedCluster) -> str:
    events = site.items("events", "batch")
    said = [one["message"] for one in events if one["reason"] == "FailedScheduling" and "kept free" in one["message"]]
    return said[-1] if said else ""


def test_a_burst_whose_extender_is_killed_in_its_middle_is_bound_whole(site: PlacedCluster) -> None:
    pods = 3 * NODE_CPU
    site.work("burst", "orphaned", pods)
    until(lambda: site.occupying("burst") >= 1, PATIENCE_SECONDS, "a first pod to be bound")
    site.extender.kill()
    after = site.occupying("burst")
    site.wait_bound("burst", pods)
    site.work("batch", "meanwhile", NODE_CPU)
    site.wait_bound("batch", NODE_CPU)
    print(f"{pods - after} of {pods} pods were bound without it")
    site.empty("batch", "burst")
    site.extender.start()
    site.work("batch", "packed-again", NODE_CPU - 1)
    site.wait_bound("batch", NODE_CPU - 1)
    assert len(nodes_of(site.cluster, "batch")) == 1
    site.empty("batch")
