"""The operator's side of the forecaster: its questions, its use of the answers, and failures of the process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairburst.kube.forecasts import forecaster as module
from fairburst.kube.forecasts import question as reading
from fairburst.kube.forecasts.ended_pods import KEPT, EndedPods, run_of, started_of
from fairburst.kube.forecasts.forecaster import Forecaster, ForecasterError
from fairburst.kube.forecasts.messages import LEVELS
from fairburst.kube.supervision import supervised
from fairburst.kube.views.forecast_view import QueueForecast, StartForecast
from fairburst.telemetry.metrics import Metrics
from tests.support.fake_api import FakeApi
from tests.support.measured import value
from tests.support.objects import WALL, World, job, pod, requesting
from tests.support.tasks import running, until

TQ = "ThroughputQueue"
REAL = (sys.executable, "-m", "fairburst.forecast")
# Answers each question at once: its objects start in 40 to 90 s.
QUICK = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    starts = [[one[0], 60.0, {"50": [50.0, 70.0], "90": [40.0, 90.0]}] for one in asked["asked"]]
    print(json.dumps({"asked_at": asked["now"], "runs": 40, "starts": starts, "deadlines": [], "outcomes": {"50": [1, 2], "90": [3, 0]},
                      "learned": 0, "processor_seconds": 0.25}), flush=True)
"""


def script(text: str) -> Sequence[str]:
    return sys.executable, "-c", text


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work has waited for long enough at once."""
    monkeypatch.setattr(module, "WAITED_SECONDS", 0.05)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)


class ForecastWorld:
    """A world with a job that waits, and a forecaster that is told of its rounds."""

    def __init__(self, api: FakeApi, client: object, command: Sequence[str], config: str = "") -> None:
        self.api, self.metrics, self.world = api, Metrics(), World(config)
        self.world.queue(TQ, "batch")
        self.forecaster = Forecaster(command, client, self.world.config, self.world.engine, self.world.view, self.metrics)  # type: ignore[arg-type]

    def waits(self) -> None:
        self.world.controller("Job", None, job("batch", "train", 100, requesting("1", "1Gi")))
        self.forecaster.note(self.world.round())

    def was_forecast(self) -> None:
        """As after an earlier answer."""
        self.waits()
        forecast = StartForecast(WALL, WALL + 60, dict.fromkeys(LEVELS, (WALL + 40, WALL + 90)))
        self.world.engine.forecast({"train": forecast}, {"batch/queue": QueueForecast("Job train", forecast)}, WALL, self.world.now)

    @property
    def starts(self) -> object:
        return self.world.engine.forecasts.starts

    def count(self, name: str, **labels: str) -> float:
        return value(self.metrics, name, **labels)


@contextlib.asynccontextmanager
async def site(command: Sequence[str], config: str = ""):  # type: ignore[no-untyped-def]
    async with FakeApi("/api/v1/pods") as api, api.client() as client:
        yield ForecastWorld(api, client, command, config)


def children() -> set[int]:
    """Return the running processes that this one has started."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid() and fields[0] != "Z":
                found.add(int(folder.name))
    return found


async def test_it_asks_once_work_has_waited_and_tells_the_engine_the_answer() -> None:
    async with site(script(QUICK)) as made, running(made.forecaster.run()):
        made.forecaster.note(made.world.round())
        before = children()
        await asyncio.sleep(0.3)
        assert children() == before, "nothing waits, so no process begins"
        made.waits()
        await until(lambda: made.starts, "a forecast")
        (start,) = made.starts.values()
        assert [end - start.made_at for end in start.intervals[90]] == [40.0, 90.0]
        assert made.world.engine.forecasts.queues["batch/queue"].subject == "Job train"
        assert made.count("fairburst_forecasts_total", result="made") == 1
        assert made.count("fairburst_forecast_outcomes_total", interval="90", outcome="inside") == 3
        assert made.count("fairburst_forecast_outcomes_total", interval="50", outcome="outside") == 2
        assert made.count("fairburst_forecast_processor_seconds_total") == 0.25


async def test_a_start_that_may_lie_years_ahead_is_not_foreseen() -> None:
    """The end of an interval grows without bound where many forecasts have come out late."""
    async with site(script(QUICK.replace("90.0", "2e8"))) as made, running(made.forecaster.run()):
        made.waits()
        await until(lambda: made.starts, "a forecast")
        made.world.settle(10.0)
        assert made.world.condition(TQ, "batch", "StartForecast")[1] == "NotForeseen"


