"""Why capacity is idle: each round says who has to act before it is used. The causes' parts sum to all that is idle."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.views.idle_room import IdleCause
from tests.kube.test_gate_mode import GATES, bare
from tests.support.busy_queues import batch, run
from tests.support.objects import World, job, latency_spec, pod

TQ, LQ = "ThroughputQueue", "LatencyQueue"
CPU, CLUSTER_CPU = 0, 64.0


def idle(plan: RoundPlan) -> Mapping[str, float]:
    """Return how many cpu are idle, by cause, without causes of nothing."""
    found = {cause.value: round(float(parts[CPU] * CLUSTER_CPU), 6) for cause, parts in plan.idle.items()}
    return {cause: amount for cause, amount in found.items() if amount}


def unbound(world: World, namespace: str, pods: int, first: int) -> None:
    """Pods of the namespace's Job that exist and have no node."""
    for number in range(first, first + pods):
        world.put(pod(namespace, f"p{number}", owner=("Job", f"{namespace}-job")))


def test_without_work_all_is_unwanted() -> None:
    world = World()
    world.queue(TQ, "batch")
    assert idle(world.round()) == {"unwanted": 64}


def test_what_is_beyond_the_demand_is_unwanted_and_pods_that_do_not_exist_are_uncreated() -> None:
    world = World()
    batch(world, pods=10, wanted=30)
    assert idle(world.round()) == {"uncreated": 20, "unwanted": 34}


def test_pods_without_a_node_wait_for_the_scheduler() -> None:
    world = World()
    batch(world, pods=10, wanted=100)
    unbound(world, "batch", 5, first=10)
    assert idle(world.round()) == {"unbound": 5, "uncreated": 49}


def test_more_pods_than_room_make_no_more_than_the_room_idle() -> None:
    world = World()
    batch(world, pods=60, wanted=100)
    unbound(world, "batch", 40, first=60)
    assert idle(world.round()) == {"unbound": 4}


def test_pods_that_have_their_room_are_gated_until_fairburst_has_released_them() -> None:
    world = World()
    world.queue(TQ, "batch", spec=GATES)
    bare(world, "batch", 100)
    plan = world.plan()  # whose releases are still to be sent
    assert len(plan.ungates) == 64
    assert idle(plan) == {"gated": 64}
    world.take(plan)
    assert idle(world.round()) == {"unbound": 64}


def test_a_burst_in_its_window_keeps_room_for_pods_that_do_not_exist_yet() -> None:
    world = World()
    world.queue(LQ, "burst", spec=latency_spec())
    batch(world, pods=0, wanted=200)
    world.settle()
    world.controller("Job", None, job("burst", "burst-job", 16))
    world.round()
    found = idle(world.round())
    assert found["burst"] == 16
    assert sum(found.values()) == 64


def test_what_limits_keep_from_a_queue_is_kept() -> None:
    world = World()
    batch(world, pods=10, wanted=100, spec={"limits": {"cpu": "10"}})
    assert idle(world.round()) == {"kept": 54}


@given(
    running=st.lists(st.integers(0, 20), min_size=3, max_size=3),
    waiting=st.lists(st.integers(0, 40), min_size=3, max_size=3),
    wanted=st.lists(st.integers(0, 60), min_size=3, max_size=3),
)
def test_the_parts_sum_to_all_that_is_idle(running: list[int], waiting: list[int], wanted: list[int]) -> None:
    world = World()
    for at in range(3):
        batch(world, f"batch-{at}", wanted=running[at] + waiting[at] + wanted[at])
        run(world, f"batch-{at}", running[at])
        unbound(world, f"batch-{at}", waiting[at], first=running[at])
    plan = world.round()
    assert list(plan.idle) == list(IdleCause)
    assert all((parts >= 0).all() for parts in plan.idle.values())
    used = plan.snapshot.usage.sum(axis=0) / plan.snapshot.live_capacity
    assert sum(plan.idle.values()) == pytest.approx(np.maximum(1 - used, 0.0))


def test_pods_that_end_or_start_between_two_readings_of_a_namespace_with_many_controllers_count_at_once() -> None:
    """The work of such a namespace is read again later, its pods are not."""
    world = World()
    world.queue(TQ, "many")
    for number in range(200):
        world.controller("Job", None, job("many", f"job-{number}", 1))
    world.settle()
    world.round()
    world.put(pod("many", "p", owner=("Job", "job-0")))
    world.round()
    world.put(pod("many", "q", owner=("Job", "job-1")))
    plan = world.plan()
    assert idle(plan)["unbound"] == 2
