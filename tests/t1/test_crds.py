"""The CRDs and policies on a real API server: what is accepted, what is refused and in which words, and the priority that pods get."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import Cluster, ClusterError
from fairburst.config import parse_config
from fairburst.kube.install.manifests import Subject, all_manifests, to_yaml
from fairburst.kube.install.mutating_policies import policies
from fairburst.kube.names import MANAGED_LABEL
from fairburst.kube.queues.objects import InvalidQueueError, parse_queue, parse_status, to_status
from tests.support import queues
from tests.support.prioritized_objects import namespace_labels
from tests.support.queues import ABSENT, changed, full_status, queue, schedule, scheduled

POOL = "crds-test"  # of its own, so that policies of other tests on the shared cluster stay out of the way
OPERATOR = "crds-test-operator"
LATENCY_SPEC = {"pool": POOL} | queues.LATENCY_SPEC
THROUGHPUT_SPEC = {"pool": POOL} | queues.THROUGHPUT_SPEC


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with everything of `fairburst manifests` in it, for a pool with a node selector."""
    config = parse_config(f"pool: {{name: {POOL}, nodeSelector: {{kubernetes.io/os: linux}}}}")
    cluster.kubectl("apply", "-f", "-", input=to_yaml(all_manifests(config, Subject(user=OPERATOR))))
    for plural in ("latencyqueues", "throughputqueues"):
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{plural}.fairburst.dev", "--timeout=60s", timeout=70)
    yield cluster
    for manifest in policies(config):
        cluster.kubectl("delete", manifest["kind"], manifest["metadata"]["name"], "--ignore-not-found")


def refusal(cluster: Cluster, obj: dict[str, Any]) -> str:
    """What the API server says to an object that it refuses."""
    with pytest.raises(ClusterError) as caught:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(obj))
    return str(caught.value)


GOOD = [
    pytest.param("LatencyQueue", LATENCY_SPEC, {}, id="periodic with jitter"),
    pytest.param(
        "LatencyQueue", LATENCY_SPEC, {"arrival": {"sporadic": {"minInterarrivalSeconds": 40}}}, id="sporadic as often as the deadline"
    ),
    pytest.param("LatencyQueue", LATENCY_SPEC, {"burst/deadlineSeconds": ABSENT}, id="deadline by default the duration"),
    pytest.param("LatencyQueue", LATENCY_SPEC, {"arrival/periodic/jitterSeconds": 130}, id="jitter up to the next window"),
    pytest.param(
        "LatencyQueue", LATENCY_SPEC, {"leadTime": "Off", "reclaim": "Evict", "enforcement": "Observe", "suspended": True}, id="settings"
    ),
    pytest.param(
        "LatencyQueue",
        LATENCY_SPEC,
        schedule(scheduled("2026-01-01T00:00:00Z"), scheduled("2026-01-01T01:00:10.5+01:00", deadlineSeconds=3600)),
        id="schedule in another time zone, deadline and next arrival together",
    ),
    pytest.param("LatencyQueue", LATENCY_SPEC, {"burst/resources": {"cpu": "500m", "ephemeral-storage": "1.5Gi"}}, id="fractions"),
    pytest.param("LatencyQueue", LATENCY_SPEC, {"leadTime": "Auto"}, id="lead time"),
    pytest.param("LatencyQueue", LATENCY_SPEC, {"limits": {"cpu": "400000m", "memory": "1Ti"}}, id="limits of a burst"),
    pytest.param(
        "LatencyQueue", LATENCY_SPEC, schedule(scheduled("2026-01-01T00:00:00Z")) | {"limits": {"cpu": 1}}, id="limits of a schedule"
    ),
    pytest.param("ThroughputQueue", THROUGHPUT_SPEC, {}, id="limits"),
    pytest.param("ThroughputQueue", {"pool": POOL}, {}, id="nothing but a pool"),
    pytest.param("ThroughputQueue", {"pool": POOL, "elasticity": {}}, {}, id="elasticity, all by default"),
    pytest.param(
        "ThroughputQueue", {"pool": POOL, "elasticity": {"mode": "Quota", "acrossQueues": True, "fairnessPercent": 95}}, {}, id="elasticity"
    ),
    pytest.param("ThroughputQueue", THROUGHPUT_SPEC, {"smallJobs": {"thresholdPercent": 20}, "reserve": "Off"}, id="small jobs"),
]

