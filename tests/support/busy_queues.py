"""Throughput queues whose Jobs run, on a hand-built cluster."""

from __future__ import annotations

from typing import Any

from tests.support.objects import World, job, pod


def batch(world: World, namespace: str = "batch", pods: int = 0, wanted: int = 100, **queue: Any) -> None:
    """A throughput queue with one Job of one-cpu pods, of which `pods` run."""
    world.queue("ThroughputQueue", namespace, **queue)
    world.controller("Job", None, job(namespace, f"{namespace}-job", wanted))
    run(world, namespace, pods)


def run(world: World, namespace: str, pods: int, first: int = 0) -> None:
    for number in range(first, first + pods):
        owner = ("Job", f"{namespace}-job")
        world.put(pod(namespace, f"p{number}", owner=owner, node=f"node-{number % 2}", phase="Running"))
