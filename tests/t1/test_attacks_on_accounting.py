"""Attacks on the accounting, on a real control plane while the operator runs.

Each test shows what the attacker gained, nothing beyond its level and one pod, and what the others lost: no promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import until
from tests.support.attacks import PATIENCE_SECONDS, Arena, Tenant, bursty, job, pod

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NODES, NODE_CPU = 4, 8
CPUS = NODES * NODE_CPU
DAY = 86_400
GRACE_SECONDS = 30.0  # reclaim.longestGraceSeconds
SETTINGS = {"log": {"level": "DEBUG"}, "reclaim": {"minimumRunSeconds": 1, "graceSeconds": 5}}
STUBBORN = {"annotations": {"stop-seconds": f"{DAY}s"}, "terminationGracePeriodSeconds": DAY}  # its containers ignore the request to end


def figures(arena: Arena, tenant: Tenant) -> tuple[float, float]:
    """Return (usage, allocation) of cpu from the status of the tenant's queue."""
    status = arena.status(tenant.name)
    return float(status.get("usage", {}).get("cpu", "0")), float(status.get("allocation", {}).get("cpu", "0"))


@pytest.fixture(scope="module")
def started(fresh_cluster: Callable[..., Cluster]) -> Iterator[Arena]:
    cluster = fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi")
    with OperatorProcess(cluster, SETTINGS, "attacks") as operator:
        yield Arena(cluster, operator)


@pytest.fixture
def arena(started: Arena) -> Iterator[Arena]:
    yield started
    started.clear()


def test_pods_that_their_own_tenant_evicts_are_charged_until_they_are_gone(arena: Arena) -> None:
    """The attack held 24 cpu: its queue's usage was 0 while the pods ran on."""
    cheat, honest = arena.tenant(), arena.tenant()
    cheat.create(job("work", CPUS, **STUBBORN))
    arena.wait_running(cheat.name, CPUS, "the cheat's Job to fill the cluster")
    for one in arena.items("pods", cheat.name)[:24]:
        cheat.evict(one["metadata"]["name"], DAY)
    honest.create(job("work", CPUS))
    until(lambda: figures(arena, honest)[1] >= CPUS / 2, PATIENCE_SECONDS, "the other's fair share, as without the attack")
    until(lambda: float(arena.hard(cheat.name)["requests.cpu"]) <= CPUS / 2 + 1, PATIENCE_SECONDS, "its quota: the level and one pod")
    arena.rounds(3)
    assert arena.occupying(cheat.name) == CPUS, "what it holds"
    charged, level = figures(arena, cheat)
    assert charged == CPUS
    assert 0 < level <= CPUS / 2, "its fair share, less what it has come to owe the other"
    until(lambda: figures(arena, cheat)[1] + figures(arena, honest)[1] == CPUS, PATIENCE_SECONDS, "the other to have all the rest")


def test_pods_deleted_with_a_grace_period_of_a_day_switch_reclaim_off_for_no_burst(arena: Arena) -> None:
    """Their room counted as coming free for a day."""
    cheat, hard = arena.tenant(), arena.tenant("LatencyQueue", **bursty(16), reclaim="Evict")
    cheat.create(job("work", CPUS, **STUBBORN))
    arena.wait_running(cheat.name, CPUS, "the cheat's Job to fill the cluster")
    cheat("delete", "pod", "--all", f"--grace-period={DAY}", "--wait=false")
    hard.create(job("burst", 16))

    def all_run() -> bool:
        arena.act_as_kubelet(cheat.name)
        return len(arena.running(hard.name)) == 16

    until(all_run, GRACE_SECONDS + PATIENCE_SECONDS, "the burst to run where the cheat's pods were")
    assert arena.occupying(cheat.name) <= CPUS - 16
    until(lambda: figures(arena, cheat)[0] == arena.occupying(cheat.name), PATIENCE_SECONDS, "the rest of them to be charged")


def test_a_pod_that_names_its_own_node_takes_no_class(arena: Arena) -> None:
    """Half a second of a pod of a million cpu in a namespace without a queue took the class of every hard queue for ten minutes."""
    hard, outsider = arena.tenant("LatencyQueue", **bursty(16)), arena.outsider()
    assert arena.status(hard.name)["class"] == "Hard"
    before = arena.operator.metrics()["fairburst_rounds_total"]
    for number in range(3):
        outsider.create(pod(f"phantom-{number}", "1000000", "1000Ti", nodeName="node-000"))
    outsider.create(pod("lost", "1000000", "1000Ti", nodeName="no-such-node"))
    until(lambda: arena.operator.metrics()["fairburst_rounds_total"] >= before + 5, PATIENCE_SECONDS, "five rounds")
    assert arena.status(hard.name)["class"] == "Hard"
    hard.create(job("burst", 16))
    arena.wait_running(hard.name, 16, "the burst on the nodes that are left")