BAD = [
    pytest.param(
        {"burst/resources/cpu": "0"}, "spec.burst.resources[cpu]", "expected a quantity greater than zero, found 0", id="zero demand"
    ),
    pytest.param(
        {"burst/resources/cpu": -4}, "spec.burst.resources[cpu]", "expected a quantity greater than zero, found -4", id="negative demand"
    ),
    pytest.param(
        {"burst/resources/memory": "800Gb"},
        "spec.burst.resources[memory]",
        "expected a Kubernetes quantity such as 4, 500m or 1.5Gi, found 800Gb",
        id="no quantity",
    ),
    pytest.param({"burst/resources/cpu": 1.5}, "spec.burst.resources.cpu", "must be of type integer,string", id="a float"),
    pytest.param(
        {"burst/resources": {"gpu": 4}},
        "spec.burst.resources",
        "expected cpu, memory, ephemeral-storage or an extended resource such as nvidia.com/gpu",
        id="unknown resource",
    ),
    pytest.param(
        {"burst/resources": {"nvidia.com/gpu": "500m"}},
        "spec.burst.resources",
        "expected whole numbers of extended resources",
        id="half a GPU",
    ),
    pytest.param({"burst/resources": {}}, "spec.burst.resources", "at least 1", id="no resources"),
    pytest.param(
        {"burst/resources": {f"example.com/r{n}": 1 for n in range(17)}}, "spec.burst.resources", "at most 16", id="too many resources"
    ),
    pytest.param({"burst/durationSeconds": 0}, "spec.burst.durationSeconds", "greater than or equal to 1", id="no duration"),
    pytest.param(
        {"burst/durationSeconds": 41},
        "spec.burst.deadlineSeconds",
        "expected deadlineSeconds of at least durationSeconds, found 40 < 41",
        id="late",
    ),
    pytest.param(
        {"arrival/periodic/periodSeconds": 39},
        "spec.arrival.periodic.periodSeconds",
        "expected periodSeconds of at least the burst's deadlineSeconds, found 39 < 40",
        id="period shorter than the deadline",
    ),
    pytest.param(
        {"burst/deadlineSeconds": ABSENT, "arrival/periodic/periodSeconds": 26},
        "spec.arrival.periodic.periodSeconds",
        "expected periodSeconds of at least the burst's deadlineSeconds, found 26 < 27",
        id="period shorter than the duration",
    ),
    pytest.param(
        {"arrival/periodic/jitterSeconds": 131},
        "spec.arrival.periodic.jitterSeconds",
        "expected deadlineSeconds + 2 x jitterSeconds of at most periodSeconds, so that windows do not overlap, found 302 > 300",
        id="windows may overlap",
    ),
    pytest.param({"arrival/periodic/firstArrival": "tomorrow"}, "spec.arrival.periodic.firstArrival", "date-time", id="no time"),
    pytest.param(
        {"arrival": {"sporadic": {"minInterarrivalSeconds": 39}}},
        "spec.arrival.sporadic.minInterarrivalSeconds",
        "expected minInterarrivalSeconds of at least the burst's deadlineSeconds, found 39 < 40",
        id="sporadic more often than the deadline",
    ),
    pytest.param(
        {"arrival": {}}, "spec.arrival", "expected exactly one of periodic, sporadic, schedule and calendar", id="no arrival form"
    ),
    pytest.param(
        {"arrival/sporadic": {"minInterarrivalSeconds": 300}},
        "spec.arrival",
        "expected exactly one of periodic, sporadic, schedule and calendar",
        id="two arrival forms",
    ),
    pytest.param({"arrival": ABSENT}, "spec.arrival", "Required value", id="no arrival"),
    pytest.param(
        {"burst": ABSENT}, "spec.burst", "expected burst beside arrival.periodic, arrival.sporadic or arrival.calendar", id="no burst"
    ),
    pytest.param(
        {"arrival": {"schedule": {"bursts": [scheduled("2026-01-01T00:00:00Z")]}}},
        "spec.burst",
        "and none beside arrival.schedule, which has its own",
        id="burst beside a schedule",
    ),
    pytest.param(schedule(), "spec.arrival.schedule.bursts", "at least 1", id="empty schedule"),
    pytest.param(
        schedule(scheduled("2026-01-01T00:01:00Z"), scheduled("2026-01-01T00:00:00Z")),
        "spec.arrival.schedule.bursts",
        "expected bursts in ascending order of arrival",
        id="schedule not ascending",
    ),
    pytest.param(
        schedule(scheduled("2026-01-01T00:00:00Z"), scheduled("2026-01-01T00:00:09Z")),
        "spec.arrival.schedule.bursts",
        "the deadline of each at or before the arrival of the next",
        id="scheduled windows overlap",
    ),
    pytest.param(
        schedule(scheduled("2026-01-01T00:00:00Z", deadlineSeconds=9)),
        "spec.arrival.schedule.bursts[0].deadlineSeconds",
        "expected deadlineSeconds of at least durationSeconds, found 9 < 10",
        id="scheduled burst longer than its deadline",
    ),
    pytest.param({"weight": 0}, "spec.weight", "greater than or equal to 1", id="no weight"),
    pytest.param({"weight": 1.5}, "spec.weight", "must be of type integer", id="a fraction of weight"),
    pytest.param(
        {"uncertainty": {"confidencePercent": 95}},
        "spec.uncertainty",
        "expected standardDeviationPercent, or fromHistory: true",
        id="uncertainty",
    ),
    pytest.param(
        {"limits": {"cpu": "399999m"}}, "spec.limits", "expected limits of at least what each burst needs", id="limit below the burst"
    ),
    pytest.param({"limits": {"cpu": "lots"}}, "spec.limits[cpu]", "expected a Kubernetes quantity such as", id="limit that is no quantity"),
    pytest.param(
        {"limits": {"ephemeral-storage": "1Ti"}}, "spec.limits", "and only for resources that it names", id="limit on what is not declared"
    ),
    pytest.param(
        schedule(scheduled("2026-01-01T00:00:00Z")) | {"limits": {"cpu": "500m"}},
        "spec.limits",
        "expected limits of at least what each burst needs",
        id="limit below a scheduled burst",
    ),
    pytest.param(
        {"limits": {"cpu": 400}, "uncertainty": {"confidencePercent": 95, "fromHistory": True}},
        "spec.limits",
        "expected no limits beside uncertainty",
        id="limits and uncertainty",
    ),
    pytest.param({"reclaim": "Always"}, "spec.reclaim", 'supported values: "Never", "Evict"', id="reclaim"),
    pytest.param({"leadTime": "Always"}, "spec.leadTime", "Always", id="lead time"),
    pytest.param({"enforcement": "quota"}, "spec.enforcement", 'supported values: "Quota"', id="not a mode"),
    pytest.param({"pool": "No Pool"}, "spec.pool", "should match", id="no pool name"),
    pytest.param({"burts": {}}, "spec.burts", "unknown field", id="misspelt field"),
]
BAD_THROUGHPUT = [
    pytest.param(
        {"smallJobs": {"thresholdPercent": 0}}, "spec.smallJobs.thresholdPercent", "greater than or equal to 1", id="no job is small"
    ),
    pytest.param({"reserve": "Sometimes"}, "spec.reserve", "Sometimes", id="reserve"),
    pytest.param({"elasticity": {"fairnessPercent": 0}}, "spec.elasticity.fairnessPercent", "greater than or equal to 1", id="no fairness"),
    pytest.param({"elasticity": {"mode": "Both"}}, "spec.elasticity.mode", 'supported values: "Parallelism"', id="not a mode"),
    pytest.param(
        {"elasticity": {"minimumParallelism": 9, "maximumParallelism": 8}},
        "spec.elasticity.minimumParallelism",
        "expected minimumParallelism of at most maximumParallelism, found 9 > 8",
        id="minimum above maximum",
    ),
    pytest.param(
        {"elasticity": {"mode": "Quota"}},
        "spec.elasticity.acrossQueues",
        "expected acrossQueues: true beside mode: Quota",
        id="quota alone",
    ),
    pytest.param({"limits/cpu": 0}, "spec.limits[cpu]", "expected a quantity greater than zero, found 0", id="limit of zero"),
]


