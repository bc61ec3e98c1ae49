"""A wall clock that steps leaves open windows and accounts as they are; a restart with a clock that is behind does, too."""

from __future__ import annotations

from typing import Any

import pytest

from fairburst.kube.shadow import ObservingEngine
from fairburst.kube.wall_clock import WallClock
from tests.support.objects import World, job, latency_spec, pod

HOUR = 3600.0


def bursting() -> World:
    """A burst of 20 s that began two seconds ago and uses 8 cores, and a batch queue that wants everything."""
    world = World("smallJobs: {enabled: false}")
    world.queue("ThroughputQueue", "batch")
    world.controller("Job", None, job("batch", "work", 200))
    world.queue("LatencyQueue", "burst", spec=latency_spec("8", 20, 60))
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
    while state(world) == "Open" and waited < 120:
        charged = world.engine.memory.entry("burst/queue").ledger(world.wall)
        world.after(1.0)
        waited += 1.0
        world.round()
    return waited, charged - before


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_a_window_lasts_as_long_and_costs_as_much_whatever_the_clock_does(step: float) -> None:
    straight, stepped = bursting(), bursting()
    stepped.wall += step
    stepped.round()
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
    ("clocks", "steps"),
    [
        ([(100.0, 1.0), (105.0, 6.0), (165.0, 66.0)], [0.0, 0.0, 0.0]),
        ([(100.0, 1.0), (100.5, 2.0)], [0.0, 0.0]),
        ([(5000.0, 1.0), (1401.0, 2.0), (1402.0, 3.0)], [0.0, -3600.0, 0.0]),
        ([(100.0, 1.0), (3702.0, 3.0)], [0.0, 3600.0]),
    ],
)
def test_steps_are_told_from_time_that_passes(clocks: Any, steps: list[float]) -> None:
    clock = WallClock()
    assert [clock.step(wall, now) for wall, now in clocks] == pytest.approx(steps)
