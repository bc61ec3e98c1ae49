"""Observe mode: the would-be decision is reported, and enforced queues are not affected."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairburst.kube.api.objects import Job
from fairburst.kube.queues.job_annotations import FAMILY
from fairburst.kube.shadow import SHADOW_SECONDS
from tests.support.objects import World, job, latency_spec, node, pod, requesting

TQ, LQ = "ThroughputQueue", "LatencyQueue"
OBSERVED = ("seen-0", "seen-1", "seen-2")
ENFORCED = ("batch", "bursts", "other")


def enforced_part(world: World) -> dict[str, Any]:
    """Return all that the enforced queues have: classes, levels, quotas, ledgers and statuses."""
    plan = world.plan()
    names = [spec.name for spec in plan.snapshot.queues]
    return {
        "classes": dict(zip(names, plan.result.classes, strict=True)),
        "levels": dict(zip(names, plan.result.level.tolist(), strict=True)),
        "quotas": {key: (quota.spec.hard, quota.status.hard) for key, quota in world.quotas.items()},
        "ledgers": {name: world.engine.memory.entry(name) for name in names},
        "statuses": {key: obj.get("status") for key, obj in world.queues.items() if key[2] == "queue"},
        "labels": {name: namespace.metadata.labels for (_, name), namespace in world.namespaces.items()},
    }


def busy_world() -> World:
    """Two throughput queues and a latency queue that are enforced, and work in namespaces that no queue holds to anything."""
    world = World()
    for name in (*ENFORCED, *OBSERVED):
        world.namespace(name)
    world.queue(TQ, "batch")
    world.queue(TQ, "other", spec={"enforcement": "Gate"})
    world.queue(LQ, "bursts", spec=latency_spec(20, 30, 300))
    for name in ("batch", "other", *OBSERVED):
        world.controller("Job", None, job(name, "work", 100, requesting("1", "1Gi")))
    for number in range(6):
        world.put(pod("seen-0", f"p{number}", requesting("1", "1Gi"), node="node-0", phase="Running"))
        world.put(pod("batch", f"p{number}", requesting("1", "1Gi"), node="node-1", phase="Running", owner=("Job", "work")))
    return world


observed_specs = st.one_of(
    st.fixed_dictionaries({"weight": st.integers(1, 1000)}).map(lambda spec: (TQ, spec)),
    st.builds(
        lambda cpu, seconds, every, more: (LQ, latency_spec(cpu, seconds, every, **more)),
        st.integers(1, 60),
        st.integers(1, 60),
        st.integers(60, 600),
        st.sampled_from([{}, {"weight": 50}, {"reclaim": "Evict"}]),
    ),
)
changes = st.lists(st.tuples(st.sampled_from((*OBSERVED, "batch")), st.one_of(st.none(), observed_specs), st.floats(0.1, 20.0)), max_size=6)


@settings(deadline=None)
@given(changes)
def test_whatever_is_observed_changes_nothing_for_enforced_queues(steps: list[tuple[str, Any, float]]) -> None:
    """None removes the namespace's observed queue. One step in four adds an observed queue to a namespace with an enforced one."""
    with_observed, without = busy_world(), busy_world()
    for number, (namespace, wanted, seconds) in enumerate(steps):
        for kind in (TQ, LQ):
            with_observed.queues.pop((kind, namespace, "observed"), None)
        if wanted is not None:
            kind, spec = wanted
            with_observed.queue(kind, namespace, "observed", {**spec, "enforcement": "Observe"}, generation=number + 1)
        for world in (with_observed, without):
            world.round()
            world.after(seconds)
        assert enforced_part(with_observed) == enforced_part(without)


def test_an_observed_queue_shows_the_class_and_the_amounts_that_it_would_have() -> None:
    world = World()
    world.queue(TQ, "batch")
    world.queue(LQ, "bursts", spec=latency_spec(20, 30, 300, enforcement="Observe"))
    world.queue(TQ, "seen", spec={"enforcement": "Observe"})
    world.controller("Job", None, job("seen", "work", 100, requesting("1", "1Gi")))
    world.controller("Job", None, job("batch", "work", 100, requesting("1", "1Gi")))
    plan = world.round()
    assert world.status("bursts", kind=LQ)["class"] == "Hard"
    assert 30 <= float(world.status("seen")["allocation"]["cpu"]) <= 33, "half of 64 cpu would be its share"
    assert world.hard("batch")["requests.cpu"] == "65", "the enforced queue has all of them, and one pod more"
    assert {spec.name for spec in plan.snapshot.queues} == {"batch/queue"}


def test_a_queue_that_changes_from_observe_is_admitted_as_a_new_one() -> None:
    """No queue gets a promise that was only shown."""
    world = World()
    world.queue(LQ, "first", spec=latency_spec(40, 30, 300, enforcement="Observe"))
    world.round()
    assert world.status("first", kind=LQ)["class"] == "Hard"
    world.queue(LQ, "second", spec=latency_spec(40, 30, 300), created="2026-01-01T00:05:00Z")
    world.round()
    assert world.status("second", kind=LQ)["class"] == "Hard", "it is not in the way of others"
    world.queue(LQ, "first", spec=latency_spec(40, 30, 300), generation=2, status=world.status("first", kind=LQ))
    world.round()
    assert world.status("second", kind=LQ)["class"] == "Hard"
    assert world.status("first", kind=LQ).get("class") != "Hard", "both do not fit into 64 cpu"


