"""Bad input on a real control plane: each case gets a clear condition or error and changes nothing for well-behaved queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import Cluster, ClusterError
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.kube.names import MANAGED_LABEL, QUOTA_NAME
from fairburst.quantity import parse_quantity
from tests.support import work
from tests.support.live_cluster import QUEUES, OperatedCluster, refusal
from tests.support.objects import latency_spec
from tests.support.queues import queue, schedule, scheduled
from tests.support.work import namespace, pod, pod_spec

NODES = 4  # of 32 cpu, 64 Gi
PUT_BACK_SECONDS = 9.0  # less than the 10 s between rounds without events
JsonObject = dict[str, Any]
QUOTA = ("resourcequota", QUOTA_NAME)
BURST = latency_spec("8", 20, 120)
INJECT_LABEL = "test.fairburst.dev/inject"


def job(where: str, pods: int) -> JsonObject:
    return work.job(where, "work", pods, pod_spec(memory="1Gi"))


def wait_for_condition(site: OperatedCluster, where: str, type_: str, reason: str, name: str = "queue") -> JsonObject:
    """Return a queue's condition once it has that reason."""

    def found() -> JsonObject:
        condition = site.condition(where, type_, name)
        return condition if condition.get("reason") == reason else {}

    return until(found, PATIENCE_SECONDS, f"condition {type_} of {where}/{name} to say {reason}")


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Iterator[OperatedCluster]:
    """A pool with two well-behaved queues: one with running work, one with a burst that may come at any time."""
    cluster = fresh_cluster(nodes=NODES)
    with OperatorProcess(cluster, name="bad-input") as operator:
        made = OperatedCluster(cluster, operator)
        made.create(namespace("steady"), queue("ThroughputQueue", {}, "steady"), job("steady", 6))
        made.create(namespace("bursty"), queue("LatencyQueue", latency_spec("16", 10, 60), "bursty"))
        made.wait_running("steady", 6)
        made.wait_class("bursty", "Hard")
        until(lambda: admits_one_more(made.hard("steady")), PATIENCE_SECONDS, "the bystander's quota")
        until(lambda: made.hard("bursty"), PATIENCE_SECONDS, "the hard bystander's quota")  # statuses do not wait for quotas
        yield made


def admits_one_more(hard: dict[str, str]) -> bool:
    """Return whether the quota of `steady` admits its six pods and one more. The rest of it depends on the free capacity."""
    return parse_quantity(hard.get("requests.cpu", "0")) >= 7 and parse_quantity(hard.get("requests.memory", "0")) >= 7 * 2**30


def picture(site: OperatedCluster) -> JsonObject:
    """Classes, quotas and running pods of the well-behaved queues, and how many rounds have failed."""
    seen: JsonObject = {"failures": site.operator.metrics()["fairburst_round_failures_total"]}
    for where in ("steady", "bursty"):
        for obj in site.items(f"{QUEUES},resourcequota,pod", where):
            name, status = obj["metadata"]["name"], obj.get("status", {})
            hard = {key: text for key, text in obj["spec"].get("hard", {}).items() if key != "pods"}  # depends on how many queues there are
            quota = admits_one_more(hard) if where == "steady" else hard
            seen[f"{where} {obj['kind']} {name}"] = {"Pod": status.get("phase"), "ResourceQuota": quota}.get(
                obj["kind"], status.get("class")
            )
    return seen


@pytest.fixture(scope="module")
def undisturbed_picture(site: OperatedCluster) -> JsonObject:
    seen = picture(site)
    assert seen["steady ThroughputQueue queue"] == "Elastic"
    assert seen["bursty LatencyQueue queue"] == "Hard"
    assert list(seen.values()).count("Running") == 6
    return seen


@pytest.fixture(autouse=True)
def undisturbed(site: OperatedCluster, undisturbed_picture: JsonObject) -> Iterator[None]:
    """Class, quota and running pods of the well-behaved queues stay what they are, and no round fails."""
    yield
    assert picture(site) == undisturbed_picture


