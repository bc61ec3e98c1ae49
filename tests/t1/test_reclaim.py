"""Reclaim on a real control plane: who is evicted for a burst and who is not, and that nothing fails for it."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster, ClusterError
from e2e.harness import OperatorProcess
from e2e.waiting import NotInTimeError, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PATIENCE_SECONDS = 120.0  # what is waited for are many steps of several processes, each a second or two where nobody else computes

JsonObject = dict[str, Any]
NODES, NODE_CPU = 2, 8
CPUS = NODES * NODE_CPU
NUMBERS = itertools.count()
SETTINGS = {"log": {"level": "DEBUG"}, "reclaim": {"minimumRunSeconds": 1, "graceSeconds": 5}}


def queue(kind: str, where: str, **spec: Any) -> JsonObject:
    metadata = {"name": "queue", "namespace": where}
    return {"apiVersion": "fairburst.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def bursty(cpu: int, seconds: int = 120) -> JsonObject:
    burst = {"resources": {"cpu": str(cpu), "memory": f"{cpu}Gi"}, "durationSeconds": seconds}
    return {"burst": burst, "arrival": {"sporadic": {"minInterarrivalSeconds": 6 * seconds}}, "reclaim": "Evict"}


def pod(where: str, name: str, **metadata: Any) -> JsonObject:
    """A pod of one cpu that runs until it is deleted."""
    container = {"name": "work", "image": "work", "resources": {"requests": {"cpu": "1", "memory": "128Mi"}}}
    spec = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": where, **metadata}, "spec": spec}


def job(where: str, name: str, pods: int, **metadata: Any) -> JsonObject:
    """A Job that fails for good with its first failed pod."""
    template = pod(where, name, **metadata)
    described = {key: value for key, value in template["metadata"].items() if key in {"labels", "annotations"}}
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": {"metadata": described, "spec": template["spec"]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": where}, "spec": spec}


class Site:
    """A cluster, an operator, and a test's own namespaces."""

    def __init__(self, cluster: Cluster, operator: OperatorProcess) -> None:
        self.cluster, self.operator = cluster, operator
        self._made: list[str] = []

    def create(self, *objects: JsonObject) -> None:
        self.cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all(objects), timeout=60)

    def create_retrying(self, obj: JsonObject) -> None:
        """As a controller does: a creation may meet a change of its quota, or come before that is as high as it will be."""

        def created() -> bool:
            try:
                self.create(obj)
            except ClusterError as error:
                if not any(said in str(error) for said in ("resourcequotas", "exceeded quota")):
                    raise
                return False
            return True

        until(created, PATIENCE_SECONDS, f"{obj['metadata']['name']} to be created")

    def namespace(self, kind: str, **spec: Any) -> str:
        """One with a queue, once this is decided and its quota is written."""
        where = f"{kind.removesuffix('Queue').lower()}-{next(NUMBERS)}"
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}}, queue(kind, where, **spec))
        self._made.append(where)
        until(lambda: self.get(kind.lower(), "queue", where).get("status", {}).get("class"), PATIENCE_SECONDS, f"the class in {where}")
        until(
            lambda: self.cluster.kubectl("get", "resourcequota", "fairburst", "-n", where, "--ignore-not-found"),
            PATIENCE_SECONDS,
            f"the quota of {where}",
        )
        return where

    def get(self, kind: str, name: str, where: str) -> JsonObject:
        found: JsonObject = json.loads(self.cluster.kubectl("get", kind, name, "-n", where, "-o", "json"))
        return found

    def pods(self, where: str) -> list[JsonObject]:
        found: list[JsonObject] = json.loads(self.cluster.kubectl("get", "pods", "-n", where, "-o", "json"))["items"]
        return found

    def running(self, where: str) -> list[str]:
        """Names of pods that run and have not been asked to end."""
        return sorted(
            one["metadata"]["name"]
            for one in self.pods(where)
            if one["status"]["phase"] == "Running" and "deletionTimestamp" not in one["metadata"]
        )

    def ending(self, where: str) -> list[str]:
        return sorted(one["metadata"]["name"] for one in self.pods(where) if "deletionTimestamp" in one["metadata"])

    def wait_running(self, where: str, count: int, what: str) -> None:
        try:
            until(lambda: len(self.running(where)) == count, PATIENCE_SECONDS, what)
        except NotInTimeError as error:
            raise NotInTimeError(f"{error}; {self.described(where)}") from None

    def described(self, where: str) -> str:
        """What a reader of a failed wait asks first: the namespace's pods, Jobs and quotas, and what the Job controller said."""
        pods = {one["metadata"]["name"]: (one["status"]["phase"], one["metadata"].get("deletionTimestamp")) for one in self.pods(where)}
        found = [
            self.cluster.kubectl("get", "job,resourcequota,latencyqueue,throughputqueue", "-n", where, "-o", "yaml"),
            self.cluster.kubectl("get", "events", "-n", where),
        ]
        return "\n".join([f"{len(self.running(where))} run; pods {pods}", *found])

    def let_end(self, where: str) -> None:
        """What has been asked to end in the namespace has ended."""
        for name in self.ending(where):
            self._finish(where, name, "Failed")

    def evictions(self, ground: str = "Burst", result: str = "ok") -> float:
        return self.operator.metrics().get(f'fairburst_evictions_total{{ground="{ground}",result="{result}"}}', 0.0)

    def rounds(self, count: int) -> None:
        """Wait until so many more rounds have run."""
        before = self.operator.metrics()["fairburst_rounds_total"]
        until(lambda: self.operator.metrics()["fairburst_rounds_total"] >= before + count, PATIENCE_SECONDS, f"{count} rounds")

    def told(self, where: str) -> dict[str, str]:
        """Why pods of the namespace were evicted, by name. Their Jobs are told, too."""
        told = self.cluster.kubectl("get", "events", "-n", where, "--field-selector=reason=Reclaimed,involvedObject.kind=Pod", "-o", "json")
        return {one["involvedObject"]["name"]: one["message"] for one in json.loads(told)["items"]}

    def finish_one(self, where: str) -> None:
        """A pod of the namespace's Job succeeds. Until one does, the Job controller waits ten seconds before it replaces failed pods,
        doubled for each that has failed, ten minutes at most; it does not ask whether its failure was to be ignored."""
        self._finish(where, self.running(where)[0], "Succeeded")

    def _finish(self, where: str, name: str, phase: str) -> None:
        """The pod's container ends now, as its kubelet would report it. Without the time of its end the Job controller takes the pod's
        creation for it: a success that it sees together with earlier failures would then count as older than they are."""
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        terminated = {"exitCode": 0 if phase == "Succeeded" else 137, "startedAt": now, "finishedAt": now}
        container = {
            "name": "work",
            "image": "work",
            "imageID": "work",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": terminated},
        }
        ended = json.dumps({"status": {"phase": phase, "containerStatuses": [container]}})
        self.cluster.kubectl("patch", "pod", name, "-n", where, "--subresource=status", "--type=merge", "-p", ended)

    def clear(self) -> None:
        """Delete the test's namespaces."""
        if not self._made:
            return
        for where in self._made:
            self.cluster.kubectl("delete", "latencyqueue,throughputqueue,job,deployment", "--all", "-n", where, "--cascade=background")
        until(lambda: not any(self._still_there(where) for where in self._made), PATIENCE_SECONDS, "all pods to be gone")
        self.cluster.kubectl("delete", "namespace", *self._made, "--wait=false")
        self._made = []

    def _still_there(self, where: str) -> bool:
        self.cluster.kubectl("delete", "pod", "--all", "-n", where, "--grace-period=0", "--force", "--wait=false")
        return bool(self.pods(where))


