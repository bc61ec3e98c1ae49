"""The reserve for small jobs of the default queue of a namespace with several queues, on a real control plane."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.config import parse_config
from fairburst.kube.admission.mutation import asked_queue, governing, job_patch, pod_patch
from fairburst.kube.names import LANE_CLASSES, OUR_QUOTAS
from fairburst.quantity import parse_quantity
from tests.support.fake_api import json_patch
from tests.support.live_cluster import QUEUES, LiveCluster, on_nodes
from tests.support.prioritized_objects import owner, pod
from tests.support.queues import queue
from tests.support.work import job, namespace, pod_spec, task_job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(570)]

NODES, NODE_CPU = 4, 8
TEAM, DEFAULT = "team", "batch"
LARGE_PODS, LARGE_SECONDS = 300, "17s,21s,18s,22s,19s,23s,20s"
SMALL_JOBS, SMALL_PODS, SMALL_SECONDS = 5, 3, 5  # 3 cpu of 32: small
SMALL, LARGE, NIGHTLY = "fairburst-small", "fairburst-large", "fairburst-queue-1"
ASKING = {"labels": {"fairburst.dev/queue": "nightly"}}
OF_A_JOB = {"ownerReferences": [owner("Job", "batch/v1")]}


class Team(LiveCluster):
    """A namespace whose default queue and whose further queue have more large work than the pool holds."""

    def work(self, name: str, pods: int, seconds: int, **more: Any) -> None:
        self.create(job(TEAM, name, pods, pod_spec(memory="1Gi"), seconds=seconds, **more))

    def classes(self) -> Counter[str]:
        """Return the classes of the pods that have a node."""
        return Counter(one["spec"]["priorityClassName"] for one in on_nodes(self.items("pods", TEAM)))

    def quotas(self) -> dict[str, dict[str, Any]]:
        return {one["metadata"]["name"]: one for one in self.items("resourcequotas", TEAM) if one["metadata"]["name"] in OUR_QUOTAS}

    def counting(self) -> dict[str, list[str]]:
        """Return the quotas that count each class that is given to pods of this namespace, and pods without a class."""
        scopes = {name: one["spec"]["scopeSelector"]["matchExpressions"] for name, one in self.quotas().items()}
        return {
            given: sorted(name for name, (term,) in scopes.items() if (given in term["values"]) == (term["operator"] == "In"))
            for given in (SMALL, LARGE, "", *LANE_CLASSES.values())
        }

    def charged(self) -> dict[str, float]:
        """Return the cpu that each quota counts."""
        return {name: float(parse_quantity(one["status"]["used"]["requests.cpu"])) for name, one in self.quotas().items()}

    def started(self, name: str) -> int:
        """Return how many pods of a Job run or have ended."""
        status = self.get("job", name, TEAM).get("status", {})
        return int(status.get("ready", 0)) + int(status.get("succeeded", 0))


@pytest.fixture(scope="module")
def team(fresh_cluster: Callable[..., Cluster]) -> Iterator[Team]:
    cluster = fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi")
    with OperatorProcess(cluster, {"rounds": {"debounceMilliseconds": 200}}, "small-of-several"):
        found = Team(cluster)
        found.create(namespace(TEAM), queue("ThroughputQueue", {}, TEAM, DEFAULT))
        until(lambda: found.status(TEAM, DEFAULT).get("class") == "Elastic", PATIENCE_SECONDS, "the default queue to be admitted")
        found.create(queue("ThroughputQueue", {}, TEAM, "nightly"))
        until(lambda: found.counting()[NIGHTLY] == [NIGHTLY], PATIENCE_SECONDS, "the quota of the further queue")
        body = job(TEAM, "one", 1)
        sized = pod({"namespace": TEAM, "labels": {"fairburst.dev/size": "small"}, **OF_A_JOB})
        until(lambda: "labels" in found.stored(body)["metadata"], PATIENCE_SECONDS, "the API server to size new Jobs")
        asking = pod({"namespace": TEAM, **ASKING})
        until(lambda: found.priority_of(asking) == NIGHTLY, PATIENCE_SECONDS, "the API server to see the new labels of the namespace")
        until(lambda: found.priority_of(sized) == SMALL, PATIENCE_SECONDS, "pods of small Jobs to get their class")
        yield found


def test_the_webhook_would_give_the_same_classes_and_sizes(team: Team) -> None:
    """By the statuses, where the policies go by labels and the namespace quota. Nothing is created, so the quotas have room."""
    config = parse_config("")
    queues = {(one["kind"], TEAM, one["metadata"]["name"]): one for one in team.items(QUEUES, TEAM)}

    def classes(body: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(body["spec"].get(name) for name in ("priorityClassName", "priority", "preemptionPolicy"))

    for asked, size, owned in itertools.product((None, "nightly", "missing"), (None, "small", "large"), ({}, OF_A_JOB)):
        labels = {name: text for name, text in (("fairburst.dev/queue", asked), ("fairburst.dev/size", size)) if text is not None}
        body = pod({"namespace": TEAM, "labels": labels, **owned})
        patched = json_patch(body, pod_patch(body, asked_queue(queues, body, TEAM, "default"), config))
        assert classes(team.stored(body)) == classes(patched), (asked, size, owned)
    for asked, pods in itertools.product((None, "nightly", "missing"), (1, 64)):
        metadata = {} if asked is None else {"labels": {"fairburst.dev/queue": asked}}
        body = job(TEAM, "one", pods, pod_metadata=metadata)
        patched = json_patch(body, job_patch(body, None, governing(queues, TEAM, "default"), config, None))
        sizes = [one["metadata"]["labels"]["fairburst.dev/size"] for one in (team.stored(body), patched)]
        assert sizes == ["small" if pods == 1 else "large"] * 2, (asked, pods)


@pytest.fixture(scope="module")
def full(team: Team) -> None:
    """The team with more large work in both queues than the pool holds, and a small Job of the further queue that ran before:
    afterwards the full quota of that queue, which keeps no reserve, has no place for one for minutes."""
    team.work("tiny", 1, SMALL_SECONDS, pod_metadata=ASKING)
    until(lambda: team.started("tiny"), 2 * PATIENCE_SECONDS, "the further queue's small Job to start")
    team.create(staggered("large"), staggered("night", ASKING))
    until(lambda: sum(team.classes().values()) >= NODES * NODE_CPU - 2, 2 * PATIENCE_SECONDS, "the cluster to be full")


@pytest.mark.usefixtures("full")
def test_a_small_job_starts_from_the_reserve_while_large_work_and_the_further_queue_keep_the_cluster_full(team: Team) -> None:
    """Without a reserve, the quota of a full queue has no place for a small Job for minutes."""
    overtaken, running = list[int](), Counter[str]()
    for number in range(SMALL_JOBS):
        before = team.started("large")
        team.work(f"small-{number}", SMALL_PODS, SMALL_SECONDS)
        until(lambda one=f"small-{number}": team.started(one) == SMALL_PODS, 2 * PATIENCE_SECONDS, "the small Job to start")
        overtaken.append(team.started("large") - before)
        running += team.classes()
    mean = {name: count / SMALL_JOBS for name, count in running.items()}
    print(f"pods of the large Job that started while a small Job waited: {overtaken}; pods on nodes: {mean}")
    assert team.started("large") < LARGE_PODS, "it came first, and still waits"
    assert statistics.median(overtaken) <= NODES * NODE_CPU / 2, "no more than its queue runs at one time"
    assert sum(mean.values()) >= 0.85 * NODES * NODE_CPU, mean
    assert mean[NIGHTLY] >= 0.4 * NODES * NODE_CPU, "the reserve is of the default queue's level"


def staggered(name: str, pod_metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    """A Job whose pods end in turn and not in waves."""
    made = task_job(TEAM, name, LARGE_PODS, LARGE_PODS, run_seconds=LARGE_SECONDS)
    made["spec"]["template"]["metadata"] |= pod_metadata or {}
    return made


@pytest.mark.usefixtures("full")
def test_pods_have_the_class_of_their_size_and_those_of_the_further_queue_its_class(team: Team) -> None:
    """Whatever the size of the further queue's Jobs: their label is that of all Jobs of the namespace."""
    team.work("little", 1, SMALL_SECONDS)
    until(lambda: team.started("little"), 2 * PATIENCE_SECONDS, "the small Job to start")
    given = Counter[tuple[str, str]]()
    for one in team.items("pods", TEAM):
        labels, spec = one["metadata"]["labels"], one["spec"]
        given[labels["batch.kubernetes.io/job-name"].partition("-")[0], spec["priorityClassName"]] += 1
        assert spec["preemptionPolicy"] == "Never"
        assert spec["priority"] == class_value(team, spec["priorityClassName"])
    known = given.keys() - {("small", SMALL)}  # the Jobs of the test before
    assert known == {("large", LARGE), ("night", NIGHTLY), ("little", SMALL), ("tiny", NIGHTLY)}
    sizes = {"large": "large", "night": "large", "little": "small", "tiny": "small"}
    assert {name: team.get("job", name, TEAM)["metadata"]["labels"]["fairburst.dev/size"] for name in sizes} == sizes


