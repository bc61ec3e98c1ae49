"""The CRDs and policies on a real API server: accepted queues, refused queues with their messages, and the priority that pods get."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import Cluster, ClusterError
from fairburst.config import parse_config
from fairburst.kube.names import MANAGED_LABEL
from fairburst.kube.queues.objects import InvalidQueueError, parse_queue, parse_status
from tests.support.live_cluster import LiveCluster, install, refusal, remove_policies
from tests.support.prioritized_objects import namespace_labels
from tests.support.queue_specs import BAD, BAD_THROUGHPUT, GOOD, LATENCY_SPEC, POOL, THROUGHPUT_SPEC
from tests.support.queues import changed, full_status, queue, schedule, scheduled, to_status
from tests.support.work import create, pod

OPERATOR = "crds-test-operator"


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with everything of `fairburst manifests` in it, for a pool with a node selector."""
    config = parse_config(f"pool: {{name: {POOL}, nodeSelector: {{kubernetes.io/os: linux}}}}")
    manifests = install(cluster, config, OPERATOR)
    yield cluster
    remove_policies(cluster, manifests)


def said_to(cluster: Cluster, obj: dict[str, Any]) -> str:
    """Return the API server's words if it refuses to create an object."""
    return refusal(lambda: LiveCluster(cluster).stored(obj))


@pytest.mark.parametrize(("kind", "spec", "changes"), GOOD)
def test_good_queues_are_accepted(installed: Cluster, kind: str, spec: dict[str, Any], changes: dict[str, Any]) -> None:
    obj = queue(kind, changed(spec, changes), "default")
    stored = LiveCluster(installed).stored(obj)
    parse_queue(stored)
    assert stored["spec"]["pool"] == POOL
    assert stored["spec"]["enforcement"] in {"Quota", "Gate", "Suspend", "Observe"}


@pytest.mark.parametrize(("changes", "want_field", "want_message"), BAD)
def test_bad_latency_queues_are_refused_in_words(installed: Cluster, changes: dict[str, Any], want_field: str, want_message: str) -> None:
    obj = queue("LatencyQueue", changed(LATENCY_SPEC, changes), "default")
    message = said_to(installed, obj)
    assert want_field in message
    assert want_message in message
    with pytest.raises(InvalidQueueError, match="spec"):
        parse_queue(obj)


@pytest.mark.parametrize(("changes", "want_field", "want_message"), BAD_THROUGHPUT)
def test_bad_throughput_queues_are_refused_in_words(
    installed: Cluster, changes: dict[str, Any], want_field: str, want_message: str
) -> None:
    obj = queue("ThroughputQueue", changed(THROUGHPUT_SPEC, changes), "default")
    message = said_to(installed, obj)
    assert want_field in message
    assert want_message in message
    with pytest.raises(InvalidQueueError, match="spec"):
        parse_queue(obj)


def test_the_largest_allowed_schedule_is_accepted(installed: Cluster) -> None:
    resources = {f"example.com/device{n}": 1 for n in range(16)}
    bursts = [scheduled(f"2026-01-{1 + n // 24:02d}T{n % 24:02d}:00:00Z", resources=resources) for n in range(500)]
    obj = queue("LatencyQueue", changed(LATENCY_SPEC, schedule(*bursts)), "default")
    assert "created" in installed.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(obj))


@pytest.mark.parametrize(
    ("changes", "want_message"),
    [
        pytest.param({"pool": "x" * 1_000_000}, "spec.pool", id="a long text"),
        pytest.param({"burst/resources": {"cpu": "1" * 1_000_000}}, "spec.burst.resources", id="a long quantity"),
        pytest.param({"burst/resources": {"example.com/" + "x" * 1_000_000: 1}}, "spec.burst.resources", id="a long name"),
        pytest.param({"burst/resources": {f"example.com/r{n}": 1 for n in range(40_000)}}, "spec.burst.resources", id="many resources"),
        pytest.param(schedule(*[scheduled("2026-01-01T00:00:00Z")] * 10_000), "spec.arrival.schedule.bursts", id="many bursts"),
    ],
)
def test_a_spec_of_a_megabyte_is_refused_and_the_server_goes_on(installed: Cluster, changes: dict[str, Any], want_message: str) -> None:
    obj = queue("LatencyQueue", changed(LATENCY_SPEC, changes), "default")
    assert len(json.dumps(obj)) > 800_000
    assert want_message in said_to(installed, obj)
    assert "ok" in installed.kubectl("get", "--raw", "/readyz")
    with pytest.raises(InvalidQueueError) as caught:
        parse_queue(obj)
    assert len(caught.value.problems[0]) < 1000