@pytest.fixture(scope="module")
def running_operator(fresh_cluster: Callable[..., Cluster]) -> Iterator[tuple[Cluster, OperatorProcess]]:
    cluster = fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi")
    with OperatorProcess(cluster, SETTINGS, "reclaim") as operator:
        yield cluster, operator


@pytest.fixture
def site(running_operator: tuple[Cluster, OperatorProcess]) -> Iterator[Site]:
    made = Site(*running_operator)
    yield made
    made.clear()


def job_failed(site: Site, where: str, name: str) -> bool:
    status = site.get("job", name, where)["status"]
    return bool(status.get("failed")) or any(one["type"] in {"Failed", "FailureTarget"} for one in status.get("conditions", ()))


def test_a_burst_into_a_full_cluster_runs_at_once_and_the_job_that_made_room_goes_on(site: Site) -> None:
    batch, burst = site.namespace("ThroughputQueue"), site.namespace("LatencyQueue", **bursty(6))
    site.create(job(batch, "work", CPUS))
    site.wait_running(batch, CPUS, "the Job to fill the cluster")
    before = site.evictions()
    site.create(job(burst, "burst", 6))
    site.wait_running(burst, 6, "the burst to run")
    assert len(site.running(batch)) == CPUS - 6
    assert site.evictions() - before == 6
    told = until(lambda: site.told(batch) if len(site.told(batch)) == 6 else None, PATIENCE_SECONDS, "an Event on each victim")
    assert all("a burst of another queue that came at" in message for message in told.values()), told
    assert not [message for message in told.values() if burst in message]
    site.cluster.kubectl("delete", "job", "burst", "-n", burst)
    site.finish_one(batch)
    site.wait_running(batch, CPUS - 1, "the evicted work to run again")
    assert not job_failed(site, batch, "work")
    assert site.evictions() - before == 6


