"""Pods that name a DaemonSet as their owner after their creation, on a real control plane while the operator runs.

A DaemonSet's pods belong to no queue: the attackers' queue was charged nothing, and a hard queue lost its class and a part of its burst.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import until
from tests.support.attacks import Arena, Tenant, bursty, job, pod
from tests.support.live_cluster import refusal
from tests.support.tenants import owner

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NODES, NODE_CPU = 2, 8


@pytest.fixture(scope="module")
def started(fresh_cluster: Callable[..., Cluster]) -> Iterator[Arena]:
    cluster = fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi")
    with OperatorProcess(cluster, {"log": {"level": "DEBUG"}}, "owners") as operator:
        yield Arena(cluster, operator)


@pytest.fixture
def arena(started: Arena) -> Iterator[Arena]:
    yield started
    started.clear()


# The garbage collector deletes pods of a DaemonSet that does not exist, unless it does not know the kind.
DAEMON_SET = json.dumps({"metadata": {"ownerReferences": [owner("DaemonSet", "example.com/v1")]}})


def disown(client: Tenant | Callable[..., str], name: str) -> str:
    """Return the API server's words if it refuses the pod its new owner, else an empty text."""
    return refusal(lambda: client("patch", "pod", name, "--type=merge", "-p", DAEMON_SET))


@pytest.mark.parametrize("mode", ["Quota", "Gate"])
def test_a_pod_does_not_become_a_daemon_sets(arena: Arena, mode: str) -> None:
    cheat = arena.tenant(enforcement=mode)
    cheat.create(pod("own"))
    arena.wait_running(cheat.name, 1, "a pod")
    said = disown(cheat, "own")
    assert "expected a DaemonSet only on pods that its controller creates, found one on a pod changed by system:serviceaccount" in said


@pytest.mark.parametrize("mode", ["Quota", "Gate"])
def test_pods_that_a_daemon_set_has_adopted_are_charged_to_their_queue(arena: Arena, mode: str) -> None:
    """The DaemonSet controller adopts pods that its selector matches; the administrator stands for it."""
    cheat, hard = arena.tenant(enforcement=mode), arena.tenant("LatencyQueue", **bursty(6))
    assert arena.status(hard.name)["class"] == "Hard"
    for number in range(4):
        until(lambda name=f"own-{number}": not refusal(lambda: cheat.create(pod(name))), 30, "the quota to admit a pod")  # type: ignore[misc]
    arena.wait_running(cheat.name, 4, "its pods")
    for name in arena.running(cheat.name):
        assert disown(lambda *words: arena.admin(*words, "-n", cheat.name), name) == ""
    arena.rounds(3)
    until(lambda: arena.status(cheat.name)["usage"]["cpu"] == "4", 30, "the status to say what it holds")
    assert arena.status(hard.name)["class"] == "Hard"
    hard.create(job("burst", 6))
    arena.wait_running(hard.name, 6, "the whole burst")