@pytest.mark.parametrize(("kind", "spec", "changes"), GOOD)
def test_good_queues_are_accepted(installed: Cluster, kind: str, spec: dict[str, Any], changes: dict[str, Any]) -> None:
    obj = queue(kind, changed(spec, changes), "default")
    stored = json.loads(installed.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(obj)))
    parse_queue(stored)
    assert stored["spec"]["pool"] == POOL
    assert stored["spec"]["enforcement"] in {"Quota", "Gate", "Suspend", "Observe"}


@pytest.mark.parametrize(("changes", "want_field", "want_message"), BAD)
def test_bad_latency_queues_are_refused_in_words(installed: Cluster, changes: dict[str, Any], want_field: str, want_message: str) -> None:
    obj = queue("LatencyQueue", changed(LATENCY_SPEC, changes), "default")
    message = refusal(installed, obj)
    assert want_field in message
    assert want_message in message
    with pytest.raises(InvalidQueueError, match="spec"):
        parse_queue(obj)


@pytest.mark.parametrize(("changes", "want_field", "want_message"), BAD_THROUGHPUT)
def test_bad_throughput_queues_are_refused_in_words(
    installed: Cluster, changes: dict[str, Any], want_field: str, want_message: str
) -> None:
    obj = queue("ThroughputQueue", changed(THROUGHPUT_SPEC, changes), "default")
    message = refusal(installed, obj)
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
    assert want_message in refusal(installed, obj)
    assert "ok" in installed.kubectl("get", "--raw", "/readyz")
    with pytest.raises(InvalidQueueError) as caught:
        parse_queue(obj)
    assert len(caught.value.problems[0]) < 1000


