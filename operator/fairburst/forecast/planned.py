"""Bursts that would be met within the next hours, before a change and after it.

Both sides run forward from the same moment with the same draws, so that a difference between them comes from the change. A burst of a hard
or soft queue counts as the queue's status counts it. Without a promise no one counts, and a burst is met if all work of the queue that came
before its deadline has ended by then.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from typing_extensions import override

from fairburst.forecast.bursts import Candidate, bursts_due, coming_burst, is_open
from fairburst.forecast.forward import MOMENT, Forward
from fairburst.forecast.from_cluster import Known
from fairburst.forecast.learned import Arrivals, Durations
from fairburst.forecast.state import JobState, StageState, State
from fairburst.forecast.units import in_countable_units, scaled
from fairburst.policy.model import QueueKind
from fairburst.sim.cluster import one_machine
from fairburst.sim.engine import EPOCH, Simulation
from fairburst.whatif.rounds import DecidedRound

RUNS = 9  # odd, so that the more frequent outcome of a burst is clear
MOST_BURSTS = 5_000
MOST_WAVES = 50  # of the pods that use a Job's places one after the other; the last one holds its room for all further ones
MARGIN = 3 * MOMENT  # a burst that comes now arrives a moment later, and its deadline is judged a moment after that
QUEUES_PER_STEP_SECOND = 200  # 20 ms between rounds of four queues, 5 s between those of a thousand, and none at an arrival
QUEUES_AT_ONE_COST = 1_000  # a round of so many queues takes twice as long as one of a few, which takes about 2 ms
MOST_ROUNDS = 4_000  # of a few queues, in one run; a run that needs more shortens the horizon
ENOUGH_ROUNDS = 1_000  # of a few queues, in the runs of both sides, after which no further pair of runs begins


@dataclass(frozen=True, slots=True)
class Due:
    """One burst: when it opens, and its deadline. Seconds since the epoch."""

    queue: str
    opens: float
    deadline: float


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One side of the comparison. jobs: the present work, in natural units."""

    round: DecidedRound
    jobs: tuple[JobState, ...]
    known: Known

    def without(self, queues: Collection[str]) -> Side:
        """Return the side without the work of these queues."""
        known = replace(self.known, arrivals=self.known.arrivals.without(queues))
        return replace(self, jobs=tuple(job for job in self.jobs if job.queue not in queues), known=known)

    def queues(self, kind: QueueKind) -> frozenset[str]:
        """Return the names of the queues of this kind."""
        return frozenset(spec.name for spec in self.round.snapshot.queues if spec.kind is kind)

    @property
    def guesses(self) -> bool:
        """Return whether the lengths of present work of throughput queues are guesses, because no pod has ended."""
        batch = self.queues(QueueKind.THROUGHPUT)
        unknown = (stage.seconds is None for job in self.jobs if job.queue in batch for stage in job.stages)
        return self.known.ended_pods == 0 and any(unknown)


@dataclass(frozen=True, slots=True)
class Met:
    """Bursts of one queue by when they open. part: fraction of the runs in which each was met."""

    part: Mapping[float, float]

    @property
    def due(self) -> int:
        """Return the number of bursts."""
        return len(self.part)

    @property
    def met(self) -> int:
        """Return the number of bursts that are met in more than half of the runs."""
        return sum(part > 1 / 2 for part in self.part.values())

    @property
    def mean(self) -> float:
        """Return the number of bursts that are met in a run on average."""
        return sum(self.part.values())

    def lost(self, after: Met) -> int:
        """Return the number of bursts that are met in all runs here, and in none after the change."""
        return sum(part == 1 and after.part.get(at, 1) == 0 for at, part in self.part.items())


@dataclass(frozen=True, slots=True)
class Foretold:
    """Bursts met before and after, by queue with a due burst.

    seconds: from now to the end of the horizon, which may be less than `asked_seconds`. guesses: as in `Side`. arrivals: whether further
    batch work comes in the runs.
    """

    before: Mapping[str, Met]
    after: Mapping[str, Met]
    seconds: float
    asked_seconds: float
    runs: int
    guesses: bool
    arrivals: bool


