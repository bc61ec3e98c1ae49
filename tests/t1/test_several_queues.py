"""Several queues in one namespace on a real control plane: shares, the burst that no write of ours precedes, a tenant's tricks."""

from __future__ import annotations

import asyncio
import copy
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import Cluster, ClusterError
from e2e.harness import OperatorProcess
from e2e.waiting import until
from fairburst.kube.names import QUOTA_NAME
from fairburst.quantity import parse_quantity
from tests.support import work
from tests.support.attacks import PATIENCE_SECONDS, Arena, JsonObject, Tenant, pod
from tests.support.audit import at, writes_of
from tests.support.job_set_crd import install, job_set
from tests.support.live_cluster import burst_at_once, on_nodes
from tests.support.objects import latency_spec
from tests.support.queues import queue
from tests.support.work import job, pod_spec

pytestmark = [pytest.mark.slow, pytest.mark.timeout(570)]

NODES, NODE_CPU, BURST = 4, 16, 16
QUEUE = "fairburst.dev/queue"
CLASSES = {"nightly": "fairburst-queue-1", "weekly": "fairburst-queue-2"}


def asking_for(name: str, pod_name: str, **spec: Any) -> JsonObject:
    """A pod that asks for a queue by its label."""
    return work.pod("", pod_name, pod_spec(**spec), labels={QUEUE: name})


class Team:
    """A tenant with a latency queue and two throughput queues, and another tenant with one queue."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.rival = arena.tenant()
        self.tenant = arena.tenant("LatencyQueue", **latency_spec(str(BURST), 20, 60))
        for name, weight in (("nightly", 2), ("weekly", 1)):
            arena.create(queue("ThroughputQueue", {"weight": weight}, self.tenant.name, name))
        for name, class_name in CLASSES.items():
            until(lambda name=name, want=class_name: self.class_given(name) == want, PATIENCE_SECONDS, f"the class of {name}")
            until(lambda want=class_name: want in self.quotas(), PATIENCE_SECONDS, f"the quota of {name}")

    def class_given(self, name: str) -> str:
        return str(self.arena.status(self.tenant.name, name).get("podPriority", {}).get("className", ""))

    def quotas(self) -> dict[str, JsonObject]:
        return {one["metadata"]["name"]: one for one in self.arena.items("resourcequotas", self.tenant.name)}

    def work(self, where: Tenant, name: str, of: str = "") -> None:
        """A Job of many short pods, which asks for a queue."""
        labels = {"labels": {QUEUE: of}} if of else {}
        where.create(job(where.name, name, 64, pod_spec(memory="1Gi"), seconds=5, completions=5000, pod_metadata=labels))

    def done(self, where: Tenant, name: str) -> int:
        """Return how many tasks of a Job have ended."""
        return int(self.arena.get("job", name, where.name)["status"].get("succeeded", 0))

    def running(self) -> Counter[str]:
        """Bound pods that have not ended, by class, those of the rival as `rival`."""
        found = Counter[str]()
        for tenant in (self.tenant, self.rival):
            for one in on_nodes(self.arena.items("pods", tenant.name)):
                found["rival" if tenant is self.rival else one["spec"]["priorityClassName"]] += 1
        return found

    def class_of(self, name: str) -> str:
        return str(json.loads(self.tenant("get", "pod", name, "-o", "json"))["spec"]["priorityClassName"])


@pytest.fixture(scope="module")
def team(fresh_cluster: Callable[..., Cluster]) -> Iterator[Team]:
    cluster = fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi", audit=True)
    settings = {"rounds": {"debounceMilliseconds": 1000}, "smallJobs": {"enabled": False}}
    with OperatorProcess(cluster, settings, "several-queues") as operator:
        yield Team(Arena(cluster, operator))


def test_each_pod_gets_the_class_of_a_queue_of_its_namespace_whatever_it_says(team: Team) -> None:
    """Labels of no queue, of another tenant's, and odd ones fall to the default queue; so does a class that a pod names itself."""
    team.tenant.create(pod("plain"))
    default = team.class_of("plain")
    assert default not in CLASSES.values()
    labels = {"missing": "missing", "odd": "Nightly_x", "empty": "", "lane": "queue-1", "theirs": "queue"}
    for name, label in labels.items():
        team.tenant.create(asking_for(label, name))
    named = pod("named", priorityClassName="fairburst-queue-1")
    team.tenant.create(named)
    both = asking_for("weekly", "both", priorityClassName="fairburst-hard")
    team.tenant.create(both)
    assert {name: team.class_of(name) for name in (*labels, "named")} == dict.fromkeys((*labels, "named"), default)
    assert team.class_of("both") == CLASSES["weekly"]
    found = json.loads(team.tenant("get", "pod", "both", "-o", "json"))["spec"]
    assert (found["priority"], found["preemptionPolicy"]) == (class_value(team, "fairburst-large"), "Never")
    used = {name: one["status"]["used"]["requests.cpu"] for name, one in team.quotas().items()}
    assert used == {"fairburst": str(len(labels) + 2), "fairburst-queue-1": "0", "fairburst-queue-2": "1"}


