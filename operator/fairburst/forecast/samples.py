"""Many forward runs from one state: the starts of work, and how often deadlines are met."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from fairburst.forecast.budget import Budget, OutOfTimeError
from fairburst.forecast.forward import Asked, ComingBurst, Forward
from fairburst.forecast.learned import Arrivals, Durations
from fairburst.forecast.state import State
from fairburst.policy.arrays import FloatArray

RUNS = 40
FEWEST_RUNS = 12  # fewer give no useful interval


@dataclass(slots=True)
class Samples:
    """Results of the forward runs. waits: (runs,) seconds from now, ascending, by key. met: fraction of the runs in which the queue met its
    deadline."""

    runs: int = 0
    waits: dict[str, FloatArray] = field(default_factory=dict)
    met: dict[str, float] = field(default_factory=dict)


def start_samples(
    state: State, asked: Collection[str], durations: Durations, arrivals: Arrivals, *, seed: int, runs: int = RUNS,
    horizon: float = math.inf,
) -> Mapping[str, FloatArray]:  # fmt: skip
    """Return (runs,) seconds from now to the start of each job in `asked`, ascending; infinite beyond the horizon."""
    found: dict[str, list[float]] = {name: [] for name in asked}
    places = {name: Asked(name) for name in asked}
    for number in range(runs):
        draw = np.random.default_rng((seed, number))
        starts = Forward(state, durations, arrivals, draw).first_starts(places, state.now + horizon)
        for name, at in starts.items():
            found[name].append(at - state.now)
    return {name: np.sort(np.array(waits)) for name, waits in found.items()}


def samples(
    state: State, asked: Mapping[str, Asked], queues: Collection[str], durations: Durations, arrivals: Arrivals, *, seed: int,
    horizon: float, budget: Budget,
) -> Samples:  # fmt: skip
    """Run until the tasks in `asked` have started and the open deadlines of `queues` are judged, as often as the budget allows.

    Return no results if the budget does not suffice for `FEWEST_RUNS`.
    """
    found: dict[str, list[float]] = {key: [] for key in asked}
    met: dict[str, list[bool]] = {queue: [] for queue in queues}
    runs = 0
    while runs < RUNS and not (runs >= FEWEST_RUNS and budget.enough):
        run = Forward(state, durations, arrivals, np.random.default_rng((seed, runs)), judged=queues)
        try:
            starts = run.first_starts(asked, state.now + horizon, budget)
        except OutOfTimeError:
            break
        runs += 1
        for key, at in starts.items():
            found[key].append(at - state.now)
        for queue, outcome in run.held.items():
            met[queue].append(outcome)
    if runs < FEWEST_RUNS:
        return Samples()
    waits = {key: np.sort(np.array(one)) for key, one in found.items()}
    return Samples(runs, waits, {queue: sum(one) / len(one) for queue, one in met.items() if one})


def part_met(
    state: State, burst: Callable[[np.random.Generator], ComingBurst], durations: Durations, arrivals: Arrivals, *, seed: int, runs: int,
    budget: Budget,
) -> float | None:  # fmt: skip
    """Return the fraction of the runs in which a future burst meets its deadline, or None if the budget suffices for no run.

    burst: draws the burst of one run.
    """
    outcomes: list[bool] = []
    for number in range(runs):
        draw = np.random.default_rng((seed, number))
        coming = burst(draw)
        run = Forward(state, durations, arrivals, draw, [coming], [coming.queue])
        try:
            run.first_starts({}, coming.at + coming.deadline_seconds + 1.0, budget)
        except OutOfTimeError:
            break
        outcomes += run.held.values()
    return sum(outcomes) / len(outcomes) if outcomes else None