@pytest.mark.parametrize(
    ("change", "want_field"),
    [
        pytest.param({"burst": {"resources": {"cpu": "-4"}, "durationSeconds": 10}}, "spec.burst.resources[cpu]", id="negative demand"),
        pytest.param({"burst": {"resources": {"cpu": "0"}, "durationSeconds": 10}}, "spec.burst.resources[cpu]", id="zero demand"),
        pytest.param(
            {"arrival": {"periodic": {"periodSeconds": 19}}}, "spec.arrival.periodic.periodSeconds", id="period shorter than duration"
        ),
        pytest.param(schedule(*[scheduled("2030-01-01T00:00:00Z")] * 12_000) | {"burst": None}, "spec.arrival.schedule", id="a megabyte"),
    ],
)
def test_what_cannot_be_is_refused_by_the_api_server_with_the_field_named(
    site: OperatedCluster, change: JsonObject, want_field: str
) -> None:
    assert want_field in refusal(lambda: site.create(queue("LatencyQueue", BURST | change, "default")))
    assert site.operator.ready()


def test_a_resource_that_no_node_has_is_named_in_a_condition(site: OperatedCluster) -> None:
    spec = latency_spec("8", 20, 120)
    spec["burst"]["resources"]["example.com/fpga"] = 4
    site.create(namespace("unknown"), queue("LatencyQueue", spec, "unknown"))
    admitted = wait_for_condition(site, "unknown", "Admitted", "UnknownResource")
    assert admitted["status"] == "False"
    assert "example.com/fpga" in admitted["message"]
    assert "cpu" in admitted["message"], "what the pool counts instead"


def test_work_that_asks_for_a_resource_that_no_node_offers_is_told_so_unless_a_driver_may_provide_it(site: OperatedCluster) -> None:
    spec = pod_spec(memory="1Gi")
    spec["containers"][0]["resources"]["limits"] = {"example.com/gpu": "1"}
    site.create(namespace("gpus"), queue("ThroughputQueue", {}, "gpus"), work.job("gpus", "work", 2, spec))
    fit = wait_for_condition(site, "gpus", "JobsFit", "ResourceNotOffered")
    assert fit["status"] == "False"
    assert fit["message"].startswith("Job work: a pod asks for example.com/gpu. No node of the pool offers that")
    drivers = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpus"}}
    site.create(drivers | {"spec": {"extendedResourceName": "example.com/gpu"}})
    if site.get("deviceclass", "gpus")["spec"]:  # Kubernetes 1.34 leaves the name out, as its feature gate is off
        wait_for_condition(site, "gpus", "JobsFit", "Fit")
    site.cluster.kubectl("delete", "deviceclass", "gpus")
    wait_for_condition(site, "gpus", "JobsFit", "ResourceNotOffered")


def test_a_deleted_priority_class_is_named_and_work_starts_once_it_is_back(site: OperatedCluster) -> None:
    site.create(namespace("classless"), queue("ThroughputQueue", {"reserve": "Off"}, "classless"))
    until(lambda: site.status("classless").get("podPriority"), PATIENCE_SECONDS, "the queue to be decided on")
    name = site.status("classless")["podPriority"]["className"]
    stored = site.get("priorityclass", name)
    site.cluster.kubectl("delete", "priorityclass", name)
    try:
        assert f"expected PriorityClass {name} with" in wait_for_condition(site, "classless", "Enforced", "PriorityClassMissing")["message"]
        assert site.condition("classless", "Ready")["status"] == "False"
        site.create(work.job("classless", "work", 2, pod_spec("100m", "64Mi")))
        until(lambda: f"no PriorityClass with name {name}" in site.admin("get", "events", "-n", "classless"), PATIENCE_SECONDS, "a refusal")
    finally:
        kept = {key: stored[key] for key in ("apiVersion", "kind", "value", "preemptionPolicy")}
        site.create(kept | {"metadata": {key: stored["metadata"][key] for key in ("name", "labels") if key in stored["metadata"]}})
    wait_for_condition(site, "classless", "Enforced", "Quota")
    until(lambda: len(site.objects.list("pod", "classless")) == 2, PATIENCE_SECONDS, "the Job's pods")