def class_value(team: Team, name: str) -> int:
    return int(team.get("priorityclass", name)["value"])


def test_a_lie_about_the_size_changes_no_class(team: Team) -> None:
    lie = {"labels": {"fairburst.dev/size": "small"}}
    template = team.stored(job(TEAM, "liar", 64, pod_metadata=lie))["spec"]["template"]
    assert template["metadata"]["labels"]["fairburst.dev/size"] == "large"


@pytest.mark.usefixtures("full")
def test_the_statuses_say_which_queue_keeps_a_reserve(team: Team) -> None:
    status = team.status(TEAM, DEFAULT)
    assert status["smallPodPriority"]["className"] == SMALL
    assert status["reserve"]["smallJobs"] >= 0
    assert "smallPodPriority" not in team.status(TEAM, "nightly")
    assert "reserve" not in team.condition(TEAM, "Enforced", DEFAULT)["message"]
    assert "keeps no reserve for small Jobs" in team.condition(TEAM, "Enforced", "nightly")["message"]


@pytest.mark.usefixtures("full")
def test_every_pod_counts_for_one_quota_while_the_further_queue_goes_and_comes_back(team: Team) -> None:
    """Under load, with small pods all the time: each pod counts for at least one quota, and for one in the end."""
    team.work("steady", LARGE_PODS, SMALL_SECONDS, metadata={"labels": {"app": "steady"}})
    for number in range(20):
        team.work(f"stream-{number}", SMALL_PODS, 4 * SMALL_SECONDS)
    until(lambda: len(team.counting()) and team.counting()[SMALL] == [SMALL], PATIENCE_SECONDS, "the quota of small Jobs")
    seen = list[dict[str, list[str]]]()

    def at_rest(*lanes: str) -> bool:
        seen.append(team.counting())
        return seen[-1] == {given: [given if given in {SMALL, *lanes} else "fairburst"] for given in seen[-1]}

    for _ in range(2):
        team.delete("throughputqueue", "nightly", TEAM)
        until(at_rest, PATIENCE_SECONDS, "the namespace quota to count the pods of the deleted queue")
        team.create(queue("ThroughputQueue", {}, TEAM, "nightly"))
        until(lambda: team.status(TEAM, "nightly").get("podPriority"), PATIENCE_SECONDS, "the new queue's class")
        given = team.status(TEAM, "nightly")["podPriority"]["className"]
        until(lambda lane=given: at_rest(lane), PATIENCE_SECONDS, "the new queue's quota")
    assert all(all(names.values()) for names in seen), f"pods that count for no quota: {seen}"
    assert all(len(names) <= 2 for one in seen for names in one.values()), seen
    team.delete("job", "night", TEAM)
    team.delete("job", "large", TEAM)
    until(lambda: alive(team) == sum(team.charged().values()) > 0, PATIENCE_SECONDS, "each pod to be charged once")


def alive(team: Team) -> float:
    """Return the cpu of the pods that have not ended."""
    return float(sum(one["status"]["phase"] not in {"Succeeded", "Failed"} for one in team.items("pods", TEAM)))
