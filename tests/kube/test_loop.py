"""When rounds run: soon after an event, at boundaries, after a while at the latest, and also after a failed one."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairburst.config import RoundConfig
from fairburst.kube.loop import CALM_PAUSE_RATIO, LONGEST_CALM_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, PAUSE_RATIO, SchedulingLoop
from fairburst.kube.rounds.view import RoundPlan
from fairburst.telemetry.metrics import Metrics
from tests.support.objects import World
from tests.support.tasks import until

HOUR = 3600.0


class Rounds:
    """A loop over a real engine and an empty cluster, with a record of its rounds. `due` and `answers` steer it."""

    def __init__(self, debounce: int = 20, interval: int = 300) -> None:
        world = World(nodes=0)
        self.at: list[float] = []
        self.due = math.inf
        self.busy = 0.0
        self.problem: Exception | None = None
        self.lasting: Exception | None = None
        self.sent_well = True
        self.writes = self.short = False
        self.while_planning: Callable[[], None] = lambda: None
        self.metrics = Metrics()
        self._real = world.engine.round
        config = RoundConfig(interval_seconds=interval, debounce_milliseconds=debounce)
        world.engine.round = self._round  # type: ignore[method-assign]
        self.loop = SchedulingLoop(world.engine, world.view, self._send, config, self.metrics)
        self.while_sending: Callable[[], None] = lambda: None

    def _round(self, view: Any, wall: float, now: float) -> RoundPlan:
        self.at.append(time.monotonic())
        if self.problem is not None:
            problem, self.problem = self.problem, None
            raise problem
        self.while_planning()
        time.sleep(self.busy)  # a round holds the event loop
        if self.lasting is not None:
            raise self.lasting
        plan = self._real(view, wall, now)
        plan.due = now + self.due
        if self.writes:
            plan.releases.append("any")
        if self.short:
            shape = (1, len(plan.snapshot.resources))
            plan.result = replace(plan.result, allocation=np.zeros(shape))
            plan.snapshot = replace(plan.snapshot, demand=np.ones(shape))
        return plan

    async def _send(self, plan: RoundPlan) -> bool:
        self.while_sending()
        return self.sent_well

    async def count(self, wanted: int, seconds: float = 5.0) -> None:
        """Wait until so many rounds have run."""
        deadline = time.monotonic() + seconds
        while len(self.at) < wanted:
            assert time.monotonic() < deadline, f"expected {wanted} rounds within {seconds} s, found {len(self.at)}"
            await asyncio.sleep(0.002)

    def value(self, name: str) -> float:
        found = self.metrics.registry.get_sample_value(name)
        assert found is not None, name
        return found


@asynccontextmanager
async def running(rounds: Rounds) -> AsyncIterator[None]:
    task = asyncio.create_task(rounds.loop.run())
    try:
        await rounds.count(1)
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_many_events_are_drained_into_one_round() -> None:
    rounds = Rounds(debounce=1000)  # far longer than the events take to come, also on a busy machine
    async with running(rounds):
        for _ in range(50):
            rounds.loop.mark()
            await asyncio.sleep(0)
        await rounds.count(2)
        await asyncio.sleep(0.2)
    assert len(rounds.at) == 2


async def test_an_urgent_event_ends_the_wait_for_others() -> None:
    rounds = Rounds(debounce=10_000)
    async with running(rounds):
        rounds.loop.mark()
        await asyncio.sleep(0.05)
        assert len(rounds.at) == 1, "others may come"
        rounds.loop.mark(urgent=True)
        await rounds.count(2)


@pytest.mark.parametrize(("busy", "debounce", "want_rest"), [(0.1, 10_000, 0.1), (0.1, 20, 0.1), (0.4, 20, LONGEST_PAUSE_SECONDS)])
async def test_urgent_events_without_end_leave_other_work_as_long_as_a_round_takes_or_a_quarter_of_a_second(
    busy: float, debounce: int, want_rest: float
) -> None:
    rounds = Rounds(debounce=debounce)
    rounds.busy = busy
    async with running(rounds):
        while len(rounds.at) < 5:
            rounds.loop.mark(urgent=True)
            await asyncio.sleep(0.001)
    gaps = [after - before for before, after in itertools.pairwise(rounds.at)]
    assert min(gaps) >= busy + want_rest


@pytest.mark.parametrize("fault", [None, RuntimeError("in every round")])
async def test_events_without_end_leave_rounds_a_tenth_of_the_time(fault: Exception | None) -> None:
    """Also rounds that fail: otherwise a fault in every round would take the core that the process needs for its Lease and its probes."""
    rounds = Rounds(debounce=1)
    rounds.busy, rounds.lasting = 0.01, fault
    async with running(rounds):
        begun, count = time.monotonic(), len(rounds.at)
        while time.monotonic() < begun + 1.0:
            rounds.loop.mark()
            await asyncio.sleep(0.002)
        assert 2 <= len(rounds.at) - count <= 11


@pytest.mark.parametrize("short", [True, False])
async def test_a_long_round_delays_the_next_for_a_short_time_at_most_and_an_urgent_event_not_at_all(short: bool) -> None:
    """A quarter of a second where a queue wants more than it is given, which may wait for the next round."""
    rounds = Rounds(debounce=1)
    rounds.busy, rounds.short = 0.1, short
    pause = LONGEST_PAUSE_SECONDS if short else LONGEST_CALM_PAUSE_SECONDS
    async with running(rounds):
        rounds.loop.mark()
        await rounds.count(2)
        assert 0.1 + pause <= rounds.at[1] - rounds.at[0] < 0.1 + pause + 0.2
        rounds.loop.mark(urgent=True)
        await rounds.count(3)
        assert rounds.at[2] - rounds.at[1] < 0.1 + 0.2


async def test_a_round_follows_an_event_within_the_debounce_time() -> None:
    rounds = Rounds(debounce=20)
    async with running(rounds):
        marked = time.monotonic()
        rounds.loop.mark()
        await rounds.count(2)
    assert rounds.at[1] - marked >= 0.02
    assert rounds.value("fairburst_reaction_seconds_sum") == pytest.approx(rounds.at[1] - marked, abs=0.05)


async def test_an_event_during_a_round_starts_another() -> None:
    rounds = Rounds(debounce=0)
    async with running(rounds):

        def once() -> None:
            rounds.while_sending = lambda: None
            rounds.loop.mark()

        rounds.while_sending = once
        rounds.loop.mark()
        await rounds.count(3)
        await asyncio.sleep(0.1)
    assert len(rounds.at) == 3


async def test_a_boundary_wakes_the_loop() -> None:
    rounds = Rounds()
    rounds.due = 0.15
    async with running(rounds):
        rounds.due = HOUR
        await rounds.count(2)
    assert rounds.at[1] - rounds.at[0] >= 0.1


async def test_without_events_and_boundaries_a_round_runs_at_the_interval() -> None:
    rounds = Rounds(interval=1)
    async with running(rounds):
        await rounds.count(2)
    assert rounds.at[1] - rounds.at[0] >= 0.9


async def test_a_failed_round_is_counted_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    rounds = Rounds()
    async with running(rounds):
        rounds.problem = RuntimeError("as the test asked")
        rounds.loop.mark()
        await rounds.count(3)  # by itself, a second later
        await asyncio.sleep(0.05)
    assert rounds.value("fairburst_round_failures_total") == 1.0
    assert rounds.value("fairburst_rounds_total") == 2.0
    assert "as the test asked" in caplog.text


async def test_a_round_whose_writes_failed_is_repeated_soon() -> None:
    rounds = Rounds()
    rounds.sent_well = False
    async with running(rounds):
        rounds.sent_well = True
        await rounds.count(2)
    assert rounds.at[1] - rounds.at[0] >= 0.5


async def test_it_is_unready_after_three_failed_rounds_in_a_row_and_ready_again_after_one_that_does_not_fail() -> None:
    rounds = Rounds(debounce=1)
    broken = True

    def failing(view: Any, wall: float, now: float) -> RoundPlan:
        if broken:
            raise ValueError("no round today")
        return rounds._real(view, wall, now)

    rounds.loop._engine.round = failing  # type: ignore[method-assign]
    running = asyncio.create_task(rounds.loop.run())
    for failures in (1, 2, 3):
        rounds.loop.mark()
        await until(lambda: rounds.loop.failed_in_a_row == failures, f"failure {failures}")  # noqa: B023
        assert (rounds.loop.unready() is None) is (failures < 3)
        assert rounds.metrics.registry.get_sample_value("fairburst_rounds_failed_in_a_row") == failures
    assert rounds.loop.unready() == "the last 3 rounds failed: ValueError: no round today"
    broken = False
    rounds.loop.mark()
    await until(lambda: rounds.loop.unready() is None, "a round that does not fail")
    assert rounds.metrics.registry.get_sample_value("fairburst_round_failures_total") == 3
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_the_loop_tells_when_its_last_progress() -> None:
    rounds = Rounds()
    assert rounds.loop.last_progress == -math.inf
    async with running(rounds):
        await asyncio.sleep(0.05)
        assert time.monotonic() - rounds.loop.last_progress < 2.0


async def test_a_loop_that_finishes_ends_the_round_under_way_and_begins_no_other() -> None:
    rounds, answered = Rounds(debounce=0), asyncio.Event()
    send = rounds.loop._send

    async def slowly(plan: RoundPlan) -> bool:
        await answered.wait()
        return await send(plan)

    rounds.loop._send = slowly
    task = asyncio.create_task(rounds.loop.run())
    await rounds.count(1)
    finishing = asyncio.create_task(rounds.loop.finish())
    await asyncio.sleep(0.05)
    assert not finishing.done()
    answered.set()
    await asyncio.wait_for(finishing, 60.0)
    rounds.loop.mark()
    await asyncio.wait_for(task, 60.0)
    assert len(rounds.at) == 1


async def test_a_loop_that_is_cancelled_ends_also_when_an_event_comes_in_the_same_moment() -> None:
    """As when a frozen process continues: all that it missed arrives at once, the loss of the Lease included."""
    rounds = Rounds()
    task = asyncio.create_task(rounds.loop.run())
    await rounds.count(1)
    await asyncio.sleep(0.05)
    rounds.loop.mark()
    await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=60.0)
    assert done
    assert task.cancelled()


@pytest.mark.parametrize(
    ("writes", "short", "ratio"), [(False, False, CALM_PAUSE_RATIO), (True, False, PAUSE_RATIO), (False, True, PAUSE_RATIO)]
)
async def test_events_that_change_nothing_leave_other_work_more_time_unless_a_queue_wants_more_than_it_is_given(
    writes: bool, short: bool, ratio: float
) -> None:
    rounds = Rounds(debounce=1)
    rounds.busy, rounds.writes, rounds.short = 0.01, writes, short
    async with running(rounds):
        while len(rounds.at) < 8:
            rounds.loop.mark()
            await asyncio.sleep(0.001)
    gap = min(after - before for before, after in itertools.pairwise(rounds.at)) - rounds.busy
    assert gap >= ratio * 0.01
    if ratio < CALM_PAUSE_RATIO:
        assert gap < CALM_PAUSE_RATIO * 0.01


async def test_no_garbage_is_collected_within_a_round() -> None:
    rounds, within = Rounds(), list[bool]()
    rounds.while_planning = lambda: within.append(gc.isenabled())
    async with running(rounds):
        rounds.loop.mark()
        await rounds.count(2)
    assert (within, gc.isenabled()) == ([False, False], True)


async def test_garbage_is_collected_again_after_a_round_that_failed() -> None:
    rounds = Rounds()
    rounds.problem = RuntimeError("once")
    async with running(rounds):
        await rounds.count(2)
    assert gc.isenabled()
