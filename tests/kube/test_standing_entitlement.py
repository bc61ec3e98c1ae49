"""Quotas of idle queues follow what these may use at once: seldom, and never into the room of an armed burst."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from fairburst.kube.enforce.quota_plan import amounts
from fairburst.kube.rounds.view import RoundPlan
from fairburst.policy.entitlement import entitlements
from tests.support.busy_queues import run
from tests.support.objects import World, latency_spec

TQ, LQ = "ThroughputQueue", "LatencyQueue"
POD = np.array([1.0, 2.0**30])  # cores and bytes


def idle(queues: int, nodes: int = 10, *, burst_seconds: int = 60, apart: int = 3600) -> World:
    """Return a world of queues without work beside an armed burst of 60 cores and GiB, once nothing more is written."""
    world = World(nodes=nodes)
    world.queue(LQ, "burst", spec=latency_spec("60", burst_seconds, apart))
    for number in range(queues):
        world.queue(TQ, f"q{number}")
    for _ in range(90):
        world.round()
        world.after(1.0)
    assert world.plan().quota_writes == []
    return world


def rounds(world: World, count: int) -> Iterator[RoundPlan]:
    """Yield so many rounds, half a second apart."""
    for _ in range(count):
        world.after(0.5)
        yield world.round()


@pytest.mark.parametrize("queues", [4, 40, 160])
def test_pods_that_start_beside_an_armed_burst_change_few_quotas_of_other_queues(queues: int) -> None:
    """Eighty pods start one after the other. Each of them lowers what every idle queue may use."""
    world, starting, written = idle(queues), queues // 2, Counter[str]()
    for number in range(80):
        run(world, f"q{number % starting}", 1, number // starting)
        for plan in rounds(world, 2):
            written.update(write.namespace for write in plan.quota_writes)
    assert all(written[f"q{number}"] <= 2 for number in range(starting, queues))
    assert written.total() <= 2 * 80 + queues


def test_a_burst_of_half_a_minute_changes_no_quota_of_an_idle_queue() -> None:
    world, written = idle(20, burst_seconds=30, apart=60), Counter[str]()
    run(world, "burst", 40)
    for plan in rounds(world, 120):
        written.update(write.namespace for write in plan.quota_writes)
    assert not {name for name in written if name != "burst"}


@pytest.mark.parametrize("seed", range(10))
def test_quotas_leave_an_armed_bursts_room_whoever_starts_and_ends_pods(seed: int) -> None:
    """At most one pod above what the queue may use: a smaller difference is worth no write."""
    chance, world = random.Random(seed), idle(12)
    live, bound = list[tuple[str, str]](), 0
    for number in range(120):
        if chance.random() < 0.65 and len(live) < 180:
            queue, pods = f"q{chance.randrange(12)}", chance.randint(1, 4)
            run(world, queue, pods, 10 * number)
            live += [(queue, f"p{10 * number + one}") for one in range(pods)]
        elif live:
            world.end(*live.pop(chance.randrange(len(live))))
        *_, plan = rounds(world, 3)
        entitled, bounded = entitlements(plan.result, plan.snapshot, world.engine.memory)
        bound += bounded
        for row, spec in enumerate(plan.snapshot.queues):
            namespace = spec.name.split("/")[0]
            hard = amounts(world.quotas[namespace, "fairburst"].spec.hard)
            permitted = np.array([hard[resource] for resource in plan.snapshot.resources])
            most = np.maximum(entitled[row], plan.result.level[row] + POD) + POD
            assert not bounded or (permitted <= most + 1e-6).all(), namespace
    assert bound > 60, "the burst bounds them most of the time"