def foretell(before: Side, after: Side, seconds: float, *, seed: int = 1) -> Foretold:
    """Run both sides forward for `seconds`, or less if that takes more than `MOST_ROUNDS`; up to `RUNS` times within `ENOUGH_ROUNDS`.

    Rounds are counted and not timed, so that the same input has the same answer everywhere.
    """
    sides = [_Prepared.of(side, seconds) for side in (before, after)]
    horizon, cost = min(side.horizon for side in sides), 0.0
    outcomes: list[list[Mapping[Due, bool]]] = [[], []]
    for number in range(RUNS if any(side.bursts or side.open for side in sides) else 0):
        runs = [side.run((seed, number)) for side in sides]
        for run, found in zip(runs, outcomes, strict=True):
            horizon = min(horizon, run.judge(horizon))
            found.append(run.outcomes)
            cost += run.cost
        if cost >= ENOUGH_ROUNDS:
            break
    until = before.round.now + horizon
    return Foretold(
        _counted(outcomes[0], until),
        _counted(outcomes[1], until),
        horizon,
        seconds,
        len(outcomes[0]),
        guesses=before.guesses or after.guesses,
        arrivals=any(side.arrivals.queues for side in sides),
    )


def _counted(outcomes: Sequence[Mapping[Due, bool]], until: float) -> dict[str, Met]:
    """Return the outcomes by queue, of the bursts that are due by `until`."""
    found: dict[str, dict[float, float]] = {}
    for due in outcomes[0] if outcomes else ():
        if due.deadline <= until:
            found.setdefault(due.queue, {})[due.opens] = sum(one[due] for one in outcomes) / len(outcomes)
    return {queue: Met(part) for queue, part in found.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    """A side that is ready to run. horizon: seconds, shorter than asked if more than `MOST_BURSTS` are due."""

    state: State
    durations: Durations
    arrivals: Arrivals
    bursts: Sequence[Candidate]
    open: Sequence[Due]
    horizon: float

    @classmethod
    def of(cls, side: Side, seconds: float) -> _Prepared:
        one, snapshot = side.round, side.round.snapshot
        machine = one_machine(snapshot.resources, snapshot.live_capacity.tolist())
        jobs = _in_waves(side)
        state = in_countable_units(State(machine, snapshot.queues, one.config, one.following, jobs, one.now - EPOCH))
        rows = dict(zip((spec.name for spec in snapshot.queues), snapshot.unit.tolist(), strict=True))
        units = {name: scaled(tuple(row), state.factors) for name, row in rows.items()}
        bursts = list(islice(bursts_due(state, units, one.now + seconds), MOST_BURSTS + 1))
        if len(bursts) > MOST_BURSTS:
            last = bursts.pop()
            seconds = (last.opens or one.now) + last.burst.deadline_seconds - one.now - MARGIN
        open_ = [
            Due(name, entry.window.opened or one.now, entry.window.deadline)
            for name, entry in state.memory.queues.items()
            if is_open(entry) and entry.window is not None and entry.window.deadline is not None
        ]
        open_ = [due for due in open_ if one.now < due.deadline <= one.now + seconds]
        arrivals = side.known.arrivals.without(side.queues(QueueKind.LATENCY))
        return cls(state, side.known.durations, arrivals, bursts, open_, seconds)

    def run(self, seed: tuple[int, ...]) -> _Run:
        return _Run(self, seed)


def _in_waves(side: Side) -> tuple[JobState, ...]:
    """Return the jobs, with the further pods of a Job as later stages, because a burst may have their room before them.

    Pods of latency queues of which too few pods have ended run for as long as those of a burst are declared to.
    """
    declared = {spec.name: spec.burst.duration_seconds for spec in side.round.snapshot.queues if spec.burst is not None}
    unknown = {name for name in declared if not side.known.durations.of_queue(name)}
    found = []
    for job in side.jobs:
        stages = [replace(one, seconds=declared[job.queue]) if one.seconds is None and job.queue in unknown else one for one in job.stages]
        if len(stages) == 1 and not job.whole:
            stages = list(_waves(stages[0]))
        found.append(replace(job, stages=tuple(stages)))
    return tuple(found)


def _waves(stage: StageState) -> Iterator[StageState]:
    at_once = stage.waiting + sum(count for count, _ in stage.running)
    last = min(stage.waves, MOST_WAVES)
    for number in range(last):
        waves = stage.waves - last + 1 if number == last - 1 else 1
        if number == 0:
            yield replace(stage, waves=waves)
        else:
            yield replace(stage, waiting=at_once, running=(), parents=(number - 1,), waves=waves)


class _Run(Forward):
    """One forward run in which all due bursts come and are judged. outcomes: whether each was met."""

    def __init__(self, side: _Prepared, seed: tuple[int, ...]) -> None:
        self._seed = seed
        self._draws: dict[str, np.random.Generator] = {}
        state = side.state
        coming = [coming_burst(one, side.durations, self._draw_for(one.queue), state.now) for one in side.bursts]
        dues = [Due(one.queue, at, at + one.burst.deadline_seconds) for one in side.bursts if (at := one.opens) is not None]
        super().__init__(state, side.durations, side.arrivals, np.random.default_rng(seed), coming)
        judged = [burst.at + burst.deadline_seconds + MOMENT for burst in coming]
        judged += [due.deadline - EPOCH + MOMENT for due in side.open]
        self._due = sorted(zip(judged, [*dues, *side.open], strict=True), key=lambda one: (one[0], one[1].queue))
        self.looks = sorted({*self.looks, *judged})
        self._arrivals = {burst.at for burst in coming}
        self._step = len(self.queues) / QUEUES_PER_STEP_SECOND
        self._counts = {name: (entry.met, entry.missed) for name, entry in self.memory.queues.items()}
        self.outcomes: dict[Due, bool] = {}

    @override
    def _draw_for(self, queue: str) -> np.random.Generator:
        """Return the queue's own generator, so that another queue that comes or goes changes nothing that is drawn for this one."""
        if queue not in self._draws:
            self._draws[queue] = np.random.default_rng((*self._seed, zlib.crc32(queue.encode())))
        return self._draws[queue]

    @property
    def cost(self) -> float:
        """Return the rounds so far, as rounds of a few queues."""
        return self.record.rounds * (1 + len(self.queues) / QUEUES_AT_ONE_COST)

    def judge(self, horizon: float) -> float:
        """Run for `horizon` seconds and note the outcome of each burst due by then. Return the seconds that `MOST_ROUNDS` allowed."""
        begun, at = self.now, 0
        until = begun + horizon + MARGIN + self._step
        self._round()
        while at < len(self._due) and (time := self._next_time()) <= until:
            if self.cost >= MOST_ROUNDS:
                return max(0.0, self.last_round - begun - MARGIN)
            self._advance(time)
            self._round_if_due(time)
            while at < len(self._due) and self._due[at][0] <= self.last_round:
                due = self._due[at][1]
                self.outcomes[due] = self._is_met(due)
                at += 1
        return horizon

    @override
    def _next_round(self, time: float) -> float:
        passed = bisect_right(self.looks, time)
        has_come = not self._arrivals.isdisjoint(self.looks[:passed])
        del self.looks[:passed]
        return time if has_come else max(time, self.last_round + self._step)

    @override
    def _round_if_due(self, time: float) -> bool:
        """Run a due round. Nothing starts between rounds, which are closer together than in other forward runs."""
        return Simulation._round_if_due(self, time)

    def _is_met(self, due: Due) -> bool:
        """Return the outcome of a burst whose deadline has just been judged."""
        met, missed = self._counts.get(due.queue, (0, 0))
        self._counts[due.queue] = now_met, now_missed = self._judged(due.queue)
        if (now_met, now_missed) != (met, missed):
            return now_missed == missed
        deadline = due.deadline - EPOCH
        ours = [one for one in self.record.jobs if one.queue == due.queue and one.arrival < deadline]
        return all(one.end <= deadline + MARGIN for one in ours)