def test_the_pool_of_a_queue_cannot_change(installed: Cluster, namespace: Callable[..., str]) -> None:
    here = namespace("pool")
    installed.kubectl("create", "-f", "-", input=json.dumps(queue("ThroughputQueue", THROUGHPUT_SPEC, here)))
    with pytest.raises(ClusterError, match="pool is immutable"):
        installed.kubectl("patch", "thrq", "queue", "-n", here, "--type=merge", "-p", '{"spec": {"pool": "other"}}')
    installed.kubectl("patch", "thrq", "queue", "-n", here, "--type=merge", "-p", '{"spec": {"weight": 7}}')


def test_kubectl_get_and_explain_read_well(installed: Cluster, namespace: Callable[..., str]) -> None:
    here = namespace("columns")
    installed.kubectl("create", "-f", "-", input=json.dumps(queue("LatencyQueue", LATENCY_SPEC, here, "burst")))
    installed.kubectl("create", "-f", "-", input=json.dumps(queue("ThroughputQueue", THROUGHPUT_SPEC, here, "batch")))
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
    installed.kubectl("create", "-f", "-", input=json.dumps(queue("LatencyQueue", LATENCY_SPEC, here)))
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
    # can-i ends with an error where the answer is no
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
        """What the API server makes of a pod."""
        owners = spec.pop("ownerReferences", [])
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": owners},
            "spec": {"containers": [{"name": "work", "image": "work"}]} | spec,
        }
        stored = cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(manifest))
        result: dict[str, Any] = json.loads(stored)["spec"]
        return result

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
