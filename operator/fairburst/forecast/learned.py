"""Distributions of durations and arrivals, learned from ended work and from arrived jobs (3Sigma, EuroSys 2018).

A duration is drawn from the recent ones of the same queue and job size if there are enough, else of that size in any queue, else of all.
Nothing is fitted: a distribution is the sample itself, so that two modes stay two modes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairburst.sim.workload import DagJob

RECENT = 200  # the newest durations, and arrivals of a queue, that are kept
ENOUGH = 5  # durations of one kind before they are used instead of more general ones
GUESS_SECONDS = 60.0  # the scale of durations before any work has ended
UNSEEN_FACTOR = 2.0  # work that has run longer than all past work runs for up to this multiple of that time


def size_class(tasks: int) -> int:
    """Return the size class of a job. Each class spans a factor of four in the number of tasks."""
    return int(math.log2(max(1, tasks)) / 2)


@dataclass(slots=True)
class Durations:
    """Seconds that tasks ran, by queue and size class."""

    _seen: dict[tuple[str, int], deque[float]] = field(default_factory=dict)

    def ended(self, queue: str, tasks: int, seconds: float) -> None:
        """Add the duration of the tasks of a stage (or Job), which has `tasks` of them."""
        for kind in ((queue, size_class(tasks)), ("", size_class(tasks)), ("", -1)):
            self._seen.setdefault(kind, deque(maxlen=RECENT)).append(seconds)

    def samples(self, queue: str, tasks: int) -> Sequence[float]:
        """Return the durations of the most specific kind that has enough; empty if nothing has ended yet."""
        kinds = ((queue, size_class(tasks)), ("", size_class(tasks)), ("", -1))
        return next((self._seen[kind] for kind in kinds if len(self._seen.get(kind, ())) >= ENOUGH), self._seen.get(("", -1), ()))

    def of_queue(self, queue: str) -> Sequence[float]:
        """Return the durations of one queue's work of any size; empty if there are too few."""
        found = [one for (name, _), seen in self._seen.items() if name == queue for one in seen]
        return found if queue and len(found) >= ENOUGH else ()

    def draw(self, queue: str, tasks: int, elapsed: float, draw: np.random.Generator) -> float:
        """Draw a duration for a stage whose longest-running task has run for `elapsed`."""
        known = self.samples(queue, tasks)
        if not known:
            return max(GUESS_SECONDS, elapsed) * float(draw.exponential()) + elapsed
        longer = [one for one in known if one > elapsed] if elapsed > 0 else known
        if not longer:
            return elapsed * float(draw.uniform(1.0, UNSEEN_FACTOR))
        return float(longer[int(draw.integers(len(longer)))])


@dataclass(slots=True)
class Arrivals:
    """The last jobs of each queue, and the seconds between them."""

    _jobs: dict[str, deque[tuple[float, DagJob]]] = field(default_factory=dict)

    def came(self, queue: str, time: float, job: DagJob) -> None:
        """Add the arrival of a job. Its durations are ignored."""
        self._jobs.setdefault(queue, deque(maxlen=RECENT)).append((time, job))

    @property
    def queues(self) -> list[str]:
        """Return the queues whose next jobs can be predicted."""
        return [queue for queue, jobs in self._jobs.items() if len(jobs) >= ENOUGH and jobs[-1][0] > jobs[0][0]]

    def without(self, queues: Collection[str]) -> Arrivals:
        """Return the arrivals of all other queues."""
        return Arrivals({queue: jobs for queue, jobs in self._jobs.items() if queue not in queues})

    def stream(self, queue: str, now: float, draw: np.random.Generator) -> Iterator[tuple[float, DagJob]]:
        """Yield the seconds to each next job of a queue, and the job: the past from a random moment on, so that crowded times stay crowded.

        The first gap is longer than the time from the last arrival to `now`, if one is, and counts from that arrival.
        """
        jobs = self._jobs[queue]
        since = now - jobs[-1][0]
        starts = [at for at in range(1, len(jobs)) if jobs[at][0] - jobs[at - 1][0] > since] or list(range(1, len(jobs)))
        at = starts[int(draw.integers(len(starts)))]
        gap = jobs[at][0] - jobs[at - 1][0]
        yield (gap - since if gap > since else gap), jobs[at][1]
        while True:
            at = at + 1 if at + 1 < len(jobs) else 1
            yield jobs[at][0] - jobs[at - 1][0], jobs[at][1]
