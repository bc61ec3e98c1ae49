"""While work comes to many queues, each one's level sinks with every newcomer. Their quotas follow once the cluster fills."""

from __future__ import annotations

import pytest

from fairburst.kube.enforce.quota_plan import ENTITLED_SECONDS, amounts
from fairburst.kube.rounds.view import RoundPlan
from tests.support.busy_queues import run
from tests.support.objects import World, job, node, pod, requesting

TQ = "ThroughputQueue"
QUEUES = 60
PLACES = 2 * 32


def idle(places: int | None = None) -> World:
    """Return idle queues on nodes that hold so many pods for each of them, or any number."""
    world = World()
    if places is not None:
        for key, one in world.nodes.items():
            world.nodes[key] = node(one.metadata.name, cpu="32", memory="64Gi", pods=str(places * QUEUES // 2))
    for number in range(QUEUES):
        world.queue(TQ, f"q{number}")
    world.settle(10.0)
    return world


def pods(world: World, number: int) -> int:
    return int(world.hard(f"q{number}")["pods"])


def work_comes(world: World, queues: int = QUEUES) -> list[RoundPlan]:
    """A Job of a hundred pods comes to one queue after the other, two in a second. None of their pods is created yet."""
    plans = list[RoundPlan]()
    for number in range(queues):
        world.controller("Job", None, job(f"q{number}", f"q{number}-job", 100))
        world.after(0.5)
        plans.append(world.round())
    return plans


def written(plans: list[RoundPlan]) -> int:
    return sum(len(plan.quota_writes) for plan in plans)


def cores(world: World, number: int) -> float:
    return amounts(world.quotas[f"q{number}", "fairburst"].spec.hard)["cpu"]


def test_a_level_that_sinks_is_not_written_while_a_quarter_of_the_cluster_is_free() -> None:
    """Each quota is raised at most once, when work comes to its queue."""
    assert written(work_comes(idle())) <= QUEUES  # seen: 43; 147 where each level is followed at once


def test_each_quota_is_lowered_once_when_the_cluster_fills() -> None:
    world = idle()
    work_comes(world)
    assert sum(cores(world, number) for number in range(QUEUES)) > 3 * PLACES
    run(world, "q0", 25)
    run(world, "q1", 24)
    plans = world.settle(3.0)
    assert all(cores(world, number) <= 3.0 for number in range(2, QUEUES)), "one or two pods, and one more when a pod ends"
    assert written(plans) <= QUEUES


def test_a_quota_is_lowered_after_a_minute_although_room_is_left() -> None:
    """Pods may not fit into the free room, so it may last. The queues that came last would wait for those that came first."""
    world = idle()
    work_comes(world, queues=20)
    assert cores(world, 0) > 30.0
    world.settle(ENTITLED_SECONDS)
    assert cores(world, 0) < 6.0


def test_limits_on_pods_stay_while_most_of_many_places_are_free() -> None:
    world = idle(30)
    assert written(work_comes(world)) <= QUEUES  # seen: 43; 975 where each limit that must sink sinks at once
    assert sum(pods(world, number) for number in range(QUEUES)) > 1.2 * 30 * QUEUES
    for number in range(401):
        world.put(pod("q0", f"empty-{number}", requesting("0", "0"), node="node-0", phase="Running"))
    world.settle(3.0)
    assert sum(pods(world, number) for number in range(QUEUES)) <= 30 * QUEUES


def test_of_few_places_no_more_are_given_than_there_are() -> None:
    """Within a round they could be filled, also those that are reserved for a burst."""
    world = idle(12)
    work_comes(world)
    assert sum(pods(world, number) for number in range(QUEUES)) <= 12 * QUEUES


@pytest.mark.parametrize("edit", [{"limits": {"cpu": "4"}}, {"suspended": True}])
def test_what_its_owner_takes_from_a_queue_is_taken_at_once(edit: dict[str, object]) -> None:
    world = idle()
    work_comes(world, queues=2)
    assert cores(world, 0) > 30.0
    world.queue(TQ, "q0", spec=edit, generation=2)
    world.settle(3.0)
    assert cores(world, 0) <= 5.0
