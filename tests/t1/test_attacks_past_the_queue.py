"""Attempts to run work that no queue holds, on a real control plane while the operator runs: DaemonSets, resizes, a queue's deletion."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import until
from tests.support import work
from tests.support.attacks import PATIENCE_SECONDS, Arena, Tenant, bursty, job, pod
from tests.support.live_cluster import refusal
from tests.support.queues import queue
from tests.support.tenants import owner
from tests.support.work import pod_spec

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NODES, NODE_CPU = 2, 8
AS_STARTED = {"resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
# The garbage collector deletes pods of a DaemonSet that does not exist, unless it does not know the kind.
DAEMON_SET = json.dumps({"metadata": {"ownerReferences": [owner("DaemonSet", "example.com/v1")]}})


@pytest.fixture(scope="module")
def started(fresh_cluster: Callable[..., Cluster]) -> Iterator[Arena]:
    cluster = fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi")
    with OperatorProcess(cluster, {"log": {"level": "DEBUG"}}, "past-the-queue") as operator:
        yield Arena(cluster, operator)


@pytest.fixture
def arena(started: Arena) -> Iterator[Arena]:
    yield started
    started.clear()


def resize(tenant: Tenant, name: str, cpu: str) -> str:
    """Return the API server's words if it refuses a tenant's resize, else an empty text."""
    container = {"name": "work", "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}}
    patch = json.dumps({"spec": {"containers": [container]}})
    return refusal(lambda: tenant("patch", "pod", name, "--subresource=resize", "--type=strategic", "-p", patch))


def mark_infeasible(arena: Arena, tenant: Tenant, name: str, cpu: str) -> None:
    """Report that the last resize cannot be done and that the container keeps this cpu."""
    kept = {"cpu": cpu, "memory": "128Mi"}
    condition = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    conditions = [*arena.get("pod", name, tenant.name)["status"]["conditions"], condition]
    arena.report_resources(tenant.name, name, {"allocatedResources": kept, "resources": {"requests": kept}}, conditions=conditions)


def requested(arena: Arena, tenant: Tenant) -> list[str]:
    """Return the cpu requests of the tenant's pods."""
    return sorted(one["spec"]["containers"][0]["resources"]["requests"]["cpu"] for one in arena.items("pods", tenant.name))


def disown(client: Tenant | Callable[..., str], name: str) -> str:
    """Return the API server's words if it refuses the pod its new owner, else an empty text."""
    return refusal(lambda: client("patch", "pod", name, "--type=merge", "-p", DAEMON_SET))


def test_a_tenants_daemon_set_is_refused_and_an_administrators_is_not(arena: Arena) -> None:
    cheat = arena.tenant()
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": pod_spec(restartPolicy="Always")}
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": spec}
    said = refusal(lambda: cheat("create", "-f", "-", body=body))
    assert "expected no DaemonSet in a managed namespace, found agent: its pods would be counted by no queue" in said
    assert arena.items("pods", cheat.name) == [], "what the attacker gained"
    arena.admin("create", "-n", cheat.name, "-f", "-", body=body)
    until(lambda: len(arena.running(cheat.name)) == NODES, PATIENCE_SECONDS, "the administrator's agent on each node")
    arena.admin("delete", "daemonset", "agent", "-n", cheat.name)


@pytest.mark.parametrize("mode", ["Quota", "Gate"])
def test_a_pod_does_not_become_a_daemon_sets(arena: Arena, mode: str) -> None:
    cheat = arena.tenant(enforcement=mode)
    cheat.create(pod("own"))
    arena.wait_running(cheat.name, 1, "a pod")
    said = disown(cheat, "own")
    assert "expected a DaemonSet only on pods that its controller creates, found one on a pod changed by system:serviceaccount" in said


@pytest.mark.parametrize("mode", ["Quota", "Gate"])
def test_pods_that_a_daemon_set_has_adopted_are_charged_to_their_queue(arena: Arena, mode: str) -> None:
    """The DaemonSet controller adopts pods that its selector matches; the administrator stands for it.

    Such pods belonged to no queue: theirs was charged nothing, and a hard queue lost its class and a part of its burst.
    """
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