def test_a_held_job_is_as_large_as_its_pods_with_the_overhead_of_their_class(site: OperatedCluster) -> None:
    sandbox = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "sandbox"}, "handler": "runc"}
    site.create(sandbox | {"overhead": {"podFixed": {"cpu": "500m", "memory": "64Mi"}}})
    held = work.job("sandboxed", "work", 2, pod_spec("1", "1Gi", runtimeClassName="sandbox"))
    site.create(namespace("sandboxed"), queue("ThroughputQueue", {"enforcement": "Suspend", "suspended": True}, "sandboxed"))
    until(lambda: site.status("sandboxed"), PATIENCE_SECONDS, "the queue to be decided on")
    site.create(held)
    until(lambda: site.status("sandboxed").get("demand", {}).get("cpu") == "3", PATIENCE_SECONDS, "a demand of two pods of 1500m")
    site.cluster.kubectl("delete", "runtimeclass", "sandbox")
    until(lambda: site.status("sandboxed").get("demand", {}).get("cpu") == "2", PATIENCE_SECONDS, "a demand without the class")


def test_the_largest_allowed_spec_is_taken_in(site: OperatedCluster) -> None:
    bursts = [scheduled(f"2030-01-{1 + n // 24:02d}T{n % 24:02d}:00:00Z", resources={"cpu": 1, "memory": "1Gi"}) for n in range(500)]
    site.create(namespace("large"), queue("LatencyQueue", {"arrival": {"schedule": {"bursts": bursts}}}, "large"))
    wait_for_condition(site, "large", "Ready", "Ready")


def test_a_second_queue_in_a_namespace_is_told_of_the_first(site: OperatedCluster) -> None:
    site.create(queue("LatencyQueue", BURST, "steady", "another"))
    ready = wait_for_condition(site, "steady", "Ready", "SecondQueue", "another")
    assert "ThroughputQueue queue already governs namespace steady; besides it, only ThroughputQueues" in ready["message"]
    site.delete("latencyqueue", "another", "steady")
    until(lambda: not site.get("latencyqueue", "another", "steady"), PATIENCE_SECONDS, "the second queue to go")


def test_a_namespace_whose_pods_request_nothing_gets_a_quota_only_once_defaults_exist(site: OperatedCluster) -> None:
    bare = {"containers": [{"name": "work", "image": "work"}]}
    site.create(namespace("bare"), pod("bare", "old", bare))
    site.wait_running("bare", 1)
    site.create(queue("ThroughputQueue", {}, "bare"))
    enforced = wait_for_condition(site, "bare", "Enforced", "PodsWithoutRequests")
    assert "found none on old;" in enforced["message"]
    assert site.hard("bare") == {}
    defaults = {"type": "Container", "defaultRequest": {"cpu": "100m", "memory": "64Mi"}}
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "defaults", "namespace": "bare"},
        "spec": {"limits": [defaults]},
    }
    site.create(limits)
    wait_for_condition(site, "bare", "Enforced", "Quota")
    assert site.hard("bare")
    site.create(pod("bare", "new", bare))
    site.wait_running("bare", 2)


def test_a_foreign_quota_and_limit_range_below_the_promise_are_named_with_both_numbers(site: OperatedCluster) -> None:
    theirs = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "theirs", "namespace": "fenced"}}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small", "namespace": "fenced"}}
    site.create(
        namespace("fenced"),
        theirs | {"spec": {"hard": {"cpu": "2"}}},
        limits | {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "500m"}}]}},
        queue("LatencyQueue", BURST, "fenced"),
        job("fenced", 2),
    )
    enforced = wait_for_condition(site, "fenced", "Enforced", "ForeignQuotaBelowPromise")
    assert "ResourceQuota theirs limits cpu to 2, the promise is 8; raise or delete it." in enforced["message"]

    def both() -> bool:
        found = wait_for_condition(site, "fenced", "Enforced", "ForeignQuotaBelowPromise")
        return "LimitRange small allows pods at most 500m cpu, the largest pod needs 1; raise the maximum." in found["message"]

    until(both, PATIENCE_SECONDS, "the limit range to be named as well")


