"""A long Job that starts whole, whose pods end one by one and get successors, beside queues that come later and could use all places."""

from __future__ import annotations

import copy
import random

import pytest

from fairburst.kube.api.objects import SchedulingGate
from fairburst.kube.names import GATE
from fairburst.kube.usage.demand import namespace_demand
from tests.support.held_work import TQ, held, jobs
from tests.support.objects import World, job, pod, requesting

PLACES, SIZE, RIVALS = 64, 28, 7
GROUP = {"fairburst.dev/group": "long", "fairburst.dev/group-size": str(SIZE)}
STEP_SECONDS, TASK_SECONDS = 2.0, (15.0, 25.0)


class LongJob:
    """`batch` has one Job of 28 pods at a time; each pod runs for some twenty seconds. The scheduler favours no queue.

    mode: in Suspend mode the Job starts whole, in Gate mode its pods are a group.
    """

    def __init__(self, mode: str) -> None:
        self.world, self.grouped = World(), mode == "Gate"
        self.world.queue(TQ, "batch", spec={"enforcement": mode})
        if self.grouped:
            self.world.controller("Job", None, job("batch", "long", SIZE, requesting(), completions=100_000))
        else:
            held(self.world, "long", SIZE, completions=100_000)
        self.wanted = {"batch": ("long", SIZE)}
        self.ends = dict[tuple[str, str], float]()
        self._pods = self._ended = 0
        self._chance = random.Random(1)

    def rivals_come(self) -> None:
        for number in range(RIVALS):
            rival = f"rival-{number}"
            self.world.queue(TQ, rival)
            self.world.controller("Job", None, job(rival, f"filler-{rival}", 1000, requesting()))
            self.wanted[rival] = f"filler-{rival}", 1000

    def run(self, seconds: float) -> float:
        """Return the mean number of places that `batch` has."""
        had = list[int]()
        for _ in range(int(seconds / STEP_SECONDS)):
            self._end()
            self.world.round()
            for namespace, (owner, most) in self.wanted.items():
                self._create(namespace, owner, most)
            self._bind()
            had.append(sum(namespace == "batch" for namespace, _ in self.ends))
            self.world.after(STEP_SECONDS)
        return sum(had) / len(had)

    def _end(self) -> None:
        for key in [key for key, end in self.ends.items() if end <= self.world.now]:
            del self.ends[key]
            self.world.end(*key)
            self._ended += key[0] == "batch"
        old = jobs(self.world)["long"]
        new = copy.deepcopy(old)
        new.status.succeeded = self._ended
        self.world.controller("Job", old, new)

    def _create(self, namespace: str, owner: str, most: int) -> None:
        present = sum(where == namespace for where, _ in self.world.pods)
        room = self.world.permitted_cpu(namespace) - present
        for _ in range(int(min(most - present, room))):
            self._pods += 1
            made = pod(namespace, f"{owner}.{self._pods}", owner=("Job", owner))
            if self.grouped and namespace == "batch":
                made.metadata.labels, made.spec.scheduling_gates = GROUP, [SchedulingGate(GATE)]
            self.world.put(made)

    def _bind(self) -> None:
        waiting = [key for key, one in self.world.pods.items() if key not in self.ends and not one.gated]
        self._chance.shuffle(waiting)
        for namespace, name in waiting[: PLACES - len(self.ends)]:
            first = sum(self.world.pods[key].spec.node_name == "node-0" for key in self.ends)
            node = "node-0" if first < PLACES // 2 else "node-1"
            made = pod(namespace, name, owner=("Job", name.split(".")[0]), node=node, phase="Running")
            made.metadata.labels = self.world.pods[namespace, name].metadata.labels
            self.world.put(made)
            self.ends[namespace, name] = self.world.now + self._chance.uniform(*TASK_SECONDS)


@pytest.mark.parametrize(
    ("completions", "existing", "ended", "expected"),
    [(100, 0, 0, 0), (100, 26, 0, 0), (100, 26, 40, 2), (28, 10, 10, 0), (28, 10, 18, 0), (100, 10, 10, 10)],
    ids=["none yet", "the last two", "two have ended", "a part has ended", "no more are wanted", "a part has ended and has successors"],
)
def test_missing_pods_are_successors_as_far_as_as_many_have_been_there(completions: int, existing: int, ended: int, expected: int) -> None:
    world = World()
    world.controller("Job", None, job("n", "long", SIZE, requesting(), completions=completions, status={"succeeded": ended}))
    for number in range(existing):
        world.put(pod("n", f"long.{number}", owner=("Job", "long")))
    demand = namespace_demand(
        world.view.controllers.workloads("n"), world.view.pods.namespace("n"), world.view.pods.owners_in("n"), ("cpu",)
    )
    assert sum(one.successors for one in demand.lacking) == expected


@pytest.mark.parametrize("mode", ["Suspend", "Gate"])
def test_successors_of_ended_pods_come_by_the_queues_share_and_are_no_start_that_has_begun(mode: str) -> None:
    """Some pods of such a Job lack at any time. They were taken as the rest of its start, and it kept its 28 places for ten minutes."""
    found = LongJob(mode)
    assert found.run(40.0) > SIZE / 2
    found.rivals_come()
    found.run(100.0)
    assert found.run(200.0) < 1.25 * PLACES / (1 + RIVALS)
