"""A quota that counts pods which do not exist stops a queue's work for seconds, not until the quota controller counts again by itself.

The API server charges a pod before it stores it, and keeps the charge if it fails to store the pod. Here the charges are written by hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from tests.support.attacks import Arena, Tenant
from tests.support.work import deployment, pod_spec, task_job

CPUS, WANTED, LOST = 16, 6, 3
REPAIRED_SECONDS = 60.0  # kube-controller-manager counts every five minutes


@pytest.fixture
def arena(fresh_cluster: Callable[..., Cluster]) -> Iterator[Arena]:
    cluster = fresh_cluster(nodes=2, node_cpu="8", node_memory="64Gi")
    with OperatorProcess(cluster, name="leaked-charge") as operator:
        yield Arena(cluster, operator)


def lose(arena: Arena, tenant: Tenant, pods: int) -> None:
    """Leave the tenant without some of its pods, and its quota as if they existed. The operator must not run meanwhile.

    Kubernetes' count after the last pod's end can come after the charge by hand and undo it. Then all pods start, and another try follows.
    """
    where, limits = tenant.name, arena.hard(tenant.name)

    def refused() -> bool:
        return "FailedCreate" in json.dumps(arena.items("events", where))

    while not refused():
        arena.patch("deployment", "served", where, {"spec": {"replicas": WANTED - pods}})
        until(lambda: arena.enforced_cpu(where, "used") == WANTED - pods, PATIENCE_SECONDS, "the quota controller to count again")
        arena.patch("resourcequota", "fairburst", where, {"status": {"used": limits}}, "status")
        arena.patch("deployment", "served", where, {"spec": {"replicas": WANTED}})
        until(lambda: refused() or len(arena.running(where)) == WANTED, PATIENCE_SECONDS, "the quota to refuse pods")
    assert len(arena.running(where)) == WANTED - pods


def test_pods_that_are_counted_and_do_not_exist_are_made_up_for(arena: Arena) -> None:
    rival, tenant = arena.tenant(), arena.tenant()
    arena.create(deployment(tenant.name, "served", WANTED, pod_spec(1, "1Gi")))
    arena.wait_running(tenant.name, WANTED, "all of the tenant's work to run")
    arena.create(task_job(rival.name, "filling", 2 * CPUS, 10_000, run_seconds="5s"))
    until(lambda: arena.occupying(rival.name) >= CPUS - WANTED, PATIENCE_SECONDS, "the pool to be full")
    arena.rounds(3)
    arena.operator.kill()
    lose(arena, tenant, LOST)
    arena.operator.start()
    until(lambda: len(arena.running(tenant.name)) == WANTED, REPAIRED_SECONDS, "the lost pods to run again")
