"""Which queues a round looks at: at once where something is news for users, in turn where only figures have moved. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fairburst.kube.rounds import statuses
from fairburst.kube.rounds.status_turns import FIGURES_AHEAD, SWEEP_SECONDS
from fairburst.kube.views.status_plan import FIGURES_PER_SECOND
from tests.support.busy_queues import batch
from tests.support.objects import JsonObject, World, job, pod

TEAMS = [f"team-{number:03}" for number in range(120)]
# A second: those with new figures, those whose write was deferred, and those that are looked at whatever has changed.
IN_TURN = (FIGURES_AHEAD + 1) * FIGURES_PER_SECOND + len(TEAMS) / SWEEP_SECONDS


@pytest.fixture(params=["Quota", "Gate", "Suspend"])
def world(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> World:
    """Many queues that want more pods than they have, at rest. Looks come as often on a slow machine as on a fast one."""
    monkeypatch.setattr(statuses, "LOOK_FACTOR", 0.0)
    world = World(nodes=16)
    for team in TEAMS:
        batch(world, team, pods=1, wanted=9, spec={"enforcement": request.param})
    world.settle(50.0)  # not so long that their Jobs count as creating no pods
    return world


def moved(world: World, number: int) -> None:
    """A pod more runs in every second round, one fewer in the others."""
    for team in TEAMS:
        one = pod(team, "more", owner=("Job", f"{team}-job"), node="node-0", phase="Running")
        if number % 2:
            world.end(team, "more")
        else:
            world.put(one)


def looked_at(world: World) -> list[str]:
    world.after(1.0)
    plan = world.round()
    return [plan.queue_set.governing[row].namespace for row, _ in plan.shown]


def test_queues_whose_pods_come_and_go_are_looked_at_in_turn(world: World) -> None:
    looks = list[list[str]]()
    looked_at(world)
    for number in range(10):
        moved(world, number)
        looks.append(looked_at(world))
    assert sum(map(len, looks)) <= 1.5 * 10 * IN_TURN  # seen: 357; 720 if each queue were looked at whose pods have changed
    assert {team for look in looks for team in look} == set(TEAMS)


def test_news_in_one_queue_is_looked_at_before_the_figures_of_all_others(world: World) -> None:
    moved(world, 0)
    world.controller("Job", None, job("team-041", "huge", 1000))
    assert "team-041" in looked_at(world)
    assert "huge" in world.condition("ThroughputQueue", "team-041", "JobsFit")[2]


def test_a_queue_is_looked_at_when_the_last_of_its_work_has_started(world: World) -> None:
    for number in range(4):
        moved(world, number)
        looked_at(world)
    moved(world, 4)
    world.controller("Job", job("team-017", "team-017-job", 9), job("team-017", "team-017-job", 2))
    assert "team-017" in looked_at(world)


@pytest.mark.parametrize(
    ("answer", "again"),
    [
        pytest.param(lambda queue: queue, False, id="it arrived"),
        pytest.param(lambda _: None, True, id="it may not have"),
        pytest.param(
            lambda queue: {**queue, "metadata": {**queue["metadata"], "generation": 2}}, True, id="the queue was edited meanwhile"
        ),
    ],
)
def test_a_queue_whose_status_was_written_is_looked_at_again_only_if_something_may_be_new(
    world: World, answer: Callable[[JsonObject], JsonObject | None], again: bool
) -> None:
    world.controller("Job", None, job("team-007", "huge", 1000))
    world.after(1.0)
    plan = world.plan()
    written = {write.entry.namespace: write for write in plan.statuses}
    world.take(replace(plan, statuses=[write for name, write in written.items() if name != "team-007"]))
    key = written["team-007"].entry.key
    world.queues[key] = {**world.queues[key], "status": written["team-007"].status}
    world.engine.status_written(written["team-007"], world.now, 0.0, answer(world.queues[key]))
    seen = {team for _ in range(3) for team in looked_at(world)}
    assert ("team-007" in seen) is again
