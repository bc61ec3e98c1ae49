"""Coverage of forecasts: replay a scenario, forecast the starts of waiting jobs on the way, and compare these with the actual starts.

A forecast uses only what an operator could know at that time: the present jobs and their numbers of tasks, the durations of work that has
ended, and the arrivals of earlier jobs. Its calibration uses only jobs that have started by then.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from fairburst.forecast.intervals import LEVELS, Calibration, Forecast, raw
from fairburst.forecast.learned import Arrivals, Durations
from fairburst.forecast.samples import RUNS, start_samples
from fairburst.forecast.state import JobState, StageState, State
from fairburst.policy.arrays import FloatArray
from fairburst.policy.decide import decide
from fairburst.sim.backlog import Batch, LiveJob
from fairburst.sim.engine import Simulation
from fairburst.sim.scenario import Scenario
from fairburst.sim.workload import DagJob

LEAST_WAIT = 5.0  # seconds that a job has waited before the first question about it


@dataclass(slots=True)
class Asked:
    """One question: the waits in the forward runs, and the actual seconds from the question to the start."""

    time: float
    waits: FloatArray
    wait: float


@dataclass(slots=True)
class Coverage:
    """Results of the questions of one replay. raw, calibrated: fraction of the outcomes in the interval, by level.

    median_wait: of the outcomes; median_width: of the calibrated intervals of 90 %; median_error: of the medians. Seconds.
    """

    outcomes: int
    raw: dict[float, float]
    calibrated: dict[float, float]
    median_wait: float
    median_width: float
    median_error: float


class _Replay(Simulation):
    """The replay, which asks for forecasts at intervals."""

    def __init__(
        self, scenario: Scenario, every: float, jobs_at_once: int, runs: int, seed: int, progress: Callable[[float], None] | None
    ) -> None:
        super().__init__(scenario, decide, "bopf")
        self.every, self.jobs_at_once, self.runs, self.seed, self.progress = every, jobs_at_once, runs, seed, progress
        self.choice = np.random.default_rng(seed)
        self.durations, self.arrivals = Durations(), Arrivals()
        self.alive: dict[int, LiveJob] = {}
        self.known: set[tuple[int, int]] = set()
        self.open: list[tuple[float, FloatArray, LiveJob]] = []
        self.next_question = every

    @override
    def _tracks(self) -> bool:
        return True

    @override
    def _arrive(self, queue: str, spec: DagJob) -> LiveJob:
        job = super()._arrive(queue, spec)
        self.alive[job.serial] = job
        self.arrivals.came(queue, self.now, spec)
        return job

    @override
    def _end(self, batch: Batch) -> None:
        job, stage = batch.job, batch.stage
        if (job.serial, stage) not in self.known:
            self.known.add((job.serial, stage))
            self.durations.ended(self.queues[job.queue].name, job.spec.stages[stage].tasks, self.now - batch.started)
        super()._end(batch)
        if job.stages_left == 0:
            self.alive.pop(job.serial, None)

    @override
    def _round(self) -> None:
        if self.now >= self.next_question:
            self.next_question = self.now + self.every
            self._ask()
        super()._round()

    def _ask(self) -> None:
        waiting = [job for job in self.alive.values() if math.isnan(job.record.first_start) and self.now - job.record.arrival >= LEAST_WAIT]
        if not waiting:
            return
        chosen = [waiting[at] for at in self.choice.permutation(len(waiting))[: self.jobs_at_once]]
        waits = start_samples(
            self._state(), [str(job.serial) for job in chosen], self.durations, self.arrivals, seed=self.seed * 1_000_003 + len(self.open),
            runs=self.runs, horizon=self.scenario.until,
        )  # fmt: skip
        self.open += [(self.now, waits[str(job.serial)], job) for job in chosen]
        if self.progress is not None:
            self.progress(self.now)

    def _state(self) -> State:
        batches: dict[int, list[Batch]] = {}
        for row in self.running.values():
            for batch in row:
                batches.setdefault(batch.job.serial, []).append(batch)
        jobs = tuple(self._job(job, batches.get(serial, [])) for serial, job in sorted(self.alive.items()))
        return State(self.scenario.cluster, self.queues, self.scenario.config, self.memory, jobs, self.now)

    def _job(self, job: LiveJob, batches: list[Batch]) -> JobState:
        left = [stage for stage, count in enumerate(job.unfinished) if count]
        place = {stage: number for number, stage in enumerate(left)}
        stages = []
        for stage in left:
            spec = job.spec.stages[stage]
            running = tuple((batch.count, batch.started) for batch in batches if batch.stage == stage)
            parents = tuple(place[parent] for parent in spec.parents if parent in place)
            known = spec.seconds if (job.serial, stage) in self.known else None
            stages.append(StageState(spec.tasks, job.pending[stage], running, spec.demand, known, parents))
        begun = not math.isnan(job.record.first_start)
        return JobState(str(job.serial), self.queues[job.queue].name, job.record.arrival, tuple(stages), begun)


def measure(
    scenario: Scenario, *, every: float, jobs_at_once: int = 5, runs: int = RUNS, seed: int = 1, most: int = 400,
    progress: Callable[[float], None] | None = None,
) -> tuple[Coverage, list[Asked]]:  # fmt: skip
    """Replay the scenario under BoPF with questions `every` so many seconds. Return the comparison and the questions."""
    replay = _Replay(scenario, every, jobs_at_once, runs, seed, progress)
    replay.run()
    started = [Asked(time, waits, job.record.first_start - time) for time, waits, job in replay.open]
    asked = [one for one in started if math.isfinite(one.wait) and one.wait > 0][:most]
    return compared(asked), asked


def compared(asked: list[Asked]) -> Coverage:
    """Compare forecasts with outcomes. The outcomes before a forecast calibrate it."""
    calibration = Calibration()
    open_: list[tuple[float, int, Asked, Forecast]] = []
    plain = dict.fromkeys(LEVELS, 0)
    widths, errors = [], []
    for number, one in enumerate(asked):
        while open_ and open_[0][0] <= one.time:
            _resolve(calibration, heapq.heappop(open_))
        forecast = calibration.forecast(one.waits)
        low, high = forecast.intervals[0.9]
        widths.append(high - low)
        errors.append(abs(forecast.median - one.wait))
        for level in LEVELS:
            plain[level] += raw(one.waits).covers(level, one.wait)
        heapq.heappush(open_, (one.time + one.wait, number, one, forecast))
    while open_:
        _resolve(calibration, heapq.heappop(open_))
    count = max(len(asked), 1)
    return Coverage(
        len(asked), {level: plain[level] / count for level in LEVELS}, {level: calibration.coverage(level) for level in LEVELS},
        float(np.median([one.wait for one in asked])) if asked else math.nan, float(np.median(widths)) if widths else math.nan,
        float(np.median(errors)) if errors else math.nan,
    )  # fmt: skip


def _resolve(calibration: Calibration, item: tuple[float, int, Asked, Forecast]) -> None:
    _, _, one, forecast = item
    calibration.came_out(one.waits, forecast, one.wait)