def test_pods_that_may_not_go_stay_and_the_burst_waits(site: Site) -> None:
    """A Job whose own rules count disruptions, one with a deadline, and a bare pod that does not say that it may go."""
    batch = site.namespace("ThroughputQueue", enforcement="Gate")  # a quota would refuse bare pods until its level has grown
    burst = site.namespace("LatencyQueue", **bursty(6))
    counting, timed = job(batch, "counting", 6), job(batch, "timed", 4)
    rule = {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    counting["spec"] |= {"podFailurePolicy": {"rules": [rule]}, "podReplacementPolicy": "Failed"}
    timed["spec"]["activeDeadlineSeconds"] = 3600
    willing = {"annotations": {"fairburst.dev/reclaimable": "true"}}
    site.create(counting, timed)
    for number in range(6):
        site.create_retrying(pod(batch, f"willing-{number}", **willing) if number < 2 else pod(batch, f"bare-{number}"))
    site.wait_running(batch, CPUS, "the cluster to be full")
    site.create(job(burst, "burst", 6))
    site.wait_running(burst, 2, "two of the burst to run")
    site.rounds(5)
    assert len(site.running(burst)) == 2
    assert len(site.running(batch)) == CPUS - 2
    assert not [name for name in site.running(batch) if name.startswith("willing")]
    assert not job_failed(site, batch, "counting")


def test_a_disruption_budget_holds_and_others_are_asked(site: Site) -> None:
    """Eight pods of one Job may not be disrupted at all; the other Job's are evicted in their stead."""
    batch, burst = site.namespace("ThroughputQueue"), site.namespace("LatencyQueue", **bursty(6))
    label = {"app": "protected"}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all", "namespace": batch}}
    site.create(budget | {"spec": {"minAvailable": 8, "selector": {"matchLabels": label}}})
    site.create(job(batch, "open", 8))
    site.wait_running(batch, 8, "the first Job")
    site.create(job(batch, "protected", 8, labels=label))  # the younger: less is lost with it, so it is asked first
    site.wait_running(batch, CPUS, "the cluster to be full")
    until(lambda: site.get("pdb", "all", batch)["status"].get("currentHealthy") == 8, PATIENCE_SECONDS, "the budget to count")
    site.rounds(2)
    refused = site.evictions(result="refused")
    site.create(job(burst, "burst", 6))
    site.wait_running(burst, 6, "the burst to run")
    assert len([name for name in site.running(batch) if name.startswith("protected")]) == 8
    assert site.evictions(result="refused") > refused
    assert not job_failed(site, batch, "open")


def test_victims_that_take_their_time_count_as_coming_free_also_after_a_restart_in_between(site: Site) -> None:
    batch, burst = site.namespace("ThroughputQueue"), site.namespace("LatencyQueue", **bursty(6))
    slow = job(batch, "slow", CPUS, annotations={"stop-seconds": "3600s"})
    slow["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 3600
    site.create(slow)
    site.wait_running(batch, CPUS, "the Job to fill the cluster")
    site.create(job(burst, "burst", 6))
    until(lambda: len(site.ending(batch)) == 6, PATIENCE_SECONDS, "six to be asked to end")
    ending = site.ending(batch)
    site.operator.kill()
    site.operator.start()
    site.rounds(5)
    assert site.ending(batch) == ending, "nobody else is asked"
    assert site.running(burst) == []
    assert site.evictions() == 0.0, "of the process that has just started"
    site.let_end(batch)
    site.wait_running(burst, 6, "the burst to run in their places")
    assert len(site.running(batch)) == CPUS - 6
    assert not job_failed(site, batch, "slow")


def test_a_throughput_queue_gets_its_fair_share_after_the_grace_time_and_no_more(site: Site) -> None:
    first, second = site.namespace("ThroughputQueue"), site.namespace("ThroughputQueue", reclaim="Evict")
    site.create(job(first, "work", CPUS))
    site.wait_running(first, CPUS, "the first to fill the cluster")
    before = site.evictions("FairShare")
    site.create(job(second, "work", CPUS))
    site.wait_running(second, CPUS // 2, "the second to have its half")
    site.rounds(5)
    assert (len(site.running(first)), len(site.running(second))) == (CPUS // 2, CPUS // 2)
    assert site.evictions("FairShare") - before == CPUS // 2
    assert all("the fair share of another queue" in message for message in site.told(first).values())
    assert not job_failed(site, first, "work")


def test_a_deployments_pods_go_only_if_their_template_says_so_and_come_back(site: Site) -> None:
    batch, burst = site.namespace("ThroughputQueue"), site.namespace("LatencyQueue", **bursty(6))
    site.create(deployment(batch, "firm", CPUS - 6, {}), deployment(batch, "willing", 6, {"fairburst.dev/reclaimable": "true"}))
    site.wait_running(batch, CPUS, "the cluster to be full")
    site.create(job(burst, "burst", 6))
    site.wait_running(burst, 6, "the burst to run")
    assert {name.split("-")[0] for name in site.running(batch)} == {"firm"}
    site.cluster.kubectl("delete", "job", "burst", "-n", burst)
    site.wait_running(batch, CPUS, "the replicas to come back")


def deployment(where: str, name: str, replicas: int, annotations: dict[str, str]) -> JsonObject:
    template = pod(where, name)["spec"] | {"restartPolicy": "Always"}
    labels = {"app": name}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}}
    spec["template"] = {"metadata": {"labels": labels, "annotations": annotations}, "spec": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": where}, "spec": spec}


def test_no_job_fails_though_two_hundred_of_its_pods_are_evicted(fresh_cluster: Callable[..., Cluster]) -> None:
    """Each of two Jobs of backoffLimit 0 would fail with the first failure that counts."""
    pods, burst_pods = 320, 200
    cluster = fresh_cluster(nodes=10, node_cpu="32", node_memory="256Gi")
    with OperatorProcess(cluster, SETTINGS, "reclaim-200") as operator:
        site = Site(cluster, operator)
        batches = [site.namespace("ThroughputQueue") for _ in range(2)]
        burst = site.namespace("LatencyQueue", **bursty(burst_pods, 120))
        site.create(*(job(where, "work", pods // 2) for where in batches))
        for where in batches:
            site.wait_running(where, pods // 2, "the Jobs to fill the cluster")
        site.create(job(burst, "burst", burst_pods))
        site.wait_running(burst, burst_pods, "the burst to run")
        assert site.evictions() == burst_pods
        left = [len(site.running(where)) for where in batches]
        assert left == [60, 60], "queues of equal weight give alike"
        site.cluster.kubectl("delete", "job", "burst", "-n", burst)
        for where in batches:
            site.finish_one(where)
        for where in batches:
            site.wait_running(where, pods // 2 - 1, "the evicted work to run again")
            assert not job_failed(site, where, "work")
        assert site.evictions() == burst_pods