async def test_a_queue_that_has_gone_since_the_last_plan_is_no_error() -> None:
    async with site(script(QUICK)) as made:
        made.waits()
        made.world.queues.clear()
        made.world.round()  # the forecaster has not been told of it yet
        async with running(made.forecaster.run()):
            await until(lambda: made.starts, "a forecast")


async def test_forecasts_are_forgotten_when_nothing_waits_any_more() -> None:
    async with site(script(QUICK), "forecast: {intervalSeconds: 5, corePercent: 100}") as made, running(made.forecaster.run()):
        made.waits()
        await until(lambda: made.starts, "a forecast")
        train = made.world.view.controllers.job("batch", "train")
        made.world.controller("Job", train, None)
        made.forecaster.note(made.world.round())
        await until(lambda: not made.starts, "nothing is forecast", seconds=3.0)


async def test_forecasts_are_forgotten_also_while_the_next_answer_is_awaited() -> None:
    """That may take minutes: a forecast sleeps between its steps."""
    async with site(script("import time; time.sleep(600)")) as made, running(made.forecaster.run()):
        made.was_forecast()
        await until(children, "the process")
        await asyncio.sleep(0.2)
        assert made.starts
        made.world.controller("Job", made.world.view.controllers.job("batch", "train"), None)
        made.forecaster.note(made.world.round())
        await until(lambda: not made.world.engine.forecasts.queues, "nothing is forecast", seconds=3.0)


async def test_an_answer_that_forecasts_nothing_leaves_no_former_forecast() -> None:
    """The cluster has grown, and the forecaster's time no longer suffices for one run."""
    async with site(script(QUICK.replace('"runs": 40', '"runs": 0'))) as made:
        made.was_forecast()
        async with running(made.forecaster.run()):
            await until(lambda: made.count("fairburst_forecasts_total", result="too slow"), "an answer")
            assert not made.world.engine.forecasts.queues


async def test_an_answer_that_comes_after_the_last_work_has_started_is_dropped() -> None:
    slow = QUICK.replace("for line in sys.stdin:", "import time\nfor line in sys.stdin:\n    time.sleep(0.5)")
    async with site(script(slow)) as made, running(made.forecaster.run()):
        made.waits()
        await asyncio.sleep(0.2)
        made.world.controller("Job", made.world.view.controllers.job("batch", "train"), None)
        made.forecaster.note(made.world.round())
        await until(lambda: made.count("fairburst_forecasts_total", result="made"), "an answer")
        assert not made.starts
        assert not made.world.engine.forecasts.queues


async def test_a_queue_whose_work_has_started_shows_no_start_of_it() -> None:
    async with site(script(QUICK)) as made, running(made.forecaster.run()):
        made.world.queue(TQ, "other")
        made.world.controller("Job", None, job("other", "stays", 100, requesting("1", "1Gi")))
        made.waits()
        await until(lambda: made.starts, "a forecast")
        made.world.settle(10.0)
        assert all("StartForecast" in shown(made.world, namespace) for namespace in ("batch", "other"))
        made.world.controller("Job", made.world.view.controllers.job("batch", "train"), None)
        made.world.settle(10.0)
        assert "StartForecast" not in shown(made.world, "batch")
        assert "StartForecast" in shown(made.world, "other")


async def test_work_that_runs_waits_no_more_although_three_tenths_are_less_than_three_times_a_tenth() -> None:
    async with site(script(QUICK), "forecast: {intervalSeconds: 5, corePercent: 100}") as made, running(made.forecaster.run()):
        world = made.world
        world.queue(TQ, "other")
        world.controller("Job", None, job("other", "stays", 100, requesting("1", "1Gi")))
        world.controller("Job", None, job("batch", "train", 3, requesting("100m", "1Gi")))
        made.forecaster.note(world.round())
        await until(lambda: made.starts, "a forecast")
        for number in range(3):
            world.put(pod("batch", f"p{number}", requesting("100m", "1Gi"), owner=("Job", "train"), node="node-0", phase="Running"))
        world.settle(10.0)
        assert "StartForecast" not in shown(world, "batch")
        world.controller("Job", world.view.controllers.job("other", "stays"), None)
        made.forecaster.note(world.round())
        await until(lambda: not made.starts, "nothing is forecast", seconds=3.0)


