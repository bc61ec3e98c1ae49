"""A node that is cordoned under a queue's long work, on a real control plane: the queue's other work gets the node that is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from tests.support.attacks import Arena, Tenant
from tests.support.work import job

pytestmark = pytest.mark.slow

NODE_CPU = 8
OLD, NEW = "node-000", "node-001"


@pytest.fixture
def arena(fresh_cluster: Callable[..., Cluster]) -> Iterator[Arena]:
    cluster = fresh_cluster(nodes=2, node_cpu=str(NODE_CPU), node_memory="64Gi")
    with OperatorProcess(cluster, name="closed-nodes") as operator:
        yield Arena(cluster, operator)


def by_node(arena: Arena, tenant: Tenant) -> Counter[str]:
    """Return the numbers of running pods."""
    pods = arena.items("pods", tenant.name)
    return Counter(one["spec"]["nodeName"] for one in pods if one["status"].get("phase") == "Running")


@pytest.mark.parametrize("mode", ["Quota", "Gate"])
def test_other_work_has_the_node_that_is_left_and_all_counts_once_the_first_one_is_back(arena: Arena, mode: str) -> None:
    tenant = arena.tenant(enforcement=mode)
    arena.cluster.kubectl("cordon", NEW)
    arena.create(job(tenant.name, "long", NODE_CPU))
    until(lambda: by_node(arena, tenant) == {OLD: NODE_CPU}, PATIENCE_SECONDS, "the first node to be full")
    arena.cluster.kubectl("uncordon", NEW)
    arena.cluster.kubectl("cordon", OLD)
    arena.create(job(tenant.name, "more", 2 * NODE_CPU))
    until(lambda: by_node(arena, tenant) == {OLD: NODE_CPU, NEW: NODE_CPU}, PATIENCE_SECONDS, "the other node to be full")
    arena.cluster.kubectl("uncordon", OLD)
    until(lambda: arena.status(tenant.name)["usage"]["cpu"] == str(2 * NODE_CPU), PATIENCE_SECONDS, "all to count again")
    assert arena.operator.metrics()["fairburst_round_failures_total"] == 0
