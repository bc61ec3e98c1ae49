"""One forward run of the simulator from a state, with drawn durations and arrivals.

All tasks of a stage have one duration: that of a task that has ended, else a drawn one that is longer than its running tasks have run. Jobs
that arrive later are drawn too, because they may take room from waiting ones.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from fairburst.forecast.budget import Budget
from fairburst.forecast.learned import Arrivals, Durations
from fairburst.forecast.state import JobState, State
from fairburst.forecast.units import scaled
from fairburst.policy.arrays import FloatArray, IntArray
from fairburst.policy.decide import decide
from fairburst.policy.drf import dominant_share
from fairburst.policy.model import RoundResult
from fairburst.sim.backlog import Batch, LiveJob
from fairburst.sim.cluster import MILLIONTHS
from fairburst.sim.engine import EPOCH, Kind, Simulation
from fairburst.sim.scenario import Scenario, Submission
from fairburst.sim.workload import DagJob, Stage

COARSER = 0.03  # least distance of rounds, as a fraction of the time since the start of the run: a late forecast needs no milliseconds
MOMENT = 1e-3  # seconds: what comes now arrives a moment later than now, and a deadline is judged a moment after it
MOST_EVENTS = 30_000  # of one run; jobs that have not started by then have no known start


class Asked(NamedTuple):
    """The question when the `place`-th waiting task of a job starts."""

    job: str
    place: int = 1


@dataclass(frozen=True, slots=True)
class ComingBurst:
    """A burst that arrives in a run at this time of the simulator's clock. A queue with such bursts has no other arrivals in that run."""

    queue: str
    at: float
    job: DagJob
    deadline_seconds: float


