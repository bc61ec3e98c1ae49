"""A driver for work in pods that cannot be stopped: they start while the queue's level permits, and run to their end.

The level, as a quota, stands for the API server; capacity and the order of classes stand for kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.decide import decide
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, Memory, PolicyConfig, QueueSpec, RoundResult
from tests.support.policy import snapshot

RANK = {GuaranteeClass.HARD: 0, GuaranteeClass.SOFT: 1, GuaranteeClass.ELASTIC: 2, None: 3}


@dataclass
class PodQueue:
    """Pods of one queue: `amount` (K,) each, running for `seconds`, whatever is declared; each of the `arrivals` brings `count` pods."""

    spec: QueueSpec
    amount: FloatArray
    seconds: float
    arrivals: Sequence[float]
    count: int
    ends: list[float] = field(default_factory=list)
    waiting: int = 0


@dataclass
class PodHistory:
    """Use by queue, integrated over the run, in dominant-share-seconds; the result and the demand of every settled round."""

    used: dict[str, float]
    rounds: list[RoundResult] = field(default_factory=list)
    wanted: list[FloatArray] = field(default_factory=list)


def run_pods(queues: Sequence[PodQueue], capacity: Sequence[float], start: float, until: float) -> PodHistory:
    """Rounds at boundaries, arrivals and ends of pods, at least every 5 s; each decided again once pods have started."""
    total = np.array(capacity, dtype=np.float64)
    specs = tuple(item.spec for item in queues)
    history, memory = PodHistory({spec.name: 0.0 for spec in specs}), Memory()
    seen, now = start - 1.0, start
    while now < until:
        for item in queues:
            item.ends = [end for end in item.ends if end > now + 1e-9]
            item.waiting += item.count * sum(seen < at <= now for at in item.arrivals)
        seen = now
        result, memory = decide(_snapshot(queues, specs, capacity), memory, PolicyConfig(), now)
        if _start(queues, result, total, now):
            result, memory = decide(_snapshot(queues, specs, capacity), memory, PolicyConfig(), now)
        history.rounds.append(result)
        history.wanted.append(_amounts(queues, [len(item.ends) + item.waiting for item in queues]))
        coming = [at for item in queues for at in item.arrivals if at > now]
        ends = [end for item in queues for end in item.ends]
        then = max(min([until, now + 5.0, result.next_boundary, *coming, *ends]), now + 1e-3)
        for item in queues:
            history.used[item.spec.name] += float((item.amount * len(item.ends) / total).max()) * (then - now)
        now = then
    return history


def _amounts(queues: Sequence[PodQueue], pods: Sequence[int]) -> FloatArray:
    return np.array([item.amount * number for item, number in zip(queues, pods, strict=True)])


def _snapshot(queues: Sequence[PodQueue], specs: tuple[QueueSpec, ...], capacity: Sequence[float]) -> ClusterSnapshot:
    running = [len(item.ends) for item in queues]
    wanted = [len(item.ends) + item.waiting for item in queues]
    return snapshot(specs, capacity, _amounts(queues, wanted), _amounts(queues, running), _amounts(queues, [1] * len(queues)))


def _start(queues: Sequence[PodQueue], result: RoundResult, total: FloatArray, now: float) -> bool:
    """Start what levels and free capacity permit, strongest class first; True if anything started."""
    free = total - _amounts(queues, [len(item.ends) for item in queues]).sum(axis=0)
    started = False
    for row in sorted(range(len(queues)), key=lambda at: (RANK[result.classes[at]], at)):
        item = queues[row]
        while item.waiting and (item.amount <= free + 1e-9).all():
            if ((len(item.ends) + 1) * item.amount > result.level[row] + 1e-9).any():
                break
            item.ends.append(now + item.seconds)
            item.waiting -= 1
            free = free - item.amount
            started = True
    return started
