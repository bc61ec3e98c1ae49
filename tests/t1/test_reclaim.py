"""Reclaim on a real control plane: which pods are evicted for a burst and which are not, and that no Job fails by it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import until
from tests.support import work
from tests.support.live_cluster import OperatedCluster, refusal
from tests.support.objects import latency_spec
from tests.support.work import deployment, pod, pod_spec

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PATIENCE_SECONDS = 120.0  # each wait covers many steps of several processes, of a second or two each on an idle machine

JsonObject = dict[str, Any]
NODES, NODE_CPU = 2, 8
CPUS = NODES * NODE_CPU
SETTINGS = {"log": {"level": "DEBUG"}, "reclaim": {"minimumRunSeconds": 1, "graceSeconds": 5}}


def bursty(cpu: int) -> JsonObject:
    return latency_spec(str(cpu), 120, 720, reclaim="Evict")


def job(where: str, name: str, pods: int, spec: JsonObject | None = None, **pod_metadata: Any) -> JsonObject:
    """A Job that fails for good with its first failed pod."""
    return work.job(where, name, pods, spec, pod_metadata=pod_metadata, backoffLimit=0)


class ReclaimingCluster(OperatedCluster):
    """A cluster where work is evicted, and containers end when a test says so."""

    patience_seconds = PATIENCE_SECONDS

    def create_retrying(self, obj: JsonObject) -> None:
        """Create an object as a controller does: retry while its quota refuses it or changes."""

        def created() -> bool:
            said = refusal(lambda: self.create(obj))
            assert not said or "resourcequotas" in said or "exceeded quota" in said, said
            return not said

        until(created, PATIENCE_SECONDS, f"{obj['metadata']['name']} to be created")

    def namespace(self, kind: str, **spec: Any) -> str:
        """Return a new namespace with a queue that has been decided on and whose quota is written."""
        where = self.new_namespace(kind.removesuffix("Queue").lower())
        self.govern(where, kind, spec)
        return where

    def ending(self, where: str) -> list[str]:
        return sorted(one["metadata"]["name"] for one in self.items("pods", where) if "deletionTimestamp" in one["metadata"])

    def let_end(self, where: str) -> None:
        """End the namespace's pods that have been asked to end."""
        for name in self.ending(where):
            self._finish(where, name, "Failed")

    def evictions(self, ground: str = "Burst", result: str = "ok") -> float:
        return self.operator.metrics().get(f'fairburst_evictions_total{{ground="{ground}",result="{result}"}}', 0.0)

    def described(self, where: str) -> str:
        """Add all pods with node, phase and deletion, and the counts of evictions."""
        pods = "\n".join(
            f"{one['metadata']['namespace']}/{one['metadata']['name']}: {one['spec'].get('nodeName')}, {one['status']['phase']}, "
            f"{one['metadata'].get('deletionTimestamp')}"
            for one in self.items("pods")
        )
        counts = {name: value for name, value in self.operator.metrics().items() if name.startswith("fairburst_evictions_total")}
        return f"{super().described(where)}\n{pods}\n{counts}"

    def told(self, where: str) -> dict[str, str]:
        """Return the messages of evicted pods by name. Their Jobs get Events, too."""
        about = ((one["involvedObject"], one) for one in self.items("events", where) if one["reason"] == "Reclaimed")
        return {involved["name"]: event["message"] for involved, event in about if involved["kind"] == "Pod"}

    def finish_one(self, where: str) -> None:
        """Let a pod of the namespace's Job succeed. Until one does, the Job controller waits ten seconds before it replaces failed pods,
        doubled for each that has failed, ten minutes at most; ignored failures count as well."""
        self._finish(where, self.running(where)[0], "Succeeded")

    def _finish(self, where: str, name: str, phase: str) -> None:
        """Report the end of the pod's container, as its kubelet would. Without a time of the end the Job controller takes the pod's
        creation: a success that it sees together with earlier failures would then count as older than they are."""
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        terminated = {"exitCode": 0 if phase == "Succeeded" else 137, "startedAt": now, "finishedAt": now}
        container = {"name": "work", "image": "work", "imageID": "work", "ready": False, "restartCount": 0}
        statuses = [container | {"state": {"terminated": terminated}}]
        self.patch("pod", name, where, {"status": {"phase": phase, "containerStatuses": statuses}}, "status")


@pytest.fixture(scope="module")
def started(fresh_cluster: Callable[..., Cluster]) -> Iterator[ReclaimingCluster]:
    cluster = fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi")
    with OperatorProcess(cluster, SETTINGS, "reclaim") as operator:
        yield ReclaimingCluster(cluster, operator)


