"""A queue whose Jobs or groups start whole and are larger than its fair share has turns when other queues could use all places."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from fairburst.kube.api.objects import Job, Pod, SchedulingGate
from fairburst.kube.names import GATE, HELD_ANNOTATION
from tests.support.objects import World, job, node, pod, requesting

TQ = "ThroughputQueue"
STEP_SECONDS = 4.0
TASK_SECONDS = 20.0
PLACES = 64
JOBS = 8  # that wait or run at any time: together always more pods than places


class Contest:
    """Two nodes of 32 places. `batch`: whole Jobs of `size` pods that end together, `run_seconds` after the last of them was bound.
    `rivals`: queues of single pods without end. The scheduler favours none of them, or always rivals (`rivals_first`)."""

    MODE, WAITING = "Suspend", JOBS

    def __init__(self, size: int, run_seconds: float, rivals: int, *, rivals_first: bool = False) -> None:
        self.world = World("allocation: {largestTurnPercent: 100}")
        self.world.queue(TQ, "batch", spec={"enforcement": self.MODE})
        self.rivals = [f"rival-{number}" for number in range(rivals)]
        for rival in self.rivals:
            self.world.queue(TQ, rival)
            self.world.controller("Job", None, job(rival, f"filler-{rival}", 1000, requesting()))
        self.size, self.run_seconds, self.created = size, run_seconds, 0
        for _ in range(self.WAITING):
            self._create_whole()
        self.served: Counter[str] = Counter()  # place-seconds by namespace
        self.starting = dict[str, float]()  # Jobs of which some pods are not bound yet, since when
        self.seconds_to_run = list[float]()  # of each Job, from its start until all its pods were bound
        self._ends = dict[tuple[str, str], float]()
        self._pods = 0
        self._chance = None if rivals_first else random.Random(1)

    @property
    def incomplete(self) -> dict[str, float]:
        """Return the time since which Jobs have had only a part of their pods."""
        bound = Counter(name.split(".")[0] for where, name in self._ends if where == "batch")
        return {name: since for name, since in self.starting.items() if bound[name] < self.size}

    @property
    def share(self) -> float:
        """The part of all place-seconds that `batch` has had."""
        return self.served["batch"] / self.served.total()

    def _create_whole(self) -> None:
        """Create a Job as the admission policy leaves it."""
        self.created += 1
        made = job("batch", f"whole-{self.created:03}", self.size, requesting(), suspend=True)
        made.metadata.annotations = {HELD_ANNOTATION: "true"}
        made.metadata.creation_timestamp = "2026-01-01T00:00:00Z"
        made.metadata.resource_version = "1"
        self.world.controller("Job", None, made)

    def run(self, minutes: float) -> None:
        until = self.world.now + 60.0 * minutes
        while self.world.now < until:
            self.world.round()
            self._end_pods()
            line: list[str | Job] = [*self.rivals, *self._started()]
            if self._chance is not None:
                self._chance.shuffle(line)
            for one in line:
                if isinstance(one, str):
                    self._run_rival(one)
                else:
                    self._run_job(one)
            for namespace, _ in self._ends:
                self.served[namespace] += STEP_SECONDS
            self.world.after(STEP_SECONDS)

    def jobs(self) -> list[Job]:
        return list(self.world.view.controllers.workloads("batch").of("Job"))

    def _started(self) -> list[Job]:
        return [one for one in self.jobs() if not one.spec.suspend]

    def _run_rival(self, rival: str) -> None:
        self._create(rival, f"filler-{rival}", 1000)
        self._bind(rival, TASK_SECONDS)

    def _run_job(self, one: Job) -> None:
        name = one.metadata.name
        since = self.starting.setdefault(name, self.world.now)
        size = one.spec.parallelism or 1
        self._create("batch", name, size)
        self._bind("batch", 1e9)
        bound = [key for key in self._ends if key[1].startswith(f"{name}.")]
        if len(bound) == size and self._ends[bound[0]] > 1e8:
            self.seconds_to_run.append(self.world.now - since)
            self._ends.update(dict.fromkeys(bound, self.world.now + self.run_seconds))

    def _create(self, namespace: str, owner: str, most: int) -> None:
        """Create pods as far as the quota permits, as the Job controller does."""
        names = [name for where, name in self.world.pods if where == namespace]
        mine = sum(name.startswith(f"{owner}.") for name in names)
        room = float(self.world.hard(namespace)["requests.cpu"]) - len(names)
        for _ in range(int(min(most - mine, room))):
            self._pods += 1
            self.world.put(pod(namespace, f"{owner}.{self._pods}", owner=("Job", owner)))

    def _bind(self, namespace: str, seconds: float) -> None:
        pods, free = self.world.pods, PLACES - len(self._ends)
        waiting = sorted(key for key in pods if key[0] == namespace and key not in self._ends and not pods[key].spec.scheduling_gates)
        first = sum(pods[key].spec.node_name == "node-0" for key in self._ends)  # pods on the first node
        for number, key in enumerate(waiting[:free]):
            self.world.put(self._bound(pods[key], "node-0" if first + number < PLACES // 2 else "node-1"))
            self._ends[key] = self.world.now + seconds

    def _bound(self, old: Pod, node: str) -> Pod:
        metadata = old.metadata
        return pod(metadata.namespace, metadata.name, owner=("Job", metadata.name.split(".")[0]), node=node, phase="Running")

    def _end_pods(self) -> None:
        for key in [key for key, end in self._ends.items() if end <= self.world.now]:
            del self._ends[key]
            self.world.end(*key)
        for name in list(self.starting):
            if not any(key[1].startswith(f"{name}.") for key in self.world.pods):
                del self.starting[name]
                self._ended(name)

    def _ended(self, name: str) -> None:
        self.world.controller("Job", next(one for one in self.jobs() if one.metadata.name == name), None)
        self._create_whole()


class GroupContest(Contest):
    """The same with groups of gated pods: two wait or run at any time."""

    MODE, WAITING = "Gate", 2

    def _create_whole(self) -> None:
        self.created += 1
        name, size = f"whole-{self.created:03}", self.size
        for number in range(size):
            made = pod("batch", f"{name}.{number:02}", creationTimestamp="2026-01-01T00:00:00Z")
            made.metadata.labels = {"fairburst.dev/group": name, "fairburst.dev/group-size": str(size)}
            made.spec.scheduling_gates = [SchedulingGate(GATE)]
            self.world.put(made)

    def _started(self) -> list[Job]:
        """A Job for each group that has been released, so that the rest of the contest need not know the difference."""
        found = Counter(key[1].split(".")[0] for key, one in self.world.pods.items() if key[0] == "batch" and not one.spec.scheduling_gates)
        return [job("batch", name, size) for name, size in found.items()]

    def _create(self, namespace: str, owner: str, most: int) -> None:
        if namespace != "batch":
            super()._create(namespace, owner, most)

    def _bound(self, old: Pod, node: str) -> Pod:
        made = super()._bound(old, node)
        made.metadata.labels = old.metadata.labels
        return made

    def _ended(self, name: str) -> None:
        self._create_whole()


@pytest.mark.parametrize("contest", [Contest, GroupContest])
@pytest.mark.parametrize(
    ("size", "run_seconds", "rivals", "minutes"), [(40, 60.0, 1, 30.0), (64, 120.0, 1, 40.0), (20, 60.0, 1, 30.0), (30, 60.0, 7, 60.0)]
)
def test_work_larger_than_the_fair_share_starts_in_turns_and_whole(
    contest: type[Contest], size: int, run_seconds: float, rivals: int, minutes: float
) -> None:  # fmt: skip
    """A ThroughputQueue has its fair share of the time where it cannot have it of the places. Without turns, work of more
    than twice its share waits forever while other queues fill the cluster. The fewer turns an hour has, the more minutes they are."""
    found = contest(size, run_seconds, rivals)
    found.run(minutes)
    # Where the share holds one Job, the next one may start early: its last pods then wait for the end of the one before.
    longest = 60.0 if size > PLACES / (1 + rivals) else run_seconds + TASK_SECONDS
    assert max(found.seconds_to_run) <= longest, "what has started gets all of its pods within the turn"
    assert all(found.world.now - since <= longest for since in found.incomplete.values()), "nothing is left with a part of its pods"
    assert found.share == pytest.approx(1 / (1 + rivals), rel=0.1)


def test_work_that_needs_every_place_gets_the_last_ones_though_the_scheduler_prefers_others() -> None:
    """While it lacks pods it keeps its turn, and the others create none, not even the pod that each may have otherwise: a Job with a part
    of its pods would use its places for nothing."""
    found = Contest(PLACES, 120.0, 1, rivals_first=True)
    found.run(20.0)
    assert found.seconds_to_run
    longest = 2 * TASK_SECONDS + 10.0  # until the earlier pods have ended
    assert max(found.seconds_to_run) <= longest
    assert all(found.world.now - since <= longest for since in found.incomplete.values())


def test_a_start_that_has_begun_outlasts_another_choice_of_resources() -> None:
    """A queue names a GPU, and a node has one: from then on a third resource is shared. It was an internal error of this queue."""
    contest = Contest(48, 20.0, 1)
    contest.run(3.0)
    while not contest.incomplete:
        contest.run(STEP_SECONDS / 60)
    world = contest.world
    assert world.plan().snapshot.starting
    world.nodes["", "gpus"] = node("gpus", cpu="0", memory="0", pods="1", **{"nvidia.com/gpu": "1"})
    world.queue(TQ, "other", spec={"limits": {"nvidia.com/gpu": "1"}})
    plan = world.plan()
    assert plan.snapshot.resources == ("cpu", "memory", "nvidia.com/gpu")
    assert world.engine.contained.failures == {}
    assert plan.snapshot.starting