def armed(team: Team) -> bool:
    """Whether the quota has the burst's room, and both of the operator's writes have been answered: that of the status comes first."""
    quota = team.arena.get("resourcequota", QUOTA_NAME, team.tenant.name)
    return team.arena.enforced_cpu(team.tenant.name) >= BURST and quota["spec"]["hard"] == quota["status"]["hard"]


def class_value(team: Team, name: str) -> int:
    return int(team.arena.get("priorityclass", name)["value"])


def test_a_label_changed_after_creation_changes_no_queue(team: Team) -> None:
    team.tenant.create(asking_for("nightly", "mover"))
    until(lambda: used(team, "nightly") == 1.0, PATIENCE_SECONDS, "the pod to count for its queue")
    team.tenant("label", "pod", "mover", "--overwrite", f"{QUEUE}=weekly")
    team.tenant("label", "pod", "plain", f"{QUEUE}=weekly")
    team.arena.rounds(3)
    assert team.class_of("mover") == CLASSES["nightly"]
    assert (used(team, "nightly"), used(team, "weekly")) == (1.0, 1.0), "the moved label counts for nothing, nor does a new one"


def test_queues_of_a_namespace_and_a_rival_share_by_weight_and_the_burst_waits_for_no_write(team: Team) -> None:
    team.tenant("delete", "pods", "--all", "--grace-period=0", "--force")
    team.work(team.tenant, "night", "nightly")
    team.work(team.tenant, "week", "weekly")
    team.work(team.rival, "batch")
    until(lambda: sum(team.running().values()) >= 55, PATIENCE_SECONDS, "the cluster to be full")
    # The queues of the namespace were lent room until the rival's work came. Their tasks of that time have ended when its first ones have.
    until(lambda: team.done(team.rival, "batch") >= 15, PATIENCE_SECONDS, "a whole part of the rival's tasks to end")
    total = Counter[str]()
    samples = 25
    for _ in range(samples):
        total += team.running()
        team.arena.rounds(1)
    mean = {name: count / samples for name, count in total.items()}
    part = sum(mean.values()) / 4
    assert mean[CLASSES["nightly"]] == pytest.approx(2 * part, rel=0.2), mean
    assert mean[CLASSES["weekly"]] == pytest.approx(part, rel=0.2), mean
    assert mean["rival"] == pytest.approx(part, rel=0.2), mean
    cluster, where = team.arena.cluster, team.tenant.name
    until(lambda: armed(team), PATIENCE_SECONDS, "the burst to be armed: pods of an earlier test opened one")
    asyncio.run(burst_at_once(cluster, where, [pod(f"burst-{number}", memory="1Gi") for number in range(BURST)]))
    until(lambda: burst_running(team) == BURST, PATIENCE_SECONDS, "the whole burst to run")
    uri = f"/api/v1/namespaces/{where}/pods"
    created = [one for one in writes_of(cluster, "admin") if one["verb"] == "create" and one["requestURI"] == uri]
    created = [one for one in created if one["objectRef"].get("name", "").startswith("burst-")]
    assert [one["responseStatus"]["code"] for one in created] == [201] * BURST, "all at the first attempt"
    first = min(at(one, "requestReceivedTimestamp") for one in created)
    last = max(at(one, "stageTimestamp") for one in created)
    between = [one for one in writes_of(cluster, "fairburst") if first < at(one, "stageTimestamp") < last]
    own = f"/api/v1/namespaces/{where}/resourcequotas/fairburst"  # other queues' quotas shrink meanwhile, also those of this namespace
    assert [one["requestURI"] for one in between if one["requestURI"].partition("?")[0] in {own, f"{own}/status"}] == []


