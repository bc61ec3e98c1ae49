"""The forecaster: answers the operator's questions, learns durations and arrivals from them, and scores its past forecasts.

It remembers a bounded number of runs, jobs and forecasts, and forgets them when its process ends.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Any

from fairburst.forecast.budget import Budget
from fairburst.forecast.bursts import Candidate, candidates, coming_burst, is_open
from fairburst.forecast.forward import Asked
from fairburst.forecast.from_question import AskedState, asked_state
from fairburst.forecast.intervals import Calibration, Forecast
from fairburst.forecast.learned import Arrivals, Durations
from fairburst.forecast.samples import part_met, samples
from fairburst.kube.forecasts.messages import LEVELS, Answer, Deadline, EndedPod, Question, Start
from fairburst.policy.arrays import FloatArray
from fairburst.sim.engine import EPOCH
from fairburst.sim.workload import DagJob, Stage

HORIZON_SECONDS = 86_400.0
KEPT_WORK = 10_000  # objects with a known mean duration, and as many that have been counted as arrivals
KEPT_FORECASTS = 2_000  # forecasts without an outcome yet
ASKED_AGAIN_SECONDS = 300.0  # least time between scored forecasts of one object: those in between would repeat the same information
SHORT_RUNS = 12  # forward runs for the next burst of one latency queue


@dataclass(slots=True)
class _Open:
    """A forecast without an outcome yet. before: starts of the work's pods that ran at the question; ended: of those that ended since."""

    work: str
    place: int
    asked_at: float
    waits: FloatArray
    forecast: Forecast
    before: Counter[float]
    ended: list[float] = field(default_factory=list)
    absent: int = 0


