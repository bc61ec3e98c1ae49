"""Queues in Suspend mode on a real control plane: Jobs are created suspended, start whole and in order, and none is left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.kube.names import HELD_ANNOTATION, RELEASED_ANNOTATION
from tests.support.job_set_crd import install, job_set
from tests.support.live_cluster import OperatedCluster
from tests.support.queues import queue
from tests.support.work import job, namespace, pod_spec

pytestmark = pytest.mark.slow

JsonObject = dict[str, Any]
NODES, NODE_CPU = 2, 8
CPUS = NODES * NODE_CPU
NAMESPACES = ("prioritized", "ordered", "respected", "defaulted", "in-turn", "to-gate", "to-observe", "deleted", "uninstalled")
OWED_SECONDS = 120.0  # until a queue of two equal ones is owed a minute of all places


SUSPEND = {"enforcement": "Suspend"}


class SuspendingQueues(OperatedCluster):
    """A queue in Suspend mode in each of NAMESPACES."""

    def __init__(self, cluster: Cluster, operator: OperatorProcess) -> None:
        super().__init__(cluster, operator)
        self.create(*map(namespace, NAMESPACES), *(queue("ThroughputQueue", SUSPEND, where) for where in NAMESPACES))
        for where in NAMESPACES:
            self.until(lambda where=where: self.would_be_held(job(where, "probe", 1)), f"the policy to hold Jobs in {where}")  # type: ignore[misc]

    def would_be_held(self, obj: JsonObject) -> bool:
        """Return whether the API server would store a Job suspended and with our note."""
        stored = self.stored(obj)
        noted = HELD_ANNOTATION in stored["metadata"].get("annotations", {})
        assert noted <= bool(stored["spec"].get("suspend"))
        return noted

    def waiting(self, where: str) -> list[str]:
        return sorted(one["metadata"]["name"] for one in self.items("jobs", where) if one["spec"]["suspend"])

    def empty(self, where: str) -> None:
        """Delete the queue and its Jobs, so that the room is others' again."""
        self.cluster.kubectl("delete", "throughputqueue,job", "--all", "-n", where, "--cascade=foreground", timeout=90)


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Iterator[SuspendingQueues]:
    cluster = fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi")
    with OperatorProcess(cluster, {"log": {"level": "DEBUG"}, "allocation": {"largestTurnPercent": 100}}, "suspend") as operator:
        yield SuspendingQueues(cluster, operator)


def owned(kind: str, api: str) -> JsonObject:
    return {"ownerReferences": [{"apiVersion": api, "kind": kind, "name": "owner", "uid": "1", "controller": True}]}


def test_new_jobs_are_suspended_with_our_note_unless_somebody_else_starts_them(site: SuspendingQueues) -> None:
    table = {
        "plain": (job("prioritized", "a", 1), True),
        "suspended by its user at creation": (job("prioritized", "a", 1, suspend=True), True),
        "with annotations": (job("prioritized", "a", 1, metadata={"annotations": {"other": "x"}}), True),
        "of a CronJob": (job("prioritized", "a", 1, metadata=owned("CronJob", "batch/v1")), True),
        "of a JobSet": (job("prioritized", "a", 1, metadata=owned("JobSet", "jobset.x-k8s.io/v1alpha2")), False),
        "queued by Kueue": (job("prioritized", "a", 1, metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}), False),
        "managed on another cluster": (job("prioritized", "a", 1, managedBy="kueue.x-k8s.io/multikueue"), False),
        "elsewhere": (job("default", "a", 1), False),
    }
    assert {case: site.would_be_held(obj) for case, (obj, _) in table.items()} == {case: want for case, (_, want) in table.items()}


def test_jobs_start_whole_and_in_order_and_wait_while_the_operator_is_absent(site: SuspendingQueues) -> None:
    where = "ordered"
    site.create(job(where, "a", 10), job(where, "b", 12), job(where, "c", 4))  # within one second names decide
    site.wait_running(where, 10, "the first to run whole")
    assert site.waiting(where) == ["b", "c"], "six places are too few for the second, and the third does not pass it"
    site.patch("job", "b", where, {"spec": {"parallelism": 6}})
    until(lambda: site.waiting(where) == ["c"], PATIENCE_SECONDS, "the second to start by what it is now")
    site.operator.kill()
    site.cluster.kubectl("delete", "job", "a", "-n", where, "--cascade=foreground")
    site.create(job(where, "d", 2))
    assert site.waiting(where) == ["c", "d"], "new Jobs are held all the same"
    site.operator.start()
    until(lambda: site.waiting(where) == [], PATIENCE_SECONDS, "the operator to start them when it is back")
    site.wait_running(where, 12, "all pods to run")
    site.empty(where)


