"""Rounds that examine only changes lead to the same result as rounds that examine everything."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fairburst.kube.rounds.core_input import MANY_CONTROLLERS, PAUSE_A_CONTROLLER
from tests.support.objects import World, job, latency_spec, node, pod, requesting

TQ, LQ = "ThroughputQueue", "LatencyQueue"
NAMESPACES = ("a", "b", "c", "d", "e")
MODES = ("Quota", "Gate", "Suspend", "Observe")


class _LooksAtEverything(World):
    """The reference: each round begins as after a failed one."""

    def plan(self) -> Any:
        self.engine._unfinished = True
        return super().plan()


def _change(world: World, what: tuple[Any, ...]) -> None:
    """One change of the cluster, the same in any world."""
    kind, where, number = what
    if kind == "throughput":
        world.queue(TQ, where, spec={"weight": 1 + number % 3, "enforcement": MODES[number % 4]}, generation=number)
    elif kind == "latency":
        world.queue(LQ, f"l{where}", spec=latency_spec() | {"enforcement": MODES[number % 2]}, generation=number)
    elif kind == "gone":
        world.queues.pop((TQ, where, "queue"), None)
    elif kind == "job":
        world.controller("Job", None, job(where, f"job-{number % 3}", 1 + number % 20))
    elif kind == "pod":
        world.put(pod(where, f"pod-{number % 5}", requesting("1", "1Gi"), node=f"node-{number % 2}" if number % 3 else ""))
    elif kind == "node":
        world.nodes["", f"extra-{number % 2}"] = node(f"extra-{number % 2}", cpu=str(8 + number % 40))
    elif kind == "edited" and (where, "fairburst") in world.quotas:
        del world.quotas[where, "fairburst"]
    elif kind == "time":
        world.after(float(number % 90))


def _history(seed: int) -> list[tuple[Any, ...]]:
    chance = random.Random(seed)
    kinds = ("throughput", "latency", "gone", "job", "job", "pod", "pod", "pod", "node", "edited", "time", "time")
    return [(chance.choice(kinds), chance.choice(NAMESPACES), number) for number in range(1, 60)]


def _settled(world: World) -> dict[str, Any]:
    """Return the stored objects once nothing more is written."""
    for _ in range(30):
        world.after(70.0)
        world.round()
    shown = {key: _without_times(obj.get("status") or {}) for key, obj in world.queues.items()}
    return {"quotas": {key: quota.spec.hard for key, quota in world.quotas.items()}, "statuses": shown}


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        drifting = {"asOf", "lastTransitionTime", "message", "valueMilliseconds", "deliveredMilliseconds", "ledger", "fairShare", "balance"}
        drifting |= {"week", "lastWeek"}  # sums over the looks, which come at other times
        return {name: _without_times(inner) for name, inner in value.items() if name not in drifting}
    return [_without_times(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(25))
def test_looking_only_at_what_has_changed_leads_to_the_same_as_looking_at_everything(seed: int) -> None:
    """docs/decisions/0123-rounds-by-what-changed.md: a difference only says where to look."""
    worlds = [World(), _LooksAtEverything()]
    for world in worlds:
        for what in _history(seed):
            _change(world, what)
            world.round()
            world.after(0.1)
    changed, everything = (_settled(world) for world in worlds)
    assert changed["quotas"] == everything["quotas"]
    assert changed["statuses"] == everything["statuses"]


def test_a_write_that_was_lost_is_planned_again() -> None:
    world = World()
    world.queue(TQ, "a")
    world.controller("Job", None, job("a", "job", 4))
    assert world.plan().quota_writes
    world.after(2.0)
    assert world.plan().quota_writes, "nothing has changed, and the quota is still missing"


def test_namespaces_with_many_jobs_are_read_the_less_often_the_more_there_are_and_others_at_once() -> None:
    """Thirty queues with five hundred unfinished Jobs each: a round read all of them, for a fifth of a second, and the next one again."""
    world, crowded = World(), ("a", "b", "c")
    for name in (*crowded, "small"):
        world.queue(TQ, name)
        for number in range(MANY_CONTROLLERS if name in crowded else 1):
            world.controller("Job", None, job(name, f"job-{number}", 1))
    world.settle()
    world.after(10.0)

    def read_with_one_more(name: str) -> set[str]:
        """Which namespaces a round reads after each of them has got a Job."""
        before = {space: len(world.engine.demands[space].desired_pods) for space in (*crowded, "small")}
        for space in before:
            world.controller("Job", None, job(space, name, 1))
        world.round()
        return {space for space, count in before.items() if len(world.engine.demands[space].desired_pods) > count}

    pause = PAUSE_A_CONTROLLER * 3 * MANY_CONTROLLERS
    assert read_with_one_more("first") == {*crowded, "small"}
    world.after(0.9 * pause)
    assert read_with_one_more("second") == {"small"}
    world.after(0.2 * pause)
    assert read_with_one_more("third") == {*crowded, "small"}


def test_a_namespace_with_many_jobs_is_read_less_often_but_its_use_is_that_of_the_moment() -> None:
    """Otherwise every event of such a namespace would make the round of all others longer."""
    world, many = World(), 2 * MANY_CONTROLLERS
    world.queue(TQ, "a")
    for number in range(many):
        world.controller("Job", None, job("a", f"job-{number}", 1))
    world.settle()
    world.after(10.0)
    world.controller("Job", None, job("a", "one more", 1))
    assert len(world.plan().snapshot.waiting.count) == 1
    world.after(0.01)
    world.put(pod("a", "first", requesting("1", "1Gi"), owner=("Job", "job-0"), node="node-0"))
    world.controller("Job", None, job("a", "another", 1))
    plan = world.plan()
    demand = plan.snapshot.demand[0, 0]
    assert plan.snapshot.usage[0, 0] == 1.0, "the pod counts at once"
    assert plan.due <= world.now + 1.1 * PAUSE_A_CONTROLLER * many
    world.after_due(plan)
    assert world.plan().snapshot.demand[0, 0] >= demand
    assert len(world.engine.demands["a"].desired_pods) == many + 2