def shown(world: World, namespace: str) -> set[str]:
    """Return the types of the conditions in the status of the namespace's queue."""
    return {one["type"] for one in world.queues[TQ, namespace, "queue"]["status"]["conditions"]}


async def test_the_pause_after_an_answer_is_as_long_as_its_processor_time_demands() -> None:
    """A quarter of a second of processor time at one percent of a core: 25 s, where the interval is 5 s."""
    assert max(await pauses()) == pytest.approx(25.0, rel=0.2)


async def test_a_wall_clock_that_is_set_back_makes_no_pause_longer() -> None:
    walls = itertools.count(time.time(), -3600.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.time, "time", lambda: next(walls))
        assert max(await pauses()) == pytest.approx(25.0, rel=0.2)


async def pauses() -> list[float]:
    """Return how long a forecaster sleeps until its second answer."""
    found, sleep = list[float](), asyncio.sleep

    async def noted(seconds: float) -> None:
        found.append(seconds)
        await sleep(min(seconds, 0.05))

    async with site(script(QUICK), "forecast: {intervalSeconds: 5, corePercent: 1}") as made:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module.asyncio, "sleep", noted)
            async with running(made.forecaster.run()):
                made.waits()
                await until(lambda: made.count("fairburst_forecasts_total", result="made") >= 2, "two answers")
    return found


@pytest.mark.parametrize(
    "text", ["raise SystemExit(3)", "print('no answer', flush=True)\nimport time; time.sleep(60)", QUICK.replace('asked["now"]', "0")]
)
async def test_a_process_that_ends_or_answers_nonsense_is_an_error_and_leaves_nothing_running(text: str) -> None:
    before = children()
    async with site(script(text)) as made:
        made.waits()
        with pytest.raises(ForecasterError, match="expected"):
            await asyncio.wait_for(made.forecaster.run(), 30.0)
    assert children() == before


