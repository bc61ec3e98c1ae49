"""The operator's side of the forecaster: starts its process, asks it from time to time while work waits, and takes the answers.

The process is another program, whose command the caller gives (`fairburst.forecast`, which this package must not import). It shares no
memory and no thread with the rounds. It ends when its standard input does, so it never outlives the operator. An error ends `run`, and the
supervisor starts it again after a pause. docs/decisions/0252-the-forecaster-is-a-process.md gives the reasons.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Sequence

import msgspec

from fairburst.config import Config
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.objects import Pod
from fairburst.kube.engine import Engine
from fairburst.kube.forecasts.ended_pods import EndedPods, Run
from fairburst.kube.forecasts.messages import LEVELS, Answer, Start
from fairburst.kube.forecasts.question import Read, Subjects, by_uid, encoded, read, waits
from fairburst.kube.rounds.view import ClusterView, RoundPlan
from fairburst.kube.rounds.work_events import WAITED_SECONDS
from fairburst.kube.views.forecast_view import LONGEST_SECONDS, DeadlineForecast, QueueForecast, StartForecast
from fairburst.telemetry.metrics import Metrics

LOOK_SECONDS = 2.0
# A forecaster that is silent for this time is stuck: its own limits are shorter (forecast/budget.py).
ANSWER_SECONDS = 600.0
NICENESS = 19
LARGEST_ANSWER = 64 * 2**20  # bytes
PIECE = 64 * 2**10  # bytes of a question that are sent at a time, as many as a pipe holds
ENDED = "expected an answer of the forecaster, found that it has ended; see its traceback in the log"
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class ForecasterError(Exception):
    """The forecaster has ended, or does not answer as it should."""


class Forecaster:
    """One for each term of leadership. Without a `command`, or if forecasts are off, it does nothing."""

    def __init__(
        self, command: Sequence[str], client: ApiClient, config: Config, engine: Engine, view: ClusterView, metrics: Metrics
    ) -> None:
        self._command = command if config.forecast.enabled else ()
        self._client, self._config, self._engine, self._view, self._metrics = client, config, engine, view, metrics
        self._ended = EndedPods(view.controllers)
        self._plan: RoundPlan | None = None
        self._memory = engine.memory

    def note(self, plan: RoundPlan) -> None:
        """Store the plan of the last round and the memory after it: a later round may know other queues.

        Forget the forecasts if nothing waits: they would promise starts to work that has gone.
        """
        self._plan, self._memory = plan, self._engine.memory
        if self._engine.forecasts.published and not waits(plan):
            self._forget()

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Note the end of a pod."""
        if self._command:
            self._ended.pod_changed(old, new, time.time())

    async def run(self) -> None:
        """Ask until cancelled. The process starts once work has waited for a while. Raises ForecasterError and OSError."""
        if not self._command:
            return
        await self._work_has_waited()
        await self._ended.read(self._client)
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | ENVIRONMENT,
            limit=LARGEST_ANSWER,
            start_new_session=True,  # Ctrl-C at a terminal is for the operator
        )
        try:
            with contextlib.suppress(ProcessLookupError):  # a process that has ended gives no answer, which `_answer` reports
                os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)  # before it has loaded its modules
            await self._ask_again(process)
        finally:
            self._forget()
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _ask_again(self, process: asyncio.subprocess.Process) -> None:
        chosen = self._config.forecast
        part = chosen.core_percent / 100
        while True:
            await self._work_has_waited()
            began = time.monotonic()
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    asked_at, subjects = await self._ask(process)
                    answer = await self._answer(process, asked_at)
            except TimeoutError as error:
                raise ForecasterError(f"expected an answer within {ANSWER_SECONDS:.0f} s, found none") from error
            self._take(answer, subjects)
            await asyncio.sleep(max(chosen.interval_seconds, answer.processor_seconds / part) - (time.monotonic() - began))

    @property
    def _anything_waits(self) -> bool:
        return self._plan is not None and waits(self._plan)

    async def _work_has_waited(self) -> None:
        """Return once something has waited for `WAITED_SECONDS` without a break."""
        since = math.inf
        while True:
            now = time.monotonic()
            since = min(since, now) if self._anything_waits else math.inf
            if now - since >= WAITED_SECONDS or (self._engine.forecasts.starts and since < math.inf):
                return
            await asyncio.sleep(LOOK_SECONDS if since == math.inf else min(LOOK_SECONDS, since + WAITED_SECONDS - now + 0.01))

    async def _ask(self, process: asyncio.subprocess.Process) -> tuple[float, Subjects]:
        """Send a question; return its time and what it asks about. It takes several MB, of which nothing stays until the answer comes."""
        assert process.stdin is not None  # noqa: S101  it is a pipe
        assert self._plan is not None  # noqa: S101  work has waited in it
        found = await read(self._plan, self._memory, self._view, self._engine.demands, self._engine.gates.gated.of, time.time())
        line = await asyncio.to_thread(_line, found, self._config, self._ended.take())
        try:
            for start in range(0, len(line), PIECE):
                process.stdin.write(line[start : start + PIECE])
                await process.stdin.drain()
        except ConnectionError as error:
            raise ForecasterError(ENDED) from error
        return found.wall, found.subjects

    async def _answer(self, process: asyncio.subprocess.Process, asked_at: float) -> Answer:
        assert process.stdout is not None  # noqa: S101  it is a pipe
        try:
            answer = msgspec.json.decode(await process.stdout.readline(), type=Answer)
        except (ConnectionError, ValueError) as error:
            raise ForecasterError(ENDED) from error
        if answer.asked_at != asked_at:
            raise ForecasterError(f"expected the answer to the question of {asked_at}, found that of {answer.asked_at}")
        return answer

    def _take(self, answer: Answer, subjects: Subjects) -> None:
        self._metrics.show_forecasts(answer.outcomes, answer.processor_seconds, made=answer.runs > 0)
        if not answer.runs or not self._anything_waits:  # what waited has started since the question
            self._forget()
            return
        queue_of = by_uid(subjects)
        starts = {one.uid: _start(one, answer.asked_at) for one in answer.starts if one.uid in queue_of}
        deadlines = {one.queue: DeadlineForecast(one.probability, one.is_open, one.opens) for one in answer.deadlines}
        queues = {queue: QueueForecast(deadline=found) for queue, found in deadlines.items()}
        for queue, objects in subjects.by_queue.items():
            first = next((one for one in objects if one.uid in starts), None)
            if first is not None:
                queues[queue] = QueueForecast(f"{first.kind} {first.name}", starts[first.uid], deadlines.get(queue), first.uid)
        self._engine.forecast(starts, queues, time.time(), time.monotonic())

    def _forget(self) -> None:
        if self._engine.forecasts.published:
            self._engine.forecast({}, {}, time.time(), time.monotonic())


def _line(found: Read, config: Config, runs: Sequence[Run]) -> bytes:
    """Return the question as the forecaster's process reads it. Reads values only, so that another thread may call it."""
    return msgspec.json.encode(encoded(found, config, runs)) + b"\n"


def _start(told: Start, asked_at: float) -> StartForecast:
    def at(seconds: float | None) -> float:
        return math.inf if seconds is None or seconds > LONGEST_SECONDS else asked_at + seconds

    return StartForecast(
        asked_at, at(told.median), {level: (at(told.intervals[level][0]), at(told.intervals[level][1])) for level in LEVELS}
    )