def sidecar_policy() -> list[JsonObject]:
    """Return a policy that adds a container to every pod of labelled namespaces. Its name makes it run after our policy."""
    name = "zz-test-sidecar"
    addition = (
        '[JSONPatch{op: "add", path: "/spec/containers/-", value: {"name": dyn("sidecar"), "image": dyn("sidecar"), '
        '"resources": dyn({"requests": {"cpu": "500m", "memory": "512Mi"}})}}]'
    )
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {INJECT_LABEL: "true"}},
        },
        "matchConditions": [{"name": "once", "expression": "!object.spec.containers.exists(one, one.name == 'sidecar')"}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": addition}}],
    }
    api = "admissionregistration.k8s.io/v1"
    return [
        {"apiVersion": api, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": api, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": {"policyName": name}},
    ]


def test_a_sidecar_injected_after_the_policy_is_counted(site: OperatedCluster) -> None:
    probe = pod("injected", "probe", pod_spec(memory="1Gi"))
    site.create(*sidecar_policy(), namespace("injected", **{INJECT_LABEL: "true"}))

    def injected() -> bool:
        return len(site.stored(probe)["spec"]["containers"]) == 2

    until(injected, PATIENCE_SECONDS, "the policy to inject sidecars")
    site.create(queue("ThroughputQueue", {}, "injected"))
    wait_for_condition(site, "injected", "Ready", "Ready")
    site.create(job("injected", 6))
    site.wait_running("injected", 6)
    until(lambda: site.status("injected")["demand"]["cpu"] == "9", PATIENCE_SECONDS, "demand to follow the charge")
    assert parse_quantity(site.hard("injected")["requests.cpu"]) >= 10.5, "six pods of 1.5 cpu, and one more"


def start_burst(site: OperatedCluster, where: str) -> None:
    """Create a hard queue, and start its burst of eight pods."""
    site.create(namespace(where), queue("LatencyQueue", BURST, where))
    site.wait_class(where, "Hard")
    site.create(job(where, 8))
    site.wait_running(where, 8)
    until(lambda: site.status(where)["window"]["state"] == "Open", PATIENCE_SECONDS, f"the window of {where} to open")


def test_a_namespace_deleted_in_mid_burst_leaves_nothing_behind(site: OperatedCluster) -> None:
    start_burst(site, "doomed")
    site.cluster.kubectl("delete", "namespace", "doomed", "--wait=false")
    until(lambda: not site.get("namespace", "doomed"), 30.0, "the namespace to go")
    series = 'fairburst_queue_fair_share_ratio{kind="Latency",namespace="doomed",queue="queue"}'
    until(lambda: series not in site.operator.metrics(), PATIENCE_SECONDS, "the metrics of the queue to go")


def test_a_queue_deleted_in_mid_burst_leaves_its_namespace_at_the_floor(site: OperatedCluster) -> None:
    start_burst(site, "orphan")
    pods = site.running("orphan")
    site.delete("latencyqueue", "queue", "orphan")
    floor = {"requests.cpu": "2", "requests.memory": "2Gi", "pods": "10"}  # the floor of 1 cpu, 1 Gi and one pod of the same size

    def at_the_floor() -> bool:
        quota = site.get(*QUOTA, "orphan")
        return bool(quota) and quota["spec"]["hard"] == floor and not quota["metadata"].get("ownerReferences")

    until(at_the_floor, PATIENCE_SECONDS, "the namespace to run at the floor, with a quota that belongs to no queue")
    assert site.running("orphan") == pods