def test_a_deleted_queue_leaves_its_pods_to_the_default_queue(team: Team) -> None:
    for one in (team.tenant, team.rival):  # a full cluster would leave the default queue no room for another bare pod
        one("delete", "jobs", "--all", "--wait=false")
    team.arena.admin("delete", "--raw", f"/api/v1/namespaces/{team.tenant.name}/pods?gracePeriodSeconds=0")  # hundreds, most of them ended
    until(lambda: not sum(team.running().values()), PATIENCE_SECONDS, "the pods of the test before to end")
    until(lambda: not team.arena.items("pods", team.tenant.name), PATIENCE_SECONDS, "the pods of the test before to go")
    team.tenant.create(asking_for("weekly", "left"))
    assert team.class_of("left") == CLASSES["weekly"]
    team.arena.admin("delete", "throughputqueue", "weekly", "-n", team.tenant.name)
    until(lambda: CLASSES["weekly"] not in team.quotas(), PATIENCE_SECONDS, "the quota of the deleted queue to go")
    team.tenant.create(asking_for("weekly", "later"))
    assert team.class_of("later") not in CLASSES.values()

    def scope() -> list[str]:
        terms = team.quotas()["fairburst"]["spec"]["scopeSelector"]["matchExpressions"]
        return [value for term in terms for value in term["values"]]

    until(lambda: CLASSES["weekly"] not in scope(), PATIENCE_SECONDS, "the namespace quota to count the pods of the deleted queue")


@pytest.fixture(scope="module")
def modes(team: Team) -> Team:
    """The team with a queue that suspends Jobs, and one that holds pods by gates, beside the default queue in Quota mode."""
    team.tenant("delete", "pods", "--all", "--grace-period=0", "--force")
    for name, mode, more in (("whole", "Suspend", {"limits": {"cpu": "30"}}), ("spark", "Gate", {})):
        team.arena.create(queue("ThroughputQueue", {"enforcement": mode, **more}, team.tenant.name, name))
        until(lambda name=name: team.class_given(name), PATIENCE_SECONDS, f"the class of {name}")

    def labels() -> str:
        return str((team.arena.get("namespace", team.tenant.name)["metadata"]["labels"]).get("fairburst.dev/queues-hold"))

    until(lambda: labels().endswith("-Jobs") or "-Jobs." in labels(), PATIENCE_SECONDS, "the label that says which queue holds Jobs")
    until(lambda: "-Pods" in labels(), PATIENCE_SECONDS, "the label that says which queue holds pods")
    team.arena.rounds(2)  # the API server's policies see new labels within a second
    return team


def test_jobs_wait_for_the_queue_that_their_pods_ask_for(modes: Team) -> None:
    """A Job that never fits waits, a smaller one behind it starts, and a Job of another queue of the namespace is not held at all."""
    tenant, arena = modes.tenant, modes.arena

    def asking(name: str, pods: int, of: str) -> JsonObject:
        return job("", name, pods, pod_spec(), pod_metadata={"labels": {QUEUE: of}} if of else {})

    tenant.create(asking("absurd", 500, "whole"), asking("fits", 2, "whole"), asking("other", 2, "nightly"), asking("plain", 2, ""))

    def started() -> dict[str, bool]:
        return {one["metadata"]["name"]: not one["spec"].get("suspend", False) for one in arena.items("jobs", tenant.name)}

    assert (started()["other"], started()["plain"]) == (True, True)
    until(lambda: started()["fits"], PATIENCE_SECONDS, "the Job that fits to start")
    assert not started()["absurd"]
    until(lambda: len(classes(modes, "fits")) == 2, PATIENCE_SECONDS, "its pods")
    assert set(classes(modes, "fits")) == {modes.class_given("whole")}
    assert set(classes(modes, "plain")) & {modes.class_given("whole"), *CLASSES.values()} == set()
    with pytest.raises(ClusterError, match="expected the Job to stay suspended"):
        tenant("patch", "job", "absurd", "--type=merge", "-p", '{"spec": {"suspend": false}}')


