"""A wall clock that steps leaves open windows and accounts as they are; a restart with a clock that is behind does, too."""

from __future__ import annotations

import pytest

from fairburst.kube.shadow import ObservingEngine
from fairburst.kube.times import to_text
from fairburst.kube.wall_clock import DOUBT_SECONDS, WallClock
from tests.support.objects import World, job, latency_spec, pod

HOUR = 3600.0


def bursting(duration: int = 20) -> World:
    """A burst that began two seconds ago and uses 8 cores, and a batch queue that wants everything."""
    world = World("smallJobs: {enabled: false}")
    world.queue("ThroughputQueue", "batch")
    world.controller("Job", None, job("batch", "work", 200))
    world.queue("LatencyQueue", "burst", spec=latency_spec("8", duration, 3 * duration))
    world.round()
    world.controller("Job", None, job("burst", "work", 8))
    for number in range(8):
        world.put(pod("burst", f"work-{number}", node="node-0"))
    world.after(1.0)
    world.round()
    world.after(1.0)
    world.round()
    assert state(world) == "Open"
    return world


def state(world: World) -> str:
    window = world.engine.memory.entry("burst/queue").window
    assert window is not None
    return window.state.value


def seconds_open(world: World) -> tuple[float, float]:
    """How long the window stays open from now on, and what its ledger is charged meanwhile, as of its last second."""
    before = charged = world.engine.memory.entry("burst/queue").ledger(world.wall)
    waited = 0.0
    while state(world) == "Open" and waited < 300:
        charged = world.engine.memory.entry("burst/queue").ledger(world.wall)
        world.after(1.0)
        waited += 1.0
        world.round()
    return waited, charged - before


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_a_window_lasts_as_long_and_costs_as_much_whatever_the_clock_does(step: float) -> None:
    straight, stepped = bursting(200), bursting(200)
    stepped.wall += step
    for _ in range(round(DOUBT_SECONDS) + 1):
        for world in (straight, stepped):
            world.round()
            world.after(1.0)
    assert (state(straight), state(stepped)) == ("Open", "Open")
    lasted, charged = seconds_open(stepped)
    assert (lasted, charged) == pytest.approx(seconds_open(straight), rel=1e-3)
    assert charged > 0


def test_a_process_whose_clock_is_behind_takes_the_window_over_for_no_longer_than_a_whole_one() -> None:
    taken = bursting()
    taken.after(5.0)
    taken.round()
    taken.engine = ObservingEngine(taken.config, taken.config.namespace)
    taken.wall -= HOUR
    taken.round()
    lasted, charged = seconds_open(taken)
    assert 1 <= lasted <= 20
    assert charged > 0


@pytest.mark.parametrize(
    ("clocks", "want"),
    [
        pytest.param([(100, 1), (105, 6), (165, 66)], [(100, 0), (105, 0), (165, 0)], id="no step"),
        pytest.param([(100, 1), (100.5, 2)], [(100, 0), (100.5, 0)], id="slewing is followed at once"),
        pytest.param(
            [(5000, 1), (1401, 2), (1402, 3), (1461, 62), (1462, 63)],
            [(5000, 0), (5001, 0), (5002, 0), (1461, -3600), (1462, 0)],
            id="a step back that lasts",
        ),
        pytest.param([(100, 1), (3702, 3), (3770, 71)], [(100, 0), (102, 0), (3770, 3600)], id="a step forward that lasts"),
        pytest.param(
            [(100, 1), (3702, 3), (3720, 21), (122, 23), (3802, 103), (202, 103)],
            [(100, 0), (102, 0), (120, 0), (122, 0), (202, 0), (202, 0)],
            id="forward and back, twice",
        ),
        pytest.param(
            [(100, 1), (3702, 3), (7350, 51), (7360, 61), (7409, 110), (7411, 112)],
            [(100, 0), (102, 0), (150, 0), (160, 0), (209, 0), (7411, 7200)],
            id="a second step begins the doubt again",
        ),
        pytest.param(
            [(100, 1), (3702, 3), (4300, 601), (4301, 602)], [(100, 0), (102, 0), (4300, 3600), (4301, 0)], id="a pause meanwhile"
        ),
    ],
)
def test_a_step_is_followed_once_it_has_lasted(clocks: list[tuple[float, float]], want: list[tuple[float, float]]) -> None:
    clock = WallClock()
    assert [clock.read(wall, now) for wall, now in clocks] == want


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_a_clock_that_is_wrong_for_some_seconds_uses_up_no_dated_arrival(step: float) -> None:
    """The burst has a date in the jump; its work comes at the true time."""
    world, work = World("smallJobs: {enabled: false}"), job("burst", "work", 8)
    spec = latency_spec("8", 20, 60)
    spec["arrival"] = {"periodic": {"periodSeconds": 60, "firstArrival": to_text(world.wall + 10)}}
    world.queue("LatencyQueue", "burst", spec=spec)
    world.round()
    for at in range(1, 60):
        world.after(1.0)
        world.wall += step if at == 3 else -step if at == 23 else 0.0
        if at == 10:
            world.controller("Job", None, work)
            for number in range(8):
                world.put(pod("burst", f"work-{number}", node="node-0"))
        if at == 20:
            world.controller("Job", work, None)
            for number in range(8):
                world.end("burst", f"work-{number}")
        world.round()
    entry = world.engine.memory.entry("burst/queue")
    assert (entry.met, entry.missed) == (1, 0)
