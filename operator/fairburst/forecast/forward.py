"""One forward run of the simulator from a state, with drawn durations and arrivals; and many of them.

Tasks of one stage take equally long, so one duration is drawn for a stage: the one that was seen if a task of it has ended, else one that
is longer than its running tasks have run already. Jobs that come later are drawn too, as they take room that a waiting job would have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np
from typing_extensions import override

from fairburst.forecast.learned import Arrivals, Durations
from fairburst.forecast.state import JobState, State
from fairburst.policy.arrays import FloatArray
from fairburst.policy.decide import decide
from fairburst.policy.model import RoundResult
from fairburst.sim.backlog import Batch, LiveJob
from fairburst.sim.engine import Kind, Simulation
from fairburst.sim.scenario import Scenario, Submission
from fairburst.sim.workload import DagJob, Stage

RUNS = 40
COARSER = 0.03  # of the time ahead: rounds of a run are at least so far apart, as a forecast of an hour needs no milliseconds
MOST_EVENTS = 30_000  # of one run; a job that has not started by then starts later than can be said


class _Forward(Simulation):
    """A run that begins in the middle."""

    def __init__(self, state: State, durations: Durations, arrivals: Arrivals, draw: np.random.Generator, guess: float) -> None:
        scenario = Scenario(state.cluster, state.queues, config=state.config)
        super().__init__(scenario, decide, "bopf")
        self.now, self.memory = state.now, state.memory
        self.begun = self.last_round = state.now
        self.durations, self.draw, self.guess = durations, draw, guess
        self.live = {job.name: self._resume(job) for job in state.jobs}
        self.coming = {queue: arrivals.stream(queue, state.now, draw) for queue in arrivals.queues if queue in self.row_of}
        for queue in self.coming:
            self._expect_next(queue)

    def first_starts(self, asked: Collection[str], until: float) -> dict[str, float]:
        """When each of the jobs `asked` starts its first task; infinite where not by `until`."""
        open_ = [self.live[name] for name in asked]
        self._round()
        for _ in range(MOST_EVENTS):
            open_ = [job for job in open_ if math.isnan(job.record.first_start)]
            time = min(self.heap[0][0] if self.heap else math.inf, self.wake)
            if not open_ or time > until:
                break
            self._advance(time)
            self._round_if_due(time)
        starts = {name: self.live[name].record.first_start for name in asked}
        return {name: math.inf if math.isnan(at) else at for name, at in starts.items()}

    @override
    def _round(self) -> None:
        self.last_round = self.now
        super()._round()

    @override
    def _decide(self) -> RoundResult:
        self.result = super()._decide()
        return self.result

    @override
    def _next_round(self, time: float) -> float:
        return max(time, self.last_round + COARSER * (self.last_round - self.begun))

    @override
    def _round_if_due(self, time: float) -> bool:
        """Between rounds work starts by the last decision, as it does on a cluster, so that no room stands idle until the next one."""
        due = super()._round_if_due(time)
        if not due:
            self._start(self.result)
        return due

    def _resume(self, state: JobState) -> LiveJob:
        """Submit a job, with the tasks running that run."""
        seconds = []
        for stage in state.stages:
            elapsed = max((self.now - started for _, started in stage.running), default=0.0)
            drawn = stage.seconds
            if drawn is None or drawn <= elapsed:
                drawn = self.durations.draw(state.queue, stage.tasks, elapsed, self.draw, self.guess)
            seconds.append(drawn * stage.waves)
        left = [stage.waiting + sum(count for count, _ in stage.running) for stage in state.stages]
        stages = tuple(
            Stage(f"stage-{number}", tasks, length, stage.demand, stage.parents)
            for number, (stage, tasks, length) in enumerate(zip(state.stages, left, seconds, strict=True))
        )
        job = self._arrive(state.queue, DagJob(state.name, stages))
        for number, stage in enumerate(state.stages):
            for count, started in stage.running:
                self._run_on(job, number, count, max(started + seconds[number], self.now))
        if state.has_started:
            job.record.first_start = state.arrival
        self.work.offering[job.queue] = [entry for entry in self.work.offering[job.queue] if entry[1].offered]
        return job

    def _run_on(self, job: LiveJob, stage: int, count: int, end: float) -> None:
        """Tasks that run already, on the node with the most room."""
        node = int(np.argmax(self.machines.free.min(axis=1)))
        self.machines.free[node] -= count * job.demand[stage]
        self.work.start(job, stage, count)
        self._push(end, Kind.END, Batch(job, stage, node, count, self.now))

    @override
    def _happen(self, event: tuple[float, int, int, object]) -> None:
        super()._happen(event)
        if isinstance(event[3], Submission):
            self._expect_next(event[3].queue)

    def _expect_next(self, queue: str) -> None:
        wait, job = next(self.coming[queue])
        stages = tuple(replace(stage, seconds=self.durations.draw(queue, stage.tasks, 0.0, self.draw, self.guess)) for stage in job.stages)
        at = self.now + max(wait, 1e-3)
        self._expect(queue, 1)
        self._push(at, Kind.ARRIVAL, Submission(at, queue, replace(job, stages=stages)))


def start_samples(
    state: State, asked: Collection[str], durations: Durations, arrivals: Arrivals, *, seed: int, runs: int = RUNS, guess: float = 60.0,
    horizon: float = math.inf, tell: Callable[[int], None] | None = None,
) -> Mapping[str, FloatArray]:  # fmt: skip
    """(runs,) seconds from now to the start of each of the jobs asked for, ascending; infinite where it lies past the horizon.

    guess: a duration for work of which nothing like it has ended.
    """
    found: dict[str, list[float]] = {name: [] for name in asked}
    for number in range(runs):
        draw = np.random.default_rng((seed, number))
        starts = _Forward(state, durations, arrivals, draw, guess).first_starts(asked, state.now + horizon)
        for name, at in starts.items():
            found[name].append(at - state.now)
        if tell is not None:
            tell(number + 1)
    return {name: np.sort(np.array(waits)) for name, waits in found.items()}
