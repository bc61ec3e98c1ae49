"""Pods that the gate releases above the level, so that the level is used although starts take their time."""

from __future__ import annotations

import itertools
import statistics
from collections import deque
from typing import Any

import pytest

from tests.kube.test_gate_mode import GATES, TQ, bare
from tests.support.objects import World, pod

NODES_CPU, TASK_SECONDS = 64, 10


class Cluster:
    """Queues in Gate mode on 64 cpu with tasks of ten seconds. A gate is gone `delay` seconds after the round that releases the pod."""

    def __init__(self, *queues: str, delay: int, config: str = "", spec: dict[str, Any] = GATES) -> None:
        self.world, self.queues = World(config), queues
        self.patches: deque[list[tuple[str, str]]] = deque([[] for _ in range(delay)])
        self.pending: list[tuple[str, str]] = []
        self.ends: dict[int, list[tuple[str, str]]] = {}
        self.running = dict.fromkeys(queues, 0)
        self.most = 0.0  # pods released beyond a level
        self.numbers = {queue: itertools.count(step=10) for queue in queues}
        for queue in queues:
            self.world.queue(TQ, queue, spec=spec)
            for _ in range(20):
                self.create(queue)

    def create(self, queue: str) -> None:
        bare(self.world, queue, 10, first=next(self.numbers[queue]))

    def second(self, at: int) -> None:
        """End tasks, bind others, run a round."""
        for namespace, name in self.ends.pop(at, []):
            self.world.end(namespace, name)
            self.running[namespace] -= 1
            if sum(one.gated for (where, _), one in self.world.pods.items() if where == namespace) < 100:
                self.create(namespace)
        for namespace, name in self.patches.popleft():
            self.world.put(pod(namespace, name))
            self.pending.append((namespace, name))
        free = NODES_CPU - sum(self.running.values())
        for number, (namespace, name) in enumerate(self.pending[: max(0, free)]):
            self.world.put(pod(namespace, name, node="node-0", phase="Running"))
            self.running[namespace] += 1
            self.ends.setdefault(at + TASK_SECONDS + number % 3 - 1, []).append((namespace, name))
        self.pending = self.pending[max(0, free) :]
        plan = self.world.plan()
        self.world.engine.gates.sent(plan.ungates)
        self.patches.append([held.key for held in plan.ungates])
        plan.ungates = []
        self.world.take(plan)
        for queue in self.queues:
            released = sum(not one.gated for (where, _), one in self.world.pods.items() if where == queue)
            self.most = max(self.most, released - float(self.world.status(queue)["allocation"]["cpu"]))
        self.world.after(1.0)

    def run(self, seconds: int) -> dict[str, float]:
        """Return how many cpu of each queue were used in the mean of the second half."""
        used = []
        for at in range(seconds):
            self.second(at)
            used.append(dict(self.running))
        return {queue: statistics.mean(one[queue] for one in used[seconds // 2 :]) for queue in self.queues}


@pytest.mark.parametrize(("delay", "least"), [(1, 0.97), (2, 0.96), (4, 0.95)])
def test_levels_are_used_although_starts_take_their_time(delay: int, least: float) -> None:
    """Without slack 91, 83 and 71 % are used."""
    used = Cluster("batch", "other", delay=delay).run(200)
    assert all(least <= one / 32 <= 1.02 for one in used.values()), used


@pytest.mark.parametrize(
    ("config", "spec"),
    [
        pytest.param("pool: {headRoomPercent: 25}", {}, id="head-room, which stays free to the pod"),
        pytest.param("pool: {headRoom: {cpu: 8}}", {}, id="head-room in quantities"),
        pytest.param("", {"limits": {"cpu": "20"}}, id="limits, which no queue exceeds"),
    ],
)
def test_no_pod_is_released_early_beyond(config: str, spec: dict[str, Any]) -> None:
    cluster = Cluster("batch", "other", delay=2, config=config, spec=GATES | spec)
    cluster.run(100)
    assert cluster.most <= 0
