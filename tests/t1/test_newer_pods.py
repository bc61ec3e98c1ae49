"""Pods with newer features of Kubernetes, on a real control plane while the operator runs: how they count, and that no round fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import until
from tests.support import work
from tests.support.attacks import PATIENCE_SECONDS, Arena, Tenant, job
from tests.support.live_cluster import refusal
from tests.support.work import pod_spec

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

JsonObject = dict[str, Any]
NODES = 2
SIDECAR = {"name": "side", "image": "task", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m", "memory": "128Mi"}}}
RESTARTED = {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]}


def with_rules() -> JsonObject:
    spec = pod_spec("1")
    spec["containers"][0] |= RESTARTED
    return spec


RUNNING = {
    "debugged": pod_spec("1"),
    "host": pod_spec("1", hostNetwork=True),
    "deadline": pod_spec("1", activeDeadlineSeconds=3600),
    "sidecar": pod_spec("1", initContainers=[SIDECAR]),
    "rules": with_rules(),
}
CLAIMING = pod_spec("1", resourceClaims=[{"name": "device", "resourceClaimTemplateName": "missing"}])


@pytest.fixture(scope="module")
def started(fresh_cluster: Callable[..., Cluster]) -> Iterator[Arena]:
    cluster = fresh_cluster(nodes=NODES, node_cpu="8", node_memory="64Gi")
    with OperatorProcess(cluster, {"log": {"level": "DEBUG"}}, "newer-pods") as operator:
        yield Arena(cluster, operator)


@pytest.fixture
def arena(started: Arena) -> Iterator[Arena]:
    yield started
    started.clear()


def create(tenant: Tenant, name: str, spec: JsonObject) -> None:
    """Create a pod once the queue's quota admits it."""
    until(lambda: not refusal(lambda: tenant.create(work.pod("", name, spec))), 30, f"the quota to admit {name}")


def wait_usage(arena: Arena, tenant: Tenant, cpu: str) -> None:
    until(lambda: arena.status(tenant.name)["usage"]["cpu"] == cpu, PATIENCE_SECONDS, f"the status to say that it holds {cpu} cpu")


@pytest.mark.parametrize("mode", ["Quota", "Gate"])
def test_pods_of_newer_kinds_run_and_count_and_fail_no_round(arena: Arena, mode: str) -> None:
    """The pod whose claim of a device cannot be met is admitted and waits for it."""
    tenant = arena.tenant(enforcement=mode)
    for name, spec in (RUNNING | {"claiming": CLAIMING}).items():
        create(tenant, name, spec)
    arena.wait_running(tenant.name, len(RUNNING), "all pods but the one whose claim cannot be met")
    added = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "task", "targetContainerName": "work"}]}}
    patch = ("--subresource=ephemeralcontainers", "--type=strategic", "-p", json.dumps(added))
    arena.admin("patch", "pod", "debugged", "-n", tenant.name, *patch)
    wait_usage(arena, tenant, "5500m")
    assert not arena.get("pod", "claiming", tenant.name)["spec"].get("schedulingGates")
    if mode == "Quota":  # in Gate mode the quota counts nothing
        assert arena.enforced_cpu(tenant.name, "used") == 6.5
    assert arena.operator.metrics()["fairburst_round_failures_total"] == 0


@pytest.mark.parametrize("mode", ["Gate", "Suspend"])
def test_the_deadline_of_a_job_runs_while_its_pods_wait_and_not_while_it_is_suspended(arena: Arena, mode: str) -> None:
    tenant = arena.tenant(enforcement=mode, limits={"cpu": "1"})
    tenant.create(job("first", 1))
    arena.wait_running(tenant.name, 1, "the Job that fills the queue")
    late = job("late", 1)
    late["spec"]["activeDeadlineSeconds"] = 2
    tenant.create(late)

    def reasons() -> set[str]:
        return {one["reason"] for one in arena.get("job", "late", tenant.name).get("status", {}).get("conditions", ())}

    until(reasons, PATIENCE_SECONDS, "the Job controller to say how the Job is")
    assert reasons() == {"JobSuspended" if mode == "Suspend" else "DeadlineExceeded"}
    assert ("startTime" in arena.get("job", "late", tenant.name)["status"]) == (mode != "Suspend")


def test_a_pod_that_shrinks_as_a_whole_counts_in_full_until_its_kubelet_has_done_it(arena: Arena) -> None:
    """KWOK is no kubelet that can do it; the test reports what one would."""
    declared = {"status": {"declaredFeatures": ["InPlacePodLevelResourcesVerticalScaling"]}}
    for number in range(NODES):
        arena.admin("patch", "node", f"node-{number:03}", "--subresource=status", "--type=merge", "-p", json.dumps(declared))
    tenant = arena.tenant()
    spec = pod_spec("1") | {"resources": {"requests": {"cpu": "6", "memory": "128Mi"}}}
    create(tenant, "whole", spec)
    arena.wait_running(tenant.name, 1, "a pod of 6 cpu as a whole")
    report(arena, tenant, "6")
    wait_usage(arena, tenant, "6")
    smaller = {"spec": {"resources": {"requests": {"cpu": "2", "memory": "128Mi"}}}}
    tenant("patch", "pod", "whole", "--subresource=resize", "--type=merge", "-p", json.dumps(smaller))
    create(tenant, "other", pod_spec("1"))
    wait_usage(arena, tenant, "7")
    report(arena, tenant, "2")
    wait_usage(arena, tenant, "3")


def report(arena: Arena, tenant: Tenant, cpu: str) -> None:
    """Report the cpu of the pod as a whole, and the resources of its container."""
    container, whole = {"cpu": "1", "memory": "128Mi"}, {"cpu": cpu, "memory": "128Mi"}
    of_container = {"allocatedResources": container, "resources": {"requests": container}}
    arena.report_resources(tenant.name, "whole", of_container, resources={"requests": whole}, allocatedResources=whole)