def test_the_pool_of_a_queue_cannot_change(installed: Cluster, namespace: Callable[..., str]) -> None:
    here = namespace("pool")
    create(installed, queue("ThroughputQueue", THROUGHPUT_SPEC, here))
    with pytest.raises(ClusterError, match="pool is immutable"):
        installed.kubectl("patch", "thrq", "queue", "-n", here, "--type=merge", "-p", '{"spec": {"pool": "other"}}')
    installed.kubectl("patch", "thrq", "queue", "-n", here, "--type=merge", "-p", '{"spec": {"weight": 7}}')


def test_kubectl_get_and_explain_read_well(installed: Cluster, namespace: Callable[..., str]) -> None:
    here = namespace("columns")
    create(installed, queue("LatencyQueue", LATENCY_SPEC, here, "burst"), queue("ThroughputQueue", THROUGHPUT_SPEC, here, "batch"))
    status = {
        "class": "Hard",
        "share": "25.0%",
        "allocatedShare": "42.2%",
        "usedShare": "31.5%",
        "waitingShare": "0.0%",
        "window": {"state": "Armed", "index": 3, "armsAt": "2026-01-01T00:00:00Z", "nextBurst": "2026-01-01T00:05:00Z"},
        "history": {"bursts": 3, "met": 2, "missed": 1},
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "Scheduled",
                "message": "All is well.",
            }
        ],
    }
    installed.kubectl("patch", "latq", "burst", "-n", here, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    header, row = installed.kubectl("get", "latq", "-n", here).splitlines()[:2]
    assert " ".join(header.split()) == "NAME CLASS WINDOW NEXT-BURST FAIR-SHARE ALLOCATED USED WAITING MET MISSED READY AGE"
    assert " ".join(row.split()).startswith("burst Hard Armed 2026-01-01T00:05:00Z 25.0% 42.2% 31.5% 0.0% 2 1 True")
    both = installed.kubectl("get", "fairburst", "-n", here)
    assert "latencyqueue.fairburst.dev/burst" in both
    assert "throughputqueue.fairburst.dev/batch" in both
    assert "Its guaranteed rate is resources x durationSeconds / deadlineSeconds" in " ".join(
        installed.kubectl("explain", "latq.spec.burst").split()
    )


def test_a_status_keeps_all_that_the_operator_must_remember(installed: Cluster, namespace: Callable[..., str]) -> None:
    here = namespace("memory")
    create(installed, queue("LatencyQueue", LATENCY_SPEC, here))
    status = to_status(full_status())
    installed.kubectl("patch", "latq", "queue", "-n", here, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    stored = json.loads(installed.kubectl("get", "latq", "queue", "-n", here, "-o", "json"))
    assert stored["status"] == status
    assert parse_status(stored) == full_status()


@pytest.mark.parametrize(
    ("want", "question"),
    [
        ("yes", ["watch", "pods", "-A"]),
        ("yes", ["delete", "resourcequotas", "-A"]),
        ("yes", ["patch", "latencyqueues.fairburst.dev", "--subresource=status", "-A"]),
        ("yes", ["patch", "jobs.batch", "-A"]),
        ("yes", ["create", "configmaps", "-n", "fairburst-system"]),
        ("no", ["create", "configmaps", "-n", "default"]),
        ("no", ["patch", "latencyqueues.fairburst.dev", "-A"]),
        ("no", ["delete", "pods", "-A"]),
        ("no", ["get", "secrets", "-A"]),
    ],
)
def test_the_operator_may_do_what_it_does_and_no_more(installed: Cluster, want: str, question: list[str]) -> None:
    # can-i ends with an error if the answer is no
    ask = ["auth", "can-i", *question, "--as", OPERATOR]
    if want == "yes":
        assert installed.kubectl(*ask).split()[-1] == "yes"
    else:
        with pytest.raises(ClusterError, match="ended with 1"):
            installed.kubectl(*ask)


class TestPodPriority:
    """Pods of managed namespaces get class, value and preemption policy at creation, by their namespace's label."""

    @staticmethod
    def pod(cluster: Cluster, namespace: str, name: str, **spec: Any) -> dict[str, Any]:
        """Return the spec of a pod as the API server would store it."""
        owners = spec.pop("ownerReferences", [])
        spec = {"containers": [{"name": "work", "image": "work"}]} | spec
        stored: dict[str, Any] = LiveCluster(cluster).stored(pod(namespace, name, spec, ownerReferences=owners))["spec"]
        return stored

    @staticmethod
    def prioritized(pod: dict[str, Any]) -> tuple[Any, ...]:
        return pod.get("priorityClassName"), pod.get("priority"), pod.get("preemptionPolicy")

    @staticmethod
    def label(cluster: Cluster, namespace: str, class_name: str, pool: str) -> None:
        """Label a namespace as the operator of a pool does."""
        labels = namespace_labels({"podPriority": {"className": class_name}}, pool)
        cluster.kubectl("label", "namespace", namespace, "--overwrite", *(f"{key}={value}" for key, value in labels.items()))

    def wait_for_priority(self, cluster: Cluster, namespace: str, want: tuple[Any, ...]) -> None:
        """The API server's policies and their parameters lag behind a write by some milliseconds, the first time by more."""
        deadline = time.monotonic() + 15
        while (found := self.prioritized(self.pod(cluster, namespace, "probe"))) != want:
            assert time.monotonic() < deadline, f"expected a pod in {namespace} to have the priority {want}, found {found}"
            time.sleep(0.1)

    @pytest.mark.parametrize("kind", ["LatencyQueue", "ThroughputQueue"])
    def test_the_queue_governs_the_class_and_the_nodes_of_its_pods(
        self, installed: Cluster, namespace: Callable[..., str], kind: str
    ) -> None:
        here = namespace("prioritized", labels={MANAGED_LABEL: "true"})
        self.wait_for_priority(installed, here, ("fairburst-large", -2, "Never"))
        spec = LATENCY_SPEC if kind == "LatencyQueue" else THROUGHPUT_SPEC
        installed.kubectl("create", "-f", "-", input=json.dumps(queue(kind, spec, here)))
        for class_name, value in (("fairburst-hard", 2000), ("fairburst-soft", 1000), ("fairburst-large", -2)):
            self.label(installed, here, class_name, POOL)
            self.wait_for_priority(installed, here, (class_name, value, "Never"))
        assert self.pod(installed, here, "probe")["nodeSelector"] == {"kubernetes.io/os": "linux"}
        assert self.pod(installed, here, "probe", nodeSelector={"disk": "fast"})["nodeSelector"] == {
            "disk": "fast",
            "kubernetes.io/os": "linux",
        }
        by_hand = self.pod(installed, here, "probe", priorityClassName="fairburst-hard")
        assert self.prioritized(by_hand) == ("fairburst-large", -2, "Never")

    def test_system_classes_daemonsets_and_unmanaged_namespaces_are_left_alone(
        self, installed: Cluster, namespace: Callable[..., str]
    ) -> None:
        managed = namespace("spared", labels={MANAGED_LABEL: "true"})
        self.wait_for_priority(installed, managed, ("fairburst-large", -2, "Never"))
        system = self.pod(installed, managed, "system", priorityClassName="system-node-critical")
        assert self.prioritized(system) == ("system-node-critical", 2_000_001_000, "PreemptLowerPriority")
        owner = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": "log",
            "uid": "11111111-1111-1111-1111-111111111111",
            "controller": True,
        }
        assert self.prioritized(self.pod(installed, managed, "daemon", ownerReferences=[owner])) == (None, 0, "PreemptLowerPriority")
        assert self.prioritized(self.pod(installed, namespace("unmanaged"), "free")) == (None, 0, "PreemptLowerPriority")

    def test_a_queue_of_another_pool_sets_no_priority(self, installed: Cluster, namespace: Callable[..., str]) -> None:
        here = namespace("elsewhere", labels={MANAGED_LABEL: "true"})
        later = namespace("later", labels={MANAGED_LABEL: "true"})
        for where, pool in ((here, "another"), (later, POOL)):
            self.label(installed, where, "fairburst-hard", pool)
        self.wait_for_priority(installed, later, ("fairburst-hard", 2000, "Never"))  # by now the earlier label is known as well
        found = self.prioritized(self.pod(installed, here, "probe"))
        assert found == (None, 0, "PreemptLowerPriority"), "its own operator's policies give it a class"
