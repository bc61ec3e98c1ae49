"""Queues in Suspend mode on a real control plane: Jobs are created suspended, start whole and in order, and none is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.kube.names import HELD_ANNOTATION, RELEASED_ANNOTATION
from tests.support.job_set_crd import install, job_set

pytestmark = pytest.mark.slow

JsonObject = dict[str, Any]
NODES, NODE_CPU = 2, 8
CPUS = NODES * NODE_CPU
NAMESPACES = ("prioritized", "ordered", "respected", "in-turn", "to-gate", "to-observe", "deleted", "uninstalled")
OWED_SECONDS = 120.0  # until a queue of two equal ones is owed a minute of all places


def queue(where: str) -> JsonObject:
    metadata = {"name": "queue", "namespace": where}
    return {"apiVersion": "fairburst.dev/v1alpha1", "kind": "ThroughputQueue", "metadata": metadata, "spec": {"enforcement": "Suspend"}}


def job(where: str, name: str, pods: int, metadata: JsonObject | None = None, **spec: Any) -> JsonObject:
    """A Job whose pods run until they are deleted."""
    container = {"name": "work", "image": "work", "resources": {"requests": {"cpu": "1", "memory": "128Mi"}}}
    template = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}}
    body = {"parallelism": pods, "template": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": where, **(metadata or {})}, "spec": body}


class Site:
    """A cluster, an operator, and a queue in Suspend mode in each of NAMESPACES."""

    def __init__(self, cluster: Cluster, operator: OperatorProcess) -> None:
        self.cluster, self.operator = cluster, operator
        for where in NAMESPACES:
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}}, queue(where))
        for where in NAMESPACES:
            until(lambda where=where: self.would_be_held(job(where, "probe", 1)), PATIENCE_SECONDS, f"the policy to hold Jobs in {where}")  # type: ignore[misc]

    def create(self, *objects: JsonObject) -> None:
        self.cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all(objects), timeout=60)

    def would_be_held(self, obj: JsonObject) -> bool:
        """Whether the API server would store a Job suspended and with our note."""
        stored = json.loads(self.cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(obj)))
        noted = HELD_ANNOTATION in stored["metadata"].get("annotations", {})
        assert noted <= bool(stored["spec"].get("suspend"))
        return noted

    def jobs(self, where: str) -> dict[str, JsonObject]:
        items = json.loads(self.cluster.kubectl("get", "jobs", "-n", where, "-o", "json"))["items"]
        return {item["metadata"]["name"]: item for item in items}

    def waiting(self, where: str) -> list[str]:
        return sorted(name for name, one in self.jobs(where).items() if one["spec"]["suspend"])

    def running(self, where: str) -> int:
        return len(self.cluster.kubectl("get", "pods", "-n", where, "--field-selector=status.phase=Running", "-o", "name").split())

    def patch(self, kind: str, name: str, where: str, change: JsonObject) -> None:
        self.cluster.kubectl("patch", kind, name, "-n", where, "--type=merge", "-p", json.dumps(change))

    def empty(self, where: str) -> None:
        """Delete the queue and its Jobs, so that the room is others' again."""
        self.cluster.kubectl("delete", "throughputqueue,job", "--all", "-n", where, "--cascade=foreground", timeout=90)


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Iterator[Site]:
    cluster = fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi")
    with OperatorProcess(cluster, {"log": {"level": "DEBUG"}, "allocation": {"largestTurnPercent": 100}}, "suspend") as operator:
        yield Site(cluster, operator)


def owned(kind: str, api: str) -> JsonObject:
    return {"ownerReferences": [{"apiVersion": api, "kind": kind, "name": "owner", "uid": "1", "controller": True}]}


def test_new_jobs_are_suspended_with_our_note_unless_somebody_else_starts_them(site: Site) -> None:
    table = {
        "plain": (job("prioritized", "a", 1), True),
        "suspended by its user at creation": (job("prioritized", "a", 1, suspend=True), True),
        "with annotations": (job("prioritized", "a", 1, {"annotations": {"other": "x"}}), True),
        "of a CronJob": (job("prioritized", "a", 1, owned("CronJob", "batch/v1")), True),
        "of a JobSet": (job("prioritized", "a", 1, owned("JobSet", "jobset.x-k8s.io/v1alpha2")), False),
        "queued by Kueue": (job("prioritized", "a", 1, {"labels": {"kueue.x-k8s.io/queue-name": "q"}}), False),
        "managed on another cluster": (job("prioritized", "a", 1, managedBy="kueue.x-k8s.io/multikueue"), False),
        "elsewhere": (job("default", "a", 1), False),
    }
    assert {case: site.would_be_held(obj) for case, (obj, _) in table.items()} == {case: want for case, (_, want) in table.items()}