class Forward(Simulation):
    """A run that starts from a state. judged: latency queues whose next deadline counts; `held` has by queue whether it was met."""

    def __init__(
        self, state: State, durations: Durations, arrivals: Arrivals, draw: np.random.Generator, bursts: Sequence[ComingBurst] = (),
        judged: Collection[str] = (),
    ) -> None:  # fmt: skip
        scenario = Scenario(state.cluster, state.queues, config=state.config)
        super().__init__(scenario, decide, "bopf")
        self.now, self.memory = state.now, state.memory
        self.begun = self.last_round = state.now
        self.durations, self.draw, self.factors = durations, draw, state.factors
        self.some_whole = any(job.whole for job in state.jobs)
        self.live = {job.name: self._resume(job) for job in state.jobs}
        self.waiting = {name: sum(job.pending) for name, job in self.live.items()}
        alone = {burst.queue for burst in bursts}
        queues = [queue for queue in arrivals.queues if queue in self.row_of and queue not in alone]
        self.coming = {queue: arrivals.stream(queue, state.now, self._draw_for(queue)) for queue in queues}
        for queue in self.coming:
            self._expect_next(queue)
        self.held: dict[str, bool] = {}
        self.before = {queue: (entry.met, entry.missed) for queue in judged if (entry := self.memory.queues.get(queue)) is not None}
        self.fine_from = min((burst.at for burst in bursts), default=math.inf)
        deadlines = [at for at in map(self._open_deadline, self.before) if at > self.now]
        deadlines += [burst.at + burst.deadline_seconds for burst in bursts]
        self.looks = sorted([burst.at for burst in bursts] + [at + MOMENT for at in deadlines])
        for burst in bursts:
            self._push(burst.at, Kind.ARRIVAL, Submission(burst.at, burst.queue, burst.job))

    def first_starts(self, asked: Mapping[str, Asked], until: float, budget: Budget | None = None) -> dict[str, float]:
        """Return the start of each task in `asked`, infinite if after `until`. The run ends once all are known. Raises OutOfTimeError."""
        starts, open_ = dict.fromkeys(asked, math.inf), dict(asked)
        self._round()
        for _ in range(MOST_EVENTS):
            for key in [key for key, one in open_.items() if self.waiting[one.job] - sum(self.live[one.job].pending) >= one.place]:
                starts[key] = self.now
                del open_[key]
            time = self._next_time()
            if time > until or not (open_ or self.held.keys() < self.before.keys()):
                break
            if budget is not None:
                budget.check()
            self._advance(time)
            self._round_if_due(time)
        return starts

    def _next_time(self) -> float:
        """Return the time of the next event or round."""
        return min(self.heap[0][0] if self.heap else math.inf, self.wake, self.looks[0] if self.looks else math.inf)

    def _draw_for(self, queue: str) -> np.random.Generator:  # noqa: ARG002  a subclass has one for each queue
        """Return the generator from which the durations and arrivals of a queue are drawn."""
        return self.draw

    def _open_deadline(self, queue: str) -> float:
        """Return the deadline of the queue's open window, in the simulator's time; negative infinity without one."""
        window = self.memory.queues[queue].window
        return -math.inf if window is None or window.deadline is None else window.deadline - EPOCH

    @override
    def _round(self) -> None:
        self.last_round = self.now
        super()._round()
        for queue in self.before.keys() - self.held.keys():
            met, missed = self._judged(queue)
            if met > self.before[queue][0] or missed > self.before[queue][1]:
                self.held[queue] = met > self.before[queue][0]

    def _judged(self, queue: str) -> tuple[int, int]:
        columns = self.memory.columns
        assert columns is not None  # noqa: S101  `decide` returns them
        row = columns.declared.row_of[queue]
        return int(columns.met[row]), int(columns.missed[row])

    @override
    def _decide(self) -> RoundResult:
        self.result = super()._decide()
        return self.result

    @override
    def _must_count(self, started: IntArray) -> bool:
        """Return True also while a job that starts whole waits, because the room for it depends on the others' usage."""
        return super()._must_count(started) or bool(started.any() and self._next_starts())

    @override
    def _next_starts(self) -> dict[int, FloatArray]:
        """Return by row the need of the smallest waiting job of each throughput queue whose waiting jobs all start whole."""
        found = dict[int, FloatArray]()
        for row, offering in enumerate(self.work.offering) if self.some_whole else ():
            if offering and not self.latency[row] and all(job.whole for _, job in offering):
                needs = np.stack([job.need for _, job in offering]) / MILLIONTHS
                found[row] = needs[int(np.argmin(dominant_share(needs, self.total / MILLIONTHS)))]
        return found

    @override
    def _next_round(self, time: float) -> float:
        if self.looks and time >= self.looks[0]:
            del self.looks[: bisect_right(self.looks, time)]
            return time
        begun = self.fine_from if self.last_round >= self.fine_from else self.begun
        return max(time, self.last_round + COARSER * (self.last_round - begun))

    @override
    def _round_if_due(self, time: float) -> bool:
        """Run a due round. Between rounds start work by the last decision, as a cluster does, so that no room is idle until the next."""
        due = super()._round_if_due(time)
        if not due:
            self._start(self.result)
        return due

    @override
    def _start_queue(self, row: int, allocation: IntArray) -> int:
        """Start jobs in order. A whole job that does not fit holds up the rest, unless it is larger than the allocation."""
        if not self.some_whole:
            return super()._start_queue(row, allocation)
        offering, started, at = self.work.offering[row], 0, 0
        while at < len(offering):
            job = offering[at][1]
            if job.whole:
                need = job.need
                if (need > allocation).any():
                    at += 1
                    continue
                if (need > allocation - self.work.usage[row]).any() or (need > self.machines.free.sum(axis=0)).any():
                    break
            started += self._start_job(job, allocation, allocation)
            if job.offered:
                break
            offering.pop(at)
        self.record.tasks_started += started
        return started

    def _resume(self, state: JobState) -> LiveJob:
        """Submit a job of the state, and continue its running tasks."""
        seconds = []
        for stage in state.stages:
            elapsed = max((self.now - started for _, started in stage.running), default=0.0)
            drawn = stage.seconds
            if drawn is None or drawn <= elapsed:
                drawn = self.durations.draw(state.queue, stage.tasks, elapsed, self._draw_for(state.queue))
            seconds.append(drawn * stage.waves)
        left = [stage.waiting + sum(count for count, _ in stage.running) for stage in state.stages]
        stages = tuple(
            Stage(f"stage-{number}", tasks, length, stage.demand, stage.parents)
            for number, (stage, tasks, length) in enumerate(zip(state.stages, left, seconds, strict=True))
        )
        job = self._arrive(state.queue, DagJob(state.name, stages))
        job.whole = state.whole
        for number, stage in enumerate(state.stages):
            for count, started in stage.running:
                self._run_on(job, number, count, max(started + seconds[number], self.now))
        if state.has_started:
            job.record.first_start = state.arrival
        self.work.offering[job.queue] = [entry for entry in self.work.offering[job.queue] if entry[1].offered]
        return job

    def _run_on(self, job: LiveJob, stage: int, count: int, end: float) -> None:
        """Place tasks that run already, on the node with the most room."""
        node = int(np.argmax(self.machines.free.min(axis=1)))
        self.machines.free[node] -= count * job.demand[stage]
        self.work.start(job, stage, count)
        self._push(end, Kind.END, Batch(job, stage, node, count, self.now))

    @override
    def _happen(self, event: tuple[float, int, int, object]) -> None:
        super()._happen(event)
        if isinstance(event[3], Submission) and event[3].queue in self.coming:
            self._expect_next(event[3].queue)

    def _expect_next(self, queue: str) -> None:
        wait, job = next(self.coming[queue])
        stages = tuple(
            replace(
                stage,
                seconds=self.durations.draw(queue, stage.tasks, 0.0, self._draw_for(queue)),
                demand=scaled(stage.demand, self.factors),
            )
            for stage in job.stages
        )
        at = self.now + max(wait, MOMENT)
        self._expect(queue, 1)
        self._push(at, Kind.ARRIVAL, Submission(at, queue, replace(job, stages=stages)))
