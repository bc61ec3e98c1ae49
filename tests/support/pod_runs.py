"""Virtual time around `decide` with whole pods: queues of pods that run for a while and are never stopped, as under `reclaim: Never`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairburst.policy import memory as saved
from fairburst.policy.arrays import FloatArray
from fairburst.policy.decide import decide
from fairburst.policy.model import ClusterSnapshot, Memory, PolicyConfig, QueueSpec, RoundResult, WaitingPods
from tests.support.policy import RESOURCES

NEARLY = 1e-6
Check = Callable[[ClusterSnapshot, RoundResult, FloatArray], None]


@dataclass
class Pods:
    """A run of equal pods: `count` of them wait from `since` on (infinite: they never end), each runs for `seconds`."""

    request: FloatArray
    seconds: float
    count: float = math.inf
    since: float = 0.0


@dataclass
class PodRun:
    """A run and its record. received: (N, K) resource-seconds used. held: (N,) seconds at which anything waited."""

    queues: tuple[QueueSpec, ...]
    capacity: FloatArray
    pods: Sequence[Sequence[Pods]]
    config: PolicyConfig = field(default_factory=PolicyConfig)
    list_pods: bool = True
    reloads: bool = False
    memory: Memory = field(default_factory=Memory)
    received: FloatArray = field(init=False)
    usage: FloatArray = field(init=False)
    last_use: float = field(init=False, default=-math.inf)
    last_start: dict[int, float] = field(init=False)
    switches: int = 0
    results: list[tuple[float, ClusterSnapshot, RoundResult]] = field(default_factory=list)

    def __post_init__(self) -> None:
        shape = (len(self.queues), len(self.capacity))
        self.last_start = dict.fromkeys(range(shape[0]), -math.inf)
        self.received, self.usage = np.zeros(shape), np.zeros(shape)

    def run(self, start: float, seconds: float, step: float = 30.0, check: Check | None = None) -> PodRun:
        """Rounds at every end of a pod and every `step`; `check` sees each round's snapshot, result and the use once pods have started."""
        now, running, keep = start, list[tuple[float, int, int]](), len(self.results) == 0
        waits = [[one.count for one in lines] for lines in self.pods]
        last: FloatArray | None = None
        while now < start + seconds - NEARLY:
            value = self.snapshot(waits, now - start)
            if self.reloads:
                self.memory = saved.load(saved.dump(self.memory))
            result, self.memory = decide(value, self.memory, self.config, now)
            self.switches += last is not None and not np.array_equal(last, result.level)
            last = result.level
            order = sorted(range(len(self.queues)), key=lambda row: self.last_start[row])  # the longest waiting pod is scheduled first
            started = [self._start(row, result.allocation[row], waits[row], running, now, start) for row in order]
            if any(started):
                # a pod that is bound is an event, and makes a round
                result, self.memory = decide(self.snapshot(waits, now - start), self.memory, self.config, now)
            if keep:
                self.results.append((now, value, result))
            if check is not None:
                check(self.snapshot(waits, now - start), result, self.usage)
            arrivals = [start + one.since for lines in self.pods for one in lines if start + one.since > now + NEARLY]
            then = min([now + step, start + seconds, *arrivals, *(end for end, _, _ in running)])
            then = max(min(then, result.next_boundary), now + 1e-3)
            self.received += self.usage * (then - now)
            now = then
            if self.usage.any():
                self.last_use = now
            for ended in [one for one in running if one[0] <= now + NEARLY]:
                running.remove(ended)
                self.usage[ended[1]] -= self.pods[ended[1]][ended[2]].request
        return self

    def snapshot(self, waits: Sequence[Sequence[float]], since: float) -> ClusterSnapshot:
        """Waiting pods count up to three times the cluster's capacity."""
        lines = [
            (row, one.request, min(count, 3 * _fitting(self.capacity, one.request)))
            for row, queue in enumerate(self.pods)
            for one, count in zip(queue, waits[row], strict=True)
            if count > 0 and one.since <= since + NEARLY
        ]
        demand, unit = self.usage.copy(), np.zeros_like(self.usage)
        for row, request, count in lines:
            demand[row] += request * count
        for row, queue in enumerate(self.pods):
            unit[row] = np.max([one.request for one in queue], axis=0, initial=0.0)
        pods = None
        if self.list_pods:
            rows, requests, counts = zip(*lines, strict=True) if lines else ((), (), ())
            pods = WaitingPods(
                np.array(rows, dtype=np.int64),
                np.array(requests, dtype=np.float64).reshape(-1, len(self.capacity)),
                np.array(counts, dtype=float),
            )
        names = RESOURCES[: len(self.capacity)]
        return ClusterSnapshot(names, self.capacity, self.capacity, self.queues, demand, self.usage.copy(), unit, waiting=pods)

    def _start(
        self, row: int, allowed: FloatArray, waits: list[float], running: list[tuple[float, int, int]], now: float, start: float
    ) -> bool:  # fmt: skip
        before = len(running)
        for number, one in enumerate(self.pods[row]):
            while waits[number] > 0 and start + one.since <= now + NEARLY:
                fits = (self.usage[row] + one.request <= allowed * (1 + NEARLY)).all()
                if not (fits and (self.usage.sum(axis=0) + one.request <= self.capacity * (1 + NEARLY)).all()):
                    break
                self.usage[row] += one.request
                waits[number] -= 1
                running.append((now + one.seconds, row, number))
                self.last_start[row] = now
        return len(running) > before


def _fitting(capacity: FloatArray, request: FloatArray) -> float:
    asked = request > 0
    return float(np.floor(np.min(capacity[asked] / request[asked]) + 1)) if asked.any() else 1.0
