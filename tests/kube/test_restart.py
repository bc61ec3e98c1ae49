"""A new process writes what the one before would have written: it takes from the cluster what the other had learned."""

from __future__ import annotations

import random

import pytest

from fairburst.kube.api.objects import JOB_TRACKING
from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.usage.owner_sums import COUNTED_SECONDS
from tests.support.busy_queues import batch
from tests.support.objects import World, job, latency_spec, node, pod, requesting

LQ, TQ = "LatencyQueue", "ThroughputQueue"


@pytest.mark.parametrize("away", [3.0, 500.0])
def test_a_restart_on_a_settled_cluster_writes_nothing(away: float) -> None:
    world = World()
    batch(world, pods=10)
    world.queue(LQ, "burst", spec=latency_spec())
    world.settle()
    again = world.restarted(away)
    plan = again.plan()
    assert (plan.labels, plan.quota_writes, plan.statuses, plan.events) == ({}, [], [], [])
    assert plan.result.classes == world.plan().result.classes


def run_job(world: World, name: str, pods: int, namespace: str = "batch") -> None:
    """Create a Job that has its pods, as its controller has noted."""
    one = job(namespace, name, pods, requesting("1", "1Gi"), completions=pods, status={"active": pods})
    world.controller("Job", None, one)
    for number in range(pods):
        world.put(
            pod(
                namespace, f"{name}-{number}", requesting("1", "1Gi"), owner=("Job", name), node="node-0", phase="Running",
                finalizers=[JOB_TRACKING],
            )
        )  # fmt: skip


def demand(world: World, namespace: str = "batch") -> float:
    return world.engine.demands[namespace].demand.get("cpu", 0.0)


def test_a_pod_whose_end_its_job_has_not_counted_yet_is_not_wanted_again() -> None:
    """Watches tell only of live pods. Of a hundred queues, eight were given a pod too much for a second after each restart."""
    world = World()
    world.queue(TQ, "batch")
    run_job(world, "a", 3)
    world.round()
    world.end("batch", "a-0")
    world.round()
    again = world.restarted()
    again.round()
    assert (demand(world), demand(again)) == (2.0, 2.0)
    again.after(COUNTED_SECONDS + 1)
    again.view.changed_namespaces.add("batch")
    again.round()
    assert demand(again) == 2.0, "the Job controller has not looked since: by the status the pod is active"
    old = again.view.controllers.job("batch", "a")
    again.controller("Job", old, job("batch", "a", 3, requesting("1", "1Gi"), completions=3, status={"active": 2}))
    again.round()
    assert demand(again) == 3.0, "it has looked and counted no end: a failure that a policy ignores, for instance"


def test_an_end_after_a_restart_is_known_beside_those_that_were_counted_before() -> None:
    world = World()
    world.queue(TQ, "batch")
    run_job(world, "a", 6)
    for number in range(2):
        world.end("batch", f"a-{number}")
    old = world.view.controllers.job("batch", "a")
    world.controller("Job", old, job("batch", "a", 6, requesting(), completions=6, status={"active": 4, "succeeded": 2}))
    again = world.restarted()
    again.round()
    assert demand(again) == 4.0
    again.end("batch", "a-2")
    again.round()
    assert demand(again) == 3.0


def test_the_pods_that_a_quota_permits_stay() -> None:
    world = World()
    for number in range(2):
        world.nodes["", f"node-{number}"] = node(f"node-{number}", cpu="32", memory="64Gi", pods="110")
    batch(world, pods=10)
    batch(world, "other", pods=0, wanted=0)
    world.settle()
    world.controller("Job", None, job("other", "more", 60, requesting("10m", "1Mi")))
    world.settle()
    world.controller("Job", world.view.controllers.job("other", "more"), None)
    world.settle()
    assert world.restarted().plan().quota_writes == []


def test_a_quota_that_was_edited_to_permit_no_pod_meanwhile_permits_some_again() -> None:
    """Bare pods that it refuses leave no trace of a demand."""
    world = World()
    for number in range(2):
        world.nodes["", f"node-{number}"] = node(f"node-{number}", cpu="32", memory="64Gi", pods="110")
    batch(world, pods=0, wanted=0)
    world.settle()
    hard = world.quotas["batch", "fairburst"].spec.hard or {}
    world.quotas["batch", "fairburst"].spec.hard = {**hard, "pods": "0"}
    again = world.restarted()
    again.settle()
    assert int(again.hard("batch")["pods"]) > 1


def test_slack_stays() -> None:
    """Begun again at one pod, it takes the work of several pods away where ends are released late."""
    world = World()
    batch(world, pods=38)
    batch(world, "other", pods=20, wanted=20)
    world.settle()
    for _ in range(20):  # of a level of 44, six pods have ended, and are still charged
        world.end("batch", "p0")
        world.put(pod("batch", "p0", owner=("Job", "batch-job"), node="node-0", phase="Running"))
        used = world.quotas["batch", "fairburst"]
        used.status.used = used.status.hard
        world.after(1.0)
        plan = world.round()
    cpu = float(str(world.hard("batch")["requests.cpu"]))
    assert cpu >= plan.result.level[0, 0] + 5, "the test needs more than one pod of it"
    again = world.restarted()
    for _ in range(3):
        again.round()
        assert float(str(again.hard("batch")["requests.cpu"])) >= cpu
        again.after(1.0)


class Churn:
    """Jobs that come and pods that end, in six queues. A Job counts an end two steps later."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.chance = world, random.Random(seed)
        self.jobs: dict[str, tuple[int, list[int]]] = {}  # by name: the pods, and the steps at which some of them ended
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        name = f"{self.chance.randrange(6)}-{self.chance.randrange(3)}"
        namespace = f"q{name[0]}"
        running = [pod for space, pod in self.world.pods if space == namespace and pod.startswith(f"{name}-")]
        if name not in self.jobs:
            self.jobs[name] = self.chance.randint(1, 4), []
            run_job(self.world, name, self.jobs[name][0], namespace)
        elif running:
            self.world.end(namespace, self.chance.choice(running))
            self.jobs[name][1].append(self.steps)
        for name, (pods, ends) in list(self.jobs.items()):
            self.count(name, pods, sum(end + 2 <= self.steps for end in ends))

    def count(self, name: str, pods: int, ended: int) -> None:
        namespace = f"q{name[0]}"
        status = {"active": pods - ended, "succeeded": ended}
        new = job(namespace, name, pods, requesting(), completions=pods, status=status) if ended < pods else None
        old = self.world.view.controllers.job(namespace, name)
        if ended and old is not None and old.status.succeeded < ended:
            self.world.controller("Job", old, new)
        if new is None:
            del self.jobs[name]


def written(plan: RoundPlan) -> dict[tuple[str, str], object]:
    return {write.key: dict(write.hard) for write in plan.quota_writes}


@pytest.mark.parametrize("seed", range(20))
def test_in_the_middle_of_work_a_new_process_writes_no_quota_that_the_old_one_would_not(seed: int) -> None:
    world = World()
    for number in range(2):
        world.nodes["", f"node-{number}"] = node(f"node-{number}", cpu="32", memory="64Gi", pods="110")
    for number in range(6):
        world.queue(TQ, f"q{number}")
    world.queue(LQ, "burst", spec=latency_spec("20", 10, 60))
    work = Churn(world, seed)
    for _ in range(60):
        work.step()
        world.round()
        world.after(work.chance.choice([0.1, 1.0, 2.0]))
    again = world.restarted(0.0)
    assert written(again.plan()).items() <= written(world.plan()).items()