class Service:
    """The forecaster of a process, described in the module's docstring."""

    def __init__(self) -> None:
        self.durations, self.arrivals, self.calibration = Durations(), Arrivals(), Calibration()
        self.learned = 0
        self._means: OrderedDict[str, tuple[float, int]] = OrderedDict()  # by uid of the work: seconds and number of its ended pods
        self._came: OrderedDict[str, None] = OrderedDict()
        self._last_came: dict[str, float] = {}
        self._open: OrderedDict[tuple[str, float], _Open] = OrderedDict()  # by uid of the object, and time of the question
        self._scored: dict[str, float] = {}
        self._published: dict[str, tuple[Candidate, Deadline]] = {}
        self._turn = 0

    def answer(self, question: Question) -> Answer:
        """Return the answer to one question."""
        budget = Budget(question.processor_seconds, question.pace)
        outcomes = self._resolve(question)
        self._learn(question)
        state = asked_state(question, {uid: seconds / count for uid, (seconds, count) in self._means.items()})
        asked = {one.uid: Asked(one.work, one.place) for one in question.asked if one.work in state.names}
        under_way = [queue for queue, entry in state.state.memory.queues.items() if is_open(entry)]
        found = samples(
            state.state, asked, under_way, self.durations, self.arrivals, seed=int(question.now), horizon=HORIZON_SECONDS, budget=budget
        )  # fmt: skip
        starts = [self._start(uid, asked[uid], waits, question) for uid, waits in found.waits.items()]
        deadlines = [Deadline(queue, part, is_open=True) for queue, part in found.met.items()]
        if found.runs:
            deadlines += self._next_bursts(state, question, budget)
        return Answer(question.now, found.runs, starts, deadlines, outcomes, self.learned, budget.spent)

    # Results ---------------------------------------------------------------------------------------------------------

    def _resolve(self, question: Question) -> dict[int, tuple[int, int]]:
        """Score the forecasts whose work has started. Return the number of starts inside and outside the intervals, by level."""
        running = {one.uid: Counter({at: count for count, at in one.running}) for one in question.work}
        ended: dict[str, list[float]] = {}
        for pod in question.ended:
            ended.setdefault(pod.work, []).append(pod.started)
        inside, outside = dict.fromkeys(LEVELS, 0), dict.fromkeys(LEVELS, 0)
        for key, one in list(self._open.items()):
            one.ended += ended.get(one.work, [])
            started = Counter(one.ended) + running.get(one.work, Counter()) - one.before
            times = sorted(started.elements())
            if len(times) >= one.place:
                wait = max(0.0, _middle(times[one.place - 1]) - one.asked_at)
                for level in LEVELS:
                    covered = one.forecast.covers(level / 100, wait)
                    inside[level] += covered
                    outside[level] += not covered
                self.calibration.came_out(one.waits, one.forecast, wait)
            one.absent = 0 if one.work in running or one.work in ended else one.absent + 1
            if len(times) >= one.place or one.absent > 1:
                del self._open[key]
        return {level: (inside[level], outside[level]) for level in LEVELS}

    def _start(self, uid: str, asked: Asked, waits: FloatArray, question: Question) -> Start:
        """Return the forecast of one object's start. Keep it to be scored, if it is finite and the object's last one is old enough."""
        forecast = self.calibration.forecast(waits)
        if math.isfinite(forecast.median) and question.now - self._scored.get(uid, -math.inf) >= ASKED_AGAIN_SECONDS:
            self._scored[uid] = question.now
            running = next((one.running for one in question.work if one.uid == asked.job), [])
            before = Counter({at: count for count, at in running})
            self._open[uid, question.now] = _Open(asked.job, asked.place, question.now, waits, forecast, before)
            while len(self._open) > KEPT_FORECASTS:
                self._open.popitem(last=False)
            if len(self._scored) > 2 * KEPT_FORECASTS:
                self._scored = dict(self._open.keys())
        ends = {level: tuple(map(_or_none, forecast.intervals[level / 100])) for level in LEVELS}
        return Start(uid, _or_none(forecast.median), {level: (low, high) for level, (low, high) in ends.items()})

    # Learning --------------------------------------------------------------------------------------------------------

    def _learn(self, question: Question) -> None:
        """Count the durations of ended pods, and work that is seen for the first time as arrivals."""
        for pod in question.ended:
            self._ended(pod)
        names = [spec["name"] for spec in question.queues]
        for one in sorted(question.work, key=lambda work: work.created):
            queue = names[one.queue]
            if one.endless or one.uid in self._came:
                continue
            _keep(self._came, one.uid, None)
            at_once = one.waiting + sum(count for count, _ in one.running)
            time = max(one.created - EPOCH, self._last_came.get(queue, -math.inf))
            self._last_came[queue] = time
            self.arrivals.came(queue, time, DagJob(one.uid, (Stage("pods", max(1, at_once), 0.0, tuple(one.demand)),)))

    def _ended(self, pod: EndedPod) -> None:
        seconds = max(0.0, pod.ended - pod.started)
        self.durations.ended(pod.queue, pod.tasks, seconds)
        total, count = self._means.get(pod.work, (0.0, 0))
        _keep(self._means, pod.work, (total + seconds, count + 1))
        self.learned += 1

    # Bursts to come --------------------------------------------------------------------------------------------------

    def _next_bursts(self, asked: AskedState, question: Question, budget: Budget) -> list[Deadline]:
        """Forecast the next burst of one latency queue, in turn. Return the forecasts of all queues whose next burst is still the same."""
        possible = list(candidates(asked, question.now))
        last = {one.queue: self._published[one.queue] for one in possible if one.queue in self._published}
        self._published = {one.queue: last[one.queue] for one in possible if one.queue in last and last[one.queue][0] == one}
        if possible:
            self._turn += 1
            chosen = possible[self._turn % len(possible)]
            part = part_met(
                asked.state, lambda draw: coming_burst(chosen, self.durations, draw, asked.state.now), self.durations, self.arrivals,
                seed=int(question.now), runs=SHORT_RUNS, budget=budget,
            )  # fmt: skip
            if part is not None:
                self._published[chosen.queue] = chosen, Deadline(chosen.queue, part, is_open=False, opens=chosen.opens)
        return [deadline for _, deadline in self._published.values()]


def _middle(time: float) -> float:
    """Return the middle of the second to which Kubernetes has truncated a time."""
    return time + 0.5 if time == int(time) else time


def _or_none(seconds: float) -> float | None:
    return round(seconds, 2) if math.isfinite(seconds) else None


def _keep(kept: OrderedDict[str, Any], key: str, value: object) -> None:
    """Make the entry the newest of at most KEPT_WORK."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > KEPT_WORK:
        kept.popitem(last=False)
