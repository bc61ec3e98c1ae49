"""Advice of `explain` in constructed situations: carried out on the operator's own engine, it admits the queue or starts its pod."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairburst.cli.advice_text import as_data
from fairburst.cli.explain import of_round, room
from fairburst.policy.model import Burst, ClusterSnapshot, Memory, PolicyConfig, QueueSpec, RoundResult, Schedule
from fairburst.whatif.advice import Advice, better_class, lacks_level, next_pod
from fairburst.whatif.rounds import DecidedRound
from tests.support.fake_api import merge_patch
from tests.support.objects import World, job, latency_spec, node, pod, requesting

LQ, TQ = "LatencyQueue", "ThroughputQueue"
Spec = dict[str, Any]


class Decider:
    """Decides for an engine, and keeps the last round."""

    last: DecidedRound

    def __call__(self, snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]:
        self.last = DecidedRound.of(snapshot, memory, config, now)
        return self.last.result, self.last.following


class Situation(World):
    """A cluster of two nodes with 32 cpu and 64 Gi each, and its engine."""

    def __init__(self, config: str = "", nodes: int = 2) -> None:
        super().__init__(config, nodes)
        self.decider = Decider()
        self.engine._decide = self.decider

    def add(self, kind: str, name: str, spec: Spec | None = None) -> None:
        """Add a queue in a namespace of the same name, and decide on it."""
        self.queue(kind, name, "q", spec, created=f"2026-01-01T00:00:{len(self.queues):02d}Z")
        self.settle()

    def work(self, name: str, pods: int, running: int = 0, cpu: str = "1", memory: str = "1Gi") -> None:
        """A Job that wants so many pods, of which some run."""
        self.controller("Job", None, job(name, f"{name}-job", pods, requesting(cpu, memory), completions=pods))
        for number in range(running):
            made = pod(
                name, f"p{number}", requesting(cpu, memory), owner=("Job", f"{name}-job"), node=f"node-{number % 2}", phase="Running"
            )
            self.put(made)
        self.settle()

    def settle(self) -> None:
        for _ in range(2):
            self.round()
            self.after(1.0)

    def carry_out(self, name: str, advice: Advice, *, counted: bool = True) -> None:
        """Do what the advice says: patch the queue as its command does, or add capacity and wait until promises count it."""
        key = next(key for key in self.queues if key[1] == name)
        if advice.spec is None:
            for number in range(len(self.nodes)):
                grown = node(f"node-{number}", cpu=f"{round(32_000 * advice.factor)}m", memory=f"{round(65536 * advice.factor)}Mi")
                self.nodes["", f"node-{number}"] = grown
            if counted:
                self.settle()
                self.after(1.2 * self.config.pool.capacity_window_seconds)
        else:
            before = self.decider.last.snapshot.queues[self.decider.last.row(f"{name}/q") or 0]
            patch = as_data(advice, before, 2)["patch"]
            changed = merge_patch(self.queues[key], {"spec": patch})
            changed["metadata"] = {**changed["metadata"], "generation": changed["metadata"]["generation"] + 1}
            self.queues[key] = changed
        self.settle()


def deadline(spec: Spec, seconds: int) -> Spec:
    return {**spec, "burst": {**spec["burst"], "deadlineSeconds": seconds}}


def periodic(cpu: str, duration: int, period: int, **more: Any) -> Spec:
    burst = {"resources": {"cpu": cpu, "memory": f"{cpu}Gi"}, "durationSeconds": duration}
    return {"burst": burst, "arrival": {"periodic": {"periodSeconds": period}}, **more}


def scheduled(cpu: str) -> Spec:
    burst = {"resources": {"cpu": cpu, "memory": f"{cpu}Gi"}, "durationSeconds": 20}
    return {"arrival": {"schedule": {"bursts": [{**burst, "arrival": f"2026-01-01T0{hour}:00:00Z"} for hour in range(1, 4)]}}}


def batches(world: Situation, count: int) -> None:
    for number in range(count):
        world.add(TQ, f"tq-{number}")


def bursts_of(spec: QueueSpec) -> list[Burst]:
    if isinstance(spec.arrival, Schedule):
        return [one.burst for one in spec.arrival.bursts]
    return [] if spec.burst is None else [spec.burst]


def jittering() -> Spec:
    return {**periodic("40", 20, 100), "arrival": {"periodic": {"periodSeconds": 100, "jitterSeconds": 10}}}


def memory_heavy() -> Spec:
    spec = latency_spec("1", 30, 60)
    return {**spec, "burst": {**spec["burst"], "resources": {"cpu": "1", "memory": "120Gi"}}}


def two_rates(world: Situation) -> None:
    world.add(LQ, "first", latency_spec("40", 20, 60))
    world.add(LQ, "me", latency_spec("40", 20, 100))


def unfair(world: Situation, spec: Spec, others: int = 2) -> None:
    batches(world, others)
    world.add(LQ, "me", spec)


def guarded(world: Situation, weight: int = 40) -> None:
    """A hard queue that needs nearly all of its fair share, and a newcomer that would take a part of it."""
    world.add(LQ, "first", latency_spec("40", 20, 60))
    world.add(TQ, "me", {"weight": weight})


# (situation, knobs that must be among the advice)
CLASSES: list[Any] = [
    pytest.param(two_rates, {"deadline", "demand", "capacity"}, id="its rate does not fit beside a hard one"),
    pytest.param(lambda w: (w.add(LQ, "first", latency_spec("30", 20, 60)), w.add(LQ, "me", latency_spec("40", 20, 100))),
                 {"deadline", "demand", "capacity"}, id="a rate that is a little too high"),
    pytest.param(lambda w: (w.add(LQ, "first", periodic("40", 20, 120)), w.add(LQ, "me", periodic("40", 20, 110))),
                 {"deadline", "demand", "capacity"}, id="periodic bursts that may meet"),
    pytest.param(lambda w: unfair(w, latency_spec("60", 30, 60)), {"weight", "period", "demand"}, id="sporadic, beyond the fair share"),
    pytest.param(lambda w: unfair(w, periodic("60", 30, 60)), {"weight", "period", "demand"}, id="periodic, beyond the fair share"),
    pytest.param(lambda w: unfair(w, latency_spec("60", 30, 60), 7), {"weight", "demand"}, id="a small share of many"),
    pytest.param(lambda w: unfair(w, latency_spec("60", 30, 61)), {"weight", "demand"}, id="an odd interarrival time"),
    pytest.param(lambda w: unfair(w, latency_spec("60", 30, 60, weight=2), 4), {"weight", "demand"}, id="with a weight of its own"),
    pytest.param(lambda w: unfair(w, deadline(latency_spec("60", 30, 60), 60)), {"weight", "demand"}, id="with the latest deadline"),
    pytest.param(lambda w: unfair(w, latency_spec("200", 10, 60)), {"demand", "capacity"}, id="a burst larger than the pool"),
    pytest.param(lambda w: unfair(w, latency_spec("80", 10, 600), 0), {"demand", "capacity", "deadline"}, id="a rate larger than the pool"),
    pytest.param(lambda w: unfair(w, scheduled("100"), 0), {"demand", "capacity"}, id="scheduled bursts larger than the pool"),
    pytest.param(lambda w: (w.add(LQ, "first", latency_spec("40", 20, 60)), w.add(LQ, "me", scheduled("40"))),
                 {"demand", "capacity"}, id="scheduled bursts beside a hard queue"),
    pytest.param(lambda w: (w.add(LQ, "first", latency_spec("32", 20, 60)), w.add(LQ, "me", latency_spec("33", 20, 100))),
                 {"deadline", "demand", "capacity"}, id="a rate that is one core too high"),
    pytest.param(lambda w: [w.add(LQ, name, latency_spec("20", 20, 80)) for name in ("first", "second", "third", "me")],
                 {"demand", "capacity"}, id="the fourth of four equal rates"),
    pytest.param(lambda w: (w.add(LQ, "first", periodic("40", 20, 120)), w.add(LQ, "me", latency_spec("40", 20, 100))),
                 {"deadline", "demand", "capacity"}, id="sporadic beside periodic"),
    pytest.param(lambda w: (w.add(LQ, "first", latency_spec("40", 20, 60)), w.add(LQ, "me", periodic("40", 20, 100))),
                 {"deadline", "demand", "capacity"}, id="periodic beside sporadic"),
    pytest.param(lambda w: (w.add(LQ, "first", latency_spec("40", 20, 60)),
                            w.add(LQ, "me", jittering())),
                 {"deadline", "demand", "capacity"}, id="periodic with jitter"),
    pytest.param(lambda w: (w.add(LQ, "first", latency_spec("40", 20, 60)), w.add(LQ, "me", deadline(latency_spec("60", 20, 120), 25))),
                 {"deadline", "demand", "capacity"}, id="with a deadline of its own"),
    pytest.param(lambda w: (w.add(LQ, "first", latency_spec("40", 20, 60)), w.add(TQ, "tq"), w.add(LQ, "me", latency_spec("40", 20, 100))),
                 {"deadline", "demand", "capacity"}, id="beside hard and batch queues"),
    pytest.param(lambda w: w.add(LQ, "me", latency_spec("63", 30, 100, weight=1)), {"weight", "demand", "period"}, id="alone and unfair"),
    pytest.param(lambda w: w.add(LQ, "me", periodic("63", 30, 100)), {"weight", "demand", "period"}, id="alone, periodic and unfair"),
    pytest.param(lambda w: unfair(w, memory_heavy()), {"weight", "demand"}, id="memory is what is too much"),
    pytest.param(lambda w: unfair(w, latency_spec("60", 30, 60, suspended=False), 3), {"demand"}, id="three batch queues"),
    pytest.param(lambda w: unfair(w, periodic("45", 30, 70)), {"weight", "demand", "period"}, id="a period that is a little too short"),
    pytest.param(lambda w: unfair(w, latency_spec("64", 20, 60), 0), {"demand", "capacity"}, id="all of the pool"),
    pytest.param(lambda w: unfair(w, latency_spec("17", 60, 60), 3), {"demand", "capacity"}, id="a burst without an end"),
    pytest.param(lambda w: guarded(w, 100), {"weight", "capacity"}, id="a throughput queue with a very large weight"),
    pytest.param(guarded, {"weight", "capacity"}, id="a throughput queue whose weight breaks a promise"),
    pytest.param(lambda w: guarded(w, 6), {"weight", "capacity"}, id="a throughput queue whose weight is a little too large"),
    pytest.param(lambda w: (w.add(LQ, "first", latency_spec("40", 20, 60)), w.add(LQ, "me", latency_spec("10", 10, 600, weight=40))),
                 {"weight", "capacity"}, id="a latency queue whose weight breaks a promise"),
    pytest.param(lambda w: w.add(LQ, "me", latency_spec("20", suspended=True)), {"suspended"}, id="a suspended latency queue"),
    pytest.param(lambda w: w.add(TQ, "me", {"suspended": True}), {"suspended"}, id="a suspended throughput queue"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "knobs"), CLASSES)
def test_advice_for_a_better_class_gives_it(make: Callable[[Situation], None], knobs: set[str]) -> None:
    world = Situation()
    make(world)
    found = better_class(world.decider.last, "me/q")
    assert knobs <= {one.knob for one in found}, [(one.knob, one.factor) for one in found]
    kind = next(key[0] for key in world.queues if key[1] == "me")
    best = "Hard" if kind == LQ else "Elastic"
    others = {key: obj["status"]["class"] for key, obj in world.queues.items() if key[1] != "me"}
    assert world.status("me", "q", kind).get("class") != best
    for one in found:
        again = Situation()
        make(again)
        again.carry_out("me", one)
        assert again.status("me", "q", kind)["class"] == best, (one.knob, one.factor)
        assert {key: obj["status"]["class"] for key, obj in again.queues.items() if key[1] != "me"} == others


def full(world: Situation, spec: Spec | None = None, pods: int = 32, cpu: str = "1") -> None:
    """Two throughput queues that want more than all of it, and have their halves."""
    for name in ("other", "me"):
        world.add(TQ, name, spec if name == "me" else None)
    world.work("other", 100, pods, cpu)
    world.work("me", 100, pods, cpu)


def three(world: Situation) -> None:
    for name in ("other", "another", "me"):
        world.add(TQ, name)
    for name in ("other", "another", "me"):
        world.work(name, 100, 17, "1.25")


PODS: list[Any] = [
    pytest.param(full, {"weight", "capacity"}, id="a half that is used"),
    pytest.param(lambda w: full(w, pods=8, cpu="4"), {"weight", "capacity"}, id="large pods"),
    pytest.param(lambda w: (w.add(TQ, "me", {"limits": {"cpu": "10"}}), w.work("me", 50, 10)), {"limits"}, id="its own limit"),
    pytest.param(lambda w: (w.add(TQ, "me", {"limits": {"memory": "4Gi"}}), w.work("me", 50, 4)), {"limits"}, id="its limit of memory"),
    pytest.param(lambda w: full(w, pods=4, cpu="8"), {"weight", "capacity"}, id="very large pods"),
    pytest.param(three, {"weight", "capacity"}, id="a third of three"),
    pytest.param(lambda w: (w.add(TQ, "me", {"suspended": True}), w.work("me", 5)), {"suspended"}, id="suspended with work"),
]


@pytest.mark.parametrize(("make", "knobs"), PODS)
def test_advice_for_the_next_pod_admits_it(make: Callable[[Situation], None], knobs: set[str]) -> None:
    world = Situation()
    make(world)
    one = world.decider.last
    row = one.row("me/q")
    assert row is not None
    assert lacks_level(one, row)
    found = next_pod(one, "me/q")
    assert knobs <= {each.knob for each in found}, [(each.knob, each.factor) for each in found]
    for each in found:
        again = Situation()
        make(again)
        again.carry_out("me", each, counted=False)  # levels follow capacity at once
        assert not lacks_level(again.decider.last, row), (each.knob, each.factor)


@pytest.mark.parametrize(("make", "knobs"), CLASSES[:2])
def test_a_smaller_change_than_advised_does_not_do(make: Callable[[Situation], None], knobs: set[str]) -> None:
    world = Situation()
    make(world)
    advice = next(one for one in better_class(world.decider.last, "me/q") if one.knob == "deadline")
    assert advice.spec is not None
    assert advice.spec.burst is not None
    world.carry_out("me", advice)
    assert world.status("me", "q", LQ)["class"] == "Hard"
    again = Situation()
    make(again)
    key = next(key for key in again.queues if key[1] == "me")
    less = round(advice.spec.burst.deadline_seconds) - 1
    again.queues[key] = merge_patch(again.queues[key], {"spec": {"burst": {"deadlineSeconds": less}}, "metadata": {"generation": 2}})
    again.settle()
    assert again.status("me", "q", LQ)["class"] == "Soft"


@pytest.mark.parametrize(
    ("make", "resource"),
    [
        pytest.param(two_rates, "cpu", id="cpu of its rate"),
        pytest.param(lambda w: unfair(w, memory_heavy()), "memory", id="memory of its share"),
        pytest.param(lambda w: (w.add(LQ, "first", latency_spec("40", 20, 60)), w.add(LQ, "me", scheduled("40"))), "cpu", id="a schedule"),
    ],
)
def test_advice_on_a_burst_changes_only_the_resource_that_stands_in_the_way(make: Callable[[Situation], None], resource: str) -> None:
    """It made all of a burst smaller where only its cpu was too much."""
    world = Situation()
    make(world)
    one = world.decider.last
    spec = one.snapshot.queues[one.row("me/q") or 0]
    advice = next(each for each in better_class(one, "me/q") if each.knob == "demand")
    assert advice.spec is not None
    for was, now in zip(bursts_of(spec), bursts_of(advice.spec), strict=True):
        assert {name for name, amount in now.resources.items() if amount != was.resources[name]} == {resource}


def test_a_limit_that_is_not_in_the_way_of_the_next_pod_stays() -> None:
    world = Situation()
    world.add(TQ, "me", {"limits": {"cpu": "10", "memory": "100Gi"}})
    world.work("me", 50, 10)
    (advice,) = (each for each in next_pod(world.decider.last, "me/q") if each.knob == "limits")
    assert advice.spec is not None
    assert advice.spec.limits["memory"] == 100 * 2**30
    assert advice.spec.limits["cpu"] >= 11


def test_a_queue_whose_level_admits_more_is_told_what_it_waits_for() -> None:
    """Two thirds are due, half of the pool is used by it and half by the other queue: no change of levels starts a pod."""
    world = Situation()
    full(world, {"weight": 2})
    one = world.decider.last
    row = one.row("me/q")
    assert row is not None
    assert not next_pod(one, "me/q")
    assert "the pool has no room: 0 cores are free, the pod needs 1 core" in of_round(one, row).goal


@pytest.mark.parametrize(
    ("above", "outside", "want"),
    [
        pytest.param(12.0, 0.0, True, id="another queue above its share"),
        pytest.param(0.0, 12.0, False, id="pods outside the queues, or of a queue in Observe mode"),
        pytest.param(0.5, 11.5, False, id="another queue, less than a pod above its share"),
    ],
)
def test_reclaim_is_named_only_where_it_could_take_the_room(above: float, outside: float, want: bool) -> None:
    """What pods outside the queues hold is no part of the capacity, and levels follow it only after a while."""
    world = Situation()
    full(world, {"weight": 2})
    one = world.decider.last
    me, other = one.row("me/q"), one.row("other/q")
    assert me is not None
    assert other is not None
    usage, capacity = one.snapshot.usage.copy(), one.snapshot.live_capacity.copy()
    usage[other] = np.minimum(one.result.guaranteed[other], one.result.level[other])
    usage[other, 0] += above
    usage[me, 0] = capacity[0] - usage[other, 0] - outside
    capacity[0] -= outside
    crowded = replace(one, snapshot=replace(one.snapshot, usage=usage, live_capacity=capacity))
    said = room(crowded, me)
    assert "the pool has no room: 0 cores are free, the pod needs 1 core. It starts when running work ends" in said
    assert ("`reclaim: Evict` in its spec would take the room" in said) == want
    assert ("would take none of it" in said) != want


def test_there_is_no_advice_for_the_next_pod_where_none_waits() -> None:
    """All pods of the queue run, more than its level since others came: its allocation fell, and nothing waits for it."""
    world = Situation()
    world.add(TQ, "me")
    world.work("me", 60, 60)
    world.add(TQ, "other")
    world.work("other", 60)
    one = world.decider.last
    row = one.row("me/q")
    assert row is not None
    assert (one.result.level[row] < one.snapshot.usage[row]).any()
    assert not lacks_level(one, row)
    assert not next_pod(one, "me/q")
    assert not of_round(one, row).goal


def test_there_is_no_advice_for_a_queue_that_has_everything() -> None:
    world = Situation()
    world.add(LQ, "me", latency_spec("20"))
    world.add(TQ, "tq")
    assert not better_class(world.decider.last, "me/q")
    assert not better_class(world.decider.last, "tq/q")
    assert not next_pod(world.decider.last, "tq/q")
    assert not better_class(world.decider.last, "nothing/q")


def test_the_smallest_change_comes_first_and_capacity_last() -> None:
    world = Situation()
    two_rates(world)
    found = better_class(world.decider.last, "me/q")
    assert found[-1].knob == "capacity"
    sizes = [one.size for one in found[:-1]]
    assert all(one <= other for one, other in itertools.pairwise(sizes))