@pytest.fixture
def site(started: ReclaimingCluster) -> Iterator[ReclaimingCluster]:
    yield started
    started.clear()


def job_failed(site: ReclaimingCluster, where: str, name: str) -> bool:
    status = site.get("job", name, where)["status"]
    return bool(status.get("failed")) or any(one["type"] in {"Failed", "FailureTarget"} for one in status.get("conditions", ()))


def test_a_burst_into_a_full_cluster_runs_at_once_and_the_job_that_made_room_goes_on(site: ReclaimingCluster) -> None:
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


def test_pods_that_may_not_go_stay_and_the_burst_waits(site: ReclaimingCluster) -> None:
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


def test_a_disruption_budget_holds_and_others_are_asked(site: ReclaimingCluster) -> None:
    """Eight pods of one Job may not be disrupted at all; the other Job's are evicted in their stead."""
    batch, burst = site.namespace("ThroughputQueue"), site.namespace("LatencyQueue", **bursty(6))
    label = {"app": "protected"}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all", "namespace": batch}}
    site.create(budget | {"spec": {"minAvailable": 8, "selector": {"matchLabels": label}}})
    site.create(job(batch, "open", 8))
    site.wait_running(batch, 8, "the first Job")
    site.create(job(batch, "protected", 8, labels=label))  # the younger Job, with less to lose, is asked first
    site.wait_running(batch, CPUS, "the cluster to be full")
    until(lambda: site.get("pdb", "all", batch)["status"].get("currentHealthy") == 8, PATIENCE_SECONDS, "the budget to count")
    site.rounds(2)
    refused = site.evictions(result="refused")
    site.create(job(burst, "burst", 6))
    site.wait_running(burst, 6, "the burst to run")
    assert len([name for name in site.running(batch) if name.startswith("protected")]) == 8
    assert site.evictions(result="refused") > refused
    assert not job_failed(site, batch, "open")


def test_victims_that_take_their_time_count_as_coming_free_also_after_a_restart_in_between(site: ReclaimingCluster) -> None:
    batch, burst = site.namespace("ThroughputQueue"), site.namespace("LatencyQueue", **bursty(6))
    site.create(job(batch, "slow", CPUS, pod_spec(grace_seconds=3600), annotations={"stop-seconds": "3600s"}))
    site.wait_running(batch, CPUS, "the Job to fill the cluster")
    site.create(job(burst, "burst", 6))
    until(lambda: len(site.ending(batch)) == 6, PATIENCE_SECONDS, "six to be asked to end")
    ending = site.ending(batch)
    site.operator.kill()
    site.operator.start()
    site.rounds(5)
    assert site.ending(batch) == ending, "no other pod is asked"
    assert site.running(burst) == []
    assert site.evictions() == 0.0, "of the process that has just started"
    site.let_end(batch)
    site.wait_running(burst, 6, "the burst to run in their places")
    assert len(site.running(batch)) == CPUS - 6
    assert not job_failed(site, batch, "slow")


def test_a_throughput_queue_gets_its_fair_share_after_the_grace_time_and_no_more(site: ReclaimingCluster) -> None:
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


def test_a_deployments_pods_go_only_if_their_template_says_so_and_come_back(site: ReclaimingCluster) -> None:
    batch, burst = site.namespace("ThroughputQueue"), site.namespace("LatencyQueue", **bursty(6))
    site.create(deployment(batch, "firm", CPUS - 6), deployment(batch, "willing", 6, annotations={"fairburst.dev/reclaimable": "true"}))
    site.wait_running(batch, CPUS, "the cluster to be full")
    site.create(job(burst, "burst", 6))
    site.wait_running(burst, 6, "the burst to run")
    assert {name.split("-")[0] for name in site.running(batch)} == {"firm"}
    site.cluster.kubectl("delete", "job", "burst", "-n", burst)
    site.wait_running(batch, CPUS, "the replicas to come back")


def test_no_job_fails_though_two_hundred_of_its_pods_are_evicted(fresh_cluster: Callable[..., Cluster]) -> None:
    """Each of two Jobs of backoffLimit 0 would fail with the first failure that counts."""
    pods, burst_pods = 320, 200
    cluster = fresh_cluster(nodes=10, node_cpu="32", node_memory="256Gi")
    with OperatorProcess(cluster, SETTINGS, "reclaim-200") as operator:
        site = ReclaimingCluster(cluster, operator)
        batches = [site.namespace("ThroughputQueue") for _ in range(2)]
        burst = site.namespace("LatencyQueue", **bursty(burst_pods))
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
