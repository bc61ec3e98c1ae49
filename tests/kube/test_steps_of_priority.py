"""Steps of priority: they order the work of one queue, in Gate and Suspend mode, and nothing between queues."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairburst.kube.api.objects import SchedulingGate
from fairburst.kube.enforce.holds import HOLD_SETTLES_SECONDS
from fairburst.kube.names import GATE, HELD_ANNOTATION, STEP_LABEL
from fairburst.kube.queues.steps import NORMAL, STEPS, step_of
from fairburst.kube.usage.gated_pods import GROUP_LABEL, GROUP_SIZE
from tests.support.held_work import SUSPENDS, TQ, jobs, waiting
from tests.support.objects import World, job, pod, requesting

GATES: dict[str, Any] = {"enforcement": "Gate"}


def settle(world: World) -> None:
    for _ in range(5):
        world.round()
        world.after(HOLD_SETTLES_SECONDS)


def gated(world: World, namespace: str, name: str, step: str = "", created: int = 0, **labels: str) -> None:
    """A pod of a cpu behind our gate; `created` in seconds."""
    own = labels | ({STEP_LABEL: step} if step else {})
    made = pod(namespace, name, requesting("1", "1Gi"), labels=own, creationTimestamp=f"2026-01-01T00:00:{created:02}Z")
    made.spec.scheduling_gates = [SchedulingGate(GATE)]
    world.put(made)


def released(world: World, namespace: str = "batch") -> list[str]:
    return sorted(name for (where, name), one in world.pods.items() if where == namespace and not one.gated)


def behind_gates(world: World) -> list[str]:
    return [one.key[1] for one in world.engine.gates.gated.of("batch")]


def held(world: World, name: str, pods: int, created: int, on_job: str = "", on_pods: str = "") -> None:
    """A Job as the policy has suspended it, with a step on itself or on its pods; `created` in minutes."""
    template = {"metadata": {"labels": {STEP_LABEL: on_pods} if on_pods else {}}, "spec": {"containers": [requesting("1", "1Gi")]}}
    made = job("batch", name, pods, suspend=True, template=template)
    made.metadata.annotations, made.metadata.labels = {HELD_ANNOTATION: "true"}, {STEP_LABEL: on_job} if on_job else None
    made.metadata.creation_timestamp, made.metadata.resource_version = f"2026-01-01T00:{created:02}:00Z", "1"
    world.controller("Job", None, made)


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param([{}], "normal", id="no label"),
        pytest.param([None], "normal", id="no labels"),
        pytest.param([{STEP_LABEL: "high"}], "high", id="high"),
        pytest.param([{STEP_LABEL: "urgent"}], "normal", id="no step"),
        pytest.param([{STEP_LABEL: "High"}], "normal", id="another case"),
        pytest.param([{STEP_LABEL: "low"}, {STEP_LABEL: "high"}], "low", id="the first counts"),
        pytest.param([{STEP_LABEL: ""}, {STEP_LABEL: "high"}], "high", id="the first that names a step"),
    ],
)
def test_a_label_names_one_of_three_steps(labels: list[dict[str, str] | None], want: str) -> None:
    assert STEPS[step_of(*labels)] == want
    assert STEPS[NORMAL] == "normal"


def test_gated_pods_go_by_their_step_and_then_by_age() -> None:
    world = World()
    world.queue(TQ, "batch", spec=GATES)
    gated(world, "batch", "a", "low", 0)
    gated(world, "batch", "b", "", 1)
    gated(world, "batch", "c", "normal", 2)
    gated(world, "batch", "d", "high", 3)
    gated(world, "batch", "e", "high", 4)
    assert behind_gates(world) == ["d", "e", "b", "c", "a"]
    gated(world, "batch", "a", "high", 0)
    assert behind_gates(world) == ["a", "d", "e", "b", "c"], "a label may change while the pod waits"


def test_a_group_takes_the_place_of_its_first_pod() -> None:
    world = World(nodes=1)
    world.queue(TQ, "batch", spec=GATES)
    world.queue(TQ, "other")
    world.controller("Job", None, job("other", "work", 200))
    for number in range(40):
        gated(world, "batch", f"early-{number:02}", created=number)
    for number in range(8):
        gated(world, "batch", f"group-{number}", "high" if number == 0 else "", 50, **{GROUP_LABEL: "g", GROUP_SIZE: "8"})
    settle(world)
    assert len([name for name in released(world) if name.startswith("group")]) == 8
    assert len(released(world)) == 16


def test_steps_change_nothing_between_queues() -> None:
    """A tenant that marks all of its pods as high has no more of the cluster for it."""
    world = World()
    for namespace in ("batch", "other"):
        world.queue(TQ, namespace, spec=GATES)
    for number in range(60):
        gated(world, "batch", f"p{number:02}", "low")
        gated(world, "other", f"p{number:02}", "high")
    settle(world)
    assert (len(released(world)), len(released(world, "other"))) == (32, 32)


@pytest.mark.parametrize("where", ["on_job", "on_pods"])
def test_held_jobs_start_by_their_step_and_then_by_age(where: str) -> None:
    world = World()
    world.queue(TQ, "batch", spec=SUSPENDS)
    held(world, "low", 40, 0, **{where: "low"})
    held(world, "normal", 40, 1)
    held(world, "high", 40, 2, **{where: "high"})
    settle(world)
    assert waiting(world) == ["low", "normal"], "64 cpu hold one of them"
    world.controller("Job", jobs(world)["high"], None)
    settle(world)
    assert waiting(world) == ["low"]


def test_a_step_that_changes_while_a_job_waits_counts() -> None:
    world = World()
    world.queue(TQ, "batch", spec=SUSPENDS)
    held(world, "first", 40, 0)
    held(world, "second", 40, 1)
    held(world, "third", 40, 2)
    settle(world)
    old = jobs(world)["third"]
    world.controller("Job", old, msgspec.structs.replace(old, metadata=msgspec.structs.replace(old.metadata, labels={STEP_LABEL: "high"})))
    world.controller("Job", jobs(world)["first"], None)
    settle(world)
    assert waiting(world) == ["second"]
