"""Forecasts as users read them: sentences, conditions, and which change is worth a write."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from fairburst.kube.views.conditions import ConditionValue
from fairburst.kube.views.forecast_view import DeadlineForecast, Forecasts, QueueForecast, StartForecast, with_forecast
from fairburst.policy.model import Window, WindowState
from tests.support.objects import WALL, World, job, latency_spec, pod, requesting

TQ, LQ = "ThroughputQueue", "LatencyQueue"


def start(low: float, high: float, made_at: float = WALL) -> StartForecast:
    """A forecast whose ends lie so many seconds after it was made; the middle half of the interval is that of 50 %."""
    quarter = 0.0 if math.isinf(high) else (high - low) / 4
    middle = made_at + (low + high) / 2
    return StartForecast(made_at, middle, {50: (made_at + low + quarter, made_at + high - quarter), 90: (made_at + low, made_at + high)})


@pytest.mark.parametrize(
    ("low", "high", "later", "said"),
    [
        pytest.param(40, 90, 0, "It starts in 40 to 90 s with 90 % confidence, in 52 to 78 s with 50 %.", id="seconds"),
        pytest.param(40, 90, 30, "It starts in 10 to 60 s with 90 % confidence, in 22 to 48 s with 50 %.", id="some seconds later"),
        pytest.param(60, 600, 0, "It starts in 60 s to 10 min with 90 % confidence, in 3 to 8 min with 50 %.", id="two units"),
        pytest.param(100, 100.2, 0, "It starts in about 100 s with 90 % confidence, in about 100 s with 50 %.", id="all runs agree"),
        pytest.param(40, 90, 100, "It is expected to start now.", id="overdue"),
        pytest.param(120, math.inf, 0, "It starts in 2 min or later, with 90 % confidence.", id="no upper end"),
        pytest.param(0, math.inf, 0, "Its start cannot be foreseen.", id="no end at all"),
        pytest.param(math.inf, math.inf, 0, "Its start cannot be foreseen.", id="after the end of the runs"),
    ],
)
def test_an_event_says_the_interval_from_the_time_at_which_it_is_created(low: float, high: float, later: float, said: str) -> None:
    assert start(low, high).sentence(WALL + later) == said


@pytest.mark.parametrize(
    ("new", "now", "same"),
    [
        pytest.param(start(100, 200), 0.0, True, id="equal"),
        pytest.param(start(110, 180), 0.0, True, id="ends move by less than a quarter of the time ahead"),
        pytest.param(start(100, 300), 0.0, False, id="the later end moves by half"),
        pytest.param(start(10, 200), 0.0, False, id="the earlier end moves"),
        pytest.param(start(100, math.inf), 0.0, False, id="no longer foreseen"),
        pytest.param(start(100, 200), 201.0, False, id="the told interval has passed"),
    ],
)
def test_a_forecast_is_told_again_only_where_it_says_something_else(new: StartForecast, now: float, same: bool) -> None:
    assert new.same_as(start(100, 200), WALL + now) is same


def test_work_that_may_start_at_any_moment_is_not_told_so_with_each_answer() -> None:
    """Each answer forecasts that it starts from its own time on."""
    assert start(0, 170, WALL + 30).same_as(start(0, 200), WALL + 30)
    assert not start(60, 170, WALL + 30).same_as(start(0, 200), WALL + 30), "it cannot start before a minute from now"


def test_a_probability_is_told_again_from_a_tenth_on_and_where_it_becomes_certain() -> None:
    told = DeadlineForecast(0.8, is_open=False, opens=None)
    assert replace(told, probability=0.85).same_as(told)
    assert not replace(told, probability=0.91).same_as(told)
    assert not replace(told, is_open=True).same_as(told)
    assert not replace(told, probability=1.0).same_as(replace(told, probability=0.95))


def test_the_former_forecast_of_a_queue_stays_where_nothing_material_is_new() -> None:
    forecasts = Forecasts()
    told = QueueForecast("Job a", start(100, 200))
    assert forecasts.replace({}, {"batch/queue": told}, WALL) == ["batch/queue"]
    assert forecasts.replace({}, {"batch/queue": QueueForecast("Job a", start(80, 180, WALL + 30))}, WALL + 30) == []
    assert forecasts.queues["batch/queue"] is not told
    assert forecasts.queues["batch/queue"] == told
    assert forecasts.replace({}, {"batch/queue": QueueForecast("Job b", start(100, 200))}, WALL) == ["batch/queue"], "another job is first"
    assert forecasts.replace({}, {}, WALL) == ["batch/queue"]
    assert forecasts.queues == {}


def waiting_world() -> World:
    """A queue whose job has half of the pool, and one with a promised burst."""
    world = World()
    world.queue(TQ, "batch")
    world.queue(LQ, "serving", spec=latency_spec())
    world.controller("Job", None, job("batch", "train", 100, requesting("1", "1Gi")))
    world.round()
    return world


def rounds(world: World, seconds: float) -> int:
    """Statuses written for the queue `batch` in so many rounds, one a second."""
    written = 0
    for _ in range(round(seconds)):
        world.after(1.0)
        written += sum(one.entry.namespace == "batch" for one in world.round().statuses)
    return written


def test_a_queue_says_when_its_first_waiting_object_starts_in_times_that_stand_still() -> None:
    world = waiting_world()
    rounds(world, 10)
    world.engine.forecast({}, {"batch/queue": QueueForecast("Job train", start(100, 200, world.wall))}, world.wall, world.now)
    rounds(world, 10)
    assert world.condition(TQ, "batch", "StartForecast") == (
        "True",
        "Forecast",
        "Job train, the first that waits, starts between 2026-01-01T00:01:50Z and 2026-01-01T00:03:30Z with 90 % confidence, most likely "
        "about 2026-01-01T00:02:40Z.",
    )
    world.engine.forecast({}, {}, world.wall, world.now)
    rounds(world, 10)
    with pytest.raises(AssertionError, match="no condition"):
        world.condition(TQ, "batch", "StartForecast")


def test_a_start_that_lies_past_the_horizon_is_told_as_unknown() -> None:
    world = waiting_world()
    world.engine.forecast({}, {"batch/queue": QueueForecast("Job train", start(100, math.inf))}, world.wall, world.now)
    rounds(world, 10)
    assert world.condition(TQ, "batch", "StartForecast")[:2] == ("Unknown", "NotForeseen")


def test_the_deadlines_probability_stands_in_attainable_beside_what_that_says_already() -> None:
    world = waiting_world()
    rounds(world, 3)
    before = world.condition(LQ, "serving", "Attainable")
    told = QueueForecast(deadline=DeadlineForecast(0.85, is_open=False, opens=None))
    world.engine.forecast({}, {"serving/queue": told}, world.wall, world.now)
    rounds(world, 10)
    status, reason, message = world.condition(LQ, "serving", "Attainable")
    assert (status, reason) == before[:2]
    assert message.startswith(before[2].rstrip("."))
    said = "Forward runs, in which pods start as soon as there is room, say: the deadline of a burst that came now holds with a probability"
    assert message.endswith(f"{said} of 85 %.")


def test_no_probability_stands_beside_pods_that_fit_no_node() -> None:
    """Forward runs have one machine as large as the pool: they said 100 % of a burst that no node could hold."""
    condition = ConditionValue("Attainable", "False", "DoesNotFitNodes", "no node holds it")
    forecast = QueueForecast(deadline=DeadlineForecast(1.0, is_open=False, opens=None))
    window = Window(WindowState.ARMED, 0, WALL, math.inf, None, None, demanded=True)
    assert with_forecast([condition], forecast, window, waits=False) == [condition]
    late = replace(condition, reason="TooLate")
    assert "with a probability of 100 %" in with_forecast([late], forecast, window, waits=False)[0].message


def test_a_deadlines_probability_is_withdrawn_with_its_burst() -> None:
    """The next answer may come minutes later."""
    world = waiting_world()
    rounds(world, 3)
    world.controller("Job", None, job("serving", "burst", 16, requesting("1", "1Gi")))
    rounds(world, 3)
    told = QueueForecast(deadline=DeadlineForecast(0.85, is_open=True, opens=None))
    world.engine.forecast({}, {"serving/queue": told}, world.wall, world.now)
    rounds(world, 10)
    assert "the burst under way" in world.condition(LQ, "serving", "Attainable")[2]
    world.controller("Job", world.view.controllers.job("serving", "burst"), None)
    rounds(world, 20)
    assert "the burst under way" not in world.condition(LQ, "serving", "Attainable")[2]


@pytest.mark.parametrize(
    ("state", "arms", "told", "same"),
    [
        pytest.param(WindowState.ARMED, 0.0, DeadlineForecast(0.85, is_open=False, opens=None), True, id="it may come now"),
        pytest.param(WindowState.CLOSED, 60.0, DeadlineForecast(0.85, is_open=False, opens=None), False, id="it has come, and has ended"),
        pytest.param(WindowState.ARMED, 60.0, DeadlineForecast(0.85, is_open=False, opens=WALL + 90), True, id="that of its time"),
        pytest.param(WindowState.CLOSED, 360.0, DeadlineForecast(0.85, is_open=False, opens=WALL + 90), False, id="the one before"),
        pytest.param(WindowState.OPEN, 0.0, DeadlineForecast(0.85, is_open=False, opens=None), False, id="it is under way"),
        pytest.param(WindowState.OVERDUE, 0.0, DeadlineForecast(0.85, is_open=True, opens=None), False, id="it was late"),
    ],
)
def test_a_probability_is_that_of_one_window(state: WindowState, arms: float, told: DeadlineForecast, same: bool) -> None:
    assert told.is_of(Window(state, 0, WALL + arms, math.inf, None, None, demanded=True)) is same


def test_forecasts_that_say_the_same_cost_no_write_and_others_are_written_no_faster_than_figures() -> None:
    world = waiting_world()
    for number in range(int(world.hard("batch")["requests.cpu"])):  # its pods fill the quota, so that it waits for room
        world.put(pod("batch", f"train-{number}", requesting("1", "1Gi"), owner=("Job", "train"), node="node-0", phase="Running"))
    rounds(world, 70)
    assert rounds(world, 30) == 0, "a settled cluster"
    first = start(1000, 2000, world.wall)
    world.engine.forecast({}, {"batch/queue": QueueForecast("Job train", first)}, world.wall, world.now)
    assert rounds(world, 30) == 1
    for moved in (10.0, 20.0, 30.0):
        again = start(1000 + moved, 2000 - moved, first.made_at)
        world.engine.forecast({}, {"batch/queue": QueueForecast("Job train", again)}, world.wall, world.now)
        assert rounds(world, 10) == 0
    interval = world.config.rounds.status_interval_seconds
    written = 0
    for number in range(10):  # each second another answer
        made = start(1000 * (2 + number % 2), 5000 * (1 + number % 2), world.wall)
        world.engine.forecast({}, {"batch/queue": QueueForecast("Job train", made)}, world.wall, world.now)
        written += rounds(world, 1)
    assert written <= 10 / interval + 1


def test_a_start_is_withdrawn_with_its_object_also_while_others_of_the_queue_wait() -> None:
    """The next answer may come minutes later; until then the condition named a Job that runs."""
    world = waiting_world()
    first, second = job("batch", "first", 40, requesting("1", "1Gi")), job("batch", "second", 40, requesting("1", "1Gi"))
    for made in (first, second):
        world.controller("Job", None, made)
    rounds(world, 3)
    told = QueueForecast("Job first", start(100, 200, world.wall), uid="first")
    world.engine.forecast({}, {"batch/queue": told}, world.wall, world.now)
    rounds(world, 10)
    assert world.condition(TQ, "batch", "StartForecast")[0] == "True"
    for number in range(40):
        world.put(pod("batch", f"first-{number}", requesting("1", "1Gi"), owner=("Job", "first")))
    rounds(world, 10)
    with pytest.raises(AssertionError, match="no condition"):
        world.condition(TQ, "batch", "StartForecast")
    world.engine.forecast({}, {"batch/queue": replace(told, subject="Job second", uid="second")}, world.wall, world.now)
    rounds(world, 10)
    assert "Job second" in world.condition(TQ, "batch", "StartForecast")[2]