def test_a_pod_that_its_gate_has_let_go_does_not_grow(arena: Arena) -> None:
    """In Gate mode the quota has no limits."""
    cheat, other = arena.tenant(enforcement="Gate"), arena.tenant()
    cheat.create(pod("small", "100m"))
    arena.wait_running(cheat.name, 1, "a pod of 100m to be released")
    arena.report_resources(cheat.name, "small", AS_STARTED)
    said = resize(cheat, "small", "8")
    assert "spec.containers: expected requests to stay or to shrink" in said
    assert requested(arena, cheat) == ["100m"], "what the attacker gained"
    assert resize(cheat, "small", "50m") == ""
    other.create(job("work", 8))
    arena.wait_running(other.name, 8, "the other's fair share to run")


@pytest.mark.parametrize("lane", [pytest.param(False, id="the only queue"), pytest.param(True, id="a further queue")])
def test_a_gate_lets_no_pod_go_for_nothing(arena: Arena, *, lane: bool) -> None:
    """No quota with limits demands requests there, and a gate releases a pod for what it requests."""
    cheat, label = arena.tenant(enforcement="Quota" if lane else "Gate"), "fairburst.dev/queues-hold" if lane else "fairburst.dev/holds"
    if lane:
        arena.create(queue("ThroughputQueue", {"enforcement": "Gate"}, cheat.name, "spark"))
    until(lambda: label in arena.get("namespace", cheat.name)["metadata"]["labels"], PATIENCE_SECONDS, "the namespace to hold pods")
    quota = "fairburst-queue-1" if lane else "fairburst"
    until(
        lambda: not arena.get("resourcequota", quota, cheat.name)["spec"].get("hard", {}), PATIENCE_SECONDS, "its quota to lose its limits"
    )
    labels = {"labels": {"fairburst.dev/queue": "spark"}} if lane else {}

    def without(*resources: str, name: str) -> str:
        """Return the words of the API server if it refuses a pod whose first container lacks requests of these."""
        spec = pod_spec("100m")
        requests = spec["containers"][0]["resources"]["requests"]
        spec["containers"][0]["resources"]["requests"] = {key: value for key, value in requests.items() if key not in resources}
        return refusal(lambda: cheat.create(work.pod("", name, spec, **labels)))

    for resources in (("cpu",), ("memory",), ("cpu", "memory")):
        assert "expected requests of cpu and memory in each container, found one without" in without(*resources, name="cheat")
    assert without(name="honest") == ""
    arena.wait_running(cheat.name, 1, "the pod with requests")


def test_a_pod_that_waits_for_its_gate_does_not_grow_while_it_is_released(arena: Arena) -> None:
    """The operator decides by what the pod requested when it was seen last, and its patch is on its way for some milliseconds."""
    cheat = arena.tenant(enforcement="Gate", limits={"cpu": "2"})
    until(lambda: not refusal(lambda: cheat.create(pod("first", "2"))), 30, "the gate to hold pods, whose quota then has no limits")
    arena.wait_running(cheat.name, 1, "the first pod")
    cheat.create(pod("small", "100m"))
    said = resize(cheat, "small", "8")
    assert "spec.containers: expected requests to stay or to shrink" in said
    assert requested(arena, cheat) == ["100m", "2"], "what the attacker gained"
    assert resize(cheat, "small", "50m") == ""


def test_a_pod_that_the_gate_of_a_further_queue_has_let_go_does_not_grow_and_one_of_the_default_queue_may(arena: Arena) -> None:
    """The quota of the further queue has no limits, and that of the default queue is at its level."""
    cheat, label = arena.tenant(), "fairburst.dev/queues-hold"
    arena.create(queue("ThroughputQueue", {"enforcement": "Gate"}, cheat.name, "spark"))
    until(
        lambda: label in arena.get("namespace", cheat.name)["metadata"]["labels"], PATIENCE_SECONDS, "the namespace to hold pods by queue"
    )
    arena.rounds(2)  # the API server's policies see new labels within a second
    cheat.create(work.pod("", "gated", pod_spec("100m"), labels={"fairburst.dev/queue": "spark"}), pod("own", "100m"))
    arena.wait_running(cheat.name, 2, "pods of 100m")
    for name in ("gated", "own"):
        arena.report_resources(cheat.name, name, AS_STARTED)
    assert "spec.containers: expected requests to stay or to shrink" in resize(cheat, "gated", "8")
    assert resize(cheat, "gated", "50m") == ""
    assert resize(cheat, "own", "200m") == ""
    assert requested(arena, cheat) == ["200m", "50m"], "what the attacker gained"


