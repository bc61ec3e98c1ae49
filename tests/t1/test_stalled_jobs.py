"""A Job whose pods the API server refuses for another reason than a quota costs other queues nothing, and has its pods once it can."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from tests.support.attacks import Arena, Tenant
from tests.support.work import job

pytestmark = pytest.mark.slow

CPUS = 16
STALLED_SECONDS = 180.0  # to resync a Job several times takes more than a minute


@pytest.fixture
def arena(fresh_cluster: Callable[..., Cluster]) -> Iterator[Arena]:
    cluster = fresh_cluster(nodes=2, node_cpu="8", node_memory="64Gi")
    with OperatorProcess(cluster, name="stalled-jobs") as operator:
        yield Arena(cluster, operator)


def reasons(arena: Arena, tenant: Tenant) -> set[str]:
    """The reasons of the Events on the tenant's Job."""
    return {one["reason"] for one in arena.items("events", tenant.name) if one["involvedObject"]["name"] == "refused"}


def test_a_job_whose_pods_a_limit_range_refuses_lends_its_share_and_gets_it_back(arena: Arena) -> None:
    rival, tenant = arena.tenant(), arena.tenant()
    limits = {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]}
    arena.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small", "namespace": tenant.name}, "spec": limits})
    arena.create(job(tenant.name, "refused", 2 * CPUS))
    arena.create(job(rival.name, "filling", 1000, seconds=5.0))
    until(lambda: "ControllerCreatesNoPods" in reasons(arena, tenant), STALLED_SECONDS, "the Job to be told why it waits")
    until(lambda: arena.occupying(rival.name) >= CPUS, PATIENCE_SECONDS, "the rival to have the whole pool")
    arena.cluster.kubectl("delete", "limitrange", "small", "-n", tenant.name)
    until(lambda: len(arena.running(tenant.name)) >= CPUS // 2, STALLED_SECONDS, "the Job to have its queue's share")