def test_jobs_start_whole_and_in_order_and_wait_while_the_operator_is_absent(site: Site) -> None:
    where = "ordered"
    site.create(job(where, "a", 10), job(where, "b", 12), job(where, "c", 4))  # within one second names decide
    until(lambda: site.running(where) == 10, PATIENCE_SECONDS, "the first to run whole")
    assert site.waiting(where) == ["b", "c"], "six places are too few for the second, and the third does not pass it"
    site.patch("job", "b", where, {"spec": {"parallelism": 6}})
    until(lambda: site.waiting(where) == ["c"], PATIENCE_SECONDS, "the second to start by what it is now")
    site.operator.kill()
    site.cluster.kubectl("delete", "job", "a", "-n", where, "--cascade=foreground", timeout=60)
    site.create(job(where, "d", 2))
    assert site.waiting(where) == ["c", "d"], "new Jobs are held all the same"
    site.operator.start()
    until(lambda: site.waiting(where) == [], PATIENCE_SECONDS, "the operator to start them when it is back")
    until(lambda: site.running(where) == 12, PATIENCE_SECONDS, "all pods to run")
    site.empty(where)


def test_a_users_own_suspension_is_respected(site: Site) -> None:
    where = "respected"
    site.create(job(where, "a", 2))
    until(lambda: site.running(where) == 2, PATIENCE_SECONDS, "it to start")
    annotations = site.jobs(where)["a"]["metadata"]["annotations"]
    assert RELEASED_ANNOTATION in annotations
    assert HELD_ANNOTATION not in annotations
    site.patch("job", "a", where, {"spec": {"suspend": True}})
    until(lambda: site.running(where) == 0, PATIENCE_SECONDS, "its pods to go")
    site.create(job(where, "b", 3))
    until(lambda: site.running(where) == 3, PATIENCE_SECONDS, "another Job to start meanwhile")
    assert site.waiting(where) == ["a"]
    site.patch("job", "a", where, {"spec": {"suspend": False}})
    until(lambda: site.running(where) == 5, PATIENCE_SECONDS, "it to go on when its user says so")
    site.empty(where)


def test_a_job_that_needs_every_place_starts_in_its_queues_turn_beside_one_that_could_use_them_all(site: Site) -> None:
    where, rival = "in-turn", "rival"
    site.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": rival}}, queue(rival) | {"spec": {"enforcement": "Quota"}})
    busy = job(rival, "busy", 2 * CPUS, completions=100_000)
    busy["spec"]["template"]["metadata"] = {"annotations": {"run-seconds": "5s"}}
    site.create(busy)
    until(lambda: site.running(rival) > CPUS // 2, PATIENCE_SECONDS, "the other queue to use the places")
    site.create(job(where, "whole", CPUS))
    until(lambda: site.waiting(where) == [], OWED_SECONDS + PATIENCE_SECONDS, "the Job to start, although half of the places are its share")
    until(lambda: site.running(where) == CPUS, PATIENCE_SECONDS, "all of its pods to run at once")
    site.empty(rival)
    site.empty(where)


LEAVING: dict[str, Callable[[Site], object]] = {
    "to-gate": lambda site: site.patch("throughputqueue", "queue", "to-gate", {"spec": {"enforcement": "Gate"}}),
    "to-observe": lambda site: site.patch("throughputqueue", "queue", "to-observe", {"spec": {"enforcement": "Observe"}}),
    "deleted": lambda site: site.cluster.kubectl("delete", "throughputqueue", "queue", "-n", "deleted"),
}


@pytest.mark.parametrize("where", LEAVING)
def test_no_job_stays_suspended_when_its_queue_leaves_suspend_mode(site: Site, where: str) -> None:
    site.create(job(where, "a", 10), job(where, "b", 10), job(where, "c", 10))
    until(lambda: site.waiting(where) == ["b", "c"], PATIENCE_SECONDS, "the first to start")
    LEAVING[where](site)
    until(lambda: site.waiting(where) == [], PATIENCE_SECONDS, "all to start")
    until(lambda: not site.would_be_held(job(where, "new", 1)), PATIENCE_SECONDS, "new Jobs not to be held")
    site.empty(where)


def test_uninstalling_starts_all_and_new_jobs_are_not_held(site: Site, tmp_path: Path) -> None:
    """Last in this module: its operator ends here."""
    where = "uninstalled"
    site.create(job(where, "a", 10), job(where, "b", 10))
    until(lambda: site.waiting(where) == ["b"], PATIENCE_SECONDS, "one to wait")
    install(site.cluster, where)
    a_set = job_set(where, "c", job(where, "", 1)["spec"]["template"]["spec"], 2, 5)
    until(lambda: site.would_be_held(a_set), PATIENCE_SECONDS, "the policy to hold JobSets, a kind that it had not seen")
    site.create(a_set)
    site.operator.stop()
    config = tmp_path / "admin.yaml"
    config.write_text(yaml.safe_dump({"kubeconfig": str(site.cluster.kubeconfig)}))
    command = [sys.executable, "-m", "fairburst", "uninstall", "--config", str(config)]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    told = sorted(line for line in printed.splitlines() if line.startswith("released"))  # sent concurrently: told as they are answered
    assert told == [f"released jobs {where}/b", f"released jobsets {where}/c"]
    assert site.waiting(where) == []
    started = json.loads(site.cluster.kubectl("get", "jobset", "c", "-n", where, "-o", "json"))
    assert (started["spec"]["suspend"], HELD_ANNOTATION in started["metadata"]["annotations"]) == (False, False)
    assert not site.would_be_held(job(where, "new", 1))