def test_a_label_orders_the_held_jobs_of_one_queue(modes: Team) -> None:
    """Two Jobs wait for a third to end, as the queue's limit has room for one. The younger one gets a step of priority while it waits."""
    tenant, arena = modes.tenant, modes.arena
    for name in ("a-first", "b-early", "c-urgent"):  # by their names, as they may be created within one second
        tenant.create(job("", name, 16, pod_spec(), pod_metadata={"labels": {QUEUE: "whole"}}))

    def waits(name: str) -> bool:
        return bool(arena.get("job", name, tenant.name)["spec"].get("suspend", False))

    until(lambda: not waits("a-first"), PATIENCE_SECONDS, "the first Job to start")
    tenant("label", "job", "c-urgent", "fairburst.dev/priority=high")
    tenant("label", "job", "b-early", "fairburst.dev/priority=low")
    arena.rounds(2)
    assert (waits("b-early"), waits("c-urgent")) == (True, True)
    tenant("delete", "job", "a-first", "--wait=false")
    until(lambda: not waits("c-urgent"), PATIENCE_SECONDS, "the Job of the first step to start")
    assert waits("b-early")
    tenant("delete", "jobs", "b-early", "c-urgent", "--wait=false")


def classes(team: Team, name: str) -> list[str]:
    pods = [one for one in team.arena.items("pods", team.tenant.name) if one["metadata"]["name"].startswith(f"{name}-")]
    return [one["spec"]["priorityClassName"] for one in pods]


def test_a_job_set_waits_for_the_queue_that_its_first_part_asks_for(modes: Team) -> None:
    where, arena = modes.tenant.name, modes.arena
    install(arena.cluster, where)

    def held(*asked: str) -> bool:
        """Whether the API server would store a JobSet with a part for each of these queues suspended."""
        made = job_set(where, "set", pod_spec(), 1, 1)
        [part] = made["spec"]["replicatedJobs"]
        made["spec"]["replicatedJobs"] = [copy.deepcopy(part) | {"name": f"part-{number}"} for number in range(len(asked))]
        for one, name in zip(made["spec"]["replicatedJobs"], asked, strict=True):
            one["template"]["spec"]["template"] |= {"metadata": {"labels": {QUEUE: name}} if name else {}}
        return bool(arena.stored(made)["spec"].get("suspend", False))

    until(lambda: held("whole"), PATIENCE_SECONDS, "the policy to hold JobSets, a kind that it had not seen")
    assert held("whole", "nightly")
    assert not held("nightly", "whole")
    assert not held("")


def test_only_pods_that_ask_for_the_queue_behind_gates_get_a_gate(modes: Team) -> None:
    tenant, arena = modes.tenant, modes.arena
    tenant.create(asking_for("spark", "driver"), asking_for("spark", "absurd", cpu=500), asking_for("nightly", "no-gate"))

    def gates() -> dict[str, bool]:
        pods = [one for one in arena.items("pods", tenant.name) if one["metadata"]["name"] in {"driver", "absurd", "no-gate"}]
        return {one["metadata"]["name"]: bool(one["spec"].get("schedulingGates")) for one in pods}

    assert (gates()["absurd"], gates()["no-gate"]) == (True, False)
    until(lambda: not gates()["driver"], PATIENCE_SECONDS, "the gate of the pod that fits to be removed")
    assert gates()["absurd"]
    assert modes.class_of("absurd") == modes.class_given("spark")
    with pytest.raises(ClusterError, match=r"expected fairburst\.dev/queue to stay"):
        tenant("patch", "pod", "absurd", "--type=json", "-p", '[{"op": "remove", "path": "/spec/schedulingGates"}]')
    with pytest.raises(ClusterError):
        tenant("label", "namespace", tenant.name, "--overwrite", "fairburst.dev/queues-hold-")
    arena.admin("delete", "throughputqueue", "spark", "-n", tenant.name)
    until(lambda: not gates()["absurd"], PATIENCE_SECONDS, "the gate of a deleted queue's pod to be removed")


def burst_running(team: Team) -> int:
    pods = team.arena.items("pods", team.tenant.name)
    return sum(one["metadata"]["name"].startswith("burst-") and one["status"]["phase"] == "Running" for one in pods)


def used(team: Team, name: str) -> float:
    return parse_quantity(team.arena.status(team.tenant.name, name).get("usage", {}).get("cpu", "0"))