async def test_a_process_that_ends_before_its_priority_is_set_is_the_same_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen once on a busy machine."""

    def gone(*_: object) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(module.os, "setpriority", gone)
    async with site(script("raise SystemExit(3)")) as made:
        made.waits()
        with pytest.raises(ForecasterError, match="expected"):
            await asyncio.wait_for(made.forecaster.run(), 30.0)


async def test_a_process_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.2)
    async with site(script("import time; time.sleep(60)")) as made:
        made.waits()
        with pytest.raises(ForecasterError, match=r"expected an answer within"):
            await asyncio.wait_for(made.forecaster.run(), 30.0)


async def test_a_process_that_is_killed_is_started_again_after_a_pause_and_counted() -> None:
    before = children()
    async with site(script(QUICK), "forecast: {intervalSeconds: 5, corePercent: 100}") as made:
        made.waits()
        async with running(supervised("forecaster", made.forecaster.run, made.metrics, (0.01, 0.1))):
            await until(lambda: made.starts, "a forecast")
            (pid,) = children() - before
            os.kill(pid, signal.SIGKILL)
            await until(lambda: made.count("fairburst_task_restarts_total", task="forecaster") >= 1, "a restart")
            await until(lambda: made.count("fairburst_forecasts_total", result="made") >= 2, "another forecast")
    assert children() == before, "the second one ends with the task"


async def test_the_end_of_a_term_waits_for_no_answer() -> None:
    """A take-over, or the end of the operator: the task is cancelled while the process thinks."""
    before = children()
    async with site(script("import sys, time\nsys.stdin.readline()\ntime.sleep(600)")) as made:
        made.waits()
        task = asyncio.create_task(made.forecaster.run())
        await until(lambda: children() - before, "the process")
        await asyncio.sleep(0.2)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(task, 10.0)
        assert children() == before


@pytest.mark.parametrize(("command", "config"), [((), ""), (script(QUICK), "forecast: {enabled: false}")])
async def test_no_process_runs_where_forecasts_are_off(command: Sequence[str], config: str) -> None:
    async with site(command, config) as made:
        made.waits()
        await asyncio.wait_for(made.forecaster.run(), 5.0)
        assert not made.starts


async def test_reading_thousands_of_pods_gives_way_to_rounds() -> None:
    async with site(()) as made:
        world = made.world
        for number in range(10 * reading.PODS_AT_ONCE):
            world.put(pod("batch", f"p{number}", requesting("1", "1Gi"), owner=("Job", "many"), node="node-0", phase="Running"))
        plan, turns = world.round(), 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with running(others()):
            found = await reading.read(
                plan, world.engine.memory, world.view, world.engine.demands, world.engine.gates.gated.of, world.wall
            )  # fmt: skip
        assert turns >= 9
        assert sum(count for work in found.work for count, _ in work.running) == 10 * reading.PODS_AT_ONCE


# The process itself -----------------------------------------------------------------------------------------------------------------


def out_of_memory_score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def process() -> subprocess.Popen[bytes]:
    return subprocess.Popen(REAL, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_the_process_ends_with_its_standard_input() -> None:
    """The operator was killed: its end of the pipe closes."""
    with process() as made:
        assert made.stdin is not None
        made.stdin.close()
        assert made.wait(60) == 0


async def test_the_process_answers_and_runs_at_the_lowest_priority() -> None:
    before = children()
    async with site(REAL) as made, running(made.forecaster.run()):
        made.waits()
        await until(lambda: made.count("fairburst_forecasts_total", result="made") >= 1, "an answer", 120.0)
        (pid,) = children() - before
        assert os.getpriority(os.PRIO_PROCESS, pid) == 19
        assert out_of_memory_score(pid) == 1000, "where memory runs out, it ends and not the operator"
    assert children() == before


# Ended pods -------------------------------------------------------------------------------------------------------------------------


def bound(name: str, **metadata: object) -> object:
    made = pod("batch", name, requesting("1"), owner=("Job", "train"), node="node-0", phase="Running", **metadata)
    made.status.start_time = "2026-01-01T00:00:00Z"
    return made


def test_runs_are_learned_from_pods_that_end_and_not_from_those_that_are_deleted() -> None:
    world = World()
    world.controller("Job", None, job("batch", "train", 4, completions=10))
    seen = EndedPods(world.view.controllers)
    seen.pod_changed(bound("a"), None, WALL + 30.0)  # type: ignore[arg-type]
    seen.pod_changed(bound("b", deletionTimestamp="2026-01-01T00:00:10Z"), None, WALL + 30.0)  # type: ignore[arg-type]
    seen.pod_changed(None, bound("c"), WALL)  # type: ignore[arg-type]
    seen.pod_changed(bound("c"), bound("c"), WALL)  # type: ignore[arg-type]
    assert [(run.job, run.tasks, run.started, run.ended) for run in seen.take()] == [("train", 10, WALL, WALL + 30.0)]
    assert seen.take() == []


def test_runs_that_nothing_asks_for_are_bounded() -> None:
    seen = EndedPods(World().view.controllers)
    for number in range(KEPT + 10):
        seen.pod_changed(bound(f"p{number}"), None, WALL)  # type: ignore[arg-type]
    assert len(seen.take()) == KEPT


def test_a_bound_pods_start_is_the_kubelets_time_else_that_of_its_binding() -> None:
    made = pod("batch", "p", requesting("1"), node="node-0", creationTimestamp="2026-01-01T00:00:00Z")
    assert started_of(made) == WALL
    made.status.conditions = []
    from fairburst.kube.api.objects import Condition

    made.status.conditions = [Condition("PodScheduled", "True", last_transition_time="2026-01-01T00:01:00Z")]
    assert started_of(made) == WALL + 60
    made.status.start_time = "2026-01-01T00:01:01Z"
    assert started_of(made) == WALL + 61


def test_a_listed_pod_without_times_teaches_nothing() -> None:
    ended = {"state": {"terminated": {"finishedAt": "2026-01-01T00:00:30Z"}}}
    metadata = {
        "namespace": "batch",
        "name": "p",
        "uid": "u",
        "ownerReferences": [{"controller": True, "kind": "Job", "name": "j", "uid": "j"}],
    }
    run = run_of({"metadata": metadata, "status": {"startTime": "2026-01-01T00:00:00Z", "containerStatuses": [ended]}})
    assert run is not None
    assert (run.job, run.owner, run.ended - run.started) == ("j", "j", 30.0)
    assert run_of({"metadata": metadata, "status": {"containerStatuses": [ended]}}) is None
    assert run_of({"metadata": metadata, "status": {"startTime": "2026-01-01T00:00:00Z"}}) is None
