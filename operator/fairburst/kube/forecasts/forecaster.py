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
from fairburst.kube.forecasts.ended_pods import EndedPods
from fairburst.kube.forecasts.messages import LEVELS, Answer, Question, Start
from fairburst.kube.forecasts.question import Subjects, by_uid, encoded, read, waits
from fairburst.kube.rounds.view import ClusterView, RoundPlan
from fairburst.kube.rounds.work_events import WAITED_SECONDS
from fairburst.kube.views.forecast_view import LONGEST_SECONDS, DeadlineForecast, QueueForecast, StartForecast
from fairburst.telemetry.metrics import Metrics

LOOK_SECONDS = 2.0
# A forecaster that is silent for this time is stuck: its own limits are shorter (forecast/budget.py).
ANSWER_SECONDS = 600.0
NICENESS = 19
LARGEST_ANSWER = 64 * 2**20  # bytes
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
            plan, began = self._plan, time.monotonic()
            assert plan is not None  # noqa: S101  work has waited in it
            found = await read(
                plan, self._memory, self._view, self._engine.demands, self._engine.gates.gated.of, time.time()
            )  # fmt: skip
            runs = self._ended.take()
            question = await asyncio.to_thread(encoded, found, self._config, runs)
            answer = await self._answer(process, question)
            self._take(answer, found.subjects)
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

    async def _answer(self, process: asyncio.subprocess.Process, question: Question) -> Answer:
        assert process.stdin is not None  # noqa: S101  both are pipes
        assert process.stdout is not None  # noqa: S101
        line = await asyncio.to_thread(msgspec.json.encode, question)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                process.stdin.write(line + b"\n")
                await process.stdin.drain()
                answered = await process.stdout.readline()
            answer = msgspec.json.decode(answered, type=Answer)
        except TimeoutError as error:
            raise ForecasterError(f"expected an answer within {ANSWER_SECONDS:.0f} s, found none") from error
        except (ConnectionError, ValueError) as error:
            raise ForecasterError("expected an answer of the forecaster, found that it has ended; see its traceback in the log") from error
        if answer.asked_at != question.now:
            raise ForecasterError(f"expected the answer to the question of {question.now}, found that of {answer.asked_at}")
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


def _start(told: Start, asked_at: float) -> StartForecast:
    def at(seconds: float | None) -> float:
        return math.inf if seconds is None or seconds > LONGEST_SECONDS else asked_at + seconds

    return StartForecast(
        asked_at, at(told.median), {level: (at(told.intervals[level][0]), at(told.intervals[level][1])) for level in LEVELS}
    )