def test_a_users_own_suspension_is_respected(site: SuspendingQueues) -> None:
    where = "respected"
    site.create(job(where, "a", 2))
    site.wait_running(where, 2, "it to start")
    annotations = site.get("job", "a", where)["metadata"]["annotations"]
    assert RELEASED_ANNOTATION in annotations
    assert HELD_ANNOTATION not in annotations
    site.patch("job", "a", where, {"spec": {"suspend": True}})
    site.wait_running(where, 0, "its pods to go")
    site.create(job(where, "b", 3))
    site.wait_running(where, 3, "another Job to start meanwhile")
    assert site.waiting(where) == ["a"]
    site.patch("job", "a", where, {"spec": {"suspend": False}})
    site.wait_running(where, 5, "it to go on when its user says so")
    site.empty(where)


def test_a_job_whose_requests_a_limit_range_supplies_starts_with_room_for_its_pods(site: SuspendingQueues) -> None:
    defaults = {"type": "Container", "defaultRequest": {"cpu": "2", "memory": "128Mi"}}
    limits = {"metadata": {"name": "defaults", "namespace": "defaulted"}, "spec": {"limits": [defaults]}}
    site.create({"apiVersion": "v1", "kind": "LimitRange", **limits})
    site.rounds(2)
    nothing = pod_spec()
    nothing["containers"] = [{"name": "work", "image": "work"}]
    site.create(job("defaulted", "plain", 3, nothing))
    site.wait_running("defaulted", 3)
    site.empty("defaulted")


def test_a_job_that_needs_every_place_starts_in_its_queues_turn_beside_one_that_could_use_them_all(site: SuspendingQueues) -> None:
    where, rival = "in-turn", "rival"
    site.create(namespace(rival), queue("ThroughputQueue", {"enforcement": "Quota"}, rival))
    site.create(job(rival, "busy", 2 * CPUS, seconds=5, completions=100_000))
    until(lambda: len(site.running(rival)) > CPUS // 2, PATIENCE_SECONDS, "the other queue to use the places")
    site.create(job(where, "whole", CPUS))
    until(lambda: site.waiting(where) == [], OWED_SECONDS + PATIENCE_SECONDS, "the Job to start, although half of the places are its share")
    site.wait_running(where, CPUS, "all of its pods to run at once")
    site.empty(rival)
    site.empty(where)


LEAVING: dict[str, Callable[[SuspendingQueues], object]] = {
    "to-gate": lambda site: site.patch("throughputqueue", "queue", "to-gate", {"spec": {"enforcement": "Gate"}}),
    "to-observe": lambda site: site.patch("throughputqueue", "queue", "to-observe", {"spec": {"enforcement": "Observe"}}),
    "deleted": lambda site: site.cluster.kubectl("delete", "throughputqueue", "queue", "-n", "deleted"),
}


@pytest.mark.parametrize("where", LEAVING)
def test_no_job_stays_suspended_when_its_queue_leaves_suspend_mode(site: SuspendingQueues, where: str) -> None:
    site.create(job(where, "a", 10), job(where, "b", 10), job(where, "c", 10))
    until(lambda: site.waiting(where) == ["b", "c"], PATIENCE_SECONDS, "the first to start")
    LEAVING[where](site)
    until(lambda: site.waiting(where) == [], PATIENCE_SECONDS, "all to start")
    until(lambda: not site.would_be_held(job(where, "new", 1)), PATIENCE_SECONDS, "new Jobs not to be held")
    site.empty(where)


def test_uninstalling_starts_all_and_new_jobs_are_not_held(site: SuspendingQueues, tmp_path: Path) -> None:
    """This test must be the last: it ends the operator."""
    where = "uninstalled"
    site.create(job(where, "a", 10), job(where, "b", 10))
    until(lambda: site.waiting(where) == ["b"], PATIENCE_SECONDS, "one to wait")
    install(site.cluster, where)
    a_set = job_set(where, "c", pod_spec(), 2, 5)
    until(lambda: site.would_be_held(a_set), PATIENCE_SECONDS, "the policy to hold JobSets, a kind that it had not seen")
    site.create(a_set)
    assert site.uninstall(tmp_path) == [f"released jobs {where}/b", f"released jobsets {where}/c"]
    assert site.waiting(where) == []
    started = site.get("jobset", "c", where)
    assert (started["spec"]["suspend"], HELD_ANNOTATION in started["metadata"]["annotations"]) == (False, False)
    assert not site.would_be_held(job(where, "new", 1))
