"""Attacks on places on nodes, by pods that request nothing or repel others, on a real control plane while the operator runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import until
from tests.support.attacks import PATIENCE_SECONDS, Arena, Tenant, bursty, job, pod
from tests.support.live_cluster import refusal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

JsonObject = dict[str, Any]
NODES, NODE_CPU, NODE_PODS = 2, 8, 110
PLACES = NODES * NODE_PODS


@pytest.fixture(scope="module")
def started(fresh_cluster: Callable[..., Cluster]) -> Iterator[Arena]:
    cluster = fresh_cluster(nodes=0)
    cluster.add_nodes(NODES, cpu=str(NODE_CPU), memory="64Gi", extended={"pods": str(NODE_PODS)})
    with OperatorProcess(cluster, {"log": {"level": "DEBUG"}}, "places") as operator:
        yield Arena(cluster, operator)


@pytest.fixture
def arena(started: Arena) -> Iterator[Arena]:
    yield started
    started.clear()


@pytest.mark.parametrize("mode", ["Quota", "Gate"])
def test_pods_that_request_nothing_leave_a_hard_queues_burst_its_places(arena: Arena, mode: str) -> None:
    """220 such pods filled every node: their queue's usage was 0, and the hard queue missed its bursts while it said Guaranteed."""
    cheat, hard = arena.tenant(enforcement=mode), arena.tenant("LatencyQueue", **bursty(8))
    assert arena.status(hard.name)["class"] == "Hard"
    cheat.create(job("empty", PLACES, cpu="0", memory="0"))
    until(lambda: arena.occupying(cheat.name) >= 50, PATIENCE_SECONDS, "the cheat's pods, as far as they may run")
    arena.rounds(5)
    hard.create(job("burst", 80, cpu="100m"))
    arena.wait_running(hard.name, 80, "all of the burst's 80 pods of 100m")
    gained = arena.occupying(cheat.name)
    assert gained <= PLACES - 110 + 1, f"its level: the places that are not reserved for the burst; found {gained}"
    assert pending(arena, hard) == 0, "what the burst lost"


def test_a_queue_alone_is_refused_no_small_pods_while_places_are_free(arena: Arena) -> None:
    small = arena.tenant()
    small.create(job("small", 150, cpu="50m"))
    arena.wait_running(small.name, 150, "150 pods of 50m on 16 cpu")


def test_one_small_pod_keeps_no_burst_off_the_nodes(arena: Arena) -> None:
    """The scheduler heeds a running pod's anti-affinity for new pods of any namespace that it selects: no pod of the burst started."""
    cheat, hard = arena.tenant(), arena.tenant("LatencyQueue", **bursty(8))
    said = refusal(lambda: cheat.create(repelling("all", namespaceSelector={})))
    cheat.create(repelling("own"))
    arena.wait_running(cheat.name, 1 if said else 2, "the small pods")
    hard.create(job("burst", 8))
    arena.wait_running(hard.name, 8, "the whole burst")
    assert "spec.affinity.podAntiAffinity: expected required terms about the namespace of the pod alone" in said


def test_under_the_baseline_standard_no_queue_takes_the_host_ports_of_anothers_burst(arena: Arena) -> None:
    """A port of a node is one pod's, and no quota counts it: without the standard 2 pods of 10m keep the burst off both nodes."""
    cheat, hard = arena.tenant(), arena.tenant("LatencyQueue", **bursty(8))
    arena.admin("label", "namespace", cheat.name, "pod-security.kubernetes.io/enforce=baseline")
    said = [refusal(lambda name=f"port-{number}": cheat.create(with_port(pod(name, "10m")))) for number in range(NODES)]  # type: ignore[misc]
    cheat.create(pod("plain", "10m"))
    burst = job("burst", NODES)
    burst["spec"]["template"] = with_port(burst["spec"]["template"])
    hard.create(burst)
    arena.wait_running(hard.name, NODES, "the whole burst")
    arena.wait_running(cheat.name, 1, "the pod without a port")
    assert all('violates PodSecurity "baseline:latest": hostPort' in one for one in said), said


def test_a_burst_whose_host_port_another_queue_has_on_every_node_is_told_so_until_it_is_free(arena: Arena) -> None:
    """It said Guaranteed True and Attainable True while all of its pods were Pending."""
    cheat, hard = arena.tenant(), arena.tenant("LatencyQueue", **bursty(8))
    cheat.create(*(with_port(pod(f"port-{number}", "10m")) for number in range(NODES)))
    arena.wait_running(cheat.name, NODES, "a pod with the port on each node")
    burst = job("burst", NODES)
    burst["spec"]["template"] = with_port(burst["spec"]["template"])
    hard.create(burst)
    fit = said_of(arena, hard, "JobsFit", "HostPortTaken")
    assert fit["status"] == "False"
    assert fit["message"].startswith("Job burst: a pod asks for host port 18080/TCP. Pods outside the queue have it on each node")
    assert said_of(arena, hard, "Attainable", "TooFewHostPorts")["status"] == "False"
    assert said_of(arena, hard, "Guaranteed", "NotAttainable")["status"] == "False"
    assert pending(arena, hard) == NODES
    for number in range(NODES):
        cheat("delete", "pod", f"port-{number}", "--now")
    arena.wait_running(hard.name, NODES, "the burst, as its port is free")
    said_of(arena, hard, "Guaranteed", "HardGuarantee")


def test_a_burst_of_more_pods_in_their_nodes_network_than_nodes_is_not_attainable(arena: Arena) -> None:
    """Their template names the container's port alone: the API server makes it the node's in the pods."""
    hard = arena.tenant("LatencyQueue", **bursty(8))
    burst = job("burst", 8, hostNetwork=True)
    burst["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 18081}]
    hard.create(burst)
    found = said_of(arena, hard, "Attainable", "TooFewHostPorts")
    assert "a node runs one pod with host port 18081/TCP, and 2 of the 2 nodes that could hold one have it free" in found["message"]
    arena.wait_running(hard.name, NODES, "a pod on each node")


def said_of(arena: Arena, tenant: Tenant, type_: str, reason: str) -> JsonObject:
    """The condition of a tenant's queue once it has that reason."""

    def found() -> JsonObject:
        condition = arena.condition(tenant.name, type_)
        return condition if condition.get("reason") == reason else {}

    return until(found, PATIENCE_SECONDS, f"condition {type_} of {tenant.name} to say {reason}")


def with_port(made: JsonObject) -> JsonObject:
    """The pod, or the template of pods, with a port of its node."""
    container = made["spec"]["containers"][0] | {"ports": [{"containerPort": 8080, "hostPort": 18080}]}
    return made | {"spec": made["spec"] | {"containers": [container]}}


def repelling(name: str, **more: Any) -> JsonObject:
    """A pod that no other pod may join on any node. `more` says of which namespaces, by default its own."""
    others = {"matchExpressions": [{"key": "repels", "operator": "DoesNotExist"}]}
    term = {"labelSelector": others, "topologyKey": "kubernetes.io/os", **more}
    made = pod(name, "10m", affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    return made | {"metadata": made["metadata"] | {"labels": {"repels": "others"}}}


def pending(arena: Arena, tenant: Tenant) -> int:
    return sum(1 for one in arena.items("pods", tenant.name) if one["status"]["phase"] == "Pending")