def test_what_was_counted_while_a_queue_was_enforced_stays_counted_when_it_is_observed() -> None:
    """The decision on observed queues is some seconds older. It continues from the status, not from what it knew then."""
    world = World()
    world.queue(TQ, "seen", spec={"enforcement": "Observe"})
    world.queue(LQ, "bursts", spec=latency_spec(40, 30, 300))
    world.round()
    status = world.status("bursts", kind=LQ)
    status = status | {"history": status.get("history", {}) | {"bursts": 4, "met": 3, "missed": 1}}
    world.queue(LQ, "bursts", spec=latency_spec(40, 30, 300, enforcement="Observe"), generation=2, status=status)
    world.round()
    assert {name: world.status("bursts", kind=LQ)["history"][name] for name in ("bursts", "met", "missed")} == {
        "bursts": 4, "met": 3, "missed": 1,
    }  # fmt: skip


def test_an_observed_queue_is_decided_on_again_after_a_while_and_costs_nothing_between() -> None:
    world = World()
    world.queue(TQ, "seen", spec={"enforcement": "Observe"})
    world.round()
    world.controller("Job", None, job("seen", "work", 7, requesting("1", "1Gi")))
    world.after(SHADOW_SECONDS / 2)
    assert world.round().statuses == []
    world.after(SHADOW_SECONDS)
    world.round()
    world.after(SHADOW_SECONDS)
    world.round()
    assert world.status("seen")["demand"]["cpu"] == "7"


@pytest.mark.parametrize("mode", ["Quota", "Observe"])
def test_runs_teach_a_curve_whether_or_not_the_queue_is_enforced(mode: str) -> None:
    """docs/policies/paf.md: "Runs are watched with `enforcement: Observe` too". They were not since observed queues have a decision of
    their own (0124), and only a test that was not run could see it."""
    world = World()
    world.queue(TQ, "batch", spec={"elasticity": {}, "enforcement": mode})
    world.round()
    for size in (1, 2, 4, 8, 16):
        run_once(world, f"run-{size}", size, 30.0 + 10.0 / size)
    assert "batch/etl" in world.engine.slots.learned.curves
    world.controller("Job", None, of_family(job("batch", "next", 8, requesting("1", "1Gi"))))
    for _ in range(2):
        world.after(2 * SHADOW_SECONDS)
        world.round()
    shown = world.status("batch")["elasticity"]["mostAffected"]
    assert [(one["name"], "predictedMilli" in one) for one in shown] == [("next", True)]


def test_an_observed_queue_that_goes_is_learned_from_no_longer() -> None:
    world = World()
    world.queue(TQ, "batch", spec={"elasticity": {}, "enforcement": "Observe"})
    world.round()
    del world.queues[TQ, "batch", "queue"]
    world.round()
    for size in (1, 2, 4, 8, 16):
        run_once(world, f"run-{size}", size, 30.0 + 10.0 / size)
    assert world.engine.slots.learned.curves == {}


def run_once(world: World, name: str, size: int, seconds: float) -> None:
    """A run of the family `etl` from its first pod to its last, as the process sees it."""
    slots, made = world.engine.slots, of_family(job("batch", name, size))
    phases = ("Pending", "Running")
    pods = [
        [pod("batch", f"{name}-{number}", owner=("Job", name), node="node-0", phase=phase) for phase in phases] for number in range(size)
    ]
    for pending, running in pods:
        slots.pod_changed(None, pending, world.now, watched=True)
        slots.pod_changed(pending, running, world.now, watched=True)
    slots.job_changed(None, made, world.wall, world.now)
    world.after(seconds)
    for _, running in pods:
        slots.pod_changed(running, None, world.now, watched=True)
    complete = {"succeeded": size, "conditions": [{"type": "Complete", "status": "True"}]}
    slots.job_changed(made, of_family(job("batch", name, size, status=complete)), world.wall, world.now)


def of_family(made: Job) -> Job:
    made.metadata.labels = {FAMILY: "etl"}
    return made


def test_a_shadow_that_fails_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = busy_world()
    world.queue(TQ, "seen-0", spec={"enforcement": "Observe"})
    world.round()
    shadow = world.engine._shadow
    assert shadow is not None

    def fail(*_: object) -> None:
        raise RuntimeError("of the shadow")

    monkeypatch.setattr(shadow, "round", fail)
    world.after(2 * SHADOW_SECONDS)
    world.queue(TQ, "new")
    world.round()
    assert world.status("new")["class"] == "Elastic"


def test_an_observed_queue_may_name_a_resource_that_no_enforced_queue_names() -> None:
    """The two decisions then count different resources, and pods come and go between them."""
    world = World()
    world.nodes["", "node-0"] = node("node-0", cpu="32", memory="64Gi", _gpu="8")
    world.queue(TQ, "batch")
    burst = {"resources": {"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": "2"}, "durationSeconds": 20}
    arrival = {"sporadic": {"minInterarrivalSeconds": 600}}
    world.queue(LQ, "seen", spec={"burst": burst, "arrival": arrival, "enforcement": "Observe"})
    world.queue(TQ, "also-seen", spec={"enforcement": "Observe"})
    for number in range(5):
        plan = world.round()
        assert plan.snapshot.resources == ("cpu", "memory")
        for namespace in ("batch", "also-seen"):
            world.put(pod(namespace, f"p{number}", requesting("1", "1Gi"), node="node-0", phase="Running"))
        world.after(SHADOW_SECONDS + 1)
    assert world.status("seen", kind=LQ)["class"] == "Hard"
    assert world.status("also-seen")["usage"]["cpu"] == "4"
    assert world.engine.contained.problems == {}
