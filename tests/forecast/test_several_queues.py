"""A forecast where several queues divide a namespace: each Job counts for the queue that its pods ask for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from fairburst.forecast.from_cluster import Known, learn, state_of
from fairburst.kube.look import Look
from fairburst.whatif.rounds import DecidedRound
from tests.support.objects import World, job, latency_spec, pod_spec


def asking(name: str, queue: str) -> Any:
    template = {"metadata": {"labels": {"fairburst.dev/queue": queue}}, "spec": pod_spec()}
    found = job("team", name, 4, template=template)
    found.metadata.creation_timestamp = "2026-01-01T00:00:00Z"
    return found


def test_jobs_wait_in_the_queue_that_their_pods_ask_for() -> None:
    world = World()
    world.queue("LatencyQueue", "team", "bursts", latency_spec(), created="2026-01-01T00:00:00Z")
    world.queue("ThroughputQueue", "team", "nightly", created="2026-01-01T00:00:01Z")
    for name, queue in (("night", "nightly"), ("day", ""), ("lost", "missing")):
        world.controller("Job", None, asking(name, queue))
    plan = world.round()
    decided = SimpleNamespace(snapshot=plan.snapshot, now=plan.result.now, config=world.config.policy(), memory=world.engine.memory)
    seen = Look(world.config, {}, world.view, plan, cast(DecidedRound, decided), world.engine.demands, world.engine.pod_defaults)
    jobs = {one.name: one.queue for one in state_of(seen, Known()).jobs}
    assert jobs == {"team/night": "team/nightly", "team/day": "team/bursts", "team/lost": "team/bursts"}
    assert learn(seen, []).arrivals is not None