@pytest.mark.parametrize("kind", ["DaemonSet", "Unknown"])
def test_a_job_that_names_a_controller_is_not_held_and_gains_no_pod_beyond_the_level(arena: Arena, kind: str) -> None:
    """Other controllers suspend and resume their Jobs themselves. The level is the quota's in Suspend mode, too."""
    cheat, other = arena.tenant(enforcement="Suspend"), arena.tenant()
    other.create(job("work", 16))
    arena.wait_running(other.name, 16, "the other's work on idle capacity")
    forged = job("forged", 64)
    forged["metadata"]["ownerReferences"] = [owner(kind, "example.com/v1")]
    cheat.create(forged)
    assert not arena.get("job", "forged", cheat.name)["spec"].get("suspend")
    until(lambda: len(arena.items("pods", cheat.name)) >= 8, PATIENCE_SECONDS, "the cheat's half to be admitted")
    arena.rounds(5)
    assert len(arena.items("pods", cheat.name)) <= 9, "what the attacker gained: its half and a pod"


def test_where_a_quota_holds_the_queue_a_pod_grows_no_further_than_the_quota(arena: Arena) -> None:
    cheat, other = arena.tenant(limits={"cpu": "4"}), arena.tenant()
    other.create(job("work", 8))
    arena.wait_running(other.name, 8, "the other's work")
    cheat.create(pod("small", "100m"))
    arena.wait_running(cheat.name, 1, "a pod of 100m")
    arena.report_resources(cheat.name, "small", AS_STARTED)
    assert "exceeded quota" in resize(cheat, "small", "8")
    assert requested(arena, cheat) == ["100m"]


def test_a_pod_whose_resize_is_infeasible_grows_no_further_than_the_quota(arena: Arena) -> None:
    """The quota counts what the kubelet has allocated to such a pod, so that it would permit any further resize of it."""
    cheat = arena.tenant()
    cheat.create(pod("small", "1"))
    arena.wait_running(cheat.name, 1, "a pod of 1 cpu")
    arena.report_resources(cheat.name, "small", AS_STARTED)
    assert resize(cheat, "small", "2") == ""
    mark_infeasible(arena, cheat, "small", "1")
    until(lambda: arena.enforced_cpu(cheat.name, "used") == 1, PATIENCE_SECONDS, "the quota to count what is allocated")
    cheat.create(*[pod(f"own-{number}", "3") for number in range(4)])
    arena.wait_running(cheat.name, 5, "pods of 13 of 16 cpu")
    said = resize(cheat, "small", "8")
    assert "expected requests of no more than" in said
    assert resize(cheat, "small", "1") == ""
    assert requested(arena, cheat) == ["1", "3", "3", "3", "3"], "what the attacker gained"


def test_a_namespace_keeps_its_quota_when_its_queue_is_deleted_while_no_operator_runs(arena: Arena) -> None:
    cheat = arena.tenant()
    cheat.create(job("work", 4))
    arena.wait_running(cheat.name, 4, "its work")
    before = arena.hard(cheat.name)
    arena.operator.stop()
    try:
        arena.admin("delete", "throughputqueue", "queue", "-n", cheat.name)
        witness = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": cheat.name}}
        uid = json.loads(arena.admin("create", "-f", "-", "-o", "json", body=witness))["metadata"]["uid"]
        owned = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        metadata = {"name": "owned", "namespace": cheat.name, "ownerReferences": [owned]}
        arena.admin("create", "-f", "-", body=witness | {"metadata": metadata})
        arena.admin("delete", "configmap", "owner", "-n", cheat.name)
        until(
            lambda: "owned" not in [one["metadata"]["name"] for one in arena.items("configmaps", cheat.name)],
            PATIENCE_SECONDS,
            "the garbage collector to have done what came after the queue's deletion",
        )
        assert arena.hard(cheat.name) == before
        assert "exceeded quota" in refusal(lambda: cheat.create(pod("large", "17")))
    finally:
        arena.operator.start()
    until(lambda: arena.hard(cheat.name)["requests.cpu"] == "2", PATIENCE_SECONDS, "the floor: 1 cpu and a pod of the same size")
    assert len(arena.running(cheat.name)) == 4