def test_a_quota_edited_or_deleted_by_hand_is_put_back(site: OperatedCluster) -> None:
    site.create(namespace("edited"), queue("ThroughputQueue", {}, "edited"), job("edited", 3))
    site.wait_running("edited", 3)

    def as_planned(hard: dict[str, str]) -> bool:
        """Room for three pods and one more, and for no more than the pool holds: how much of it is spare differs from hour to hour."""
        return hard.keys() == {"requests.cpu", "requests.memory", "pods"} and 4 <= parse_quantity(hard["requests.cpu"]) <= 128

    until(lambda: as_planned(site.hard("edited")), PATIENCE_SECONDS, "the quota of three pods and one more")

    def right() -> bool:
        quota = site.get(*QUOTA, "edited")
        terms = quota["spec"].get("scopeSelector", {}).get("matchExpressions", []) if quota else []
        label = quota.get("metadata", {}).get("labels", {}).get("fairburst.dev/pool")
        enforced, hard = (quota.get("status") or {}).get("hard"), quota.get("spec", {}).get("hard", {})
        return as_planned(hard) and hard == enforced and label == "default" and terms[0]["operator"] == "NotIn"

    uid = site.get(*QUOTA, "edited")["metadata"]["uid"]
    site.patch(*QUOTA, "edited", {"spec": {"hard": {"requests.cpu": "500", "pods": "1"}}})
    until(right, PUT_BACK_SECONDS, "an edited quota to be put back")
    site.patch(*QUOTA, "edited", {"metadata": {"labels": {"fairburst.dev/pool": None}}})
    until(right, PUT_BACK_SECONDS, "the pool label to be put back")
    assert site.get(*QUOTA, "edited")["metadata"]["uid"] == uid, "mended, not created again"
    site.delete(*QUOTA, "edited")
    until(right, PUT_BACK_SECONDS, "a deleted quota to be put back")
    scope = {"operator": "In", "scopeName": "PriorityClass", "values": ["system-node-critical"]}
    site.patch(*QUOTA, "edited", {"spec": {"scopeSelector": {"matchExpressions": [scope]}}})
    until(right, PUT_BACK_SECONDS, "a quota of another scope to be replaced")


def test_the_managed_label_removed_by_hand_is_put_back(site: OperatedCluster) -> None:
    site.create(namespace("labelled"), queue("ThroughputQueue", {}, "labelled"))

    def managed() -> bool:
        labels = site.get("namespace", "labelled")["metadata"]["labels"]
        return bool(labels.get(MANAGED_LABEL) == "true")

    until(managed, PATIENCE_SECONDS, "the namespace to be labelled")
    site.cluster.kubectl("label", "namespace", "labelled", f"{MANAGED_LABEL}-")
    until(managed, PUT_BACK_SECONDS, "the label to be put back")


def test_an_edit_that_cannot_be_kept_leaves_the_promise_in_force(site: OperatedCluster) -> None:
    site.create(namespace("changed"), queue("LatencyQueue", BURST, "changed"))
    site.wait_class("changed", "Hard")
    with pytest.raises(ClusterError, match=r"spec\.weight"):
        site.patch("latencyqueue", "queue", "changed", {"spec": {"weight": 0}})
    resources = {"cpu": "8", "memory": "8Gi", "example.com/fpga": "4"}
    site.patch("latencyqueue", "queue", "changed", {"spec": {"burst": {"resources": resources}}})
    until(lambda: site.status("changed")["observedGeneration"] == 2, PATIENCE_SECONDS, "the edit to be answered")
    status = site.status("changed")
    assert status["class"] == "Hard"
    assert status["promise"]["burst"]["resources"] == {"cpu": "8", "memory": "8Gi"}
    assert status["refused"]["burst"]["resources"]["example.com/fpga"] == "4"
    admitted = wait_for_condition(site, "changed", "Admitted", status["admission"]["reason"])
    assert "example.com/fpga" in admitted["message"]
